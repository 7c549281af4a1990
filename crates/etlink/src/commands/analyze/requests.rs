//! Request latencies measured by a benchmark's client, next to the corresponding phases of the
//! trace.

use etlink_analysis::{PhaseTotals, RunMetric, RunTotals};
use etlink_formats::metrics::{LatencyKind, WorkloadCard};
use etlink_run::measurements::RunMeasurements;
use serde::Serialize;

/// A latency of a benchmark's requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct RequestLatency {
    /// File of the benchmark's result.
    pub(super) file: String,
    /// Inference engine, as named by the benchmark.
    pub(super) backend: String,
    /// Name of the model.
    pub(super) model: String,
    /// Number of answered requests.
    pub(super) requests: u64,
    /// Kind of latency.
    pub(super) latency: LatencyKind,
    /// Mean, in ns.
    pub(super) mean_ns: Option<i64>,
    /// Median, in ns.
    pub(super) median_ns: Option<i64>,
    /// 99th percentile, in ns.
    pub(super) p99_ns: Option<i64>,
    /// Phase of the trace that this latency depends on: `prefill` or `decode`.
    pub(super) trace_phase: &'static str,
    /// Number of steps of that phase in the trace, over all ranks.
    pub(super) trace_steps: u64,
    /// Mean time of these steps on the host or on the device, whichever is longer, in ns; `None` if
    /// the trace has none.
    pub(super) trace_mean_ns: Option<i64>,
}

/// Returns the latencies of all benchmarks next to a run.
pub(super) fn request_latencies(
    measured: &RunMeasurements,
    total: &RunTotals,
) -> Vec<RequestLatency> {
    let mut all = vec![];
    for (path, run) in &measured.latencies {
        for latency in &run.latencies {
            let phase = phase_of(latency.kind);
            let found = total.phases.iter().find(|found| found.phase == phase);
            let steps = |totals: &PhaseTotals| totals.durations.count;
            all.push(RequestLatency {
                file: path.display().to_string(),
                backend: run.backend.clone(),
                model: run.model.clone(),
                requests: run.requests,
                latency: latency.kind,
                mean_ns: latency.mean_ns,
                median_ns: latency.median_ns,
                p99_ns: latency.p99_ns,
                trace_phase: phase,
                trace_steps: found.map_or(0, steps),
                trace_mean_ns: found.map(|found| found.durations.mean_ns().round() as i64),
            });
        }
    }
    all
}

/// Returns the phase that a latency depends on: the first token waits for a prefill, each later one
/// for a decode, and a whole request for both.
fn phase_of(kind: LatencyKind) -> &'static str {
    match kind {
        LatencyKind::Ttft => "prefill",
        LatencyKind::Tpot | LatencyKind::Itl => "decode",
        LatencyKind::E2el | LatencyKind::Batch => "",
    }
}

/// Returns the tokens per second of a training run, from the batch size and sequence length of a
/// workload card and the trace's step time.
pub(super) fn card_metrics(measured: &RunMeasurements, total: &RunTotals) -> Option<RunMetric> {
    let card = measured.card()?;
    let step = total
        .metrics
        .iter()
        .find(|metric| metric.name == "avg_step_time")?;
    let tokens = training_tokens(card)?;
    (step.value > 0.0).then(|| RunMetric {
        name: "tokens_per_second".to_owned(),
        value: tokens as f64 / step.value,
        unit: "tokens/s",
    })
}

/// Returns the tokens per step of the whole job.
fn training_tokens(card: &WorkloadCard) -> Option<u64> {
    let is_training = card.phase() == Some("training");
    card.batch_size()?
        .checked_mul(card.seq_len()?)
        .filter(|tokens| is_training && *tokens > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_formats::metrics::{LatencyTotals, RequestLatencies};

    #[test]
    fn a_latency_stands_beside_the_steps_that_make_it() {
        let totals = |kind, ns| LatencyTotals {
            kind,
            mean_ns: Some(ns),
            ..LatencyTotals::default()
        };
        let measured = RunMeasurements {
            latencies: vec![(
                "result.json".into(),
                RequestLatencies {
                    requests: 3,
                    latencies: vec![
                        totals(LatencyKind::Ttft, 900),
                        totals(LatencyKind::Tpot, 50),
                        totals(LatencyKind::E2el, 2_000),
                    ],
                    ..RequestLatencies::default()
                },
            )],
            cards: vec![],
        };
        let mut phase = PhaseTotals {
            phase: "decode".to_owned(),
            ..PhaseTotals::default()
        };
        phase.durations.add(40);
        phase.durations.add(60);
        let total = RunTotals {
            phases: vec![phase],
            ..RunTotals::default()
        };
        let found = request_latencies(&measured, &total);
        let said: Vec<_> = found
            .iter()
            .map(|one| (one.trace_phase, one.trace_steps, one.trace_mean_ns))
            .collect();
        assert_eq!(
            said,
            [("prefill", 0, None), ("decode", 2, Some(50)), ("", 0, None)]
        );
    }

    #[test]
    fn tokens_are_those_of_a_training_step() {
        let card = |phase: &str| {
            let text = format!(
                "workload: {{model: {{phase: {phase}}}, data: {{batch_size: 8, seq_len: 1024}}}}"
            );
            WorkloadCard::read(text.as_bytes()).expect("a card")
        };
        let total = RunTotals {
            metrics: vec![RunMetric {
                name: "avg_step_time".to_owned(),
                value: 0.5,
                unit: "s",
            }],
            ..RunTotals::default()
        };
        let with = |cards: &[&str]| RunMeasurements {
            cards: cards
                .iter()
                .map(|phase| ("c".into(), card(phase)))
                .collect(),
            ..RunMeasurements::default()
        };
        let value = card_metrics(&with(&["training"]), &total).map(|metric| metric.value);
        assert_eq!(value, Some(16_384.0));
        assert_eq!(card_metrics(&with(&["serving"]), &total), None);
        // copies of one card agree; cards that differ are ignored
        let value = card_metrics(&with(&["training"; 2]), &total).map(|metric| metric.value);
        assert_eq!(value, Some(16_384.0));
        let measured = with(&["training", "serving"]);
        assert_eq!(card_metrics(&measured, &total), None);
        assert!(
            measured
                .card_note()
                .is_some_and(|note| note.message.contains("2 workload cards differ"))
        );
    }
}
