//! Sentences on a whole run: the joint gain, communication without a finding, and a run without
//! findings.

use crate::UtilizationWindow;
use crate::findings::detect::communication::UNNAMED_COMMUNICATION;
use crate::findings::finding::{CommunicationShare, JointGain, RunFindings};
use crate::findings::limits::{ADDS_UP, MUCH_BETWEEN_OPS, MUCH_COMMUNICATION, MUCH_IDLE};
use crate::findings::text::{count_text, percent_text, time_text};
use etlink_link::ranks::{StragglerStats, worst_rank};

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

impl RunFindings {
    /// Names the rank that the others waited for most, the one in the page's head: a late begin is in no
    /// step and has no gain, and a rank can be late although its work takes no longer than elsewhere.
    pub fn name_straggler(&mut self, ranks: &[StragglerStats]) {
        let worst = worst_rank(ranks, StragglerStats::waits_for_it_ns);
        let whole_ns = self.window_ns.saturating_mul(self.ranks as i64) as f64;
        let is_long =
            |rank: &&StragglerStats| rank.waits_for_it_ns() as f64 >= MUCH_COMMUNICATION * whole_ns;
        let worst = worst.filter(is_long);
        self.straggler = worst.map(straggler_sentence);
    }
}

/// Describes the waits for a rank, and the part of them that no step contains.
fn straggler_sentence(rank: &StragglerStats) -> String {
    let late = if rank.began_late_ns > 0 {
        let late = time_text(rank.began_late_ns);
        format!(
            ", {late} of it because its step or recording began later, which the time of steps excludes"
        )
    } else {
        String::new()
    };
    let waited = time_text(rank.waits_for_it_ns());
    format!(
        "the other ranks waited most for rank {}: {waited} in total{late}",
        rank.rank
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
pub(crate) fn step_text(found: &RunFindings) -> String {
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

#[cfg(test)]
mod tests;
