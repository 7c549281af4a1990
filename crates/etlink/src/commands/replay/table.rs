//! The replay as text.

use super::all_ranks::AllRanks;
use super::steps::MeanStep;
use super::{Replayed, WhatIfReport};
use crate::notes;
use crate::table::{FactRows, count, cut, enum_name, mb, perfetto_text, plain, signed_time, time};
use etlink_analysis::findings::{PredictedMemory, PredictedTime, PredictionBasis, WorkPlace};
use etlink_link::ranks::step_definition;
use etlink_model::DurationNs;
use etlink_replay::{
    EdgeKind, NodeLabel, NodeTime, PathCause, PathReport, PathStepReport, PathTrust, ReplayFigures,
    StartExplanation, StartReason,
};
use std::cmp::Reverse;
use std::fmt::Write;

/// Number of worst nodes shown; JSON has more.
const SHOWN: usize = 3;
/// Number of nodes of the critical path shown.
const SHOWN_STEPS: usize = 10;

/// Prints the notes on all runs.
pub(super) fn print_notes(runs: &[Replayed]) {
    // a single input needs no name
    let is_named = runs.len() > 1;
    notes::print_of_runs(runs.iter().map(|run| {
        let name = if is_named { &run.input[..] } else { "" };
        (name, run.diagnostics.clone())
    }));
}

pub fn replay_text(replayed: &Replayed) -> String {
    let mut out = String::new();
    let mut rows = FactRows::default();
    match &replayed.figures {
        Some(told) => {
            rows.add("replayed", "", &replayed.input);
            add_figures(told, replayed.resources, &mut rows);
        }
        None => rows.add("not replayed", "", &replayed.input),
    }
    add_trust(replayed, &mut rows);
    if let Some(all) = &replayed.together {
        add_ranks(all, &mut rows);
    }
    if let Some(mean) = &replayed.step {
        add_step(replayed, mean, &mut rows);
    }
    if let Some(changes) = &replayed.what_if {
        add_what_if(changes, replayed, &mut rows);
    }
    if let Some(written) = &replayed.written {
        rows.add(
            "written",
            mb(written.bytes),
            perfetto_text(&written.shown, &written.output),
        );
    }
    out += &rows.to_string();
    if let Some(path) = &replayed.critical_path {
        let length = duration_text(path.makespan_ns);
        let _ = write!(out, "critical path of {length}\n{}", critical_path(path));
    }
    if let Some(told) = &replayed.explanation {
        let _ = write!(
            out,
            "node {}: why it started when it did\n{}",
            told.label.node,
            explanation_text(told)
        );
    }
    out
}

fn add_figures(figures: &ReplayFigures, resources: bool, rows: &mut FactRows) {
    rows.add(
        "nodes",
        figures.nodes,
        format!(
            "{}; {} on {}",
            count(figures.edges, "edge"),
            count(figures.device_ops, "device op"),
            count(figures.streams, "stream")
        ),
    );
    if let Some(measured) = figures.measured_ns {
        rows.add(
            "measured",
            duration_text(measured),
            "from the first start to the last end",
        );
    }
    if let Some(corrected) = figures.corrected_ns {
        let text = "the measured time without the overhead of recording";
        rows.add("corrected", duration_text(corrected), text);
    }
    let how = if resources {
        ", one op at a time per thread and stream"
    } else {
        ""
    };
    // Latencies come from the measured times: only a wrong file or busy places show up here.
    let error = figures.replay_error.filter(|error| is_seen(*error));
    let error = error.map_or(String::new(), |error| {
        format!("; replay error {}", percent_text(error))
    });
    rows.add(
        "replayed",
        duration_text(figures.replayed_ns),
        format!("replay by edges, durations and latencies{how}{error}"),
    );
    let end_error = figures.end_error.as_ref();
    if let Some(error) = end_error.filter(|error| error.spread.max_ns > DurationNs::ZERO) {
        let spread = &error.spread;
        let [p50, p99, max] = [spread.p50_ns, spread.p99_ns, spread.max_ns].map(duration_text);
        let share = percent_text(error.mean_share);
        rows.add(
            "end error",
            duration_text(error.mean_ns),
            format!("mean, {share} of the measured time; p50 {p50}, p99 {p99}, max {max}"),
        );
        add_worst(&error.worst, true, rows);
    }
    let unexplained = &figures.unexplained;
    let waiting = format!(
        "waiting {}, {} of all stream time",
        duration_text(unexplained.waiting_ns),
        percent_text(unexplained.share_of_time)
    );
    rows.add(
        "unexplained",
        unexplained.device_ops,
        format!(
            "device ops, {}; {waiting}",
            percent_text(unexplained.share_of_ops)
        ),
    );
    add_worst(&unexplained.worst, false, rows);
    let contradictions = figures.contradictions.as_ref();
    if let Some(found) = contradictions.filter(|found| found.edges > 0) {
        rows.add(
            "contradictions",
            found.edges,
            format!(
                "edges whose source ends more than {} after the target starts",
                time(etlink_link::limits::CLOCK_TOLERANCE.0)
            ),
        );
        add_worst(&found.worst, false, rows);
    }
    if notes::is_verbose() {
        add_latencies(figures, rows);
    }
}

