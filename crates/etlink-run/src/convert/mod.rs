//! Converts a written graph into another format.
//!
//! ```text
//! .et, its JSON ────┬─> .et, its JSON    message by message, without losses
//! tables ───────────┴─> tables
//! ET+ ────────────────> .et, its JSON, tables   linked again, from its nodes
//! any of them ────────> picture           of a chosen part
//! all ranks of a run ─> GOAL              collectives as messages
//! workload of SimAI ──> folder of .et     of the ranks of a pipeline stage
//! ```
//! Data that the output format cannot hold is counted, and refused on request.

mod damage;
mod format;
mod graph_input;
#[cfg_attr(not(feature = "parquet"), path = "without_tables.rs")]
mod tables;

pub use format::GraphFormat;

use crate::file_error::{FileAction, FileContext};
use crate::file_kind::{is_folder, may_be_file};
use crate::graphs::{find_graph_sets, groups_beside, prefix_and_rank};
use crate::output::{OutputFormat, Target, refuse_input};
use crate::workloads::write_generated;
use crate::{RunError, input, merged};
use damage::losses_of_damage;
use etlink_chakra::AttributeSet;
use etlink_chakra::convert::GroupList;
use etlink_chakra::messages::{
    ChakraMessage, ChakraMessages, Losses, for_each_message, is_minimal, to_minimal, write_et,
    write_json,
};
use etlink_chakra::picture::{NodeChoice, Picture, to_dot, to_graphml};
use etlink_chakra::read::{self, ChakraGraph};
use etlink_model::{Diagnostic, Failure, diagnostic};
use etlink_workload::generate::simai::read_simai;
use etlink_workload::goal::{CollectiveAlgorithm, GoalRun, write_goal};
use graph_input::GraphInput;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Options of a conversion.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// Format of the input; `None` to detect it from the content.
    pub from: Option<GraphFormat>,
    /// Format of the output; `None` to derive it from the name.
    pub to: Option<GraphFormat>,
    /// Part to draw.
    pub choice: NodeChoice,
    /// Rank to convert of a folder.
    pub rank: Option<i64>,
    /// Algorithm that expands collectives into messages, for GOAL.
    pub algorithm: Option<CollectiveAlgorithm>,
    /// Attributes of nodes; `None` to keep the input's.
    pub attributes: Option<AttributeSet>,
    /// True to refuse any loss.
    pub strict: bool,
    /// True to replace existing files.
    pub overwrite: bool,
}

/// Report of a conversion.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConvertReport {
    /// Path of the input.
    pub input: PathBuf,
    /// Format of the input.
    pub from: GraphFormat,
    /// Path of the output.
    pub output: PathBuf,
    /// Format of the output.
    pub to: GraphFormat,
    /// Number of written nodes.
    pub nodes: u64,
    /// Number of ranks' files read.
    pub ranks: u64,
    /// Size of the output, bytes.
    pub bytes: u64,
    /// Data that the output lacks.
    pub losses: Losses,
    /// Facts about files that were read or skipped.
    pub diagnostics: Vec<Diagnostic>,
}

