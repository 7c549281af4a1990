//! Invariants of the analyses, on random programs.

use crate::support::analyzed;
use etlink_analysis::diff::diff_runs;
use etlink_analysis::top::{TopGroup, key_averages};
use etlink_analysis::{RankAnalysis, run_totals};
use etlink_testing::{DeviceQueue, ParamComms, TraceBuilder};
use proptest::prelude::*;

/// Next action of a program: its kind, stream, delay and duration.
#[derive(Clone, Copy, Debug)]
struct Work {
    what: u8,
    stream: i64,
    device: i64,
    after: i64,
    late: i64,
    length: i64,
}

fn work() -> impl Strategy<Value = Work> {
    let times = (
        0i64..40_000,
        0i64..80_000,
        prop_oneof![1 => Just(1i64), 9 => 1i64..60_000],
    );
    (0u8..7, 0i64..4, 0i64..2, times).prop_map(|(what, stream, device, (after, late, length))| {
        Work {
            what,
            stream,
            device,
            after,
            late,
            length,
        }
    })
}

fn draw(program: &[Work], rank: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    let main = draw.thread();
    let mut now = 0;
    let mut ends = [[0i64; 4]; 2];
    let mut seq = 0;
    draw.annotation(main, "ProfilerStep#1", 0, 1_000_000);
    for Work {
        what,
        stream,
        device,
        after,
        late,
        length,
    } in program.iter().copied()
    {
        now += after;
        let queue = DeviceQueue {
            device,
            context: 1,
            stream,
        };
        // on two of three streams, rows overlap with others of their stream
        let ready = if stream == 0 {
            ends[device as usize][0]
        } else {
            0
        };
        let start = (now + late).max(ready);
        let span = (start, start + length);
        ends[device as usize][stream as usize] = span.1;
        let id = draw.next_correlation();
        // a memset may lack a row
        let call = ["cudaLaunchKernel", "cudaMemsetAsync"][usize::from(what == 5)];
        draw.call(main, call, (now, now + 3_000), id);
        match what {
            0 | 1 => draw.kernel(queue, "gemm", span, id),
            2 => draw.kernel(queue, "elementwise", span, id),
            3 => draw.memcpy(queue, "Memcpy HtoD (Pageable -> Device)", span, id, 1_000),
            4 => draw.kernel(queue, "event_wait", span, id),
            5 => draw.memset(queue, span, None, 64),
            _ => {
                seq += 1;
                draw.collective_kernel(
                    queue,
                    "ncclDevKernel_AllReduce_Sum_f32",
                    span,
                    id,
                    &ParamComms::new("allreduce", 0..2, rank, seq),
                );
            }
        }
        now += 3_000;
    }
    draw
}

