//! Peak, stacks, timeline and fragmentation of each device of a snapshot.
//!
//! Allocations before the first recorded event are derived: a block that is freed without being
//! allocated, or that is allocated at the end without an event, was there from the start. The
//! snapshot knows the stack of the latter only. Sizes over time are those that the program
//! requested; the allocator rounds them up.

use crate::memory_snapshot::snapshot::{
    AllocatorAction, AllocatorEvent, BlockState, DeviceSnapshot, MemorySnapshot, StackIdx,
};
use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::Serialize;

/// Number of stacks with a series of their own in a timeline.
const SERIES: usize = 9;
/// Maximum number of points of a timeline.
const POINTS: usize = 1_000;

/// Memory of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceMemory {
    /// Number of the device.
    pub device: i64,
    /// Number of recorded allocations.
    pub allocations: u64,
    /// Number of recorded frees.
    pub frees: u64,
    /// Time of the first event, ns since 1970; 0 if no events were recorded.
    pub start_ns: i64,
    /// Time from the first to the last event, ns.
    pub span_ns: i64,
    /// Most memory allocated at once.
    pub peak: PeakMemory,
    /// Memory of the allocator when the snapshot was taken.
    pub reserved: ReservedMemory,
    /// Memory by allocation stack, those with most memory at the peak first.
    pub stacks: Vec<StackMemory>,
    /// Allocations that failed.
    pub failed: Vec<FailedAllocation>,
    /// Memory over time.
    pub timeline: MemorySeries,
}

/// Most memory allocated at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeakMemory {
    /// Time of the peak, ns since the first event.
    pub time_ns: i64,
    /// Requested bytes that are allocated.
    pub allocated_bytes: u64,
    /// Bytes that the allocator has reserved then.
    pub reserved_bytes: u64,
}

/// Memory of the allocator when the snapshot was taken, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReservedMemory {
    /// Number of segments.
    pub segments: u64,
    /// Taken from the device.
    pub reserved_bytes: u64,
    /// Held by tensors, with rounding.
    pub allocated_bytes: u64,
    /// Part of `allocated_bytes` that is only rounding.
    pub rounding_bytes: u64,
    /// Freed, but still used by work on a stream.
    pub pending_bytes: u64,
    /// Free in segments that also have allocated blocks: `empty_cache` cannot return it to the
    /// device.
    pub fragmented_bytes: u64,
    /// In segments that are entirely free: `empty_cache` would return it.
    pub cached_bytes: u64,
    /// Largest free block.
    pub largest_free_bytes: u64,
}

/// Memory allocated by one stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StackMemory {
    /// Python frames outside PyTorch, innermost first; empty if the stack is unknown.
    pub frames: Vec<String>,
    /// True for memory that was allocated before the recording.
    pub earlier: bool,
    /// Bytes allocated at the peak.
    pub peak_bytes: u64,
    /// Number of blocks allocated at the peak.
    pub peak_blocks: u64,
    /// Bytes allocated at the end.
    pub end_bytes: u64,
    /// Sum of all recorded allocations, bytes.
    pub allocated_bytes: u64,
    /// Number of recorded allocations.
    pub allocations: u64,
}

impl StackMemory {
    /// Returns the stack in one line.
    pub fn text(&self) -> String {
        if self.earlier {
            return "(before the recording)".to_owned();
        }
        if self.frames.is_empty() {
            return "(no Python frames, as in backward passes)".to_owned();
        }
        self.frames.join(" < ")
    }
}

/// An allocation that failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedAllocation {
    /// Time, ns since the first event.
    pub time_ns: i64,
    /// Requested bytes.
    pub bytes: u64,
    /// Free memory of the device, bytes.
    pub free_bytes: u64,
    /// Python frames outside PyTorch, innermost first.
    pub frames: Vec<String>,
}

/// Memory over time as columns. Of many events, those with the least and most memory of each
/// interval are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemorySeries {
    /// Times, ns since the first event.
    pub time_ns: Vec<i64>,
    /// Requested bytes that are allocated after the event.
    pub allocated_bytes: Vec<u64>,
    /// Reserved bytes after the event.
    pub reserved_bytes: Vec<u64>,
    /// Bytes of the first stacks of `stacks`, each over time.
    pub stack_bytes: Vec<Vec<u64>>,
}

/// Computes the memory of all devices. O(events + stacks · log).
pub fn device_memories(snapshot: &MemorySnapshot) -> Vec<DeviceMemory> {
    let devices = snapshot.devices.iter();
    devices
        .map(|(device, memory)| DeviceMemory {
            device: *device,
            ..device_memory(snapshot, memory)
        })
        .collect()
}

/// Key of the memory of a stack: the stack, and true if it was allocated before the recording
/// without a known stack.
type StackKey = (StackIdx, bool);

/// Memory of all stacks while events are replayed.
#[derive(Default)]
struct Replay {
    live: FxHashMap<u64, (u64, usize)>,
    /// Current bytes and blocks of each stack.
    stacks: IndexMap<StackKey, (u64, u64), FxBuildHasher>,
    allocated: u64,
    reserved: u64,
}

