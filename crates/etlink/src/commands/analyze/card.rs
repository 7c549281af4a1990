//! A workload card of a run, derived from its traces.

use super::Analyzed;
use anyhow::Result;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_formats::metrics::CardGaps;
use etlink_link::LinkedTrace;
use etlink_run::Progress;
use etlink_run::discover::RankFiles;
use etlink_run::input::{self, InputKind};
use etlink_run::measurements::RunMeasurements;
use etlink_run::output::{OutputFormat, Target};
use std::path::{Path, PathBuf};

/// Facts from a rank's traces for the card of its run.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(super) struct CardFacts {
    /// Name of the device that the rank's work ran on; empty if none.
    device: String,
    /// Number of devices with work of the rank.
    devices: u64,
    /// Communication backend, from `distributedInfo.backend`.
    backend: String,
    /// Number of ranks in the job, according to the trace.
    world_size: Option<u64>,
    /// True if the rank has a host trace.
    has_host: bool,
    /// True if the rank's kernels have metrics.
    has_metrics: bool,
    /// Kind of the device trace; `None` for a written graph or standard input.
    kind: Option<InputKind>,
    /// True if the trace has optimizer steps or a backward pass.
    is_training: bool,
}

impl CardFacts {
    pub(super) fn from_trace(trace: &LinkedTrace, files: &RankFiles) -> CardFacts {
        let path = files
            .device
            .as_deref()
            .filter(|path| *path != Path::new("-"));
        let mut names = trace.device.names.iter();
        let is_training = names.any(|name| {
            name.starts_with("Optimizer.step") || name.starts_with("autograd::engine::")
        });
        let header = &trace.device.header;
        let mut devices: Vec<i64> = trace
            .device
            .queues
            .iter()
            .map(|queue| queue.device)
            .collect();
        devices.sort_unstable();
        devices.dedup();
        let name = devices
            .first()
            .and_then(|device| header.device_name(*device));
        CardFacts {
            device: name.unwrap_or_default().to_owned(),
            devices: devices.len() as u64,
            backend: header.backend.clone(),
            world_size: header.world_size.and_then(|size| u64::try_from(size).ok()),
            has_host: trace.host.is_some(),
            has_metrics: !trace.kernel_metrics.is_empty(),
            kind: path.and_then(file_kind),
            is_training,
        }
    }
}

fn file_kind(path: &Path) -> Option<InputKind> {
    let opened = input::open(path, &Progress::hidden());
    opened.ok().map(|input| input.kind)
}

/// Returns ccl-bench's names for a kind of trace and for its framework; empty if it has none.
fn trace_words(kind: InputKind) -> (&'static str, &'static str) {
    match kind {
        InputKind::KinetoTrace => ("kineto_trace", "pytorch"),
        InputKind::NsysSqlite => ("nsys", ""),
        InputKind::XlaSpace | InputKind::XlaJson => ("xla_trace", "jax"),
        InputKind::RocprofJson | InputKind::RocpdSqlite => ("rocprof", ""),
        _ => ("", ""),
    }
}

/// Returns ccl-bench's names for the measurements next to the traces.
fn metric_trace_words(has_metrics: bool, measured: &RunMeasurements) -> Vec<String> {
    let mut words: Vec<String> = vec![];
    if has_metrics {
        words.push("nsight_compute".to_owned());
    }
    for (_, run) in &measured.latencies {
        let backend = run.backend.to_lowercase();
        let engine = ["vllm", "sglang"]
            .into_iter()
            .find(|engine| backend.contains(engine));
        let word = match engine {
            Some(engine) => format!("{engine}_bench_latency"),
            None => "bench_latency".to_owned(),
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// Target file of a card, checked before any work is done.
pub(super) struct CardTarget(Target);

impl CardTarget {
    /// Checks the target; `None` without a path.
    ///
    /// # Errors
    /// The file exists, or cannot be written.
    pub(super) fn new(path: Option<&PathBuf>, overwrite: bool) -> Result<Option<CardTarget>> {
        let Some(path) = path else { return Ok(None) };
        let target = Target::new(path, Some(OutputFormat::EtPlus), overwrite)?;
        Ok(Some(CardTarget(target)))
    }

    /// Writes the card of a run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, run: &Analyzed) -> Result<()> {
        // a card next to the traces provides the remaining fields
        let known = run.told.measured.card().cloned().unwrap_or_default();
        let text = known.filled(&card_gaps(run))?;
        self.0.write(|out| out.write_all(text.as_bytes()))?;
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Returns the facts about a run that a card has.
fn card_gaps(run: &Analyzed) -> CardGaps {
    let ranks = &run.told.ranks;
    let facts = ranks.iter().map(|rank| &rank.card);
    let stated = facts.clone().filter_map(|rank| rank.world_size).max();
    let world = stated.unwrap_or(ranks.len() as u64);
    let first = facts.clone().find(|rank| !rank.device.is_empty());
    let is_inference = !run.total.phases.is_empty();
    let mut traces: Vec<String> = vec![];
    let mut framework = "";
    for kind in facts.clone().filter_map(|rank| rank.kind) {
        let (word, of_kind) = trace_words(kind);
        if !word.is_empty() && !traces.iter().any(|known| known == word) {
            traces.push(word.to_owned());
        }
        framework = if framework.is_empty() {
            of_kind
        } else {
            framework
        };
    }
    if facts.clone().any(|rank| rank.has_host) {
        traces.push("torch_et".to_owned());
    }
    let has_metrics = facts.clone().any(|rank| rank.has_metrics);
    let is_training = facts.clone().any(|rank| rank.is_training);
    let phase = match (is_inference, is_training) {
        (true, false) => "inference",
        (false, true) => "training",
        // neither is known, or both
        _ => "",
    };
    let devices = facts.clone().map(|rank| rank.devices).max().unwrap_or(0);
    let backends = facts.map(|rank| rank.backend.as_str());
    let backend = backends.into_iter().find(|backend| !backend.is_empty());
    CardGaps {
        phase,
        device: first.map_or_else(String::new, |rank| rank.device.clone()),
        devices: world.checked_mul(devices).filter(|devices| *devices > 0),
        framework,
        communication: backend.unwrap_or_default().to_owned(),
        traces,
        metric_traces: metric_trace_words(has_metrics, &run.told.measured),
    }
}
