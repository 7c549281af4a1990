//! Tests waits of device rows and calls, and unexplained delays.

use crate::support::{alone, anomalies, checked, delays, device, edges, thread};
use etlink_link::{EdgeKind, LinkOptions, NodeKind};
use etlink_model::{AnomalyKind, DiagnosticCode, DurationNs, RowIdx, TimeNs};
use etlink_testing::{DeviceQueue, KinetoFlavour, TraceBuilder, grows_evenly};

const SEVEN: DeviceQueue = DeviceQueue {
    device: 0,
    context: 1,
    stream: 7,
};
const TWENTY: DeviceQueue = DeviceQueue {
    device: 0,
    context: 1,
    stream: 20,
};

#[test]
fn threads_and_streams_begin_with_what_came_before_the_recording() {
    // thread 0   a ====
    // thread 1        b ====
    // stream 7     early ===
    let mut draw = TraceBuilder::default();
    let (first, second) = (draw.thread(), draw.thread());
    draw.op(first, "a", 0, 20_000);
    draw.op(second, "b", 30_000, 50_000);
    draw.kernel(SEVEN, "early", (10_000, 15_000), 99);
    let trace = alone(&draw);
    assert_eq!(delays(&trace), ["boundary 0-30", "boundary 0-10"]);
}

#[test]
fn a_stream_that_was_busy_before_the_recording_has_a_boundary() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, (0, 5_000), SEVEN, "k", (7_000_000, 7_010_000));
    let trace = alone(&draw);
    assert_eq!(delays(&trace), ["boundary 0-7000"]);
    let launch = trace
        .edges
        .iter()
        .find(|edge| edge.kind == EdgeKind::Launch)
        .expect("launched");
    assert_eq!(trace.name(&trace.nodes.get(launch.to)), "k");
}

#[test]
fn a_late_start_without_a_cause_is_a_delay_of_its_own() {
    // launch a, launch b   a ===                     b ===
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, (0, 5_000), SEVEN, "a", (10_000, 20_000));
    draw.launch(main, (5_000, 10_000), SEVEN, "b", (700_000, 720_000));
    let trace = alone(&draw);
    assert_eq!(delays(&trace), ["unexplained wait 20-700"]);
    assert_eq!(
        edges(&trace, EdgeKind::StreamOrder),
        ["a -> unexplained wait", "unexplained wait -> b"]
    );
}

#[test]
fn a_delay_never_begins_after_its_row() {
    // op                 ====
    // launch              ==        the clocks put a row before the call that launched it
    // stream 7       ========
    //                  ======       and a row without a launch begins in between
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "first", 0, 50_000);
    draw.op(main, "op", 101_800, 110_000);
    let launch = (101_900, 110_000);
    draw.launch(main, launch, SEVEN, "early", (100_000, 120_000));
    draw.kernel(SEVEN, "lost", (100_100, 121_000), None);
    let trace = checked(alone(&draw));
    let wait = trace
        .nodes
        .indices()
        .map(|at| trace.nodes.get(at))
        .find(|node| node.kind == NodeKind::UnexplainedWait)
        .expect("nothing explains the row's start");
    assert_eq!(
        (wait.start, wait.duration),
        (TimeNs(100_100), DurationNs(0))
    );
}

#[test]
fn a_call_that_takes_long_launches_when_it_ends() {
    // launch a, launch ------------------------- b ===     modules are loaded when they are used
    // first
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, (0, 5_000), SEVEN, "a", (10_000, 20_000));
    draw.launch(main, (5_000, 900_000), SEVEN, "b", (910_000, 920_000));
    let trace = alone(&draw);
    assert_eq!(delays(&trace), [""; 0]);
    assert_eq!(edges(&trace, EdgeKind::Launch), ["cudaLaunchKernel -> b"]);
}

