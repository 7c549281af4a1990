//! Command that starts this program again.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

// a global, like the path of the executable
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the program and its first arguments, if the executable is not `etlink` itself.
pub fn set_words(words: Vec<OsString>) {
    let is_first = WORDS.set(words).is_ok();
    debug_assert!(is_first, "a process runs one command");
}

/// Returns the command that starts `etlink`, without a subcommand.
///
/// # Errors
/// The system does not report the executable.
pub fn own_command() -> Result<Command> {
    // within Python, the executable is the interpreter, which also needs the script
    if let Some((program, rest)) = WORDS.get().and_then(|words| words.split_first()) {
        let mut command = Command::new(program);
        command.args(rest);
        return Ok(command);
    }
    let program = std::env::current_exe().context("cannot find etlink itself")?;
    Ok(Command::new(program))
}
