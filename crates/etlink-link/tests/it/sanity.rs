//! Tests damaged device rows: four kinds of damage written by real recorders, and damage drawn over
//! healthy traces of a machine.

use crate::support::{anomalies, device};
use etlink_link::{LinkOptions, LinkedTrace, judge_rows, link};
use etlink_model::{ALL_TIME, AnomalyKind, Correlation, DeviceTrace, DurationNs, RowKind, TimeNs};
use etlink_testing::{DeviceQueue, Machine, MachineChange, TraceBuilder, random_program};
use proptest::prelude::*;

const US: i64 = 1_000;
const MS: i64 = 1_000 * US;

/// Draws two steps from `begin`, in each of which kernels of two ops alternate on one stream.
fn two_steps(launch: &str, kernels: i64, begin: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..2 {
        let start = begin + step * 10 * MS;
        draw.annotation(
            main,
            &format!("ProfilerStep#{step}"),
            start,
            start + 10 * MS,
        );
        for number in 0..kernels {
            let (op, kernel) = [("aten::mm", "gemm"), ("aten::add", "add")][number as usize % 2];
            let at = start + 10 * US + number * 100 * US;
            draw.op(main, op, at, at + 50 * US);
            let id = draw.next_correlation();
            draw.call(main, launch, (at + 10 * US, at + 15 * US), id);
            let row = start + 200 * US + number * 200 * US;
            draw.kernel(DeviceQueue::stream(7), kernel, (row, row + 180 * US), id);
        }
    }
    draw
}

fn linked(device: DeviceTrace) -> LinkedTrace {
    link(None, device, LinkOptions::default()).expect("links")
}

/// Anomalies found in device rows.
fn row_damage(trace: &LinkedTrace) -> Vec<(AnomalyKind, u64)> {
    let mut all = anomalies(trace);
    all.retain(|(kind, _)| kind.is_of_rows());
    all
}

fn unknown(trace: &LinkedTrace) -> &[(TimeNs, TimeNs)] {
    &trace.device.row_sanity.as_ref().expect("judged").unknown
}

/// Drops the rows at the indexes for which `is_lost` returns true.
fn lose(device: &mut DeviceTrace, is_lost: impl Fn(usize) -> bool) {
    let keep: Vec<bool> = (0..device.rows.len()).map(|row| !is_lost(row)).collect();
    device.retain_rows(&keep);
}

#[test]
fn a_row_over_later_rows_of_its_stream_ends_where_the_next_begins() {
    // in the middle, near the end, over the last row, several, and after everything else
    for overlong in [&[10usize][..], &[70], &[78], &[3, 30, 31, 60], &[79]] {
        let mut trace = device(&two_steps("cudaLaunchKernel", 40, MS));
        for row in overlong {
            trace.rows.duration[*row] = DurationNs(3_400 * MS);
        }
        let trace = linked(trace);
        let count = overlong.len() as u64;
        assert_eq!(
            row_damage(&trace),
            [(AnomalyKind::RowOverlong, count)],
            "{overlong:?}"
        );
        let rows = &trace.device.rows;
        for row in overlong {
            let duration = rows.duration[*row].0;
            assert!(duration <= 200 * US, "{overlong:?}: {duration}");
        }
        assert_eq!(rows.len(), 80);
        let (_, found) = trace.report.anomalies.iter().last().expect("found");
        assert!(found.device_ns > 3_399_000_000 * count && found.of_device_ns > found.device_ns);
        assert!(unknown(&trace).is_empty());
    }
}

#[test]
fn rows_that_all_last_too_long_are_cut_off() {
    for (length, every, least) in [
        (3_400 * MS, 1, 79),
        (3_400 * MS, 2, 40),
        (20 * MS, 1, 78),
        (1_100 * US, 1, 70),
        (1_000 * US, 3, 24),
    ] {
        let mut trace = device(&two_steps("cudaLaunchKernel", 40, MS));
        for row in (0..80).step_by(every) {
            trace.rows.duration[row] = DurationNs(length);
        }
        let trace = linked(trace);
        let count = trace.report.anomalies.count(AnomalyKind::RowOverlong);
        assert!(count >= least, "{length} every {every}: {count}");
        let durations = &trace.device.rows.duration;
        let long = durations.iter().filter(|ns| ns.0 > 300 * US).count() as u64;
        assert!(long <= 80 - least, "{length} every {every}: {long}");
    }
}

