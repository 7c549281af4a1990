//! `etlink report`: one page about a trace, a written graph, or a run.
//!
//! Every rank is read once for its figures. Only then is it known which step to draw, so the drawn
//! ranks are read again, unless there is only one.

mod compared;
mod folder;
mod ran;
mod simulated;
mod snapshot;
mod steps;

use super::{is_memory_snapshot, note_idle_measurements, print_report, print_text};
use crate::Outcome;
use crate::args::ReportArgs;
use crate::envelope::{JsonReport, json_text};
use crate::kernel_rules::{ReadRules, read_rules};
use crate::notes;
use crate::run_query::RunQuery;
use crate::table::{count, known};
use anyhow::{Result, bail};
use bytesize::ByteSize;
use etlink_analysis::findings::RunFindings;
use etlink_analysis::{KernelRules, run_totals};
use etlink_model::{Diagnostic, GlobalRank, KeepEvents};
use etlink_report::page::{
    self, ComparedRuns, FindingLink, PackedTimeline, RANGES, RankStats, ReportPage, ReportRank,
    SimulatedPart, TIMELINE_BYTES,
};
use etlink_run::membership::Excluded;
use etlink_run::memory::RankOperation;
use etlink_run::output::{Target, no_target, refuse_input};
use etlink_run::run::{RunOptions, RunSource};
use etlink_run::simulated::SimulationFiles;
use etlink_run::{Progress, Run};
use ran::Ran;
use serde::Serialize;
use std::ffi::OsStr;
use std::path::Path;
use steps::DrawnSteps;

/// Summary of the written page.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct WrittenPage {
    output: String,
    bytes: u64,
    ranks: usize,
    /// Step that is drawn first, if there are steps.
    step: Option<String>,
    /// Number of drawn steps.
    steps: usize,
    timelines: usize,
    ranges: usize,
    /// Changes since the earlier run, if one was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    compared: Vec<String>,
    /// Largest possible gains of the run, which the page lists first.
    findings: Vec<String>,
    /// Notes, including those on traces that are not in the page.
    diagnostics: Vec<Diagnostic>,
    /// Traces that are not in the page.
    excluded: Vec<Excluded>,
}

impl JsonReport for WrittenPage {
    const SCHEMA: &'static str = "etlink.report";
}

/// Content of the page.
struct Content {
    title: String,
    ranks: Vec<ReportRank>,
    met: Option<RankStats>,
    timelines: Vec<PackedTimeline>,
    /// Number of drawn ranks.
    drawn: usize,
    step: Option<String>,
    /// Number of drawn steps of these ranks.
    steps: usize,
    diagnostics: Vec<Diagnostic>,
    /// Largest possible gains of the run.
    findings: Vec<FindingLink>,
    /// Traces that are not in the page.
    excluded: Vec<Excluded>,
    /// True if `--strict` was given and the ranks' communication is not recorded.
    is_refused: bool,
}

/// Source and options of a page.
struct ReportConfig {
    source: RunSource,
    options: RunOptions,
    /// Name of the trace or the folder.
    title: String,
    /// Step to draw, by number or name.
    step: Option<String>,
    /// Ranks to draw, by labels or ranges.
    timelines: Vec<String>,
}

impl ReportConfig {
    fn from_args(args: &ReportArgs, progress: &Progress) -> Result<ReportConfig> {
        Ok(ReportConfig {
            source: RunSource::from_path_and_files(
                &args.path,
                args.trace.traces(),
                &args.trace.metrics,
            )?,
            options: RunOptions {
                rank: args.trace.rank,
                // the page draws memory over time, and its call tree includes Python frames
                keep: KeepEvents::Auxiliary,
                work: RankOperation::Report,
                steps_by: args.steps.steps_by.clone(),
                progress: progress.clone(),
                prepare: args.prepare.shard,
                ..args.reading.run_options(Some(&args.choice))?
            },
            title: file_name(&args.path),
            step: args.step.clone(),
            timelines: args.timelines.clone(),
        })
    }

    /// Returns the options for reading two runs whose tables are compared.
    fn compared_options(&self) -> RunOptions {
        RunOptions {
            // the rank option refers to a single trace, not to either of two inputs
            rank: None,
            ..self.options.clone()
        }
    }
}