/// Draws kernels, each followed by a copy that the host waits for. The device's clock is `ahead`.
fn blocking_copies(ahead: i64, odd: bool) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..20 {
        let at = step * 200_000;
        let kernel = (at + 6_000 + ahead, at + 90_000 + ahead);
        draw.launch(main, (at, at + 4_000), SEVEN, "k", kernel);
        let id = draw.next_correlation();
        // A copy that returns at once is no evidence against the others.
        let end = if odd && step == 3 { 15_000 } else { 101_000 };
        draw.call(main, "hipMemcpyWithStream", (at + 10_000, at + end), id);
        let copy = (at + 91_000 + ahead, at + 99_500 + ahead);
        draw.memcpy(SEVEN, "CopyDeviceToHost", copy, id, 64);
    }
    draw.op(main, "last", 4_000_000, 4_010_000);
    draw
}

#[test]
fn a_device_whose_clock_is_off_is_waited_for() {
    for ahead in [-40_000, -9_000, -8_000, 0, 2_000, 5_000, 8_000] {
        let trace = checked(alone(&blocking_copies(ahead, false)));
        assert_eq!(edges(&trace, EdgeKind::HostWait).len(), 20, "{ahead}");
        let clocks: Vec<i64> = trace
            .report
            .device_clocks
            .iter()
            .map(|c| c.ahead_ns.0)
            .collect();
        // Copies end 1.5 us before their calls return, and start 6 us after theirs.
        let want = match ahead {
            ..=-8_001 => vec![ahead + 6_000],
            3_501.. => vec![ahead - 1_500],
            _ => vec![],
        };
        assert_eq!(clocks, want);
        assert_eq!(trace.device.rows.start[0].0, 6_000 + ahead, "as recorded");
    }
    let damaged = checked(alone(&blocking_copies(0, true)));
    assert_eq!(damaged.report.device_clocks, []);
}

#[test]
fn rows_of_a_clock_that_drifts_are_brought_to_the_time_of_the_host() {
    // 300 us ahead at first, and 200 ns more per ms
    let ahead = |at: i64| at + 300_000 + at / 5_000;
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let starts: Vec<i64> = (0..20).map(|step| step * 10_000_000).collect();
    for &at in &starts {
        let kernel = (ahead(at + 6_000), ahead(at + 90_000));
        draw.launch(main, (at, at + 4_000), SEVEN, "k", kernel);
        let id = draw.next_correlation();
        draw.call(main, "hipMemcpyWithStream", (at + 10_000, at + 101_000), id);
        let copy = (ahead(at + 91_000), ahead(at + 99_500));
        draw.memcpy(SEVEN, "CopyDeviceToHost", copy, id, 64);
    }
    let trace = alone(&draw);
    let kernels = (0..).map(RowIdx).step_by(2);
    for (row, at) in kernels.zip(starts) {
        let start = trace.host_time(row, trace.device.rows.start[row.index()]);
        // No row starts before its call or ends after the call that waits for it: that is all that
        // is known, except for the rounding of a ns.
        let off = start.0 - (at + 6_000);
        assert!((-6_001..=1_501).contains(&off), "{row:?}: {off} ns");
    }
}

/// Draws ten kernels of 1 ms each, and one call that waits for them. The device's clock is `ahead`.
fn one_device_sync(ahead: i64, call: &str) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for kernel in 0..10 {
        let (called, start) = (kernel * 10_000, 50_000 + kernel * 1_001_000 + ahead);
        let span = (start, start + 1_000_000);
        draw.launch(main, (called, called + 5_000), SEVEN, "k", span);
    }
    draw.call(main, call, (100_000, 10_062_000), None);
    draw.op(main, "last", 10_070_000, 10_080_000);
    draw
}