/// Converts `source` to `output`.
///
/// # Errors
/// Fails if a file cannot be read or written, the conversion is not supported, or `strict` forbids
/// a loss.
pub fn convert(
    source: &Path,
    output: &Path,
    options: &ConvertOptions,
) -> Result<ConvertReport, RunError> {
    let (ranks, note) = input_ranks(source, output, options)?;
    let mut input = GraphInput::new(ranks.first().cloned().unwrap_or_default());
    let from = input_format(&mut input, options.from)?;
    let named = options.to.or_else(|| GraphFormat::from_name(output));
    let to = match named {
        Some(format) => format,
        // A folder with a file per rank.
        None if from == GraphFormat::SimAi => GraphFormat::Chakra,
        None => {
            let what = ": the file name does not show the format";
            let remedy = "use .et, .json, .dot, .graphml, .goal or .parquet, or give --to";
            return Err(Failure::about(output.display(), what).advise(remedy).into());
        }
    };
    refuse_formats(&input.path, from, to)?;
    refuse_options(to, options)?;
    if from == GraphFormat::SimAi && options.attributes.is_some() {
        let what = ": a workload of SimAI has no attributes that --attrs could leave out";
        return Err(Failure::about(input.path.display(), what).into());
    }
    refuse_input(output, ranks.iter())?;
    let mut job = ConvertJob {
        input,
        options,
        report: ConvertReport {
            input: source.to_owned(),
            from,
            output: output.to_owned(),
            to,
            nodes: 0,
            ranks: 1,
            bytes: 0,
            losses: Losses::default(),
            diagnostics: note.into_iter().collect(),
        },
    };
    if from == GraphFormat::EtPlus && !to.is_picture() {
        job.link_again()?;
    }
    match (from, to) {
        (GraphFormat::SimAi, _) => job.write_simai_ranks()?,
        (_, GraphFormat::Goal) => job.write_goal(&ranks)?,
        (_, to) if to.is_picture() => job.write_picture()?,
        (_, GraphFormat::Parquet) => job.write_tables()?,
        _ => job.write_messages()?,
    }
    Ok(job.report)
}

/// Lists the files to read: one, or for GOAL those of all ranks of a run. Also returns a note on
/// skipped files of the folder.
fn input_ranks(
    source: &Path,
    output: &Path,
    options: &ConvertOptions,
) -> Result<(Vec<PathBuf>, Option<Diagnostic>), RunError> {
    let is_tables = may_be_file(&source.join(format::NODES));
    if !is_folder(source) || is_tables {
        return Ok((vec![source.to_owned()], None));
    }
    let refused = |found: String, remedy| {
        let failure = Failure::about(source.display(), format!(": {found}"));
        RunError::from(failure.advise(remedy))
    };
    if ["events", "nodes", "edges"]
        .iter()
        .all(|table| is_folder(&source.join(table)))
    {
        return Err(refused(
            "the folder has tables of analyze, which lack data that a .et needs".to_owned(),
            "link the recording with `etlink merge` or `etlink link`",
        ));
    }
    let mut sets = find_graph_sets(source)?;
    let [set] = &mut sets[..] else {
        let (found, remedy) = match sets.len() {
            0 => (
                "the folder has no written graphs".to_owned(),
                "make graphs from its recordings with `etlink merge`, or give a file",
            ),
            several => (
                format!("the folder has written graphs of {several} runs"),
                "give the folder of one run, or a file",
            ),
        };
        return Err(refused(found, remedy));
    };
    let mut ranks = set.ranks.clone();
    let to = options.to.or_else(|| GraphFormat::from_name(output));
    if let Some(rank) = options.rank {
        ranks.retain(|known, _| *known == rank);
        if ranks.is_empty() {
            return Err(refused(
                format!("the folder has no file of rank {rank}"),
                "give another rank",
            ));
        }
    }
    if ranks.len() > 1 && to != Some(GraphFormat::Goal) {
        return Err(refused(
            format!("the folder has {} ranks", ranks.len()),
            "select one with --rank, or give a file; only GOAL takes all ranks",
        ));
    }
    let mut read = set.clone();
    read.passed_by.retain(|known, _| ranks.contains_key(known));
    let note = read.passed_by_note();
    Ok((ranks.into_values().collect(), note))
}

fn input_format(
    input: &mut GraphInput,
    said: Option<GraphFormat>,
) -> Result<GraphFormat, RunError> {
    let path = input.path.clone();
    match (input.find_format()?, said) {
        (Some(found), Some(said)) if found != said => {
            let (found, said) = (found.describe(), said.describe());
            let what = format!(": the file is {found}, not {said}");
            let other = Failure::about(path.display(), what);
            Err(other.advise("leave out --from").into())
        }
        (Some(found), _) => Ok(found),
        (None, _) => {
            let what = ": not a format that convert reads";
            let remedy = "give a .et, its JSON, merged JSON (ET+), tables of convert, or a workload \
                          of SimAI. To convert a recording, first run `etlink link --device KINETO -o x.et`";
            Err(Failure::about(path.display(), what).advise(remedy).into())
        }
    }
}

