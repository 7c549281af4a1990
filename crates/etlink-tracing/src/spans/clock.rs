//! The clock, and what the system says of the process and of its threads.
#![allow(clippy::disallowed_methods, reason = "recorders look at the clock")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Steady nanoseconds since it was made, and what the wall clock said then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanClock {
    origin: Instant,
    unix_ns: i64,
}

impl SpanClock {
    pub(crate) fn new() -> SpanClock {
        // The wall clock is read once: steps of NTP during the run must not bend the trace.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        SpanClock {
            origin: Instant::now(),
            unix_ns: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        }
    }

    /// Nanoseconds since the clock was made.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        let since = self.origin.elapsed();
        since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
    }

    /// A time of this clock as unix time, nanoseconds.
    pub(crate) fn unix(&self, since_ns: u64) -> i64 {
        self.unix_ns.saturating_add_unsigned(since_ns)
    }
}

/// Local time as the execution trace has it: `2026-11-21 03:14:24`.
pub(crate) fn local_time(unix_ns: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system())
        .strftime("%Y-%m-%d %H:%M:%S")
        .to_string()
}

/// What the program's file is called.
pub(crate) fn process_name() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_stem().map_or_else(
        || "rust".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

/// The system's number of this thread, where there is a `/proc`.
pub(crate) fn os_thread() -> Option<u64> {
    let path = std::fs::read_link("/proc/thread-self").ok()?;
    path.file_name()?.to_str()?.parse().ok()
}
