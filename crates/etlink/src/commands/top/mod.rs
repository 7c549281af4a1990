//! `etlink top`: the table of PyTorch's profiler from a recorded trace.

mod show;

use super::{print, print_json, threads};
use crate::Outcome;
use crate::args;
use crate::table;
use anyhow::{Context, Result, bail};
use etlink_analyze::top::{KeyAverages, Options, TopGroup, TopOrder, key_averages};
use etlink_link::LinkReport;
use etlink_model::{Anomalies, DeviceTrace, HostIdx};
use etlink_run::Progress;
use etlink_run::input;
use etlink_run::job::{self, LinkJob, Refused};
use etlink_run::memory::{MemoryBudget, RankMemory};
use etlink_run::run::{self, RunSet};
use serde::Serialize;
use std::path::Path;

/// The table of one rank.
#[derive(Serialize)]
pub(super) struct Table {
    /// The trace.
    pub(super) file: String,
    rank: Option<i64>,
    /// What is to be known of it.
    pub(super) notes: Vec<String>,
    /// What was wrong in it.
    anomalies: Anomalies,
    #[serde(flatten)]
    pub(super) top: KeyAverages,
}

/// What tables are made of.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// A trace, or a folder with those of ranks.
    pub(super) trace: &'a Path,
    pub(super) host: Option<&'a Path>,
    pub(super) by: Option<args::By>,
    pub(super) python: bool,
    pub(super) tables: &'a args::Tables,
}

pub fn run(args: args::Top) -> Result<Outcome> {
    let args::Top {
        trace,
        host,
        by,
        python,
        tables,
    } = &args;
    if tables.ranks.is_some() && !trace.is_dir() {
        bail!(
            "--ranks chooses traces of a folder; {} is a file",
            trace.display()
        );
    }
    if host
        .iter()
        .chain([trace])
        .all(|path| path.as_path() == Path::new("-"))
        && host.is_some()
    {
        bail!("only one of --host and the device trace can be standard input");
    }
    let wanted = Wanted {
        trace,
        host: host.as_deref(),
        by: *by,
        python: *python,
        tables,
    };
    let (made, bad) = self::tables(wanted, threads(tables.threads)?)?;
    if tables.json {
        print_json(&made)?;
    } else if tables.csv {
        made.iter().for_each(|one| {
            one.notes
                .iter()
                .for_each(|note| eprint!("{}", table::note(&format!("{}: {note}", one.file))))
        });
        print(&show::csv(&made)?)?;
    } else {
        print(
            &made
                .iter()
                .map(|table| show::table(table, tables.rows))
                .collect::<Vec<_>>()
                .join("\n"),
        )?;
    }
    Ok(if bad { Outcome::Found } else { Outcome::Done })
}

/// The tables that could be made, and whether one could not.
pub(super) fn tables(wanted: Wanted<'_>, threads: usize) -> Result<(Vec<Table>, bool)> {
    let all = if wanted.trace.is_dir() {
        of_folder(wanted, threads)?
    } else {
        vec![of_file(wanted, threads)]
    };
    let (mut tables, mut errors) = (vec![], vec![]);
    for table in all {
        match table {
            Err(error) => errors.push(error),
            Ok(table) => tables.push(table),
        }
    }
    if tables.is_empty() {
        return Err(run::none_left(errors));
    }
    errors
        .iter()
        .for_each(|error| eprintln!("etlink: {error:#}"));
    Ok((tables, !errors.is_empty()))
}

fn of_file(wanted: Wanted<'_>, threads: usize) -> Result<Table> {
    MemoryBudget::new(wanted.tables.memory, threads)
        .check(&[RankMemory::of(wanted.host, Some(wanted.trace))])?;
    let progress = crate::progress::bar();
    progress.phase("reading");
    let made = of_trace(wanted, wanted.host, wanted.trace, threads, &progress);
    progress.finish();
    made
}

fn of_folder(wanted: Wanted<'_>, threads: usize) -> Result<Vec<Result<Table>>> {
    if wanted.host.is_some() {
        bail!("--host belongs to a single trace; those of a folder are found in it");
    }
    let fleet = RunSet::find(wanted.trace, wanted.tables.memory, threads)?;
    let progress = crate::progress::bar();
    progress.phase("reading");
    let is_asked = |rank: Option<i64>| run::is_asked(wanted.tables.ranks.as_ref(), rank);
    let tables = fleet.each(|at| {
        let (run, found) = fleet.rank(at);
        let Some(device) = &found.device else {
            return is_asked(found.rank).then(|| Err(run::no_device(run, found)));
        };
        if found.rank.is_some() && !is_asked(found.rank) {
            return None;
        }
        let made = of_trace(
            wanted,
            found.host.as_deref(),
            device,
            fleet.threads_each,
            &progress,
        );
        made.map(|made| {
            is_asked(found.rank.or(made.rank)).then(|| Table {
                rank: found.rank.or(made.rank),
                ..made
            })
        })
        .transpose()
    });
    progress.finish();
    Ok(tables.into_iter().flatten().collect())
}

