//! Checks the time and rows covered by a finding: recordings that begin in the middle of a
//! program's work, copies that hold up their calls, dominant kernels.

use crate::findings::planted::find_in_trace;
use crate::findings::program::{MS, US};
use etlink_analysis::findings::{CauseKind, RunFinding, RunFindings};
use etlink_testing::{DeviceQueue, ParamComms, TraceBuilder};

fn stream() -> DeviceQueue {
    DeviceQueue::stream(7)
}

fn of_kind(found: &RunFindings, kind: CauseKind) -> Option<&RunFinding> {
    found.findings.iter().find(|one| one.kind == kind)
}

/// Draws consecutive copies of 4 ms, the first of them launched before the recording began.
fn cut_run(before: i64, recorded: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let copy = |draw: &mut TraceBuilder, place: i64, id: i64| {
        let start = MS + place * 4 * MS;
        let name = "Memcpy HtoD (Pinned -> Device)";
        draw.memcpy(stream(), name, (start, start + 4 * MS - US), id, 1 << 26);
    };
    for place in 0..before {
        let id = draw.next_correlation();
        copy(&mut draw, place, id);
    }
    let begin = 3 * MS;
    for place in 0..recorded {
        let at = begin + place * 20 * US;
        draw.op(main, "aten::copy_", at, at + 15 * US);
        let id = draw.next_correlation();
        draw.call(main, "cudaMemcpyAsync", (at + 2 * US, at + 8 * US), id);
        copy(&mut draw, before + place, id);
    }
    let at = begin + recorded * 20 * US;
    let end = MS + (before + recorded) * 4 * MS + 10 * US;
    draw.op(main, "aten::item", at, end);
    let id = draw.next_correlation();
    draw.call(
        main,
        "cudaStreamSynchronize",
        (at + 2 * US, end - 5 * US),
        id,
    );
    draw
}

#[test]
fn what_was_launched_before_the_recording_is_in_no_figure() {
    for (before, recorded) in [(10, 90), (50, 50), (90, 10)] {
        let found = find_in_trace(&cut_run(before, recorded));
        let copies = of_kind(&found, CauseKind::ExposedCopies);
        let copies = copies.unwrap_or_else(|| panic!("copies: {found:#?}"));
        let text = copies.text();
        assert_eq!(copies.figures.count, recorded as u64, "{text}");
        let all_ns = recorded * 4 * MS;
        assert!((found.window_ns - all_ns).abs() < MS, "{text}");
        assert!(found.idle_ns < MS, "{found:#?}");
        assert!((0.95..=1.0).contains(&copies.gain_share), "{text}");
        let share = copies.figures.compared.expect("a share");
        assert!((0.95..=1.0).contains(&share), "{text}");
    }
}

/// Draws steps of 25 ms: copies to the device and back, whose calls last as long, and a kernel.
fn copying_steps(calls: &str, names: [&str; 2]) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..5 {
        let at = step * 25 * MS;
        draw.annotation(main, &format!("ProfilerStep#{step}"), at, at + 25 * MS);
        let id = draw.next_correlation();
        draw.call(main, calls, (at + 10 * US, at + 12_460 * US), id);
        let there = (at + 200 * US, at + 12_600 * US);
        draw.memcpy(stream(), names[0], there, id, 60_000_000);
        let call = (at + 12_620 * US, at + 12_625 * US);
        draw.launch(
            main,
            call,
            stream(),
            "stencil",
            (at + 12_640 * US, at + 13_590 * US),
        );
        let id = draw.next_correlation();
        draw.call(main, calls, (at + 12_640 * US, at + 24_900 * US), id);
        let back = (at + 13_600 * US, at + 24_890 * US);
        draw.memcpy(stream(), names[1], back, id, 60_000_000);
    }
    draw
}