#[test]
fn a_single_call_that_waited_aligns_the_clock() {
    // With a correct clock, the call returns 3 us after the last kernel has ended, and the first
    // kernel starts 50 us after its launch.
    for (ahead, shift) in [
        (-40_000, None),
        (0, None),
        (5_000, None),
        (5_001, Some(2_001)),
        (20_000, Some(17_000)),
        (300_000, Some(297_000)),
    ] {
        for call in ["hipDeviceSynchronize", "hipStreamSynchronize"] {
            let trace = checked(alone(&one_device_sync(ahead, call)));
            let clocks = &trace.report.device_clocks;
            let found: Vec<i64> = clocks.iter().map(|clock| clock.ahead_ns.0).collect();
            assert_eq!(found, Vec::from_iter(shift), "{ahead}");
            let contradicted: u64 = clocks.iter().map(|clock| clock.contradicted).sum();
            assert_eq!(contradicted, 0, "{ahead}");
            let waits = edges(&trace, EdgeKind::HostWait);
            assert_eq!(waits, [format!("k -> {call}")], "{ahead}");
        }
    }
}

#[test]
fn calls_that_wait_for_a_stream_or_an_event_align_the_clock() {
    for (sync, queues, rounds) in [
        ("cudaStreamSynchronize", 1, 1),
        ("hipStreamSynchronize", 2, 4),
        ("cudaEventSynchronize", 1, 4),
        ("hipEventSynchronize", 2, 4),
    ] {
        for ahead in [-50_000i64, -20_000, 0, 20_000, 50_000, 90_000] {
            let mut draw = TraceBuilder::default();
            let main = draw.thread();
            for round in 0..rounds {
                let at = 1_000_000 + round * 1_000_000;
                let start = at + 8_000 + ahead;
                let queue = [SEVEN, TWENTY][(round % queues) as usize];
                draw.launch(main, (at, at + 5_000), queue, "k", (start, start + 700_000));
                draw.call(main, "cudaEventRecord", (at + 6_000, at + 7_000), None);
                draw.call(main, sync, (at + 9_000, at + 711_000), None);
                draw.op(main, "after", at + 720_000, at + 900_000);
            }
            let clocks = alone(&draw).report.device_clocks;
            let found = clocks.iter().map(|clock| clock.ahead_ns.0).sum::<i64>();
            // rows start 8 us after their launch, and calls return 3 us after them
            let case = format!("{sync}, {queues} streams, {ahead}: {found}");
            if ahead.abs() < 10_000 {
                assert_eq!(found, 0, "{case}");
            } else {
                assert!((found - ahead).abs() <= 8_000, "{case}");
            }
        }
    }
}

#[test]
fn a_wait_that_the_clock_contradicts_stays_if_the_call_can_wait_for_nothing_else() {
    // An event without a visible record does not align a clock.
    for (call, ahead, edge, corrected) in [
        ("cudaEventSynchronize", 5_000, true, 0),
        ("cudaEventSynchronize", 20_000, false, 0),
        ("cudaStreamSynchronize", 33_001, true, 0),
        ("cudaDeviceSynchronize", 33_001, true, 0),
    ] {
        let trace = checked(alone(&one_device_sync(ahead, call)));
        let waits = edges(&trace, EdgeKind::HostWait);
        assert_eq!(!waits.is_empty(), edge, "{call} {ahead}");
        let count = trace.report.anomalies.count(AnomalyKind::WaitCorrected);
        assert_eq!(count, corrected, "{call} {ahead}");
    }
}

#[test]
fn rows_launched_before_the_recording_show_the_clock() {
    // synchronize ------------|         launch -
    // stream 7    == 80  == 81 ==|                . == 90
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.call(main, "hipDeviceSynchronize", (0, 60_000), 89);
    draw.call(main, "hipLaunchKernel", (70_000, 75_000), 90);
    for (start, end, id) in [
        (5_000, 40_000, 80),
        (41_000, 68_000, 81),
        (88_000, 95_000, 90),
    ] {
        draw.kernel(SEVEN, "k", (start, end), id);
    }
    draw.op(main, "last", 200_000, 201_000);
    let clocks = alone(&draw).report.device_clocks;
    let found: Vec<i64> = clocks.iter().map(|clock| clock.ahead_ns.0).collect();
    assert_eq!(found, [8_000]);
}

