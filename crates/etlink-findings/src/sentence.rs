//! Formats a finding as one sentence: gain, evidence, and remedy.

use crate::candidate::{CauseEvidence, ProgramKind};
use crate::detect::communication::UNNAMED_COMMUNICATION;
use crate::detect::names::{ANOTHER_THREAD, BETWEEN_OPS, stays_on_devices};
use crate::finding::{CommunicationShare, JointGain, RunFinding, RunFindings};
use crate::kind::CauseKind;
use crate::limits::{ADDS_UP, MUCH_BETWEEN_OPS, MUCH_IDLE};
use crate::text::{count_text, percent_text, short_name, time_text};
use etlink_analyze::UtilizationWindow;

/// Formats a finding: `23 % of the 3 steps (90.1 of 386 ms): the host waits …. Load ahead: ….`
pub(crate) fn finding_sentence(finding: &RunFinding, found: &RunFindings) -> String {
    // If the trace only shows signs, the sentence must say so.
    let is_probable = finding.kind.rule().is_some_and(|rule| rule.inferred);
    let probably = if is_probable { "probably " } else { "" };
    // Without recorded calls that wait, work and waiting look alike.
    let may_wait = if finding.evidence.may_wait {
        " (it may wait for the device there: the trace records no calls that wait)"
    } else {
        ""
    };
    // Even for causes stated in the trace, the gain may depend on inferred waits.
    let is_stated = finding.kind.rule().is_none_or(|rule| !rule.inferred);
    let unstated = if finding.inferred && is_stated && may_wait.is_empty() {
        " (the gain depends on inferred waits)"
    } else {
        ""
    };
    let slowed = if finding.evidence.host_slowed {
        " (recording slowed this host down, which exaggerates the gain)"
    } else {
        ""
    };
    format!(
        "{} of {} ({} of {}): {probably}{}{}{may_wait}{unstated}{slowed}. {}.",
        percent_text(finding.gain_share),
        step_text(found),
        time_text(finding.gain_ns),
        time_text(found.window_ns),
        what_text(finding, found),
        place_text(finding, found),
        finding.remedy
    )
}

/// Describes the gain without all findings at once, and says if their gains add up.
pub(crate) fn joint_sentence(joint: &JointGain, findings: usize, found: &RunFindings) -> String {
    let which = match findings {
        2 => "both together".to_owned(),
        many => format!("all {many} together"),
    };
    let (gain, sum) = (joint.gain_ns as f64, joint.sum_ns as f64);
    let sum_text = time_text(joint.sum_ns);
    let overlap = if gain < ADDS_UP * sum {
        format!(", less than the sum of {sum_text}: the causes overlap")
    } else if ADDS_UP * gain > sum {
        format!(", more than the sum of {sum_text}: each cause limits the gain from another")
    } else {
        String::new()
    };
    format!(
        "{which}: {} of {} ({} of {}){overlap}",
        percent_text(joint.gain_share),
        step_text(found),
        time_text(joint.gain_ns),
        time_text(found.window_ns),
    )
}

/// Describes a cause without its gain.
pub(crate) fn cause_text(finding: &RunFinding, found: &RunFindings) -> String {
    let what = what_text(finding, found);
    format!("{what}{}", place_text(finding, found))
}

/// Describes communication without a finding, and the reason. `ranks_meet`: true if communication
/// of one rank waits for another's.
pub(crate) fn communication_sentence(
    share: &CommunicationShare,
    found: &RunFindings,
    ranks_meet: bool,
) -> String {
    let why = match (found.ranks, ranks_meet) {
        // Later work may still wait for it: a trace does not show every cause.
        (0 | 1, _) => "as far as the trace shows, other work would not end earlier",
        // The replay synchronizes ranks at a collective: only its own time goes.
        (_, true) => "most of it is waiting for late ranks, which remains",
        (_, false) => {
            "as far as the traces show, other work would not end earlier; no communication of \
             these ranks could be matched, so it is unknown which rank waited for which"
        }
    };
    let share_text = share_text(share, found);
    // A gain of zero would suggest that communication is free, although its dependents are unknown.
    if !share.is_awaited {
        return format!(
            "{share_text}; the cost is unknown: the traces do not show what waits for it, but the \
            program may"
        );
    }
    format!(
        "{share_text}; if it took no time, the gain would be {} of {} ({} of {}): {why}",
        percent_text(share.gain_share),
        step_text(found),
        time_text(share.gain_ns),
        time_text(found.window_ns),
    )
}

