//! Results of the commands as tables and values, for programs that call etlink.
//!
//! The commands make their output with the same functions. Nothing is printed, and each document is
//! about a single run.

pub use crate::commands::{
    AnalyzeDocument, AnalyzeQuery, DiffDocument, FindingsReport, HtaDocument, HtaQuery,
    OpsDocument, RanksDocument, ReplayDocument, ReplayQuery, TopDocument, findings_of_run,
    report_page,
};

pub use crate::run_query::RunQuery;
pub use crate::trace_cache::result_cache;
#[cfg(feature = "parquet")]
pub use crate::trace_tables::TraceDocument;
pub use crate::written_files::{ShardFiles, write_chakra, write_shard, write_timeline};
