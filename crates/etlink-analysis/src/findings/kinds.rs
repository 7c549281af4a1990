//! The kinds of causes as one table, each with its detector and remedy.

use crate::findings::candidate::CauseCandidate;
use crate::findings::detect::{
    communication, device, host, launches, profiler, recomputation, start_up, steps, syncs,
};
use crate::findings::kind::CauseKind;
use crate::findings::view::RankView;

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
    /// Remedy for a PyTorch program, as it follows `->`.
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
    "shorten this work, do it ahead of time, or move it to another thread";

/// All kinds.
pub const KINDS: [KindRule; 24] = [
    stated(
        CauseKind::InputPipeline,
        host::input_pipeline,
        "more `num_workers`, a larger `prefetch_factor`, or less work per sample",
    )
    .without_torch(
        "load ahead on other threads while the device works",
    ),
    general(
        CauseKind::HostWork,
        host::host_work,
        "shorten this work, do it ahead of time, or move it to another thread; stacks \
        (`with_stack=True`) show its line",
    )
    .without_torch(
        "shorten this work, do it ahead of time, or move it to another thread; ranges (NVTX, \
             ROCTX) show its parts",
    ),
    general(
        CauseKind::SmallKernels,
        launches::small_kernels,
        "CUDA graphs (`torch.compile(mode=\"reduce-overhead\")`) or larger batches",
    )
    .without_torch(
        "capture the launches in a graph (`cudaGraphLaunch`), or launch fewer and larger kernels",
    ),
    stated(
        CauseKind::OptimizerLaunches,
        launches::optimizer_launches,
        "create the optimizer with `fused=True` or `foreach=True`",
    ),
    stated(
        CauseKind::ScalarRead,
        syncs::scalar_reads,
        "keep the value on the device, or read it less often",
    ),
    stated(
        CauseKind::DynamicShape,
        syncs::dynamic_shapes,
        "a mask of fixed size, for example with `torch.where`",
    ),
    stated(
        CauseKind::PageableCopy,
        syncs::pageable_copies,
        // No trace shows when the host needs the data.
        "pin the memory (`pin_memory=True`) and copy with `non_blocking=True`, if the host has other \
        work until it needs the data",
    )
    .without_torch(
        "copy with `cudaMemcpyAsync` to and from pinned memory (`cudaHostAlloc`), if the host has \
        other work until it needs the data",
    ),
    stated(
        CauseKind::ExplicitSync,
        syncs::explicit_syncs,
        "move the synchronization out of the loop",
    )
    .without_torch(
        "let streams wait for each other with `cudaStreamWaitEvent`, and the host only for results",
    ),
    probable(
        CauseKind::UnrecordedSync,
        host::unrecorded_syncs,
        "look there for `.item()`, a copy or a synchronization, and move it out of the loop; the trace \
        records no calls that wait",
    )
    .without_torch(
        "look there for a copy or a synchronization, and move it out of the loop; the trace records \
             no calls that wait",
    ),
    stated(
        CauseKind::AllocatorCalls,
        syncs::allocator_calls,
        "keep shapes constant, or set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`",
    )
    .without_torch(
        "allocate the memory once and reuse it, or use a pool (`cudaMallocAsync`)",
    ),
    stated(
        CauseKind::ExposedCommunication,
        communication::exposed_communication,
        "start it earlier to overlap it with computation, or move fewer bytes",
    ),
    general(
        CauseKind::ExposedCopies,
        device::exposed_copies,
        "keep the data on the device, or copy to and from pinned memory on a separate stream during \
        computation",
    ),
    general(
        CauseKind::DominantKernel,
        device::dominant_kernels,
        "a faster kernel: another data type, layout or library",
    ),
    probable(
        CauseKind::LowCoverage,
        device::low_coverage,
        "launch more blocks: split the reduction, or batch more work",
    ),
    probable(
        CauseKind::FusibleChain,
        device::fusible_chains,
        "fuse them with `torch.compile` or a custom kernel",
    )
    .without_torch(
        "fuse each chain into one kernel",
    ),
    stated(
        CauseKind::TensorCopies,
        device::tensor_copies,
        "keep one layout and data type across ops, and write results where they are needed",
    ),
    stated(
        CauseKind::Recomputation,
        recomputation::recomputation,
        "checkpoint fewer layers if memory allows",
    ),
    probable(
        CauseKind::FirstCall,
        start_up::first_calls,
        "warm up before recording or measuring: `schedule(warmup=…)`",
    )
    .without_torch(
        "do this once before measuring, and record only later work",
    ),
    KindRule {
        general: true,
        ..probable(
            CauseKind::FirstStep,
            steps::first_step,
            "warm up before recording or measuring: `schedule(warmup=…)`",
        )
        .without_torch("warm up before measuring, and record only later work")
    },
    probable(
        CauseKind::ProfilerOverhead,
        profiler::profiler_overhead,
        "record without stacks, shapes and memory when measuring times",
    ),
    stated(
        CauseKind::QueueFull,
        launches::queue_full,
        "launch awaited work first, or from another thread",
    ),
    probable(
        CauseKind::StreamTurns,
        device::stream_turns,
        "remove waits between streams that do not need each other's results",
    ),
    of_ranks(
        CauseKind::LateRank,
        "compare this rank with the others: its data first, then its machine",
    ),
    KindRule {
        general: true,
        ..of_ranks(
            CauseKind::RankImbalance,
            "distribute the work more evenly, for example by sequence length",
        )
    },
];

impl CauseKind {
    /// Returns true for causes whose gain grows with the time that ops and launches take on the host.
    pub(crate) fn is_of_host_pace(self) -> bool {
        matches!(
            self,
            CauseKind::HostWork | CauseKind::SmallKernels | CauseKind::OptimizerLaunches
        )
    }

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
