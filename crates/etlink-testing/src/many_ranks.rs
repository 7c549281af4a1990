//! A rank of a run with many, of which each event counts.

use crate::{DeviceQueue, ParamComms, TraceBuilder};

/// The device trace of a rank with three all-reduces over all ranks, each of which lists them, as
/// PyTorch writes. Its device has one kernel for each. Behind them are so many ops.
pub fn all_reduce_rank(rank: u64, ranks: u64, ops: u32) -> Vec<u8> {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank.cast_signed(), ranks.cast_signed());
    let main = draw.thread();
    for round in 0..3i64 {
        let begin = 1_000_000 * (round + 1);
        let comms = ParamComms::new("allreduce", 0..ranks, rank.cast_signed(), round);
        draw.collective(main, &comms, begin, begin + 20_000);
        let correlation = draw.next_correlation();
        let call = (begin + 5_000, begin + 9_000);
        draw.call(main, "cudaLaunchKernelExC", call, correlation);
        draw.collective_kernel(
            DeviceQueue::stream(20),
            "ncclDevKernel_AllReduce_Sum_f32",
            (begin + 100_000, begin + 450_000),
            correlation,
            &comms,
        );
    }
    for op in 0..i64::from(ops) {
        let begin = 5_000_000 + 10_000 * op;
        draw.op(main, "aten::add", begin, begin + 4_000);
    }
    draw.kineto()
}
