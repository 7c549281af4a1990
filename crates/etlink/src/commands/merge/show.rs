//! The report of a merge as text.

use crate::commands::print_failed;
use crate::notes;
use crate::serial_host::serial_host_note;
use crate::table::{FactRows, count, cut, enum_name, mb};
use etlink_chakra::astra::{
    NetworkBackend, file, network_note, roofline_times, rounded_speeds, uncovered,
};
use etlink_chakra::{Demotion, WriteSummary};
use etlink_link::ranks::JoinProblem;
use etlink_model::{Anomalies, Diagnostic, Severity, diagnostic};
use etlink_run::job::JobReport;
use etlink_run::merge::{MergeOptions, MergeReport, MergedRank, MergedRun};
use etlink_run::run::report_diagnostics;
use etlink_run::text;
use indexmap::IndexMap;
use std::path::{Path, PathBuf};

/// Maximum length of a kernel's name in a note.
const KERNEL_LETTERS: usize = 60;

/// Adds to each run the notes on its excluded ranks and on its files in `output`.
pub(super) fn add_notes(report: &mut MergeReport, output: &Path, options: &MergeOptions) {
    for run in &mut report.runs {
        let ranks = report.ranks.iter().filter(|rank| rank.run == run.run);
        let ranks: Vec<&MergedRank> = ranks.collect();
        let mut told: Vec<Diagnostic> = vec![];
        for excluded in &run.excluded {
            let label = &excluded.label;
            let (rank, message) = (text::rank(label), &excluded.message);
            let written = left_out_text(run, label, &ranks);
            // with the subject and the remedy of all commands
            told.push(Diagnostic {
                message: format!("{rank} is not joined with the others: {message}{written}"),
                ..excluded.diagnostic()
            });
        }
        let linked = ranks.iter().filter_map(|rank| {
            let linked = rank.linked.as_ref()?;
            Some((Some(rank.name()), linked))
        });
        told.extend(serial_host_note(linked));
        if let Some(simulator) = options.simulator {
            if simulator.roofline {
                told.extend(roofline_notes(&ranks));
            }
            if simulator.backend == NetworkBackend::Htsim {
                told.extend(htsim_note(run));
            }
            told.extend(simulator_note(output, run, &ranks));
        }
        run.diagnostics.extend(told);
    }
}

/// Prints notes on the runs: what is left to do stays on the screen.
pub(super) fn print_run_notes(joined: &[MergedRun]) {
    let of_runs = joined.iter();
    notes::print_of_runs(of_runs.map(|run| (&run.run[..], run.diagnostics.clone())));
}

/// Prints notes on ranks and failures, and returns the summary: a line per rank, and common figures.
pub(super) fn merge_summary(ranks: &[MergedRank], joined: &[MergedRun]) -> String {
    let mut rows = FactRows::default();
    let mut of_ranks: Vec<Diagnostic> = vec![];
    for rank in ranks {
        let name = rank.name();
        match (&rank.linked, &rank.error) {
            (Some(linked), _) => {
                rows.add(
                    &name,
                    format!("{} in", mb(linked.bytes.host + linked.bytes.device)),
                    describe_rank(linked) + not_joined_text(rank, joined),
                );
                let said = report_diagnostics(&linked.report).into_iter();
                of_ranks.extend(said.map(|one| rank.subject_of(one)));
            }
            (None, error) => {
                // no note: -q must not hide that a rank is missing
                print_failed(&name, error.as_deref().unwrap_or(""));
            }
        }
    }
    notes::print(&of_ranks);
    if notes::is_verbose() {
        print_infos(ranks);
    }
    let failed = ranks.iter().filter(|rank| rank.linked.is_none()).count();
    let refused = ranks
        .iter()
        .filter(|rank| rank.linked.as_ref().is_some_and(|linked| linked.refused))
        .count();
    let refusals = if refused > 0 {
        format!(", {refused} refused under --strict")
    } else {
        String::new()
    };
    let apart = ranks.iter().filter(|rank| is_apart(rank, joined));
    let not_joined = apart.count();
    let apart = match not_joined {
        0 => String::new(),
        some => format!(", {some} not joined"),
    };
    let common: String = joined
        .iter()
        .map(|joined| common_rows(joined, ranks))
        .collect();
    rows.to_string()
        + &common
        + &format!(
            "{} linked{refusals}{apart}, {failed} failed\n",
            ranks.len() - failed - refused - not_joined
        )
}