#[test]
fn kernels_of_no_length_are_left_out_where_rounding_does_not_explain_them() {
    // a name whose rows all have length 0; all rows; a few, in times with nanoseconds
    let places: [fn(usize) -> bool; 3] = [|row| row % 2 == 1, |_| true, |row| row == 7];
    for (is_lost, nanoseconds) in places.into_iter().zip([0, 0, 250]) {
        let mut trace = device(&two_steps("cudaLaunchKernel", 40, 1_000 * MS));
        let mut count = 0;
        for row in 0..80 {
            trace.rows.duration[row] = DurationNs(2 * US + nanoseconds);
            if is_lost(row) {
                trace.rows.duration[row] = DurationNs::ZERO;
                count += 1;
            }
        }
        let found = linked(trace);
        let without = found.report.anomalies.count(AnomalyKind::RowWithoutTime);
        assert_eq!(without, count, "{nanoseconds}");
    }
}

#[test]
fn rows_that_overlap_by_dependent_launches_or_inside_a_graph_are_right() {
    let mut draw = two_steps("cudaLaunchKernel", 40, MS);
    let (main, stream) = (draw.thread(), DeviceQueue::stream(9));
    let long = draw.next_correlation();
    draw.call(main, "cudaLaunchKernelExC", (21 * MS, 21 * MS + US), long);
    draw.kernel(stream, "first", (21 * MS, 23 * MS), long);
    // begins long before the first one ends, and ends after it
    let next = draw.next_correlation();
    draw.call(
        main,
        "cudaLaunchKernelExC",
        (21 * MS + 2 * US, 21 * MS + 3 * US),
        next,
    );
    draw.kernel(stream, "second", (22 * MS, 24 * MS), next);
    let graph = draw.next_correlation();
    draw.call(main, "cudaGraphLaunch", (24 * MS, 24 * MS + US), graph);
    draw.kernel(stream, "outer", (24 * MS, 29 * MS), graph);
    for node in 0..9 {
        let start = 24 * MS + node * 100 * US;
        draw.kernel(stream, "inner", (start, start + 50 * US), graph);
    }
    let trace = linked(device(&draw));
    assert_eq!(row_damage(&trace), []);
}

#[test]
fn lost_rows_make_time_unknown() {
    let half = |row: usize| row.is_multiple_of(2);
    let second_step = |row: usize| (50..70).contains(&row);
    for launch in [
        "cudaLaunchKernel",
        "hipLaunchKernel",
        "hipExtModuleLaunchKernel",
        "cuLaunchKernelEx",
    ] {
        let mut trace = device(&two_steps(launch, 40, MS));
        lose(&mut trace, half);
        let trace = linked(trace);
        assert_eq!(
            row_damage(&trace),
            [(AnomalyKind::LaunchWithoutRow, 40)],
            "{launch}"
        );
        assert_eq!(unknown(&trace), [ALL_TIME], "{launch}");
    }
    let mut trace = device(&two_steps("cudaLaunchKernel", 40, MS));
    lose(&mut trace, second_step);
    let trace = linked(trace);
    assert_eq!(row_damage(&trace), [(AnomalyKind::LaunchWithoutRow, 20)]);
    let [(from, until)] = unknown(&trace) else {
        panic!("one stretch");
    };
    // from the first launch without a row until the next existing row
    assert_eq!(
        [from.0, until.0],
        [
            11 * MS + 20 * US + 10 * 100 * US,
            11 * MS + 200 * US + 30 * 200 * US
        ]
    );
}