fn of_trace(
    wanted: Wanted<'_>,
    host: Option<&Path>,
    device: &Path,
    threads: usize,
    progress: &Progress,
) -> Result<Table> {
    let group = match wanted.tables.group {
        args::Group::Name => TopGroup::Name,
        args::Group::Shape => TopGroup::Shape,
        args::Group::Stack => TopGroup::Stack(usize::from(wanted.tables.frames)),
    };
    let trace = job::read_for_figures(input::open(device, threads, progress)?, threads)?;
    if trace.window().is_none() && trace.auxiliary.kind.is_empty() {
        return Err(etlink_link::Error::empty_device(&trace))
            .with_context(|| device.display().to_string());
    }
    let (file, rank, mut notes) = (
        device.display().to_string(),
        trace.header.rank,
        notes(&trace, group, host.is_some()),
    );
    let options = Options {
        group,
        python: wanted.python,
        shapes: None,
    };
    let (mut top, report) = match host.filter(|_| group == TopGroup::Shape && !has_shapes(&trace)) {
        None => (
            key_averages(&trace, options),
            LinkReport {
                anomalies: trace.anomalies,
                ..LinkReport::default()
            },
        ),
        Some(host) => of_pair(host, device, trace, options, threads, progress)?,
    };
    if wanted.tables.strict && job::is_damaged(&report) {
        return Err(Refused::new(device, &report.anomalies).into());
    }
    notes.extend(
        report
            .notes
            .into_iter()
            .chain(table::damage(&report.anomalies)),
    );
    notes.extend(negative(&top));
    top.sort(wanted.by.map_or(
        if top.has_device() {
            TopOrder::SelfDevice
        } else {
            TopOrder::SelfHost
        },
        by,
    ));
    Ok(Table {
        file,
        rank,
        notes,
        anomalies: report.anomalies,
        top,
    })
}

/// Input shapes are those of the host trace's nodes.
fn of_pair(
    host: &Path,
    path: &Path,
    device: DeviceTrace,
    options: Options<'_>,
    threads: usize,
    progress: &Progress,
) -> Result<(KeyAverages, LinkReport)> {
    let job = LinkJob::reading(Some(host.to_owned()), path.to_owned(), threads);
    let trace = job::link_read(&job, device, progress)?;
    let shapes = |op: usize| match (&trace.host, trace.op_host[op]) {
        (Some(host), node) if node != HostIdx::NONE => {
            host.names.get(host.nodes.inputs[node.index()].shapes)
        }
        _ => "",
    };
    Ok((
        key_averages(
            &trace.device,
            Options {
                shapes: Some(&shapes),
                ..options
            },
        ),
        trace.report,
    ))
}

fn has_shapes(trace: &DeviceTrace) -> bool {
    trace
        .ops
        .shapes
        .iter()
        .any(|shapes| !trace.names.get(*shapes).is_empty())
}

/// Why own times are below nothing.
fn negative(top: &KeyAverages) -> Option<String> {
    let rows = top.rows.iter().filter(|row| row.self_host_ns < 0).count();
    let why =
        "what it takes for their children overlaps (calls that no op made count as of one thread)";
    (rows > 0)
        .then(|| format!("rows whose own time is negative, as in PyTorch's table: {rows}; {why}"))
}

/// Why a group has less than was asked for.
fn notes(trace: &DeviceTrace, group: TopGroup, has_host: bool) -> Vec<String> {
    let stacks = trace
        .auxiliary
        .kind
        .contains(&etlink_model::AuxiliaryKind::Python);
    match group {
        TopGroup::Stack(_) if !stacks => {
            vec!["the trace was recorded without stacks (with_stack)".to_owned()]
        }
        TopGroup::Shape if !has_shapes(trace) && !has_host => {
            vec!["the trace was recorded without shapes (record_shapes); --host gives those of the host trace".to_owned()]
        }
        _ => vec![],
    }
}

fn by(by: args::By) -> TopOrder {
    match by {
        args::By::SelfDevice => TopOrder::SelfDevice,
        args::By::Device => TopOrder::Device,
        args::By::SelfHost => TopOrder::SelfHost,
        args::By::Host => TopOrder::Host,
        args::By::Count => TopOrder::Count,
    }
}
