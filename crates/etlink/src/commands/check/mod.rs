//! `etlink check`: reports problems for simulators and other readers, in each file and between the
//! files of several ranks.

mod sarif;

use super::print_report;
use crate::Outcome;
use crate::args::{CheckArgs, FindingsFormat, RankArgs};
use crate::envelope::{FileReports, JsonReport, print_json, print_json_report};
use crate::notes;
use crate::table::{count, cut};
use anyhow::{Context, Result, bail};
use etlink_chakra::check::{self, CheckRule, RULES, RankNodes, check_ranks};
use etlink_chakra::finding::{EXAMPLES, Finding, FindingExample, FindingKind, Severity};
use etlink_chakra::read;
use etlink_chakra::read::{FileKind, GraphSummary};
use etlink_model::{counted_text, diagnostic};
use etlink_run::discover::{unreadable_file, unreadable_paths};
use etlink_run::graphs::{groups_beside, prefix_and_rank, tracker_note, written_files};
use etlink_run::input;
use etlink_run::is_folder;
use etlink_run::memory::{MemoryBudget, RankMemory};
use etlink_run::text::error_chain;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Maximum length of a name in a message: kernel names can have hundreds of characters. JSON has
/// them in full.
const NAME_LETTERS: usize = 100;

/// Findings in one file, or between the files of all ranks.
#[derive(Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Checked {
    file: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<GraphSummary>,
    /// Numbers of the ranks that were compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ranks: Vec<i64>,
    findings: Vec<Finding>,
    #[serde(skip)]
    nodes: Option<RankNodes>,
}

impl JsonReport for FileReports<Checked> {
    const SCHEMA: &'static str = "etlink.check";
}

impl Checked {
    /// Returns true if the exit code counts the file as good.
    fn is_fine(&self, strict: bool) -> bool {
        self.ok && (!strict || self.findings.is_empty())
    }

    /// Drops findings of other rules. An unreadable file stays, since it may break any rule.
    fn keep_rules(&mut self, rules: &[&str]) {
        self.findings.retain(|finding| {
            finding.kind == FindingKind::Unreadable || rules.contains(&finding.rule)
        });
        self.ok = has_no_error(&self.findings);
    }
}

/// Returns true if no finding is an error. Warnings affect only some readers, and fail only with
/// --strict.
fn has_no_error(findings: &[Finding]) -> bool {
    findings
        .iter()
        .all(|finding| finding.severity != Severity::Error)
}

fn find_rule(id: &str) -> Result<&'static CheckRule> {
    let rule = CheckRule::find(id);
    rule.with_context(|| {
        format!("{id:?} is not a rule; `etlink check --explain all` lists the rules")
    })
}

/// Explains the purpose of a rule, and the behavior of readers.
fn explain(id: &str) -> Result<String> {
    let rules = match id {
        "all" => RULES.iter().collect(),
        id => vec![find_rule(id)?],
    };
    let mut out = String::new();
    for rule in rules {
        let _ = writeln!(out, "{} ({}): {}", rule.id, rule.level, rule.title);
        let _ = writeln!(out, "  {}", rule.reason);
        let _ = writeln!(out, "  feeder, ASTRA-sim: {}", rule.feeder);
        let _ = writeln!(out, "  chakra_converter, et_replay: {}", rule.others);
    }
    Ok(out)
}

