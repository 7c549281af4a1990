//! Fuzzes dumps of the flight recorder: damaged ones are read or rejected, and the contents read
//! are used.

use super::corpus::{mutate_text, sorted_entries};
use anyhow::{Context, Result, ensure};
use etlink_analysis::hang::{RankDump, flight_calls, hang_report};
use etlink_formats::flight_recorder::add_collectives;
use etlink_model::{DeviceTrace, GlobalRank};
use std::path::Path;

/// Reads the dumps in testdata, by rank, for each recording.
pub(super) fn read_dumps() -> Result<Vec<Vec<Vec<u8>>>> {
    let mut all = vec![];
    for folder in sorted_entries(Path::new("testdata/flight"))? {
        let mut dumps = vec![];
        for file in sorted_entries(&folder.path())? {
            if file.file_name().to_string_lossy().starts_with("nccl_trace") {
                let path = file.path();
                let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
                dumps.push(bytes);
            }
        }
        all.push(dumps);
    }
    Ok(all)
}

/// Damages the dumps of a recording and uses them with `traces` of another run.
pub(super) fn check_dumps(
    recordings: &[Vec<Vec<u8>>],
    traces: &mut [DeviceTrace],
    random: &mut fastrand::Rng,
) -> Result<()> {
    let recording = &recordings[random.usize(..recordings.len())];
    let damaged = recording.iter().map(|dump| mutate_text(dump, random));
    let read = damaged.filter_map(|dump| etlink_formats::flight_recorder::read(&dump[..]).ok());
    let dumps: Vec<RankDump> = (0i64..)
        .zip(read)
        .map(|(rank, dump)| RankDump {
            rank: GlobalRank(rank),
            dump,
        })
        .collect();
    let report = hang_report(&dumps);
    // a rank that waits is not itself waited for
    for rank in &report.ranks {
        let waits = !rank.waits_for.is_empty();
        ensure!(
            !waits || !report.waited_for.contains(&rank.rank),
            "rank {} waits, and the run hangs on it",
            rank.rank
        );
    }
    let calls = flight_calls(&dumps).len();
    let entries: usize = dumps.iter().map(|one| one.dump.entries.len()).sum();
    ensure!(calls <= entries, "{calls} calls of {entries} entries");
    for trace in traces {
        for one in &dumps {
            let before = trace.collectives.len() as u64;
            let matches = add_collectives(trace, &one.dump);
            let added = trace.collectives.len() as u64 - before;
            ensure!(
                added == matches.by_time + matches.by_order && added <= matches.ops,
                "{added} records of {matches:?}"
            );
        }
    }
    Ok(())
}