fn refuse_formats(path: &Path, from: GraphFormat, to: GraphFormat) -> Result<(), RunError> {
    let why = match (from, to) {
        (GraphFormat::EtPlus | GraphFormat::HostTrace, to) if to.is_picture() => return Ok(()),
        (GraphFormat::HostTrace, _) => {
            "it has no launches, kernels and waits; link it with the profiler's trace: \
            `etlink link --host ET --device KINETO -o x.et`"
        }
        (_, GraphFormat::HostTrace) => "a graph of slices is not a recording",
        (GraphFormat::EtPlus, GraphFormat::EtPlus) => "the file already has this format",
        (GraphFormat::EtPlus, GraphFormat::Goal) => {
            "GOAL needs all ranks of a run; make their .et files with `etlink merge FOLDER -o OUT`, \
            then convert OUT"
        }
        (GraphFormat::SimAi, to) if to != GraphFormat::Chakra => {
            "first convert it to a folder with a .et per rank"
        }
        (_, GraphFormat::EtPlus) => {
            "a graph of slices has no tree of ops; link the recording with `etlink link --host ET \
            --device KINETO -o x.json`"
        }
        _ => return Ok(()),
    };
    let (from, to) = (from.describe(), to.describe());
    let what = format!(": cannot convert {from} to {to}: {why}");
    Err(Failure::about(path.display(), what).into())
}

fn refuse_options(to: GraphFormat, options: &ConvertOptions) -> Result<(), RunError> {
    let unused = |option, applies| Err(Failure::new(format!("{option} {applies}")).into());
    if options.choice != NodeChoice::default() && !to.is_picture() {
        return unused(
            "--range, --step and --depth",
            "select what is drawn: they apply only to dot and graphml",
        );
    }
    if options.algorithm.is_some() && to != GraphFormat::Goal {
        return unused(
            "--collectives",
            "applies only to GOAL, which has only messages",
        );
    }
    if options.attributes.is_some() && !matches!(to, GraphFormat::Chakra | GraphFormat::Jsonizer) {
        return unused("--attrs", "applies only to .et files and jsonizer's JSON");
    }
    Ok(())
}

/// A conversion in progress.
struct ConvertJob<'o> {
    input: GraphInput,
    options: &'o ConvertOptions,
    report: ConvertReport,
}

