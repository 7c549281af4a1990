//! `etlink inspect`: prints the kind and content of files.

pub(super) mod facts;

use super::print_report;
use crate::args::InspectArgs;
use crate::envelope::{FileReports, JsonReport, print_json_report};
use crate::rank_error::rank_error;
use crate::table::{FactRows, mb};
use crate::{Outcome, notes};
use anyhow::{Context, Result, bail};
use etlink_chakra::read;
use etlink_model::Severity;
use etlink_run::input::{InputFile, InputKind, WantedTrace, database_processes};
use etlink_run::job::{LinkJob, read_for_figures, read_host};
use etlink_run::run::RankEntry;
use etlink_run::{Run, RunError, RunOptions, RunSource};
use facts::{ContentFacts, DeviceFacts, FileFacts, GraphFacts, HostFacts};
use serde_json::Value;
use std::path::Path;

impl JsonReport for FileReports<FileFacts> {
    const SCHEMA: &'static str = "etlink.inspect";
}

pub fn run(args: InspectArgs) -> Result<Outcome> {
    let threads = args.resources.start()?;
    let progress = crate::progress::progress_bar();
    let options = RunOptions {
        threads,
        memory: args.resources.memory.map(|memory| memory.as_u64()),
        slice: args.slice.slice(),
        progress: progress.clone(),
        ..RunOptions::default()
    };
    let stdin = args
        .files
        .iter()
        .filter(|file| file.as_path() == Path::new("-"));
    if stdin.count() > 1 {
        bail!("only one of the files can be standard input");
    }
    let (mut all, mut errors) = (vec![], vec![]);
    let mut is_damaged = false;
    for file in &args.files {
        match inspect_file(file, &options) {
            Ok((facts, damaged)) => {
                all.push(facts);
                is_damaged |= damaged;
            }
            // report the other files anyway
            Err(error) => errors.push(error),
        }
    }
    progress.finish();
    if all.is_empty() {
        let errors = errors.into_iter().map(rank_error);
        return Err(RunError::no_trace_taken(errors.collect()).into());
    }
    if args.print.json {
        print_json_report(&FileReports { files: all })?;
    } else {
        let mut texts = vec![];
        for facts in &all {
            texts.push(fact_lines(facts)?);
        }
        print_report(&texts.join("\n"))?;
    }
    for error in &errors {
        notes::print_message(format_args!("{error:#}"));
    }
    Ok(if args.strict && is_damaged || !errors.is_empty() {
        Outcome::Found
    } else {
        Outcome::Done
    })
}

/// Returns facts about a file, and true if the file is damaged.
fn inspect_file(file: &Path, options: &RunOptions) -> Result<(FileFacts, bool)> {
    let run = Run::open(RunSource::File(file.to_owned()), options.clone())?;
    options.progress.phase("reading");
    let rank = run.only_rank()?;
    let input = rank.open_file()?;
    // before reading the content, which consumes the input
    let (kind, stored) = (input.kind, input.stored_bytes);
    // A trace covers one process. For a report of several processes, list them.
    let processes = match (&input.plain_path, kind.has_processes()) {
        (Some(path), true) => database_processes(path)?,
        _ => vec![],
    };
    let found = match processes.len() {
        0 | 1 => read_contents(input, file, rank),
        _ => Ok((ContentFacts::Processes { processes }, false)),
    };
    let (content, damaged) = found.map_err(|error| {
        let refusal = rank.memory_refusal(error.as_ref());
        refusal.map_or(error, Into::into)
    })?;
    let facts = FileFacts {
        file: file.display().to_string(),
        kind,
        what: kind.describe(),
        taken_by: kind.taken_by(),
        stored_bytes: stored,
        content,
    };
    Ok((facts, damaged))
}