fn laws(analysis: &RankAnalysis) -> Result<(), TestCaseError> {
    for (time, idle) in analysis.breakdown.iter().zip(&analysis.idle) {
        let exposed =
            time.exposed_communication_ns + time.exposed_memory_ns + time.exposed_other_ns;
        prop_assert_eq!(
            time.computation_ns + exposed + time.outside_ns + time.idle_ns,
            time.window_ns,
            "classes and idle are the window"
        );
        prop_assert!(
            time.overlap_ns <= time.communication_ns && time.overlap_ns <= time.computation_ns
        );
        prop_assert_eq!(
            time.exposed_communication_ns + time.overlap_ns,
            time.communication_ns
        );
        prop_assert_eq!(
            (time.device, time.busy_ns()),
            (idle.device, idle.busy_ns),
            "work is the busy time"
        );
        // time before the first and after the last work is no gap
        prop_assert!(idle.idle_ns <= time.idle_ns + time.exposed_other_ns);
    }
    for used in &analysis.utilization {
        prop_assert!(used.before_recording_ns >= 0 && used.busy_ns >= 0 && used.idle_ns >= 0);
        prop_assert_eq!(
            used.busy_ns + used.before_recording_ns + used.idle_ns,
            used.window_ns
        );
        prop_assert_eq!(
            used.computation_ns + used.exposed_communication_ns + used.exposed_memory_ns,
            used.busy_ns
        );
    }
    for idle in analysis.idle.iter().chain(&analysis.stream_idle) {
        let causes = [
            idle.host_late_ns,
            idle.event_wait_ns,
            idle.launch_call_ns,
            idle.launch_ns,
            idle.between_ns,
            idle.unexplained_ns,
        ];
        prop_assert!(causes.iter().all(|cause| *cause >= 0) && idle.longest_ns <= idle.idle_ns);
        prop_assert_eq!(
            causes.iter().sum::<i64>(),
            idle.idle_ns,
            "each gap has its causes"
        );
    }
    for idle in &analysis.idle {
        let of_device = analysis
            .host_idle
            .iter()
            .filter(|host| Some(host.device) == idle.device);
        let host: i64 = of_device.map(|host| host.idle_ns).sum();
        prop_assert!(host <= idle.host_late_ns, "idle threads are left out");
        let mut gaps = analysis
            .gaps
            .iter()
            .filter(|gap| Some(gap.device) == idle.device);
        let longest = gaps.next().map_or(0, |gap| gap.length_ns);
        prop_assert_eq!(longest, idle.longest_ns);
    }
    for step in &analysis.steps {
        let exposed =
            step.exposed_communication_ns + step.exposed_memory_ns + step.exposed_other_ns;
        prop_assert_eq!(
            step.computation_ns + exposed + step.idle_ns,
            step.device_window_ns
        );
    }
    let shares: f64 = analysis
        .kernels
        .iter()
        .filter_map(|kernel| kernel.share)
        .sum();
    // rows that only wait have no share
    let any = analysis
        .kernels
        .iter()
        .any(|kernel| kernel.share.is_some() && kernel.durations.sum_ns > 0);
    let whole = f64::from(u8::from(any));
    prop_assert!((shares - whole).abs() < 1e-9);
    for queue in &analysis.queues {
        prop_assert!(
            queue.mean_length <= queue.max_length as f64 && queue.full_ns <= queue.window_ns
        );
    }
    let stored = borsh::to_vec(analysis).expect("figures are numbers and texts");
    let read: RankAnalysis = borsh::from_slice(&stored).expect("it was stored");
    prop_assert_eq!(&read, analysis, "what is stored is all");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(120)
    })]

    #[test]
    fn laws_of_one_rank(program in prop::collection::vec(work(), 1..60)) {
        laws(&analyzed(&draw(&program, 0)))?;
    }

    #[test]
    fn ranks_add_up(
        first in prop::collection::vec(work(), 1..30),
        second in prop::collection::vec(work(), 1..30),
    ) {
        let ranks = [analyzed(&draw(&first, 0)), analyzed(&draw(&second, 1))];
        let sum = run_totals(ranks.iter());
        let devices = || ranks.iter().flat_map(|rank| &rank.breakdown);
        prop_assert_eq!(
            sum.breakdown[0].window_ns,
            devices().map(|time| time.window_ns).sum::<i64>()
        );
        prop_assert_eq!(
            sum.breakdown[0].idle_ns,
            devices().map(|time| time.idle_ns).sum::<i64>()
        );
        prop_assert_eq!(
            sum.breakdown[0].overlap_ns,
            devices().map(|time| time.overlap_ns).sum::<i64>()
        );
        let kernels = || ranks.iter().flat_map(|rank| &rank.kernels);
        for kernel in &sum.kernels {
            let same =
                || kernels().filter(|one| one.name == kernel.name && one.label == kernel.label);
            prop_assert_eq!(
                kernel.durations.sum_ns,
                same().map(|one| one.durations.sum_ns).sum::<i64>()
            );
            prop_assert_eq!(
                kernel.durations.count,
                same().map(|one| one.durations.count).sum::<u64>()
            );
        }
        prop_assert_eq!(
            sum.kernels
                .iter()
                .map(|one| one.durations.count)
                .sum::<u64>(),
            (first.len() + second.len()) as u64
        );
        let rows =
            |all: &[etlink_analysis::LaunchTotals]| all.iter().map(|one| one.rows).sum::<u64>();
        prop_assert_eq!(
            rows(&sum.launches),
            ranks.iter().map(|rank| rows(&rank.launches)).sum::<u64>()
        );
        let bytes =
            |all: &[etlink_analysis::CollectiveTotals]| all.iter().filter_map(|one| one.bytes).sum::<u64>();
        prop_assert_eq!(
            bytes(&sum.collectives),
            ranks
                .iter()
                .map(|rank| bytes(&rank.collectives))
                .sum::<u64>()
        );
    }
}

