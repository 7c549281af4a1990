//! Measurements next to the traces of a run: files and their contents.

use crate::Progress;
use crate::error::RunError;
use crate::input::{self, InputFile, InputKind};
use etlink_formats::metrics::{RequestLatencies, WorkloadCard};
use etlink_model::{Diagnostic, Failure, MetricProfile, diagnostic};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A measurement file next to the traces of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasurementFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Kind of the file.
    pub kind: InputKind,
}

/// Contents of the measurement files of a run.
#[derive(Clone, Debug, Default)]
pub struct RunMeasurements {
    /// Results of benchmarks, with their files.
    pub latencies: Vec<(PathBuf, RequestLatencies)>,
    /// Workload cards, with their files.
    pub cards: Vec<(PathBuf, WorkloadCard)>,
}

impl RunMeasurements {
    /// Reads the files of a run, except metrics of kernels, which are read with their rank.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or its content does not match its beginning.
    pub fn read(files: &[MeasurementFile]) -> Result<RunMeasurements, RunError> {
        let mut found = RunMeasurements::default();
        for file in files {
            let input = input::open(&file.path, &Progress::hidden())?;
            match input.kind {
                InputKind::RequestLatencies => {
                    for run in read_latency_file(input)? {
                        found.latencies.push((file.path.clone(), run));
                    }
                }
                InputKind::WorkloadCard => {
                    let card = read_card_file(input)?;
                    found.cards.push((file.path.clone(), card));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Returns the card of the run; `None` if there is none, or several contradict each other.
    pub fn card(&self) -> Option<&WorkloadCard> {
        let (_, first) = self.cards.first()?;
        let mut cards = self.cards.iter();
        cards.all(|(_, card)| card == first).then_some(first)
    }

    /// Returns a note if several cards contradict each other.
    pub fn card_note(&self) -> Option<Diagnostic> {
        if self.cards.is_empty() || self.card().is_some() {
            return None;
        }
        let names = self.cards.iter().filter_map(|(path, _)| path.file_name());
        let names: Vec<String> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        let differ = diagnostic!(
            CardsDiffer,
            "{} workload cards differ ({}): none is used",
            self.cards.len(),
            names.join(", ")
        );
        Some(differ.advise("keep only the card of this run in the folder"))
    }
}

fn read_latency_file(input: InputFile) -> Result<Vec<RequestLatencies>, RunError> {
    etlink_formats::metrics::read_latencies(input.content)
        .map_err(|cause| RunError::unreadable(input.name, cause))
}

fn read_card_file(input: InputFile) -> Result<WorkloadCard, RunError> {
    WorkloadCard::read(input.content).map_err(|cause| RunError::unreadable(input.name, cause))
}

/// Reads metrics of kernels.
///
/// # Errors
/// Fails if the file cannot be read, or is of another kind.
pub(crate) fn read_metric_file(input: InputFile) -> Result<MetricProfile, RunError> {
    etlink_formats::metrics::read_compute_csv(input.content)
        .map_err(|cause| RunError::unreadable(input.name, cause))
}

/// Separates files given as measurements into the metrics of kernels, at most one file, and the
/// others.
///
/// # Errors
/// Fails if a file cannot be read, is not a measurement, or is a second file of metrics.
pub(crate) fn sort_measurements(
    paths: &[PathBuf],
) -> Result<(Option<PathBuf>, Vec<MeasurementFile>), RunError> {
    let (mut metrics, mut others) = (None, vec![]);
    for path in paths {
        let kind = measurement_kind(path)?;
        if kind != InputKind::KernelMetrics {
            others.push(MeasurementFile {
                path: path.clone(),
                kind,
            });
        } else if metrics.replace(path.clone()).is_some() {
            let second = Failure::about(path.display(), " is a second file with kernel metrics");
            return Err(second.advise("give one of them").into());
        }
    }
    Ok((metrics, others))
}

fn measurement_kind(path: &Path) -> Result<InputKind, RunError> {
    let input = input::open(path, &Progress::hidden())?;
    if input.kind.is_measurement() {
        return Ok(input.kind);
    }
    let what = format!(" is {}, not a measurement", input.kind.describe());
    let remedy = "give a CSV file of Nsight Compute, a vLLM or SGLang benchmark result, or a \
                  workload card";
    Err(Failure::about(path.display(), what).advise(remedy).into())
}
