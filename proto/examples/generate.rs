//! Regenerates `src/generated` from the `.proto` files. Needs `protoc` (Debian: protobuf-compiler):
//! `cargo run -p ancho-proto --example generate`.
use std::path::Path;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = root.join("proto/ancho/v1");
    let files = ["scheduler.proto", "executor.proto", "plan.proto", "transfer.proto"].map(|f| dir.join(f));
    tonic_prost_build::configure()
        .bytes(".")
        .out_dir(root.join("src/generated"))
        .compile_protos(&files, &[root.join("proto")])
}
