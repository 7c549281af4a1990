//! Runs the program with this process's standard streams and forwards signals to it.

use anyhow::{Context, Result};
use etlink_torch::Ended;
use std::process::{Child, Command, ExitStatus};

/// Runs the program until it ends.
pub fn run(command: &mut Command) -> Result<Ended> {
    // listen before the program starts: a signal in between would end us and leave the program
    // running
    let forwarding = SignalForwarding::new().context("cannot listen for signals")?;
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{name}`; check the spelling and the PATH"))?;
    let forwarding = forwarding.pass_to(&child);
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for `{name}`"))?;
    forwarding.end();
    Ok(ended(status))
}

#[cfg(unix)]
fn ended(status: ExitStatus) -> Ended {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (None, Some(signal)) => Ended::Signal(signal),
        // neither a code nor a signal: cannot happen, because stopped processes are not waited for
        (code, _) => Ended::ExitCode(code.unwrap_or(1)),
    }
}

#[cfg(not(unix))]
fn ended(status: ExitStatus) -> Ended {
    Ended::ExitCode(status.code().unwrap_or(1))
}

#[cfg(unix)]
use passing::Forwarding as SignalForwarding;

#[cfg(unix)]
mod passing {
    use super::Child;
    use crate::signals::heeded;
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    use signal_hook::iterator::{Handle, SignalsInfo, exfiltrator::origin::WithOrigin};
    use std::thread::JoinHandle;

    /// Signal listener that exists before the program starts, so that no signal ends only this
    /// process.
    pub struct Forwarding(SignalsInfo<WithOrigin>);

    pub struct Started {
        handle: Handle,
        thread: JoinHandle<()>,
    }

    impl Forwarding {
        pub fn new() -> std::io::Result<Forwarding> {
            // skip signals that we were started to ignore (`nohup`): the program inherits that
            // setting, and a handler of ours would reset it to the default, which ends the program
            let heeded = heeded(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]);
            SignalsInfo::new(heeded).map(Forwarding)
        }

        pub fn pass_to(self, child: &Child) -> Started {
            let (mut signals, child) = (self.0, child.id());
            let handle = signals.handle();
            let thread = std::thread::spawn(move || {
                // the terminal sends its signals to the whole process group, so the program gets
                // them already
                for origin in signals.forever().filter(|origin| origin.process.is_some()) {
                    let child = i32::try_from(child).map(Pid::from_raw);
                    if let (Ok(child), Ok(signal)) = (child, Signal::try_from(origin.signal)) {
                        // the program may have just ended
                        let _ = kill(child, signal);
                    }
                }
            });
            Started { handle, thread }
        }
    }

    impl Started {
        pub fn end(self) {
            self.handle.close();
            drop(self.thread.join());
        }
    }
}

/// Placeholder for other systems, on which the console notifies all programs itself.
#[cfg(not(unix))]
struct SignalForwarding;

#[cfg(not(unix))]
impl SignalForwarding {
    fn new() -> std::io::Result<SignalForwarding> {
        Ok(SignalForwarding)
    }

    fn pass_to(self, _: &Child) -> SignalForwarding {
        self
    }

    fn end(self) {}
}
