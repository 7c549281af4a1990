//! Most important diagnostics of linked traces: known causes come before guesses.

use crate::device::clocks::DeviceClock;
use crate::graph::kinds::MatchRule;
use crate::matching::Matching;
use crate::options::LinkOptions;
use crate::recorder_advice::without_device_rows;
use crate::report::LinkReport;
use etlink_model::{
    AnomalyKind, DeviceTrace, Diagnostic, DurationNs, HostTrace, RfId, TrackLabel, diagnostic,
};

/// Adds diagnostics about two linked traces.
pub(crate) fn about_pair(
    host: &HostTrace,
    device: &DeviceTrace,
    matching: &Matching,
    options: LinkOptions,
    report: &mut LinkReport,
) {
    report.diagnostics.extend(two_runs(host, device));
    if device.ops.is_empty() {
        return;
    }
    // Damage comes before differences: it explains them, and a second explanation would contradict
    // it.
    let damaged = damage(host, device, &mut report.diagnostics);
    // notes on interleaved traces already state this
    if matching.op_rule.contains(&MatchRule::Order) && !options.is_interleaved {
        report
            .diagnostics
            .extend(why_by_order(host, device, matching));
    }
    if !damaged {
        let by_order = matching.op_rule.contains(&MatchRule::Order);
        let ops = DeviceOps::of(device);
        let difference = difference(report.host_ops, ops, matching.count(), by_order);
        report.diagnostics.extend(difference);
    }
}

/// Adds notes about a device trace, linked with or without a host trace.
pub(crate) fn about_device(
    host: Option<&HostTrace>,
    device: &DeviceTrace,
    diagnostics: &mut Vec<Diagnostic>,
) {
    if host.is_none() && device.has_rf_ids && device.ops.rf_id.iter().all(|id| id.get().is_none()) {
        diagnostics.push(diagnostic!(
            DataMissing,
            "every \"Record function id\" is 0: no execution trace observer was running, \
             so no host trace can match this device trace"
        ));
    }
    if device.rows.is_empty() && device.calls.is_empty() {
        // Kineto writes device activity after the ops.
        if device.anomalies.is_cut() {
            diagnostics.push(diagnostic!(
                TraceTruncated,
                "the device trace is truncated, and the remaining part has no device rows or runtime \
                 calls: the device work may be in the missing part"
            ));
            return;
        }
        if device.has_no_work() {
            diagnostics.push(nothing_ran(device));
            return;
        }
        let reason = without_device_rows(device.header.recorder);
        diagnostics.push(diagnostic!(
            DataMissing,
            "the device trace has no device rows and no runtime calls: {reason}"
        ));
    }
}

/// Maximum number of notes about clocks, the devices of one machine; more clocks share one note.
const MOST_CLOCK_NOTES: usize = 8;

/// Explains for a trace without work that another process did it, and how to record that process.
fn nothing_ran(device: &DeviceTrace) -> Diagnostic {
    let ranges = device.ops.len();
    let first = device.ops.name.first().map(|name| device.names.get(*name));
    let first = first.map_or(String::new(), |name| format!(" (first: `{name}`)"));
    diagnostic!(
        NothingRan,
        "nothing ran in the recorded process: the device trace has {ranges} ranges{first} but no op, \
        runtime call or device row. The work probably runs in worker processes, as in the engine of \
        vLLM"
    )
    .advise("run the whole command under `etlink record`, or run the profiler in the worker")
}

/// Adds notes about the clocks of devices.
pub(crate) fn about_clocks(report: &mut LinkReport) {
    if report.device_clocks.len() > MOST_CLOCK_NOTES {
        report.diagnostics.push(clocks_note(&report.device_clocks));
        return;
    }
    for clock in &report.device_clocks {
        report.diagnostics.push(clock_note(clock));
    }
}

