//! Assigns measurements to runs and ranks, including those in folders without traces.

use super::SortedFolder;
use super::candidate::TraceCandidate;
use crate::input::InputKind;
use crate::measurements::MeasurementFile;
use crate::run_files::RunFiles;
use crate::text::file_name;
use etlink_model::diagnostic;

/// Measurements in folders without traces.
#[derive(Default)]
pub(super) struct StrayMeasurements {
    /// Latencies of requests, and workload cards.
    measurements: Vec<MeasurementFile>,
    /// Metrics of kernels.
    metrics: Vec<TraceCandidate>,
}

impl StrayMeasurements {
    /// Adds the measurements of a folder.
    pub(super) fn add(&mut self, folder: &SortedFolder) {
        let measurements = folder.runs.iter().flat_map(|run| &run.measurements);
        self.measurements.extend(measurements.cloned());
        self.metrics.extend(folder.metrics.iter().cloned());
    }

    /// Assigns the measurements to the only run. If there are several runs, adds a note to the
    /// first that they are ignored.
    pub(super) fn give(mut self, runs: &mut [RunFiles]) {
        self.measurements.sort_by(|a, b| a.path.cmp(&b.path));
        self.metrics.sort_by(|a, b| a.path.cmp(&b.path));
        match runs {
            [] => {}
            [run] => {
                let own = run.measurements.iter().map(|file| file.kind);
                let own: Vec<InputKind> = own.collect();
                for file in self.measurements {
                    // measurements next to the traces have precedence
                    let is_needed = !own.contains(&file.kind);
                    let (path, kind) = (file.path.display(), file.kind.describe());
                    run.unused.push(if is_needed {
                        diagnostic!(
                            MeasurementUsed,
                            "{path} is {kind}, in a folder without traces: used for this run"
                        )
                    } else {
                        diagnostic!(
                            MeasurementNotUsed,
                            "{path} is {kind}, in a folder without traces: not used, since another \
                             one is next to the traces"
                        )
                    });
                    if is_needed {
                        run.measurements.push(file);
                    }
                }
                give_metrics(run, self.metrics);
            }
            [first, ..] => {
                let measurements = self.measurements.iter();
                let measurements = measurements.map(|file| (&file.path, file.kind));
                let metrics = self.metrics.iter().map(|file| (&file.path, file.kind));
                for (path, kind) in measurements.chain(metrics) {
                    let apart = diagnostic!(
                        MeasurementNotUsed,
                        "{} is {}, in a folder without traces: not used",
                        path.display(),
                        kind.describe()
                    );
                    let remedy = "move it next to the traces of its run";
                    first.diagnostics.push(apart.advise(remedy));
                }
            }
        }
    }
}

/// Assigns metrics of kernels to ranks, by the rank in the file's name. A single rank gets the
/// metrics without a rank.
pub(super) fn give_metrics(run: &mut RunFiles, metrics: Vec<TraceCandidate>) {
    let is_alone = run.ranks.len() == 1;
    // files that state a rank come first: the others may be of any rank
    let (by_rank, others): (Vec<_>, Vec<_>) =
        metrics.into_iter().partition(|file| file.rank.is_some());
    for file in by_rank.into_iter().chain(others) {
        let named = file.rank;
        let mut ranks = run.ranks.iter_mut();
        let rank = ranks.find(|rank| match named {
            Some(named) => rank.rank.map_or(is_alone, |own| own == named),
            None => is_alone,
        });
        let (reason, remedy) = match (rank, named) {
            (Some(rank), _) => match &rank.metrics {
                None => {
                    rank.metrics = Some(file.path);
                    continue;
                }
                Some(used) => (format!(", but {} is used instead", file_name(used)), ""),
            },
            (None, Some(named)) => (
                format!(" for rank {named}, but no trace is from this rank: not used"),
                "",
            ),
            (None, None) => (
                ", but no rank in its name: not used".to_owned(),
                "rename it, for example to ncu_rank0.csv",
            ),
        };
        let name = file_name(&file.path);
        let unused = diagnostic!(MeasurementNotUsed, "{name} has kernel metrics{reason}");
        run.diagnostics.push(unused.advise(remedy));
    }
}