/// Times that only damaged traces contain.
fn odd_time() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "-9223372036854775.808",
        "9223372036854775.807",
        "-1.5",
        "0",
        "7.25",
        "12.000",
        "4611686018427387.904",
        "1e15",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn odd_times_do_no_harm(
        events in prop::collection::vec((0u8..7, odd_time(), odd_time(), 0i64..3), 1..12),
    ) {
        let event = |(what, ts, dur, id): &(u8, &str, &str, i64)| {
            let place = format!(r#""pid": 0, "tid": 7, "ts": {ts}, "dur": {dur}"#);
            let args = format!(
                concat!(
                    r#""stream": 7, "correlation": {id}, "bytes": 18446744073709551615, "#,
                    r#""grid": [4294967295, 4294967295, 4294967295], "blocks per SM": 1.5"#,
                ),
                id = id
            );
            let (phase, category, name) = match what {
                0 => ("X", "kernel", "gemm"),
                1 => ("X", "kernel", "ncclDevKernel_AllReduce"),
                2 => ("X", "gpu_memcpy", "Memcpy HtoD"),
                3 => ("X", "cuda_runtime", "cudaLaunchKernel"),
                4 => ("X", "user_annotation", "ProfilerStep#3"),
                5 => ("X", "cuda_sync", "Stream Sync"),
                _ => ("i", "cpu_instant_event", "[memory]"),
            };
            format!(
                concat!(
                    r#"{{"ph": "{phase}", "cat": "{category}", "name": "{name}", {place}, "#,
                    r#""args": {{{args}, "Bytes": -9223372036854775808, "#,
                    r#""Total Allocated": 18446744073709551615}}}}"#,
                ),
                phase = phase,
                category = category,
                name = name,
                place = place,
                args = args
            )
        };
        let text = format!(
            "{{\"traceEvents\": [{}]}}",
            events.iter().map(event).collect::<Vec<_>>().join(",")
        );
        let device = etlink_formats::kineto::read(
            text.as_bytes(),
            etlink_formats::kineto::KinetoReadOptions {
                keep: etlink_model::KeepEvents::Auxiliary,
                ..Default::default()
            },
        )
        .expect("reads");
        for group in [TopGroup::Name, TopGroup::Shape, TopGroup::Stack(2)] {
            let tables = key_averages(
                &device,
                etlink_analysis::top::Options {
                    group,
                    python: true,
                    ..Default::default()
                },
            );
            drop(diff_runs(&[&tables], &[&tables, &tables]));
        }
        let Ok(trace) = etlink_link::link(None, device, etlink_link::LinkOptions::default()) else {
            return Ok(());
        };
        let rules = etlink_analysis::KernelRules::built_in().expect("rules");
        let options = etlink_analysis::Options {
            sequences_of: Some("Step".into()),
            memory_timeline: true,
        };
        let analysis = etlink_analysis::analyze(&trace, &rules, &options);
        drop(run_totals([&analysis, &analysis].into_iter()));
    }
}