/// Describes communication in a trace without calls that wait for the device, in which the replay's
/// gain is no answer.
pub(crate) fn unknown_gain_sentence(share: &CommunicationShare, found: &RunFindings) -> String {
    format!(
        "{}; the gain from hiding it is unknown: the trace records no calls that wait",
        share_text(share, found)
    )
}

/// Describes the share of communication in the windows.
fn share_text(share: &CommunicationShare, found: &RunFindings) -> String {
    let what = if found.has_device {
        "communication is exposed"
    } else {
        "the host communicates"
    };
    let ranks = match found.ranks {
        0 | 1 => String::new(),
        ranks => format!(", summed over {ranks} ranks"),
    };
    let most = match &share.subject[..] {
        "" | UNNAMED_COMMUNICATION => String::new(),
        subject if share.subject_share > 0.995 => format!(", all of it {subject}"),
        subject => {
            let part = percent_text(share.subject_share);
            format!(", {part} of it {subject}")
        }
    };
    format!(
        "{what} for {} of {} ({} of {}{ranks}){most}",
        percent_text(share.time_ns as f64 / share.windows_ns.max(1) as f64),
        step_text(found),
        time_text(share.time_ns),
        time_text(share.windows_ns),
    )
}

/// Names the steps, or the recording if there are none.
fn step_text(found: &RunFindings) -> String {
    match (found.window, found.steps) {
        (UtilizationWindow::Steps, 1) => "the step".to_owned(),
        (UtilizationWindow::Steps, steps) => format!("the {steps} steps"),
        (UtilizationWindow::Process, _) => "the recording".to_owned(),
    }
}

/// Describes a run without findings. Each clause has its condition here.
pub(crate) fn nothing_sentence(found: &RunFindings) -> String {
    if !found.has_work {
        return "nothing ran in the recorded process: no ops, no runtime calls, no device rows"
            .to_owned();
    }
    if found.is_unknown {
        return "no verdict on idle time, utilization and the host: too many device rows are \
                missing. Record again."
            .to_owned();
    }
    let whole = match (found.window, found.steps) {
        (UtilizationWindow::Steps, steps) => count_text(steps, "step"),
        (UtilizationWindow::Process, _) => "the recording".to_owned(),
    };
    let whole = format!("{whole} ({})", time_text(found.window_ns));
    let busy = found.compute_or_copy_ns as f64 / found.window_ns.max(1) as f64;
    debug_assert!(busy <= 1.0, "a device is busy for {busy} of the window");
    let idle = 1.0 - busy;
    if found.has_device && idle <= MUCH_IDLE {
        // A kernel that takes more has a sentence of its own.
        let kernels = if found.computes && found.kernel.is_none() {
            ", and no kernel takes 20 % of kernel time"
        } else {
            ""
        };
        let busy = percent_text(busy);
        return format!(
            "nothing stands out in {whole}: the device computes or copies {busy} of the time{kernels}"
        );
    }
    // Time without any data in the trace cannot become a cause, however long it is.
    let unseen = match (found.between_ops_share > MUCH_BETWEEN_OPS, found.has_stacks) {
        (false, _) => String::new(),
        (true, has_stacks) => {
            let share = percent_text(found.between_ops_share);
            let remedy = if has_stacks {
                ""
            } else {
                " (record with --with-stack to see what it does)"
            };
            format!(
                "; the host runs neither ops nor runtime calls for {share} of its steps{remedy}"
            )
        }
    };
    let idle = if found.has_device {
        format!(
            ", although the device neither computes nor copies {} of the time",
            percent_text(idle)
        )
    } else {
        String::new()
    };
    // Removing this cause would not shorten the run: other work takes as long at the same time.
    let longest = match &found.longest_cause {
        Some(cause) => format!("; longest cause: {cause}"),
        None => String::new(),
    };
    format!("no known cause costs 2 % of {whole}{idle}{unseen}{longest}")
}

