//! A finding as one sentence: what is gained, what the trace shows, what helps.

use crate::candidate::{CauseEvidence, ProgramKind};
use crate::detect::communication::UNNAMED_COMMUNICATION;
use crate::detect::names::{ANOTHER_THREAD, BETWEEN_OPS};
use crate::finding::{CommunicationShare, JointGain, RunFinding, RunFindings};
use crate::kind::CauseKind;
use crate::text::{count_text, percent_text, short_name, time_text};
use etlink_analyze::UtilizationWindow;

/// Findings whose joint gain is at least this share of the sum of theirs add up.
const ADDS_UP: f64 = 0.9;

/// `23 % of the 3 steps (90.1 of 386 ms): the host waits …; load ahead: …`
pub(crate) fn finding_sentence(finding: &RunFinding, found: &RunFindings) -> String {
    // Where the trace shows signs alone the sentence must say so.
    let probably = if finding.inferred { "probably " } else { "" };
    // Where no call that waits is recorded, work and waiting look alike.
    let may_wait = match finding.evidence.may_wait {
        true => " (it may wait for the device there: the trace records no call that waits)",
        false => "",
    };
    format!(
        "{} of {} ({} of {}): {probably}{}{}{may_wait}; {}",
        percent_text(finding.gain_share),
        window_text(found),
        time_text(finding.gain_ns),
        time_text(found.window_ns),
        what_text(finding, found),
        place_text(finding, found),
        finding.remedy
    )
}

/// What is gained without all findings at once, and whether their gains add up.
pub(crate) fn joint_sentence(joint: &JointGain, findings: usize, found: &RunFindings) -> String {
    let which = match findings {
        2 => "both of these together".to_owned(),
        many => format!("all {many} of these together"),
    };
    let overlap = match (joint.gain_ns as f64) < ADDS_UP * joint.sum_ns as f64 {
        true => format!(
            ", less than their sum of {}: they overlap",
            time_text(joint.sum_ns)
        ),
        false => String::new(),
    };
    format!(
        "{which}: {} of {} ({} of {}){overlap}",
        percent_text(joint.gain_share),
        window_text(found),
        time_text(joint.gain_ns),
        time_text(found.window_ns),
    )
}

/// A cause without its gain.
pub(crate) fn cause_text(finding: &RunFinding, found: &RunFindings) -> String {
    let what = what_text(finding, found);
    format!("{what}{}", place_text(finding, found))
}

/// Communication of which there is no finding, and why. `ranks_meet`: whether communication of one
/// rank waits for that of another.
pub(crate) fn communication_sentence(
    share: &CommunicationShare,
    found: &RunFindings,
    ranks_meet: bool,
) -> String {
    let why = match (found.ranks, ranks_meet) {
        // What follows may wait for it all the same: a trace does not show each cause.
        (0 | 1, _) => "by what the trace shows, other work ends no earlier",
        // The replay keeps ranks together at a collective: only its own time goes.
        (_, true) => "most of it is waiting for ranks that come later, which stays",
        (_, false) => {
            "by what the traces show, other work ends no earlier; no communication of these \
             ranks could be joined, so who waited for whom is not known"
        }
    };
    let share_text = share_text(share, found);
    // A gain of nothing would say that communication is free, where nobody knows who waits for it.
    if !share.is_awaited {
        return format!(
            "{share_text}; what that costs cannot be said: the traces do not show what waits for it, \
            though the program may"
        );
    }
    format!(
        "{share_text}; a replay in which it takes no time gains {} of {} ({} of {}): {why}",
        percent_text(share.gain_share),
        window_text(found),
        time_text(share.gain_ns),
        time_text(found.window_ns),
    )
}

/// The same where the trace shows no call that waits for the device: what the replay gains of that
/// is no answer.
pub(crate) fn unknown_gain_sentence(share: &CommunicationShare, found: &RunFindings) -> String {
    format!(
        "{}; what hiding it would gain cannot be told: the trace records no call that waits",
        share_text(share, found)
    )
}