#[test]
fn what_another_process_runs_on_the_device_is_not_waited_for() {
    let mut draw = one_device_sync(0, "cudaDeviceSynchronize");
    let other = draw.process(77).thread();
    draw.launch(other, (100, 200), TWENTY, "other", (300, 12_000_000));
    assert_eq!(alone(&draw).report.device_clocks, []);
}

#[test]
fn copies_that_no_call_waits_for_say_nothing_of_the_clock() {
    // call   ==                       ==
    // copy                 =                        =      by the clock of the host
    for (call, copy) in [
        ("cudaMemcpy", "Memcpy HtoD (Pageable -> Device)"),
        ("hipMemcpyAsync", "CopyHostToDevice"),
        ("hipMemcpyAsync", "CopyDeviceToHost"),
    ] {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        for at in (0..20).map(|step| step * 200_000) {
            let id = draw.next_correlation();
            draw.call(main, call, (at, at + 2_000), id);
            draw.memcpy(SEVEN, copy, (at + 90_000, at + 90_500), id, 64);
        }
        let clocks = alone(&draw).report.device_clocks;
        assert_eq!(clocks, [], "{copy} by {call}");
    }
}

/// Draws devices with three kernels each, on clocks that are 50 us behind the host's.
fn late_devices(devices: usize) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "first", 0, 1_000);
    for device in 0..devices as i64 {
        for step in 0..3 {
            let at = 200_000 + 3_000 * (3 * device + step);
            let queue = DeviceQueue { device, ..SEVEN };
            let span = (at - 50_000, at - 48_000);
            draw.launch(main, (at, at + 1_000), queue, "k", span);
        }
    }
    draw
}

#[test]
fn many_clocks_are_one_note() {
    for (devices, notes) in [(1, 1), (8, 8), (9, 1), (40, 1)] {
        let report = alone(&late_devices(devices)).report;
        assert_eq!(report.device_clocks.len(), devices);
        let clocks = report.diagnostics.iter();
        let clocks = clocks.filter(|one| one.code == DiagnosticCode::ClockAligned);
        assert_eq!(clocks.count(), notes, "{devices}: {:?}", report.diagnostics);
    }
}

#[test]
fn rows_of_many_devices_are_shifted_in_the_time_of_their_number() {
    let input = |devices| device(&late_devices(devices));
    let is_even = grows_evenly("devices", 8_000, input, |device| {
        let trace = etlink_link::link(None, device.clone(), LinkOptions::default());
        assert!(trace.is_ok());
    });
    assert!(is_even);
}

/// Draws a launch of `a` on stream 7, which ends at 100 us, and of `b` on stream 20, after a record
/// and a wait.
fn two_streams(draw: &mut TraceBuilder, b_starts: i64, stated: bool) {
    let main = draw.thread();
    draw.op(main, "c10d::allreduce_", 10_000, 50_000);
    draw.launch(main, (0, 5_000), SEVEN, "a", (8_000, 100_000));
    let (record, wait) = (draw.next_correlation(), draw.next_correlation());
    draw.call(main, "cudaEventRecord", (20_000, 21_000), record);
    draw.call(main, "cudaStreamWaitEvent", (22_000, 23_000), wait);
    if stated {
        draw.sync(
            "Stream Wait Event",
            TWENTY,
            (22_000, 23_000),
            wait,
            Some((7, record)),
        );
    }
    draw.launch(
        main,
        (30_000, 35_000),
        TWENTY,
        "b",
        (b_starts, b_starts + 10_000),
    );
}

#[test]
fn a_stream_waits_for_what_was_launched_before_the_record() {
    let mut draw = TraceBuilder::default();
    two_streams(&mut draw, 101_000, true);
    let trace = alone(&draw);
    assert_eq!(edges(&trace, EdgeKind::EventWait), ["a -> b"]);
    assert!(trace.edges.iter().all(|edge| !edge.inferred));
    assert_eq!(delays(&trace), [""; 0]);
}