/// Summarizes many clocks in one note.
fn clocks_note(clocks: &[DeviceClock]) -> Diagnostic {
    let devices = clocks.len();
    let shifts = clocks.iter().map(|clock| clock.ahead_ns.0.unsigned_abs());
    let most = shifts.max().unwrap_or(0) as f64 / 1e3;
    let drifting = clocks.iter().filter(|clock| clock.drift_ppb != 0).count();
    let residual = clocks.iter().map(|clock| clock.residual_ns).max();
    let residual = residual.map_or(0.0, us);
    diagnostic!(
        ClockAligned,
        "the clocks of {devices} devices differ from the host's by up to {most:.1} us, and \
         {drifting} of them drift: aligned, residual {residual:.1} us"
    )
}

/// Absolute value of a time in microseconds.
fn us(time: DurationNs) -> f64 {
    time.0.unsigned_abs() as f64 / 1e3
}

fn clock_note(clock: &DeviceClock) -> Diagnostic {
    let device = clock.device;
    let residual = residual_text(clock);
    if clock.drift_ppb != 0 {
        let (ppm, speed) = match clock.drift_ppb as f64 / 1e3 {
            ppm if ppm < 0.0 => (-ppm, "slower"),
            ppm => (ppm, "faster"),
        };
        return diagnostic!(
            ClockAligned,
            "the clock of device {device} runs {ppm:.1} ppm {speed} than the host's: aligned, \
             {residual}"
        );
    }
    let direction = if clock.ahead_ns > DurationNs::ZERO {
        "ahead of"
    } else {
        "behind"
    };
    let at_least = us(clock.ahead_ns);
    let at_most = clock.at_most_ns.filter(|most| *most != clock.ahead_ns);
    let at_most = at_most.map_or(String::new(), |most| {
        format!(" (up to {:.1} us is possible)", us(most))
    });
    diagnostic!(
        ClockAligned,
        "the clock of device {device} is {at_least:.1} us {direction} the host's{at_most}: \
         aligned, {residual}"
    )
}

/// Describes how well the evidence agrees with an aligned clock.
fn residual_text(clock: &DeviceClock) -> String {
    let (returns, launches) = (clock.returns, clock.launches);
    let evidence = format!("launches and waiting calls ({launches} and {returns})");
    match clock.contradicted {
        0 => format!("no residual in {evidence}"),
        contradicted => format!(
            "residual up to {:.1} us for {contradicted} of {evidence}",
            us(clock.residual_ns)
        ),
    }
}

/// Returns the fact that the traces are of two processes.
fn two_runs(host: &HostTrace, device: &DeviceTrace) -> Option<Diagnostic> {
    let pid = host.header.pid?;
    let mut pids = device
        .ops
        .thread
        .iter()
        .map(|thread| device.threads[thread.index()].pid);
    let first = pids.next()?;
    // A device trace can have several processes; one match with the host trace is enough.
    if first == TrackLabel::Int(pid) || pids.any(|other| other == TrackLabel::Int(pid)) {
        return None;
    }
    let sizes = match (host_world(host), device.header.world_size) {
        (Some(a), Some(b)) if a != b => format!(", world size {a} and {b}"),
        _ => String::new(),
    };
    Some(diagnostic!(
        TwoRuns,
        "the two traces are from two runs of one program (process {pid} and {}{sizes}): times, \
         groups and sizes come from the device trace",
        device.label(first)
    ))
}

/// Returns the size of the default group.
fn host_world(host: &HostTrace) -> Option<i64> {
    let default = host
        .groups
        .iter()
        // PyTorch names the default group `0`; newer versions also describe it as `default_pg`.
        .find(|group| group.desc == "default_pg" || group.name == "0");
    default
        .and_then(|group| i64::try_from(group.size).ok())
        .filter(|size| *size > 0)
}

