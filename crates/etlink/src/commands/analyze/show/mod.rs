//! The analyses as text: sentences, then tables.

pub(super) mod compat;
mod gaps;
mod peaks;
mod rows;
mod times;

use super::Analyzed;
use crate::args::AnalyzeArgs;
use crate::table::{self, Column, Grid, Limit, count, known, percent, percent_of, scaled, time};
use etlink_analysis::{RankAnalysis, Utilization, UtilizationWindow};
use etlink_link::limits::LOST_PART;
use etlink_link::ranks::{StragglerStats, worst_rank};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A table and the title above it.
type Shown = (String, Grid);

pub(super) fn run_text(one: &Analyzed, args: &AnalyzeArgs) -> String {
    let mut out = String::new();
    if !one.told.name.is_empty() {
        let _ = writeln!(
            out,
            "{}: {}",
            one.told.name,
            count(one.told.ranks.len() as u64, "rank")
        );
    }
    if one.told.ranks.is_empty() {
        return out + "nothing to analyze: all traces are left out\n";
    }
    out += &one.told.row_damage_lines();
    if args.table.is_none() {
        out += &one.told.recording_line();
    }
    // with the table, they are its title
    if args.table.is_none() && !args.all {
        out += &step_sentence(one);
    }
    out += &busy_sentence(one);
    out += &gaps::idle_sentence(one);
    out += &finding_lines(one);
    if let Some(late) = worst_rank(&one.stragglers, StragglerStats::waits_for_it_ns) {
        let among = if one.told.absent.is_empty() && args.choice.ranks.is_none() {
            ""
        } else {
            "among these ranks, "
        };
        let began_late = if late.began_late_ns > 0 {
            format!(" and {} because it began later", time(late.began_late_ns))
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "{among}rank {} delays the others most: they wait {} for its work between \
             collectives{began_late}, summed over ranks; it is last at {} of {}",
            late.rank,
            time(late.waits_for_work_ns()),
            late.last,
            count(late.collectives, "collective"),
        );
    }
    out += &one.told.cut_line();
    let limit = Limit::rows(args.rows.rows);
    let mut is_left_out = false;
    for (name, printed, table) in TABLES {
        if !printed.is_wanted(name, one, args) {
            let is_told = args.table.is_none() && *printed != Printed::IfNamed;
            is_left_out = is_left_out || is_told && !table(one, limit).1.is_empty();
            continue;
        }
        let (title, grid) = table(one, limit);
        if !grid.is_empty() {
            out += &grid.titled(&title);
        // requested by name: no output at all would look like a failure
        } else if args.table.is_some() {
            let _ = writeln!(out, "{title}\n  empty");
        }
    }
    if is_left_out {
        out += "--all prints all tables, --table NAME one of them\n";
    }
    out
}

/// Number of findings above the tables; `etlink findings` prints all.
const FINDINGS: usize = 3;

/// Lists the run's largest possible gains; empty if nothing stands out.
fn finding_lines(one: &Analyzed) -> String {
    let findings = one.findings.as_ref().map(|found| &found.findings[..]);
    let findings = findings.unwrap_or_default();
    let mut out = String::new();
    for (number, finding) in (1..=FINDINGS).zip(findings) {
        if number == 1 {
            let all = findings.len();
            out += &if all > FINDINGS {
                format!(
                    "largest possible gains ({FINDINGS} of {all}; etlink findings lists all):\n"
                )
            } else {
                "largest possible gains:\n".to_owned()
            };
        }
        let text = finding.text().replace('\n', "\n  ");
        let _ = writeln!(out, "  {number}. {text}");
    }
    let together = one.findings.as_ref();
    if let Some(together) = together.and_then(|found| found.together.as_ref()) {
        // This sentence covers all findings, but only the first ones are listed here.
        let _ = writeln!(out, "  {}", together.sentence);
    }
    let communication = one
        .findings
        .as_ref()
        .and_then(|found| found.communication.as_ref());
    if let Some(communication) = communication {
        let _ = writeln!(out, "{}", communication.sentence);
    }
    out
}

/// When a table is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Printed {
    /// Always.
    Always,
    /// Always for a single rank, with `--all` for several.
    OfOneRank,
    /// Always, of a program without device work.
    WithoutDevice,
    /// With `--all`.
    WithAll,
    /// With `--table` alone: long tables.
    IfNamed,
}

impl Printed {
    /// Returns true if the arguments ask for a table of this name.
    fn is_wanted(self, name: &str, one: &Analyzed, args: &AnalyzeArgs) -> bool {
        if let Some(named) = &args.table {
            return named == name;
        }
        match self {
            Printed::Always => true,
            Printed::OfOneRank => args.all || one.told.ranks.len() == 1,
            Printed::WithoutDevice => args.all || one.total.kernels.is_empty(),
            Printed::WithAll => args.all,
            Printed::IfNamed => false,
        }
    }
}