#[test]
fn graph_launches_and_copies_lose_rows_as_kernels_do() {
    for call in [
        "cudaGraphLaunch",
        "hipGraphLaunch",
        "cudaMemcpyAsync",
        "hipMemcpyWithStream",
    ] {
        let mut draw = two_steps("cudaLaunchKernel", 40, MS);
        let main = draw.thread();
        for number in 0..12 {
            let (id, at) = (draw.next_correlation(), MS + number * 400 * US);
            draw.call(main, call, (at, at + US), id);
            if number < 4 {
                let stream = DeviceQueue::stream(9);
                draw.kernel(stream, "in graph", (at + 2 * US, at + 20 * US), id);
                draw.kernel(stream, "in graph", (at + 30 * US, at + 40 * US), id);
            }
        }
        let trace = linked(device(&draw));
        assert_eq!(
            row_damage(&trace),
            [(AnomalyKind::LaunchWithoutRow, 8)],
            "{call}"
        );
        assert!(!unknown(&trace).is_empty(), "{call}");
    }
}

#[test]
fn what_is_captured_and_memsets_of_nothing_need_no_rows() {
    let mut draw = two_steps("cudaLaunchKernel", 40, MS);
    let (main, other) = (draw.thread(), draw.thread());
    let mut call = |thread, name: &str, at: i64| {
        let id = draw.next_correlation();
        draw.call(thread, name, (at, at + US), id);
    };
    call(main, "cudaStreamBeginCapture", 21 * MS);
    for number in 0..40 {
        call(
            [main, other][number % 2],
            "cudaLaunchKernel",
            21 * MS + (number as i64 + 1) * 2 * US,
        );
    }
    call(main, "cudaStreamEndCapture", 22 * MS);
    for number in 0..40 {
        call(main, "cudaMemsetAsync", 23 * MS + number * 2 * US);
    }
    // a single failed launch
    call(main, "cudaLaunchKernel", 24 * MS);
    let trace = linked(device(&draw));
    assert_eq!(row_damage(&trace), []);
    assert!(unknown(&trace).is_empty());
}

#[test]
fn rows_of_a_shared_correlation_go_to_the_launches_in_order() {
    for (shared_by, launch) in [
        (2, "hipLaunchKernel"),
        (2, "cudaLaunchKernel"),
        (3, "hipModuleLaunchKernel"),
    ] {
        for is_last in [false, true] {
            let mut trace = device(&two_steps(launch, 36, MS));
            let own = trace.rows.correlation.clone();
            for (row, id) in trace.rows.correlation.iter_mut().enumerate() {
                let first = row - row % shared_by;
                *id = own[if is_last {
                    first + shared_by - 1
                } else {
                    first
                }];
            }
            let trace = linked(trace);
            let moved = 72 - 72 / shared_by as u64;
            assert_eq!(
                row_damage(&trace),
                [(AnomalyKind::CorrelationShared, moved)]
            );
            assert_eq!(trace.device.rows.correlation, own);
            assert!(unknown(&trace).is_empty());
        }
    }

    // the row may belong to either of the two launches without a row
    let mut trace = device(&two_steps("hipLaunchKernel", 36, MS));
    trace.rows.correlation[21] = trace.rows.correlation[20];
    lose(&mut trace, |row| row == 22);
    let trace = linked(trace);
    assert_eq!(
        row_damage(&trace),
        [
            (AnomalyKind::CorrelationAmbiguous, 1),
            (AnomalyKind::LaunchWithoutRow, 2)
        ]
    );
}

#[test]
fn losses_with_hundreds_of_rows_between_them_are_two_stretches() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for number in 0..2_000 {
        let at = MS + number * 100 * US;
        let id = draw.next_correlation();
        draw.call(main, "cudaLaunchKernel", (at, at + 5 * US), id);
        let row = (at + 10 * US, at + 100 * US);
        draw.kernel(DeviceQueue::stream(7), "gemm", row, id);
    }
    let mut trace = device(&draw);
    lose(&mut trace, |row| {
        (300..340).contains(&row) || (700..790).contains(&row)
    });
    let trace = linked(trace);
    assert_eq!(row_damage(&trace), [(AnomalyKind::LaunchWithoutRow, 130)]);
    assert_eq!(unknown(&trace).len(), 2, "{:?}", unknown(&trace));
}