/// How much of the windows communication takes.
fn share_text(share: &CommunicationShare, found: &RunFindings) -> String {
    let what = match found.has_device {
        true => "computation does not hide communication",
        false => "the host communicates",
    };
    let ranks = match found.ranks {
        0 | 1 => String::new(),
        ranks => format!(", summed over {ranks} ranks"),
    };
    let most = match &share.subject[..] {
        "" | UNNAMED_COMMUNICATION => String::new(),
        subject if share.subject_share > 0.995 => format!(", all of it in {subject}"),
        subject => {
            let part = percent_text(share.subject_share);
            format!(", {part} of it in {subject}")
        }
    };
    format!(
        "{what} in {} of {} ({} of {}{ranks}){most}",
        percent_text(share.time_ns as f64 / share.windows_ns.max(1) as f64),
        step_text(found, ""),
        time_text(share.time_ns),
        time_text(share.windows_ns),
    )
}

/// What the shares are of. Of several ranks the replay has its own length: from the first begin of
/// one to the last end, where the steps of each are shorter.
fn window_text(found: &RunFindings) -> String {
    let replayed = if found.ranks > 1 { "replayed " } else { "" };
    step_text(found, replayed)
}

/// The steps, or the recording where there are none.
fn step_text(found: &RunFindings, which: &str) -> String {
    match (found.window, found.steps) {
        (UtilizationWindow::Steps, 1) => format!("the {which}step"),
        (UtilizationWindow::Steps, steps) => format!("the {steps} {which}steps"),
        (UtilizationWindow::Process, _) => format!("the {which}recording"),
    }
}

