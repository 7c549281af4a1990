//! Effect of a simulator on host threads that ran in parallel.
//!
//! ASTRA-sim runs one host node of a rank at a time (`HardwareResource.cc`). A plain `.et` keeps
//! the measured duration of every node, so running the threads one after another takes the sum of
//! their times. Measured: for a trace with seven threads, and for one with 47, ASTRA-sim took that
//! sum to within 0.1 %.

use etlink_model::{Diagnostic, diagnostic};
use etlink_run::job::JobReport;
use etlink_run::text;

/// Minimum excess over the measured window worth reporting, as a share.
const MIN_EXCESS: f64 = 0.05;

/// Returns a note on the rank with the largest excess: the minimum time that a simulator takes for
/// its file.
pub(crate) fn serial_host_note<'r>(
    ranks: impl Iterator<Item = (Option<String>, &'r JobReport)>,
) -> Option<Diagnostic> {
    let mut worst: Option<(f64, Diagnostic)> = None;
    for (name, linked) in ranks {
        let Some(written) = &linked.written else {
            continue;
        };
        let window = linked.report.window;
        let measured_ns = window.end_ns.saturating_sub(window.start_ns);
        let excess = written.host_ns as f64 / measured_ns.max(1) as f64 - 1.0;
        if excess < MIN_EXCESS || worst.as_ref().is_some_and(|(known, _)| *known >= excess) {
            continue;
        }
        let of_rank = name.map_or(String::new(), |name| format!(" of rank {name}"));
        let host_ns = i64::try_from(written.host_ns).unwrap_or(i64::MAX);
        let why = if linked.report.device_is_cut {
            "because its threads ran in parallel, or waited for work missing from the truncated trace"
        } else {
            "because its threads ran in parallel"
        };
        let said = diagnostic!(
            SimulatedTimes,
            "a simulator that runs one host node at a time needs at least {} for the .et{of_rank}, \
             which took {} ({:+.0} %), {why}",
            text::time(host_ns),
            text::time(measured_ns),
            100.0 * excess
        );
        worst = Some((
            excess,
            said.advise("merge --for astra-sim counts their time once"),
        ));
    }
    worst.map(|(_, said)| said)
}