fn read_contents(
    input: InputFile,
    path: &Path,
    rank: RankEntry<'_>,
) -> Result<(ContentFacts, bool)> {
    let (threads, slice) = (rank.set.threads_each, rank.slice());
    if let Some(slice) = slice
        && !input.kind.is_device_trace()
    {
        bail!(
            "{}: {slice} needs a device trace, and this is {}",
            input.name,
            input.kind.describe()
        );
    }
    match input.kind {
        // the commands that take these print their content, and of a timeline no figure is measured
        InputKind::Timeline
        | InputKind::NcclInspector
        | InputKind::FlightRecorder
        | InputKind::MemorySnapshot
        | InputKind::KernelMetrics
        | InputKind::RequestLatencies
        | InputKind::WorkloadCard
        | InputKind::AstraLog => Ok((ContentFacts::Unread {}, false)),
        InputKind::HostTrace => {
            let trace = read_host(input, threads, etlink_link::TensorEdges::None)?;
            let damaged = trace.anomalies.any(Severity::Damage);
            Ok((
                ContentFacts::Host(Box::new(HostFacts::new(&trace))),
                damaged,
            ))
        }
        kind if kind.is_device_trace() => {
            let job = LinkJob {
                slice,
                ..LinkJob::reading(None, path.to_owned(), threads)
            };
            let (trace, notes) = read_for_figures(input, &job, &rank.watched_progress())?;
            if slice.is_some() {
                notes::print(&notes);
            }
            let damaged = trace.anomalies.any(Severity::Damage);
            let facts = Box::new(DeviceFacts::new(&trace));
            Ok((ContentFacts::Device(facts), damaged))
        }
        InputKind::ChakraEt | InputKind::ChakraJson | InputKind::EtPlus => {
            let graph = read::read(input.content).with_context(|| path.display().to_string())?;
            let facts = Box::new(GraphFacts::new(&graph));
            Ok((ContentFacts::Graph(facts), graph.damage().is_some()))
        }
        InputKind::NsysReport => bail!(
            "{} is {}; export it with `nsys export --type sqlite {}`",
            input.name,
            input.kind.describe(),
            input.name
        ),
        InputKind::ParquetTable => bail!(
            "{} is {}; export a report of Nsight Systems with `nsys export --type sqlite` instead",
            input.name,
            input.kind.describe()
        ),
        InputKind::Unknown => bail!(
            "{} is an unknown kind of file; pass a host trace, a device trace, a .et or merged JSON",
            input.name
        ),
        kind => Err(WantedTrace::Times.refuse(&input.name, kind).into()),
    }
}

/// Formats one line per fact; lists and tables have one line per entry.
fn fact_lines(facts: &FileFacts) -> Result<String> {
    let mut rows = FactRows::default();
    let values = serde_json::to_value(facts)?;
    for (key, value) in values.as_object().into_iter().flatten() {
        // `kind` has the same information
        if key == "format" {
            continue;
        }
        let name = key.replace('_', " ");
        match value {
            // facts that the trace lacks are omitted here, and null in JSON
            Value::Null => {}
            Value::Array(list) if list.is_empty() => {}
            // keys name their unit, as in JSON
            Value::Number(bytes) if key.ends_with("bytes") => {
                rows.add(&name, mb(bytes.as_u64().unwrap_or(0)), "")
            }
            Value::Object(table) if key == "metadata" => table.iter().for_each(|(entry, value)| {
                rows.add(
                    &format!("{name} {}", entry.replace('_', " ")),
                    "",
                    value_text(value),
                );
            }),
            Value::Object(table) => table
                .iter()
                .for_each(|(entry, count)| rows.add(&name, value_text(count), entry)),
            Value::Array(list) if list.len() > 3 || list.iter().any(Value::is_object) => {
                rows.add(&name, list.len(), "");
                list.iter()
                    // there can be thousands of threads and streams; JSON has all of them
                    .take(20)
                    .for_each(|entry| rows.add("", "", value_text(entry)));
            }
            other => rows.add(&name, "", value_text(other)),
        }
    }
    Ok(rows.to_string())
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(value_text).collect::<Vec<_>>().join(", "),
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| format!("{key} {}", value_text(value)))
            .collect::<Vec<_>>()
            .join("; "),
        other => other.to_string(),
    }
}
