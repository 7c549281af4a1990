//! Evidence of findings: what the trace shows of a cause, and the place where it shows most.

use crate::findings::candidate::{CauseEvidence, ProgramKind};
use crate::findings::detect::names::{ANOTHER_THREAD, BETWEEN_OPS};
use crate::findings::finding::{RunFinding, RunFindings};
use crate::findings::kind::CauseKind;
use crate::findings::sentence::step_text;
use crate::findings::text::{count_text, percent_text, short_name, time_text};

/// Describes a cause and its place, and says how certain they are.
pub(crate) fn evidence_text(finding: &RunFinding, found: &RunFindings) -> String {
    // If the trace only shows signs, the text must say so.
    let is_probable = finding.kind.rule().is_some_and(|rule| rule.inferred);
    let probably = if is_probable { "probably " } else { "" };
    format!(
        "{probably}{}{}",
        cause_text(finding, found),
        doubt_text(finding)
    )
}

/// Describes a cause and its place.
pub(crate) fn cause_text(finding: &RunFinding, found: &RunFindings) -> String {
    let what = what_text(finding, found);
    format!("{what}{}", place_text(finding, found))
}

/// Says what the gain depends on that the trace does not state; empty if it states everything.
fn doubt_text(finding: &RunFinding) -> &'static str {
    // A loader that sets the pace is a cause of its own, without this condition.
    if finding.figures.loader_sets_pace && finding.kind != CauseKind::InputPipeline {
        return if finding.figures.host_slowed {
            "; only together with a faster loader, whose workers set the pace, and less, as recording \
             slowed the host down"
        } else {
            "; only together with a faster loader, whose workers set the pace"
        };
    }
    // Without recorded calls that wait, work and waiting look alike.
    if finding.figures.may_wait {
        return "; this may be waiting for the device: the trace records no calls that wait";
    }
    if finding.figures.host_slowed {
        return "; recording slowed the host down, so that the true gain is smaller";
    }
    // Even for causes stated in the trace, the gain may depend on inferred waits.
    let is_stated = finding.kind.rule().is_none_or(|rule| !rule.inferred);
    if finding.inferred && is_stated {
        return "; the gain depends on inferred waits";
    }
    ""
}

/// Names the longest op, call, or copy of a cause, and counts the others.
fn subjects_text(finding: &RunFinding, what: &str) -> String {
    let subject = short_name(&finding.subject);
    match finding.figures.other_subjects {
        0 => format!("`{subject}`"),
        others => format!(
            "`{subject}` and {}",
            count_text(others, &format!("other {what}"))
        ),
    }
}

