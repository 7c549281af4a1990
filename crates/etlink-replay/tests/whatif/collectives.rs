//! Host collectives that a thread starts and waits for.

use super::makespans;
use etlink_testing::{ParamComms, TraceBuilder};

/// Form in which a collective appears in its trace.
#[derive(Clone, Copy, Debug)]
enum Shown {
    /// The call, the range of Gloo's worker, the wait.
    All,
    /// The call and the wait.
    CallAndWait,
    /// The op of `c10d` and the worker's range, as in stock Gloo.
    OpAndRange,
}

/// Time from the end of a transfer to the end of the wait for it, in ns.
const WAKE: i64 = 8_000;

/// Starts an all-reduce, does other work, and waits. Returns the trace and its length.
fn all_reduce(shown: Shown, transfer: i64) -> (TraceBuilder, i64) {
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    draw.op(main, "aten::mm", 0, 50_000);
    let call = ParamComms::new("allreduce", 0..2, 0, 1);
    match shown {
        Shown::OpAndRange => {
            draw.op(main, "c10d::allreduce_", 50_000, 60_000);
        }
        Shown::All | Shown::CallAndWait => {
            draw.collective(main, &call, 50_000, 60_000);
        }
    }
    let (begun, end) = (75_000, 75_000 + transfer);
    if !matches!(shown, Shown::CallAndWait) {
        draw.annotation(worker, "gloo:all_reduce", begun, end);
    }
    draw.op(main, "aten::relu", 60_000, 100_000);
    let gone_on = (end + WAKE).max(102_000);
    if !matches!(shown, Shown::OpAndRange) {
        let wait = ParamComms::new("wait", 0..2, 0, 1);
        draw.collective(main, &wait, 100_000, gone_on);
    }
    draw.op(main, "optimizer", gone_on, gone_on + 30_000);
    (draw, gone_on + 30_000)
}

#[test]
fn a_collective_of_the_host_takes_the_time_of_its_transfer() {
    for shown in [Shown::All, Shown::CallAndWait, Shown::OpAndRange] {
        let (draw, before) = all_reduce(shown, 400_000);
        let [plain, predicted] = makespans(&draw, "kind=collective 0.1");
        assert_eq!(plain, before, "{shown:?}");
        let (_, truth) = all_reduce(shown, 40_000);
        let error = (predicted - truth).abs() as f64 / (before - truth) as f64;
        assert!(error <= 0.05, "{shown:?}: {before} {truth} {predicted}");
    }
}

/// Draws steps of DDP: a backward pass passes a bucket to Gloo and continues for 50 us, the reducer
/// sleeps until the bucket is there and copies it in 20 us, and the optimizer takes 30 us.
/// `ends_late` is the delay of each range's end.
fn reduced_steps(transfer: i64, ends_late: &[i64]) -> (TraceBuilder, i64) {
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    let mut now = 0;
    for (number, late) in (1..).zip(ends_late) {
        draw.op(main, "DistributedDataParallel.forward", now, now + 40_000);
        let engine = "autograd::engine::evaluate_function: ";
        let pass = now + 40_000;
        draw.op(
            main,
            &format!("{engine}AccumulateGrad"),
            pass,
            pass + 20_000,
        );
        let call = ParamComms::new("allreduce", 0..2, 0, number);
        draw.collective(main, &call, pass + 5_000, pass + 15_000);
        draw.op(
            main,
            &format!("{engine}AddBackward"),
            pass + 20_000,
            pass + 70_000,
        );
        let (begun, end) = (pass + 25_000, pass + 25_000 + transfer);
        draw.annotation(worker, "gloo:all_reduce", begun, end + late);
        let copy = (end + WAKE).max(pass + 72_000);
        let reducer = "torch.distributed.ddp.reducer::copy_bucket_to_grad";
        draw.op(main, reducer, copy, copy + 20_000);
        draw.op(main, "optimizer", copy + 20_000, copy + 50_000);
        now = copy + 60_000;
    }
    (draw, now - 10_000)
}

#[test]
fn a_bucket_whose_range_ends_late_takes_no_longer_than_the_reducer_slept() {
    for late in [0, 15_000, 90_000] {
        // The trace ends with the last step.
        let ends_late = [late, late, late, late, 0];
        let (draw, before) = reduced_steps(2_000_000, &ends_late);
        let [plain, predicted] = makespans(&draw, "kind=collective 0.1");
        assert_eq!(plain, before, "{late}");
        let (_, truth) = reduced_steps(200_000, &ends_late);
        let error = (predicted - truth).abs() as f64 / (before - truth) as f64;
        assert!(error <= 0.05, "{late}: {before} {truth} {predicted}");
    }
}
