//! Contents of a snapshot, and the reader.

use crate::pickle::{PickleLimits, ValueIdx, ValueTree, first_key, is_pickle, read_pickle};
use etlink_model::{Failure, NameId, Names};
use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::BTreeMap;
use std::io::Read;

/// A million events with their stacks take about 150 MB.
const LIMITS: PickleLimits = PickleLimits {
    wanted: "a snapshot of PyTorch's allocator (torch.cuda.memory._dump_snapshot)",
    max_bytes: 512 << 20,
    max_values: 30_000_000,
    smaller: "record fewer events, such as \
              torch.cuda.memory._record_memory_history(max_entries=100_000)",
};

/// A stack of allocations, by its index in the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackIdx(pub(crate) u32);

impl StackIdx {
    /// Stack without any frame, also of allocations whose stack was not recorded.
    pub const UNKNOWN: StackIdx = StackIdx(0);
}

/// Snapshot of the allocator of a process.
#[derive(Clone, Debug, Default)]
pub struct MemorySnapshot {
    /// Interned frames, such as `train.py:31 step`.
    names: Names,
    /// Stacks, innermost frame first.
    stacks: IndexSet<Vec<NameId>, FxBuildHasher>,
    /// Memory of each device that has any, by the device's number.
    pub devices: BTreeMap<i64, DeviceSnapshot>,
    /// True if the file ends before the snapshot does.
    pub is_cut: bool,
}

/// Memory of a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceSnapshot {
    /// Memory that the allocator holds when the snapshot is taken.
    pub segments: Vec<MemorySegment>,
    /// Recorded events, in order of time.
    pub events: Vec<AllocatorEvent>,
}

/// Memory taken from a device at once.
#[derive(Clone, Debug, Default)]
pub struct MemorySegment {
    /// `total_size`, bytes.
    pub bytes: u64,
    /// Blocks of the segment.
    pub blocks: Vec<MemoryBlock>,
}

/// State of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Held by a tensor.
    Allocated,
    /// Freed, but still used by work on a stream.
    Pending,
    /// Free.
    Inactive,
}

/// A part of a segment.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBlock {
    /// Address on the device.
    pub address: u64,
    /// Size with rounding, bytes.
    pub bytes: u64,
    /// Size that the program requested, bytes.
    pub requested_bytes: u64,
    /// State of the block.
    pub state: BlockState,
    /// Stack of the allocation.
    pub stack: StackIdx,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocatorAction {
    /// A block is allocated.
    Alloc,
    /// A block is free again.
    Free,
    /// The allocator takes memory from the device.
    Reserve,
    /// The allocator returns memory to the device.
    Release,
    /// An allocation fails.
    OutOfMemory,
}

/// A recorded event.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorEvent {
    /// Kind of the event.
    pub action: AllocatorAction,
    /// Address; for a failed allocation, the free memory of the device in bytes.
    pub address: u64,
    /// Requested size, bytes.
    pub bytes: u64,
    /// Time, in µs since 1970; 0 if not recorded.
    pub time_us: i64,
    /// Stack of the event.
    pub stack: StackIdx,
}

impl MemorySnapshot {
    /// Returns the frames of a stack, innermost first.
    pub fn frames(&self, stack: StackIdx) -> impl Iterator<Item = &str> {
        let frames = self.stacks.get_index(stack.0 as usize);
        frames
            .into_iter()
            .flatten()
            .map(|name| self.names.get(*name))
    }
}

/// Returns true if a file with this head is a snapshot.
pub fn is_memory_snapshot(head: &[u8]) -> bool {
    // `segments` is the first key of all versions; `device_traces` may be hundreds of MB later
    is_pickle(head) && matches!(first_key(head), Some(b"segments" | b"device_traces"))
}

/// Reads a snapshot. O(bytes).
///
/// # Errors
/// The source fails, it is too large, it is not a snapshot, or it is a pickle that would call code.
pub fn read(source: impl Read) -> Result<MemorySnapshot, Failure> {
    let (bytes, source_error) = LIMITS.read_bytes(source)?;
    let tree = read_pickle(&bytes, &LIMITS)?;
    let mut reader = SnapshotReader {
        tree: &tree,
        snapshot: MemorySnapshot::default(),
        stacks: FxHashMap::default(),
        frames: FxHashMap::default(),
    };
    // index 0 is `StackIdx::UNKNOWN`
    reader.snapshot.stacks.insert(vec![]);
    let mut is_snapshot = false;
    let root = tree.root.into_iter();
    for (key, value) in root.flat_map(|root| tree.pairs(root)) {
        match &*key {
            "segments" => reader.read_segments(value),
            "device_traces" => reader.read_traces(value),
            _ => continue,
        }
        is_snapshot = true;
    }
    if !is_snapshot {
        return Err(LIMITS.wrong_file("no \"segments\" list found".to_owned()));
    }
    let mut snapshot = reader.snapshot;
    snapshot.is_cut = tree.is_cut || tree.is_exhausted() || source_error.is_some();
    let used = |of: &DeviceSnapshot| !of.segments.is_empty() || !of.events.is_empty();
    snapshot.devices.retain(|_, device| used(device));
    Ok(snapshot)
}

struct SnapshotReader<'t> {
    tree: &'t ValueTree<'t>,
    snapshot: MemorySnapshot,
    /// Stacks by the value of their list: events share lists.
    stacks: FxHashMap<ValueIdx, StackIdx>,
    /// Frames by their value: stacks share frames.
    frames: FxHashMap<ValueIdx, NameId>,
}

