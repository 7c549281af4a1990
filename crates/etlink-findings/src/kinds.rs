//! The kinds of causes as one table, each with its detector and remedy.

use crate::candidate::CauseCandidate;
use crate::detect::{communication, device, host, launches, profiler, start_up, steps, syncs};
use crate::kind::CauseKind;
use crate::view::RankView;

/// Detector of a kind's causes in the trace of a rank.
pub(crate) type Detect = fn(&RankView<'_>) -> Vec<CauseCandidate>;

/// A kind of cause: a row of [`KINDS`].
#[derive(Clone, Copy)]
pub struct KindRule {
    /// The kind.
    pub kind: CauseKind,
    /// True if the trace only shows signs of the cause.
    pub inferred: bool,
    /// True if other kinds explain the same time better; those are reported instead.
    pub general: bool,
    /// Remedy for a PyTorch program.
    pub remedy: &'static str,
    /// Remedy for other programs, in terms of CUDA; `None` if it is the same.
    pub other_remedy: Option<&'static str>,
    /// Detector; `None` if only several ranks together show the cause.
    pub(crate) detect: Option<Detect>,
}

/// Makes a rule with the usual properties.
const fn stated(kind: CauseKind, detect: Detect, remedy: &'static str) -> KindRule {
    KindRule {
        kind,
        inferred: false,
        general: false,
        remedy,
        other_remedy: None,
        detect: Some(detect),
    }
}

/// Makes a rule of a kind for which a trace only shows signs.
const fn probable(kind: CauseKind, detect: Detect, remedy: &'static str) -> KindRule {
    KindRule {
        inferred: true,
        ..stated(kind, detect, remedy)
    }
}

/// Makes a rule of a kind that others explain better.
const fn general(kind: CauseKind, detect: Detect, remedy: &'static str) -> KindRule {
    KindRule {
        general: true,
        ..stated(kind, detect, remedy)
    }
}

/// Makes a rule of a kind that only several ranks together show.
const fn of_ranks(kind: CauseKind, remedy: &'static str) -> KindRule {
    KindRule {
        kind,
        inferred: false,
        general: false,
        remedy,
        other_remedy: None,
        detect: None,
    }
}

impl KindRule {
    /// Sets a remedy for programs without PyTorch.
    const fn without_torch(self, remedy: &'static str) -> KindRule {
        KindRule {
            other_remedy: Some(remedy),
            ..self
        }
    }
}

/// Remedy if the trace already names the line, so that recording stacks would add nothing.
pub(crate) const HOST_WORK_AT_LINE: &str =
    "make what it does there shorter, or do it ahead of time or on another thread";

/// All kinds.
pub const KINDS: [KindRule; 24] = [
    stated(
        CauseKind::InputPipeline,
        host::input_pipeline,
        "load ahead: more `num_workers`, a larger `prefetch_factor`, less work per sample",
    )
    .without_torch(
        "load ahead on other threads, while the device works",
    ),
    general(
        CauseKind::HostWork,
        host::host_work,
        "make what it does there shorter, or do it ahead of time or on another thread; findings name \
        the line where stacks were recorded (`with_stack=True`)",
    )
    .without_torch(
        "make what it does there shorter, or do it ahead of time or on another thread; ranges of your \
             own (NVTX, ROCTX) name its parts",
    ),
    general(
        CauseKind::SmallKernels,
        launches::small_kernels,
        "use CUDA graphs (`torch.compile(mode=\"reduce-overhead\")`) or larger batches",
    )
    .without_torch(
        "capture the launches into a graph (`cudaGraphLaunch`), or launch fewer and larger kernels",
    ),
    stated(
        CauseKind::OptimizerLaunches,
        launches::optimizer_launches,
        "give the optimizer `fused=True` or `foreach=True`",
    ),
    stated(
        CauseKind::ScalarRead,
        syncs::scalar_reads,
        "keep the value on the device, or read it less often",
    ),
    stated(
        CauseKind::DynamicShape,
        syncs::dynamic_shapes,
        "use a mask of fixed size, such as `torch.where`",
    ),
    stated(
        CauseKind::PageableCopy,
        syncs::pageable_copies,
        // No trace shows when the host needs the data.
        "pin the memory (`pin_memory=True`) and copy with `non_blocking=True`; the gain holds if the \
        host has other work until it needs the data",
    )
    .without_torch(
        "copy with `cudaMemcpyAsync` from and to pinned memory (`cudaHostAlloc`); the gain holds if the host \
        has other work until it needs the data",
    ),
    stated(
        CauseKind::ExplicitSync,
        syncs::explicit_syncs,
        "take the synchronisation out of the loop",
    )
    .without_torch(
        "let streams wait for each other with `cudaStreamWaitEvent`, and the host only where it needs \
             a result",
    ),
    probable(
        CauseKind::UnrecordedSync,
        host::unrecorded_syncs,
        "look there for what waits, such as `.item()`, a copy or a synchronisation, and take it out \
        of the loop; the trace records no call that waits",
    )
    .without_torch(
        "look there for what waits, such as a copy or a synchronisation, and take it out of the loop; \
             the trace records no call that waits",
    ),
    stated(
        CauseKind::AllocatorCalls,
        syncs::allocator_calls,
        "keep shapes alike, or set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`",
    )
    .without_torch(
        "get the memory once and use it again, or take it from a pool (`cudaMallocAsync`)",
    ),
    stated(
        CauseKind::ExposedCommunication,
        communication::exposed_communication,
        "begin it earlier, beside computation, or move fewer bytes",
    ),
    general(
        CauseKind::ExposedCopies,
        device::exposed_copies,
        "keep the data on the device, or copy from and to pinned memory on a stream of its own, beside \
        computation",
    ),
    general(
        CauseKind::DominantKernel,
        device::dominant_kernels,
        "look for a faster one: another data type, layout or library",
    ),
    probable(
        CauseKind::LowCoverage,
        device::low_coverage,
        "give it more blocks: split the reduction, or batch more work",
    ),
    probable(
        CauseKind::FusibleChain,
        device::fusible_chains,
        "fuse them: `torch.compile`, or one kernel of your own",
    )
    .without_torch(
        "fuse them into one kernel",
    ),
    stated(
        CauseKind::TensorCopies,
        device::tensor_copies,
        "keep one layout and data type from op to op, and write results where they are needed",
    ),
    stated(
        CauseKind::Recomputation,
        host::recomputation,
        "checkpoint fewer layers where memory allows it",
    ),
    probable(
        CauseKind::FirstCall,
        start_up::first_calls,
        "warm up before you record or measure: `schedule(warmup=…)`",
    )
    .without_torch(
        "do it once, before what you measure, and record what comes after",
    ),
    KindRule {
        general: true,
        ..probable(
            CauseKind::FirstStep,
            steps::first_step,
            "warm up before you record or measure: `schedule(warmup=…)`",
        )
        .without_torch("warm up before you measure, and record what comes after")
    },
    probable(
        CauseKind::ProfilerOverhead,
        profiler::profiler_overhead,
        "record without stacks, shapes and memory to measure times",
    ),
    stated(
        CauseKind::QueueFull,
        launches::queue_full,
        "launch what others wait for first, or from another thread",
    ),
    probable(
        CauseKind::StreamTurns,
        device::stream_turns,
        "leave out waits between streams whose work does not need each other's results",
    ),
    of_ranks(
        CauseKind::LateRank,
        "look at what that rank does differently, its data first, then its machine",
    ),
    KindRule {
        general: true,
        ..of_ranks(
            CauseKind::RankImbalance,
            "deal the work out more evenly, such as by length of sequences",
        )
    },
];

impl CauseKind {
    /// Returns the kind's row in the table.
    pub fn rule(self) -> Option<&'static KindRule> {
        KINDS.iter().find(|rule| rule.kind == self)
    }

    /// Returns true if the compared value is a part of the cause's time, which is summed over
    /// ranks.
    pub(crate) fn sums_compared(self) -> bool {
        matches!(
            self,
            CauseKind::FusibleChain | CauseKind::PageableCopy | CauseKind::ExposedCommunication
        )
    }

    /// Returns true if others explain the same time better.
    pub(crate) fn is_general(self) -> bool {
        self.rule().is_some_and(|rule| rule.general)
    }
}
