//! Clock, and system facts about the process and its threads.
#![allow(clippy::disallowed_methods, reason = "recorders look at the clock")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Steady clock, with the wall-clock time of its creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanClock {
    origin: Instant,
    unix_ns: i64,
}

impl SpanClock {
    pub(crate) fn new() -> SpanClock {
        // The wall clock is read once: NTP steps during the run must not distort the trace.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        SpanClock {
            origin: Instant::now(),
            unix_ns: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        }
    }

    /// Returns nanoseconds since the clock was created.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        let since = self.origin.elapsed();
        since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
    }

    /// Converts a time of this clock to Unix nanoseconds.
    pub(crate) fn unix(&self, since_ns: u64) -> i64 {
        self.unix_ns.saturating_add_unsigned(since_ns)
    }
}

/// Formats local time as in the execution trace: `2026-11-21 03:14:24`.
pub(crate) fn local_time(unix_ns: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system())
        .strftime("%Y-%m-%d %H:%M:%S")
        .to_string()
}

/// Returns the file name of the program.
pub(crate) fn process_name() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_stem().map_or_else(
        || "rust".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

/// Returns the system id of this thread, if there is a `/proc`.
pub(crate) fn os_thread() -> Option<u64> {
    let path = std::fs::read_link("/proc/thread-self").ok()?;
    path.file_name()?.to_str()?.parse().ok()
}
