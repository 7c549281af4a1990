//! The page about a snapshot of PyTorch's allocator: memory over time, by allocation stack.

use super::{Content, file_name};
use crate::args::ReportArgs;
use anyhow::Result;
use etlink_analysis::RankAnalysis;
use etlink_formats::memory_snapshot::device_memories;
use etlink_model::diagnostic;
use etlink_report::page::{RankTrees, ReportRank, snapshot_chart};
use etlink_run::{Progress, read_memory_snapshot};

pub(super) fn snapshot_content(args: &ReportArgs, progress: &Progress) -> Result<Content> {
    let snapshot = read_memory_snapshot(&args.path, progress)?;
    let title = file_name(&args.path);
    let devices = device_memories(&snapshot);
    let (memory_charts, memory) = devices.iter().map(snapshot_chart).unzip();
    let rank = ReportRank {
        label: title.clone(),
        device_trace: title.clone(),
        host_trace: None,
        device: None,
        analysis: RankAnalysis {
            memory,
            ..RankAnalysis::default()
        },
        memory_charts,
        link: None,
        figures: None,
        critical_path: None,
        trees: RankTrees::default(),
    };
    let mut notes = vec![];
    if snapshot.is_cut {
        notes.push(diagnostic!(TraceTruncated, "the snapshot is truncated"));
    }
    Ok(Content {
        title,
        ranks: vec![rank],
        met: None,
        timelines: vec![],
        drawn: 0,
        step: None,
        steps: 0,
        diagnostics: notes,
        findings: vec![],
        excluded: vec![],
        is_refused: false,
    })
}
