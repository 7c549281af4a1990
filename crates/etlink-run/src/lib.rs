//! Opens a run: finds the traces of its ranks; pairs, reads, links, joins and writes them.
//!
//! This is the library below the command. It reads and writes files, but does not print, use the
//! terminal or end the process. It reports to a [`Progress`], and a [`Cancellation`] ends it early.
//!
//! Like `etlink merge`, write a Chakra file per rank:
//!
//! ```
//! use etlink_model::GlobalRank;
//! use etlink_run::merge::{MergeOptions, merge};
//! use etlink_run::{RunOptions, RunSet, RunSource};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temporary = tempfile::tempdir()?;
//! # let output = temporary.path();
//! let source = RunSource::Folder("../../testdata/pairs/ddp2-2.15.0".into());
//! let runs = RunSet::open(source, RunOptions::default())?;
//! let options = MergeOptions::default();
//! let report = merge(&runs, output, &options)?;
//! assert!(report.is_complete());
//! assert_eq!(report.runs[0].ranks, [0, 1].map(GlobalRank));
//! assert!(output.join("ddp2-2.15.0.1.et").is_file());
//! # Ok(())
//! # }
//! ```
//!
//! Find the ranks that were late for the collectives of a run, without writing files:
//!
//! ```
//! use etlink_run::{Run, RunError, RunOptions, RunSource};
//!
//! # fn main() -> Result<(), RunError> {
//! let source = RunSource::Folder("../../testdata/pairs/ddp2-2.15.0".into());
//! let run = Run::open(source, RunOptions::default())?;
//! let joined = run.join()?;
//! println!("{} ranks", joined.summaries.len());
//! for rank in joined.straggler_stats() {
//!     println!("rank {} made others wait {} ns", rank.rank, rank.caused_ns);
//! }
//! # Ok(())
//! # }
//! ```
#![allow(
    clippy::disallowed_methods,
    reason = "the one library that reads and writes files, and measures how long that took"
)]

pub mod anonymous;
mod cancel;
mod captures;
pub mod convert;
mod device_readers;
pub mod discover;
mod error;
mod file_error;
mod file_kind;
pub mod flight;
pub mod graphs;
pub mod input;
pub mod inspector;
pub mod interrupt;
pub mod job;
pub mod joined;
mod listing;
mod made_run;
pub mod manifest;
pub mod measurements;
pub mod membership;
pub mod memory;
pub mod memory_snapshot;
pub mod merge;
mod merged;
mod missing_feature;
mod one_run;
pub mod output;
mod overhead;
pub mod perfetto;
pub mod prepared;
mod progress;
pub mod rank_results;
mod rank_rule;
pub mod read_cache;
pub mod run;
mod run_files;
pub mod shard;
pub mod simulated;
mod slice;
mod slice_begin;
mod step_pattern;
pub mod storage;
mod stored;
pub mod text;
pub mod workloads;

pub use cancel::{Cancellation, Cancelled};
pub use captures::CaptureFiles;
pub use error::{RunError, remedy_of};
pub use file_error::{FileAction, FileError};
pub use file_kind::is_folder;
pub use joined::JoinedRun;
pub use membership::{Excluded, Exclusion, Members};
pub use memory_snapshot::read_memory_snapshot;
pub use missing_feature::missing_feature;
pub use one_run::Run;
pub use overhead::{Overhead, overhead_note};
pub use progress::{Progress, ProgressListener};
pub use rank_rule::{FolderLayout, RankRule};
pub use read_cache::{CacheUsage, ReadCache};
pub use run::{LinkedRank, RankContent, RankTraces, RunOptions, RunSet, RunSource, WrittenRank};
pub use slice::TraceSlice;
pub use step_pattern::StepPattern;