/// Describes the remaining steps before a simulator can run the files of a run in `output`.
fn simulator_note(output: &Path, run: &MergedRun, ranks: &[&MergedRank]) -> Option<Diagnostic> {
    let mut linked = ranks.iter().filter_map(|rank| rank.linked.as_ref());
    if linked.all(|it| it.output.is_none()) {
        return None;
    }
    // a run at the root has an empty folder name
    let folder: PathBuf = output.join(&run.run).components().collect();
    let neighbour = if run.is_single() {
        "; the run has one rank, but ASTRA-sim's network needs at least two, so rank 1 is idle"
    } else {
        ""
    };
    let assumed = diagnostic!(
        NetworkAssumed,
        "{} has {}{neighbour}",
        folder.join(file::NETWORK).display(),
        network_note(run.network.as_ref())
    );
    Some(assumed.advise(format!(
        "replace it with your topology, then run the command in {}",
        folder.join(file::README).display()
    )))
}

/// Describes the roofline's times for device work, and the share that the roofline does not cover.
fn roofline_notes(ranks: &[&MergedRank]) -> Vec<Diagnostic> {
    let mut all = WriteSummary::default();
    let written = ranks.iter().filter_map(|rank| rank.linked.as_ref());
    for part in written.filter_map(|linked| linked.written.as_ref()) {
        all.add(part);
    }
    let cover = &all.roofline;
    if cover.nodes == 0 {
        return vec![diagnostic!(
            SimulatedTimes,
            "no rank has device nodes, so the roofline has no effect"
        )];
    }
    let shorten = |name: &str| cut(name, KERNEL_LETTERS, 0);
    let times = roofline_times(cover, &all.roofline_kernels, shorten);
    let told = uncovered(cover).into_iter().chain([times]);
    told.map(|one| diagnostic!(SimulatedTimes, "{one}"))
        .collect()
}

/// Returns a note on a run whose network htsim rounds to other speeds.
fn htsim_note(run: &MergedRun) -> Option<Diagnostic> {
    let speeds = rounded_speeds(run.network.as_ref()?)?;
    Some(diagnostic!(
        NetworkAssumed,
        "htsim reads whole Gb/s, at least 1: {speeds}"
    ))
}

/// Prints harmless anomalies of the traces; otherwise only their count is shown.
fn print_infos(ranks: &[MergedRank]) {
    for rank in ranks {
        let Some(linked) = &rank.linked else { continue };
        let infos = linked.report.anomalies.diagnostics(Severity::Info);
        let infos: Vec<Diagnostic> = infos.map(|info| rank.subject_of(info)).collect();
        notes::print(&infos);
    }
}

/// Counts the anomalies of a severity.
fn count_anomalies(anomalies: &Anomalies, severity: Severity) -> u64 {
    let of_severity = anomalies
        .iter()
        .filter(|(kind, _)| kind.severity() == severity);
    of_severity.map(|(_, anomaly)| anomaly.count).sum()
}

fn describe_rank(linked: &JobReport) -> String {
    let report = &linked.report;
    let matched: u64 = report.matched.values().sum();
    let seconds = linked.seconds.read + linked.seconds.link + linked.seconds.write;
    let ops = if linked.host.is_some() {
        format!("{matched} of {} ops matched", report.cpu_ops)
    } else {
        "device trace only".into()
    };
    let damage = count_anomalies(&report.anomalies, Severity::Damage);
    let infos = count_anomalies(&report.anomalies, Severity::Info);
    let refused = if linked.refused {
        ", refused under --strict"
    } else {
        ""
    };
    format!(
        "{ops}, {} of {} device rows launched, {damage} damage, {infos} info, {seconds:.3} \
        s{refused}",
        report.launched, report.device_rows
    )
}

/// Returns true if a rank was left out of its run; `joined` has the runs that are known here.
fn is_apart(rank: &MergedRank, joined: &[MergedRun]) -> bool {
    let run = joined.iter().find(|run| run.run == rank.run);
    // a single rank has no others to be joined with
    let is_named = |run: &MergedRun| {
        let mut excluded = run.excluded.iter();
        run.excluded.len() > 1 && excluded.any(|one| one.label == rank.label)
    };
    rank.not_joined && run.is_none_or(|run| run.is_short() || is_named(run))
}