impl Replay {
    fn alloc(&mut self, address: u64, bytes: u64, stack: StackKey) {
        // a repeated address is damage: the earlier block is gone
        self.free(address);
        let entry = self.stacks.entry(stack);
        let place = entry.index();
        let (sum, blocks) = entry.or_default();
        *sum = sum.saturating_add(bytes);
        *blocks += 1;
        self.allocated = self.allocated.saturating_add(bytes);
        self.live.insert(address, (bytes, place));
    }

    fn free(&mut self, address: u64) {
        let Some((bytes, place)) = self.live.remove(&address) else {
            return;
        };
        self.allocated = self.allocated.saturating_sub(bytes);
        if let Some((_, (sum, blocks))) = self.stacks.get_index_mut(place) {
            *sum = sum.saturating_sub(bytes);
            *blocks = blocks.saturating_sub(1);
        }
    }

    fn run(&mut self, event: &AllocatorEvent) {
        match event.action {
            AllocatorAction::Alloc => {
                self.alloc(event.address, event.bytes, (event.stack, false));
            }
            AllocatorAction::Free => self.free(event.address),
            AllocatorAction::Reserve => self.reserved = self.reserved.saturating_add(event.bytes),
            AllocatorAction::Release => self.reserved = self.reserved.saturating_sub(event.bytes),
            AllocatorAction::OutOfMemory => {}
        }
    }

    /// Returns the state before the first event.
    fn start(device: &DeviceSnapshot) -> Replay {
        let mut replay = Replay::default();
        // true for addresses that the events have allocated, false for those they have freed
        let mut known: FxHashMap<u64, bool> = FxHashMap::default();
        let (mut taken, mut returned) = (0u64, 0u64);
        for event in &device.events {
            match event.action {
                AllocatorAction::Alloc => {
                    known.insert(event.address, true);
                }
                AllocatorAction::Free => {
                    if known.insert(event.address, false).is_none() {
                        replay.alloc(event.address, event.bytes, (StackIdx::UNKNOWN, true));
                    }
                }
                AllocatorAction::Reserve => taken = taken.saturating_add(event.bytes),
                AllocatorAction::Release => returned = returned.saturating_add(event.bytes),
                AllocatorAction::OutOfMemory => {}
            }
        }
        for segment in &device.segments {
            replay.reserved = replay.reserved.saturating_add(segment.bytes);
            for block in &segment.blocks {
                let is_held = block.state != BlockState::Inactive;
                if is_held && !known.contains_key(&block.address) {
                    let stack = (block.stack, block.stack == StackIdx::UNKNOWN);
                    replay.alloc(block.address, block.requested_bytes, stack);
                }
            }
        }
        replay.reserved = replay
            .reserved
            .saturating_add(returned)
            .saturating_sub(taken);
        replay
    }
}

fn device_memory(snapshot: &MemorySnapshot, device: &DeviceSnapshot) -> DeviceMemory {
    let first_us = device.events.first().map_or(0, |event| event.time_us);
    let since = |event: &AllocatorEvent| {
        let us = event.time_us.saturating_sub(first_us);
        us.saturating_mul(1_000)
    };
    let count = |action| {
        let events = device.events.iter();
        events.filter(|event| event.action == action).count() as u64
    };
    let mut memory = DeviceMemory {
        allocations: count(AllocatorAction::Alloc),
        frees: count(AllocatorAction::Free),
        start_ns: first_us.saturating_mul(1_000),
        span_ns: device.events.last().map_or(0, since),
        reserved: reserved_memory(device),
        ..DeviceMemory::default()
    };
    // first the totals, which say where the peak is and which points a timeline keeps
    let mut replay = Replay::start(device);
    memory.peak.allocated_bytes = replay.allocated;
    memory.peak.reserved_bytes = replay.reserved;
    let mut totals = vec![];
    let mut peak_at = None;
    for (at, event) in device.events.iter().enumerate() {
        replay.run(event);
        totals.push(replay.allocated);
        if replay.allocated > memory.peak.allocated_bytes {
            peak_at = Some(at);
            memory.peak = PeakMemory {
                time_ns: since(event),
                allocated_bytes: replay.allocated,
                reserved_bytes: replay.reserved,
            };
        }
        if event.action == AllocatorAction::OutOfMemory {
            memory.failed.push(FailedAllocation {
                time_ns: since(event),
                bytes: event.bytes,
                free_bytes: event.address,
                frames: frames_of(snapshot, event.stack),
            });
        }
    }
    let at_peak = stacks_after(device, peak_at);
    let mut largest: Vec<usize> = (0..replay.stacks.len()).collect();
    largest.sort_by_key(|place| std::cmp::Reverse(at_peak.get(*place).map_or(0, |of| of.0)));
    let sums = recorded_sums(device);
    for place in &largest {
        let peak = at_peak.get(*place).copied().unwrap_or_default();
        if let Some((key, (end_bytes, _))) = replay.stacks.get_index(*place) {
            let stack = stack_memory(snapshot, *key, peak, &sums);
            memory.stacks.push(StackMemory {
                end_bytes: *end_bytes,
                ..stack
            });
        }
    }
    largest.truncate(SERIES);
    memory.timeline = timeline(device, &kept_events(&totals), &largest, since);
    memory
}

