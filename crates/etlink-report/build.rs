//! Compiles the Perfetto schema to Rust. Needs no `protoc`.

#![allow(clippy::print_stdout, reason = "how a build script talks to cargo")]

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = "schema";
    println!("cargo:rerun-if-changed={folder}");
    let files = protox::compile(["trace.proto"], [folder])?;
    prost_build::Config::new().compile_fds(files)?;
    Ok(())
}
