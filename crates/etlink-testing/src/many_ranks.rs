//! Draws ranks of large runs with few events each.

use crate::{DeviceQueue, ParamComms, ThreadRef, TraceBuilder};

/// Returns the device trace of a rank with three all-reduces over all ranks. Each of them lists
/// the ranks as PyTorch does. Its device runs one kernel per all-reduce. `ops` ops follow.
pub fn all_reduce_rank(rank: u64, ranks: u64, ops: u32) -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank.cast_signed(), ranks.cast_signed());
    let main = draw.thread();
    for round in 0..3i64 {
        let comms = ParamComms::new("allreduce", 0..ranks, rank.cast_signed(), round);
        all_reduce(&mut draw, main, &comms, 1_000_000 * (round + 1));
    }
    for op in 0..i64::from(ops) {
        let begin = 5_000_000 + 10_000 * op;
        draw.op(main, "aten::add", begin, begin + 4_000);
    }
    draw.kineto()
}

/// Draws the record of an all-reduce, its launch, and the kernel.
fn all_reduce(draw: &mut TraceBuilder, thread: ThreadRef, comms: &ParamComms, begin: i64) {
    draw.collective(thread, comms, begin, begin + 20_000);
    let correlation = draw.next_correlation();
    let call = (begin + 5_000, begin + 9_000);
    draw.call(thread, "cudaLaunchKernelExC", call, correlation);
    draw.collective_kernel(
        DeviceQueue::stream(20),
        "ncclDevKernel_AllReduce_Sum_f32",
        (begin + 100_000, begin + 450_000),
        correlation,
        comms,
    );
}
