//! Reads snapshots of PyTorch's allocator, and explains the peak of memory by allocation stack.
//!
//! `torch.cuda.memory._dump_snapshot` pickles the allocator's segments with their blocks and, if
//! `_record_memory_history` was on, the latest allocations and frees with their stacks. Sources:
//! `torch/csrc/cuda/memory_snapshot.cpp`, `torch/csrc/cuda/Module.cpp`,
//! `torch/cuda/_memory_viz.py`.

mod report;
mod snapshot;
#[cfg(test)]
mod tests;

pub use report::{
    DeviceMemory, FailedAllocation, MemorySeries, PeakMemory, ReservedMemory, StackMemory,
    device_memories,
};
pub use snapshot::{
    AllocatorAction, AllocatorEvent, BlockState, DeviceSnapshot, MemoryBlock, MemorySegment,
    MemorySnapshot, StackIdx, is_memory_snapshot, read,
};
