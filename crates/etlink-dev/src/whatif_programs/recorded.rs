//! A recorded program, with the answers of `etlink replay`.

use super::experiments::{Experiment, Parts};
use crate::support::{etlink_path, read_trace_text, repository_root, run_command};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Number of recorded steps.
pub(super) const ACTIVE: usize = 12;
/// Number of other steps: one that waits, one that warms up, two until the program ends.
const OTHERS: usize = 4;

/// Traces of a program.
pub(super) struct RecordedProgram {
    folder: PathBuf,
}

impl RecordedProgram {
    /// Records a program with these durations of its parts.
    pub(super) fn record(
        python: &Path,
        experiment: &Experiment,
        parts: Parts,
    ) -> Result<RecordedProgram> {
        let root = repository_root()?;
        let folder = root.join("target/whatif-programs");
        let python = root.join(python);
        let mut record = Command::new(etlink_path()?);
        record.args([
            "-q",
            "record",
            "--overwrite",
            "--wait",
            "1",
            "--warmup",
            "1",
        ]);
        record
            .args(["--active", &ACTIVE.to_string(), "-o"])
            .arg(&folder);
        record.arg("--").arg(&python);
        if experiment.ranks > 1 {
            record.args(["-m", "torch.distributed.run", "--standalone"]);
            record.args(["--nproc-per-node", &experiment.ranks.to_string()]);
        }
        record.arg(root.join("crates/etlink-dev/recipes/whatif/program.py"));
        record.args([experiment.way, &(ACTIVE + OTHERS).to_string()]);
        // The recording backend is compiled on first use, by the environment's own ninja.
        let programs = python.parent().context("no folder of Python")?;
        let path = std::env::var("PATH").unwrap_or_default();
        record.env("PATH", format!("{}:{path}", programs.display()));
        record.env("GLOO_SOCKET_IFNAME", "lo");
        for (part, length) in parts {
            record.env(part, length.to_string());
        }
        run_command(record.stderr(Stdio::null()))?;
        Ok(RecordedProgram { folder })
    }

    /// Returns the output of `etlink replay` with these arguments.
    pub(super) fn replay(&self, arguments: &[String]) -> Result<ReplayDocument> {
        let mut replay = Command::new(etlink_path()?);
        replay.arg("replay").arg(&self.folder).arg("--json");
        let output = replay.args(arguments).output()?;
        ensure!(
            output.status.success(),
            "{replay:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let document: Value = serde_json::from_slice(&output.stdout)?;
        let run = document["runs"]
            .get(0)
            .context("no run in what replay prints")?;
        Ok(ReplayDocument(run.clone()))
    }

    /// Returns the total time of the ops with a name on a rank, ms.
    pub(super) fn op_ms(&self, name: &str, rank: u32) -> Result<f64> {
        let text = read_trace_text(&self.folder.join(format!("kineto_trace_{rank}.json")))?;
        let trace: Value = serde_json::from_slice(&text)?;
        let events = trace["traceEvents"].as_array().context("no events")?;
        let named = events.iter().filter(|event| event["name"] == name);
        let micros: f64 = named.filter_map(|event| event["dur"].as_f64()).sum();
        Ok(micros / 1e3)
    }
}

/// A run, from `etlink replay --json`.
pub(super) struct ReplayDocument(Value);

impl ReplayDocument {
    /// Returns the mean duration of the first rank's steps in the later half, ms.
    pub(super) fn mean_step(&self) -> Result<f64> {
        let steps = self.0["steps"].as_array().context("no steps")?;
        let own = steps.iter().filter(|step| step["rank"] == steps[0]["rank"]);
        let lengths: Vec<f64> = own.filter_map(|step| step["ns"].as_f64()).collect();
        let later = &lengths[lengths.len() / 2 + 1..];
        ensure!(!later.is_empty(), "only {} steps", lengths.len());
        Ok(later.iter().sum::<f64>() / 1e6 / later.len() as f64)
    }

    /// Returns the time of the ops with a name on the critical path, on all ranks or on one, ms.
    pub(super) fn path_ms(&self, name: &str, rank: Option<u32>) -> f64 {
        let path = self.0["critical_path"]["steps"].as_array();
        let steps = path.into_iter().flatten();
        let changed = steps.filter(|step| {
            let is_rank = rank.is_none_or(|rank| step["rank"] == rank);
            step["name"] == name && is_rank
        });
        let lengths = changed.filter_map(|step| step["duration_ns"].as_f64());
        lengths.sum::<f64>() / 1e6
    }
}
