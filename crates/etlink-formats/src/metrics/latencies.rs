//! Reads latencies of requests from benchmarks of serving engines.
//!
//! `vllm bench serve --save-result` (`vllm/benchmarks/serve.py`) writes one object, SGLang's
//! `bench_serving --output-file` (`sglang/bench_serving.py`) a line per run. Both have
//! `mean_ttft_ms`, `median_…`, `p99_…` for each latency. With `--save-detailed` vLLM adds
//! the values of each request (`ttfts`, `itls`, seconds). `vllm bench latency` writes `avg_latency`
//! and `percentiles` of batches.

use crate::metrics::{not_read, too_large};
use etlink_model::Failure;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

/// Maximum size of a result, bytes. Results with the text of every answer are large.
const MAX_BYTES: u64 = 256 << 20;

/// Kind of latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LatencyKind {
    /// Time to first token: prefill, and the wait before it.
    #[default]
    Ttft,
    /// Time per output token after the first.
    Tpot,
    /// Time between two outputs, each of which may have several tokens.
    Itl,
    /// Time from the request to the end of its answer.
    E2el,
    /// Time from the begin to the end of a batch of requests (`vllm bench latency`).
    Batch,
}

impl LatencyKind {
    const ALL: [LatencyKind; 4] = [
        LatencyKind::Ttft,
        LatencyKind::Tpot,
        LatencyKind::Itl,
        LatencyKind::E2el,
    ];

    /// Returns the names of the latency in keys.
    fn keys(self) -> &'static [&'static str] {
        match self {
            LatencyKind::Ttft => &["ttft"],
            LatencyKind::Tpot => &["tpot"],
            LatencyKind::Itl => &["itl"],
            // SGLang writes `e2e_latency`.
            LatencyKind::E2el => &["e2el", "e2e_latency"],
            LatencyKind::Batch => &[],
        }
    }
}

/// Statistics of a latency over the requests of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatencyTotals {
    /// Kind of latency.
    pub kind: LatencyKind,
    /// Mean, ns.
    pub mean_ns: Option<i64>,
    /// Median, ns.
    pub median_ns: Option<i64>,
    /// 99th percentile, ns.
    pub p99_ns: Option<i64>,
}

/// Request latencies of one run of a benchmark.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestLatencies {
    /// Engine that ran the model, as named by the benchmark (`vllm`, `sglang`).
    pub backend: String,
    /// Name of the model.
    pub model: String,
    /// Number of answered requests, or of batches.
    pub requests: u64,
    /// Latencies that the benchmark reports, in the order of [`LatencyKind`].
    pub latencies: Vec<LatencyTotals>,
}

/// Returns true if a file begins like a result of such a benchmark.
pub fn is_latency_file(head: &[u8]) -> bool {
    let has = |key: &str| find_bytes(head, key.as_bytes());
    let is_object = head.trim_ascii_start().first() == Some(&b'{');
    let is_serving = has("\"mean_ttft_ms\"") || has("\"request_throughput\"");
    let is_latency = has("\"avg_latency\"") && has("\"percentiles\"");
    // values of single requests may fill the head
    let is_detailed = has("\"num_prompts\"") && has("\"backend\"");
    is_object && (is_serving || is_latency || is_detailed)
}

fn find_bytes(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

/// Reads all runs of a file. Skips lines that are truncated or not JSON. O(bytes).
///
/// # Errors
/// The source fails or is too large, or no run has latencies.
pub fn read_latencies<R: Read>(source: R) -> Result<Vec<RequestLatencies>, Failure> {
    let mut text = vec![];
    source
        .take(MAX_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(not_read)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(too_large(MAX_BYTES, "benchmark result"));
    }
    let text = with_nulls(&text);
    let mut runs = vec![];
    match serde_json::from_slice::<ResultFields>(&text) {
        Ok(run) => runs.extend(run_latencies(&run)),
        Err(_) => {
            for line in text.split(|byte| *byte == b'\n') {
                if let Ok(run) = serde_json::from_slice::<ResultFields>(line) {
                    runs.extend(run_latencies(&run));
                }
            }
        }
    }
    if runs.is_empty() {
        let problem = "no request latencies found: keys such as \"mean_ttft_ms\" are missing";
        let remedy =
            "give the result of `vllm bench serve --save-result` or of SGLang's bench_serving";
        return Err(Failure::new(problem).advise(remedy));
    }
    Ok(runs)
}

/// Replaces `NaN` and `Infinity` by `null`: Python's `json` writes them for values without requests
/// (mean of none), but JSON has no such numbers. O(bytes).
fn with_nulls(text: &[u8]) -> Cow<'_, [u8]> {
    let numbers: [&[u8]; 4] = [b"NaN", b"-NaN", b"-Infinity", b"Infinity"];
    let mut written: Vec<u8> = vec![];
    // `written` contains `text` up to here
    let mut copied = 0;
    let mut at = 0;
    let mut is_in_string = false;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => is_in_string = !is_in_string,
            // an escaped character ends no string
            b'\\' if is_in_string => at += 1,
            b'N' | b'I' | b'-' if !is_in_string => {
                let rest = &text[at..];
                let number = numbers.iter().find(|number| rest.starts_with(number));
                if let Some(number) = number {
                    written.extend_from_slice(&text[copied..at]);
                    written.extend_from_slice(b"null");
                    at += number.len();
                    copied = at;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    written.extend_from_slice(&text[copied..]);
    Cow::Owned(written)
}

/// Parsed keys of a result. The model's answers, which dominate a detailed result, are skipped and
/// take no memory.
#[derive(Default)]
struct ResultFields {
    /// Texts, and statistics over all requests.
    scalars: Map<String, Value>,
    /// Values per request: `ttfts`, `itls`, `latencies`; nested lists are concatenated.
    lists: BTreeMap<String, Vec<f64>>,
    /// `percentiles`.
    percentiles: BTreeMap<String, Option<f64>>,
}

impl ResultFields {
    fn get(&self, key: &str) -> Option<&Value> {
        self.scalars.get(key)
    }
}

impl<'de> Deserialize<'de> for ResultFields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ResultVisitor)
    }
}

