//! What the class `TraceAnalysis` of HTA makes its tables of, before its arguments are looked at.
//!
//! `num_kernels`, `duration_ratio`, `consecutive_kernel_delay` and the like are questions to small
//! tables. So a class that has these need not read the trace again for each.

use super::kernels::{self, NameStats};
use super::launches::{self, IdleInterval, LaunchDetail};
use super::rows::HtaTrace;
use super::times::{self, KernelType};
use etlink_analyze::RecordVisitor;
use serde::Serialize;

/// A rank's own figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankExtent {
    /// HTA's `rank`.
    pub rank: i64,
    /// Start of the first event, us by the file's own clock; none without events.
    pub first_start: Option<f64>,
    /// From there to the last start, us: `get_trace_duration`.
    pub duration: f64,
}

macro_rules! details {
    ($($(#[$doc:meta])* $name:ident: $row:ty,)*) => {
        /// Tables of one rank without HTA's arguments.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct HtaDetails {
            $($(#[$doc])* pub $name: Vec<$row>,)*
        }

        impl HtaDetails {
            /// A blank record in each table: the columns that it has.
            pub fn blank() -> HtaDetails {
                HtaDetails { $($name: vec![<$row>::default()],)* }
            }

            /// Shows the records of a table; whether there is one of this name.
            ///
            /// # Errors
            /// That of the visitor.
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
    /// What `get_idle_time_breakdown` sums up.
    idle_intervals: IdleInterval,
    /// What `get_cuda_kernel_launch_stats` filters.
    launches: LaunchDetail,
    /// `get_gpu_kernel_breakdown(include_memory_kernels=False)`, first table.
    kernel_types_without_memory: KernelType,
    /// `get_gpu_user_annotation_breakdown` of all names.
    annotations_gpu: NameStats,
    /// The same with `use_gpu_annotation=False`.
    annotations_cpu: NameStats,
    /// When the trace begins and how long it is.
    extent: RankExtent,
}

impl HtaDetails {
    pub(super) fn new(loaded: &HtaTrace<'_>) -> HtaDetails {
        let first = loaded.starts().min();
        let last = loaded.starts().max().unwrap_or(0);
        let extent = RankExtent {
            rank: loaded.rank,
            first_start: first.map(|first| loaded.us(first)),
            duration: loaded.us(last.saturating_sub(first.unwrap_or(0))),
        };
        let types = &times::KERNEL_TYPES[..2];
        HtaDetails {
            idle_intervals: launches::idle_intervals(loaded),
            launches: launches::launch_details(loaded),
            kernel_types_without_memory: times::kernel_types(loaded, types),
            annotations_gpu: kernels::annotation_stats(
                loaded,
                loaded.device_annotations(),
                usize::MAX,
            ),
            annotations_cpu: kernels::annotation_stats(loaded, loaded.annotations(), usize::MAX),
            extent: vec![extent],
        }
    }
}