#[test]
fn without_sync_rows_the_wait_is_inferred_also_where_it_did_not_delay() {
    // The time from before the recording cannot hold up a row launched after another of its device.
    for (starts, waits) in [(101_000, "b"), (400_000, "unexplained wait")] {
        let mut draw = TraceBuilder::default();
        two_streams(&mut draw, starts, false);
        let trace = alone(&draw);
        let wait = format!("a -> {waits}");
        assert_eq!(edges(&trace, EdgeKind::EventWait), [wait]);
        assert!(
            trace
                .edges
                .iter()
                .all(|edge| edge.inferred == (edge.kind == EdgeKind::EventWait))
        );
    }
}

/// A stream that waits for an event while the device runs nothing of the trace waits for work from
/// before the recording; without the event, nothing shows that.
#[test]
fn an_event_from_before_the_recording_holds_up_the_first_row_of_a_stream() {
    let (boundary, wait) = ("boundary 0-900", "unexplained wait 20-900");
    for (has_wait, delay) in [(true, boundary), (false, wait)] {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        draw.launch(main, (0, 5_000), SEVEN, "a", (6_000, 8_000));
        if has_wait {
            draw.call(main, "hipStreamWaitEvent", (10_000, 11_000), None);
            draw.call(main, "hipEventDestroy", (12_000, 13_000), None);
        }
        draw.launch(main, (20_000, 25_000), TWENTY, "b", (900_000, 910_000));
        assert_eq!(delays(&alone(&draw)), [delay], "{has_wait}");
    }
}

#[test]
fn records_and_waits_that_are_captured_in_a_graph_order_nothing_yet() {
    let mut draw = TraceBuilder::default();
    let thread = draw.thread();
    draw.op(thread, "capture", 10_000, 50_000);
    draw.launch(thread, (0, 5_000), SEVEN, "a", (8_000, 100_000));
    draw.call(thread, "cudaStreamBeginCapture", (12_000, 13_000), None);
    draw.call(thread, "cudaEventRecord", (20_000, 21_000), None);
    draw.call(thread, "cudaStreamWaitEvent", (22_000, 23_000), None);
    draw.call(thread, "cudaStreamEndCapture", (24_000, 25_000), None);
    draw.launch(thread, (30_000, 35_000), TWENTY, "b", (400_000, 410_000));
    assert_eq!(edges(&alone(&draw), EdgeKind::EventWait), [""; 0]);
}

#[test]
fn a_wait_that_the_times_contradict_is_counted() {
    let mut draw = TraceBuilder::default();
    two_streams(&mut draw, 50_000, true);
    let trace = alone(&draw);
    assert_eq!(edges(&trace, EdgeKind::EventWait), [""; 0]);
    assert_eq!(anomalies(&trace), [(AnomalyKind::WaitContradicted, 1)]);
    // inferred waits must fit the times in the first place
    let mut draw = TraceBuilder::default();
    two_streams(&mut draw, 50_000, false);
    assert_eq!(anomalies(&alone(&draw)), []);
}

/// Draws Python code that launches on 20 and 7, records and waits on streams that no call names,
/// and launches on 24.
fn own_record(waits_elsewhere: bool) -> TraceBuilder {
    let twenty_four = DeviceQueue::stream(24);
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, (0, 5_000), TWENTY, "a", (8_000, 100_000));
    draw.launch(main, (6_000, 8_000), SEVEN, "c", (10_000, 50_000));
    draw.call(main, "cudaEventRecord", (110_000, 111_000), None);
    draw.call(main, "cudaStreamWaitEvent", (112_000, 113_000), None);
    draw.launch(
        main,
        (120_000, 125_000),
        twenty_four,
        "b",
        (128_000, 130_000),
    );
    if waits_elsewhere {
        // here stream 7 delays stream 24
        let at = |time: i64| 200_000 + time;
        draw.launch(
            main,
            (at(0), at(5_000)),
            SEVEN,
            "d",
            (at(8_000), at(400_000)),
        );
        draw.call(main, "cudaEventRecord", (at(10_000), at(11_000)), None);
        draw.call(main, "cudaStreamWaitEvent", (at(12_000), at(13_000)), None);
        let span = (at(402_000), at(410_000));
        draw.launch(main, (at(20_000), at(25_000)), twenty_four, "e", span);
    }
    draw
}

