//! Peak memory of a run with other sizes, from the allocations of the recording.
//!
//! ```text
//! recorded    +a(op 1)  +b(op 2)  -a  +c(op 3)  -b   each block: the tensor of its op of its size
//! predicted   +a'       +b'       -a' +c'       -b'   the peak of the sum is the predicted peak
//! ```
//! Blocks from before the recording that are freed in it are gradients and the like: they have the
//! size of a weight, else of another block of their size. What was there before and stays is weights
//! and states, which change with their tensors.

use crate::predict::{ChangedBytes, NodeBytes, SizePrediction};
use etlink_link::LinkedTrace;
use etlink_model::OpIdx;
use rustc_hash::FxHashMap;

/// Unit of the sizes of blocks on devices, bytes (`kMinBlockSize` of PyTorch's allocators).
const BLOCK_UNIT: u64 = 512;

/// Device type of the host.
const HOST_TYPE: i32 = 0;

/// Number of ops around an allocation whose tensors are compared with its size.
const MOST_AROUND: usize = 6;

/// Peak memory of a device in the recorded and in the predicted run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictedPeak {
    /// Type of the device, as `c10::DeviceType` numbers them.
    pub device_type: i32,
    /// Number of the device.
    pub device: i32,
    /// Largest number of bytes allocated at once in the recording.
    pub recorded_bytes: u64,
    /// Largest number of bytes allocated at once with the other sizes.
    pub predicted_bytes: u64,
    /// Bytes of all recorded allocations.
    pub allocations_bytes: u64,
    /// Bytes of the recorded allocations that belong to no tensor of known shape and keep their
    /// size.
    pub unknown_bytes: u64,
}

/// Returns the peak memory of each device whose allocator counts, none if the recording has no
/// allocations (`profile_memory`). `None` if weights change and several devices may hold them.
/// O(events · ops around each).
pub fn predicted_peaks(
    trace: &LinkedTrace,
    prediction: &SizePrediction,
) -> Option<Vec<PredictedPeak>> {
    let mut devices: Vec<(i32, i32)> = vec![];
    let memory = &trace.device.memory;
    for row in 0..memory.len() {
        let device = (memory.device_type[row], memory.device[row]);
        let is_device = device.0 != HOST_TYPE;
        if is_device && memory.allocated[row] > 0 && !devices.contains(&device) {
            devices.push(device);
        }
    }
    devices.sort_unstable();
    // The trace does not show which weights each of several devices holds.
    let mut weights = prediction.weights.iter();
    if devices.len() > 1 && weights.any(|weight| weight.new != weight.old) {
        return None;
    }
    let blocks = allocated_blocks(trace, prediction);
    let known = KnownBlocks::new(trace, prediction, &blocks);
    let peaks = devices.into_iter();
    let peaks = peaks.map(|device| known.peak(trace, device));
    Some(peaks.collect())
}

/// Returns the tensor of each allocation; `None` for frees and unknown blocks.
fn allocated_blocks(trace: &LinkedTrace, prediction: &SizePrediction) -> Vec<Option<ChangedBytes>> {
    let (memory, ops) = (&trace.device.memory, &trace.device.ops);
    let (mut next, mut open): (usize, Vec<usize>) = (0, vec![]);
    let mut blocks = vec![];
    // both are sorted by time
    for row in 0..memory.len() {
        let time = memory.time[row];
        while next < ops.len() && ops.start[next] <= time {
            open.push(next);
            next += 1;
        }
        open.retain(|op| ops.start[*op] + ops.duration[*op] >= time);
        let bytes = u64::try_from(memory.bytes[row]).unwrap_or(0);
        let around = open.iter().rev().take(MOST_AROUND);
        let mut found = around.filter_map(|op| {
            let node = trace.op_host.get(OpIdx::new(*op).index())?.get()?;
            tensor_of_size(prediction.bytes.get(node.index())?, bytes)
        });
        blocks.push(if bytes > 0 { found.next() } else { None });
    }
    blocks
}

