//! Jobs on another machine, such as `gpu7:/data/traces`: runs `etlink trigger` there over ssh.
//!
//! ssh decides who may do that; a training program that listened for requests would need its own
//! access control.

use crate::Outcome;
use crate::args::TriggerArgs;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Exit code of ssh itself on failure.
const SSH_FAILED: i32 = 255;
/// Exit code of a shell that does not find the command.
const NO_COMMAND: i32 = 127;

/// A job and the machine that it runs on.
#[derive(Debug, PartialEq, Eq)]
pub struct RemoteJob<'a> {
    /// Destination in ssh's syntax: `host`, `user@host`, or a name from its configuration.
    host: &'a str,
    /// Folder or process on that machine.
    job: &'a str,
}

impl<'a> RemoteJob<'a> {
    /// Parses `HOST:DIR` or `HOST:PID`, as scp does; `None` if `job` is a local path.
    pub fn parse(job: &'a str) -> Option<RemoteJob<'a>> {
        let (host, rest) = job.split_once(':')?;
        // `C:\` is a drive, and a leading hyphen would start an option of ssh
        let is_host = host.len() > 1 && !host.contains('/') && !host.starts_with('-');
        let is_here = Path::new(job).exists();
        (is_host && !rest.is_empty() && !is_here).then_some(RemoteJob { host, job: rest })
    }

    /// Runs the request on the other machine, with the output and exit code of a local run.
    pub fn run(&self, args: &TriggerArgs) -> Result<Outcome> {
        let mut words = vec!["etlink".to_owned(), "trigger".to_owned()];
        words.extend(options(args));
        words.push("--".to_owned());
        // a shell on the other machine splits the line again
        let mut line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        line.push(match self.job.strip_prefix("~/") {
            // only that shell knows the home folder there
            Some(rest) => format!("~/{}", quoted(rest)),
            None => quoted(self.job),
        });
        let ran = Command::new("ssh")
            .args(["--", self.host])
            .arg(line.join(" "))
            // standard input belongs to our caller; ssh asks for passwords at the terminal
            .stdin(Stdio::null())
            .status()
            .context("cannot start ssh, which is needed for a job on another machine")?;
        match ran.code() {
            Some(SSH_FAILED) => bail!("ssh cannot reach {}", self.host),
            Some(NO_COMMAND) => bail!(
                "{} has no etlink on the PATH of ssh; install it there, or give a folder that both \
                 machines share",
                self.host
            ),
            Some(code) => Ok(Outcome::Ran(u8::try_from(code).unwrap_or(2))),
            None => bail!("ssh was ended by a signal"),
        }
    }
}

/// Returns the options as command-line words.
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

/// Quotes a word for a POSIX shell.
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