/// Drawn rows carry the id of another launch, among launches that have their own rows.
#[test]
fn rows_of_a_shared_correlation_pass_by_launches_that_have_a_row() {
    // per launch of a period: index of the launch whose id its row has
    let periods: [&[usize]; 8] = [
        &[0, 1, 0],
        &[2, 1, 2],
        &[0, 1, 2, 0],
        &[0, 0, 2],
        &[1, 1, 2],
        &[0, 1, 0, 0],
        &[0, 1, 2, 3, 4, 0],
        &[3, 1, 2, 3],
    ];
    // delay of rows after their launches: none, or until everything is launched
    for behind in [20 * US, 9 * MS] {
        for queues in [1, 2] {
            for period in periods {
                let mut draw = TraceBuilder::default();
                let main = draw.thread();
                let mut ids = vec![];
                for number in 0..60 {
                    let at = MS + number * 150 * US;
                    draw.op(main, "aten::mm", at, at + 50 * US);
                    let id = draw.next_correlation();
                    draw.call(main, "hipLaunchKernel", (at + 10 * US, at + 15 * US), id);
                    ids.push(id);
                }
                let mut own = vec![];
                for number in 0..60usize {
                    let place = number % period.len();
                    let id = ids[(number - place + period[place]).min(59)];
                    let start = MS + behind + number as i64 * 150 * US;
                    let queue = DeviceQueue::stream(7 + number as i64 % queues);
                    let span = (start + 15 * US, start + 115 * US);
                    draw.kernel(queue, "gemm", span, id);
                    own.push(Correlation(ids[number]));
                }
                // the last period is incomplete
                let trace = linked(device(&draw));
                let given = &trace.device.rows.correlation;
                let whole = 60 - 60 % period.len();
                let case = format!("{period:?}, {behind} ns behind, {queues} queues");
                let right = (0..whole).filter(|row| given[*row] == own[*row]).count();
                assert_eq!(right, whole, "{case}");
            }
        }
    }
}

#[test]
fn rows_without_a_time_are_left_out_and_make_no_idle_time() {
    let mut trace = device(&two_steps("cudaLaunchKernel", 40, 1_000 * MS));
    let zero: Vec<usize> = (0..80).filter(|row| row % 4 == 3).collect();
    for row in &zero {
        trace.rows.start[*row] = TimeNs(0);
        trace.rows.duration[*row] = DurationNs::ZERO;
    }
    trace.sort_by_time().expect("short tables");
    let found = linked(trace);
    assert_eq!(row_damage(&found), [(AnomalyKind::RowWithoutTime, 20)]);
    assert_eq!(found.device.rows.len(), 60);
    assert_eq!(unknown(&found), [ALL_TIME]);
    let window = found.report.window;
    assert!(window.start_ns >= 1_000 * MS, "{window:?}");
    // a trace may begin at 0, with a row shorter than the rounding of times
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for number in 0..10 {
        let at = number * 10 * US;
        draw.launch(
            main,
            (at, at + US),
            DeviceQueue::stream(7),
            "short",
            (at, at),
        );
    }
    assert_eq!(row_damage(&linked(device(&draw))), []);
}

#[test]
fn negative_durations_are_left_out() {
    let draw = two_steps("cudaLaunchKernel", 40, MS);
    let text = String::from_utf8(draw.kineto()).expect("text");
    let changed = text.replacen("\"dur\": 180.000", "\"dur\": -180.000", 12);
    assert_ne!(text, changed);
    let options = etlink_formats::kineto::KinetoReadOptions::default();
    let trace = etlink_formats::kineto::read(changed.as_bytes(), options).expect("reads");
    let trace = linked(trace);
    assert_eq!(row_damage(&trace), [(AnomalyKind::RowWithoutTime, 12)]);
    assert_eq!(trace.device.rows.len(), 68);
    assert_eq!(unknown(&trace).len(), 1);
}

/// Damage applied to the rows of a healthy trace.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Lose,
    Zero,
    Twice,
    Overlong,
    Far(i64),
}