type Show = fn(&Analyzed, Limit) -> Shown;
const TABLES: &[(&str, Printed, Show)] = &[
    ("utilization", Printed::OfOneRank, times::utilization_table),
    ("breakdown", Printed::WithAll, times::breakdown_table),
    ("steps", Printed::WithAll, times::step_table),
    ("phases", Printed::WithAll, times::phase_table),
    ("requests", Printed::WithAll, times::request_table),
    ("kernels", Printed::Always, rows::kernel_table),
    ("outside", Printed::WithAll, rows::outside_table),
    ("host_ops", Printed::WithoutDevice, rows::host_op_table),
    ("idle", Printed::OfOneRank, times::idle_table),
    ("host_idle", Printed::WithAll, gaps::host_idle_table),
    ("gaps", Printed::IfNamed, gaps::gap_table),
    ("stream_idle", Printed::IfNamed, times::stream_idle_table),
    ("collectives", Printed::WithAll, rows::collective_table),
    ("copies", Printed::WithAll, rows::copy_table),
    ("launches", Printed::WithAll, rows::launch_table),
    ("op_launches", Printed::IfNamed, rows::op_launch_table),
    ("queues", Printed::WithAll, rows::queue_table),
    ("coverage", Printed::WithAll, rows::coverage_table),
    ("counters", Printed::IfNamed, rows::counter_table),
    ("work", Printed::WithAll, rows::work_table),
    ("peaks", Printed::WithAll, peaks::peak_table),
    ("sequences", Printed::WithAll, rows::sequence_table),
    ("memory", Printed::WithAll, rows::memory_table),
    (
        "memory_timeline",
        Printed::IfNamed,
        rows::memory_timeline_table,
    ),
    ("metrics", Printed::IfNamed, rows::metric_table),
    ("stragglers", Printed::IfNamed, rows::straggler_table),
];

/// Summarizes the steps in words; empty if there are none.
fn step_sentence(one: &Analyzed) -> String {
    if has_steps(one) {
        times::step_title(one) + "\n"
    } else {
        String::new()
    }
}

/// Summarizes the use of device time in words.
fn busy_sentence(one: &Analyzed) -> String {
    let sum = one.total.utilization.first();
    let Some(sum) = sum.filter(|sum| sum.whole_ns() > 0) else {
        return if sum.is_some_and(|sum| sum.unknown_ns > 0) {
            "device utilization is unknown: too many device rows are missing\n".to_owned()
        } else {
            no_device_sentence(one)
        };
    };
    let whole = sum.whole_ns();
    let mut out = format!(
        "{} busy {} of {} ({} of {}): computation {}",
        devices_are(one),
        percent_of(sum.busy_ns, whole),
        whole_phrase(one, sum),
        time(sum.busy_ns),
        time(whole),
        percent_of(sum.computation_ns, whole)
    );
    for (name, ns) in [
        ("exposed communication", sum.exposed_communication_ns),
        ("exposed copies", sum.exposed_memory_ns),
        ("idle", sum.idle_ns),
    ] {
        if ns > 0 {
            let _ = write!(out, ", {name} {}", percent_of(ns, whole));
        }
    }
    let overlap = one.total.breakdown.first();
    if let Some(share) = overlap.and_then(|sum| sum.overlap_share) {
        let _ = write!(
            out,
            "; {} of communication overlaps with computation",
            percent(share, 1)
        );
    }
    out += &extreme_devices(one);
    out.push('\n');
    // the definition of a step needs host data
    let has_host = !one.total.launches.is_empty();
    if sum.window == UtilizationWindow::Process && has_host && !has_steps(one) {
        out += "no steps are marked; --steps-by REGEX counts annotations or ops as steps\n";
    }
    if sum.unknown_ns > 0 {
        let _ = writeln!(
            out,
            "another {} is excluded: more than {} % of its device rows are missing",
            time(sum.unknown_ns),
            100 / LOST_PART
        );
    }
    if sum.before_recording_ns > 0 {
        let _ = writeln!(
            out,
            "another {} is excluded as neither busy nor idle: work from before the recording runs or \
            is waited for",
            time(sum.before_recording_ns)
        );
    }
    out
}

/// Names the devices of several that compute and copy the least and the most; empty for a single
/// device. Communication waits for other ranks, and keeps the ones that wait busy.
fn extreme_devices(one: &Analyzed) -> String {
    let devices = of_ranks(one, |rank| &rank.utilization).filter(|(_, one)| one.whole_ns() > 0);
    let share = |one: &Utilization| one.compute_or_copy_ns() as f64 / one.whole_ns() as f64;
    let mut work: Vec<(f64, &str)> = devices.map(|(rank, one)| (share(one), rank)).collect();
    work.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ([(least, first), ..], [.., (most, last)]) = (&work[..], &work[..]) else {
        return String::new();
    };
    if first == last {
        return String::new();
    }
    let (first, last) = (table::rank(first), table::rank(last));
    let (least, most) = (percent(*least, 1), percent(*most, 1));
    format!("; least computation and copies: {first} ({least}), most: {last} ({most})")
}

