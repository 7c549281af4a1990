//! Which ops only name a stretch of time.

use etlink_model::{DeviceTrace, OpIdx};

/// Whether an op only names a stretch of its thread's time. Backends annotate the work of
/// their own threads too (`gloo:all_reduce`), which is no scope.
pub(crate) fn is_scope(device: &DeviceTrace, op: OpIdx) -> bool {
    if !device.ops.annotation[op.index()] {
        return false;
    }
    let name = device.names.get(device.ops.name[op.index()]);
    !["gloo:", "nccl:", "mpi:", "ucc:", "xccl:"]
        .iter()
        .any(|backend| name.starts_with(backend))
}