pub fn run(args: CheckArgs) -> Result<Outcome> {
    if let Some(id) = &args.explain {
        print_report(&explain(id)?)?;
        return Ok(Outcome::Done);
    }
    let rules = args.rule.iter().map(|id| find_rule(id));
    let rules: Vec<&str> = rules.map(|rule| Ok(rule?.id)).collect::<Result<_>>()?;
    let mut files = vec![];
    // files named individually: the user need not have the other ranks
    let mut named = BTreeSet::new();
    for path in &args.paths {
        if is_folder(path) {
            for error in unreadable_paths(path)? {
                notes::print([&unreadable_file(&error)]);
            }
            let found = written_files(path)?;
            // a folder without files would pass, and a script would continue with nothing
            if found.is_empty() {
                bail!(
                    "{}: the folder has no Chakra traces or merged traces",
                    path.display()
                );
            }
            files.extend(found);
        } else {
            named.insert(path.display().to_string());
            files.push(path.clone());
        }
    }
    let all_files = files.len();
    files.retain(|file| is_chosen(&args.choice, file));
    if files.is_empty() {
        bail!("no files for the ranks requested with --ranks");
    }
    let left_out = all_files - files.len();
    let threads = args.resources.start()?;
    let budget = MemoryBudget::new(args.resources.memory, threads);
    let needs: Vec<RankMemory> = files
        .iter()
        // files come one after another, and malloc keeps a part of the memory that each freed
        .map(|file| RankMemory::of(None, Some(file)).in_turn())
        .collect();
    budget.check(&needs)?;
    let results = budget.map(&needs, |at| check_file(&files[at]));
    let mut checked = checked_files(&files, results)?;
    if left_out == 0 {
        let sets = compare_ranks(&mut checked, &named);
        checked.extend(sets);
    } else {
        // a rank whose file was left out would seem to have none
        notes::print([&diagnostic!(
            CheckedAlone,
            "--ranks leaves out {left_out} of {all_files} files: each file is checked alone, without \
             comparing ranks"
        )]);
    }
    if !rules.is_empty() {
        checked.iter_mut().for_each(|file| file.keep_rules(&rules));
    }
    let is_fine = checked.iter().all(|file| file.is_fine(args.strict));
    match args.format {
        FindingsFormat::Sarif => print_json(&sarif::sarif_log(&checked))?,
        FindingsFormat::Text if !args.print.json => {
            print_report(&checked.iter().map(describe_file).collect::<String>())?
        }
        FindingsFormat::Json | FindingsFormat::Text => {
            print_json_report(&FileReports { files: checked })?
        }
    }
    Ok(if is_fine {
        Outcome::Done
    } else {
        Outcome::Found
    })
}

/// Returns true if the file name belongs to a selected rank.
fn is_chosen(choice: &RankArgs, file: &Path) -> bool {
    let Some(ranks) = &choice.ranks else {
        return true;
    };
    // a name without a rank does not belong to any selected rank
    let rank = prefix_and_rank(file).and_then(|(_, rank)| u32::try_from(rank).ok());
    rank.is_some_and(|rank| ranks.has(rank))
}

/// Returns the findings of each file. An unreadable file counts as an error next to the results of
/// the others.
///
/// # Errors
/// The first error, if no file can be read.
fn checked_files(files: &[PathBuf], results: Vec<Result<Checked>>) -> Result<Vec<Checked>> {
    let count = results.len();
    let mut checked = vec![];
    let mut first_error = None;
    let mut errors = 0;
    for (path, result) in files.iter().zip(results) {
        checked.push(match result {
            Ok(one) => one,
            Err(error) => {
                errors += 1;
                let why = format!("{error:#}");
                first_error.get_or_insert(error);
                Checked {
                    file: path.display().to_string(),
                    findings: vec![Finding::unreadable(why)],
                    ..Checked::default()
                }
            }
        });
    }
    match first_error {
        Some(error) if count == 1 => Err(error),
        Some(error) if errors == count => {
            Err(error.context(format!("none of the {count} files can be read")))
        }
        _ => Ok(checked),
    }
}

fn check_file(path: &Path) -> Result<Checked> {
    let source = input::open_any(path)?;
    let graph = read::read(source).with_context(|| path.display().to_string())?;
    let findings = check::check(&graph);
    let ok = has_no_error(&findings);
    // ranks are run to the end together, and a tree of ops (ET+) cannot be run
    let is_et = matches!(graph.format, FileKind::ChakraEt | FileKind::ChakraJson);
    let nodes = match prefix_and_rank(path) {
        Some((_, rank)) if is_et => Some(RankNodes::from_graph(rank, &graph)),
        _ => None,
    };
    Ok(Checked {
        file: path.display().to_string(),
        ok,
        summary: Some(graph.summary()),
        findings,
        nodes,
        ..Checked::default()
    })
}

