//! Runs the program with this process's standard streams and forwards signals to it.

use crate::signals::heeded;
use anyhow::{Context, Result};
use etlink_torch::Ended;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{SignalsInfo, exfiltrator::origin::WithOrigin};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Runs the program until it ends.
pub fn run(command: &mut Command) -> Result<Ended> {
    // skip signals that we were started to ignore (`nohup`): the program inherits that setting, and a
    // handler of ours would reset it to the default, which ends the program
    let heeded = heeded(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]);
    // listen before the program starts: a signal in between would end us and leave the program
    // running
    let signals = SignalsInfo::<WithOrigin>::new(heeded);
    let mut signals = signals.context("cannot listen for signals")?;
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{name}`; check the spelling and the PATH"))?;
    let handle = signals.handle();
    let process = i32::try_from(child.id()).map(Pid::from_raw);
    let forwarding = std::thread::spawn(move || {
        // the terminal sends its signals to the whole process group, so the program gets them
        // already
        for origin in signals.forever().filter(|origin| origin.process.is_some()) {
            if let (Ok(process), Ok(signal)) = (process, Signal::try_from(origin.signal)) {
                // the program may have just ended
                let _ = kill(process, signal);
            }
        }
    });
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for `{name}`"))?;
    handle.close();
    drop(forwarding.join());
    Ok(match (status.code(), status.signal()) {
        (None, Some(signal)) => Ended::Signal(signal),
        // neither a code nor a signal: cannot happen, because stopped processes are not waited for
        (code, _) => Ended::ExitCode(code.unwrap_or(1)),
    })
}
