//! What the caller of [`crate::link`] decides.

use crate::host::tensors::TensorEdges;
use etlink_model::GlobalRank;

/// What the caller decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkOptions {
    /// Link traces of different programs too.
    pub allow_mismatch: bool,
    /// The traces are of neighbouring steps of one program, as `etlink record --interleave` makes
    /// them: ops are matched by their order, and each step label with the one of the same place.
    pub is_interleaved: bool,
    /// The rank that the user says; compared with what the traces say.
    pub rank: Option<GlobalRank>,
    /// Which dependencies through tensors become edges, where [`etlink_model::HostTrace::tensors`]
    /// are given. Else [`etlink_model::DeviceTrace::op_producers`] tell, unless none are wanted.
    pub tensor_deps: TensorEdges,
}
