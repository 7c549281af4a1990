//! The program `etlink`; all of it is in the library.
#![allow(
    clippy::disallowed_methods,
    reason = "the arguments are for the program"
)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(etlink::run_command(std::env::args_os()))
}