#[test]
fn a_programs_own_record_can_be_of_any_stream() {
    let trace = alone(&own_record(false));
    assert_eq!(edges(&trace, EdgeKind::EventWait), ["a -> b", "c -> b"]);
    let mut edges = trace.edges.iter();
    assert!(edges.all(|edge| edge.inferred == (edge.kind == EdgeKind::EventWait)));
}

#[test]
fn a_stream_waits_for_the_stream_that_it_waited_for_elsewhere() {
    let trace = alone(&own_record(true));
    assert_eq!(edges(&trace, EdgeKind::EventWait), ["c -> b", "d -> e"]);
}

#[test]
fn a_wait_explains_a_start_right_after_the_end_on_another_stream() {
    // a on 7 ends at 500 us; b on 20 was launched long before and starts then. The record was not
    // inside an op.
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, (0, 5_000), TWENTY, "x", (6_000, 7_000));
    draw.launch(main, (10_000, 15_000), SEVEN, "a", (20_000, 500_000));
    draw.call(main, "cudaStreamWaitEvent", (22_000, 23_000), None);
    draw.launch(main, (30_000, 35_000), TWENTY, "b", (505_000, 510_000));
    let trace = alone(&draw);
    assert_eq!(edges(&trace, EdgeKind::EventWait), ["a -> b"]);
    assert_eq!(delays(&trace), [""; 0]);
}

#[test]
fn a_call_that_blocks_goes_on_when_its_stream_has_ended() {
    // launch . synchronise ------------------|  next
    //          k ===========================
    for (flavour, name) in [
        (KinetoFlavour::Cuda, "cudaStreamSynchronize"),
        (KinetoFlavour::Rocm, "hipDeviceSynchronize"),
        (KinetoFlavour::Xpu, "urQueueFinish"),
    ] {
        let mut draw = TraceBuilder::new(flavour);
        let main = draw.thread();
        draw.launch(main, (0, 5_000), SEVEN, "k", (8_000, 90_000));
        draw.call(main, name, (10_000, 95_000), None);
        draw.op(main, "next", 95_000, 99_000);
        let trace = alone(&draw);
        assert_eq!(edges(&trace, EdgeKind::HostWait), [format!("k -> {name}")]);
        assert_eq!(
            thread(&trace)[1..],
            [
                "host gap 5-10".to_owned(),
                format!("{name} 90-95"),
                "next 95-99".to_owned()
            ]
        );
    }
}

#[test]
fn a_call_that_need_not_wait_has_no_hole() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, (0, 5_000), SEVEN, "k", (8_000, 20_000));
    draw.call(main, "cudaStreamSynchronize", (50_000, 52_000), None);
    let trace = alone(&draw);
    assert_eq!(
        edges(&trace, EdgeKind::HostWait),
        ["k -> cudaStreamSynchronize"]
    );
    assert_eq!(
        thread(&trace),
        [
            "cudaLaunchKernel 0-5",
            "host gap 5-50",
            "cudaStreamSynchronize 50-52"
        ]
    );
}