/// Smallest share of the steps' time, summed over all ops, at which an op is named.
const LEAST_OP_SHARE: f64 = 0.01;

/// Describes a program without device work: its steps, and the op that takes most time.
fn no_device_sentence(one: &Analyzed) -> String {
    let mut out = "no device work in the trace".to_owned();
    let ops = one.total.host_ops.iter();
    let ops_ns = ops.fold(0i64, |sum, op| sum.saturating_add(op.self_ns));
    let steps = of_ranks(one, |rank| &rank.steps);
    let steps_ns = steps.fold(0i64, |sum, (_, step)| sum.saturating_add(step.duration_ns));
    // Ops that take hardly any time do not characterize the program.
    if ops_ns > 0 && (ops_ns as f64) < LEAST_OP_SHARE * steps_ns as f64 {
        out += &format!(
            ": host ops take {} of self time, the steps {}",
            time(ops_ns),
            time(steps_ns)
        );
    } else if let Some(op) = one.total.host_ops.first() {
        out += &format!(
            ": the host op with the most self time is {}, {} ({})",
            op.name,
            percent(op.share, 1),
            time(op.self_ns)
        );
    }
    out + "\n"
}

fn has_steps(one: &Analyzed) -> bool {
    let mut ranks = one.told.ranks.iter();
    ranks.any(|rank| !rank.said.steps.is_empty())
}

/// Returns the subject of the sentence.
fn devices_are(one: &Analyzed) -> String {
    match device_count(one) {
        0 | 1 => "the device is".to_owned(),
        devices => format!("{devices} devices are"),
    }
}

fn device_count(one: &Analyzed) -> usize {
    let ranks = one.told.ranks.iter();
    ranks.map(|rank| rank.said.utilization.len()).sum()
}

/// Names the time that the shares refer to.
fn whole_phrase(one: &Analyzed, sum: &Utilization) -> String {
    let devices = device_count(one).max(1) as u64;
    match (sum.window, sum.steps / devices) {
        (UtilizationWindow::Process, _) if devices > 1 => "their summed recordings".to_owned(),
        (UtilizationWindow::Process, _) => "the recording".to_owned(),
        (UtilizationWindow::Steps, 1) if devices > 1 => "their summed step".to_owned(),
        (UtilizationWindow::Steps, _) if devices > 1 => "their summed steps".to_owned(),
        (UtilizationWindow::Steps, 1) => "the step".to_owned(),
        (UtilizationWindow::Steps, steps) => format!("the {steps} steps"),
    }
}

/// Returns the records of each rank, with the rank's label.
fn of_ranks<'a, T: 'a>(
    one: &'a Analyzed,
    table: fn(&RankAnalysis) -> &Vec<T>,
) -> impl Iterator<Item = (&'a str, &'a T)> {
    one.told.ranks.iter().flat_map(move |rank| {
        table(&rank.said)
            .iter()
            .map(|record| (rank.label.as_str(), record))
    })
}

/// Makes a table of records with their ranks, which the first column names.
fn ranked_grid<'a, T: 'a>(
    texts: usize,
    limit: Limit,
    columns: &[Column<&'a T>],
    records: impl Iterator<Item = (&'a str, &'a T)>,
) -> Grid {
    let heads = columns.iter().map(|(head, _)| *head);
    let mut grid = Grid::new(texts, limit, std::iter::once("rank").chain(heads));
    for (rank, record) in records {
        let cells = columns.iter().map(|(_, cell)| cell(&record));
        grid.add(std::iter::once(rank.to_owned()).chain(cells));
    }
    grid
}

/// Kernel names as tables show them.
struct ShownNames<'a> {
    /// Short forms of the shortened names.
    short: BTreeMap<&'a str, &'a str>,
}

impl<'a> ShownNames<'a> {
    fn new(one: &'a Analyzed) -> ShownNames<'a> {
        let kernels: &[_] = if one.full_names {
            &[]
        } else {
            &one.total.kernels
        };
        let kernels = kernels.iter();
        let short = kernels.filter_map(|kernel| Some((&*kernel.name, kernel.short.as_deref()?)));
        ShownNames {
            short: short.collect(),
        }
    }

    fn shown(&self, name: &'a str) -> &'a str {
        self.short.get(name).copied().unwrap_or(name)
    }
}

fn bandwidth_text(gb_per_s: Option<f64>) -> String {
    known(gb_per_s, |rate| scaled(rate * 1e9, "B/s"))
}
