//! Faults for tests: `ETLINK_FAULT=rename:3:ENOSPC` makes the third renaming fail, as on a full
//! disk.
//!
//! The kinds of calls are the variants of [`DiskCall`] in lower case, or `any`. Instead of an
//! error, `KILL`, `STOP` and `TERM` send that signal to the process; SIGKILL interrupts a write in
//! the middle.

#![allow(clippy::print_stderr, reason = "tests")]

use super::DiskCall;
use nix::sys::signal::{Signal, raise};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

struct InjectedFault {
    /// Kind of call; `None` for any.
    call: Option<DiskCall>,
    number: u64,
    effect: Effect,
    count: AtomicU64,
}

#[derive(Clone, Copy)]
enum Effect {
    Error(i32),
    Signal(Signal),
}

static FAULT: LazyLock<Option<InjectedFault>> = LazyLock::new(|| {
    let text = std::env::var("ETLINK_FAULT").ok()?;
    let fault = parse(&text);
    assert!(fault.is_some(), "ETLINK_FAULT={text} is not a fault");
    fault
});

fn parse(text: &str) -> Option<InjectedFault> {
    let [call, number, effect] = text.split(':').collect::<Vec<_>>().try_into().ok()?;
    let call = match call {
        "any" => None,
        "make_folder" => Some(DiskCall::MakeFolder),
        "create" => Some(DiskCall::Create),
        "lock" => Some(DiskCall::Lock),
        "write" => Some(DiskCall::Write),
        "sync" => Some(DiskCall::Sync),
        "rename" => Some(DiskCall::Rename),
        "remove" => Some(DiskCall::Remove),
        _ => return None,
    };
    let effect = match effect {
        "ENOSPC" => Effect::Error(nix::libc::ENOSPC),
        "EIO" => Effect::Error(nix::libc::EIO),
        "ENOLCK" => Effect::Error(nix::libc::ENOLCK),
        "KILL" => Effect::Signal(Signal::SIGKILL),
        "STOP" => Effect::Signal(Signal::SIGSTOP),
        "TERM" => Effect::Signal(Signal::SIGTERM),
        _ => return None,
    };
    Some(InjectedFault {
        call,
        number: number.parse().ok()?,
        effect,
        count: AtomicU64::new(0),
    })
}

/// Counts a call, and returns its fault, if any.
fn next(call: DiskCall) -> Option<Effect> {
    let fault = FAULT.as_ref()?;
    if fault.call.is_some_and(|own| own != call) {
        return None;
    }
    let number = fault.count.fetch_add(1, Ordering::SeqCst) + 1;
    (number == fault.number).then_some(fault.effect)
}

fn happen(effect: Effect, call: DiskCall, path: &Path) -> io::Result<()> {
    // tests check that the call occurred
    eprintln!("injected: {call:?} {}", path.display());
    match effect {
        Effect::Error(code) => Err(io::Error::from_raw_os_error(code)),
        Effect::Signal(signal) => {
            raise(signal)?;
            // time for the thread that handles signals
            std::thread::sleep(Duration::from_millis(20));
            Ok(())
        }
    }
}

/// Fails if a fault is due at this call.
pub(super) fn attempt(call: DiskCall, path: &Path) -> io::Result<()> {
    next(call).map_or(Ok(()), |effect| happen(effect, call, path))
}

/// Like `attempt`, for a write. Writes half of `bytes` before a SIGKILL. Returns `bytes`.
pub(super) fn attempt_write<'b>(
    path: &Path,
    file: &mut File,
    bytes: &'b [u8],
) -> io::Result<&'b [u8]> {
    let Some(effect) = next(DiskCall::Write) else {
        return Ok(bytes);
    };
    if let Effect::Signal(Signal::SIGKILL) = effect {
        let half = bytes.len() / 2;
        file.write_all(&bytes[..half])?;
    }
    happen(effect, DiskCall::Write, path)?;
    Ok(bytes)
}
