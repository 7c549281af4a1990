//! SIGINT, SIGTERM and SIGHUP: removes unfinished files, then ends the program.

use etlink_run::interrupt::Changes;
use std::io;

/// Makes the program exit with 2 if it runs out of memory. Rust reports the size of the failed
/// request and raises SIGABRT; with exit code 2, the caller sees an ordinary error. Nothing more
/// can be done without memory; the next run removes unfinished files, as after SIGKILL.
#[cfg(unix)]
pub fn end_without_memory() {
    use signal_hook::consts::SIGABRT;
    use std::sync::{Arc, atomic::AtomicBool};

    let is_armed = Arc::new(AtomicBool::new(true));
    // without the handler, only the exit code differs
    drop(signal_hook::flag::register_conditional_shutdown(
        SIGABRT, 2, is_armed,
    ));
}

/// Does nothing: other systems have no such signal.
#[cfg(not(unix))]
pub fn end_without_memory() {}

/// Makes SIGINT, SIGTERM, and SIGHUP end the program with 128 + the signal's number, as in shells.
///
/// # Errors
/// The system rejects a handler.
#[cfg(unix)]
pub fn install_handlers() -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use std::sync::{Arc, atomic::AtomicBool};

    let mut signals = signal_hook::iterator::Signals::new(heeded(&[SIGINT, SIGTERM, SIGHUP]))?;
    // growing a file beyond `ulimit -f` fails the write, instead of ending the program
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let wait = move || {
        // the handler may only set a flag: locks and files need a separate thread
        if let Some(signal) = signals.forever().next() {
            end_program(128 + signal);
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)?;
    Ok(())
}

/// Makes Ctrl-C end the program with 130.
///
/// # Errors
/// The system rejects the handler.
#[cfg(not(unix))]
pub fn install_handlers() -> io::Result<()> {
    ctrlc::set_handler(|| end_program(130)).map_err(io::Error::other)
}

/// Returns the signals that the parent does not make us ignore: under `nohup` we are meant to
/// outlive the terminal, and a handler would undo that.
#[cfg(unix)]
pub fn heeded(signals: &[i32]) -> Vec<i32> {
    let ignored = ignored_signals();
    let is_heeded = |signal: &i32| ignored & (1 << (signal - 1)) == 0;
    signals.iter().copied().filter(is_heeded).collect()
}

/// Returns a mask of the signals that the parent makes us ignore: SIGHUP under `nohup`, SIGINT for
/// a shell's background job.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    // sigaction would work everywhere, but needs unsafe; without /proc nothing counts as ignored
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0)
}

fn end_program(code: i32) -> ! {
    // held until the process has ended
    let changes = Changes::begin();
    changes.remove_all_unfinished();
    #[allow(clippy::exit, reason = "there is no way back from a signal")]
    std::process::exit(code)
}

/// Waits if a signal is ending the program, so that nobody sees the errors that this causes.
pub fn wait_for_end() {
    drop(Changes::begin());
}
