#!/bin/sh
# Checks what a build of Ancho needs from the system, and installs what is missing with apt-get where that is possible
# (as root, or through sudo). Otherwise it says exactly what to install, and fails.
#
# Needed: cargo, a C compiler, libclang (a build dependency binds C headers with it), and for the tests and the DuckDB
# comparison Python 3 with its venv module.
set -eu

missing=""    # packages by their Debian names
reasons=""

need() { # package, what for
    missing="$missing $1"
    reasons="$reasons
  $1: $2"
}

have() { command -v "$1" >/dev/null 2>&1; }

exists() { # any of these files
    for found in "$@"; do
        [ -e "$found" ] && return 0
    done
    return 1
}

# The library and the compiler's own headers (stddef.h), which are two packages in some systems.
have_libclang() {
    if [ -n "${LIBCLANG_PATH:-}" ]; then
        exists "$LIBCLANG_PATH"/libclang.so* "$LIBCLANG_PATH"/libclang-*.so* "$LIBCLANG_PATH"/libclang.dylib
        return
    fi
    exists /usr/lib/llvm*/lib/libclang.so* /usr/lib/llvm*/lib/libclang-[0-9]*.so* /usr/lib/*/libclang-[0-9]*.so* \
        /usr/lib/libclang.so* /usr/lib64/libclang.so* /usr/lib64/llvm*/lib/libclang.so* /usr/local/lib/libclang.so* \
        /opt/homebrew/opt/llvm/lib/libclang.dylib /Library/Developer/CommandLineTools/usr/lib/libclang.dylib &&
        exists /usr/lib/llvm*/lib/clang/*/include/stddef.h /usr/lib/clang/*/include/stddef.h \
            /usr/lib64/clang/*/include/stddef.h /usr/local/lib/clang/*/include/stddef.h \
            /opt/homebrew/opt/llvm/lib/clang/*/include/stddef.h \
            /Library/Developer/CommandLineTools/usr/lib/clang/*/include/stddef.h
}

# Not in a package of the system: the pinned compiler comes with rustup.
if ! have cargo; then
    if [ -x "$HOME/.cargo/bin/cargo" ]; then
        echo "setup: cargo is in $HOME/.cargo/bin, which is not on the PATH: run  . \"$HOME/.cargo/env\"  and try again" >&2
    else
        echo "setup: cargo is missing: install Rust 1.95 or newer as https://rustup.rs says, and try again" >&2
    fi
    exit 1
fi

have cc || have gcc || have clang || need build-essential "a C compiler, for SQLite and Zstandard"
have_libclang || need libclang-dev "libclang, which a build dependency reads C headers with"
if ! have python3; then
    need python3 "Python, for the tests with a real client and the DuckDB comparison"
    need python3-venv "its venv module"
elif ! python3 -c 'import venv, ensurepip' >/dev/null 2>&1; then
    need python3-venv "Python's venv module, for the tests with a real client and the DuckDB comparison"
fi

[ -z "$missing" ] && exit 0

echo "setup: missing:$reasons" >&2

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    # Without a terminal, sudo must not ask.
    if have sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        as_root="sudo"
    else
        as_root="none"
    fi
fi

if have apt-get && [ "$as_root" != "none" ]; then
    echo "setup: installing them with apt-get" >&2
    # shellcheck disable=SC2086  # a list of words
    if $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >&2; then
        exit 0
    fi
    # The lists of a fresh machine are empty or old.
    $as_root apt-get update >&2
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >&2
    exit 0
fi

if have apt-get; then
    echo "setup: run  apt-get install$missing  as root, and try again" >&2
else
    echo "setup: install them with this system's package manager, and try again. The names above are Debian's; Fedora:" >&2
    echo "  gcc clang-devel python3    macOS: xcode-select --install, brew install llvm python" >&2
fi
exit 1
