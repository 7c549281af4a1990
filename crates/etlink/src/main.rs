//! The program `etlink`; all of it is in the library.
#![allow(
    clippy::disallowed_methods,
    reason = "the arguments are for the program"
)]

use std::process::ExitCode;

/// The stack that commands get at once, bytes. The system gives 132 KiB to begin with.
const STACK_BYTES: usize = 512 << 10;

fn main() -> ExitCode {
    take_stack();
    ExitCode::from(etlink::run_command(std::env::args_os()))
}

/// Grows the stack before anything else takes memory. Where a limit of the process (`ulimit -v`) leaves
/// nothing for it later, the system ends the program without a word.
#[inline(never)]
fn take_stack() {
    let mut area = [0u8; STACK_BYTES];
    std::hint::black_box(&mut area);
}