#[test]
fn a_device_is_waited_for_on_all_its_streams_and_an_event_only_to_its_record() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, (0, 5_000), SEVEN, "a", (8_000, 30_000));
    let record = draw.next_correlation();
    draw.call(main, "cudaEventRecord", (5_000, 6_000), record);
    draw.launch(main, (6_000, 7_000), SEVEN, "b", (30_000, 60_000));
    draw.launch(main, (7_000, 8_000), TWENTY, "c", (12_000, 70_000));
    let (event, device) = (draw.next_correlation(), draw.next_correlation());
    draw.call(main, "cudaEventSynchronize", (10_000, 33_000), event);
    draw.sync(
        "Event Sync",
        DeviceQueue::stream(-1),
        (10_000, 33_000),
        event,
        Some((7, record)),
    );
    draw.call(main, "cudaDeviceSynchronize", (40_000, 74_000), device);
    draw.sync(
        "Context Sync",
        DeviceQueue::stream(-1),
        (40_000, 74_000),
        device,
        None,
    );
    let trace = alone(&draw);
    let want = [
        "a -> cudaEventSynchronize",
        "c -> cudaDeviceSynchronize",
        "b -> cudaDeviceSynchronize",
    ];
    assert_eq!(edges(&trace, EdgeKind::HostWait), want);
    assert_eq!(
        thread(&trace)[4..],
        [
            "host gap 8-10",
            "cudaEventSynchronize 30-33",
            "host gap 33-40",
            "cudaDeviceSynchronize 70-74"
        ]
    );
}

#[test]
fn a_copy_to_memory_that_is_not_pinned_blocks() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for (name, copy, at) in [
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", 0),
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pinned)", 100_000),
    ] {
        let id = draw.next_correlation();
        draw.call(main, name, (at, at + 50_000), id);
        draw.memcpy(SEVEN, copy, (at + 5_000, at + 45_000), id, 1 << 20);
    }
    let trace = alone(&draw);
    assert_eq!(
        edges(&trace, EdgeKind::HostWait),
        ["Memcpy DtoH (Device -> Pageable) -> cudaMemcpyAsync"]
    );
    assert_eq!(
        thread(&trace),
        [
            "cudaMemcpyAsync 45-50",
            "host gap 50-100",
            "cudaMemcpyAsync 100-150"
        ]
    );
}

#[test]
fn a_long_copy_from_memory_that_is_not_pinned_blocks_until_its_last_piece() {
    // A short one is staged at once, and its call returns.
    for (length, last_piece, waits) in [
        (5_000_000, 11_000, 1),
        (5_000_000, 60_000, 1),
        (4_000, 11_000, 0),
    ] {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        let id = draw.next_correlation();
        draw.call(main, "cudaMemcpyAsync", (0, length + 9_000), id);
        let row = (20_000.min(length), length + 9_000 + last_piece);
        let copy = "Memcpy HtoD (Pageable -> Device)";
        draw.memcpy(SEVEN, copy, row, id, 1 << 20);
        let trace = alone(&draw);
        assert_eq!(edges(&trace, EdgeKind::HostWait).len(), waits, "{length}");
    }
}

#[test]
fn what_a_blocking_call_calls_when_the_kernel_ends_is_no_wait() {
    // synchronise ----------[query]--     whole microseconds: the kernel ends when the inner call
    // begins k ===================
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, (0, 5_000), SEVEN, "k", (8_000, 90_000));
    draw.call(main, "cudaStreamSynchronize", (10_000, 95_000), None);
    draw.driver_call(main, "cuStreamQuery", (90_000, 93_000), None);
    let trace = alone(&draw);
    assert_eq!(
        edges(&trace, EdgeKind::HostWait),
        ["k -> cudaStreamSynchronize"]
    );
    assert_eq!(
        thread(&trace)[2..],
        [
            "cudaStreamSynchronize 90-90",
            "cuStreamQuery 90-93",
            "cudaStreamSynchronize 93-95"
        ]
    );
}

#[test]
fn an_op_that_begins_in_a_blocking_call_keeps_its_time() {
    // whole microseconds: the next op begins before the call has returned. An op that begins long
    // before the return shows that the thread was not blocked.
    for (begins, waits, own) in [
        (94_000, 1, "cudaStreamSynchronize 94-94"),
        (50_000, 0, "cudaStreamSynchronize 10-50"),
    ] {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        draw.launch(main, (0, 5_000), SEVEN, "k", (8_000, 95_000));
        draw.call(main, "cudaStreamSynchronize", (10_000, 95_000), None);
        draw.op(main, "next", begins, 120_000);
        let trace = alone(&draw);
        assert_eq!(edges(&trace, EdgeKind::HostWait).len(), waits);
        assert_eq!(thread(&trace)[2], own);
        assert_eq!(
            anomalies(&trace).contains(&(AnomalyKind::WaitContradicted, 1)),
            waits == 0
        );
    }
}

