//! Draws traces that are as large as others and odd in one way: thousands of threads, streams,
//! names, …
//!
//! A program's cost must grow only with the number of events of such a trace.
//! [`crate::TraceBuilder`] searches its drawing for each call it writes, so these traces of up to
//! millions of events are written directly as text.

mod device;
mod host;
mod ranks;

/// Kind of oddity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Oddity {
    /// Two threads, two streams, twenty names: the baseline of the others.
    Ordinary,
    /// The ordinary trace with a host trace.
    OrdinaryPair,
    /// The ordinary trace on eight ranks that communicate.
    OrdinaryRanks,
    /// Every fiftieth event starts a new thread.
    Threads,
    /// Many threads with a host trace that has no ids, so that threads are paired by name.
    PairedThreads,
    /// Work of the autograd engine on many threads, without sequence numbers.
    EngineThreads,
    /// Every fiftieth event starts a new process.
    Processes,
    /// Many processes on one device, each counting its correlation ids from 1.
    SharedDevice,
    /// Every fiftieth event starts a new stream.
    Streams,
    /// Every fiftieth event starts a new context, whose stream has the same number in all contexts.
    Contexts,
    /// Every fiftieth event starts a new device.
    Devices,
    /// Every fiftieth event belongs to a new process group.
    Groups,
    /// Each communication belongs to a new process group, whose ranks only the header lists.
    ListedGroups,
    /// Workers of Gloo, with a new group at every fiftieth event.
    GlooGroups,
    /// Many ranks with a thousand events each.
    Ranks,
    /// Each op has its own name.
    Names,
    /// Each kernel has its own name.
    KernelNames,
    /// Each op has unique shapes.
    Shapes,
    /// Each op is inside an annotation with a unique name.
    Annotations,
    /// Half of the ops are inside numbered annotations of one name, the others inside annotations
    /// of many names.
    NumberedAnnotations,
    /// Each op comes with an event of a unique category.
    Categories,
    /// Host and device trace name their ops differently and have no ids.
    StrangeNames,
    /// Each op is nested in the previous one.
    Depth,
    /// Ops and kernels of one thread and stream overlap without nesting.
    Overlaps,
    /// Each frame of the Python stack is nested in the previous one.
    FrameDepth,
    /// Each frame of the Python stack has its own name.
    FrameNames,
    /// Every fiftieth event starts a new step.
    Steps,
    /// Each launch is followed by a synchronization of the device, which has many streams.
    Syncs,
    /// Each launch is followed by an event that another of many streams waits for.
    EventWaits,
    /// All events begin and end at the same time.
    EqualTimes,
    /// All calls and kernels have the same correlation id.
    Correlations,
    /// All ops have the same sequence number, and half of them are backward ops.
    Sequences,
    /// Each op is followed by an allocation that is never freed.
    Allocations,
    /// One thread writes a tensor piece by piece, another reads all of it.
    Tensors,
    /// Many threads write a tensor piece by piece, another reads all of it.
    TensorThreads,
}

/// Traces of one rank.
#[derive(Clone, Debug)]
pub struct OddTraces {
    /// Device trace.
    pub device: Vec<u8>,
    /// Host trace; `None` for kinds without one.
    pub host: Option<Vec<u8>>,
}

/// Steps per new thread, stream, group, …
// Seventeen steps of three events: about fifty events.
const STEPS_OF_EACH: usize = 17;
/// Interval between the starts of consecutive steps, in microseconds.
const STEP_US: usize = 10;
/// Ranks of [`Oddity::OrdinaryRanks`], and events per rank of [`Oddity::Ranks`].
const ORDINARY_RANKS: usize = 8;
const EVENTS_OF_RANK: usize = 1_000;

impl Oddity {
    /// All kinds, starting with the baselines.
    pub const ALL: &'static [Oddity] = <Oddity as strum::VariantArray>::VARIANTS;

    /// Returns the kind's name in tables and on the command line.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the ordinary trace to compare this kind with.
    pub fn ordinary(self) -> Oddity {
        match self {
            Oddity::OrdinaryRanks | Oddity::Ranks => Oddity::OrdinaryRanks,
            _ if self.has_host_trace() => Oddity::OrdinaryPair,
            _ => Oddity::Ordinary,
        }
    }

    /// Returns the number of ranks that together have about `events` events: one, except for kinds
    /// with several ranks.
    pub fn rank_count(self, events: usize) -> usize {
        match self {
            Oddity::OrdinaryRanks => ORDINARY_RANKS,
            Oddity::Ranks => (events / EVENTS_OF_RANK).max(2),
            _ => 1,
        }
    }

    /// Returns the traces of one rank, if all ranks together have about `events` events. O(events).
    pub fn draw_rank(self, events: usize, rank: usize) -> OddTraces {
        match self {
            Oddity::OrdinaryRanks | Oddity::Ranks => {
                let world = self.rank_count(events);
                ranks::draw_rank(events / world, rank, world)
            }
            _ => {
                let steps = self.step_count(events);
                OddTraces {
                    device: device::draw_device(self, steps),
                    host: self.has_host_trace().then(|| host::draw_host(self, steps)),
                }
            }
        }
    }

    fn has_host_trace(self) -> bool {
        matches!(
            self,
            Oddity::OrdinaryPair
                | Oddity::PairedThreads
                | Oddity::StrangeNames
                | Oddity::Tensors
                | Oddity::TensorThreads
        )
    }

    /// Returns the number of steps that together have about `events` events in the device trace.
    fn step_count(self, events: usize) -> usize {
        // An op, its launch and its kernel, plus the kind's additional events.
        let events_of_step = match self {
            Oddity::GlooGroups => 2,
            Oddity::Annotations | Oddity::NumberedAnnotations | Oddity::Categories => 4,
            Oddity::FrameDepth | Oddity::FrameNames | Oddity::Syncs | Oddity::Allocations => 4,
            Oddity::EventWaits => 5,
            _ => 3,
        };
        (events / events_of_step).max(1)
    }

    /// Returns the thread of a step, counted from 0.
    fn thread(self, step: usize, steps: usize) -> usize {
        match self {
            Oddity::Threads | Oddity::PairedThreads | Oddity::EngineThreads => each(step, steps),
            Oddity::TensorThreads if is_tensor_write(step, steps) => 1 + each(step, steps),
            Oddity::Tensors | Oddity::TensorThreads => usize::from(is_tensor_write(step, steps)),
            _ => step % 2,
        }
    }
}

/// Returns the number of a step's thread, stream, group, …, which are a seventeenth as many as the
/// steps.
fn each(step: usize, steps: usize) -> usize {
    step % (steps / STEPS_OF_EACH).max(1)
}

/// Returns true if the step's op writes its piece of the tensor, and false if it reads the whole
/// tensor. The first half of the steps only writes, the second alternates.
fn is_tensor_write(step: usize, steps: usize) -> bool {
    step < steps / 2 || step.is_multiple_of(2)
}
