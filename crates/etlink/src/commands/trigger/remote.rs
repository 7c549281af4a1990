//! Jobs of another machine, such as `gpu7:/data/traces`: `etlink trigger` is run there, by ssh.
//!
//! Who may do that is ssh's to decide: a training that listens for requests would have to decide it
//! itself.

use crate::Outcome;
use crate::args::TriggerArgs;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// What ssh itself ends with.
const SSH_FAILED: i32 = 255;
/// What a shell ends with that finds no such command.
const NO_COMMAND: i32 = 127;

/// A job, and the machine where it runs.
#[derive(Debug, PartialEq, Eq)]
pub struct RemoteJob<'a> {
    /// As ssh takes it: `host`, `user@host`, or a name of its configuration.
    host: &'a str,
    /// Folder or process there.
    job: &'a str,
}

impl<'a> RemoteJob<'a> {
    /// `HOST:DIR` or `HOST:PID`, as scp takes it; what is a folder here is none.
    pub fn parse(job: &'a str) -> Option<RemoteJob<'a>> {
        let (host, rest) = job.split_once(':')?;
        // `C:\` is a drive, and what begins with a hyphen would be an option of ssh
        let is_host = host.len() > 1 && !host.contains('/') && !host.starts_with('-');
        let is_here = Path::new(job).exists();
        (is_host && !rest.is_empty() && !is_here).then_some(RemoteJob { host, job: rest })
    }

    /// Does there what was asked for here; what it prints and what it ends with is as here.
    pub fn run(&self, args: &TriggerArgs) -> Result<Outcome> {
        let mut words = vec!["etlink".to_owned(), "trigger".to_owned()];
        words.extend(options(args));
        words.push("--".to_owned());
        // the other side has a shell take it apart again
        let mut line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        line.push(match self.job.strip_prefix("~/") {
            // the home folder there, which only that shell knows
            Some(rest) => format!("~/{}", quoted(rest)),
            None => quoted(self.job),
        });
        let ran = Command::new("ssh")
            .args(["--", self.host])
            .arg(line.join(" "))
            // what stands there is the caller's; ssh asks for a password at the terminal
            .stdin(Stdio::null())
            .status()
            .context("cannot start ssh, by which a job of another machine is asked")?;
        match ran.code() {
            Some(SSH_FAILED) => bail!("ssh cannot reach {}", self.host),
            Some(NO_COMMAND) => bail!(
                "{} has no etlink on the PATH that ssh gives it: install it there, or name a folder \
                 that both machines share",
                self.host
            ),
            Some(code) => Ok(Outcome::Ran(u8::try_from(code).unwrap_or(2))),
            None => bail!("ssh was ended by a signal"),
        }
    }
}

/// The options, as they are typed.
fn options(args: &TriggerArgs) -> Vec<String> {
    let mut words = vec![];
    if let Some(steps) = args.steps {
        words.push(format!("--steps={steps}"));
    }
    if let Some(duration) = args.duration {
        words.push(format!("--for={}", duration.as_secs_f64()));
    }
    let flags = [
        ("--cancel", args.cancel),
        ("--stop", args.stop),
        ("--json", args.print.json),
    ];
    let given = flags.iter().filter(|(_, is_given)| *is_given);
    words.extend(given.map(|(flag, _)| (*flag).to_owned()));
    if let Some(timeout) = args.timeout {
        words.push(format!("--timeout={}", timeout.as_secs_f64()));
    }
    words
}

/// A word that a POSIX shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_other_machines_are_told_from_those_here() {
        let parsed = |job| RemoteJob::parse(job).map(|remote| (remote.host, remote.job));
        assert_eq!(parsed("gpu7:/data/a b"), Some(("gpu7", "/data/a b")));
        assert_eq!(parsed("me@gpu7:4711"), Some(("me@gpu7", "4711")));
        for here in [
            "traces",
            "4711",
            "./a:b",
            "/x/y:z",
            "gpu7:",
            r"C:\traces",
            "-oProxyCommand=x:y",
        ] {
            assert_eq!(parsed(here), None, "{here}");
        }
    }

    #[test]
    fn a_word_stays_one_word() {
        assert_eq!(quoted("a'; rm -rf x"), r"'a'\''; rm -rf x'");
    }
}