/// Describes what the trace shows.
fn what_text(finding: &RunFinding, found: &RunFindings) -> String {
    let figures = &finding.figures;
    let subject = short_name(&finding.subject);
    let (count, total) = (figures.count, time_text(figures.time_ns));
    let (times, typical) = (count_text(count, "time"), time_text(figures.typical_ns));
    let compared = figures.compared.unwrap_or_default();
    let compared_time = time_text(compared as i64);
    // More time than the window must come from several threads; the place mentions several ranks.
    let ranks = finding.ranks.len().max(1) as i64;
    let is_of_threads = figures.time_ns > found.window_ns.saturating_mul(ranks);
    let threads = if is_of_threads {
        " (summed over threads)"
    } else {
        ""
    };
    // Shorter stretches between launches belong to the small kernels.
    let gaps = match figures.compared {
        Some(_) => format!(", in gaps of over {compared_time} between launches"),
        None => String::new(),
    };
    match finding.kind {
        CauseKind::InputPipeline => {
            format!("the host waits {total} in `{subject}`, {times}")
        }
        CauseKind::HostWork if subject.is_empty() && figures.python.is_some() => {
            format!("the host runs Python for {total}{threads}{gaps}")
        }
        CauseKind::HostWork if subject.is_empty() => {
            format!("the host spends {total}{threads} on unrecorded work{gaps}")
        }
        CauseKind::HostWork if finding.subject == ANOTHER_THREAD => {
            format!("the program waits {total}{threads} outside ops")
        }
        CauseKind::HostWork => {
            let when = launch_text(figures);
            let others = match figures.other_subjects {
                0 => String::new(),
                others => format!(" in it and {}", count_text(others, "other op")),
            };
            format!("the host spends {total}{threads} {when}{others}, callees included")
        }
        CauseKind::SmallKernels => format!(
            "{} of {typical} on average, but only one launch every {compared_time}, in stretches of {total} in all",
            count_text(count, "device op")
        ),
        CauseKind::OptimizerLaunches => format!(
            "`{subject}` launches {} of {typical} on average, one every {compared_time}",
            count_text(count, "kernel")
        ),
        CauseKind::ScalarRead | CauseKind::DynamicShape => {
            let ops = subjects_text(finding, "op");
            format!("the host waits {total} in {ops}, {times}")
        }
        CauseKind::PageableCopy => {
            // The host also waits for earlier work of the stream.
            let is_behind = compared * 2.0 < figures.time_ns as f64;
            let own = if is_behind {
                format!("; the copies take {compared_time}, earlier work the rest")
            } else {
                String::new()
            };
            let ops = subjects_text(finding, "place");
            format!("the host waits {total} in {ops}, {times}{own}")
        }
        CauseKind::ExplicitSync => {
            let calls = subjects_text(finding, "call");
            format!("the host blocks for {total} in {calls}, {times}")
        }
        CauseKind::UnrecordedSync => {
            let place = match &subject[..] {
                "" => "between ops".to_owned(),
                ANOTHER_THREAD => "on another thread, outside ops,".to_owned(),
                _ => format!("in `{subject}`"),
            };
            format!("the host waits {total} {place} for all launched work, {times}")
        }
        CauseKind::AllocatorCalls => {
            format!("calls such as `{subject}` take {total}, {times}")
        }
        CauseKind::ExposedCommunication => {
            // One trace alone does not distinguish a transfer from waiting for a late rank.
            let waits = if found.ranks < 2 {
                ", including waits for other ranks"
            } else {
                ""
            };
            let host = match figures.within.as_deref() {
                Some(op) => {
                    let op = short_name(op);
                    format!("; the host waits for it in `{op}` for {compared_time}")
                }
                None => String::new(),
            };
            // Communication next to computation costs less than its duration: the exposed part
            // comes first.
            let lasts = match figures.exposed_ns {
                Some(exposed) if exposed < figures.time_ns => {
                    format!("{} of {total} exposed, {times}", time_text(exposed))
                }
                _ => format!("{times}, summed over calls: {total}"),
            };
            format!("{lasts}{waits}{host}")
        }
        CauseKind::ExposedCopies => format!(
            "copies take {} of {}: {total}, {times}, longest `{subject}`",
            percent_text(compared),
            step_text(found)
        ),
        CauseKind::DominantKernel => {
            let peaks = figures.roof_share.map(|share| {
                let times = 1.0 / share.max(0.01);
                format!(", {times:.1} times as long as at the device's peak rates")
            });
            let kernel_time = percent_text(compared);
            format!(
                "it takes {kernel_time} of kernel time{}",
                peaks.unwrap_or_default()
            )
        }
        CauseKind::LowCoverage => format!(
            "blocks for only {} of the multiprocessors: {total}, {times}",
            percent_text(compared)
        ),
        CauseKind::FusibleChain => format!(
            "{count} kernels in {} could be one kernel per chain",
            count_text(compared as u64, "chain")
        ),
        CauseKind::TensorCopies => {
            let what = match found.program {
                ProgramKind::Torch => "tensor data",
                ProgramKind::Cuda | ProgramKind::Hip => "memory",
            };
            let ops = subjects_text(finding, "op");
            format!("{what} is copied for {total} in {ops}, {times}")
        }
        CauseKind::Recomputation => format!(
            "checkpointing repeats forward work in the backward pass: {total} of device time, {times}"
        ),
        CauseKind::FirstCall => first_call_text(finding),
        CauseKind::FirstStep => format!(
            "the first step takes {typical}, the others {compared_time} (median), with the largest \
            difference in {}",
            work_text(&finding.subject)
        ),
        CauseKind::ProfilerOverhead => {
            format!("the profiler itself takes {total}, longest in `{subject}`")
        }
        CauseKind::QueueFull => format!(
            "{} block for {total}, usually {compared_time} each: the queue holds {} launches",
            count_text(count, "launch call"),
            figures.depth.unwrap_or_default()
        ),
        CauseKind::StreamTurns => {
            format!("streams {subject} wait for each other, {times}, and hardly ever overlap")
        }
        CauseKind::LateRank => format!(
            "the others wait for it: {} takes {typical} there, {compared_time} on others",
            work_text(figures.within.as_deref().unwrap_or_default())
        ),
        CauseKind::RankImbalance => format!(
            "ranks take turns being late, longest in {}",
            work_text(figures.within.as_deref().unwrap_or_default())
        ),
    }
}