impl SnapshotReader<'_> {
    fn read_segments(&mut self, list: ValueIdx) {
        for &item in self.tree.items(list) {
            let (mut segment, mut device) = (MemorySegment::default(), 0);
            for (key, value) in self.tree.pairs(item) {
                match &*key {
                    "device" => device = self.tree.int(value).unwrap_or(0),
                    "total_size" => segment.bytes = self.bytes(value),
                    "blocks" => {
                        let blocks = self.tree.items(value).iter();
                        segment.blocks = blocks.map(|block| self.read_block(*block)).collect();
                    }
                    _ => {}
                }
            }
            let device = self.snapshot.devices.entry(device).or_default();
            device.segments.push(segment);
        }
    }

    fn read_block(&mut self, item: ValueIdx) -> MemoryBlock {
        let mut block = MemoryBlock {
            address: 0,
            bytes: 0,
            requested_bytes: 0,
            state: BlockState::Inactive,
            stack: StackIdx::UNKNOWN,
        };
        for (key, value) in self.tree.pairs(item) {
            match &*key {
                "address" => block.address = self.bytes(value),
                "size" => block.bytes = self.bytes(value),
                "requested_size" => block.requested_bytes = self.bytes(value),
                "state" => {
                    block.state = match &*self.tree.text(value) {
                        "active_allocated" => BlockState::Allocated,
                        "inactive" => BlockState::Inactive,
                        _ => BlockState::Pending,
                    }
                }
                "frames" => block.stack = self.read_stack(value),
                _ => {}
            }
        }
        // versions before 2.1 state it elsewhere
        if block.requested_bytes == 0 {
            block.requested_bytes = block.bytes;
        }
        block
    }

    fn read_traces(&mut self, list: ValueIdx) {
        for (device, &trace) in (0i64..).zip(self.tree.items(list)) {
            let items = self.tree.items(trace).iter();
            let events = items.filter_map(|item| self.read_event(*item)).collect();
            self.snapshot.devices.entry(device).or_default().events = events;
        }
    }

    /// Reads an event; `None` for kinds that do not change memory.
    fn read_event(&mut self, item: ValueIdx) -> Option<AllocatorEvent> {
        let mut action = None;
        let mut event = AllocatorEvent {
            action: AllocatorAction::Alloc,
            address: 0,
            bytes: 0,
            time_us: 0,
            stack: StackIdx::UNKNOWN,
        };
        for (key, value) in self.tree.pairs(item) {
            match &*key {
                "action" => {
                    action = match &*self.tree.text(value) {
                        "alloc" => Some(AllocatorAction::Alloc),
                        // a block is free only after the work that uses it: `free_requested` is
                        // earlier
                        "free" | "free_completed" => Some(AllocatorAction::Free),
                        "segment_alloc" | "segment_map" => Some(AllocatorAction::Reserve),
                        "segment_free" | "segment_unmap" => Some(AllocatorAction::Release),
                        "oom" => Some(AllocatorAction::OutOfMemory),
                        _ => None,
                    }
                }
                "addr" | "device_free" => event.address = self.bytes(value),
                "size" => event.bytes = self.bytes(value),
                "time_us" => event.time_us = self.tree.int(value).unwrap_or(0),
                "frames" => event.stack = self.read_stack(value),
                _ => {}
            }
        }
        Some(AllocatorEvent {
            action: action?,
            ..event
        })
    }

    fn bytes(&self, value: ValueIdx) -> u64 {
        let number = self.tree.int(value);
        number
            .and_then(|number| u64::try_from(number).ok())
            .unwrap_or(0)
    }

    fn read_stack(&mut self, list: ValueIdx) -> StackIdx {
        if let Some(known) = self.stacks.get(&list) {
            return *known;
        }
        let mut stack = vec![];
        for &frame in self.tree.items(list) {
            let name = match self.frames.get(&frame) {
                Some(known) => *known,
                None => {
                    let name = self.read_frame(frame);
                    self.frames.insert(frame, name);
                    name
                }
            };
            stack.push(name);
        }
        let shown = self.shown_frames(stack);
        let (place, _) = self.snapshot.stacks.insert_full(shown);
        let stack = StackIdx(u32::try_from(place).unwrap_or(0));
        self.stacks.insert(list, stack);
        stack
    }

    /// Returns a frame as `path/train.py:31 step`.
    fn read_frame(&mut self, frame: ValueIdx) -> NameId {
        let (mut name, mut file, mut line) = (String::new(), String::new(), -1);
        for (key, value) in self.tree.pairs(frame) {
            match &*key {
                "name" => name = self.tree.text(value).into_owned(),
                "filename" => file = self.tree.text(value).into_owned(),
                "line" => line = self.tree.int(value).unwrap_or(-1),
                _ => {}
            }
        }
        self.snapshot.names.intern(&format!("{file}:{line} {name}"))
    }

    /// Returns the Python frames outside PyTorch, which tell a reader most; if there are none, all
    /// Python frames.
    fn shown_frames(&mut self, stack: Vec<NameId>) -> Vec<NameId> {
        let names = &self.snapshot.names;
        let is_python = |name: &NameId| names.get(*name).contains(".py:");
        let is_torch = |name: &NameId| names.get(*name).contains("-packages/torch/");
        let mut shown: Vec<NameId> = stack.into_iter().filter(is_python).collect();
        if !shown.iter().all(is_torch) {
            shown.retain(|name| !is_torch(name));
        }
        shown.iter().map(|name| self.short_frame(*name)).collect()
    }

    /// Shortens the path of a frame to the file and its folder: the other folders are the same in
    /// most frames of a program.
    fn short_frame(&mut self, name: NameId) -> NameId {
        let frame = self.snapshot.names.get(name).to_owned();
        let path = frame.split(".py:").next().unwrap_or_default();
        let mut folders = path.rmatch_indices(['/', '\\']);
        let begin = folders.nth(1).map_or(0, |(at, _)| at + 1);
        self.snapshot.names.intern(&frame[begin..])
    }
}
