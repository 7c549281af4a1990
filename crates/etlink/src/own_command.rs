//! How this program is started anew.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

// a global, as the path of the executable is one
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Names the program and its first arguments, where the executable is not `etlink` itself.
pub fn set_words(words: Vec<OsString>) {
    let is_first = WORDS.set(words).is_ok();
    debug_assert!(is_first, "a process runs one command");
}

/// `etlink`, still without a subcommand.
///
/// # Errors
/// The system does not say what the executable is.
pub fn own_command() -> Result<Command> {
    // inside of Python the executable is the interpreter, which needs the script as well
    if let Some((program, rest)) = WORDS.get().and_then(|words| words.split_first()) {
        let mut command = Command::new(program);
        command.args(rest);
        return Ok(command);
    }
    let program = std::env::current_exe().context("cannot find etlink itself")?;
    Ok(Command::new(program))
}
