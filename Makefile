# The commands of the project. `make demo` is the first one to try, `make test` the second.
#
#   make demo     build, then show a cluster that answers the 22 queries of TPC-H   (DEMO_ARGS="--executors 4")
#   make test     all tests
#   make nightly  random histories of the storage engine, 2,000 and more of each kind   (RUNS=2000),
#                 and all of the SQL corpus on all topologies
#   make release  the optimised binary, $(CARGO_TARGET_DIR)/release/ancho (long: 40 minutes on 2 cores, cold)
#   make bench    TPC-H measured with it against DuckDB and DataFusion              (SCALE=1 EXECUTORS=2)
#   make check    what a change must pass: format, lints
#   make fmt      format the code
#   make lint     lints only
#
# The target directory lies outside of the checkout and can be set: make demo CARGO_TARGET_DIR=/tmp/target

CARGO_TARGET_DIR ?= $(HOME)/.cache/ancho/target
export CARGO_TARGET_DIR

# A debug build in which the code that touches every row is optimised; see Cargo.toml.
PROFILE ?= quick
ANCHO = $(CARGO_TARGET_DIR)/$(PROFILE)/ancho

DEMO_ARGS ?=
TEST_ARGS ?= --no-fail-fast
RUNS ?= 2000
SCALE ?= 1
EXECUTORS ?= 2
BENCH_ARGS ?= --verify --peers duckdb,datafusion

.DEFAULT_GOAL := demo
.PHONY: demo build test nightly release bench check fmt lint setup

setup:
	@sh deploy/setup.sh

# `--workspace` here and below: the same features for everything, so that nothing is compiled twice.
build: setup
	@if [ ! -x "$(ANCHO)" ]; then \
	  echo "Building Ancho for the first time: about 17 minutes on 2 cores (the query engine is large)."; \
	  echo "Later builds take seconds. The result stays in $(CARGO_TARGET_DIR)."; \
	fi
	cargo build --locked --workspace --bin ancho --profile $(PROFILE)

demo: build
	@"$(ANCHO)" demo $(DEMO_ARGS)

# Tests start the binary as processes, so it is built first.
test: build
	@if cargo nextest --version >/dev/null 2>&1; then \
	  echo "cargo nextest run --workspace --cargo-profile $(PROFILE) $(TEST_ARGS)"; \
	  cargo nextest run --locked --workspace --cargo-profile $(PROFILE) $(TEST_ARGS); \
	else \
	  echo "cargo test --workspace --profile $(PROFILE) $(TEST_ARGS)"; \
	  cargo test --locked --workspace --lib --bins --tests --profile $(PROFILE) $(TEST_ARGS); \
	fi

# The same tests as in `make test`, of more seeds and on more topologies; each failure prints how to repeat it. Hours on 2 cores.
nightly: build
	CAYENNE_MODEL_RUNS=$(RUNS) CAYENNE_COLUMNS_RUNS=$(RUNS) CAYENNE_TYPES_RUNS=$(RUNS) \
	  cargo test --locked -p cayenne --test engine --profile $(PROFILE) -- --nocapture \
	  model:: keyed_model:: columns:: transactions::random_histories lookup_index::random_histories types::
	ANCHO_GATE=full cargo test --locked -p ancho-integration --test suite --profile $(PROFILE) -- --nocapture differential::

release: setup
	@echo "An optimised build: about 40 minutes on 2 cores when nothing is built yet."
	cargo build --locked --workspace --bin ancho --release
	@echo "built $(CARGO_TARGET_DIR)/release/ancho"

bench: release
	@"$(CARGO_TARGET_DIR)/release/ancho" bench tpch --scale $(SCALE) --executors $(EXECUTORS) $(BENCH_ARGS)

check: fmt-check lint

.PHONY: fmt-check
fmt-check:
	cargo fmt --all --check

fmt:
	cargo fmt --all

lint: setup
	cargo clippy --locked --workspace --all-targets --profile $(PROFILE) -- -D warnings
