//! What the caller of [`crate::link`] decides.

use crate::host::tensors::TensorEdges;

/// What the caller decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkOptions {
    /// Link traces of different programs too.
    pub allow_mismatch: bool,
    /// The rank that the user says; compared with what the traces say.
    pub rank: Option<i64>,
    /// Which dependencies through tensors become edges, where [`etlink_model::HostTrace::tensors`]
    /// are given.
    pub tensor_deps: TensorEdges,
}
