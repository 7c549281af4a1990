//! Traces that are as large as others and odd in one way: thousands of threads, of streams, of
//! names, …
//!
//! What a program does with one must grow with its events alone. [`crate::TraceBuilder`] searches
//! its drawing for each call that it writes, so that these traces, of up to millions of events, are
//! written as text straight away.

mod device;
mod host;
mod ranks;

/// In which way a trace is odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// Two threads, two streams, twenty names: what the others are compared with.
    Ordinary,
    /// The same with a host trace.
    OrdinaryPair,
    /// The same on eight ranks, which communicate.
    OrdinaryRanks,
    /// Each fiftieth event begins a new thread.
    Threads,
    /// The same with a host trace that has no ids, so that threads are paired by their names.
    PairedThreads,
    /// Work of the autograd engine on many threads, without sequence numbers.
    EngineThreads,
    /// Each fiftieth event begins a new process.
    Processes,
    /// The same, where all work on one device and all count their correlation ids from 1.
    SharedDevice,
    /// Each fiftieth event begins a new stream.
    Streams,
    /// Each fiftieth event begins a new context, whose stream has the number of the others'.
    Contexts,
    /// Each fiftieth event begins a new device.
    Devices,
    /// Each fiftieth event is of a new process group.
    Groups,
    /// Each communication is of a new process group, whose ranks only the header lists.
    ListedGroups,
    /// Workers of Gloo, of a new group with each fiftieth event.
    GlooGroups,
    /// Many ranks with a thousand events each.
    Ranks,
    /// Each op has a name of its own.
    Names,
    /// Each kernel has a name of its own.
    KernelNames,
    /// Each op is the only one with its shapes.
    Shapes,
    /// Each op lies in an annotation with a name of its own.
    Annotations,
    /// Half of the ops lie in numbered annotations of one name, the others in such of many names.
    NumberedAnnotations,
    /// Each op comes with an event whose category no other has.
    Categories,
    /// Host and device trace name their ops differently, and have no ids.
    StrangeNames,
    /// Each op lies in the one before.
    Depth,
    /// Ops and kernels of one thread and stream overlap, and none lies in another.
    Overlaps,
    /// Each frame of the Python stack lies in the one before.
    FrameDepth,
    /// Each frame of the Python stack has a name of its own.
    FrameNames,
    /// Each fiftieth event begins a new step.
    Steps,
    /// Each launch is followed by a synchronisation of the device, which has many streams.
    Syncs,
    /// Each launch is followed by an event that another of many streams waits for.
    EventWaits,
    /// All events begin and end at one time.
    EqualTimes,
    /// All calls and kernels have one correlation id.
    Correlations,
    /// All ops have one sequence number, half of them as its backward.
    Sequences,
    /// Each op is followed by an allocation that nothing frees.
    Allocations,
    /// A thread writes a tensor piece by piece, another reads all of it.
    Tensors,
    /// The same, where the pieces are of many threads.
    TensorThreads,
}

/// The traces of one rank.
#[derive(Clone, Debug)]
pub struct OddTraces {
    /// The device trace.
    pub device: Vec<u8>,
    /// The host trace, of those that need one.
    pub host: Option<Vec<u8>>,
}

/// A new thread, stream, group, … comes with each so many steps.
// Seventeen steps of three events: about each fiftieth event.
const STEPS_OF_EACH: usize = 17;
/// From the begin of a step to that of the next, us.
const STEP_US: usize = 10;
/// Ranks of [`Oddity::OrdinaryRanks`], and events of each rank of [`Oddity::Ranks`].
const ORDINARY_RANKS: usize = 8;
const EVENTS_OF_RANK: usize = 1_000;

impl Oddity {
    /// All of them, those first that others are compared with.
    pub const ALL: [Oddity; 35] = [
        Oddity::Ordinary,
        Oddity::OrdinaryPair,
        Oddity::OrdinaryRanks,
        Oddity::Threads,
        Oddity::PairedThreads,
        Oddity::EngineThreads,
        Oddity::Processes,
        Oddity::SharedDevice,
        Oddity::Streams,
        Oddity::Contexts,
        Oddity::Devices,
        Oddity::Groups,
        Oddity::ListedGroups,
        Oddity::GlooGroups,
        Oddity::Ranks,
        Oddity::Names,
        Oddity::KernelNames,
        Oddity::Shapes,
        Oddity::Annotations,
        Oddity::NumberedAnnotations,
        Oddity::Categories,
        Oddity::StrangeNames,
        Oddity::Depth,
        Oddity::Overlaps,
        Oddity::FrameDepth,
        Oddity::FrameNames,
        Oddity::Steps,
        Oddity::Syncs,
        Oddity::EventWaits,
        Oddity::EqualTimes,
        Oddity::Correlations,
        Oddity::Sequences,
        Oddity::Allocations,
        Oddity::Tensors,
        Oddity::TensorThreads,
    ];

