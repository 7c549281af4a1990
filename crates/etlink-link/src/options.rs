//! Options of [`crate::link`].

use crate::host::tensors::TensorEdges;
use etlink_model::GlobalRank;

/// Options of [`crate::link`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkOptions {
    /// Links traces of different programs too.
    pub allow_mismatch: bool,
    /// True if the traces are of alternating steps of one program, as recorded by `etlink record
    /// --interleave`. Ops are then matched by order, and step labels by position.
    pub is_interleaved: bool,
    /// Rank stated by the user, compared with the rank in the traces.
    pub rank: Option<GlobalRank>,
    /// Tensor dependencies that become edges, from [`etlink_model::HostTrace::tensors`] if present,
    /// else from [`etlink_model::DeviceTrace::op_producers`], unless none are wanted.
    pub tensor_deps: TensorEdges,
}