impl Damage {
    fn kind(self) -> AnomalyKind {
        match self {
            Damage::Lose => AnomalyKind::LaunchWithoutRow,
            Damage::Zero => AnomalyKind::RowWithoutTime,
            Damage::Twice => AnomalyKind::EventTwice,
            Damage::Overlong => AnomalyKind::RowOverlong,
            Damage::Far(_) => AnomalyKind::RowTimeImpossible,
        }
    }

    fn plant(self, device: &mut DeviceTrace, wanted: &[usize]) {
        let mut keep = vec![true; device.rows.len()];
        for row in wanted {
            let rows = &mut device.rows;
            match self {
                Damage::Lose => keep[*row] = false,
                Damage::Zero => {
                    (rows.start[*row], rows.duration[*row]) = (TimeNs(0), DurationNs::ZERO)
                }
                Damage::Twice => {
                    let again = rows.row(*row);
                    rows.push(again);
                    keep.push(true);
                }
                Damage::Overlong => rows.duration[*row] = DurationNs(5_000 * MS),
                Damage::Far(ns) => rows.start[*row] = rows.start[*row].shifted(ns),
            }
        }
        device.retain_rows(&keep);
        device.sort_by_time().expect("short tables");
    }
}

fn healthy(seed: u64) -> DeviceTrace {
    let (program, options, _) = random_program(seed);
    let mut machine = Machine::run(&program, options, MachineChange::None);
    machine.trace.origin(2_000 * MS);
    device(&machine.trace)
}

proptest! {
    #[test]
    fn planted_damage_is_counted_and_nothing_else(
        seed in 0u64..1_000,
        damage in prop_oneof![
            Just(Damage::Lose),
            Just(Damage::Zero),
            Just(Damage::Twice),
            Just(Damage::Overlong),
            Just(Damage::Far(-9_000 * MS)),
            Just(Damage::Far(9_000 * MS)),
            Just(Damage::Far(3_600_000 * MS)),
        ],
        places in prop::collection::btree_set(0usize..10_000, 2..12),
    ) {
        let mut device = healthy(seed);
        let mut sound = device.clone();
        judge_rows(&mut sound);
        prop_assert_eq!(&sound.anomalies, &device.anomalies);
        prop_assert_eq!(&sound.rows, &device.rows);
        let rows = device.rows.len();
        // The last row of a stream has no later row to cover; only a few of many are damaged.
        let last: Vec<usize> = (0..device.queues.len())
            .filter_map(|queue| (0..rows).rev().find(|row| device.rows.queue[*row].index() == queue))
            .collect();
        let mut wanted: Vec<usize> = places.into_iter().map(|place| place % rows).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|row| !last.contains(row) && device.rows.kind[*row] == RowKind::Kernel);
        wanted.truncate(rows / 8);
        prop_assume!(wanted.len() > 1);
        damage.plant(&mut device, &wanted);
        judge_rows(&mut device);
        let found: Vec<(AnomalyKind, u64)> = device
            .anomalies
            .iter()
            .filter(|(kind, _)| kind.is_of_rows())
            .map(|(kind, anomaly)| (kind, anomaly.count))
            .collect();
        prop_assert_eq!(found, vec![(damage.kind(), wanted.len() as u64)]);
        let twice = device.anomalies.clone();
        device.row_sanity = None;
        judge_rows(&mut device);
        // removed rows are not found again, except that launches now lack rows
        let again = |kind: AnomalyKind| device.anomalies.count(kind) == twice.count(kind);
        prop_assert!(again(AnomalyKind::RowOverlong) && again(AnomalyKind::RowTimeImpossible));
        let is_row_of_launch = |id: &Correlation| id.get().is_some();
        prop_assert!(device.rows.correlation.iter().all(is_row_of_launch));
    }
}

