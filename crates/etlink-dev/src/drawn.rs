//! Generates traces for suites with other tools: ranks with devices and memory, names that try to
//! escape a page, more data than a page can hold, and limits of rules.

use anyhow::{Context, Result};
use etlink_testing::{DeviceQueue, HostSchema, ParamComms, TraceBuilder};
use std::path::{Path, PathBuf};

const US: i64 = 1_000;

/// Writes the traces into `folder`. Returns their names, and the file or folder of each.
pub fn draw_traces(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let ranks = folder.join("devices");
    std::fs::create_dir_all(&ranks).with_context(|| ranks.display().to_string())?;
    for rank in 0..2 {
        write_kineto(
            ranks.join(format!("kineto_trace_{rank}.json")),
            draw_training(rank),
        )?;
    }
    // The name of a file is the title of its page, and may be just as hostile.
    let hostile = write_kineto(folder.join("hostile <b>&amp;.json"), draw_hostile_names())?;
    let many = write_kineto(folder.join("many.json"), draw_many_ranges())?;
    let launches = write_kineto(folder.join("launches.json"), draw_short_kernels())?;
    Ok(vec![
        ("devices".to_owned(), ranks),
        ("hostile".to_owned(), hostile),
        ("many".to_owned(), many),
        ("launches".to_owned(), launches),
    ])
}

fn write_kineto(path: PathBuf, draw: TraceBuilder) -> Result<PathBuf> {
    std::fs::write(&path, draw.kineto()).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Generates three steps, the second of them long; rank 1 comes late to each all-reduce.
///
/// ```text
/// us         0         100       200       300       400
/// main       ProfilerStep#1 ---------------|
///              train_step: Model_0---|
/// stream 7     gemm======|  relu===|         copy==|
/// stream 20              all_reduce============|
/// ```
fn draw_training(rank: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    let main = draw.thread();
    let mut from = 0;
    for (step, length) in [(1, 450), (2, 900), (3, 500)] {
        let at = |start: i64| from + start * US;
        draw.annotation(main, &format!("ProfilerStep#{step}"), at(0), at(length));
        draw.python(main, "train.py(7): train_step", at(5), at(145));
        draw.python(main, "nn.Module: Model_0", at(8), at(112));
        draw.op(main, "aten::mm", at(10), at(60));
        let kernel = |start: i64, end: i64| (at(start), at(end));
        draw.launch(
            main,
            kernel(20, 26),
            DeviceQueue::stream(7),
            "sm80_gemm_f16",
            kernel(40, 140),
        );
        draw.op(main, "aten::relu", at(70), at(110));
        draw.launch(
            main,
            kernel(80, 86),
            DeviceQueue::stream(7),
            "void at::native::vectorized_elementwise_kernel<4>()",
            kernel(150, 210),
        );
        let comms = ParamComms::new("allreduce", 0..2, rank, step);
        let reduce = draw.next_correlation();
        draw.op(main, "nccl:all_reduce", at(115), at(140));
        draw.call(main, "cudaLaunchKernelExC", kernel(120, 126), reduce);
        draw.collective_kernel(
            DeviceQueue::stream(20),
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            kernel(160 + 30 * rank, 330),
            reduce,
            &comms,
        );
        let copy = draw.next_correlation();
        draw.op(main, "aten::copy_", at(150), at(200));
        draw.call(main, "cudaMemcpyAsync", kernel(160, 180), copy);
        draw.memcpy(
            DeviceQueue::stream(7),
            "Memcpy DtoH (Device -> Pageable)",
            kernel(340, 370),
            copy,
            1 << 20,
        );
        for (us, bytes, allocated) in [
            (12, 2 << 20, 3 << 20),
            (72, (4 + rank) << 20, (7 + rank) << 20),
            (205, -(4 + rank) << 20, 3 << 20),
            (400, -(2 << 20), 1 << 20),
        ] {
            draw_memory(&mut draw, at(us), bytes, allocated, 8 << 20);
        }
        from += length * US;
    }
    draw
}

/// Adds an allocation or free on device 0, bytes.
fn draw_memory(draw: &mut TraceBuilder, at_ns: i64, bytes: i64, allocated: i64, reserved: i64) {
    let us = at_ns as f64 / 1e3;
    // Device type 1 is CUDA (`c10::DeviceType`).
    draw.raw(&format!(
        concat!(
            r#"{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "#,
            r#""pid": 1000, "tid": 1000, "ts": {us:.3}, "#,
            r#""args": {{"Total Reserved": {reserved}, "Total Allocated": {allocated}, "#,
            r#""Bytes": {bytes}, "Device Id": 0, "Device Type": 1}}}}"#,
        ),
        us = us,
        reserved = reserved,
        allocated = allocated,
        bytes = bytes
    ));
}

/// Generates 1,200 steps, each with a distinct kernel name and eight allocations.
fn draw_many_ranges() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    // A table of the page holds at most 1,000 records: this exceeds it.
    for step in 0..1_200 {
        let at = |us: i64| (step * 50 + us) * US;
        draw.annotation(main, &format!("ProfilerStep#{step}"), at(0), at(50));
        draw.op(main, "aten::mm", at(1), at(20));
        draw.launch(
            main,
            (at(5), at(8)),
            DeviceQueue::stream(7),
            &format!("gemm_{step}"),
            (at(10), at(30)),
        );
        // Allocations only grow, so that the chart may drop any but the ends.
        for part in 0..8 {
            draw_memory(
                &mut draw,
                at(2 + part),
                1 << 10,
                (step * 8 + part + 1) << 10,
                16 << 20,
            );
        }
    }
    draw
}