/// Returns a suffix for the figures of a rank that is not joined with the others.
fn not_joined_text(rank: &MergedRank, joined: &[MergedRun]) -> &'static str {
    match (is_apart(rank, joined), &rank.linked) {
        (true, Some(linked)) if linked.output.is_none() => ", not joined and not written",
        (true, _) => ", not joined",
        (false, _) => "",
    }
}

/// Returns the end of a sentence on the output of a rank that is not joined; `ranks` has the
/// results of the ranks in this shard.
fn left_out_text(joined: &MergedRun, label: &str, ranks: &[&MergedRank]) -> String {
    if joined.is_idle(label) {
        return "; it is not written, and an idle rank takes its place in the simulation"
            .to_owned();
    }
    // another shard may write it
    let Some(rank) = ranks.iter().find(|rank| rank.label == label) else {
        return String::new();
    };
    let linked = rank.linked.as_ref();
    match linked.and_then(|linked| linked.output.as_ref()) {
        Some(output) => {
            let name = Path::new(output).file_name().unwrap_or_default();
            format!("; it is written separately: {}", name.to_string_lossy())
        }
        // the reason is printed below
        None if rank.error.is_some() => String::new(),
        None => "; it is not written".to_owned(),
    }
}

/// Formats the common figures of a run's ranks; empty for a single rank without known peers.
/// `ranks` has the results of the ranks in this shard.
fn common_rows(joined: &MergedRun, ranks: &[MergedRank]) -> String {
    if joined.groups.is_empty()
        && joined.problems.is_empty()
        && joined.messages + joined.unmatched == 0
        && joined.ranks.len() < 2
        && joined.timeline.is_none()
    {
        return String::new();
    }
    let MergedRun {
        collectives,
        messages,
        unmatched,
        alone,
        ..
    } = joined;
    let mut rows = FactRows::default();
    let alone = if *alone == 0 {
        String::new()
    } else {
        format!(", {alone} with ranks whose traces are missing")
    };
    let [groups, collectives, messages] = [
        (joined.groups.len() as u64, "group"),
        (*collectives, "collective"),
        (*messages, "message"),
    ]
    .map(|(number, what)| count(number, what));
    let said = format!("{groups}; {collectives} and {messages} matched, {unmatched} not{alone}");
    rows.add(
        &format!("joined {}", joined.run),
        count(joined.ranks.len() as u64, "rank"),
        said,
    );
    for (reason, count) in count_demoted(joined, ranks) {
        rows.add(
            "  as compute",
            count,
            format!("communication, {}", enum_name(reason)),
        );
    }
    if let Some(timeline) = &joined.timeline {
        let gone_on = if timeline.gone_on > 0 {
            format!(
                ", {} not drawn because the rank had continued",
                timeline.gone_on
            )
        } else {
            String::new()
        };
        let said = format!(
            "{}, {} slices, {} arrows, {} between ranks{gone_on}",
            timeline.output, timeline.slices, timeline.arrows, timeline.between_ranks
        );
        rows.add("  timeline", mb(timeline.bytes), said);
    }
    joined
        .problems
        .iter()
        .for_each(|problem| rows.add("  problem", problem.count, describe_problem(problem)));
    rows.to_string()
}

fn count_demoted(joined: &MergedRun, ranks: &[MergedRank]) -> IndexMap<Demotion, u64> {
    let mut all: IndexMap<Demotion, u64> = IndexMap::new();
    let written = ranks
        .iter()
        .filter(|rank| rank.run == joined.run)
        .filter_map(|rank| rank.linked.as_ref()?.written.as_ref());
    written
        .flat_map(|written| &written.demoted)
        .for_each(|(reason, count)| *all.entry(*reason).or_default() += count);
    // ranks meet the reasons in any order, which the report must not show
    all.sort_unstable_keys();
    all
}

fn describe_problem(problem: &JoinProblem) -> String {
    let first = problem.examples.first().map_or(String::new(), |first| {
        format!(
            " (first: {}, node {} of rank {})",
            first.what, first.node.0, first.rank
        )
    });
    format!("{}{first}", problem.kind.describe())
}
