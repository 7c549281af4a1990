//! `etlink merge`: every rank of a folder, in parallel, one output each.

use super::{print, print_json, threads};
use crate::Outcome;
use crate::args::{Format, Merge};
use crate::discover::{Found, Run, discover};
use crate::memory::{Budget, Need, at_once, in_budget};
use crate::output::Target;
use crate::pair::{self, Form, Job, Linked};
use crate::progress::Progress;
use crate::table::{Rows, mb};
use anyhow::{Context, Result, bail};
use etlink_model::Severity;
use indexmap::IndexMap;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What became of one rank.
#[derive(Serialize)]
struct Rank {
    run: String,
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    linked: Option<Linked>,
}

pub fn run(args: Merge) -> Result<Outcome> {
    if !args.dir.is_dir() {
        bail!("{} is not a folder; to link one pair of files use `etlink link`", args.dir.display());
    }
    let threads = threads(args.how.threads)?;
    Form::new(&args.how, args.how.format)?;
    let runs = discover(&args.dir)?;
    if runs.is_empty() {
        bail!("{}: no host or device traces in it (names such as torch_et_0.json.gz and kineto_trace_0.json.gz)", args.dir.display());
    }
    let todo: Vec<(&Run, &Found)> = runs.iter().flat_map(|run| run.ranks.iter().map(move |found| (run, found))).collect();
    let needs: Vec<Need> = todo.iter().map(|(_, found)| need(found, todo.len())).collect();
    let budget = Budget::new(args.how.memory, threads);
    budget.check(&needs)?;
    for run in &runs {
        std::fs::create_dir_all(args.output.join(&run.folder))
            .with_context(|| format!("cannot make folder {}", args.output.join(&run.folder).display()))?;
    }
    let progress = Progress::new();
    progress.say("linking");
    let bytes: Vec<u64> = needs.iter().map(|need| need.bytes).collect();
    let at_once = at_once(&bytes, budget.for_ranks(), threads);
    let threads_each = budget.threads_each(todo.len(), at_once);
    let link = |at: usize| {
        let (run, found) = todo[at];
        let outcome = one(&args, run, found, threads_each, &progress);
        let (linked, error) = match outcome {
            Ok(linked) => (Some(linked), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        Rank { run: run.folder.display().to_string(), label: found.label.clone(), error, linked }
    };
    let ranks = in_budget(&bytes, budget.for_ranks(), threads, link);
    progress.clear();
    if args.how.json {
        print_json(&ranks)?;
    } else {
        print(&summary(&runs, &ranks))?;
    }
    let bad = ranks.iter().any(|rank| rank.linked.as_ref().is_none_or(|linked| linked.refused));
    Ok(if bad { Outcome::Found } else { Outcome::Done })
}

/// What one of so many ranks takes; a host trace alone is not read.
fn need(found: &Found, ranks: usize) -> Need {
    let device = found.device.as_deref();
    let need = Need::of(found.host.as_deref().filter(|_| device.is_some()), device);
    if ranks > 1 { need.in_turn() } else { need }
}

fn one(args: &Merge, run: &Run, found: &Found, threads: usize, progress: &Progress) -> Result<Linked> {
    let Some(device) = &found.device else {
        let host = found.host.as_deref().unwrap_or(Path::new("?"));
        let why =
            if run.notes.is_empty() { "without a device trace of the same rank beside it" } else { "whose device trace is not sure, see the notes," };
        bail!("{}: a host trace {why} has no times: there is nothing to link", host.display());
    };
    let target = Target::new(&output_path(args, run, found), args.how.format, args.how.force)?;
    let job = Job {
        capture: None,
        host: found.host.clone(),
        device: device.clone(),
        // a rank that only tells files apart need not be the process's rank
        rank: None,
        target: Some(target),
        form: Form::new(&args.how, args.how.format)?,
        tensor_deps: args.how.tensor_deps.into(),
        threads,
        strict: args.how.strict,
        force: args.how.force,
    };
    let mut linked = pair::run(&job, progress)?;
    let report = &mut linked.report;
    if let (Some(named), Some(inside)) = (found.rank, report.rank)
        && named != inside
    {
        report.notes.insert(0, format!("the file's name says rank {named}, the trace says rank {inside}"));
    }
    report.rank = report.rank.or(found.rank);
    Ok(linked)
}

/// `OUT/<folder>/<name>.<rank>.et`, the names that simulators want: a prefix and the rank.
fn output_path(args: &Merge, run: &Run, found: &Found) -> PathBuf {
    let folder = args.output.join(&run.folder);
    let whole = args.dir.join(&run.folder);
    let whole = whole.canonicalize().unwrap_or(whole);
    let name = whole.file_name().map_or("trace".into(), |name| name.to_string_lossy().into_owned());
    let ending = match args.how.format {
        Some(Format::Json) => "json.gz",
        Some(Format::Perfetto) => "trace.json.gz",
        Some(Format::Et) | None => "et",
    };
    folder.join(format!("{name}.{}.{ending}", found.label))
}

fn summary(runs: &[Run], ranks: &[Rank]) -> String {
    let mut out: String = runs.iter().flat_map(|run| run.notes.iter().map(|note| format!("note: {}: {note}\n", run.folder.display()))).collect();
    let mut rows = Rows::default();
    let mut errors = String::new();
    let mut notes: IndexMap<&str, Vec<String>> = IndexMap::new();
    for rank in ranks {
        let name = Path::new(&rank.run).join(&rank.label).display().to_string();
        match (&rank.linked, &rank.error) {
            (Some(linked), _) => {
                rows.add(&name, format!("{} in", mb(linked.bytes.host + linked.bytes.device)), describe(linked));
                linked.report.notes.iter().for_each(|note| notes.entry(note).or_default().push(name.clone()));
            }
            (None, error) => errors += &format!("failed: {name}: {}\n", error.as_deref().unwrap_or("")),
        }
    }
    out.extend(notes.iter().map(|(note, names)| match &names[..] {
        [name] => format!("note: {name}: {note}\n"),
        [first, .., last] => format!("note: {} ranks ({first} … {last}): {note}\n", names.len()),
        [] => String::new(),
    }));
    let failed = ranks.iter().filter(|rank| rank.linked.is_none()).count();
    let refused = ranks.iter().filter(|rank| rank.linked.as_ref().is_some_and(|linked| linked.refused)).count();
    let refusals = if refused > 0 { format!(", {refused} refused under --strict") } else { String::new() };
    out + &rows.to_string() + &errors + &format!("{} linked{refusals}, {failed} failed\n", ranks.len() - failed - refused)
}

fn describe(linked: &Linked) -> String {
    let report = &linked.report;
    let matched: u64 = report.matched.values().sum();
    let seconds = linked.seconds.read + linked.seconds.link + linked.seconds.write;
    let ops = if linked.host.is_some() { format!("{matched} of {} ops matched", report.cpu_ops) } else { "device trace only".into() };
    let of = |severity| report.anomalies.iter().filter(|(kind, _)| kind.severity() == severity).map(|(_, anomaly)| anomaly.count).sum::<u64>();
    let (damage, infos) = (of(Severity::Damage), of(Severity::Info));
    let refused = if linked.refused { ", refused under --strict" } else { "" };
    format!("{ops}, {} of {} device rows launched, {damage} damage, {infos} info, {seconds:.3} s{refused}", report.launched, report.device_rows)
}
