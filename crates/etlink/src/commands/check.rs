//! `etlink check`: what a simulator or another reader would choke on, in each file and between those
//! of several ranks.

use super::{print, print_json};
use crate::Outcome;
use crate::args::Check;
use crate::table::cut;
use anyhow::{Context, Result, bail};
use etlink_chakra::check::{self, RankNodes, check_ranks};
use etlink_chakra::convert::GroupList;
use etlink_chakra::finding::{Finding, FindingExample, Severity};
use etlink_chakra::read::{FileKind, GraphSummary};
use etlink_chakra::{astra, read};
use etlink_run::Progress;
use etlink_run::input;
use etlink_run::output::is_work_folder;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Kernel names run to hundreds of characters; JSON has them whole.
const NAME_LETTERS: usize = 100;

/// What was found in one file, or between the files of all ranks.
#[derive(Serialize)]
struct Checked {
    file: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<GraphSummary>,
    /// The ranks that were compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ranks: Vec<i64>,
    findings: Vec<Finding>,
    #[serde(skip)]
    nodes: Option<RankNodes>,
}

pub fn run(args: Check) -> Result<Outcome> {
    let mut files = vec![];
    for path in &args.paths {
        if path.is_dir() {
            let before = files.len();
            print_notes(&collect(path, &mut files)?);
            if files.len() == before {
                bail!(
                    "{}: no Chakra traces or merged traces in it",
                    path.display()
                );
            }
        } else {
            files.push(path.clone());
        }
    }
    let mut checked: Vec<Checked> = files
        .par_iter()
        .with_max_len(1)
        .map(|file| one(file))
        .collect::<Result<_>>()?;
    let sets = together(&mut checked)?;
    checked.extend(sets);
    if args.json {
        print_json(&checked)?;
    } else {
        print(&checked.iter().map(describe).collect::<String>())?;
    }
    Ok(if checked.iter().all(|file| file.ok) {
        Outcome::Done
    } else {
        Outcome::Found
    })
}

/// Chakra traces and merged traces of a folder and its subfolders, sorted. Other JSON is passed by;
/// a file that is named `.et` is checked whatever is in it. Returns what could not be looked at.
pub(super) fn collect(root: &Path, files: &mut Vec<PathBuf>) -> Result<Vec<String>> {
    let mut folders = vec![root.to_owned()];
    let mut notes = vec![];
    let start = files.len();
    while let Some(folder) = folders.pop() {
        let failed = || format!("cannot read folder {}", folder.display());
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if folder != root => {
                notes.push(format!("{}: {error}: what is in it is left out", failed()));
                continue;
            }
            Err(error) => return Err(error).with_context(failed),
        };
        for entry in entries {
            let entry = entry.with_context(failed)?;
            let name = entry.file_name().to_string_lossy().to_lowercase();
            let plain = unpacked_name(&name);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !is_work_folder(&entry.path())? {
                    folders.push(entry.path());
                }
            } else if !entry.path().is_file() {
                // a pipe without a writer would be waited for forever
            } else if plain.ends_with(".et") || plain.ends_with(".json") && is_linked(&entry.path())
            {
                files.push(entry.path());
            }
        }
    }
    files[start..].sort();
    Ok(notes)
}

/// Results have standard output for themselves.
pub(super) fn print_notes(notes: &[String]) {
    for note in notes {
        eprintln!("note: {note}");
    }
}

fn is_linked(path: &Path) -> bool {
    let kind = input::open(path, 1, &Progress::hidden()).map(|input| input.kind);
    kind.is_ok_and(|kind| matches!(kind, FileKind::EtPlus | FileKind::ChakraJson))
}

fn one(path: &Path) -> Result<Checked> {
    let source = input::open_any(path)?;
    let graph = read::read(source).with_context(|| path.display().to_string())?;
    let findings = check::check(&graph);
    let ok = findings
        .iter()
        .all(|finding| finding.severity != Severity::Error);
    let is_et = matches!(graph.format, FileKind::ChakraEt | FileKind::ChakraJson);
    let nodes = prefix_and_rank(path)
        .filter(|_| is_et)
        .map(|(_, rank)| RankNodes::from_graph(rank, &graph));
    Ok(Checked {
        file: path.display().to_string(),
        ok,
        summary: Some(graph.summary()),
        ranks: vec![],
        findings,
        nodes,
    })
}

