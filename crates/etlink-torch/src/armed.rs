//! Recordings requested while the program runs, as a process reports them in the work folder and
//! the manifest. The hook's `watch.py` documents the protocol.

use serde::{Deserialize, Serialize};

/// File in the work folder that requests a recording.
pub const REQUEST: &str = "trigger.json";

/// File in the work folder that names the first step of the recording.
pub const PLAN: &str = "plan.json";

/// File in the work folder that ends a recording early.
pub const END: &str = "end.json";

/// Triggers of recordings, and their length.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArmedSettings {
    /// Steps per recording if the request names no number.
    pub steps: u64,
    /// Warm-up steps before each recording.
    pub warmup: u64,
    /// Interval of periodic recordings, in steps: one begins at each multiple; `None` if off.
    pub every: Option<u64>,
    /// Step time above which the following steps are recorded; `None` if off.
    pub when: Option<StepTimeLimit>,
    /// Number of latest recordings to keep; `None` keeps all.
    pub keep: Option<u64>,
    /// Signal that requests a recording, such as `SIGUSR2`; `None` if off.
    pub signal: Option<String>,
}

/// Upper limit of a step's duration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepTimeLimit {
    /// Multiple of the median step time.
    Factor(f64),
    /// Absolute limit, ns.
    Ns(u64),
}

impl std::str::FromStr for StepTimeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<StepTimeLimit, String> {
        limit(text).ok_or_else(|| {
            "use `step_time > 1.5 x median` or `step_time > 200 ms` (us, ms or s)".to_owned()
        })
    }
}

fn limit(text: &str) -> Option<StepTimeLimit> {
    let value = text.trim().strip_prefix("step_time")?.trim_start();
    let value = value.strip_prefix('>')?.trim();
    let end = value.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = value.split_at(end);
    let number: f64 = number.parse().ok()?;
    let unit: String = unit.split_whitespace().collect();
    let scale = match unit.as_str() {
        "xmedian" => return (number > 0.0).then_some(StepTimeLimit::Factor(number)),
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    (number > 0.0).then_some(StepTimeLimit::Ns((number * scale) as u64))
}

/// A requested recording and its outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AskedRecording {
    /// Id of the request; `None` if a step number triggered it (`--every`).
    pub id: Option<String>,
    /// Origin of the request.
    pub by: String,
    /// First step that is recorded, or was to be.
    pub first_step: u64,
    /// Last step that is recorded.
    pub last_step: Option<u64>,
    /// Folder of the traces, relative to the manifest.
    pub folder: Option<String>,
    /// Reason why the traces are missing.
    pub why: Option<String>,
}

/// Status that an armed process reports while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ArmedStatus {
    /// Process id.
    pub pid: u32,
    /// Name of the machine.
    pub host: String,
    /// Rank of the process, if known.
    pub rank: Option<u32>,
    /// Number of ranks.
    pub world: Option<u32>,
    /// Number of ranks on the process's machine.
    pub local_world: Option<u32>,
    /// True if the rank is not among the requested ones.
    pub excluded: bool,
    /// Last answer: the request, the steps made until then, and ns per step.
    pub answer: Option<(String, u64, Option<u64>)>,
    /// First step of the pending or running recording.
    pub first: Option<u64>,
    /// Outcomes of the last requests.
    pub asked: Vec<AskedRecording>,
    /// True if the process has exited normally.
    pub ended: bool,
}

impl ArmedStatus {
    /// Returns the outcome of a request; `None` while it is pending.
    pub fn outcome(&self, request: &str) -> Option<&AskedRecording> {
        let is_of = |asked: &&AskedRecording| asked.id.as_deref() == Some(request);
        self.asked.iter().find(is_of)
    }

    /// Reads the status file that a process writes.
    ///
    /// # Errors
    /// The file is not JSON of this form.
    pub fn read(status: &[u8]) -> Result<ArmedStatus, serde_json::Error> {
        etlink_json::from_slice(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_step_are_a_multiple_of_the_median_or_a_time() {
        let parsed = |text: &str| text.parse::<StepTimeLimit>().ok();
        let factor = Some(StepTimeLimit::Factor(1.5));
        assert_eq!(parsed("step_time > 1.5 x median"), factor);
        assert_eq!(parsed("step_time>1.5xmedian"), factor);
        let time = Some(StepTimeLimit::Ns(200_000_000));
        assert_eq!(parsed("step_time > 200ms"), time);
        assert_eq!(parsed(" step_time > 0.2 s "), time);
        for wrong in [
            "",
            "step_time > 0 ms",
            "step_time > 3",
            "step_time < 3 ms",
            "time > 3 ms",
            "step_time > 1.5.2 ms",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