/// What the trace shows.
fn what_text(finding: &RunFinding, found: &RunFindings) -> String {
    let evidence = &finding.evidence;
    let subject = short_name(&finding.subject);
    let (count, total) = (evidence.count, time_text(evidence.time_ns));
    let (times, typical) = (count_text(count, "time"), time_text(evidence.typical_ns));
    let compared = evidence.compared.unwrap_or_default();
    let compared_time = time_text(compared as i64);
    // More time than there is can only be that of several threads. That it is of several ranks the
    // place says.
    let ranks = finding.ranks.len().max(1) as i64;
    let is_of_threads = evidence.time_ns > found.window_ns.saturating_mul(ranks);
    let threads = match is_of_threads {
        true => " (summed over threads)",
        false => "",
    };
    match finding.kind {
        CauseKind::InputPipeline => {
            format!("the host waits for input in `{subject}`, {times}, {total} in all")
        }
        CauseKind::HostWork if subject.is_empty() && evidence.python.is_some() => {
            format!(
                "between ops the host runs Python for {total}{threads}, counted where launches are \
                over 200 us apart"
            )
        }
        CauseKind::HostWork if subject.is_empty() => {
            // Shorter stretches between launches are those of small kernels.
            format!(
                "between ops the host does for {total}{threads} what no op shows, counted where \
                launches are over 200 us apart"
            )
        }
        CauseKind::HostWork if finding.subject == ANOTHER_THREAD => {
            format!("the program waits for another thread, which shows no op for {total}{threads}")
        }
        CauseKind::HostWork => {
            let when = launch_text(evidence);
            format!("the host is in `{subject}` and what it calls for {total}{threads} {when}")
        }
        CauseKind::SmallKernels => format!(
            "kernels are over before the host launches the next: {count} of {typical} (mean), one \
            every {compared_time}"
        ),
        CauseKind::OptimizerLaunches => format!(
            "the optimizer `{subject}` launches {count} kernels of {typical} (mean), one every \
            {compared_time}"
        ),
        CauseKind::ScalarRead => {
            format!("`{subject}` makes the host wait for the device, {times}, {total} in all")
        }
        CauseKind::DynamicShape => format!(
            "`{subject}` makes the host wait for the size of its result, {times}, {total} in all"
        ),
        CauseKind::PageableCopy => {
            // The host waits for what its stream was given before, too.
            let is_behind = compared * 2.0 < evidence.time_ns as f64;
            let own = match is_behind {
                true => {
                    format!(", though copying takes {compared_time}: copies wait for earlier work")
                }
                false => String::new(),
            };
            format!(
                "`{subject}` copies memory that is not pinned and the host waits for it, {times}, \
                {total} in all{own}"
            )
        }
        CauseKind::ExplicitSync => {
            format!("`{subject}` stops the host, {times}, {total} in all")
        }
        CauseKind::UnrecordedSync => {
            let place = match &subject[..] {
                "" => "between ops".to_owned(),
                ANOTHER_THREAD => "on another thread, outside of ops".to_owned(),
                _ => format!("in `{subject}`"),
            };
            format!(
                "the host waits for the device {place} until it has run all that was launched, \
                {times}, {total} in all"
            )
        }
        CauseKind::AllocatorCalls => format!(
            "calls such as `{subject}` get and free memory of the driver, {times}, {total} in all"
        ),
        CauseKind::ExposedCommunication => {
            // One trace alone does not tell a transfer from a wait for a rank that is late.
            let waits = if found.ranks < 2 {
                ", with waiting for other ranks"
            } else {
                ""
            };
            let host = match finding.evidence.within.as_deref() {
                Some(op) => {
                    let op = short_name(op);
                    format!("; the host waits for it for {compared_time} in `{op}`")
                }
                None => String::new(),
            };
            format!("computation does not hide {subject}: {times}, {total} in all{waits}{host}")
        }
        CauseKind::ExposedCopies => {
            format!("nothing hides `{subject}`: {times}, {total} in all")
        }
        CauseKind::DominantKernel => format!(
            "`{subject}` takes {} of all kernels' time, and this is the gain if it were twice as \
            fast",
            percent_text(compared)
        ),
        CauseKind::LowCoverage => format!(
            "`{subject}` has blocks for {} of the multiprocessors, {times}, {total} in all",
            percent_text(compared)
        ),
        CauseKind::FusibleChain => format!(
            "{count} elementwise kernels in {} could be one kernel each",
            count_text(compared as u64, "chain")
        ),
        CauseKind::TensorCopies => {
            let what = match found.program {
                ProgramKind::Torch => "tensors",
                ProgramKind::Cuda | ProgramKind::Hip => "memory",
            };
            format!("`{subject}` copies {what} inside of the device, {times}, {total} in all")
        }
        CauseKind::Recomputation => format!(
            "checkpointing computes forward work again in the backward pass, {times}, {total} of \
            the device"
        ),
        CauseKind::FirstCall => first_call_text(finding),
        CauseKind::FirstStep => format!(
            "the first step warms up, mostly in `{subject}`: it takes {typical}, the median of the \
            others is {compared_time}"
        ),
        CauseKind::ProfilerOverhead => {
            format!("the profiler's own work (`{subject}`) takes {total}")
        }
        CauseKind::QueueFull => format!(
            "the device's queue is full at {} launches: {count} more block for {total} in all, \
            where a launch usually takes {compared_time}",
            evidence.depth.unwrap_or_default()
        ),
        CauseKind::StreamTurns => format!(
            "streams {subject} hold each other up without need: they wait {times} for each other \
            and hardly ever run at once"
        ),
        CauseKind::LateRank => format!(
            "{subject} holds the others up: {} takes {typical} on it, {compared_time} on others",
            work_text(finding)
        ),
        CauseKind::RankImbalance => format!(
            "ranks take turns in being late, most of all in {}",
            work_text(finding)
        ),
    }
}