/// A file's name without the ending of a compression that [`input::open`] unpacks.
fn unpacked_name(name: &str) -> &str {
    let packed = [".gz", ".zst"];
    let stem = packed.iter().find_map(|ending| name.strip_suffix(ending));
    stem.unwrap_or(name)
}

/// `<prefix>.<rank>.et`, packed or not.
pub(super) fn prefix_and_rank(path: &Path) -> Option<(PathBuf, i64)> {
    let name = path.file_name()?.to_str()?;
    let stem = unpacked_name(name).strip_suffix(".et")?;
    let (prefix, rank) = stem.rsplit_once('.')?;
    Some((
        path.with_file_name(prefix),
        rank.parse().ok().filter(|rank| *rank >= 0)?,
    ))
}

/// Compares the ranks of each prefix that has several, with the `comm_group.json` beside them.
fn together(checked: &mut [Checked]) -> Result<Vec<Checked>> {
    let mut sets: BTreeMap<PathBuf, Vec<RankNodes>> = BTreeMap::new();
    for one in checked {
        if let (Some((prefix, _)), Some(nodes)) =
            (prefix_and_rank(Path::new(&one.file)), one.nodes.take())
        {
            sets.entry(prefix).or_default().push(nodes);
        }
    }
    let sets = sets.into_iter().filter(|(_, set)| set.len() > 1);
    sets.map(|(prefix, mut set)| {
        set.sort_by_key(RankNodes::rank);
        set.dedup_by_key(|nodes| nodes.rank());
        let groups = groups_beside(&prefix)?;
        let findings = check_ranks(&set, groups.as_ref());
        let ok = findings
            .iter()
            .all(|finding| finding.severity != Severity::Error);
        let ranks = set.iter().map(RankNodes::rank).collect();
        Ok(Checked {
            file: format!("{}.*.et", prefix.display()),
            ok,
            summary: None,
            ranks,
            findings,
            nodes: None,
        })
    })
    .collect()
}

/// The groups of the run that a written graph is of, if they are listed beside it.
pub(super) fn groups_of(path: &Path) -> Result<GroupList> {
    Ok(prefix_and_rank(path)
        .map_or(Ok(None), |(prefix, _)| groups_beside(&prefix))?
        .unwrap_or_default())
}

pub(super) fn groups_beside(prefix: &Path) -> Result<Option<GroupList>> {
    let path = prefix.with_file_name(astra::file::GROUPS);
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let groups = serde_json::from_slice(&text).with_context(|| {
        format!(
            "{}: no list of ranks per group, such as {{\"1\": [0, 1]}}",
            path.display()
        )
    })?;
    Ok(Some(groups))
}

fn describe(checked: &Checked) -> String {
    let verdict = match (
        checked.ok,
        checked.summary.as_ref().map(|summary| summary.format),
    ) {
        (true, Some(FileKind::HostTrace)) => "ok, but a host trace that is not linked",
        (true, _) => "ok",
        (false, _) => "faults",
    };
    let size = match &checked.summary {
        Some(summary) => format!(
            "{} nodes, {} deps",
            summary.nodes,
            summary.ctrl_deps + summary.data_deps
        ),
        None => format!("{} ranks together", checked.ranks.len()),
    };
    let mut out = format!("{}: {verdict}, {size}\n", checked.file);
    for finding in &checked.findings {
        let grade = if finding.severity == Severity::Error {
            "error"
        } else {
            "warning"
        };
        let _ = writeln!(
            out,
            "  {grade}: {} {}",
            finding.count,
            finding.kind.describe()
        );
        for example in &finding.examples {
            let _ = writeln!(out, "    {}", place(example));
        }
    }
    out
}

fn place(example: &FindingExample) -> String {
    let id = example.id.map(|id| format!("node {id}"));
    let name = Some(format!("{:?}", cut(&example.name, NAME_LETTERS, 0)))
        .filter(|_| !example.name.is_empty());
    let offset = example.offset.map(|offset| format!("byte {offset}"));
    let parts = [
        id,
        name,
        offset,
        Some(cut(&example.detail, NAME_LETTERS, 0)).filter(|detail| !detail.is_empty()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