/// Describes the time of host work relative to the launches of its thread.
fn launch_text(figures: &CauseEvidence) -> String {
    let (before, after) = (figures.before_launches_ns, figures.after_launches_ns);
    let between = figures.time_ns.saturating_sub(before.saturating_add(after));
    // Less than a tenth is not worth mentioning.
    let parts = [
        (before, "before the first launch"),
        (between, "between launches"),
        (after, "after the last launch"),
    ];
    let parts = parts.into_iter();
    let parts = parts.filter(|(ns, _)| ns.saturating_mul(10) >= figures.time_ns);
    let parts: Vec<&str> = parts.map(|(_, when)| when).collect();
    match &parts[..] {
        [first, second, third] => format!("{first}, {second} and {third}"),
        parts => parts.join(" and "),
    }
}

/// Describes one-time work, and its longest part.
fn first_call_text(finding: &RunFinding) -> String {
    let figures = &finding.figures;
    let subject = short_name(&finding.subject);
    let took = time_text(figures.typical_ns);
    let mostly = match (figures.within.as_deref(), figures.within_share) {
        (Some(part), Some(share)) => {
            format!(", {} of it in `{}`", percent_text(share), short_name(part))
        }
        (Some(part), None) => format!(", mostly in `{}`", short_name(part)),
        (None, _) => String::new(),
    };
    let later = match figures.compared {
        Some(usual) => format!(" (median of later calls: {})", time_text(usual as i64)),
        None => String::new(),
    };
    let more = match figures.count {
        0 | 1 => String::new(),
        count => {
            let total = time_text(figures.time_ns);
            let than = match figures.whole_ns {
                0 => "more than the median of later calls".to_owned(),
                whole if whole >= figures.time_ns => "in total".to_owned(),
                whole => format!(
                    "more than later calls, {} of it in calls without later ones",
                    time_text(whole)
                ),
            };
            format!("; {count} start-up and allocator calls take {total} {than}")
        }
    };
    let which = match figures.place {
        Some(2) => "second",
        Some(3) => "third",
        _ => "first",
    };
    format!("the {which} call of `{subject}` takes {took}{mostly}{later}{more}")
}

/// Names work in which ranks or steps differ most.
pub(super) fn work_text(name: &str) -> String {
    match name {
        BETWEEN_OPS => "host work between ops".to_owned(),
        name => format!("`{}`", short_name(name)),
    }
}

/// Describes the place of a cause: the line of Python, else the surrounding op, else the rank.
fn place_text(finding: &RunFinding, found: &RunFindings) -> String {
    let figures = &finding.figures;
    // Times of a cause are summed over the ranks that have it.
    let ranks = match finding.ranks.len() {
        0 | 1 => String::new(),
        ranks => format!(", on {ranks} ranks"),
    };
    let communication = figures.communication.as_deref();
    let communication = communication.map_or(String::new(), |name| format!(", mostly for {name}"));
    let place = match (figures.python.as_deref(), surrounding_op(finding)) {
        (Some(line), _) => match figures.python_lines {
            0 | 1 => format!("; at `{line}`"),
            lines => {
                let most = time_text(figures.python_ns);
                format!("; at {lines} lines of Python, most at `{line}` ({most})")
            }
        },
        (None, Some(op)) => {
            let how = match finding.kind {
                CauseKind::HostWork | CauseKind::UnrecordedSync => "mostly in",
                _ => "in",
            };
            format!(", {how} `{}`", short_name(op))
        }
        (None, None) => rank_place(finding, found),
    };
    format!("{ranks}{communication}{place}")
}

/// Returns the op around most of the cause; `None` if the description names it, or if there is none.
fn surrounding_op(finding: &RunFinding) -> Option<&str> {
    let is_described = matches!(
        finding.kind,
        CauseKind::LateRank
            | CauseKind::RankImbalance
            | CauseKind::FusibleChain
            | CauseKind::ExposedCommunication
            | CauseKind::TensorCopies
            | CauseKind::FirstCall
    );
    // Outside of all ops there is only the gap itself.
    let is_outside = matches!(
        finding.kind,
        CauseKind::HostWork | CauseKind::UnrecordedSync
    ) && matches!(&finding.subject[..], "" | ANOTHER_THREAD);
    if is_described || is_outside {
        None
    } else {
        finding.figures.within.as_deref()
    }
}

/// Names the rank with the longest occurrence, and its time, if there are several ranks.
fn rank_place(finding: &RunFinding, found: &RunFindings) -> String {
    let figures = &finding.figures;
    let place = figures.rank.zip(figures.since_first_ns);
    let place = if found.ranks > 1 { place } else { None };
    place.map_or(String::new(), |(rank, since_ns)| {
        let since = time_text(since_ns);
        format!("; longest on rank {rank}, {since} into its trace")
    })
}