/// Adds the edges by kind with percentiles of their latencies.
fn add_latencies(figures: &ReplayFigures, rows: &mut FactRows) {
    for (kind, edges) in &figures.by_edge {
        let inferred = if edges.inferred > 0 {
            format!(", {} inferred", edges.inferred)
        } else {
            String::new()
        };
        let latency = &edges.latency;
        let [p50, p90, p99, max] = [
            latency.p50_ns,
            latency.p90_ns,
            latency.p99_ns,
            latency.max_ns,
        ]
        .map(duration_text);
        let decided = format!(
            "decided {}, latency p50 {p50}, p90 {p90}, p99 {p99}, max {max}",
            edges.decided
        );
        rows.add(
            "edges",
            edges.count,
            format!(
                "{}{inferred}; {decided}{}",
                enum_name(kind),
                assumption_text(*kind)
            ),
        );
    }
    let boundary = &figures.boundary;
    if boundary.count > 0 {
        rows.add(
            "boundaries",
            boundary.count,
            format!(
                "delays before the first event of a thread or stream: {} in total, max {}",
                duration_text(boundary.total_ns),
                duration_text(boundary.max_ns)
            ),
        );
    }
}

/// Describes the assumed part of a latency, which no trace shows.
fn assumption_text(kind: EdgeKind) -> String {
    match kind {
        EdgeKind::Handoff => format!(
            "; assumes {} to wake the thread",
            time(etlink_link::limits::USUAL_WAKE.0)
        ),
        _ => String::new(),
    }
}

/// Returns true for a share that does not print as 0.
fn is_seen(share: f64) -> bool {
    share >= 0.000_05
}

/// Adds rows on the reliability of predictions.
fn add_trust(replayed: &Replayed, rows: &mut FactRows) {
    if let Some(steps) = &replayed.cross_step {
        let error = &steps.error;
        rows.add(
            "cross-step",
            percent_text(error.median),
            format!(
                "median error if one step's graph predicts another step, p95 {}, max {}; {} of {} \
                pairs of steps do the same work",
                percent_text(error.p95),
                percent_text(error.max),
                steps.aligned,
                steps.pairs
            ),
        );
        let unchanged = &steps.unchanged_error;
        rows.add(
            "",
            percent_text(unchanged.median),
            format!(
                "median error if each step took as long as the other, p95 {}, max {}",
                percent_text(unchanged.p95),
                percent_text(unchanged.max)
            ),
        );
    } else if replayed.dropped_waits.is_some() {
        rows.add(
            "cross-step",
            "none",
            "no three steps with the same work to predict each other",
        );
    }
    if let Some(stock) = &replayed.stock_replay {
        let text = format!(
            "makespan from duration_micros alone, {} off; measured {}",
            percent_text(stock.error),
            time(stock.measured_ns)
        );
        rows.add("readers", time(stock.makespan_ns), text);
    }
    let Some(trust) = &replayed.trust else {
        return;
    };
    rows.add("path", "", path_trust_text(&trust.path));
    if trust.unexplained_calls > 0 {
        let text = format!(
            "calls that wait for unknown device work: {}",
            duration_text(trust.unexplained_calls_ns)
        );
        rows.add("  calls", trust.unexplained_calls, text);
    }
    if trust.blocked_launches > 0 {
        let text = "launches that waited for a full queue";
        rows.add("blocked", trust.blocked_launches, text);
    }
    if let Some(dropped) = replayed.dropped_waits.filter(|dropped| *dropped > 0) {
        rows.add(
            "dropped",
            dropped,
            "waits without an edge, because the times contradict them",
        );
    }
    if let Some(first) = trust.passive_threads.first() {
        let more = trust.passive_threads.len() - 1;
        let others = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        rows.add(
            "left out",
            trust.passive_threads.len(),
            format!("threads that nothing waits for: {first}{others}"),
        );
    }
}