/// Names the longest op, call, or copy of a cause, and counts the others.
fn subjects_text(finding: &RunFinding, what: &str) -> String {
    let subject = short_name(&finding.subject);
    match finding.evidence.other_subjects {
        0 => format!("`{subject}`"),
        others => format!(
            "`{subject}` and {}",
            count_text(others, &format!("other {what}"))
        ),
    }
}

/// Describes the evidence from the trace.
fn what_text(finding: &RunFinding, found: &RunFindings) -> String {
    let evidence = &finding.evidence;
    let subject = short_name(&finding.subject);
    let (count, total) = (evidence.count, time_text(evidence.time_ns));
    let (times, typical) = (count_text(count, "time"), time_text(evidence.typical_ns));
    let compared = evidence.compared.unwrap_or_default();
    let compared_time = time_text(compared as i64);
    // More time than the window must come from several threads; the place mentions several ranks.
    let ranks = finding.ranks.len().max(1) as i64;
    let is_of_threads = evidence.time_ns > found.window_ns.saturating_mul(ranks);
    let threads = if is_of_threads {
        " (summed over threads)"
    } else {
        ""
    };
    let apart = match evidence.compared {
        Some(_) => format!(", counting gaps of over {compared_time} between launches"),
        None => String::new(),
    };
    match finding.kind {
        CauseKind::InputPipeline => {
            format!("the host waits for input in `{subject}`: {times}, {total} in total")
        }
        CauseKind::HostWork if subject.is_empty() && evidence.python.is_some() => {
            format!("the host runs Python between ops for {total}{threads}{apart}")
        }
        CauseKind::HostWork if subject.is_empty() => {
            // Shorter stretches between launches belong to the small kernels.
            format!("the host spends {total}{threads} between ops, on unrecorded work{apart}")
        }
        CauseKind::HostWork if finding.subject == ANOTHER_THREAD => {
            format!("the program waits {total}{threads} for another thread, outside ops")
        }
        CauseKind::HostWork => {
            let when = launch_text(evidence);
            let ops = subjects_text(finding, "op");
            format!("the host spends {total}{threads} {when} in {ops}, callees included")
        }
        CauseKind::SmallKernels => format!(
            "launch-bound: {} with a mean of {typical}, but only one launch every {compared_time}",
            count_text(count, "device op")
        ),
        CauseKind::OptimizerLaunches => format!(
            "the optimizer `{subject}` launches {} with a mean of {typical}, one every {compared_time}",
            count_text(count, "kernel")
        ),
        CauseKind::ScalarRead => {
            let ops = subjects_text(finding, "op");
            format!("the host waits for the device in {ops}: {times}, {total} in total")
        }
        CauseKind::DynamicShape => {
            let ops = subjects_text(finding, "op");
            format!("the host waits for the size of a result in {ops}: {times}, {total} in total")
        }
        CauseKind::PageableCopy => {
            // The host also waits for earlier work of the stream.
            let is_behind = compared * 2.0 < evidence.time_ns as f64;
            let own = if is_behind {
                format!(", but only {compared_time} of copying: copies wait for earlier work")
            } else {
                String::new()
            };
            let ops = subjects_text(finding, "place");
            format!(
                "the host waits for copies of pageable memory in {ops}: {times}, {total} in total{own}"
            )
        }
        CauseKind::ExplicitSync => {
            let calls = subjects_text(finding, "call");
            format!("the host blocks in {calls}: {times}, {total} in total")
        }
        CauseKind::UnrecordedSync => {
            let place = match &subject[..] {
                "" => "between ops".to_owned(),
                ANOTHER_THREAD => "on another thread, outside ops,".to_owned(),
                _ => format!("in `{subject}`"),
            };
            format!(
                "the host waits {place} until the device has finished all launched work: {times}, \
                {total} in total"
            )
        }
        CauseKind::AllocatorCalls => format!(
            "calls such as `{subject}` allocate or free memory in the driver: {times}, {total} in total"
        ),
        CauseKind::ExposedCommunication => {
            // One trace alone does not distinguish a transfer from waiting for a late rank.
            let waits = if found.ranks < 2 {
                ", including waits for other ranks"
            } else {
                ""
            };
            let host = match finding.evidence.within.as_deref() {
                Some(op) => {
                    let op = short_name(op);
                    format!("; the host waits for it in `{op}` for {compared_time}")
                }
                None => String::new(),
            };
            // Communication next to computation costs less than its duration: the exposed part
            // comes first.
            let lasts = match evidence.exposed_ns {
                Some(exposed) if exposed < evidence.time_ns => {
                    format!("{} of {total}, {times}", time_text(exposed))
                }
                _ => format!("{times}, {total} in total"),
            };
            format!("exposed {subject}: {lasts}{waits}{host}")
        }
        CauseKind::ExposedCopies if stays_on_devices(&finding.subject) => format!(
            "copies within or between devices take {} of {} (gain if they were twice as fast): \
            {times}, {total} in total, longest `{subject}`",
            percent_text(compared),
            step_text(found)
        ),
        CauseKind::ExposedCopies => format!(
            "copies between host and device take {} of {}: {times}, {total} in total, longest \
            `{subject}`",
            percent_text(compared),
            step_text(found)
        ),
        CauseKind::DominantKernel => format!(
            "`{subject}` takes {} of kernel time (gain if it were twice as fast)",
            percent_text(compared)
        ),
        CauseKind::LowCoverage => format!(
            "`{subject}` has blocks for only {} of the multiprocessors: {times}, {total} in total",
            percent_text(compared)
        ),
        CauseKind::FusibleChain => format!(
            "{count} elementwise kernels in {} could be fused into one kernel per chain",
            count_text(compared as u64, "chain")
        ),
        CauseKind::TensorCopies => {
            let what = match found.program {
                ProgramKind::Torch => "tensor data",
                ProgramKind::Cuda | ProgramKind::Hip => "memory",
            };
            let ops = subjects_text(finding, "op");
            format!("{what} is copied within the device in {ops}: {times}, {total} in total")
        }
        CauseKind::Recomputation => format!(
            "checkpointing repeats forward work in the backward pass: {times}, {total} of device time"
        ),
        CauseKind::FirstCall => first_call_text(finding),
        CauseKind::FirstStep => format!(
            "warm-up: the first step takes {typical}, the others {compared_time} (median), with the \
            largest difference in `{subject}`"
        ),
        CauseKind::ProfilerOverhead => {
            format!("the profiler itself takes {total}, longest in `{subject}`")
        }
        CauseKind::QueueFull => format!(
            "the device's queue is full at {} launches: {} blocked for {total} in total, usually \
            {compared_time} each",
            evidence.depth.unwrap_or_default(),
            count_text(count, "launch call")
        ),
        CauseKind::StreamTurns => format!(
            "streams {subject} wait for each other needlessly: {times}, and hardly ever overlap"
        ),
        CauseKind::LateRank => format!(
            "{subject} delays the other ranks: {} takes {typical} there, {compared_time} on others",
            work_text(finding)
        ),
        CauseKind::RankImbalance => format!(
            "ranks take turns being late, longest in {}",
            work_text(finding)
        ),
    }
}