struct ResultVisitor;

impl<'de> Visitor<'de> for ResultVisitor {
    type Value = ResultFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResultFields, A::Error> {
        let mut fields = ResultFields::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "ttfts" | "itls" | "latencies" => {
                    let numbers = map.next_value::<Numbers>()?;
                    numbers.collect_into(fields.lists.entry(key).or_default());
                }
                "percentiles" => fields.percentiles = map.next_value()?,
                _ if is_figure(&key) => {
                    let value = map.next_value::<Value>()?;
                    fields.scalars.insert(key, value);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(fields)
    }
}

fn is_figure(key: &str) -> bool {
    let texts = ["backend", "model", "model_id", "completed", "avg_latency"];
    let is_latency = key.ends_with("_ms")
        && ["mean_", "median_", "p99_"]
            .iter()
            .any(|begin| key.starts_with(begin));
    is_latency || texts.contains(&key)
}

/// Number of a list, or a list in it; nothing for a failed request.
#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    One(f64),
    Nested(Vec<Numbers>),
    Failed(()),
}

impl Numbers {
    fn collect_into(self, all: &mut Vec<f64>) {
        match self {
            Numbers::One(number) => all.push(number),
            Numbers::Nested(list) => list.into_iter().for_each(|one| one.collect_into(all)),
            Numbers::Failed(()) => {}
        }
    }
}

fn run_latencies(run: &ResultFields) -> Option<RequestLatencies> {
    let mut latencies = vec![];
    for kind in LatencyKind::ALL {
        latencies.extend(summary_latency(run, kind).or_else(|| detailed_latency(run, kind)));
    }
    // `vllm bench latency` runs one batch repeatedly.
    if latencies.is_empty() {
        let mean_ns = seconds_ns(run.get("avg_latency"))?;
        let percentile = |which: &str| rounded_ns((*run.percentiles.get(which)?)? * 1e9);
        latencies.push(LatencyTotals {
            kind: LatencyKind::Batch,
            mean_ns: Some(mean_ns),
            median_ns: percentile("50"),
            p99_ns: percentile("99"),
        });
    }
    let text = |key: &str| run.get(key).and_then(Value::as_str).unwrap_or_default();
    let model = match text("model_id") {
        "" => text("model"),
        model => model,
    };
    let measured = run.lists.get("latencies");
    let requests = run.get("completed").and_then(Value::as_u64);
    Some(RequestLatencies {
        backend: text("backend").to_owned(),
        model: model.to_owned(),
        requests: requests.unwrap_or(measured.map_or(0, |all| all.len() as u64)),
        latencies,
    })
}

/// Returns the statistics computed by the benchmark, from milliseconds.
fn summary_latency(run: &ResultFields, kind: LatencyKind) -> Option<LatencyTotals> {
    let mut found = LatencyTotals {
        kind,
        ..LatencyTotals::default()
    };
    for key in kind.keys() {
        let figure = |which: &str| {
            let value = run.get(&format!("{which}_{key}_ms"))?.as_f64()?;
            rounded_ns(value * 1e6)
        };
        found.mean_ns = found.mean_ns.or_else(|| figure("mean"));
        found.median_ns = found.median_ns.or_else(|| figure("median"));
        found.p99_ns = found.p99_ns.or_else(|| figure("p99"));
    }
    (found.mean_ns.is_some() || found.median_ns.is_some()).then_some(found)
}

/// Computes the statistics from the values of each request, in seconds.
fn detailed_latency(run: &ResultFields, kind: LatencyKind) -> Option<LatencyTotals> {
    let key = match kind {
        LatencyKind::Ttft => "ttfts",
        LatencyKind::Itl => "itls",
        LatencyKind::Tpot | LatencyKind::E2el | LatencyKind::Batch => return None,
    };
    let mut all = run.lists.get(key)?.clone();
    all.retain(|seconds| seconds.is_finite());
    all.sort_by(f64::total_cmp);
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    (!all.is_empty()).then(|| LatencyTotals {
        kind,
        mean_ns: rounded_ns(mean * 1e9),
        median_ns: percentile_ns(&all, 0.5),
        p99_ns: percentile_ns(&all, 0.99),
    })
}