/// Adds a row on the mean length of the steps.
fn add_step(replayed: &Replayed, mean: &MeanStep, rows: &mut FactRows) {
    let definition = replayed.steps.first();
    let definition = definition.and_then(|step| step_definition(&step.step));
    let definition = definition.map_or(String::new(), |step| format!("; a step is {step}"));
    let others = match mean.excluded {
        0 => String::new(),
        others => {
            format!(", without {others} truncated, empty, behind earlier work, or not on all ranks")
        }
    };
    let which = match mean.steps {
        1 => "the only step".to_owned(),
        steps => format!("mean of {steps} steps"),
    };
    let which = format!("{which}{others}, to the end of the device work");
    let (value, text) = if replayed.what_if.is_some() {
        let change_ns = mean.ns.0 - mean.unchanged_ns.0;
        (
            change_text(mean.unchanged_ns.0, mean.ns.0),
            format!("{which}; {}", share_text(change_ns, mean.unchanged_ns.0)),
        )
    } else {
        (duration_text(mean.unchanged_ns), which)
    };
    rows.add("step", value, text + &definition);
    let what_if = replayed.what_if.as_ref();
    if let Some(range) = what_if.and_then(|what_if| what_if.range.step) {
        let [least, most] = [range.least_ns, range.most_ns].map(duration_text);
        let changes = [range.least_change, range.most_change];
        let changes = changes.map(|change| format!("{:+.1} %", 100.0 * change));
        let doubts = doubts_text(replayed, &changes);
        let text = if least == most {
            doubts
        } else {
            format!("with the change, the true step takes {least} to {most}; {doubts}")
        };
        rows.add("", "", text);
    }
}

/// Returns true if the times are an estimate without the overhead of recording.
fn is_corrected(replayed: &Replayed) -> bool {
    let figures = replayed.figures.as_ref();
    figures.is_some_and(|figures| figures.corrected_ns.is_some())
}

/// Describes the least and the greatest true change, and what it depends on. What is not known with
/// and without the change alike does not widen it.
fn doubts_text(replayed: &Replayed, [least, most]: &[String; 2]) -> String {
    if least == most {
        return format!("a change of {least} in any case");
    }
    let what_if = replayed.what_if.as_ref();
    let mut questions = what_if.iter().flat_map(|what_if| &what_if.questions);
    let is_predicted = questions.any(|asked| !asked.predicted.is_empty());
    let reasons = match (is_corrected(replayed), is_predicted) {
        (false, false) => "uncertain waits",
        (false, true) => "predicted durations and uncertain waits",
        (true, false) => "the overhead of recording and uncertain waits",
        (true, true) => "the overhead of recording, predicted durations and uncertain waits",
    };
    format!("a change of {least} to {most}, depending on {reasons}")
}

/// Formats a time without and with the changes.
fn change_text(before_ns: i64, after_ns: i64) -> String {
    format!("{} -> {}", time(before_ns), time(after_ns))
}

/// Formats a change as a time and as a share of the time without it.
fn share_text(change_ns: i64, before_ns: i64) -> String {
    let share = change_ns as f64 / before_ns.max(1) as f64;
    let sign = if change_ns > 0 { "+" } else { "" };
    format!("{}, {sign}{}", signed_time(change_ns), percent_text(share))
}

fn path_trust_text(trust: &PathTrust) -> String {
    let unexplained = percent_text(trust.unexplained_share);
    let edges = trust.inferred_edges;
    if edges == 0 {
        return format!("unexplained waits: {unexplained} of the critical path; no inferred edges");
    }
    let share = percent_text(trust.inferred_share);
    let inferred = match edges {
        1 => format!("1 inferred edge, with {share} of the path before it"),
        edges => {
            format!("{edges} inferred edges, with {share} of the path before the last")
        }
    };
    format!("unexplained waits: {unexplained} of the critical path; {inferred}")
}

