//! Tests which call launched a device row.

use crate::support::{alone, anomalies, launches};
use etlink_link::NoLaunch;
use etlink_model::AnomalyKind;
use etlink_testing::{DeviceQueue, KinetoFlavour, TraceBuilder};

const STREAM: DeviceQueue = DeviceQueue {
    device: 0,
    context: 1,
    stream: 7,
};

#[test]
fn by_correlation_whatever_the_name_of_the_call() {
    // thread  c0 -  c1 -  c2 - …       stream 7   . k0 ==  k1 ==  …
    let names = [
        "cudaLaunchKernel",
        "cuLaunchKernelEx",
        "hipExtModuleLaunchKernel",
        "cudaMemcpyAsync",
        "zeCommandListAppendLaunchKernel",
        "new",
    ];
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for (name, at) in names.iter().zip(0..) {
        let at = at * 20_000;
        let id = draw.next_correlation();
        draw.driver_call(main, name, (at, at + 4_000), id);
        draw.kernel(STREAM, "k", (at + 9_000, at + 12_000), id);
    }
    let trace = alone(&draw);
    assert_eq!(
        launches(&trace),
        names.map(|name| format!("k <- {name} of none"))
    );
    assert_eq!(trace.report.launched, 6);
}

#[test]
fn by_correlation_for_every_writer() {
    for flavour in [
        KinetoFlavour::Cuda,
        KinetoFlavour::Rocm,
        KinetoFlavour::Xpu,
        KinetoFlavour::Mtia,
        KinetoFlavour::Cuda2021,
    ] {
        let mut draw = TraceBuilder::new(flavour);
        let main = draw.thread();
        draw.op(main, "aten::mm", 0, 20_000);
        draw.launch(main, (5_000, 8_000), STREAM, "gemm", (12_000, 30_000));
        let trace = alone(&draw);
        assert_eq!(
            (trace.report.launched, trace.report.owned_by_op),
            (1, 1),
            "{flavour:?}"
        );
    }
}

#[test]
fn a_graph_launch_owns_all_kernels_of_the_graph() {
    // thread  replay [cudaGraphLaunch]   stream 7  == == ==   stream 20  == == ==
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "replay", 0, 20_000);
    let kernels: Vec<_> = (0..1_000)
        .map(|at| {
            (
                DeviceQueue::stream(if at % 2 == 0 { 7 } else { 20 }),
                10_000 + at * 100,
                10_100 + at * 100,
            )
        })
        .collect();
    draw.graph_launch(main, (1_000, 9_000), &kernels);
    let trace = alone(&draw);
    assert_eq!(
        (trace.report.launched, trace.report.owned_by_op),
        (1_000, 1_000)
    );
    assert_eq!(anomalies(&trace), []);
}

/// Two processes whose correlation ids are equal, each with its own device.
///
/// ```text
/// pid 1000  launch 2 -  launch 3 -       device 0   . a ==   . a ==
/// pid 2000     launch 2 -  launch 3 -    device 1      . b ==   . b ==
/// ```
fn two_processes(skew: i64, own_ids: bool) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    for (process, device, call, kernel) in [
        (1_000, 0, "launch of 1000", "a"),
        (2_000, 1, "launch of 2000", "b"),
    ] {
        let thread = draw.process(process).thread();
        let queue = DeviceQueue {
            device,
            context: 1,
            stream: 7,
        };
        let at = device * skew;
        for (id, start) in [
            (2, at),
            (3, at + 30_000),
            (4 + process * i64::from(own_ids), at + 60_000),
        ] {
            draw.call(thread, call, (start, start + 5_000), id);
            draw.kernel(queue, kernel, (start + 10_000, start + 15_000), id);
        }
    }
    draw
}

#[test]
fn two_processes_with_the_same_ids_in_one_file() {
    for (skew, own_ids) in [
        (20_000, true),
        (20_000, false),
        (-20_000, false),
        (3_000, false),
        (3_000, true),
        (0, false),
    ] {
        let trace = alone(&two_processes(skew, own_ids));
        let wrong: Vec<_> = launches(&trace)
            .into_iter()
            .filter(|launch| {
                !["a <- launch of 1000 of none", "b <- launch of 2000 of none"]
                    .contains(&launch.as_str())
            })
            .collect();
        assert_eq!(wrong, [""; 0], "skew {skew}, ids of their own: {own_ids}");
    }
}

#[test]
fn a_row_never_takes_the_call_of_another_process() {
    // pid 1000  launch 2 -  launch 3 -     device 0  . a ==  . a ==
    // pid 2000  launch 2 -  (lost)         device 1  . b ==  . b ==
    let mut draw = TraceBuilder::default();
    for (process, device, kernel) in [(1_000, 0, "a"), (2_000, 1, "b")] {
        let thread = draw.process(process).thread();
        for id in 2..6 {
            let start = id * 30_000 + device * 1_000;
            if (process, id) != (2_000, 3) {
                draw.call(thread, "launch", (start, start + 5_000), id);
            }
            draw.kernel(
                DeviceQueue {
                    device,
                    context: 1,
                    stream: 7,
                },
                kernel,
                (start + 10_000, start + 15_000),
                id,
            );
        }
    }
    let trace = alone(&draw);
    assert_eq!(
        (
            trace.report.launched,
            trace
                .report
                .no_launch
                .get(&etlink_link::NoLaunch::CallNotRecorded)
        ),
        (7, Some(&1))
    );
}

