//! A finding as one sentence: what is gained, what the trace shows, what helps.

use crate::detect::names::BETWEEN_OPS;
use crate::finding::{RunFinding, RunFindings};
use crate::kind::CauseKind;
use crate::text::{count_text, percent_text, short_name, time_text};
use etlink_analyze::UtilizationWindow;

/// `23 % of the 3 steps (90.1 of 386 ms): the host waits …; load ahead: …`
pub(crate) fn finding_sentence(finding: &RunFinding, found: &RunFindings) -> String {
    // Where the trace shows signs alone the sentence must say so.
    let probably = if finding.inferred { "probably " } else { "" };
    format!(
        "{} of {} ({} of {}): {probably}{}{}; {}",
        percent_text(finding.gain_share),
        window_text(found),
        time_text(finding.gain_ns),
        time_text(found.window_ns),
        what_text(finding, found),
        place_text(finding),
        finding.remedy
    )
}

/// What the shares are of.
fn window_text(found: &RunFindings) -> String {
    match (found.window, found.steps) {
        (UtilizationWindow::Steps, 1) => "the step".to_owned(),
        (UtilizationWindow::Steps, steps) => format!("the {steps} steps"),
        (UtilizationWindow::Process, _) => "the recording".to_owned(),
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
    match finding.kind {
        CauseKind::InputPipeline => {
            format!("the host waits for input in `{subject}`, {times}, {total} in all")
        }
        CauseKind::HostWork if subject.is_empty() && evidence.python.is_some() => {
            format!("between ops the host runs Python for {total}")
        }
        CauseKind::HostWork if subject.is_empty() => {
            format!("between ops the host does for {total} what no op shows")
        }
        CauseKind::HostWork => {
            format!("the host is in `{subject}` for {total} between launches")
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
        CauseKind::PageableCopy => format!(
            "`{subject}` copies memory that is not pinned and the host waits for it, {times}, \
            {total} in all"
        ),
        CauseKind::ExplicitSync => {
            format!("`{subject}` stops the host, {times}, {total} in all")
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
            format!("computation does not hide {subject}: {times}, {total} in all{waits}")
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
            format!("`{subject}` copies tensors inside of the device, {times}, {total} in all")
        }
        CauseKind::Recomputation => format!(
            "checkpointing computes forward work again in the backward pass, {times}, {total} of \
            the device"
        ),
        CauseKind::FirstStep => format!(
            "the first step warms up, mostly in `{subject}`: it takes {typical}, others \
            {compared_time}"
        ),
        CauseKind::ProfilerOverhead => {
            format!("the profiler's own work (`{subject}`) takes {total}")
        }
        CauseKind::QueueFull => format!(
            "the device's queue is full: {count} launches take {total} in all, usually \
            {compared_time} each"
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

/// The work that ranks differ in most.
fn work_text(finding: &RunFinding) -> String {
    match finding.evidence.within.as_deref().unwrap_or_default() {
        BETWEEN_OPS => "what the host does between ops".to_owned(),
        name => format!("`{}`", short_name(name)),
    }
}

/// Where that is: the op around, the line of Python.
fn place_text(finding: &RunFinding) -> String {
    let names_place = !matches!(
        finding.kind,
        CauseKind::LateRank | CauseKind::RankImbalance | CauseKind::FusibleChain
    );
    // Outside of all ops there is no more than the gap itself.
    let names_place =
        names_place && !(finding.kind == CauseKind::HostWork && finding.subject.is_empty());
    let evidence = &finding.evidence;
    let within = evidence.within.as_deref().filter(|_| names_place);
    let how = match finding.kind {
        CauseKind::HostWork => "mostly in",
        _ => "in",
    };
    let within = within.map_or(String::new(), |op| format!(", {how} `{}`", short_name(op)));
    let python = evidence.python.as_deref();
    let python = python.map_or(String::new(), |line| format!(", at `{line}`"));
    // Times of a cause are summed over the ranks that have it.
    let ranks = match finding.ranks.len() {
        0 | 1 => String::new(),
        ranks => format!(", over {ranks} ranks"),
    };
    format!("{ranks}{within}{python}")
}
