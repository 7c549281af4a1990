//! Why a rank cannot be linked window by window.

/// What crosses every seam, or cannot be told from a part of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// The trace has no events.
    #[error("it has no timed events")]
    Empty,
    /// Read by another reader.
    #[error("that is possible for PyTorch's own traces alone")]
    OtherRecorder,
    /// No step begins inside the trace where the host trace can be cut as well.
    #[error("no step (`ProfilerStep#`) and no outer op begins where it could be cut")]
    NoSteps,
    /// Ops are matched by order.
    #[error("its ops have no ids by which the host trace's nodes are found")]
    NotById,
    /// The traces are of two ranks.
    #[error("the host trace and the device trace are of different ranks")]
    OtherRank,
    /// Ids come twice.
    #[error("several ops have one record function id")]
    RepeatedIds,
    /// Which of two host nodes is kept is known of a whole trace alone.
    #[error("several host nodes have one id")]
    RepeatedNodes,
    /// Several processes.
    #[error("it has ops of several processes")]
    SeveralProcesses,
    /// Collectives of the host.
    #[error("the host carries out its collectives")]
    HostCollectives,
    /// Ops name their producers.
    #[error("its ops name the ops that made their inputs")]
    Producers,
    /// CUPTI's counters are joined to kernels.
    #[error("it has counters of kernels")]
    Counters,
    /// A file was written while it was read.
    #[error("its files have changed meanwhile")]
    Changed,
    /// A tensor is handed to another thread over a seam.
    #[error(
        "a thread reads in one step what another wrote in an earlier one, and no other wait says so"
    )]
    TensorOverSeam,
    /// An edge leads over a seam.
    #[error("a thread waits in one step for what another did in an earlier one")]
    EdgeOverSeam,
    /// Windows have other nodes in common.
    #[error("ops of one step run on in the next")]
    OtherNodes,
}