/// Returns the tensor that a block of this size holds: an output, else an input's gradient or copy.
fn tensor_of_size(node: &NodeBytes, bytes: u64) -> Option<ChangedBytes> {
    let fits = |tensor: &&ChangedBytes| tensor.old == bytes || in_blocks(tensor.old) == bytes;
    let of = |tensors: &[ChangedBytes]| {
        let fitting = || tensors.iter().filter(fits);
        let changing = fitting().find(|tensor| tensor.new != tensor.old);
        changing.or(fitting().next()).copied()
    };
    of(&node.outputs).or_else(|| of(&node.inputs))
}

/// Returns the predicted size of a block; not all allocators round.
fn block_size(tensor: ChangedBytes, recorded: u64) -> u64 {
    if tensor.old == recorded && recorded != in_blocks(recorded) {
        tensor.new
    } else {
        in_blocks(tensor.new)
    }
}

/// Returns a size rounded up to whole blocks.
fn in_blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_UNIT).saturating_mul(BLOCK_UNIT)
}

/// Predicted sizes of blocks.
struct KnownBlocks<'b> {
    blocks: &'b [Option<ChangedBytes>],
    /// Predicted size of a block from before the recording, by its size.
    earlier: FxHashMap<u64, u64>,
    /// Growth of weights and states.
    weights: i128,
}

impl<'b> KnownBlocks<'b> {
    fn new(
        trace: &LinkedTrace,
        prediction: &SizePrediction,
        blocks: &'b [Option<ChangedBytes>],
    ) -> KnownBlocks<'b> {
        let mut earlier = FxHashMap::default();
        let mut weights = 0;
        for weight in &prediction.weights {
            let (old, new) = (in_blocks(weight.old), in_blocks(weight.new));
            earlier.entry(old).or_insert(new);
            weights += i128::from(new) - i128::from(old);
        }
        for (row, block) in blocks.iter().enumerate() {
            if let Some(block) = block {
                let bytes = trace.device.memory.bytes[row].unsigned_abs();
                earlier.entry(bytes).or_insert(block_size(*block, bytes));
            }
        }
        KnownBlocks {
            blocks,
            earlier,
            weights,
        }
    }

    fn peak(&self, trace: &LinkedTrace, device: (i32, i32)) -> PredictedPeak {
        let memory = &trace.device.memory;
        let rows = (0..memory.len())
            .filter(|row| (memory.device_type[*row], memory.device[*row]) == device);
        let mut peak = PredictedPeak {
            device_type: device.0,
            device: device.1,
            recorded_bytes: 0,
            predicted_bytes: 0,
            allocations_bytes: 0,
            unknown_bytes: 0,
        };
        let mut live: FxHashMap<u64, u64> = FxHashMap::default();
        // The sum since the start, and its largest value; blocks from before that are freed had
        // another size at the start.
        let (mut sum, mut most, mut earlier) = (0i128, 0i128, 0i128);
        let mut start = None;
        for row in rows {
            let (bytes, address) = (memory.bytes[row], memory.address[row]);
            let size = bytes.unsigned_abs();
            let before = i128::from(memory.allocated[row]) - i128::from(bytes);
            start.get_or_insert(before);
            peak.recorded_bytes = peak.recorded_bytes.max(memory.allocated[row]);
            if bytes > 0 {
                let known = self.blocks[row];
                let predicted = known.map_or(size, |block| block_size(block, size));
                peak.allocations_bytes += size;
                peak.unknown_bytes += if known.is_none() { size } else { 0 };
                live.insert(address, predicted);
                sum += i128::from(predicted);
            } else if let Some(predicted) = live.remove(&address) {
                sum -= i128::from(predicted);
            } else {
                let predicted = self.earlier.get(&size).copied().unwrap_or(size);
                earlier += i128::from(predicted) - i128::from(size);
                sum -= i128::from(predicted);
            }
            most = most.max(sum);
        }
        let at_start = start.unwrap_or_default() + earlier + self.weights;
        peak.predicted_bytes = u64::try_from((at_start + most).max(0)).unwrap_or(u64::MAX);
        peak
    }
}