impl ConvertJob<'_> {
    /// Writes the ranks of a workload of SimAI into a folder, like a generated run.
    fn write_simai_ranks(&mut self) -> Result<(), RunError> {
        let (path, folder) = (self.input.path.clone(), &self.report.output);
        let mut text = String::new();
        let read = self.input.open()?.read_to_string(&mut text);
        read.with_path(FileAction::Read, &path)?;
        let read = read_simai(&text);
        let (set, stages) = read.map_err(|cause| RunError::unreadable(path.display(), cause))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let run = write_generated(&name, &set, folder, self.options.overwrite)?;
        self.report.diagnostics.extend(run.diagnostics);
        if stages > 1 {
            let (path, folder) = (path.display(), folder.display());
            self.report.diagnostics.push(diagnostic!(
                GraphLacks,
                "{path} and {folder} have one of {stages} pipeline stages, and no messages between them"
            ));
        }
        (self.report.nodes, self.report.ranks, self.report.bytes) =
            (run.nodes, run.ranks, run.bytes);
        Ok(())
    }

    /// Replaces merged JSON by the `.et` made of it, which is then converted.
    fn link_again(&mut self) -> Result<(), RunError> {
        let content = self.input.open()?;
        let relinked = merged::relink(&self.input.path, content)?;
        let mut losses = losses_of_damage(&relinked.tree);
        losses.extend(&relinked.losses);
        self.report.losses = self.allow(losses)?;
        self.input.replace(relinked.graph);
        Ok(())
    }

    /// Converts message by message, so that memory does not grow with the file.
    fn write_messages(&mut self) -> Result<(), RunError> {
        let target = self.target()?;
        let mut source = Some(self.open_messages()?);
        let mut nodes = 0;
        let (mut lost_in_json, mut not_chosen) = (Losses::default(), Losses::default());
        let mut read = None;
        let written = target.write(|mut out| {
            let mut write = |message: ChakraMessage| {
                nodes += u64::from(matches!(message, ChakraMessage::Node(_)));
                let message = match self.options.attributes {
                    Some(AttributeSet::Minimal) => to_minimal(message, &mut not_chosen),
                    Some(AttributeSet::Full) => {
                        refuse_minimal(&message)?;
                        message
                    }
                    None => message,
                };
                match self.report.to {
                    GraphFormat::Jsonizer => write_json(message, &mut out, &mut lost_in_json),
                    _ => write_et(&message, &mut out),
                }
            };
            let mut unwritten = None;
            let mut sink = |message: ChakraMessage| {
                write(message).map_err(|error| {
                    unwritten = Some(error);
                    io::ErrorKind::Other.into()
                })
            };
            let source = source.take().flatten();
            let result = hand_on_messages(&self.input.path, source, &mut sink);
            if let Some(error) = unwritten {
                return Err(error);
            }
            let result = result.and_then(|mut losses| {
                losses.extend(&lost_in_json);
                losses.extend(&not_chosen);
                self.require_nodes(nodes, &losses)?;
                self.allow(losses)
            });
            // an error leaves no file behind
            let failed = result.as_ref().err().map(|_| io::ErrorKind::InvalidData);
            read = Some(result);
            failed.map_or(Ok(()), |kind| Err(kind.into()))
        });
        if let Some(result) = read {
            self.report.losses.extend(&result?);
        }
        (self.report.nodes, self.report.bytes) = (nodes, written?.1);
        Ok(())
    }

    fn write_tables(&mut self) -> Result<(), RunError> {
        let graph = self.read_messages()?;
        self.require_nodes(graph.nodes.len() as u64, &self.report.losses)?;
        self.report.bytes = tables::write(&graph, &self.report.output, self.options.overwrite)?;
        self.report.nodes = graph.nodes.len() as u64;
        Ok(())
    }

    fn read_messages(&mut self) -> Result<ChakraMessages, RunError> {
        let mut graph = ChakraMessages::default();
        let source = self.open_messages()?;
        let losses = hand_on_messages(&self.input.path, source, &mut |message| {
            graph.push(message);
            Ok(())
        })?;
        self.report.losses.extend(&self.allow(losses)?);
        Ok(graph)
    }

    /// Opens a file of messages; returns `None` for tables.
    fn open_messages(&mut self) -> Result<Option<Box<dyn Read + Send>>, RunError> {
        let has_messages = self.report.from != GraphFormat::Parquet;
        has_messages.then(|| self.input.open()).transpose()
    }

    fn write_picture(&mut self) -> Result<(), RunError> {
        let target = self.target()?;
        let graph = self.read_graph(&self.input.path.clone())?;
        let mut losses = losses_of_damage(&graph);
        let picture = Picture::new(&graph, &self.options.choice)?;
        let text = match self.report.to {
            GraphFormat::GraphMl => to_graphml(&picture),
            _ => to_dot(&picture),
        };
        losses.extend(picture.losses());
        self.report.losses = self.allow(losses)?;
        self.report.bytes = target.write(|out| out.write_all(text.as_bytes()))?.1;
        self.report.nodes = picture.size().0 as u64;
        Ok(())
    }

    fn write_goal(&mut self, files: &[PathBuf]) -> Result<(), RunError> {
        let target = self.target()?;
        let mut graphs: BTreeMap<u32, ChakraGraph> = BTreeMap::new();
        let mut groups = GroupList::new();
        let mut damage = Losses::default();
        for file in files {
            let named = prefix_and_rank(file);
            if let Some((prefix, _)) = &named {
                groups = groups_beside(prefix)?.unwrap_or_default();
            }
            let rank = named.and_then(|(_, rank)| u32::try_from(rank).ok());
            let graph = self.read_graph(file)?;
            let lost = losses_of_damage(&graph);
            require_nodes(file, graph.len() as u64, &lost)?;
            damage.extend(&lost);
            graphs.insert(rank.unwrap_or(0), graph);
        }
        let run = GoalRun {
            ranks: graphs.iter().map(|(rank, graph)| (*rank, graph)).collect(),
            groups,
            algorithm: self.options.algorithm.unwrap_or_default(),
        };
        let mut result = None;
        let written = target.write(|mut out| {
            let mut losses = write_goal(&run, &mut out)?;
            losses.extend(&damage);
            let allowed = self.allow(losses);
            let failed = allowed.as_ref().err().map(|_| io::ErrorKind::InvalidData);
            result = Some(allowed);
            failed.map_or(Ok(()), |kind| Err(kind.into()))
        });
        if let Some(result) = result {
            self.report.losses = result?;
        }
        self.report.bytes = written?.1;
        self.report.nodes = graphs.values().map(ChakraGraph::len).sum::<usize>() as u64;
        self.report.ranks = graphs.len() as u64;
        Ok(())
    }

    fn target(&self) -> Result<Target, RunError> {
        // the format is irrelevant: this module encodes the content
        let format = Some(OutputFormat::EtPlus);
        Target::new(&self.report.output, format, self.options.overwrite)
    }

    fn read_graph(&mut self, path: &Path) -> Result<ChakraGraph, RunError> {
        let failed = |cause| RunError::unreadable(path.display(), cause);
        if self.report.from == GraphFormat::Parquet {
            let bytes = tables::read(path)?.to_et();
            return read::read(bytes.as_slice()).map_err(failed);
        }
        let source = if path == self.input.path {
            self.input.open()?
        } else {
            input::open_any(path)?
        };
        read::read(source).map_err(failed)
    }

    fn require_nodes(&self, nodes: u64, losses: &Losses) -> Result<(), RunError> {
        require_nodes(&self.input.path, nodes, losses)
    }

    /// Returns the losses; fails if `strict` forbids them.
    fn allow(&self, losses: Losses) -> Result<Losses, RunError> {
        let is_lossy = losses.iter().any(|(kind, _)| !kind.is_chosen());
        if self.options.strict && is_lossy {
            return Err(RunError::Lossy {
                losses: describe_losses(&losses),
            });
        }
        Ok(losses)
    }
}

