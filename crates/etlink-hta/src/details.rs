//! Data from which HTA's class `TraceAnalysis` computes its tables, before its arguments apply.
//!
//! Arguments such as `num_kernels`, `duration_ratio` and `consecutive_kernel_delay` are queries on
//! small tables. A class that has these tables need not read the trace again per query.

use super::kernels::NameStats;
use super::launches::{self, IdleInterval, LaunchDetail};
use super::making::Making;
use super::rows::HtaTrace;
use super::times::{self, KernelType};
use etlink_analyze::RecordVisitor;
use serde::Serialize;

/// Extent of one rank's trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankExtent {
    /// HTA's `rank`.
    pub rank: i64,
    /// Start of the first event, in µs by the file's own clock; `None` without events.
    pub first_start: Option<f64>,
    /// Time from the first start to the last start, in µs: `get_trace_duration`.
    pub duration: f64,
}

macro_rules! details {
    ($($(#[$doc:meta])* $name:ident: $row:ty = $make:expr,)*) => {
        /// Tables of one rank, before HTA's arguments apply.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct HtaDetails {
            $($(#[$doc])* pub $name: Vec<$row>,)*
        }

        impl HtaDetails {
            /// Returns one blank record per table, to list the columns.
            pub fn blank() -> HtaDetails {
                HtaDetails { $($name: vec![<$row>::default()],)* }
            }

            /// Builds the wanted tables; the others stay empty.
            pub(super) fn make(
                making: &Making<'_, '_>,
                is_wanted: impl Fn(&str) -> bool,
            ) -> HtaDetails {
                HtaDetails {
                    $($name: if is_wanted(stringify!($name)) {
                        let make: fn(&Making<'_, '_>) -> Vec<$row> = $make;
                        make(making)
                    } else {
                        vec![]
                    },)*
                }
            }

            /// Passes the records of a table to the visitor. Returns true if a table with this name
            /// exists.
            ///
            /// # Errors
            /// Fails if the visitor fails.
            pub fn visit_table<V: RecordVisitor>(
                &self,
                name: &str,
                visitor: &mut V,
            ) -> Result<bool, V::Error> {
                $(if name == stringify!($name) {
                    for record in &self.$name {
                        visitor.visit(record)?;
                    }
                    return Ok(true);
                })*
                Ok(false)
            }
        }
    };
}

details! {
    /// Gaps that `get_idle_time_breakdown` sums up.
    idle_intervals: IdleInterval = |making| launches::idle_intervals(making.loaded),
    /// Launches that `get_cuda_kernel_launch_stats` filters.
    launches: LaunchDetail = |making| launches::launch_details(making.loaded),
    /// `get_gpu_kernel_breakdown(include_memory_kernels=False)`, first table.
    kernel_types_without_memory: KernelType = |making| times::kernel_types(making.loaded, &times::KERNEL_TYPES[..2]),
    /// `get_gpu_user_annotation_breakdown` of all names.
    annotations_gpu: NameStats = |making| making.device_annotations(usize::MAX),
    /// `get_gpu_user_annotation_breakdown(use_gpu_annotation=False)` of all names.
    annotations_cpu: NameStats = |making| making.annotations(usize::MAX),
    /// Start and duration of the trace.
    extent: RankExtent = |making| vec![extent(making.loaded)],
}

fn extent(loaded: &HtaTrace<'_>) -> RankExtent {
    let first = loaded.starts().min();
    let last = loaded.starts().max().unwrap_or(0);
    RankExtent {
        rank: loaded.rank,
        first_start: first.map(|first| loaded.us(first)),
        duration: loaded.us(last.saturating_sub(first.unwrap_or(0))),
    }
}