/// Adds notes about recording failures that explain missing ops. Returns true if there are any.
fn damage(host: &HostTrace, device: &DeviceTrace, diagnostics: &mut Vec<Diagnostic>) -> bool {
    let before = diagnostics.len();
    if host.anomalies.count(AnomalyKind::SourceEnded) > 0 {
        // the program may have exited regularly
        diagnostics.push(diagnostic!(
TraceTruncated,
            "the host trace is truncated: the compressed file ends early or is damaged, for example \
             after an incomplete copy; the last ops are missing"
        ));
    } else if host.anomalies.is_cut() {
        diagnostics.push(diagnostic!(
            TraceTruncated,
            "the host trace is truncated: its process was killed, or exited before its observer \
             was unregistered; the last ops are missing"
        ));
    } else if host.header.finish_ms.is_none() {
        diagnostics.push(diagnostic!(
            TraceTruncated,
            "the host trace is unfinished (no finish_ts): its observer was not \
             unregistered; the last ops may be missing"
        ));
    }
    if device.anomalies.is_cut() {
        diagnostics.push(diagnostic!(
            TraceTruncated,
            "the device trace is truncated: all complete events are used"
        ));
    }
    if host.anomalies.count(AnomalyKind::DuplicateNodeId) > 0 {
        diagnostics.push(diagnostic!(
            HostIdsRepeated,
            "the host trace has duplicate node ids: the process forked while it was \
             recorded, or two processes wrote to one file"
        ));
    }
    diagnostics.len() > before
}

/// Explains why ids do not show which ops are equal; `None` if traces of such a PyTorch never have
/// ids.
fn why_by_order(host: &HostTrace, device: &DeviceTrace, matching: &Matching) -> Option<Diagnostic> {
    let count = |ids: &[RfId]| ids.iter().filter(|id| id.get().is_some()).count();
    let ids = count(&device.ops.rf_id);
    if device.has_rf_ids && ids == 0 {
        return Some(
            diagnostic!(
                MatchedByOrder,
                "every \"Record function id\" of the device trace is 0: no execution trace observer \
             was running in its window. The ops were matched by the order of their names and \
             may be from other iterations"
            )
            .advise("register the observer on the same profiler"),
        );
    }
    if ids == 0 {
        return None;
    }
    let other = matching.same_id_other_name;
    let reason = if other > 0 {
        format!("the two traces have different names for {other} of the ids")
    } else if count(&host.nodes.rf_id) == 0 {
        "the host trace has no \"Record function id\"".to_owned()
    } else {
        format!(
            "none of the {ids} ids of the device trace is in the host trace, as in traces of \
             different cycles"
        )
    };
    Some(diagnostic!(
        MatchedByOrder,
        "{reason}, so the ops were matched by the order of their names"
    ))
}

/// Ops of a device trace that a host trace can have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceOps {
    count: u64,
    without_id: u64,
}

impl DeviceOps {
    pub(crate) fn of(device: &DeviceTrace) -> DeviceOps {
        // Ops of other processes, added by `etlink record`, are in no host trace.
        let own_name: Vec<bool> = device
            .names
            .iter()
            .map(|name| name.starts_with("etlink::"))
            .collect();
        let recorded = |op: &usize| !own_name[device.ops.name[*op].index()];
        let mut ops = DeviceOps::default();
        for op in (0..device.ops.len()).filter(recorded) {
            ops.count += 1;
            ops.without_id += u64::from(device.ops.rf_id[op].get().is_none());
        }
        ops
    }
}

/// Explains why some ops are in only one trace.
pub(crate) fn difference(
    host_ops: u64,
    ops: DeviceOps,
    matched: u64,
    by_order: bool,
) -> Option<Diagnostic> {
    let device_ops = ops.count;
    // A tenth: exceptions and open ranges lose a few ops, a different window loses many.
    if matched * 10 < device_ops * 9 || matched * 10 < host_ops * 9 {
        return Some(diagnostic!(
            OpsDiffer,
            "the two traces cover different windows: the host trace has {host_ops} ops, the device \
             trace {device_ops}, and {matched} are in both"
        ));
    }
    let without_id = ops.without_id;
    if by_order || matched == device_ops {
        None
    } else if without_id > 0 {
        Some(diagnostic!(
            OpsDiffer,
            "ops of the device trace without an id: {without_id}. They began before the observer \
             was started"
        ))
    } else {
        let missing = device_ops - matched;
        Some(diagnostic!(
            OpsDiffer,
            "ops that only the device trace has: {missing}. They were left by an exception, or were \
             still open when recording stopped"
        ))
    }
}