/// Adds rows on the ranks' collectives, and on each rank.
fn add_ranks(all: &AllRanks, rows: &mut FactRows) {
    // nothing was run: zeros would look like unjoined collectives
    if all.ranks.is_empty() {
        return;
    }
    let (met, local) = (&all.collectives, &all.collectives.local);
    // the last to arrive may be a rank without a trace: its delay looks like transfer
    let transferred = if all.absent.is_empty() {
        "transferred"
    } else {
        "transferred, or waited for absent ranks,"
    };
    let spent = format!(
        "ranks waited {} for the last to arrive and {transferred} for {}",
        duration_text(met.waiting_ns),
        duration_text(met.transfer_ns)
    );
    rows.add(
        "collectives",
        met.joined,
        format!("joined, including messages; {spent}"),
    );
    for (count, why) in [
        (local.joined.unmatched, "not on all ranks"),
        (local.joined.alone, "with the trace of only one rank"),
        (
            local.joined.without_transfer,
            "without the end of the transfer in the traces",
        ),
        (
            local.contradicted,
            "a rank ended before the last one arrived: clocks or traces do not match",
        ),
        (local.out_of_order, "in opposite order on different ranks"),
    ] {
        if count > 0 {
            rows.add("  as measured", count, why);
        }
    }
    for rank in &all.ranks {
        let (own, spent) = (&rank.figures, &rank.figures.collectives);
        let error = own.replay_error.zip(own.end_error_ns);
        let error = error.filter(|(error, _)| is_seen(*error));
        let error = error.map_or(String::new(), |(error, end)| {
            format!(
                ", replay error {}, end error {}",
                percent_text(error),
                duration_text(end)
            )
        });
        let steps = rank.cross_step.as_ref().map_or(String::new(), |steps| {
            format!(
                ", steps predict each other within {}",
                percent_text(steps.error.p95)
            )
        });
        let how = if rank.clock_contradicted {
            "but every offset misses by"
        } else {
            "within"
        };
        let uncertainty = rank.clock_uncertainty_ns.map(|within| {
            format!(
                "; clock {} {how} {}",
                signed_time(rank.clock_offset_ns),
                time(within)
            )
        });
        let spent = format!(
            "{}: waited {}, transferred {}",
            count(spent.count, "collective"),
            duration_text(spent.waiting_ns),
            duration_text(spent.transfer_ns)
        );
        let text = format!(
            "{}{error}{steps}; {spent}{}",
            count(own.nodes, "node"),
            uncertainty.unwrap_or_default()
        );
        rows.add(
            &format!("  rank {}", own.rank),
            duration_text(own.replayed_ns),
            text,
        );
    }
}

fn add_worst(worst: &[NodeTime], signed: bool, rows: &mut FactRows) {
    // the first few show where to look; JSON has the rest
    for named in worst.iter().take(SHOWN) {
        rows.add(
            "  worst",
            if signed {
                signed_time(named.ns)
            } else {
                time(named.ns)
            },
            node_text(&named.label),
        );
    }
}

/// Smallest share of unexplained waits worth reporting, relative to the run: a changed run keeps
/// their length.
const LEAST_UNEXPLAINED: f64 = 0.01;

/// Adds the time of work that a question predicts, by place.
fn add_predicted(predicted: &[PredictedTime], rows: &mut FactRows) {
    for place in [WorkPlace::Device, WorkPlace::Host] {
        let of_place = predicted.iter().filter(|time| time.place == place);
        let parts: Vec<&PredictedTime> = of_place.collect();
        let recorded: i64 = parts.iter().map(|part| part.recorded_ns.0).sum();
        let predicted: i64 = parts.iter().map(|part| part.predicted_ns.0).sum();
        if recorded == 0 {
            continue;
        }
        let shares = parts.iter().map(|part| {
            format!(
                "{:.1} % {}",
                100.0 * part.recorded_ns.0 as f64 / recorded as f64,
                basis_text(part.basis)
            )
        });
        let shares: Vec<String> = shares.collect();
        rows.add(
            &format!("  {} work", enum_name(place)),
            change_text(recorded, predicted),
            format!("sum over the whole recording; {}", shares.join(", ")),
        );
    }
}

fn add_memory(memory: &PredictedMemory, rows: &mut FactRows) {
    let [recorded, predicted] = [memory.recorded_bytes, memory.predicted_bytes].map(mb);
    let unknown = 100.0 * memory.unknown_share;
    rows.add(
        "  peak memory",
        format!("{recorded} -> {predicted}"),
        format!(
            "allocated on {} {}; {unknown:.1} % of all allocated bytes belong to no known tensor \
             and stay",
            memory.device_type, memory.device
        ),
    );
}