pub fn run(mut args: ReportArgs) -> Result<Outcome> {
    if args.prepare.shard.is_some() && (args.after.is_some() || args.simulated.is_some()) {
        bail!("--prepare does not work with a second run or --simulated");
    }
    let after = args.after.take();
    // the page is about the later run
    let before = after.map(|after| std::mem::replace(&mut args.path, after));
    // before reading: an hour of work must not fail because the file exists
    let target = match &args.output {
        Some(output) => {
            let target = Target::page(output, args.overwrite.overwrite)?;
            let inputs = args.trace.host.iter().chain([&args.path]).chain(&before);
            refuse_input(output, inputs)?;
            Some(target)
        }
        // nothing is drawn while ranks are prepared
        None => None,
    };
    // find mistakes in the rules before reading the traces
    let rules = read_rules(args.trace.rules.as_deref())?;
    // also before reading: a missing log must not cost an hour of work
    let files = match &args.simulated {
        Some(log) => Some(SimulationFiles::find(log, args.graphs.as_deref())?),
        None => None,
    };
    let progress = crate::progress::progress_bar();
    let config = ReportConfig::from_args(&args, &progress)?;
    let compared = match &before {
        Some(before) => Some(compared::compare_with(
            &args,
            before,
            &rules.rules,
            &config,
        )?),
        None => None,
    };
    let options = config.options.clone();
    let content = match page_content(config, &rules) {
        Err(error) if is_memory_snapshot(&error) => snapshot::snapshot_content(&args, &progress),
        content => content,
    };
    progress.finish();
    let mut content = content?;
    let target = target.ok_or_else(no_target)?;
    let simulated = match files {
        Some(files) => Some(simulated::simulated_part(files, &args.path, options)?),
        None => None,
    };
    let (compared, excluded) = compared.unzip();
    content.excluded.extend(excluded.into_iter().flatten());
    let bytes = content.render(compared.as_ref(), simulated.as_ref())?;
    let ((), bytes) = target.write(|out| out.write_all(&bytes))?;
    let sentences = compared.map_or_else(Vec::new, |compared| compared.sentences);
    print_result(&target, args.print.json, content, (sentences, bytes))
}

/// Renders the page about the run of a query as an HTML document.
///
/// # Errors
/// No rank of the run could be read.
pub fn report_page(run: &RunQuery, title: String) -> Result<Vec<u8>> {
    let config = ReportConfig {
        source: run.source.clone(),
        options: RunOptions {
            keep: KeepEvents::Auxiliary,
            work: RankOperation::Report,
            ..run.options.clone()
        },
        title,
        step: None,
        timelines: vec![],
    };
    page_content(config, &read_rules(None)?)?.render(None, None)
}

fn page_content(config: ReportConfig, rules: &ReadRules) -> Result<Content> {
    if config.source.is_one_rank() {
        file_content(config, &rules.rules)
    } else {
        folder::folder_content(config, rules)
    }
}

impl Content {
    /// Renders the page, with changes since an earlier run, and with a simulation of this run.
    fn render(
        &self,
        compared: Option<&ComparedRuns>,
        simulated: Option<&SimulatedPart>,
    ) -> Result<Vec<u8>> {
        let total = run_totals(self.ranks.iter().map(|rank| &rank.analysis));
        let page = page::render_page(&ReportPage {
            title: &self.title,
            ranks: &self.ranks,
            total: &total,
            met: self.met.as_ref(),
            timelines: &self.timelines,
            compared,
            simulated,
            diagnostics: &self.diagnostics,
            findings: &self.findings,
        })?;
        Ok(page)
    }
}