/// Describes the time of host work relative to the launches of its thread.
fn launch_text(evidence: &CauseEvidence) -> String {
    let (before, after) = (evidence.before_launches_ns, evidence.after_launches_ns);
    let between = evidence
        .time_ns
        .saturating_sub(before.saturating_add(after));
    // Less than a tenth is not worth mentioning.
    let parts = [
        (before, "before the first launch"),
        (between, "between launches"),
        (after, "after the last launch"),
    ];
    let parts = parts.into_iter();
    let parts = parts.filter(|(ns, _)| ns.saturating_mul(10) >= evidence.time_ns);
    let parts: Vec<&str> = parts.map(|(_, when)| when).collect();
    parts.join(" and ")
}

/// Describes one-time work, and its longest part.
fn first_call_text(finding: &RunFinding) -> String {
    let evidence = &finding.evidence;
    let subject = short_name(&finding.subject);
    let took = time_text(evidence.typical_ns);
    let mostly = match (evidence.within.as_deref(), evidence.within_share) {
        (Some(part), Some(share)) => {
            format!(", {} of it in `{}`", percent_text(share), short_name(part))
        }
        (Some(part), None) => format!(", mostly in `{}`", short_name(part)),
        (None, _) => String::new(),
    };
    let later = match evidence.compared {
        Some(usual) => format!(" (median of later calls: {})", time_text(usual as i64)),
        None => String::new(),
    };
    let more = match evidence.count {
        0 | 1 => String::new(),
        count => {
            let total = time_text(evidence.time_ns);
            let than = match evidence.whole_ns {
                0 => "more than the median of later calls".to_owned(),
                whole if whole >= evidence.time_ns => "in total".to_owned(),
                whole => format!(
                    "more than later calls, {} of it in calls without later ones",
                    time_text(whole)
                ),
            };
            format!("; {count} start-up and allocator calls take {total} {than}")
        }
    };
    let which = match evidence.place {
        Some(2) => "second",
        Some(3) => "third",
        _ => "first",
    };
    format!("start-up: the {which} call of `{subject}` takes {took}{mostly}{later}{more}")
}

