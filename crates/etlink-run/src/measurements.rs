//! What was measured beside the traces of a run: which files, and what is in them.

use crate::Progress;
use crate::error::RunError;
use crate::input::{self, InputFile, InputKind};
use etlink_metrics::{RequestLatencies, WorkloadCard};
use etlink_model::MetricProfile;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A file that was measured beside the traces of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasurementFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: InputKind,
}

/// What the files beside a run say.
#[derive(Clone, Debug, Default)]
pub struct RunMeasurements {
    /// Runs of a benchmark, each with its file.
    pub latencies: Vec<(PathBuf, RequestLatencies)>,
    /// Workload cards, each with its file.
    pub cards: Vec<(PathBuf, WorkloadCard)>,
}

impl RunMeasurements {
    /// Reads the files of a run; metrics of kernels belong to a rank and are read with it.
    ///
    /// # Errors
    /// A file cannot be read, or is not what it began as.
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

    /// What the card of the run says; nothing where cards contradict each other, or there is none.
    pub fn card(&self) -> Option<&WorkloadCard> {
        let (_, first) = self.cards.first()?;
        let mut cards = self.cards.iter();
        cards.all(|(_, card)| card == first).then_some(first)
    }

    /// What to say where several cards contradict each other.
    pub fn card_note(&self) -> Option<String> {
        if self.cards.is_empty() || self.card().is_some() {
            return None;
        }
        let names = self.cards.iter().filter_map(|(path, _)| path.file_name());
        let names: Vec<String> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        Some(format!(
            "{} workload cards differ ({}): none is used; leave the card of this run in the folder",
            self.cards.len(),
            names.join(", ")
        ))
    }
}

/// Reads the result of a benchmark.
///
/// # Errors
/// It cannot be read.
pub fn read_latency_file(input: InputFile) -> Result<Vec<RequestLatencies>, RunError> {
    let name = input.name;
    etlink_metrics::read_latencies(input.content)
        .map_err(|source| RunError::Measurement { name, source })
}

/// Reads a workload card.
///
/// # Errors
/// It cannot be read.
pub fn read_card_file(input: InputFile) -> Result<WorkloadCard, RunError> {
    let name = input.name;
    WorkloadCard::read(input.content).map_err(|source| RunError::Measurement { name, source })
}

/// Reads metrics of kernels.
///
/// # Errors
/// It cannot be read, or is something else.
pub fn read_metric_file(input: InputFile) -> Result<MetricProfile, RunError> {
    let name = input.name;
    etlink_metrics::read_compute_csv(input.content)
        .map_err(|source| RunError::Measurement { name, source })
}

/// Sorts files that were named as measurements into metrics of kernels, of which a rank has one, and
/// the others.
///
/// # Errors
/// One cannot be read, is no measurement, or a second file of metrics.
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
            return Err(RunError::SeveralMetricFiles { path: path.clone() });
        }
    }
    Ok((metrics, others))
}

fn measurement_kind(path: &Path) -> Result<InputKind, RunError> {
    let input = input::open(path, &Progress::hidden())?;
    if input.kind.is_measurement() {
        return Ok(input.kind);
    }
    Err(RunError::NoMeasurement {
        path: path.to_owned(),
        kind: input.kind,
    })
}
