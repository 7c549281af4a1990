//! What the class `TraceAnalysis` of HTA makes its tables of, before its arguments are looked at.
//!
//! `num_kernels`, `duration_ratio`, `consecutive_kernel_delay` and the like are questions to small
//! tables. So a class that has these need not read the trace again for each.

use super::kernels::NameStats;
use super::launches::{self, IdleInterval, LaunchDetail};
use super::making::Making;
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
    ($($(#[$doc:meta])* $name:ident: $row:ty = $make:expr,)*) => {
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

            /// Those that are wanted; the others are empty.
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
    idle_intervals: IdleInterval = |making| launches::idle_intervals(making.loaded),
    /// What `get_cuda_kernel_launch_stats` filters.
    launches: LaunchDetail = |making| launches::launch_details(making.loaded),
    /// `get_gpu_kernel_breakdown(include_memory_kernels=False)`, first table.
    kernel_types_without_memory: KernelType = |making| times::kernel_types(making.loaded, &times::KERNEL_TYPES[..2]),
    /// `get_gpu_user_annotation_breakdown` of all names.
    annotations_gpu: NameStats = |making| making.device_annotations(usize::MAX),
    /// The same with `use_gpu_annotation=False`.
    annotations_cpu: NameStats = |making| making.annotations(usize::MAX),
    /// When the trace begins and how long it is.
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