fn print_result(
    target: &Target,
    json: bool,
    content: Content,
    (compared, bytes): (Vec<String>, u64),
) -> Result<Outcome> {
    let is_refused = content.is_refused;
    let findings = content.findings.into_iter();
    let written = WrittenPage {
        output: target.path().display().to_string(),
        bytes,
        ranks: content.ranks.len(),
        steps: content.step.as_ref().map_or(0, |_| content.steps),
        step: content.step,
        timelines: content.drawn,
        ranges: content
            .timelines
            .iter()
            .map(|timeline| timeline.ranges)
            .sum(),
        compared,
        findings: findings.map(|finding| finding.title).collect(),
        diagnostics: content.diagnostics,
        excluded: content.excluded,
    };
    if target.is_stdout() {
        // standard output is reserved for the page
        notes::print(&written.diagnostics);
    } else if json {
        print_text(&json_text(&written)?)?;
    } else {
        notes::print(&written.diagnostics);
        let (step, without) = written
            .step
            .map_or((String::new(), ", without steps"), |step| {
                let others = count(written.steps.saturating_sub(1) as u64, "other");
                match written.steps {
                    0 | 1 => (format!("step {step} of "), ""),
                    _ => (format!("step {step} and {others} of "), ""),
                }
            });
        let (output, size, ranges) = (
            &written.output,
            ByteSize(bytes).display().si(),
            written.ranges,
        );
        let ranks = count(written.ranks as u64, "rank");
        let drawn = count(written.timelines as u64, "rank");
        let mut text =
            format!("{output}: {size}, {ranks}; drawn: {step}{drawn}{without}, {ranges} ranges\n");
        for sentence in &written.compared {
            text += &format!("{sentence}\n");
        }
        print_report(&text)?;
    }
    Ok(Outcome::done_if(written.excluded.is_empty() && !is_refused))
}

/// Makes the content for one trace, a pair, or a written graph.
fn file_content(config: ReportConfig, rules: &KernelRules) -> Result<Content> {
    if !config.timelines.is_empty() {
        bail!("--timelines is for a folder; the timeline of one trace is always drawn");
    }
    let run = Run::open(config.source, config.options)?;
    note_idle_measurements(run.set());
    let content = run.only_rank()?.load()?;
    let ran = Ran::from_content(content.refuse_damage(&run.set().options)?)?;
    let label = ran
        .rank_number()
        .map_or_else(|| config.title.clone(), |rank| rank.to_string());
    let rank = ran.report_rank(&label, None, rules, 1);
    let steps = DrawnSteps::choose_step(config.step.as_deref(), &[&rank])?;
    let room = (RANGES, TIMELINE_BYTES);
    let timelines = ran.draw_steps(&rank, &steps, steps.count(), room, rules, |_| None)?;
    let notes = ran.leaves_out().into_iter().chain(ran.damage());
    Ok(Content {
        title: config.title,
        met: None,
        drawn: 1,
        step: steps.name(),
        steps: timelines.len(),
        timelines,
        diagnostics: notes.collect(),
        findings: match ran.found_rank(&rank.analysis, rules) {
            Some(found) => finding_links(&found.alone(), Some(&rank.label)),
            None => vec![],
        },
        ranks: vec![rank],
        excluded: vec![],
        is_refused: false,
    })
}

/// Returns all that `findings` says of a run, with the place where each finding takes longest;
/// `only` is the label of the only rank.
fn finding_links(found: &RunFindings, only: Option<&str>) -> Vec<FindingLink> {
    let mut links = vec![];
    for finding in &found.findings {
        let figures = &finding.figures;
        let rank = figures.rank.as_ref().or(finding.ranks.first());
        let rank = only.map_or_else(
            || rank.map(GlobalRank::to_string),
            |one| Some(one.to_owned()),
        );
        let has_place = only.is_some() || figures.rank.is_some();
        links.push(FindingLink {
            rank: rank.unwrap_or_default(),
            begin_ns: if has_place { figures.start_ns } else { None },
            end_ns: if has_place { figures.end_ns } else { None },
            cause: finding.cause.clone(),
            title: finding.title.clone(),
            gain_share: finding.gain_share,
            evidence: finding.evidence.clone(),
            remedy: finding.remedy.to_string(),
        });
    }
    links.extend(found.remarks().into_iter().map(FindingLink::remark));
    links
}

fn file_name(path: &Path) -> String {
    let own = path.file_name().map(OsStr::to_owned);
    let name = own.or_else(|| Some(path.canonicalize().ok()?.file_name()?.to_owned()));
    known(name, |name| name.to_string_lossy().into_owned())
}
