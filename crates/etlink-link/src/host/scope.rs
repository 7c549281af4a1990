//! Recognizes ops that only name an interval.

use etlink_model::{DeviceTrace, OpIdx};

/// True if an op only names an interval of its thread. Backends annotate the work of their own
/// threads too (`gloo:all_reduce`), which is no scope.
pub(crate) fn is_scope(device: &DeviceTrace, op: OpIdx) -> bool {
    if !device.ops.annotation[op.index()] {
        return false;
    }
    let name = device.names.get(device.ops.name[op.index()]);
    !["gloo:", "nccl:", "mpi:", "ucc:", "xccl:"]
        .iter()
        .any(|backend| name.starts_with(backend))
}
