//! Configuration of a replay.

use crate::args::ReplayArgs;
use crate::learned_times::read_learned;
use anyhow::{Result, bail};
use etlink_analysis::findings::{PredictedMemory, PredictedTime, WhatIfQuestion};
use etlink_model::KeepEvents;
use etlink_replay::ReplaySettings;
use etlink_run::memory::RankOperation;
use etlink_run::output::{Target, refuse_input};
use etlink_run::{Overhead, Progress, RunOptions, RunSource, is_folder};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// A question and the caveat of its answer.
#[derive(Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct AskedQuestion {
    pub(super) question: String,
    pub(super) caveat: &'static str,
    /// Time of work before and after, by what the prediction rests on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) predicted: Vec<PredictedTime>,
    /// Peak memory of the device that needs most, if allocations are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<PredictedMemory>,
}

/// Source, options, and changes of a replay.
#[derive(Clone)]
pub(super) struct ReplayConfig {
    pub(super) source: RunSource,
    pub(super) options: RunOptions,
    /// Changes, and the option to allow only one op at a time per place.
    pub(super) settings: ReplaySettings,
    /// Named questions.
    pub(super) questions: Vec<WhatIfQuestion>,
    /// The questions with what they predict, once they are answered.
    pub(super) asked: Vec<AskedQuestion>,
    /// Name of the node whose start is explained.
    pub(super) explain: Option<String>,
    pub(super) critical_path: bool,
    /// Target file of the trace for Perfetto.
    pub(super) target: Option<Target>,
    pub(super) json: bool,
}

impl ReplayConfig {
    /// Makes the configuration; rejects invalid arguments before any work is done.
    pub(super) fn from_args(args: ReplayArgs, progress: &Progress) -> Result<ReplayConfig> {
        if args.file.as_ref().is_some_and(|file| is_folder(file)) {
            check_folder_args(&args)?;
        }
        // clap requires a file, or --validate, which is not configured here
        let path = args.file.clone().unwrap_or_default();
        let source = RunSource::from_path_and_files(&path, [args.host.as_deref(), None], &[])?;
        // before any reading, so that an unwritable file is rejected before gigabytes are read
        let target = perfetto_target(&args)?;
        check_size_questions(&args.what_if.what_if)?;
        let options = RunOptions {
            rank: args.rank,
            tensor_deps: args.tensors.tensor_deps,
            no_align: args.no_align,
            // an export leaves nothing out
            keep: match target {
                Some(_) => KeepEvents::Everything,
                None => kept_events(&args.what_if.what_if),
            },
            work: match target {
                Some(_) => RankOperation::Timeline,
                None => RankOperation::Replay,
            },
            progress: progress.clone(),
            prepare: args.prepare.shard,
            // a file shows the run whose figures are printed
            overhead: Some(args.reading.overhead.unwrap_or(Overhead::IfSlowed)),
            ..args.reading.run_options(Some(&args.choice))?
        };
        Ok(ReplayConfig {
            options,
            settings: ReplaySettings {
                scales: args.what_if.scale,
                drop_edges: args.what_if.drop_edges,
                resources: args.what_if.resources,
                ..ReplaySettings::default()
            },
            questions: with_learned(args.what_if.what_if, args.what_if.learned.as_deref())?,
            asked: vec![],
            explain: args.explain,
            critical_path: args.critical_path,
            target,
            json: args.print.json,
            source,
        })
    }

    /// Returns true if the source is a folder with all ranks of one or several runs.
    pub(super) fn is_folder(&self) -> bool {
        !self.source.is_one_rank()
    }

    /// Returns true if the run is changed.
    pub(super) fn has_changes(&self) -> bool {
        let settings = &self.settings;
        let is_scaled = !settings.scales.is_empty() || !settings.drop_edges.is_empty();
        is_scaled || !self.questions.is_empty()
    }
}

/// Gives questions about a device the times of ops in a file, if one is named.
fn with_learned(
    mut questions: Vec<WhatIfQuestion>,
    path: Option<&Path>,
) -> Result<Vec<WhatIfQuestion>> {
    let Some(path) = path else {
        return Ok(questions);
    };
    let times = Arc::new(read_learned(path)?);
    let mut is_used = false;
    for question in &mut questions {
        if let WhatIfQuestion::Device { learned, .. } = question {
            *learned = Some(times.clone());
            is_used = true;
        }
    }
    if !is_used {
        bail!("--learned is for --what-if device=NAME");
    }
    Ok(questions)
}

/// Rejects several questions about sizes: each would start from the recorded sizes.
pub(super) fn check_size_questions(questions: &[WhatIfQuestion]) -> Result<()> {
    let sizes = questions
        .iter()
        .filter(|question| question.is_about_sizes());
    let sizes: Vec<String> = sizes.map(WhatIfQuestion::to_string).collect();
    if sizes.len() > 1 {
        bail!(
            "sizes change together; ask for them in one question, as in '--what-if {}'",
            sizes.join(",")
        );
    }
    Ok(())
}

/// Returns the events that questions need: allocations for the memory of other sizes.
pub(super) fn kept_events(questions: &[WhatIfQuestion]) -> KeepEvents {
    if questions.iter().any(WhatIfQuestion::is_about_sizes) {
        KeepEvents::Memory
    } else {
        KeepEvents::Graph
    }
}

/// Rejects arguments that do not apply to a folder.
fn check_folder_args(args: &ReplayArgs) -> Result<()> {
    if args.output.is_some() {
        // `merge --format perfetto` draws all ranks, with their measured times
        bail!(
            "-o writes the replay of one rank for Perfetto, not of a folder; pass the device \
             trace of one rank, and its host trace with --host"
        );
    }
    if args.rank.is_some() {
        bail!(
            "--rank is for one trace; a folder is replayed with all its ranks. To select one, put \
            'rank=1/' before a --scale rule or an --explain name"
        );
    }
    Ok(())
}

fn perfetto_target(args: &ReplayArgs) -> Result<Option<Target>> {
    let Some(output) = &args.output else {
        return Ok(None);
    };
    let target = Target::perfetto(output, args.overwrite.overwrite)?;
    refuse_input(output, args.file.iter().chain(&args.host))?;
    Ok(Some(target))
}