fn basis_text(basis: PredictionBasis) -> &'static str {
    match basis {
        PredictionBasis::Shapes => "changes with its shapes",
        PredictionBasis::SameWork => "is unaffected",
        PredictionBasis::Repeated => "runs once per layer",
        PredictionBasis::SameShapes => "was recorded on that device",
        PredictionBasis::Neighbours => "is like other shapes on that device",
        PredictionBasis::PeakRates => "scales with peak rates",
        PredictionBasis::Name => "scales like other kernels of the same name",
        PredictionBasis::Nothing => "has no shapes and stays",
    }
}

fn add_what_if(changes: &WhatIfReport, replayed: &Replayed, rows: &mut FactRows) {
    let without = changes
        .drop_edges
        .iter()
        .map(|kind| format!("without {}", enum_name(kind)));
    let questions = changes.questions.iter().map(|asked| asked.question.clone());
    let scales = changes.scale.iter().cloned();
    let asked: Vec<String> = questions.chain(scales).chain(without).collect();
    let range = &changes.range;
    let is_certain = match range.step {
        // Steps are the answer of a recording that has them: it begins and ends somewhere.
        Some(step) => {
            rows.add(
                "what if",
                "",
                format!("{}: the step above", asked.join(", ")),
            );
            step.least_change == step.most_change
        }
        None => {
            let change = share_text(changes.change_ns, changes.unchanged_ns);
            let value = change_text(changes.unchanged_ns, changes.makespan_ns);
            rows.add("what if", value, format!("{change}: {}", asked.join(", ")));
            let scope = "replayed, the whole recording to the end of its last work; work that nothing waits for is left out";
            rows.add("", "", scope);
            let bounds = [range.least_change_ns, range.most_change_ns].map(signed_time);
            rows.add("", "", doubts_text(replayed, &bounds));
            bounds[0] == bounds[1]
        }
    };
    if range.possible_waits > 0 && !is_certain {
        let text = format!(
            "unknown: the streams that {} without delay may be for; record with \
             enable_cuda_sync_events to see them",
            count(range.possible_waits, "wait")
        );
        rows.add("", "", text);
    }
    rows.add("", "", path_trust_text(&range.trust));
    if let Some(trust) = &replayed.trust
        && trust.unexplained_calls_ns.0 as f64 > LEAST_UNEXPLAINED * changes.unchanged_ns as f64
    {
        let text = format!(
            "unknown: the work behind {} ({} in total), measured durations are kept",
            count(trust.unexplained_calls, "waiting call"),
            duration_text(trust.unexplained_calls_ns)
        );
        rows.add("", "", text);
    }
    for asked in &changes.questions {
        rows.add("", "", format!("{}: {}", asked.question, asked.caveat));
        add_predicted(&asked.predicted, rows);
        if let Some(memory) = &asked.memory {
            add_memory(memory, rows);
        }
    }
    if let Some(change) = changes.device_end_change_ns {
        rows.add("device end", signed_time(change), "of the last device op");
    }
    for rank in &changes.ranks {
        let text = format!(
            "end; waits {} for others, transfers {}",
            signed_time(rank.waiting_change_ns),
            signed_time(rank.transfer_change_ns)
        );
        rows.add(
            &format!("  rank {}", rank.rank),
            signed_time(rank.end_change_ns),
            text,
        );
    }
}

