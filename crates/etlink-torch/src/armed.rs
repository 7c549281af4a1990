//! Recordings that are asked for while the program runs: what a process says of them, in the work
//! folder and in the manifest. `watch.py` of the hook has the protocol.

use serde::{Deserialize, Serialize};

/// The file in the work folder that asks for a recording.
pub const REQUEST: &str = "trigger.json";

/// The file in the work folder that says with which step the recording begins.
pub const PLAN: &str = "plan.json";

/// The file in the work folder that ends a recording before it has its length.
pub const END: &str = "end.json";

/// What asks for recordings, and how long these are.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArmedSettings {
    /// Steps of a recording for which nobody says how many.
    pub steps: u64,
    /// Steps before it for which the recorders warm up.
    pub warmup: u64,
    /// Record at each step whose number is a multiple of this.
    pub every: Option<u64>,
    /// Record after a step that took longer than this.
    pub when: Option<StepTimeLimit>,
    /// So many recordings stay, the latest; none: all.
    pub keep: Option<u64>,
    /// The signal that asks for a recording, such as `SIGUSR2`.
    pub signal: Option<String>,
}

/// How long a step may take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepTimeLimit {
    /// So many times the median.
    Factor(f64),
    /// This time.
    Ns(u64),
}

impl std::str::FromStr for StepTimeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<StepTimeLimit, String> {
        limit(text).ok_or_else(|| {
            "knows `step_time > 1.5 x median` and `step_time > 200 ms` (us, ms or s)".to_owned()
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

/// A recording that was asked for, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AskedRecording {
    /// Of the request; none: a step number asked for it (`--every`).
    pub id: Option<String>,
    /// Who asked.
    pub by: String,
    /// First step that is or was to be recorded.
    pub first_step: u64,
    /// Last step that is recorded.
    pub last_step: Option<u64>,
    /// Where the traces are, relative to the manifest.
    pub folder: Option<String>,
    /// Why they are not there.
    pub why: Option<String>,
}

/// What a process that is armed says of itself while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ArmedStatus {
    /// Process id.
    pub pid: u32,
    /// Name of the machine.
    pub host: String,
    /// Rank.
    pub rank: Option<u32>,
    /// Number of ranks.
    pub world: Option<u32>,
    /// Number of ranks on its machine.
    pub local_world: Option<u32>,
    /// Not one of the ranks that were asked for.
    pub excluded: bool,
    /// Its last answer: the request, the steps made until then, and ns per step.
    pub answer: Option<(String, u64, Option<u64>)>,
    /// First step of the recording that it waits for, or that it makes.
    pub first: Option<u64>,
    /// What came of the last requests.
    pub asked: Vec<AskedRecording>,
    /// It has ended as programs do.
    pub ended: bool,
}

impl ArmedStatus {
    /// What came of a request, once that is known.
    pub fn outcome(&self, request: &str) -> Option<&AskedRecording> {
        let is_of = |asked: &&AskedRecording| asked.id.as_deref() == Some(request);
        self.asked.iter().find(is_of)
    }

    /// Reads the file that a process writes.
    ///
    /// # Errors
    /// It is no JSON of this form.
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