/// Generates three steps of kernels that end before the host launches the next: a finding.
fn draw_short_kernels() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..3 {
        let from = step * 10_000;
        let at = |us: i64| (from + us) * US;
        draw.annotation(main, &format!("ProfilerStep#{step}"), at(0), at(10_000));
        for number in 0..200 {
            let start = number * 50;
            draw.op(main, "aten::add", at(start + 2), at(start + 40));
            let call = (at(start + 5), at(start + 9));
            let kernel = (at(start + 12), at(start + 20));
            draw.launch(main, call, DeviceQueue::stream(7), "short_add", kernel);
        }
    }
    draw
}

/// Generates names with script ends, quotes, control characters, right-to-left text, and ten
/// kilobytes.
fn draw_hostile_names() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let names = [
        // The browser test checks that none of these has set `window.hurt`.
        "</script><script>window.hurt = 1</script>".to_owned(),
        "<img src=x onerror=\"window.hurt = 2\">".to_owned(),
        "'\"`${window.hurt = 3}` --> ]]> &lt;b&gt;".to_owned(),
        "bell \u{7} escape \u{1b}[31m nul \u{0} tab\tline\nend".to_owned(),
        "\u{202e}drow \u{1f600}".to_owned(),
        format!("long_{}", "<kernel>".repeat(1_280)),
    ];
    for (name, at) in names.iter().zip((0..).step_by(100)) {
        let at = |us: i64| (at + us) * US;
        draw.op(main, name, at(0), at(50));
        draw.launch(
            main,
            (at(10), at(15)),
            DeviceQueue::stream(7),
            name,
            (at(20), at(60)),
        );
    }
    draw
}

/// Writes the host and device traces of two ranks.
pub fn draw_ranks(folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for rank in 0..2 {
        let draw = draw_steps(rank);
        let host = folder.join(format!("torch_et_{rank}.json"));
        std::fs::write(&host, draw.host(HostSchema::V1_1_1))
            .with_context(|| host.display().to_string())?;
        write_kineto(folder.join(format!("kineto_trace_{rank}.json")), draw)?;
    }
    Ok(folder.to_owned())
}

fn draw_steps(rank: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    let main = draw.thread();
    for step in 0..3 {
        let (begin, late) = (
            step * 1_000 * US,
            if step == 1 { rank * 40 * US } else { 0 },
        );
        draw.op(main, "aten::mm", begin, begin + 60 * US);
        draw.launch(
            main,
            (begin + 20 * US, begin + 30 * US),
            DeviceQueue::stream(7),
            "gemm",
            (begin + 40 * US, begin + 140 * US),
        );
        let comms = ParamComms::new("allreduce", [0, 1], rank, step);
        draw.collective(main, &comms, begin + 300 * US, begin + 400 * US);
        // Launch and kernel of NCCL share the id; the op is found by enclosing the call.
        let id = draw.next_correlation();
        draw.call(
            main,
            "cudaLaunchKernelExC",
            (begin + 310 * US, begin + 320 * US),
            id,
        );
        draw.collective_kernel(
            DeviceQueue::stream(24),
            "ncclDevKernel_AllReduce",
            (begin + 350 * US + late, begin + 800 * US),
            id,
            &comms,
        );
    }
    draw
}

/// Writes a run of twelve ranks, since from ten on numbers sort differently from texts. Higher
/// ranks have more ranges: the user interface lists processes with most ranges first.
pub fn draw_many_ranks(folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
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
        write_kineto(folder.join(format!("kineto_trace_{rank}.json")), draw)?;
    }
    Ok(folder.to_owned())
}

/// Writes the traces whose use of devices is compared.
pub fn draw_busy_devices(folder: &Path) -> Result<Vec<PathBuf>> {
    // the hostile names are damaged JSON, which Python's reader rejects
    let mut paths: Vec<PathBuf> = draw_traces(folder)?
        .into_iter()
        .filter(|(name, _)| name != "hostile")
        .map(|(_, path)| path)
        .collect();
    paths.push(write_kineto(
        folder.join("streams.json"),
        draw_second_stream(),
    )?);
    paths.push(write_kineto(
        folder.join("earlier.json"),
        draw_earlier_work(),
    )?);
    Ok(paths)
}

/// Generates a stream's first row that waits for another stream of the recording, through a time in
/// which nothing runs: this is idle time, not work from before the recording.
///
/// ```text
/// us         0        100       200       300       400       500
/// main       [ProfilerStep#1 ------------------------------------]
/// stream 7   [a==]              [b====]
/// stream 20      . . . . . . . . . . . [c====]
/// ```
fn draw_second_stream() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let (first, second) = (DeviceQueue::stream(7), DeviceQueue::stream(20));
    let span = |start: i64, end: i64| (start * US, end * US);
    draw.annotation(main, "ProfilerStep#1", 0, 500 * US);
    draw.launch(main, span(5, 6), first, "a", span(10, 40));
    let id = draw.next_correlation();
    draw.call(main, "cudaLaunchKernel", span(20, 21), id);
    draw.launch(main, span(245, 246), first, "b", span(250, 340));
    draw.kernel(second, "c", span(343, 400), id);
    draw
}

/// Generates a device's first row that waits for work from before the recording: since the window
/// began.
///
/// ```text
/// us         0        100       200       300       400
/// main       [ProfilerStep#1 -----------------]
/// stream 7      l . . . . . . . [a========]
/// ```
fn draw_earlier_work() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let span = |start: i64, end: i64| (start * US, end * US);
    draw.annotation(main, "ProfilerStep#1", 0, 420 * US);
    draw.launch(
        main,
        span(50, 51),
        DeviceQueue::stream(7),
        "a",
        span(300, 400),
    );
    draw
}
