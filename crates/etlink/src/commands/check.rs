//! `etlink check`: what a simulator or another reader would choke on.

use super::{print, print_json};
use crate::args::Check;
use crate::progress::Progress;
use crate::{Outcome, input};
use anyhow::{Context, Result, bail};
use etlink_chakra::finding::{Example, Finding, Severity};
use etlink_chakra::read::{FileKind, GraphSummary};
use etlink_chakra::{check, read};
use rayon::prelude::*;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What was found in one file.
#[derive(Serialize)]
struct Checked {
    file: String,
    ok: bool,
    summary: GraphSummary,
    findings: Vec<Finding>,
}

pub fn run(args: Check) -> Result<Outcome> {
    let mut files = vec![];
    for path in &args.paths {
        if path.is_dir() {
            let before = files.len();
            collect(path, &mut files)?;
            if files.len() == before {
                bail!("{}: no Chakra traces or merged traces in it", path.display());
            }
        } else {
            files.push(path.clone());
        }
    }
    let checked: Vec<Checked> = files.par_iter().with_max_len(1).map(|file| one(file)).collect::<Result<_>>()?;
    if args.json {
        print_json(&checked)?;
    } else {
        print(&checked.iter().map(describe).collect::<String>())?;
    }
    Ok(if checked.iter().all(|file| file.ok) { Outcome::Done } else { Outcome::Found })
}

/// Chakra traces and merged traces of a folder and its subfolders, sorted. Other JSON is passed by;
/// a file that is named `.et` is checked whatever is in it.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let mut folders = vec![folder.to_owned()];
    let start = files.len();
    while let Some(folder) = folders.pop() {
        let failed = || format!("cannot read folder {}", folder.display());
        for entry in std::fs::read_dir(&folder).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            let name = entry.file_name().to_string_lossy().to_lowercase();
            let plain = name.strip_suffix(".gz").unwrap_or(&name);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else if plain.ends_with(".et") || plain.ends_with(".json") && is_linked(&entry.path()) {
                files.push(entry.path());
            }
        }
    }
    files[start..].sort();
    Ok(())
}

fn is_linked(path: &Path) -> bool {
    let kind = input::open(path, 1, &Progress::hidden()).map(|input| input.kind);
    kind.is_ok_and(|kind| matches!(kind, FileKind::EtPlus | FileKind::ChakraJson))
}

fn one(path: &Path) -> Result<Checked> {
    let source = input::open_any(path)?;
    let graph = read::read(source).with_context(|| path.display().to_string())?;
    let findings = check::check(&graph);
    let ok = findings.iter().all(|finding| finding.severity != Severity::Error);
    Ok(Checked { file: path.display().to_string(), ok, summary: graph.summary(), findings })
}

fn describe(checked: &Checked) -> String {
    let summary = &checked.summary;
    let verdict = match (checked.ok, summary.format) {
        (true, FileKind::HostTrace) => "ok, but a host trace that is not linked",
        (true, _) => "ok",
        (false, _) => "faults",
    };
    let mut out = format!("{}: {verdict}, {} nodes, {} deps\n", checked.file, summary.nodes, summary.ctrl_deps + summary.data_deps);
    for finding in &checked.findings {
        let grade = if finding.severity == Severity::Error { "error" } else { "warning" };
        let _ = writeln!(out, "  {grade}: {} {}", finding.count, finding.kind.describe());
        for example in &finding.examples {
            let _ = writeln!(out, "    {}", place(example));
        }
    }
    out
}

fn place(example: &Example) -> String {
    let id = example.id.map(|id| format!("node {id}"));
    let name = Some(format!("{:?}", shortened(&example.name))).filter(|_| !example.name.is_empty());
    let offset = example.offset.map(|offset| format!("byte {offset}"));
    let parts = [id, name, offset, Some(shortened(&example.detail)).filter(|detail| !detail.is_empty())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Kernel names run to hundreds of characters; JSON has them whole.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