#[test]
fn a_call_does_not_wait_for_what_began_after_it() {
    // whole microseconds: the kernel has length 0
    for (begins, waits) in [(20_000, true), (22_000, true), (23_000, false)] {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        // With two streams, the call does not show that the clock is off.
        draw.launch(main, (0, 1_000), TWENTY, "other", (2_000, 3_000));
        draw.launch(main, (1_000, 5_000), SEVEN, "k", (begins, begins));
        draw.call(main, "cudaStreamSynchronize", (10_000, 20_000), None);
        draw.op(main, "next", 30_000, 40_000);
        let trace = alone(&draw);
        let found = edges(&trace, EdgeKind::HostWait);
        let of_k = found.contains(&"k -> cudaStreamSynchronize".to_owned());
        assert_eq!(of_k, waits, "{begins}");
        assert_eq!(anomalies(&trace), []);
    }
}

/// The call that waits for a copy is the same one whatever the device's clock shows.
#[test]
fn a_copy_that_is_staged_at_once_is_awaited_by_the_synchronisation_after_it() {
    for end in [9_000, 12_000, 19_000, 21_000, 26_000] {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        let id = draw.next_correlation();
        draw.call(main, "cudaMemcpyAsync", (0, 10_000), id);
        let copy = "Memcpy HtoD (Pageable -> Device)";
        draw.memcpy(SEVEN, copy, (end - 1_000, end), id, 64);
        draw.call(main, "cudaStreamSynchronize", (11_000, 20_000), None);
        let waits = edges(&alone(&draw), EdgeKind::HostWait);
        assert_eq!(waits, [format!("{copy} -> cudaStreamSynchronize")], "{end}");
    }
}

#[test]
fn a_synchronised_stream_is_not_one_that_still_runs() {
    // a on 7 ends as the call returns; b on 20, which the thread launched last, keeps running
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, (0, 5_000), SEVEN, "a", (8_000, 90_000));
    draw.launch(main, (5_000, 9_000), TWENTY, "b", (15_000, 400_000));
    draw.call(main, "cudaStreamSynchronize", (10_000, 95_000), None);
    draw.op(main, "next", 95_000, 99_000);
    assert_eq!(
        edges(&alone(&draw), EdgeKind::HostWait),
        ["a -> cudaStreamSynchronize"]
    );
}

#[test]
fn a_device_that_a_sync_row_names_is_waited_for() {
    // one process, two devices; the last launch was to the other one
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, (0, 5_000), SEVEN, "a", (8_000, 90_000));
    draw.launch(
        main,
        (5_000, 9_000),
        DeviceQueue { device: 1, ..SEVEN },
        "b",
        (15_000, 60_000),
    );
    let id = draw.next_correlation();
    draw.call(main, "cudaDeviceSynchronize", (10_000, 95_000), id);
    draw.sync(
        "Context Sync",
        DeviceQueue {
            stream: -1,
            ..SEVEN
        },
        (10_000, 95_000),
        id,
        None,
    );
    draw.op(main, "next", 95_000, 99_000);
    assert_eq!(
        edges(&alone(&draw), EdgeKind::HostWait),
        ["a -> cudaDeviceSynchronize"]
    );
}

/// Rows whose calls the profiler dropped do not reveal how many launches a queue holds.
#[test]
fn a_queue_without_any_known_launch_has_no_depth() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, (0, 5_000), SEVEN, "a", (8_000, 9_000));
    for row in 0..40 {
        let start = 10_000 + row * 1_000;
        draw.kernel(TWENTY, "lost", (start, start + 900), 9_000 + row);
    }
    let trace = alone(&draw);
    assert_eq!(trace.report.launched, 1);
    assert_eq!(edges(&trace, EdgeKind::HostWait), [""; 0]);
}
