//! Compiles the Chakra schema to Rust without `protoc`.

#![allow(clippy::print_stdout, reason = "how a build script talks to cargo")]

use prost::Message;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = "schema";
    println!("cargo:rerun-if-changed={folder}");
    let files = protox::compile(["et_def.proto"], [folder])?;
    // protobuf's own mapping to JSON, which `chakra_jsonizer` prints.
    let descriptors = files.encode_to_vec();
    prost_build::Config::new().compile_fds(files)?;
    pbjson_build::Builder::new()
        .register_descriptors(&descriptors)?
        .build(&[".ChakraProtoMsg"])?;
    Ok(())
}