/// When work of the host is, by the launches of its thread.
fn launch_text(evidence: &CauseEvidence) -> String {
    let (before, after) = (evidence.before_launches_ns, evidence.after_launches_ns);
    let between = evidence
        .time_ns
        .saturating_sub(before.saturating_add(after));
    // What is less than a tenth needs no word.
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

/// What starts up, and what its longest part is.
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
        Some(usual) => format!(", the median of later ones is {}", time_text(usual as i64)),
        None => String::new(),
    };
    let more = match evidence.count {
        0 | 1 => String::new(),
        count => {
            let total = time_text(evidence.time_ns);
            let than = match evidence.whole_ns {
                0 => "longer than the median of later calls of their names".to_owned(),
                whole if whole >= evidence.time_ns => "in all".to_owned(),
                whole => format!(
                    "more than later ones, {} of that by calls that have none",
                    time_text(whole)
                ),
            };
            format!("; {count} calls that start up, get or free memory take {total} {than}")
        }
    };
    let which = match evidence.place {
        Some(2) => "second",
        Some(3) => "third",
        _ => "first",
    };
    format!("start-up: the {which} call of `{subject}` takes {took}{mostly}{later}{more}")
}

/// The work that ranks differ in most.
fn work_text(finding: &RunFinding) -> String {
    match finding.evidence.within.as_deref().unwrap_or_default() {
        BETWEEN_OPS => "what the host does between ops".to_owned(),
        name => format!("`{}`", short_name(name)),
    }
}

/// Where that is: the op around, the line of Python.
fn place_text(finding: &RunFinding, found: &RunFindings) -> String {
    let names_place = !matches!(
        finding.kind,
        CauseKind::LateRank
            | CauseKind::RankImbalance
            | CauseKind::FusibleChain
            | CauseKind::ExposedCommunication
            | CauseKind::FirstCall
    );
    // Outside of all ops there is no more than the gap itself.
    let is_outside = matches!(
        finding.kind,
        CauseKind::HostWork | CauseKind::UnrecordedSync
    ) && matches!(&finding.subject[..], "" | ANOTHER_THREAD);
    let names_place = names_place && !is_outside;
    let evidence = &finding.evidence;
    let within = evidence.within.as_deref().filter(|_| names_place);
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
            format!(", at {lines} lines of Python, most at `{line}` ({most})")
        }
    });
    // Times of a cause are summed over the ranks that have it.
    let ranks = match finding.ranks.len() {
        0 | 1 => String::new(),
        ranks => format!(", over {ranks} ranks"),
    };
    let communication = evidence.communication.as_deref();
    let communication = communication.map_or(String::new(), |name| format!(", mostly for {name}"));
    let place = rank_place(finding, found);
    format!("{ranks}{within}{communication}{python}{place}")
}

/// Of several ranks the one whose trace shows it longest, and when.
fn rank_place(finding: &RunFinding, found: &RunFindings) -> String {
    let evidence = &finding.evidence;
    let place = evidence.rank.zip(evidence.since_first_ns);
    let place = place.filter(|_| found.ranks > 1);
    place.map_or(String::new(), |(rank, since_ns)| {
        let since = time_text(since_ns);
        format!(", longest on rank {rank} at {since} of its trace")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half_of_the_time() -> CommunicationShare {
        CommunicationShare {
            time_ns: 500,
            is_awaited: true,
            windows_ns: 1_000,
            ..CommunicationShare::default()
        }
    }

    #[test]
    fn ranks_that_meet_nowhere_are_not_said_to_wait_for_each_other() {
        let share = half_of_the_time();
        let found = RunFindings {
            has_device: true,
            ranks: 2,
            window_ns: 1_000,
            ..RunFindings::default()
        };
        let sentence = communication_sentence(&share, &found, false);
        assert!(
            sentence.ends_with("who waited for whom is not known"),
            "{sentence}"
        );
        let sentence = communication_sentence(&share, &found, true);
        assert!(
            sentence.contains("waiting for ranks that come later"),
            "{sentence}"
        );
    }

    #[test]
    fn a_trace_without_recorded_waits_is_not_said_to_gain_nothing() {
        let share = half_of_the_time();
        let found = RunFindings {
            has_device: true,
            ranks: 1,
            window_ns: 1_000,
            ..RunFindings::default()
        };
        let sentence = unknown_gain_sentence(&share, &found);
        assert!(
            sentence.ends_with("cannot be told: the trace records no call that waits"),
            "{sentence}"
        );
        assert!(!sentence.contains("ends no earlier"), "{sentence}");
    }
}