/// Compares the ranks of each prefix, using the `comm_group.json` next to them. For a single rank
/// in a folder, only looks for other ranks that it needs; if its file is in `named`, prints a note
/// instead.
fn compare_ranks(checked: &mut [Checked], named: &BTreeSet<String>) -> Vec<Checked> {
    let mut sets: BTreeMap<PathBuf, Vec<(String, RankNodes)>> = BTreeMap::new();
    for one in checked {
        if let (Some((prefix, _)), Some(nodes)) =
            (prefix_and_rank(Path::new(&one.file)), one.nodes.take())
        {
            let set = sets.entry(prefix).or_default();
            set.push((one.file.clone(), nodes));
        }
    }
    let mut compared = vec![];
    for (prefix, set) in sets {
        if let [(file, nodes)] = &set[..]
            && named.contains(file)
        {
            if nodes.communicates() {
                let alone = diagnostic!(
                    CheckedAlone,
                    "{file} communicates with other ranks but is checked alone"
                );
                notes::print([&alone.advise("give its folder to compare the ranks")]);
            }
            continue;
        }
        let ranks = set.into_iter().map(|(_, nodes)| nodes).collect();
        let checked = compare_set(&prefix, ranks);
        // a single rank cannot disagree with others
        if checked.ranks.len() > 1 || !checked.findings.is_empty() {
            compared.push(checked);
        }
    }
    compared
}

/// Compares the ranks of a prefix. For a single rank, only looks for other ranks that it needs.
fn compare_set(prefix: &Path, mut set: Vec<RankNodes>) -> Checked {
    // files are sorted by name, which puts rank 10 before rank 2
    set.sort_by_key(RankNodes::rank);
    // a rank with both a plain and a compressed file is one rank
    set.dedup_by_key(|nodes| nodes.rank());
    let (groups, unreadable) = match groups_beside(prefix) {
        Ok(groups) => (groups, None),
        Err(error) => (None, Some(Finding::unreadable(error_chain(&error)))),
    };
    notes::print(&tracker_note(prefix));
    let mut findings: Vec<Finding> = unreadable.into_iter().collect();
    let is_unreadable = !findings.is_empty();
    findings.extend(check_ranks(&set, groups.as_ref()));
    if is_unreadable {
        // the groups in the list are unknown
        findings.retain(|finding| finding.kind != FindingKind::GroupNotListed);
    }
    if set.len() == 1 {
        let wanted = [FindingKind::RankMissing, FindingKind::GroupNotListed];
        findings.retain(|finding| wanted.contains(&finding.kind));
    }
    let ok = has_no_error(&findings);
    Checked {
        file: format!("{}.*.et", prefix.display()),
        ok,
        ranks: set.iter().map(RankNodes::rank).collect(),
        findings,
        ..Checked::default()
    }
}

fn describe_file(checked: &Checked) -> String {
    let verdict = match (
        checked.ok,
        checked.summary.as_ref().map(|summary| summary.format),
    ) {
        // nothing in the file is wrong, but simulators do not accept it
        (true, Some(FileKind::HostTrace)) => "ok, but a host trace that is not linked",
        (true, _) => "ok",
        (false, _) => "faults",
    };
    let size = match &checked.summary {
        Some(summary) => format!(
            "{}, {}",
            count(summary.nodes, "node"),
            count(summary.ctrl_deps + summary.data_deps, "dep")
        ),
        None if checked.ranks.is_empty() => "not read".to_owned(),
        None if checked.ranks.len() == 1 => "1 rank alone".to_owned(),
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
            "  {grade} {}: {}",
            finding.rule,
            counted_text(finding.count, finding.kind.describe())
        );
        for example in finding.examples.iter().take(EXAMPLES) {
            let place = match finding.kind {
                // in full: the reason follows a path that may be long
                FindingKind::Unreadable => example.detail.clone(),
                _ => describe_example(example),
            };
            let _ = writeln!(out, "    {place}");
        }
        let more = finding.examples.len().saturating_sub(EXAMPLES);
        if more > 0 {
            let _ = writeln!(out, "    {more} more, see --json");
        }
    }
    out
}

fn describe_example(example: &FindingExample) -> String {
    let id = example.id.map(|id| format!("node {id}"));
    let name = if !example.name.is_empty() {
        Some(format!("{:?}", cut(&example.name, NAME_LETTERS, 0)))
    } else {
        None
    };
    let offset = example.offset.map(|offset| format!("byte {offset}"));
    let parts = [
        id,
        name,
        offset,
        Some(cut(&example.detail, NAME_LETTERS, 0)).filter(|detail| !detail.is_empty()),
    ];
    let place = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let nodes: Vec<String> = example.nodes.iter().map(u64::to_string).collect();
    if nodes.is_empty() {
        place
    } else {
        format!("{place}: {}", cut(&nodes.join(", "), NAME_LETTERS, 0))
    }
}
