//! The program `etlink`; all of it is in the library.
#![allow(
    clippy::disallowed_methods,
    reason = "the arguments are for the program"
)]

use std::process::ExitCode;

/// Stack reserved at startup, in bytes. The system initially provides 132 KiB.
const STACK_BYTES: usize = 512 << 10;

fn main() -> ExitCode {
    take_stack();
    ExitCode::from(etlink::run_command(std::env::args_os()))
}

/// Grows the stack before anything else takes memory. If a limit of the process (`ulimit -v`) left
/// no room for it later, the system would end the program without a message.
#[inline(never)]
fn take_stack() {
    let mut area = [0u8; STACK_BYTES];
    std::hint::black_box(&mut area);
}
