//! Generates traces with features that CPU recordings lack, and those that Perfetto is strict
//! about.

use super::ExportedPair;
use anyhow::{Context, Result};
use etlink_testing::{DeviceQueue, HostSchema, KinetoFlavour, ParamComms, TraceBuilder};
use std::path::{Path, PathBuf};

/// Writes the traces into `folder`.
pub fn draw_pairs(folder: &Path) -> Result<Vec<ExportedPair>> {
    let all = [
        ("drawn, two streams", two_streams(KinetoFlavour::Cuda)),
        (
            // Times without decimals date from 2021 and count from the epoch, where floats of ns
            // are inexact.
            "drawn, whole microseconds",
            two_streams(KinetoFlavour::Cuda2021),
        ),
        ("drawn, odd", draw_odd_names()),
    ];
    let mut pairs = vec![];
    for (name, draw) in all {
        let stem = name.replace([',', ' '], "_");
        let [host, device] =
            ["host", "device"].map(|kind| folder.join(format!("{stem}_{kind}.json")));
        std::fs::write(&host, draw.host(HostSchema::V1_1_1))
            .with_context(|| host.display().to_string())?;
        std::fs::write(&device, draw.kineto()).with_context(|| device.display().to_string())?;
        pairs.push(ExportedPair {
            name: name.to_owned(),
            host: Some(host),
            device,
        });
    }
    Ok(pairs)
}

/// Writes a run of twelve ranks, since from ten on numbers sort differently from texts. Higher
/// ranks have more ranges: the user interface lists processes with most ranges first.
pub fn draw_many_ranks(folder: &Path) -> Result<PathBuf> {
    let run = folder.join("drawn_ranks");
    std::fs::create_dir_all(&run).with_context(|| run.display().to_string())?;
    for rank in 0..12 {
        let mut draw = TraceBuilder::default();
        draw.distributed(rank, 12);
        let main = draw.thread();
        for round in 0..=rank {
            let at = (round + 1) * 1_000_000;
            let (call, row) = ((at, at + 5_000), (at + 10_000, at + 900_000));
            draw.launch(main, call, DeviceQueue::stream(7), "gemm", row);
        }
        // events outside the graph have their own tracks
        draw.python(main, "train.py(1): step", 990_000, 1_800_000);
        draw.raw(concat!(
            r#"{"ph": "X", "cat": "gpu_user_annotation", "name": "step", "pid": 0, "tid": 7, "#,
            r#""ts": 1010, "dur": 890}"#,
        ));
        draw.raw(concat!(
            r#"{"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1000, "#,
            r#""tid": 1000, "ts": 1001, "args": {"Device Type": 1, "Device Id": 0, "#,
            r#""Bytes": 512, "Total Allocated": 512, "Total Reserved": 1024}}"#,
        ));
        let file = run.join(format!("kineto_trace_{rank}.json"));
        std::fs::write(&file, draw.kineto()).with_context(|| file.display().to_string())?;
    }
    Ok(run)
}

/// Writes a run of three ranks on different clocks, with equal process numbers; each comes last
/// once.
/// ```text
/// stream 24   all_reduce ====| kernel |      all ranks end at the same time
/// ```
pub fn draw_run(folder: &Path) -> Result<PathBuf> {
    let run = folder.join("drawn_run");
    std::fs::create_dir_all(&run).with_context(|| run.display().to_string())?;
    for (rank, ahead_ns) in [(0, 0), (1, 3_000_000), (2, -40_000)] {
        let mut draw = TraceBuilder::default();
        // From 50 ms, so that a clock that is behind has no negative times.
        draw.distributed(rank, 3).origin(50_000_000 + ahead_ns);
        let main = draw.thread();
        for round in 0..3 {
            let begin = (round + 1) * 1_000_000;
            let comms = ParamComms::new("allreduce", 0..3, rank, round + 100);
            draw.collective(main, &comms, begin, begin + 20_000);
            let correlation = draw.next_correlation();
            draw.call(
                main,
                "cudaLaunchKernelExC",
                (begin + 5_000, begin + 9_000),
                correlation,
            );
            // Each rank is last in one of the three rounds.
            let arrival = begin + 100_000 + 50_000 * ((rank + round) % 3);
            draw.collective_kernel(
                DeviceQueue::stream(24),
                "ncclDevKernel_AllReduce",
                (arrival, begin + 450_000),
                correlation,
                &comms,
            );
            // one right after it, and one in parallel
            draw.launch(
                main,
                (begin + 30_000, begin + 31_000),
                DeviceQueue::stream(24),
                "next",
                (begin + 450_000, begin + 460_000),
            );
            draw.launch(
                main,
                (begin + 40_000, begin + 41_000),
                DeviceQueue::stream(24),
                "beside",
                (begin + 300_000, begin + 455_000),
            );
        }
        let file = run.join(format!("kineto_trace_{rank}.json"));
        std::fs::write(&file, draw.kineto()).with_context(|| file.display().to_string())?;
    }
    Ok(run)
}

