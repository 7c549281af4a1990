//! Tests on the snapshot of `testdata/memory`, whose recipe draws it.

use super::*;
use crate::pickle::{PickleLimits, read_pickle};

const SNAPSHOT: &[u8] = include_bytes!("../../../../testdata/memory/memory_snapshot_0.pickle");
const MIB: u64 = 1 << 20;

#[test]
fn the_peak_consists_of_what_the_recipe_held_then() {
    assert!(is_memory_snapshot(&SNAPSHOT[..64]));
    let snapshot = read(SNAPSHOT).expect("a snapshot");
    assert!(!snapshot.is_cut);
    let [memory] = &device_memories(&snapshot)[..] else {
        panic!("one device");
    };
    // in the second step: weights, Adam's state, six activations, scores, the first gradient
    let held = 4 * MIB + 2_000_000 + 6 * MIB + 6 * (5 * MIB + 100) + 12 * MIB + 4 * MIB;
    assert_eq!(memory.peak.allocated_bytes, held);
    let stacks: Vec<(&str, u64, u64, u64)> = memory
        .stacks
        .iter()
        .map(|stack| {
            let first = stack.frames.first().map_or("", String::as_str);
            (
                first,
                stack.peak_bytes,
                stack.peak_blocks,
                stack.allocations,
            )
        })
        .collect();
    let activations = ("model/net.py:20 forward", 6 * (5 * MIB + 100), 6, 12);
    assert_eq!(stacks[0], activations);
    assert_eq!(stacks[1], ("model/attention.py:44 scores", 12 * MIB, 1, 2));
    // PyTorch's own frames are left out
    assert_eq!(stacks[2], ("project/train.py:31 train_step", 6 * MIB, 3, 3));
    assert!(
        memory
            .stacks
            .iter()
            .any(|stack| stack.earlier && stack.end_bytes == 4 * MIB)
    );
    let failed = &memory.failed[0];
    assert_eq!((failed.bytes, failed.free_bytes), (700 * MIB, 9 * MIB));
}

#[test]
fn sums_agree_with_each_other() {
    let snapshot = read(SNAPSHOT).expect("a snapshot");
    for memory in device_memories(&snapshot) {
        let at_peak: u64 = memory.stacks.iter().map(|stack| stack.peak_bytes).sum();
        assert_eq!(at_peak, memory.peak.allocated_bytes);
        let now = &memory.reserved;
        let parts =
            now.allocated_bytes + now.pending_bytes + now.fragmented_bytes + now.cached_bytes;
        assert_eq!(parts, now.reserved_bytes);
        let series = &memory.timeline;
        assert_eq!(series.allocated_bytes.iter().max(), Some(&at_peak));
        assert_eq!(series.reserved_bytes.last(), Some(&now.reserved_bytes));
        for at in 0..series.time_ns.len() {
            let of_stacks: u64 = series.stack_bytes.iter().map(|bytes| bytes[at]).sum();
            assert!(of_stacks <= series.allocated_bytes[at]);
        }
    }
}

#[test]
fn every_truncated_snapshot_is_read_or_refused() {
    for end in 0..SNAPSHOT.len() {
        if let Ok(snapshot) = read(&SNAPSHOT[..end]) {
            assert!(snapshot.is_cut);
            device_memories(&snapshot);
        }
    }
}

#[test]
fn damaged_snapshots_are_read_or_refused() {
    for at in (0..SNAPSHOT.len()).step_by(5) {
        let mut bytes = SNAPSHOT.to_vec();
        bytes[at] ^= 1 << (at % 8);
        if let Ok(snapshot) = read(&bytes[..]) {
            device_memories(&snapshot);
        }
    }
}

#[test]
fn a_snapshot_that_would_call_code_is_refused_with_its_name() {
    let mut bytes = SNAPSHOT.to_vec();
    bytes.truncate(bytes.len() - 1);
    bytes.extend(b"cposix\nsystem\n\x8c\x02id\x85R.");
    let error = read(&bytes[..]).expect_err("a call").to_string();
    assert!(error.contains("posix.system"), "{error}");
}

#[test]
fn a_pickle_of_something_else_is_refused() {
    let limits = PickleLimits {
        wanted: "",
        max_bytes: 100,
        max_values: 100,
        smaller: "",
    };
    let other = b"\x80\x04}\x8c\x05state}s.";
    assert!(read_pickle(other, &limits).is_ok());
    assert!(!is_memory_snapshot(other));
    assert!(read(&other[..]).is_err());
}

#[test]
fn without_history_the_blocks_are_all_there_is() {
    // {"segments": [{"device": 1, "total_size": 200, "blocks": [{"address": 5, "size": 100,
    // "state": "active_allocated"}]}]}
    let mut bytes =
        b"\x80\x04}\x8c\x08segments](}(\x8c\x06deviceK\x01\x8c\x0atotal_sizeK\xc8".to_vec();
    bytes.extend(b"\x8c\x06blocks](}(\x8c\x07addressK\x05\x8c\x04sizeK\x64\x8c\x05state");
    bytes.extend(b"\x8c\x10active_allocatedueues.");
    let memories = device_memories(&read(&bytes[..]).expect("a snapshot"));
    assert_eq!(
        (memories[0].device, memories[0].peak.allocated_bytes),
        (1, 100)
    );
    assert_eq!(memories[0].reserved.reserved_bytes, 200);
}