fn frames_of(snapshot: &MemorySnapshot, stack: StackIdx) -> Vec<String> {
    snapshot.frames(stack).map(str::to_owned).collect()
}

/// Returns bytes and blocks of each stack after an event; `None` for the state before all events.
fn stacks_after(device: &DeviceSnapshot, last: Option<usize>) -> Vec<(u64, u64)> {
    let mut replay = Replay::start(device);
    for event in device.events.iter().take(last.map_or(0, |at| at + 1)) {
        replay.run(event);
    }
    replay.stacks.values().copied().collect()
}

/// Returns the sum of bytes and the number of all recorded allocations of each stack.
fn recorded_sums(device: &DeviceSnapshot) -> FxHashMap<StackIdx, (u64, u64)> {
    let mut sums: FxHashMap<StackIdx, (u64, u64)> = FxHashMap::default();
    for event in &device.events {
        if event.action == AllocatorAction::Alloc {
            let (bytes, count) = sums.entry(event.stack).or_default();
            *bytes = bytes.saturating_add(event.bytes);
            *count += 1;
        }
    }
    sums
}

fn stack_memory(
    snapshot: &MemorySnapshot,
    (stack, earlier): StackKey,
    (peak_bytes, peak_blocks): (u64, u64),
    sums: &FxHashMap<StackIdx, (u64, u64)>,
) -> StackMemory {
    let sum = if earlier { None } else { sums.get(&stack) };
    let (allocated_bytes, allocations) = sum.copied().unwrap_or_default();
    StackMemory {
        frames: frames_of(snapshot, stack),
        earlier,
        peak_bytes,
        peak_blocks,
        end_bytes: 0,
        allocated_bytes,
        allocations,
    }
}

/// Returns the indices of kept events: all, or per interval those with the least and most memory.
fn kept_events(totals: &[u64]) -> Vec<usize> {
    if totals.len() <= POINTS {
        return (0..totals.len()).collect();
    }
    let each = totals.len().div_ceil((POINTS - 2) / 2);
    let mut kept = vec![0, totals.len() - 1];
    for (interval, of) in totals.chunks(each).enumerate() {
        let low = (0..of.len()).min_by_key(|at| of[*at]);
        // the first of equals, where the memory is reached
        let high = (0..of.len()).rev().max_by_key(|at| of[*at]);
        kept.extend(
            [low, high]
                .into_iter()
                .flatten()
                .map(|at| interval * each + at),
        );
    }
    kept.sort_unstable();
    kept.dedup();
    kept
}

fn timeline(
    device: &DeviceSnapshot,
    kept: &[usize],
    largest: &[usize],
    since: impl Fn(&AllocatorEvent) -> i64,
) -> MemorySeries {
    let mut series = MemorySeries {
        stack_bytes: vec![vec![]; largest.len()],
        ..MemorySeries::default()
    };
    let mut replay = Replay::start(device);
    let mut kept = kept.iter().peekable();
    for (at, event) in device.events.iter().enumerate() {
        replay.run(event);
        if kept.next_if_eq(&&at).is_none() {
            continue;
        }
        series.time_ns.push(since(event));
        series.allocated_bytes.push(replay.allocated);
        series.reserved_bytes.push(replay.reserved);
        for (of_stack, place) in series.stack_bytes.iter_mut().zip(largest) {
            let now = replay.stacks.get_index(*place);
            of_stack.push(now.map_or(0, |(_, (bytes, _))| *bytes));
        }
    }
    series
}

fn reserved_memory(device: &DeviceSnapshot) -> ReservedMemory {
    let mut sum = ReservedMemory::default();
    for segment in &device.segments {
        sum.segments += 1;
        sum.reserved_bytes = sum.reserved_bytes.saturating_add(segment.bytes);
        let mut free = 0u64;
        for block in &segment.blocks {
            match block.state {
                BlockState::Allocated => {
                    sum.allocated_bytes = sum.allocated_bytes.saturating_add(block.bytes);
                    let rounding = block.bytes.saturating_sub(block.requested_bytes);
                    sum.rounding_bytes = sum.rounding_bytes.saturating_add(rounding);
                }
                BlockState::Pending => {
                    sum.pending_bytes = sum.pending_bytes.saturating_add(block.bytes);
                }
                BlockState::Inactive => {
                    free = free.saturating_add(block.bytes);
                    sum.largest_free_bytes = sum.largest_free_bytes.max(block.bytes);
                }
            }
        }
        let mut blocks = segment.blocks.iter();
        if blocks.all(|block| block.state == BlockState::Inactive) {
            sum.cached_bytes = sum.cached_bytes.saturating_add(free);
        } else {
            sum.fragmented_bytes = sum.fragmented_bytes.saturating_add(free);
        }
    }
    sum
}