#[test]
fn lost_calls_and_ops_and_impossible_times_of_the_host_are_counted() {
    fn kept<const EVERY: usize>(events: usize) -> Vec<bool> {
        (0..events).map(|event| event % EVERY != 5).collect()
    }
    type Harm = fn(&mut DeviceTrace);
    let cases: [(Harm, AnomalyKind, u64); 9] = [
        (
            |trace| trace.retain_calls(&kept::<16>(80)),
            AnomalyKind::CallLost,
            5,
        ),
        // the ops of the calls, and not the steps
        (
            |trace| trace.retain_ops(&kept::<16>(82)),
            AnomalyKind::OpLost,
            5,
        ),
        // a row again, half a microsecond later
        (
            |trace| {
                let mut again = trace.rows.row(30);
                again.start = again.start.shifted(500);
                trace.rows.push(again);
            },
            AnomalyKind::EventTwice,
            1,
        ),
        // over the begin of the next op
        (
            |trace| trace.ops.duration[9] = DurationNs(120 * US),
            AnomalyKind::HostTimeImpossible,
            1,
        ),
        // a step over the whole next one
        (
            |trace| trace.ops.duration[0] = DurationNs(25 * MS),
            AnomalyKind::HostTimeImpossible,
            1,
        ),
        // and over its begin
        (
            |trace| trace.ops.duration[0] = DurationNs(15 * MS),
            AnomalyKind::HostTimeImpossible,
            1,
        ),
        (
            |trace| trace.ops.duration[9] = DurationNs::ZERO,
            AnomalyKind::HostTimeImpossible,
            1,
        ),
        (
            |trace| trace.ops.start[9] = trace.ops.start[9].shifted(5 * MS),
            AnomalyKind::HostTimeImpossible,
            1,
        ),
        // also the op that crosses the end of the call
        (
            |trace| trace.calls.duration[9] = DurationNs(2 * MS),
            AnomalyKind::HostTimeImpossible,
            2,
        ),
    ];
    for (case, (harm, kind, count)) in cases.into_iter().enumerate() {
        let mut trace = device(&two_steps("cudaLaunchKernel", 40, MS));
        harm(&mut trace);
        trace.sort_by_time().expect("short tables");
        assert_eq!(anomalies(&linked(trace)), [(kind, count)], "{case}");
    }
}

/// Draws a step of ops that launch a kernel each, without the calls and rows of some of them. Each call
/// takes the next id; `skipped` ids are those of calls that the recorder leaves out.
fn buffer_lost(lost: std::ops::Range<i64>, names: &[&str], skipped: i64) -> LinkedTrace {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 20 * MS);
    let mut id = 0;
    for number in 0..100 {
        let at = 10 * US + number * 200 * US;
        draw.op(main, names[number as usize % names.len()], at, at + 50 * US);
        if lost.contains(&number) {
            id += skipped;
            continue;
        }
        id += 1;
        draw.call(main, "cudaLaunchKernel", (at + 10 * US, at + 15 * US), id);
        let row = (at + 20 * US, at + 150 * US);
        draw.kernel(DeviceQueue::stream(7), "gemm", row, id);
    }
    linked(device(&draw))
}

#[test]
fn calls_that_are_lost_with_their_rows_make_time_unknown() {
    let names = ["aten::mm", "aten::add", "aten::mul"];
    let trace = buffer_lost(40..60, &names, 1);
    assert_eq!(row_damage(&trace), [(AnomalyKind::OpWithoutLaunch, 20)]);
    // From the return of the last call to the begin of the next.
    let at = |number: i64| 10 * US + number * 200 * US;
    let span = (TimeNs(at(39) + 15 * US), TimeNs(at(60) + 10 * US));
    assert_eq!(unknown(&trace), [span]);
    // The ops work on the host: no id is missing, or only one name does.
    for (names, skipped) in [(&names[..], 0), (&names[..1], 1)] {
        let trace = buffer_lost(40..60, names, skipped);
        assert_eq!(row_damage(&trace), [], "{names:?}");
        assert_eq!(unknown(&trace), [], "{names:?}");
    }
    // Too few ops to show a loss, whatever ids are missing.
    assert_eq!(row_damage(&buffer_lost(40..45, &names, 100)), []);
    let trace = buffer_lost(10..90, &names, 1);
    assert_eq!(unknown(&trace), [ALL_TIME]);
}