/// Interpolates between the two neighbouring values, like `numpy.percentile`.
fn percentile_ns(sorted: &[f64], part: f64) -> Option<i64> {
    let place = part * (sorted.len() as f64 - 1.0);
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let (low, high) = (sorted.get(below)?, sorted.get(above)?);
    rounded_ns((low + (high - low) * (place - place.floor())) * 1e9)
}

fn seconds_ns(value: Option<&Value>) -> Option<i64> {
    rounded_ns(value?.as_f64()? * 1e9)
}

/// Rounds to a time that a clock can show; `None` for the NaN of benchmarks without answered
/// requests.
fn rounded_ns(ns: f64) -> Option<i64> {
    (ns.is_finite() && (0.0..9.2e18).contains(&ns)).then(|| ns.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_vllm() {
        let text = br#"{"backend": "vllm", "model_id": "m", "completed": 3,
            "output_throughput": 516.44, "mean_ttft_ms": 12.5, "median_ttft_ms": 12.0,
            "std_ttft_ms": 1.0, "p99_ttft_ms": 20.25, "mean_e2el_ms": 100.0}"#;
        assert!(is_latency_file(text));
        let runs = read_latencies(&text[..]).expect("a result");
        assert_eq!(runs.len(), 1);
        assert_eq!((runs[0].requests, runs[0].model.as_str()), (3, "m"));
        let ttft = runs[0].latencies[0];
        assert_eq!(ttft.kind, LatencyKind::Ttft);
        assert_eq!(ttft.mean_ns, Some(12_500_000));
        assert_eq!(ttft.p99_ns, Some(20_250_000));
        assert_eq!(runs[0].latencies[1].kind, LatencyKind::E2el);
    }

    /// Values as `numpy`'s means of no requests, written by Python's `json`.
    #[test]
    fn what_is_no_number_hides_no_latency() {
        let text = br#"{"backend": "v\"NaN", "model_id": "NaN", "completed": 3, "speed": -Infinity,
            "mean_ttft_ms": 12.5, "p99_ttft_ms": NaN, "mean_tpot_ms": NaN, "x": [Infinity, NaN]}"#;
        let runs = read_latencies(&text[..]).expect("a result");
        assert_eq!(runs[0].backend, "v\"NaN");
        assert_eq!(runs[0].model, "NaN");
        let [ttft] = runs[0].latencies[..] else {
            panic!("one latency");
        };
        assert_eq!((ttft.mean_ns, ttft.p99_ns), (Some(12_500_000), None));
        let batches = br#"{"avg_latency": 0.5, "percentiles": {"50": 0.5, "99": NaN}}"#;
        let runs = read_latencies(&batches[..]).expect("a result");
        let batch = runs[0].latencies[0];
        assert_eq!((batch.median_ns, batch.p99_ns), (Some(500_000_000), None));
    }

    #[test]
    fn lines_of_sglang_and_a_cut_one() {
        let text = concat!(
            "{\"backend\": \"sglang\", \"mean_ttft_ms\": 1.0, \"mean_e2e_latency_ms\": 9.0}\n",
            "{\"backend\": \"sglang\", \"mean_ttft_ms\": 2.0}\n",
            "{\"backend\": \"sglang\", \"mean_ttft_ms\": 3.",
        );
        let runs = read_latencies(text.as_bytes()).expect("two results");
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[0].latencies[1].mean_ns, Some(9_000_000));
    }

    #[test]
    fn requests_one_by_one() {
        let text = br#"{"num_prompts": 2, "backend": "vllm", "ttfts": [0.1, 0.3],
            "itls": [[0.01, 0.03], [0.02]]}"#;
        let runs = read_latencies(&text[..]).expect("a result");
        let [ttft, itl] = runs[0].latencies[..] else {
            panic!("two latencies");
        };
        assert_eq!(ttft.mean_ns, Some(200_000_000));
        assert_eq!(itl.median_ns, Some(20_000_000));
        assert_eq!(itl.p99_ns, Some(29_800_000));
    }

    #[test]
    fn batches() {
        let text = br#"{"avg_latency": 2.5, "latencies": [2, 3],
            "percentiles": {"50": 2.5, "99": 2.99}}"#;
        assert!(is_latency_file(text));
        let runs = read_latencies(&text[..]).expect("a result");
        assert_eq!(runs[0].latencies[0].p99_ns, Some(2_990_000_000));
        assert_eq!(runs[0].requests, 2);
    }

    #[test]
    fn other_json_is_refused() {
        for text in ["{}", "[1]", "", "{\"mean_ttft_ms\": null}"] {
            let read = read_latencies(text.as_bytes());
            assert!(read.is_err(), "{text}");
        }
    }
}
