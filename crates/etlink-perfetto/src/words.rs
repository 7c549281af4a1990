//! Words in a file that tell its reader what was recorded.

/// The group of arguments that the recording has of a range. A range without it was not recorded: a
/// step of the critical path, a piece for an arrow.
pub const RECORDED: &str = "recorded";
/// Beside that group, what of the event is not as on the rest of its track: `ph`, `pid`, `tid`.
pub const RECORDED_AS: &str = "recorded_as";
/// Says which program wrote the file.
pub const WRITTEN_BY: &str = "written_by";
/// The time of trace time 0, ns since the Unix epoch.
pub const BASE_TIME: &str = "base_time_ns";
/// The trace time of 0 in the file, ns.
pub const ORIGIN: &str = "origin_ns";
/// The layout of what can be read back; [`LAYOUT_VERSION`].
pub const LAYOUT: &str = "recorded_layout";
/// That of this version of etlink.
pub const LAYOUT_VERSION: &str = "1";
/// Around the events of the recording: `header_` and the key, with the value as it stood there.
pub const HEADER: &str = "header_";
/// Names of processes: a JSON list of pairs.
pub const PROCESS_NAMES: &str = "process_names";
/// Names of threads: a JSON list of `[pid, tid, name]`.
pub const THREAD_NAMES: &str = "thread_names";
/// In which order the recording names its threads and streams first: a JSON object, which stands
/// under [`ORDER_KEY`] in Kineto JSON.
pub const ORDER: &str = "recorded_order";
/// See [`ORDER`].
pub const ORDER_KEY: &str = "etlinkOrder";
/// The key of Kineto JSON under which stands how many rows the writer of a `.pftrace` cut.
pub const CUT_ROWS_KEY: &str = "etlinkCutRows";
/// The last entry of a whole file.
pub const COMPLETE: &str = "complete";
