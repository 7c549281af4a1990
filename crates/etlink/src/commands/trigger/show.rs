//! Output of `trigger`.

use super::{TriggeredRank, TriggeredRecording};
use crate::commands::print_report;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fmt::Write;

pub fn print_result(result: &TriggeredRecording) -> Result<()> {
    let mut text = String::new();
    let mut recorded: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for rank in &result.ranks {
        if let (Some(first), Some(last)) = (rank.first_step, rank.last_step) {
            *recorded.entry((first, last)).or_default() += 1;
        }
    }
    for ((first, last), ranks) in recorded {
        let plural = if ranks == 1 { "" } else { "s" };
        let folder = result.recording.as_ref().unwrap_or(&result.folder);
        let folder = folder.display();
        writeln!(
            text,
            "recorded steps {first}-{last} of {ranks} rank{plural}: {folder}"
        )?;
    }
    for rank in &result.ranks {
        if let Some(why) = &rank.why {
            let state = if rank.is_recording {
                "still recording"
            } else {
                "not recorded"
            };
            writeln!(text, "{state}: {}: {why}", name(rank))?;
        }
    }
    print_report(&text)
}

fn name(rank: &TriggeredRank) -> String {
    let process = match (rank.pid, &rank.host) {
        (Some(pid), Some(host)) => format!(" (process {pid} on {host})"),
        _ => String::new(),
    };
    match rank.rank {
        Some(rank) => format!("rank {rank}{process}"),
        None => format!("a process{process}"),
    }
}