#[test]
fn copies_that_fill_the_steps_are_named_first() {
    for (calls, names) in [
        (
            "cudaMemcpyAsync",
            [
                "Memcpy HtoD (Pageable -> Device)",
                "Memcpy DtoH (Device -> Pageable)",
            ],
        ),
        ("cudaMemcpy", ["Memcpy HtoD", "Memcpy DtoH"]),
        ("hipMemcpyAsync", ["CopyHostToDevice", "CopyDeviceToHost"]),
        (
            "hipMemcpyWithStream",
            [
                "Memcpy HtoD (Host -> Device)",
                "Memcpy DtoH (Device -> Host)",
            ],
        ),
    ] {
        let found = find_in_trace(&copying_steps(calls, names));
        let first = found.findings.first();
        let first = first.unwrap_or_else(|| panic!("{calls}: {:?}", found.nothing));
        assert_eq!(first.kind, CauseKind::ExposedCopies, "{}", first.text());
        // 12.45 and 11.29 ms of 25, plus the time of the calls
        assert!((0.9..=0.97).contains(&first.gain_share), "{}", first.text());
        assert_eq!(first.figures.count, 10, "{}", first.text());
    }
}

/// Copies of any kind on the busy path are reported with the cost of their time.
#[test]
fn copies_that_are_pinned_or_stay_on_devices_are_named() {
    for (name, kind, gain) in [
        (
            "Memcpy DtoH (Device -> Pinned)",
            CauseKind::ExposedCopies,
            0.9..=0.97,
        ),
        (
            "Memcpy DtoD (Device -> Device)",
            CauseKind::ExposedCopies,
            0.42..=0.5,
        ),
        (
            "Memcpy PtoP (Device -> Device)",
            CauseKind::ExposedCopies,
            0.42..=0.5,
        ),
        ("CopyDeviceToDevice", CauseKind::ExposedCopies, 0.42..=0.5),
    ] {
        let found = find_in_trace(&copying_steps("cudaMemcpyAsync", [name, name]));
        let first = found.findings.first();
        let first = first.unwrap_or_else(|| panic!("{name}: {:?}", found.nothing));
        assert_eq!(first.kind, kind, "{}", first.text());
        assert!(gain.contains(&first.gain_share), "{}", first.text());
        let share = first.figures.compared.expect("a share");
        assert!((0.92..=0.97).contains(&share), "{}", first.text());
    }
}

/// Draws a device without pauses: one kernel takes `percent` of the time, eight others the rest.
fn busy_device(percent: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let mut now = MS;
    for round in 0..20 {
        for kernel in 0..9 {
            let call = (round * 90 + kernel * 10) * US;
            let (name, ns) = match kernel {
                0 => ("ruling".to_owned(), percent * 10 * US),
                other => (format!("kernel_{other}"), (100 - percent) * 10 * US / 8),
            };
            draw.launch(
                main,
                (call, call + 5 * US),
                stream(),
                &name,
                (now, now + ns),
            );
            now += ns + US;
        }
    }
    draw.call(
        main,
        "cudaDeviceSynchronize",
        (2 * MS, now + 5 * US),
        99_999,
    );
    draw
}

#[test]
fn a_kernel_is_named_from_a_fifth_of_kernel_time_on() {
    for percent in [15, 25, 50, 77] {
        let found = find_in_trace(&busy_device(percent));
        let kernel = of_kind(&found, CauseKind::DominantKernel);
        let Some(kernel) = kernel else {
            assert_eq!(percent, 15, "{found:#?}");
            let nothing = found.nothing.unwrap_or_default();
            assert!(nothing.contains("no kernel takes 20 %"), "{nothing}");
            continue;
        };
        assert_eq!(kernel.subject, "ruling");
        let share = percent as f64 / 100.0;
        let told = kernel.figures.compared.expect("a share");
        assert!((told - share).abs() < 0.01, "{}", kernel.text());
        assert!(
            (kernel.gain_share - share / 2.0).abs() < 0.03,
            "{}",
            kernel.text()
        );
    }
}

/// Draws steps that wait for input, every tenth three times as long; `is_lost` steps lose their
/// rows.
fn stalled_steps(is_lost: impl Fn(i64) -> bool) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.origin(1_000 * MS);
    let main = draw.thread();
    let mut at = 0;
    for step in 0..30 {
        let stall = stall_ns(step);
        let end = at + stall + 2 * MS;
        draw.annotation(main, &format!("ProfilerStep#{step}"), at, end);
        let input = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        draw.op(main, input, at, at + stall);
        for number in 0..20 {
            let at = at + stall + number * 100 * US;
            draw.op(main, "aten::mm", at, at + 50 * US);
            let id = draw.next_correlation();
            draw.call(main, "cudaLaunchKernel", (at + 10 * US, at + 15 * US), id);
            if !is_lost(step) {
                draw.kernel(stream(), "gemm", (at + 20 * US, at + 115 * US), id);
            }
        }
        at = end;
    }
    draw
}

