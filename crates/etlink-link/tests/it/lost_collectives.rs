//! Tests ranks of which one lost rows of its collectives: the remaining ones are compared as
//! before, and nobody is blamed for missing ones.

use crate::support::device;
use etlink_link::LinkOptions;
use etlink_link::ranks::{RankSummary, RunJoin, collective_skews, join_ranks, straggler_stats};
use etlink_model::{DeviceTrace, DurationNs, GlobalRank, TimeNs};
use etlink_testing::{DeviceQueue, ParamComms, TraceBuilder};
use std::collections::BTreeSet;

const US: i64 = 1_000;
const COLLECTIVES: usize = 40;

/// Place of the communication records of a drawn rank.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Record {
    Numbered,
    WithoutNumber,
    /// In the arguments of kernels only.
    OfKernels,
    /// In the arguments of kernels, without any op around a launch.
    WithoutOps,
}

/// Draws a rank that alternates computation and reductions. Rank 1 arrives at each reduction late,
/// by its number in us.
fn rank(rank: i64, record: Record) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.origin(1_000_000 * US);
    draw.distributed(rank, 2);
    let main = draw.thread();
    for number in 0..COLLECTIVES as i64 {
        let at = number * 400 * US;
        let id = draw.next_correlation();
        if record != Record::WithoutOps {
            draw.op(main, "aten::mm", at, at + 40 * US);
        }
        draw.call(main, "cudaLaunchKernel", (at + 10 * US, at + 15 * US), id);
        let late = rank * number * US;
        let row = at + 30 * US;
        draw.kernel(
            DeviceQueue::stream(7),
            "gemm",
            (row, row + 100 * US + late),
            id,
        );
        let number = if record == Record::Numbered {
            number
        } else {
            -1
        };
        let comms = ParamComms::new("allreduce", [0, 1], rank, number);
        let (begin, end) = (at + 50 * US, at + 90 * US);
        match record {
            Record::Numbered | Record::WithoutNumber => {
                draw.collective(main, &comms, begin, end);
            }
            Record::OfKernels => {
                draw.op(main, "c10d::allreduce_", begin, end);
            }
            Record::WithoutOps => {}
        }
        let id = draw.next_correlation();
        draw.call(
            main,
            "cudaLaunchKernelExC",
            (at + 60 * US, at + 65 * US),
            id,
        );
        let kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
        // both end together
        let (start, end) = (at + 140 * US + late, at + 300 * US);
        draw.collective_kernel(DeviceQueue::stream(20), kernel, (start, end), id, &comms);
    }
    draw
}

fn is_collective(device: &DeviceTrace, row: usize) -> bool {
    device.names.get(device.rows.name[row]).starts_with("nccl")
}

/// Indexes of the rows that are collectives, in order.
fn collectives(device: &DeviceTrace) -> Vec<usize> {
    (0..device.rows.len())
        .filter(|row| is_collective(device, *row))
        .collect()
}

fn lose(device: &mut DeviceTrace, lost: &BTreeSet<usize>) {
    let rows = 0..device.rows.len();
    let keep: Vec<bool> = rows.map(|row| !lost.contains(&row)).collect();
    device.retain_rows(&keep);
}

fn summary(device: DeviceTrace, rank: i64) -> RankSummary {
    let trace = etlink_link::link(None, device, LinkOptions::default()).expect("links");
    RankSummary::from_trace(&trace, GlobalRank(rank))
}

/// Delays of rank 1 in us, for each collective that is compared.
fn compared(ranks: &[RankSummary], join: &RunJoin) -> Vec<i64> {
    let skews = collective_skews(ranks, join, &[]);
    let mut all: Vec<i64> = skews.iter().map(|skew| skew.skew_ns / US).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_lost_row_of_a_collective_shifts_no_other_and_blames_nobody() {
    type Loss = (&'static str, fn(usize) -> bool);
    let losses: [Loss; 6] = [
        ("all", |_| true),
        ("every third", |number| number % 3 == 1),
        ("the first", |number| number < 9),
        ("the last", |number| number > 30),
        ("a stretch", |number| (12..23).contains(&number)),
        ("one", |number| number == 5),
    ];
    for record in [
        Record::Numbered,
        Record::WithoutNumber,
        Record::OfKernels,
        Record::WithoutOps,
    ] {
        for (what, is_lost) in losses {
            for has_no_time in [false, true] {
                let mut second = device(&rank(1, record));
                let rows = collectives(&second);
                let lost: BTreeSet<usize> = (0..)
                    .zip(&rows)
                    .filter_map(|(number, row)| is_lost(number).then_some(*row))
                    .collect();
                if has_no_time {
                    for row in &lost {
                        second.rows.start[*row] = TimeNs(-1_000_000 * US);
                        second.rows.duration[*row] = DurationNs(0);
                    }
                } else {
                    lose(&mut second, &lost);
                }
                let ranks = [summary(device(&rank(0, record)), 0), summary(second, 1)];
                let join = join_ranks(&ranks);
                let case = format!("{record:?}, {what}, without time: {has_no_time}");
                let late = compared(&ranks, &join);
                let kept = (0..COLLECTIVES).filter(|number| !is_lost(*number));
                let truth: Vec<i64> = kept.map(|number| number as i64).collect();
                let is_named = matches!(record, Record::Numbered | Record::WithoutNumber);
                if is_named {
                    assert_eq!(late, truth, "{case}");
                } else {
                    // the remaining ones cannot be identified
                    assert_eq!(late, Vec::<i64>::new(), "{case}");
                }
                let waited: i64 = straggler_stats(&ranks, &join, &[])
                    .iter()
                    .map(|rank| rank.waited_ns / US)
                    .sum();
                assert_eq!(waited, late.iter().sum::<i64>(), "{case}");
            }
        }
    }
}

#[test]
fn calls_alone_are_not_compared_with_device_rows() {
    let mut second = device(&rank(1, Record::WithoutNumber));
    let all = 0..second.rows.len();
    lose(&mut second, &all.collect());
    // recorded with only the CPU activity
    second.retain_calls(&vec![false; second.calls.len()]);
    let ranks = [
        summary(device(&rank(0, Record::WithoutNumber)), 0),
        summary(second, 1),
    ];
    let join = join_ranks(&ranks);
    assert_eq!(join.matches.len(), COLLECTIVES);
    assert_eq!(compared(&ranks, &join), Vec::<i64>::new());
}
