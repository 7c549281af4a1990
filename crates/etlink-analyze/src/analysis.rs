//! All analyses of a rank, and of all ranks.

use crate::breakdown::{self, DeviceTime};
use crate::collectives::{self, Collectives};
use crate::copies::{self, Copies};
use crate::coverage::{self, Coverage};
use crate::idle::{self, Idle};
use crate::kernels::{self, Kernel};
use crate::launches::{self, Launches};
use crate::memory::{self, Memory, MemoryPoint};
use crate::metrics::{self, Metric};
use crate::queues::{self, QueueLength};
use crate::rows::Rows;
use crate::rules::Rules;
use crate::sequences::{self, Sequence};
use crate::steps::{self, Step};
use crate::work::{self, Computed};
use etlink_link::LinkedTrace;
use serde::Serialize;

/// What to find out besides what is always told.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Kernel sequences of the ops whose names contain this.
    pub sequences_of: Option<String>,
    /// Each allocation and free.
    pub memory_timeline: bool,
}

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $row:ty,)*) => {
        /// What one rank's trace says. Each field is a table of flat records; an empty one says that the trace has nothing of the kind.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct Analysis {
            /// Global rank, if the traces or the caller say it.
            pub rank: Option<i64>,
            $($(#[$doc])* pub $name: Vec<$row>,)*
        }

        impl Analysis {
            /// A blank record in each table: the columns that it has.
            pub fn blank() -> Analysis {
                Analysis { rank: None, $($name: vec![<$row>::default()],)* }
            }
        }

        /// The tables of [`Analysis`], by the names that JSON and CSV have.
        pub const TABLES: &[&str] = &[$(stringify!($name)),*];
    };
}

tables! {
    /// Device time by class, per device.
    breakdown: DeviceTime,
    /// Device rows by class and name.
    kernels: Kernel,
    /// Idle time by cause, per device.
    idle: Idle,
    /// The same per stream.
    stream_idle: Idle,
    /// Calls that launch, by name.
    launches: Launches,
    /// Launched work that waits, per stream.
    queues: QueueLength,
    /// Copies and memsets by kind.
    copies: Copies,
    /// Steps.
    steps: Step,
    /// How much of a device its kernels can fill, per device.
    coverage: Coverage,
    /// Operations of kernels, per device.
    work: Computed,
    /// Communication by type and group.
    collectives: Collectives,
    /// Kernel sequences, where [`Options::sequences_of`] asks for them.
    sequences: Sequence,
    /// Memory per device.
    memory: Memory,
    /// Each allocation and free, where [`Options::memory_timeline`] asks for them.
    memory_timeline: MemoryPoint,
}

/// What the traces of all ranks say together: sums of what each says.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Total {
    /// Device time by class, summed over all devices of all ranks: one record, none without devices.
    pub breakdown: Vec<DeviceTime>,
    /// Device rows of all ranks by class and name.
    pub kernels: Vec<Kernel>,
    /// Idle time by cause, summed over all devices of all ranks: one record, none without devices.
    pub idle: Vec<Idle>,
    /// Calls that launch, by name.
    pub launches: Vec<Launches>,
    /// Copies and memsets by kind.
    pub copies: Vec<Copies>,
    /// Communication by type and group.
    pub collectives: Vec<Collectives>,
    /// Kernel sequences.
    pub sequences: Vec<Sequence>,
    /// Single figures.
    pub metrics: Vec<Metric>,
}

/// Analyses one rank. O(n log n) in the events.
pub fn analyze(trace: &LinkedTrace, rules: &Rules, options: &Options) -> Analysis {
    let rows = Rows::new(trace, rules);
    let (idle, stream_idle) = idle::idle(&rows);
    let (memory, points) = memory::memory(&trace.device, options.memory_timeline);
    let breakdown = breakdown::breakdown(&rows);
    Analysis {
        rank: trace.report.rank,
        kernels: kernels::kernels(&rows),
        idle,
        stream_idle,
        launches: launches::launches(&rows),
        queues: queues::queues(&rows),
        copies: copies::copies(&rows),
        steps: steps::steps(&rows),
        coverage: coverage::coverage(&rows),
        work: work::computed(&rows, &breakdown),
        breakdown,
        collectives: collectives::collectives(&rows),
        sequences: options
            .sequences_of
            .as_ref()
            .map(|text| sequences::sequences(&rows, text))
            .unwrap_or_default(),
        memory,
        memory_timeline: points,
    }
}

/// Adds up the ranks.
pub fn total<'a>(ranks: impl Iterator<Item = &'a Analysis> + Clone) -> Total {
    let devices = ranks.clone().any(|rank| !rank.breakdown.is_empty());
    Total {
        breakdown: if devices {
            vec![breakdown::sum(
                ranks.clone().flat_map(|rank| &rank.breakdown),
            )]
        } else {
            vec![]
        },
        kernels: kernels::sum(ranks.clone().flat_map(|rank| &rank.kernels)),
        idle: if devices {
            vec![idle::sum(ranks.clone().flat_map(|rank| &rank.idle))]
        } else {
            vec![]
        },
        launches: launches::sum(ranks.clone().flat_map(|rank| &rank.launches)),
        copies: copies::sum(ranks.clone().flat_map(|rank| &rank.copies)),
        collectives: collectives::sum(ranks.clone().flat_map(|rank| &rank.collectives)),
        sequences: sequences::sum(ranks.clone().flat_map(|rank| &rank.sequences)),
        metrics: metrics::metrics(ranks),
    }
}