fn stall_ns(step: i64) -> i64 {
    if step % 10 == 9 { 12 * MS } else { 4 * MS }
}

#[test]
fn a_cause_keeps_what_it_takes_outside_of_lost_rows() {
    for lost in [0..0, 10..18, 10..24, 0..14, 16..30, 1..12] {
        let found = find_in_trace(&stalled_steps(|step| lost.contains(&step)));
        let known = (0..30).filter(|step| !lost.contains(step));
        let known_ns: i64 = known.map(stall_ns).sum();
        let input = of_kind(&found, CauseKind::InputPipeline);
        let input = input.unwrap_or_else(|| panic!("{lost:?}: {found:#?}"));
        // At the edges of lost rows, one more or fewer stall may be known.
        let edge = 5 * MS;
        let time_ns = input.figures.time_ns;
        assert!(
            (time_ns - known_ns).abs() <= edge,
            "{lost:?}: {time_ns} of {known_ns}"
        );
        assert!(
            input.gain_ns <= time_ns,
            "{lost:?}: {} of {time_ns}",
            input.gain_ns
        );
        assert!(
            input.gain_ns >= known_ns - 2 * edge,
            "{lost:?}: {}",
            input.gain_ns
        );
        // lost rows count the same in the middle and at both ends
        let steps = lost.clone().map(|step| stall_ns(step) + 2 * MS);
        let unknown_ns: i64 = steps.sum();
        let said = found.unknown_ns;
        assert!(
            (said - unknown_ns).abs() <= 3 * edge,
            "{lost:?}: {said} of {unknown_ns}"
        );
    }
}

/// Draws a kernel of 300 us and a collective of 200 us, 400 us apart.
fn kernel_and_collective() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.launch(main, (0, 5 * US), stream(), "gemm", (0, 300 * US));
    let id = draw.next_correlation();
    draw.call(main, "cudaLaunchKernel", (600 * US, 605 * US), id);
    let comms = ParamComms::new("allreduce", 0..2, 0, 1);
    let span = (700 * US, 900 * US);
    let name = "ncclDevKernel_AllReduce_Sum_f32";
    draw.collective_kernel(stream(), name, span, id, &comms);
    draw
}

#[test]
fn a_device_that_communicates_is_not_idle() {
    let found = find_in_trace(&kernel_and_collective());
    assert_eq!(found.window_ns, 900 * US);
    assert_eq!(found.idle_ns, 400 * US);
    assert_eq!(found.compute_or_copy_ns, 300 * US);
}

/// Draws a step at whose begin the device ends earlier work, and then waits for 10 ms of host work,
/// which begins at a time after the step.
fn late_host(begin: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let id = draw.next_correlation();
    draw.kernel(stream(), "gemm", (MS / 2, MS + 300 * US), id);
    draw.annotation(main, "ProfilerStep#3", MS, 19 * MS + begin + 50 * US);
    draw.op(main, "aten::empty", MS + begin - 10 * US, MS + begin);
    for place in 0..80 {
        let at = 11 * MS + begin + place * 100 * US;
        draw.op(main, "aten::mm", at, at + 95 * US);
        let row = (at + 30 * US, at + 129 * US);
        draw.launch(main, (at + 20 * US, at + 25 * US), stream(), "gemm", row);
    }
    draw
}

#[test]
fn host_work_before_the_first_launch_counts_after_earlier_device_work() {
    // after the earlier device work, and during it
    for begin in [400, 200] {
        let found = find_in_trace(&late_host(begin * US));
        let work = of_kind(&found, CauseKind::HostWork).expect("host work");
        let error_ns = work.gain_ns - 10 * MS;
        assert!(error_ns.abs() < 200 * US, "{begin}: {found:#?}");
    }
}
