//! The binary `ancho`. Everything it does is in the library of this crate.
use std::process::ExitCode;

fn main() -> ExitCode {
    ancho_cli::main()
}