#[test]
fn processes_that_share_a_device_keep_their_own_launches() {
    // pid 1000  launch 2 -          pid 2000            launch 2 -         device 0  . a ==
    // . b ==
    let mut draw = TraceBuilder::default();
    for (process, at, call, kernel) in
        [(1_000, 0, "of 1000", "a"), (2_000, 155_000, "of 2000", "b")]
    {
        let thread = draw.process(process).thread();
        for id in 2..8 {
            let start = id * 400_000 + at;
            draw.call(thread, call, (start, start + 5_000), id);
            draw.kernel(STREAM, kernel, (start + 10_000, start + 15_000), id);
        }
    }
    let trace = alone(&draw);
    assert!(
        launches(&trace)
            .iter()
            .all(|launch| launch == "a <- of 1000 of none" || launch == "b <- of 2000 of none"),
        "{:?}",
        launches(&trace)
    );
    assert_eq!(anomalies(&trace), [(AnomalyKind::DuplicateCorrelation, 6)]);
}

#[test]
fn ids_that_start_again_in_one_file_take_the_latest_call_before_the_row() {
    // thread  first -           second -            stream 7   . k ==            . k ==
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for (name, at) in [("first", 0), ("second", 1_000_000)] {
        draw.call(main, name, (at, at + 5_000), 9);
        draw.kernel(STREAM, "k", (at + 8_000, at + 12_000), 9);
    }
    let trace = alone(&draw);
    assert_eq!(
        launches(&trace),
        ["k <- first of none", "k <- second of none"]
    );
    assert_eq!(anomalies(&trace), [(AnomalyKind::DuplicateCorrelation, 2)]);
}

#[test]
fn rows_without_a_launch_say_why() {
    // thread             early -   late -     stream 7  == == == … ==
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.call(main, "early", (50_000, 55_000), 1);
    draw.call(main, "late", (2_000_000, 2_005_000), 5);
    for (start, id) in [
        (10_000, Some(77)),
        (60_000, Some(1)),
        (80_000, None),
        (90_000, Some(78)),
        (150_000, Some(5)),
    ] {
        draw.kernel(STREAM, "k", (start, start + 1_000), id);
    }
    let trace = alone(&draw);
    let want = [
        NoLaunch::BeforeWindow,
        NoLaunch::Launched,
        NoLaunch::NoCorrelation,
        NoLaunch::CallNotRecorded,
        NoLaunch::StartsBeforeCall,
    ];
    assert_eq!(trace.row_no_launch, want);
    assert_eq!(trace.report.no_launch.len(), 4);
    let want = [
        (AnomalyKind::StartBeforeLaunch, 1),
        (AnomalyKind::CallLost, 2),
    ];
    assert_eq!(anomalies(&trace), want);
}

#[test]
fn rows_launched_before_recording_began_may_run_long_after() {
    // thread  synchronize ----------------------    launch 90 -
    // stream 7    == 80   == 81   == 82             . == 90
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.call(main, "cudaDeviceSynchronize", (0, 60_000), 89);
    draw.call(main, "cudaLaunchKernel", (70_000, 75_000), 90);
    for (start, id) in [(10_000, 80), (20_000, 81), (30_000, 82), (80_000, 90)] {
        draw.kernel(STREAM, "k", (start, start + 5_000), id);
    }
    let trace = alone(&draw);
    assert_eq!(
        (
            trace.report.launched,
            trace.report.no_launch[&NoLaunch::BeforeWindow]
        ),
        (1, 3)
    );
}

#[test]
fn rows_of_a_trace_without_calls() {
    let mut draw = TraceBuilder::default();
    draw.kernel(STREAM, "k", (0, 1_000), 3);
    draw.kernel(STREAM, "k", (2_000, 3_000), None);
    assert_eq!(
        alone(&draw).row_no_launch,
        [NoLaunch::NoCallsRecorded, NoLaunch::NoCorrelation]
    );
}

#[test]
fn a_row_that_starts_before_its_call_keeps_it_within_what_clocks_err() {
    // (start, launched, corrected): the call begins at 2 ms
    for (start, launched, corrected) in [
        (2_000_000, true, false),
        (1_998_000, true, false),
        // this row sets the clock
        (1_997_999, true, false),
        // a single row this early does not set the clock
        (1_899_999, true, true),
        (1_000_000, true, true),
        (999_999, false, false),
    ] {
        let mut draw = TraceBuilder::default();
        let main = draw.thread();
        draw.op(main, "aten::mm", 0, 3_000_000);
        let launch = (2_000_000, 2_002_000);
        draw.launch(main, launch, STREAM, "gemm", (start, 2_500_000));
        let trace = alone(&draw);
        assert_eq!(trace.report.launched, u64::from(launched), "{start}");
        // its op is known nevertheless
        assert_eq!(launches(&trace), ["gemm <- cudaLaunchKernel of aten::mm"]);
        let count = |kind| trace.report.anomalies.count(kind);
        assert_eq!(
            [
                count(AnomalyKind::StartBeforeLaunch),
                count(AnomalyKind::LaunchCorrected)
            ],
            [u64::from(!launched), u64::from(corrected)],
            "{start}"
        );
    }
}

#[test]
fn a_trace_that_is_cut_before_its_rows_is_no_run_without_devices() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "aten::mm", 0, 20_000);
    let whole = alone(&draw);
    let text = draw.kineto();
    let end = text.len() - 40;
    let device = etlink_formats::kineto::read(
        &text[..end],
        etlink_formats::kineto::KinetoReadOptions::default(),
    );
    let device = device.expect("a cut trace");
    let cut = etlink_link::link(None, device, etlink_link::LinkOptions::default());
    let notes = |trace: &etlink_link::LinkedTrace| format!("{:?}", trace.report.diagnostics);
    assert!(notes(&whole).contains("a CPU run, or recorded without"));
    let cut = notes(&cut.expect("links"));
    assert!(
        cut.contains("is truncated, and the remaining part has no device rows"),
        "{cut}"
    );
    assert!(!cut.contains("a CPU run"), "{cut}");
}
