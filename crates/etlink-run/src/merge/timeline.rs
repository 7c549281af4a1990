//! Writes all ranks of a run into one file for Perfetto.
//!
//! Each rank is first written to a file of its own, as many at a time as fit into memory. These
//! files are then concatenated in the order of the ranks.

use super::timeline_context::{TimelineContext, TimelineReport};
use super::{MergeOptions, MergedRank, MergedRun, Merger};
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::job::{self, JobReport, LinkJob};
use crate::output::{FileSet, OutputFormat, Piece, Target};
use etlink_link::LinkedTrace;
use etlink_report::perfetto::TimelineRank;

impl MergedRun {
    fn timeline_rank<'a>(&'a self, label: &str) -> Option<TimelineRank<'a>> {
        let (place, common) = (self.rank_place(label)?, self.common.as_ref()?);
        Some(TimelineRank {
            place: u32::try_from(place).ok()?,
            of: u32::try_from(common.names.len()).ok()?,
            name: common.names.get(place)?,
            clock: self.clock(place),
            origin_ns: common.origin_ns,
            releases: common.releases.of_rank.get(place)?,
        })
    }

    fn header_entries(&self, common: &TimelineContext) -> Vec<(&'static str, String)> {
        let list = |numbers: &mut dyn Iterator<Item = i64>| {
            numbers
                .map(|number| number.to_string())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let offsets = list(&mut (0..self.ranks.len()).map(|place| self.clock(place).offset_ns));
        let mut about = vec![(
            "written_by",
            format!("etlink {}", env!("CARGO_PKG_VERSION")),
        )];
        about.extend([
            ("base_time_ns", "0".to_owned()),
            ("origin_ns", common.origin_ns.0.to_string()),
        ]);
        about.extend([
            ("ranks", list(&mut self.ranks.iter().map(|rank| rank.0))),
            ("clock_offsets_ns", offsets),
        ]);
        about.extend(self.world_size.map(|size| ("world_size", size.to_string())));
        about
    }
}

/// Returns the file name of a run's timeline; `None` if the format has none.
pub(super) fn file_name(options: &MergeOptions) -> Option<&str> {
    let usual = match options.format {
        OutputFormat::Perfetto => "timeline.pftrace.gz",
        OutputFormat::Chrome => "timeline.trace.json.gz",
        OutputFormat::Chakra | OutputFormat::EtPlus => return None,
    };
    Some(options.timeline_name.as_deref().unwrap_or(usual))
}

/// Returns the output of a run's timeline.
pub(super) fn target(options: &MergeOptions, set: &FileSet) -> Option<Result<Target, RunError>> {
    Some(set.target(file_name(options)?, options.format))
}

impl Merger<'_> {
    /// Writes a rank's part; returns `None` if the rank is not in the run.
    pub(super) fn write_part(
        &self,
        trace: &LinkedTrace,
        job: &LinkJob,
        joined: &MergedRun,
        label: &str,
        linked: &mut JobReport,
    ) -> Result<Option<Piece>, RunError> {
        joined
            .timeline_rank(label)
            .map(|member| job::write_member(trace, job, &member, self.progress(), linked))
            .transpose()
    }

    /// Concatenates the parts of each run.
    pub(super) fn write_timelines(
        &self,
        ranks: &mut [MergedRank],
        runs: &mut [MergedRun],
    ) -> Result<(), RunError> {
        for (at, (place, joined)) in self.places.iter().zip(runs).enumerate() {
            let set = place.as_ref().map(|place| &place.set);
            let (Some(target), Some(common)) = (
                set.and_then(|set| target(self.options, set)),
                &joined.common,
            ) else {
                continue;
            };
            let target = target?;
            let of_run = ranks
                .iter_mut()
                .enumerate()
                .filter(|(rank, _)| self.runs.ranks[*rank].0 == at);
            let mut parts: Vec<_> = of_run
                .filter_map(|(_, rank)| {
                    Some((
                        joined.rank_place(&rank.label)?,
                        rank.piece.take()?,
                        rank.linked.as_mut()?,
                    ))
                })
                .collect();
            if parts.is_empty() {
                continue;
            }
            let Some(format) = target.format.for_perfetto() else {
                continue;
            };
            // in the order of the join, which assigns the track numbers
            parts.sort_by_key(|(place, ..)| *place);
            let (mut pieces, mut shown) = (vec![], vec![]);
            for (_, piece, linked) in parts {
                linked.output = Some(target.path().display().to_string());
                shown.extend(linked.shown);
                pieces.push(piece);
            }
            let begin = format
                .begin(&joined.header_entries(common), common.origin_ns.0)
                .with_path(FileAction::Write, target.path())?;
            let bytes = target.join(&begin, pieces, format.between(), &format.end())?;
            joined.timeline = Some(TimelineReport {
                output: target.path().display().to_string(),
                bytes,
                slices: shown.iter().map(|shown| shown.slices).sum(),
                arrows: shown.iter().map(|shown| shown.arrows).sum(),
                between_ranks: common.releases.count,
                gone_on: common.releases.gone_on,
            });
        }
        Ok(())
    }
}
