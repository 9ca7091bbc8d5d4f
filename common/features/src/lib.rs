//! One set of features for the shared dependencies.
//!
//! Cargo builds a dependency with the features that the selected crates ask for; without this crate, `cargo test -p
//! cayenne` and `cargo build -p ancho-cli` would each compile the query engine anew. Every crate of the workspace
//! depends on this one, which depends on all third-party crates and holds no code.