/// Names the work in which ranks differ most.
fn work_text(finding: &RunFinding) -> String {
    match finding.evidence.within.as_deref().unwrap_or_default() {
        BETWEEN_OPS => "host work between ops".to_owned(),
        name => format!("`{}`", short_name(name)),
    }
}

/// Describes the place of a cause: the surrounding op and the line of Python.
fn place_text(finding: &RunFinding, found: &RunFindings) -> String {
    let names_place = !matches!(
        finding.kind,
        CauseKind::LateRank
            | CauseKind::RankImbalance
            | CauseKind::FusibleChain
            | CauseKind::ExposedCommunication
            | CauseKind::FirstCall
    );
    // Outside of all ops there is only the gap itself.
    let is_outside = matches!(
        finding.kind,
        CauseKind::HostWork | CauseKind::UnrecordedSync
    ) && matches!(&finding.subject[..], "" | ANOTHER_THREAD);
    let names_place = names_place && !is_outside;
    let evidence = &finding.evidence;
    let within = if names_place {
        evidence.within.as_deref()
    } else {
        None
    };
    let how = match finding.kind {
        CauseKind::HostWork | CauseKind::UnrecordedSync => "mostly in",
        _ => "in",
    };
    let within = within.map_or(String::new(), |op| format!(", {how} `{}`", short_name(op)));
    let python = evidence.python.as_deref();
    let python = python.map_or(String::new(), |line| match evidence.python_lines {
        0 | 1 => format!(", at `{line}`"),
        lines => {
            let most = time_text(evidence.python_ns);
            format!(", at {lines} lines of Python, longest at `{line}` ({most})")
        }
    });
    // Times of a cause are summed over the ranks that have it.
    let ranks = match finding.ranks.len() {
        0 | 1 => String::new(),
        ranks => format!(", on {ranks} ranks"),
    };
    let communication = evidence.communication.as_deref();
    let communication = communication.map_or(String::new(), |name| format!(", mostly for {name}"));
    let place = rank_place(finding, found);
    format!("{ranks}{within}{communication}{python}{place}")
}

/// Names the rank with the longest occurrence, and its time, if there are several ranks.
fn rank_place(finding: &RunFinding, found: &RunFindings) -> String {
    let evidence = &finding.evidence;
    let place = evidence.rank.zip(evidence.since_first_ns);
    let place = if found.ranks > 1 { place } else { None };
    place.map_or(String::new(), |(rank, since_ns)| {
        let since = time_text(since_ns);
        format!(", longest on rank {rank}, {since} into its trace")
    })
}

#[cfg(test)]
mod tests;
