//! `etlink report`: one page about a trace, a written graph or a run.
//!
//! Every rank is read once for its figures. Which step is drawn is known only when all are: the
//! ranks that are drawn are read once more, unless there is but one.

mod folder;
mod ran;
mod steps;

use super::{json_document, print_text};
use crate::Outcome;
use crate::args::ReportArgs;
use crate::notes;
use anyhow::{Result, bail};
use bytesize::ByteSize;
use etlink_analyze::{KernelRules, run_totals};
use etlink_kineto::KeepEvents;
use etlink_report::page::{
    self, PackedTimeline, RANGES, RankStats, ReportPage, ReportRank, TIMELINE_BYTES,
};
use etlink_run::membership::Excluded;
use etlink_run::output::{Target, refuse_input};
use etlink_run::run::{RunOptions, RunSource};
use etlink_run::{Progress, Run};
use ran::Ran;
use serde::Serialize;
use std::path::Path;
use steps::DrawnSteps;

/// What was written.
#[derive(Serialize)]
struct WrittenPage {
    output: String,
    bytes: u64,
    ranks: usize,
    /// The step that is drawn, if there are steps.
    step: Option<String>,
    timelines: usize,
    ranges: usize,
    /// Traces that are not in the page, and other things to know.
    notes: Vec<String>,
    /// Traces that are not in the page.
    excluded: Vec<Excluded>,
}

/// What the page is made of.
struct Content {
    title: String,
    ranks: Vec<ReportRank>,
    met: Option<RankStats>,
    timelines: Vec<PackedTimeline>,
    /// Of how many ranks.
    drawn: usize,
    step: Option<String>,
    notes: Vec<String>,
    /// Traces that are not in the page.
    excluded: Vec<Excluded>,
}

pub fn run(args: ReportArgs) -> Result<Outcome> {
    // before anything is read: an hour of work must not end at a file that is there already
    let target = Target::page(&args.output, args.overwrite.overwrite)?;
    refuse_input(&args.output, args.host.iter().chain([&args.path]))?;
    let rules = crate::kernel_rules::read_rules(args.rules.as_deref())?;
    let progress = crate::progress::progress_bar();
    let content = if args.path.is_dir() {
        folder::folder_content(&args, &rules, &progress)
    } else {
        file_content(&args, &rules, &progress)
    };
    progress.finish();
    let content = content?;
    let total = run_totals(content.ranks.iter().map(|rank| &rank.analysis));
    let Content {
        title,
        ranks,
        met,
        timelines,
        notes,
        ..
    } = &content;
    let bytes = page::render_page(&ReportPage {
        title,
        ranks,
        total: &total,
        met: met.as_ref(),
        timelines,
        notes,
    })?;
    let ((), bytes) = target.write(|out| out.write_all(&bytes))?;
    print_result(&args, content, bytes, target.is_stdout())
}

fn print_result(
    args: &ReportArgs,
    content: Content,
    bytes: u64,
    to_stdout: bool,
) -> Result<Outcome> {
    let written = WrittenPage {
        output: args.output.display().to_string(),
        bytes,
        ranks: content.ranks.len(),
        step: content.step,
        timelines: content.drawn,
        ranges: content
            .timelines
            .iter()
            .map(|timeline| timeline.ranges)
            .sum(),
        notes: content.notes,
        excluded: content.excluded,
    };
    if to_stdout {
        // the page has standard output for itself
        notes::print_all(&written.notes);
    } else if args.print.json {
        print_text(&json_document("etlink.report", &written)?)?;
    } else {
        notes::print_all(&written.notes);
        let count = |count: usize| format!("{count} rank{}", if count == 1 { "" } else { "s" });
        let (step, without) = written
            .step
            .map_or((String::new(), ", without steps"), |step| {
                (format!("step {step} of "), "")
            });
        let (output, size, ranges) = (
            &written.output,
            ByteSize(bytes).display().si(),
            written.ranges,
        );
        let (ranks, drawn) = (count(written.ranks), count(written.timelines));
        print_text(&format!(
            "{output}: {size}, {ranks}; drawn: {step}{drawn}{without}, {ranges} ranges\n"
        ))?;
    }
    Ok(if written.excluded.is_empty() {
        Outcome::Done
    } else {
        Outcome::Found
    })
}

/// One trace, a pair, or a written graph.
fn file_content(args: &ReportArgs, rules: &KernelRules, progress: &Progress) -> Result<Content> {
    if !args.timelines.is_empty() {
        bail!("--timelines is for a folder; of one trace the timeline is always drawn");
    }
    let source = RunSource::from_path_and_host(&args.path, args.host.as_deref())?;
    let run = Run::open(source, report_options(args, progress)?)?;
    let content = run.only_rank()?.load()?;
    let ran = Ran::from_content(content.refuse_damage(&run.set().options)?)?;
    let label = ran
        .rank_number()
        .map_or_else(|| file_name(&args.path), |rank| rank.to_string());
    let rank = ran.report_rank(&label, None, rules, 1);
    let steps = DrawnSteps::choose_step(args.step.as_deref(), &[&rank])?;
    let timelines = vec![PackedTimeline::new(RANGES, TIMELINE_BYTES, |most| {
        ran.draw_timeline(&rank, &steps, most, rules, None)
    })?];
    let (title, notes) = (
        file_name(&args.path),
        ran.leaves_out()
            .into_iter()
            .chain(ran.damage_note())
            .collect(),
    );
    Ok(Content {
        title,
        ranks: vec![rank],
        met: None,
        timelines,
        drawn: 1,
        step: steps.name(),
        notes,
        excluded: vec![],
    })
}

fn report_options(args: &ReportArgs, progress: &Progress) -> Result<RunOptions> {
    Ok(RunOptions {
        rank: args.rank,
        // the page draws memory over time, for which allocations are needed
        keep: KeepEvents::Memory,
        progress: progress.clone(),
        ..args.reading.run_options(Some(&args.choice))?
    })
}

fn file_name(path: &Path) -> String {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    name.or_else(|| {
        Some(
            path.canonicalize()
                .ok()?
                .file_name()?
                .to_string_lossy()
                .into_owned(),
        )
    })
    .unwrap_or_else(|| "-".to_owned())
}
