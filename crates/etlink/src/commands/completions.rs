//! `etlink completions`: prints the script with which a shell completes command lines.

use crate::args::CompletionsArgs;
use crate::{Outcome, command_line};
use anyhow::Result;
use etlink_run::output::StdoutError;
use std::io::Write;

pub fn run(args: &CompletionsArgs) -> Result<Outcome> {
    // `generate` would panic if standard output is closed
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command_line(), "etlink", &mut script);
    let mut out = std::io::stdout().lock();
    out.write_all(&script)
        .and_then(|()| out.flush())
        .map_err(StdoutError)?;
    Ok(Outcome::Done)
}