/// Generates launches from two threads, a graph, a collective, copies.
fn two_streams(flavour: KinetoFlavour) -> TraceBuilder {
    let mut draw = TraceBuilder::new(flavour);
    let (main, backward) = (draw.thread(), draw.thread());
    draw.annotation(main, "ProfilerStep#1", 0, 900_000);
    draw.op(main, "aten::mm", 10_000, 60_000);
    draw.launch(
        main,
        (20_000, 30_000),
        DeviceQueue::stream(7),
        "gemm",
        (40_000, 140_000),
    );
    draw.op(main, "aten::copy_", 70_000, 120_000);
    let copy = draw.next_correlation();
    draw.call(main, "cudaMemcpyAsync", (80_000, 110_000), copy);
    draw.memcpy(
        DeviceQueue::stream(0),
        "Memcpy HtoD",
        (90_000, 160_000),
        copy,
        4096,
    );
    draw.op(
        backward,
        "autograd::engine::evaluate_function: MmBackward0",
        100_000,
        300_000,
    );
    draw.launch(
        backward,
        (110_000, 120_000),
        DeviceQueue::stream(7),
        "gemm",
        (150_000, 250_000),
    );
    draw.graph_launch(
        main,
        (200_000, 230_000),
        &[
            (DeviceQueue::stream(7), 260_000, 270_000),
            (DeviceQueue::stream(20), 265_000, 290_000),
        ],
    );
    let comms = ParamComms::new("allreduce", [0, 1], 0, 1);
    draw.collective(main, &comms, 300_000, 400_000);
    let reduce = draw.next_correlation();
    draw.call(main, "cudaLaunchKernelExC", (310_000, 320_000), reduce);
    draw.collective_kernel(
        DeviceQueue::stream(24),
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        (350_000, 800_000),
        reduce,
        &comms,
    );
    draw
}

/// Generates ranges that overlap without nesting, that take no time, that begin at the same
/// nanosecond; text for numbers; names that JSON must escape; Unix time.
fn draw_odd_names() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    // Ns of Unix time exceed 2^53, where a float cannot distinguish neighbours.
    draw.origin(1_700_000_000_000_000_000);
    let main = draw.thread();
    draw.op(main, "aten::first", 0, 50_000);
    draw.op(main, "asynchronous \u{3bb} <&>", 20_001, 80_003);
    draw.op(main, "asynchronous again", 30_001, 90_003);
    draw.op(main, "inside", 51_000, 52_000);
    draw.op(main, "aten::launches at once", 100_000, 120_000);
    // op, call and kernel at one instant, and a copy without duration
    draw.launch(
        main,
        (100_000, 110_000),
        DeviceQueue::stream(7),
        "at once",
        (100_000, 130_000),
    );
    draw.op(main, "aten::empty", 130_000, 130_000);
    let copy = draw.next_correlation();
    draw.call(main, "cudaMemcpyAsync", (131_000, 131_000), copy);
    draw.memcpy(
        DeviceQueue::stream(7),
        "Memcpy DtoD (Device -> Device)",
        (131_000, 131_000),
        copy,
        0,
    );
    draw.launch(
        main,
        (131_001, 131_002),
        DeviceQueue::stream(7),
        "after it",
        (131_003, 131_004),
    );
    // one stream that runs several kernels at once, one inside another
    for (start, end) in [
        (200_000, 300_000),
        (200_000, 250_000),
        (220_000, 350_000),
        (230_000, 240_000),
    ] {
        draw.launch(
            main,
            (start - 50_000, start - 45_000),
            DeviceQueue::stream(0),
            "beside",
            (start, end),
        );
    }
    draw.raw(concat!(
        r#"{"ph": "X", "cat": "cpu_op", "name": "by text", "pid": "Spans", "#,
        r#""tid": "PyTorch Profiler", "ts": 1700000000000100.5, "dur": 7.25}"#,
    ));
    draw.raw(concat!(
        r#"{"ph": "X", "cat": "cpu_op", "name": "by large number", "#,
        r#""pid": 18446744073709551615, "tid": -1, "ts": 1700000000000110.125, "dur": 7.001}"#,
    ));
    draw.raw(concat!(
        r#"{"ph": "X", "cat": "cpu_op", "name": "by zero", "pid": 0, "tid": 0, "#,
        r#""ts": 1700000000000120.125, "dur": 7.001}"#,
    ));
    draw
}
