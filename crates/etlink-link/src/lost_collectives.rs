//! Communications whose device rows the recorder lost: launches without a row, inside an op that
//! states the communication. Such an op is no communication of the host: its times show when the
//! rank launched, not when its device arrived.

use crate::LinkedTrace;
use crate::sanity::kernels_without_row;
use etlink_model::{CallIdx, CollectiveKind, NameId, OpIdx};

/// Maximum number of ops above a launch that may belong to the backend: `nccl:…`,
/// `record_param_comms`, `c10d::…`.
pub(crate) const OPS_OF_BACKEND: usize = 4;

/// A kernel launch that has no row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostKernel {
    pub(crate) call: CallIdx,
    /// Op that states the communication.
    pub(crate) record: Option<OpIdx>,
    /// True if the backend's name appears around the launch, which shows that it communicates.
    pub(crate) is_of_backend: bool,
}

/// Finds the lost kernels of a trace, in order of their launches. O(calls + rows) if rows were
/// lost.
pub(crate) fn lost_kernels(trace: &LinkedTrace) -> Vec<LostKernel> {
    let launches = kernels_without_row(&trace.device).into_iter();
    launches.map(|call| lost_kernel(trace, call)).collect()
}

fn lost_kernel(trace: &LinkedTrace, call: CallIdx) -> LostKernel {
    let above = |op: &OpIdx| trace.op_parent[op.index()].get();
    let ops =
        || std::iter::successors(trace.call_op[call.index()].get(), above).take(OPS_OF_BACKEND);
    let communicates = |op: &OpIdx| {
        let found = trace.op_collective(*op);
        found.is_some_and(|found| found.kind() != CollectiveKind::Other)
    };
    LostKernel {
        call,
        record: ops().find(communicates),
        is_of_backend: ops().any(|op| {
            let name = trace.device_name(trace.device.ops.name[op.index()]);
            name.starts_with("c10d::") || name.starts_with("nccl:")
        }),
    }
}

/// Returns the name of the op around a call.
pub(crate) fn launching_op(trace: &LinkedTrace, call: CallIdx) -> Option<NameId> {
    let op = trace.call_op[call.index()].get()?;
    Some(trace.device.ops.name[op.index()])
}
