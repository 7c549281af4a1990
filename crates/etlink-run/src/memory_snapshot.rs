//! Snapshots of PyTorch's allocator.

use crate::Progress;
use crate::error::RunError;
use crate::input::{self, InputKind, WantedTrace};
use etlink_formats::memory_snapshot::MemorySnapshot;
use etlink_model::Failure;
use std::path::Path;

/// Reads a snapshot.
///
/// # Errors
/// Fails if the file cannot be opened, is not a snapshot, is a pickle that would call code, or has
/// no memory of any device.
pub fn read_memory_snapshot(path: &Path, progress: &Progress) -> Result<MemorySnapshot, RunError> {
    let input = input::open(path, progress)?;
    if input.kind != InputKind::MemorySnapshot {
        return Err(input.refuse_kind(WantedTrace::Times));
    }
    let name = input.name;
    let snapshot = etlink_formats::memory_snapshot::read(input.content);
    let snapshot = snapshot.map_err(|cause| RunError::unreadable(&name, cause))?;
    if snapshot.devices.is_empty() {
        let what = ": the snapshot has no memory of any device";
        let remedy = "take it while the program holds tensors on a CUDA device";
        return Err(Failure::about(name, what).advise(remedy).into());
    }
    Ok(snapshot)
}