    /// Its name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Oddity::Ordinary => "ordinary",
            Oddity::OrdinaryPair => "ordinary-pair",
            Oddity::OrdinaryRanks => "ordinary-ranks",
            Oddity::Threads => "threads",
            Oddity::PairedThreads => "paired-threads",
            Oddity::EngineThreads => "engine-threads",
            Oddity::Processes => "processes",
            Oddity::SharedDevice => "shared-device",
            Oddity::Streams => "streams",
            Oddity::Contexts => "contexts",
            Oddity::Devices => "devices",
            Oddity::Groups => "groups",
            Oddity::ListedGroups => "listed-groups",
            Oddity::GlooGroups => "gloo-groups",
            Oddity::Ranks => "ranks",
            Oddity::Names => "names",
            Oddity::KernelNames => "kernel-names",
            Oddity::Shapes => "shapes",
            Oddity::Annotations => "annotations",
            Oddity::NumberedAnnotations => "numbered-annotations",
            Oddity::Categories => "categories",
            Oddity::StrangeNames => "strange-names",
            Oddity::Depth => "depth",
            Oddity::Overlaps => "overlaps",
            Oddity::FrameDepth => "frame-depth",
            Oddity::FrameNames => "frame-names",
            Oddity::Steps => "steps",
            Oddity::Syncs => "syncs",
            Oddity::EventWaits => "event-waits",
            Oddity::EqualTimes => "equal-times",
            Oddity::Correlations => "correlations",
            Oddity::Sequences => "sequences",
            Oddity::Allocations => "allocations",
            Oddity::Tensors => "tensors",
            Oddity::TensorThreads => "tensor-threads",
        }
    }

    /// The ordinary trace that it is compared with.
    pub fn ordinary(self) -> Oddity {
        match self {
            Oddity::OrdinaryRanks | Oddity::Ranks => Oddity::OrdinaryRanks,
            _ if self.has_host_trace() => Oddity::OrdinaryPair,
            _ => Oddity::Ordinary,
        }
    }

    /// How many ranks have together about so many events. One but for those kinds that are of
    /// several.
    pub fn rank_count(self, events: usize) -> usize {
        match self {
            Oddity::OrdinaryRanks => ORDINARY_RANKS,
            Oddity::Ranks => (events / EVENTS_OF_RANK).max(2),
            _ => 1,
        }
    }

    /// The traces of a rank, where all ranks have together about so many events. O(events).
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

    /// How many steps have together about so many events of the device trace.
    fn step_count(self, events: usize) -> usize {
        // An op, its launch and its kernel, and what the kind has besides.
        let events_of_step = match self {
            Oddity::GlooGroups => 2,
            Oddity::Annotations | Oddity::NumberedAnnotations | Oddity::Categories => 4,
            Oddity::FrameDepth | Oddity::FrameNames | Oddity::Syncs | Oddity::Allocations => 4,
            Oddity::EventWaits => 5,
            _ => 3,
        };
        (events / events_of_step).max(1)
    }

    /// The thread of a step, from 0.
    fn thread(self, step: usize, steps: usize) -> usize {
        match self {
            Oddity::Threads | Oddity::PairedThreads | Oddity::EngineThreads => each(step, steps),
            Oddity::TensorThreads if is_tensor_write(step, steps) => 1 + each(step, steps),
            Oddity::Tensors | Oddity::TensorThreads => usize::from(is_tensor_write(step, steps)),
            _ => step % 2,
        }
    }
}

/// The number of the thread, stream, group, … of a step: there are a seventeenth of the steps.
fn each(step: usize, steps: usize) -> usize {
    step % (steps / STEPS_OF_EACH).max(1)
}

/// Whether the op of a step writes its piece of the tensor, and does not read all of it: first
/// only writes, then one of each.
fn is_tensor_write(step: usize, steps: usize) -> bool {
    step < steps / 2 || step.is_multiple_of(2)
}
