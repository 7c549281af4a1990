//! Titles of findings: the cause, and the gain of the run without it.

use crate::findings::detect::device::FASTER;
use crate::findings::detect::names::{ANOTHER_THREAD, stays_on_devices};
use crate::findings::evidence::cause_text;
use crate::findings::finding::{RunFinding, RunFindings};
use crate::findings::kind::CauseKind;
use crate::findings::text::{percent_text, short_name, time_text};

/// Formats a title: `Input pipeline: 619 ms of 1.21 s (51 %)`.
pub(crate) fn finding_title(finding: &RunFinding, found: &RunFindings) -> String {
    format!(
        "{}: {} of {} ({})",
        finding.cause,
        time_text(finding.gain_ns),
        time_text(found.window_ns),
        percent_text(finding.gain_share)
    )
}

/// Describes a cause without its gain.
pub(crate) fn named_cause(finding: &RunFinding, found: &RunFindings) -> String {
    format!("{}: {}", finding.cause, cause_text(finding, found))
}

/// Names the cause. If the gain is not that of removing it, the name says so.
pub(crate) fn cause_name(finding: &RunFinding) -> String {
    let subject = short_name(&finding.subject);
    let name = match finding.kind {
        CauseKind::InputPipeline => "Input pipeline",
        CauseKind::HostWork => match &finding.subject[..] {
            "" if finding.figures.python.is_some() => "Python between ops",
            "" => "Host work between ops",
            ANOTHER_THREAD => "Waiting for another thread",
            _ => return format!("Host work in `{subject}`"),
        },
        CauseKind::SmallKernels => "Launch-bound",
        CauseKind::OptimizerLaunches => "Launches of the optimizer",
        CauseKind::ScalarRead => "Reading values from the device",
        CauseKind::DynamicShape => "Reading sizes of results from the device",
        CauseKind::PageableCopy => "Waiting for copies of pageable memory",
        CauseKind::ExplicitSync => "Explicit synchronization",
        CauseKind::UnrecordedSync => "Unrecorded waiting for the device",
        CauseKind::AllocatorCalls => "Memory allocation by the driver",
        CauseKind::ExposedCommunication => return format!("Exposed {subject}"),
        CauseKind::ExposedCopies if stays_on_devices(&finding.subject) => {
            "Exposed copies within or between devices, if twice as fast"
        }
        CauseKind::ExposedCopies => "Exposed copies between host and device",
        CauseKind::DominantKernel => {
            return match finding.figures.roof_share {
                Some(share) if share > FASTER => {
                    format!("`{subject}`, if at the device's peak rates")
                }
                _ => format!("`{subject}`, if twice as fast"),
            };
        }
        CauseKind::LowCoverage => return format!("Too few blocks of `{subject}`"),
        CauseKind::FusibleChain => "Unfused elementwise kernels",
        CauseKind::TensorCopies => "Copies within the device",
        CauseKind::Recomputation => "Recomputation",
        CauseKind::FirstCall => "Start-up",
        CauseKind::FirstStep => "Warm-up",
        CauseKind::ProfilerOverhead => "Overhead of the profiler",
        CauseKind::QueueFull => "Full launch queue",
        CauseKind::StreamTurns => "Needless waiting between streams",
        CauseKind::LateRank => return format!("Longer work on {subject}"),
        CauseKind::RankImbalance => "Imbalance between ranks",
    };
    name.to_owned()
}
