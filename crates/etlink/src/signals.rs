//! SIGINT, SIGTERM and SIGHUP: unfinished files go, then the program does.

use etlink_run::interrupt::Changes;
use std::io;

/// Has a program that gets no memory end with 2. Rust ends it by SIGABRT, once it has said how much
/// it wanted: to whoever started it that is an error as others are. Nothing more can be done without
/// memory; unfinished files go with the next run, as after SIGKILL.
#[cfg(unix)]
pub fn end_without_memory() {
    use signal_hook::consts::SIGABRT;
    use std::sync::{Arc, atomic::AtomicBool};

    let is_armed = Arc::new(AtomicBool::new(true));
    // without the handler only the number differs
    drop(signal_hook::flag::register_conditional_shutdown(
        SIGABRT, 2, is_armed,
    ));
}

/// There is no such signal.
#[cfg(not(unix))]
pub fn end_without_memory() {}

/// Ends the program with 128 + the number of the signal, as shells do, at SIGINT, SIGTERM and
/// SIGHUP.
///
/// # Errors
/// If the system takes no handler.
#[cfg(unix)]
pub fn install_handlers() -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use std::sync::{Arc, atomic::AtomicBool};

    let mut signals = signal_hook::iterator::Signals::new(heeded(&[SIGINT, SIGTERM, SIGHUP]))?;
    // a file that grows beyond `ulimit -f` is an error of its write, not the end of the program
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let wait = move || {
        // the handler may only set a flag: locks and files are for a thread of their own
        if let Some(signal) = signals.forever().next() {
            end_program(128 + signal);
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)?;
    Ok(())
}

/// Ends the program with 130 at Ctrl-C.
///
/// # Errors
/// If the system takes no handler.
#[cfg(not(unix))]
pub fn install_handlers() -> io::Result<()> {
    ctrlc::set_handler(|| end_program(130)).map_err(io::Error::other)
}

/// Those that the parent does not have us ignore: a shell under `nohup` has said that we outlive the
/// terminal, and a handler would undo that.
#[cfg(unix)]
pub fn heeded(signals: &[i32]) -> Vec<i32> {
    let ignored = ignored_signals();
    let is_heeded = |signal: &i32| ignored & (1 << (signal - 1)) == 0;
    signals.iter().copied().filter(is_heeded).collect()
}

/// Signals that the parent has us ignore, as a mask: SIGHUP under `nohup`, SIGINT of a shell's
/// background job.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    // sigaction, which would say it everywhere, needs unsafe; without /proc nothing is ignored
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0)
}

fn end_program(code: i32) -> ! {
    // held until the process is gone
    let changes = Changes::begin();
    changes.remove_all_unfinished();
    #[allow(clippy::exit, reason = "there is no way back from a signal")]
    std::process::exit(code)
}

/// Waits while a signal ends the program, so that nobody sees the errors that this causes.
pub fn wait_for_end() {
    drop(Changes::begin());
}