fn critical_path(path: &PathReport) -> String {
    let mut rows = FactRows::default();
    let edges: Vec<String> = path
        .edges
        .iter()
        .map(|(kind, count)| format!("{count} {}", enum_name(kind)))
        .collect();
    // without --resources nothing waits for a busy place, and the words would be confusing
    let busy = if path.busy > 0 {
        format!("; {} for a busy thread or stream", count(path.busy, "wait"))
    } else {
        String::new()
    };
    rows.add(
        "nodes",
        path.nodes,
        format!(
            "edges: {}{busy}",
            if edges.is_empty() {
                "none".into()
            } else {
                edges.join(", ")
            }
        ),
    );
    for (cause, spent) in &path.causes {
        rows.add(
            &enum_name(cause),
            duration_text(spent.ns),
            format!("{}{}", percent_text(spent.share), cause_remark(*cause)),
        );
    }
    for (rank, spent) in &path.ranks {
        rows.add(
            &format!("  rank {rank}"),
            duration_text(spent.ns),
            percent_text(spent.share),
        );
    }
    for crossing in path.crossings.iter().take(SHOWN_STEPS) {
        rows.add(
            "  crosses",
            format!("rank {} to {}", crossing.from, crossing.to),
            format!("rank {} arrived last at {}", crossing.from, crossing.by),
        );
    }
    if path.crossings.len() > SHOWN_STEPS {
        rows.add("", path.crossings.len() - SHOWN_STEPS, "more");
    }
    let mut longest: Vec<&PathStepReport> = path.steps.iter().collect();
    longest.sort_by_key(|step| Reverse(step.duration_ns + step.latency_ns));
    longest.truncate(SHOWN_STEPS);
    // back in order of time, as a path is read
    longest.sort_by_key(|step| step.start_ns);
    for step in longest {
        let via = match step.via {
            StartReason::Start => "waits for nothing".to_owned(),
            StartReason::Edge(kind) => enum_name(kind),
            StartReason::Busy => "its thread or stream was busy".to_owned(),
        };
        rows.add(
            "  on path",
            duration_text(step.duration_ns),
            format!(
                "{}; {via}, latency {}",
                node_text(&step.label),
                duration_text(step.latency_ns)
            ),
        );
    }
    rows.to_string()
}

fn cause_remark(cause: PathCause) -> &'static str {
    match cause {
        PathCause::Launch => ", from the call to the start of its work",
        PathCause::Wait => ", latency of other edges",
        PathCause::Boundary => ", before the first event of a thread or stream",
        _ => "",
    }
}

fn explanation_text(told: &StartExplanation) -> String {
    let mut rows = FactRows::default();
    rows.add("node", told.label.node, node_text(&told.label));
    let measured = match (told.measured_start_ns, told.inferred_start_ns) {
        (Some(start), _) => format!("; measured start {start} ns"),
        (None, Some(start)) => {
            format!("; inferred start {start} ns, when the last rank arrived")
        }
        (None, None) => String::new(),
    };
    rows.add("start", told.start_ns, format!("ns in the run{measured}"));
    let slack = told.slack_ns.map_or(String::new(), |slack| {
        format!(
            "; it could end {} later without delaying the end",
            duration_text(slack)
        )
    });
    rows.add("end", told.end_ns, format!("ns{slack}"));
    if let Some(last) = &told.last_arrival {
        let behind = duration_text(last.behind_first_ns);
        rows.add(
            "last",
            format!("rank {}", last.rank),
            format!("arrived last at the collective, {behind} after the first"),
        );
    }
    if told.deps.is_empty() {
        rows.add(
            "waits for",
            "nothing",
            "it starts at its measured time, or at once",
        );
    }
    for dep in &told.deps {
        let inferred = if dep.inferred { ", inferred" } else { "" };
        let name = if dep.decided { "decided" } else { "waits for" };
        rows.add(
            name,
            dep.from.node,
            format!(
                "{}{inferred}: {}",
                enum_name(dep.edge),
                node_text(&dep.from)
            ),
        );
        let slack = if dep.decided {
            "the last to end".into()
        } else {
            format!("{} before the last", duration_text(dep.slack_ns))
        };
        rows.add(
            "",
            "",
            format!("{}; ended at {} ns, {slack}", dep.evidence, dep.end_ns),
        );
    }
    if !told.deps.is_empty() {
        rows.add(
            "latency",
            duration_text(told.latency_ns),
            "from the last end to the start",
        );
    }
    if let Some(held) = &told.held_by {
        rows.add(
            "held by",
            held.node,
            format!("its thread or stream was busy: {}", node_text(held)),
        );
    }
    rows.to_string()
}

/// Describes a node, with its name truncated: kernel names can have hundreds of characters. JSON
/// has them in full.
fn node_text(label: &NodeLabel) -> String {
    // leave room in the line for place, kind, and number
    let name = cut(&label.name, 60, 0);
    let note = match label.annotation.as_str() {
        "" => String::new(),
        note => format!(" ({})", plain(&cut(note, 30, 0))),
    };
    let rank = label
        .rank
        .map_or(String::new(), |rank| format!("rank {rank} "));
    format!(
        "{rank}node {} {name:?}{note}, {}, {}",
        label.node,
        enum_name(label.kind),
        label.place
    )
}

fn percent_text(share: f64) -> String {
    crate::table::percent(share, 2)
}

fn duration_text(duration: DurationNs) -> String {
    time(duration.0)
}