/// Refuses a file without nodes, which would look like a successful conversion.
fn require_nodes(path: &Path, nodes: u64, losses: &Losses) -> Result<(), RunError> {
    match nodes {
        0 => {
            let damage = match describe_losses(losses) {
                none if none.is_empty() => none,
                losses => format!(" ({losses})"),
            };
            let what = format!(": the file has no complete node{damage}");
            Err(Failure::about(path.display(), what).into())
        }
        _ => Ok(()),
    }
}

/// Refuses to add attributes to a minimal file, which does not contain them.
fn refuse_minimal(message: &ChakraMessage) -> io::Result<()> {
    match message {
        ChakraMessage::Metadata(metadata) if is_minimal(metadata) => {
            let problem = "--attrs full adds nothing to a file written with --attrs minimal";
            let failure = Failure::new(problem).advise("link the recording again");
            Err(io::Error::other(failure))
        }
        _ => Ok(()),
    }
}

/// Describes losses in one line; empty if there are none.
fn describe_losses(losses: &Losses) -> String {
    let parts = losses
        .iter()
        .map(|(kind, count)| format!("{}: {count}", kind.describe()));
    parts.collect::<Vec<_>>().join("; ")
}

/// Passes on the messages of a file, or of tables if there is no `source`.
fn hand_on_messages(
    path: &Path,
    source: Option<Box<dyn Read + Send>>,
    sink: &mut dyn FnMut(ChakraMessage) -> io::Result<()>,
) -> Result<Losses, RunError> {
    let Some(source) = source else {
        let graph = tables::read(path)?;
        let metadata = std::iter::once(ChakraMessage::Metadata(graph.metadata));
        let nodes = graph.nodes.into_iter();
        let nodes = nodes.map(|node| ChakraMessage::Node(Box::new(node)));
        let passed = metadata.chain(nodes).try_for_each(sink);
        passed.map_err(|cause| RunError::unreadable(path.display(), cause))?;
        return Ok(Losses::default());
    };
    for_each_message(source, sink).map_err(|cause| RunError::unreadable(path.display(), cause))
}
