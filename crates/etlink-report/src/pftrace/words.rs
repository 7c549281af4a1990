//! Keys in a file that mark recorded data for its reader.

/// Group of arguments with the recorded data of a range. A range without it was not recorded: a
/// step of the critical path, or a piece for an arrow.
pub const RECORDED: &str = "recorded";
/// Group next to [`RECORDED`] with fields that differ from the rest of the track: `ph`, `pid`,
/// `tid`.
pub const RECORDED_AS: &str = "recorded_as";
/// Key of the program that wrote the file.
pub const WRITTEN_BY: &str = "written_by";
/// Key of the time at trace time 0, ns since the Unix epoch.
pub const BASE_TIME: &str = "base_time_ns";
/// Key of the trace time that is 0 in the file, ns.
pub const ORIGIN: &str = "origin_ns";
/// Key of the layout of recorded data; [`LAYOUT_VERSION`].
pub const LAYOUT: &str = "recorded_layout";
/// Layout written by this version of etlink.
pub const LAYOUT_VERSION: &str = "1";
/// Prefix of the keys around the recording's events: `header_` and the key, with its original
/// value.
pub const HEADER: &str = "header_";
/// Key of process names: a JSON list of pairs.
pub const PROCESS_NAMES: &str = "process_names";
/// Key of thread names: a JSON list of `[pid, tid, name]`.
pub const THREAD_NAMES: &str = "thread_names";
/// Key of the order in which the recording first names its threads and streams: a JSON object,
/// stored under [`ORDER_KEY`] in Kineto JSON.
pub const ORDER: &str = "recorded_order";
/// Key of [`ORDER`] in Kineto JSON.
pub const ORDER_KEY: &str = "etlinkOrder";
/// Key in Kineto JSON for the number of rows that the writer of a `.pftrace` shortened.
pub const CUT_ROWS_KEY: &str = "etlinkCutRows";
/// Key of the last entry in a whole file.
pub const COMPLETE: &str = "complete";
