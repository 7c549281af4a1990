//! Workload cards of ccl-bench: descriptions of a run, its hardware and its recordings.
//!
//! Real cards are loose: keys are missing, numbers are in lists or in quotes. Unreadable values are
//! treated as unknown; a card is rejected only if it is not YAML or has no key `workload`.

use crate::metrics::{not_read, too_large};
use etlink_model::Failure;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::Read;

/// Maximum size of a card, bytes; real cards have a few kilobytes.
const MAX_BYTES: u64 = 1 << 20;

/// The parts of a workload card that etlink uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadCard {
    /// Description of the run.
    pub description: String,
    /// `workload.model`.
    pub model: CardModel,
    /// `workload.data.batch_size`.
    pub batch_size: Option<u64>,
    /// `workload.data.seq_len`: tokens per sequence.
    pub seq_len: Option<u64>,
    /// `workload.data.input_len`: tokens per request.
    pub input_len: Option<u64>,
    /// `workload.data.output_len`: tokens per answer.
    pub output_len: Option<u64>,
    /// `workload.hardware.xpu_spec.model`: name of the device.
    pub device: String,
    /// `workload.hardware.xpu_spec.total_count`.
    pub devices: Option<u64>,
    /// `workload.hardware.xpu_spec.count_per_node`.
    pub devices_per_node: Option<u64>,
    /// `Model-executor.framework.name`.
    pub framework: String,
    /// `Model-executor.model_plan_parallelization`.
    pub parallelism: CardParallelism,
    /// `Model-executor.communication_library.name`.
    pub communication: String,
    /// `metric_source.traces`: kinds of available traces.
    pub traces: Vec<String>,
    /// `metric_source.metrics_specific_trace`: kinds of traces for single metrics.
    pub metric_traces: Vec<String>,
    /// The whole card as read, including unused parts.
    #[serde(skip)]
    pub source: Value,
}

/// Model described by a card.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CardModel {
    /// `training`, `inference` or `serving`.
    pub phase: String,
    /// `model_family`.
    pub family: String,
    /// `precision`.
    pub precision: String,
    /// `model_arch.num_params`.
    pub parameters: Option<u64>,
}

/// Degrees of parallelism of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CardParallelism {
    /// Replicas in data parallelism.
    pub dp_replicate: Option<u64>,
    /// Shards of the parameters in data parallelism.
    pub dp_shard: Option<u64>,
    /// Degree of tensor parallelism.
    pub tp: Option<u64>,
    /// Degree of pipeline parallelism.
    pub pp: Option<u64>,
    /// Degree of context parallelism.
    pub cp: Option<u64>,
    /// Degree of expert parallelism.
    pub ep: Option<u64>,
}

/// Keys that are specific to cards, unlike other programs' settings.
const OWN_KEYS: [&[u8]; 5] = [
    b"metric_source:",
    b"Model-executor:",
    b"model_family:",
    b"xpu_spec:",
    b"hf_url:",
];

/// Returns true if a file begins like a workload card: a line `workload:`, and a key specific to
/// cards.
pub fn is_workload_card(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut all = lines.clone();
    all.any(|line| line.starts_with(b"workload:")) && lines.any(has_own_key)
}

fn has_own_key(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    OWN_KEYS.iter().any(|key| line.starts_with(key))
}

impl WorkloadCard {
    /// Reads a card.
    ///
    /// # Errors
    /// The source fails, is not YAML, or has no key `workload`.
    pub fn read<R: Read>(source: R) -> Result<WorkloadCard, Failure> {
        let mut text = String::new();
        source
            .take(MAX_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(not_read)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(too_large(MAX_BYTES, "workload card"));
        }
        let card = parse_yaml(&text)?;
        if !card["workload"].is_object() {
            let problem = "not a ccl-bench workload card: the key \"workload\" is missing";
            return Err(Failure::new(problem));
        }
        let (model, data) = (&card["workload"]["model"], &card["workload"]["data"]);
        let devices = &card["workload"]["hardware"]["xpu_spec"];
        let executor = &card["Model-executor"];
        let plan = &executor["model_plan_parallelization"];
        let source = &card["metric_source"];
        Ok(WorkloadCard {
            description: text_of(&card["description"]),
            model: CardModel {
                phase: text_of(&model["phase"]),
                family: text_of(&model["model_family"]),
                precision: text_of(&model["precision"]),
                parameters: count_of(&model["model_arch"]["num_params"]),
            },
            batch_size: count_of(&data["batch_size"]),
            seq_len: count_of(&data["seq_len"]),
            input_len: count_of(&data["input_len"]),
            output_len: count_of(&data["output_len"]),
            device: text_of(&devices["model"]),
            devices: count_of(&devices["total_count"]),
            devices_per_node: count_of(&devices["count_per_node"]),
            framework: text_of(&executor["framework"]["name"]),
            parallelism: CardParallelism {
                dp_replicate: count_of(&plan["dp_replicate"]),
                dp_shard: count_of(&plan["dp_shard"]),
                tp: count_of(&plan["tp"]),
                pp: count_of(&plan["pp"]),
                cp: count_of(&plan["cp"]),
                ep: count_of(&plan["ep"]),
            },
            communication: text_of(&executor["communication_library"]["name"]),
            traces: texts_of(&source["traces"]),
            metric_traces: texts_of(&source["metrics_specific_trace"]),
            source: card,
        })
    }

    /// Formats the card as YAML, with empty values to fill in for everything unknown. Values from
    /// the original card stay unchanged.
    ///
    /// # Errors
    /// Formatting fails, which a card that was read never does.
    pub fn write(&self) -> Result<String, Failure> {
        let plan = &self.parallelism;
        let card = json!({
            "version": 1,
            "description": self.description,
            "hf_url": "",
            "trace_url": "",
            "contributor": "",
            "contact": "",
            "workload": {
                "model": {
                    "phase": self.model.phase,
                    "moe": null,
                    "granularity": "",
                    "model_family": self.model.family,
                    "precision": self.model.precision,
                    "epochs": null,
                    "iteration": null,
                    "model_arch": {
                        "num_params": self.model.parameters,
                        "num_params_embedding": null,
                        "num_layers": null,
                        "num_heads": null,
                        "head_dim": null,
                    },
                },
                "data": {
                    "batch_size": self.batch_size,
                    "seq_len": self.seq_len,
                    "input_len": self.input_len,
                    "output_len": self.output_len,
                    "dataset": "",
                },
                "hardware": {
                    "network_topo": { "topology": "", "bandwidth_gbps": [] },
                    "xpu_spec": {
                        "type": if self.device.is_empty() { "" } else { "GPU" },
                        "model": self.device,
                        "total_count": self.devices,
                        "count_per_node": self.devices_per_node,
                    },
                    "driver_version": "",
                },
            },
            "Model-executor": {
                "framework": { "name": self.framework, "compiler_tool_selection": "" },
                "model_plan_parallelization": {
                    "dp_replicate": plan.dp_replicate,
                    "dp_shard": plan.dp_shard,
                    "tp": plan.tp,
                    "pp": plan.pp,
                    "cp": plan.cp,
                    "ep": plan.ep,
                    "pp_mb": null,
                },
                "communication_library": {
                    "name": self.communication,
                    "version": "",
                    "env": Map::new(),
                },
                "protocol_selection": [],
            },
            "metric_source": {
                "traces": self.traces,
                "metrics_specific_trace": self.metric_traces,
            },
        });
        let card = fill_in(&self.source, card);
        write_yaml(&card)
    }
}

#[cfg(feature = "cards")]
fn not_yaml(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("the file is not valid YAML: {error}"))
}

#[cfg(not(feature = "cards"))]
fn no_cards() -> Failure {
    let problem = "workload cards need a build of etlink with the feature `cards`";
    let remedy = "build etlink with all features: `cargo install --path crates/etlink --profile dist \
                  --features full`";
    Failure::new(problem).advise(remedy)
}

#[cfg(feature = "cards")]
fn parse_yaml(text: &str) -> Result<Value, Failure> {
    serde_saphyr::from_str(text).map_err(|error| not_yaml(&error))
}

#[cfg(feature = "cards")]
fn write_yaml(card: &Value) -> Result<String, Failure> {
    serde_saphyr::to_string(card).map_err(|error| not_yaml(&error))
}

#[cfg(not(feature = "cards"))]
fn parse_yaml(_: &str) -> Result<Value, Failure> {
    Err(no_cards())
}

#[cfg(not(feature = "cards"))]
fn write_yaml(_: &Value) -> Result<String, Failure> {
    Err(no_cards())
}

/// Merges `found` into the gaps of `known`.
fn fill_in(known: &Value, found: Value) -> Value {
    match (known, found) {
        (Value::Object(known), Value::Object(found)) => {
            let mut all = Map::new();
            for (key, value) in found {
                let own = known.get(&key).unwrap_or(&Value::Null);
                let value = fill_in(own, value);
                all.insert(key, value);
            }
            for (key, value) in known {
                if !all.contains_key(key) {
                    all.insert(key.clone(), value.clone());
                }
            }
            Value::Object(all)
        }
        (known, found) if says_nothing(known) => found,
        (known, _) => known.clone(),
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns a text, or a number as text; for a list, its first item.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Array(all) => all.first().map(text_of).unwrap_or_default(),
        _ => String::new(),
    }
}

/// Returns a count, also in quotes, with separators or as 7e9; for a list, its first item.
fn count_of(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number
            .as_u64()
            .or_else(|| number.as_f64().and_then(whole_count)),
        Value::String(text) => {
            let digits = text.replace([',', '_'], "");
            digits.trim().parse::<f64>().ok().and_then(whole_count)
        }
        Value::Array(all) => all.first().and_then(count_of),
        _ => None,
    }
}

/// Converts a float to a count; floats are exact up to 2^53.
fn whole_count(number: f64) -> Option<u64> {
    let is_count = (0.0..9.0e15).contains(&number) && number.fract() == 0.0;
    is_count.then_some(number as u64)
}

fn texts_of(value: &Value) -> Vec<String> {
    match value {
        Value::Array(all) => all.iter().map(text_of).collect(),
        Value::Null => vec![],
        one => vec![text_of(one)],
    }
}

#[cfg(all(test, feature = "cards"))]
mod tests {
    use super::*;

    const LOOSE: &str = "
version: 1
description: Llama on four A100
workload:
  model: {phase: training, model_family: llama-3.1-8b, model_arch: {num_params: 8.03e9}}
  data:
    batch_size: '4'
    seq_len: [1024]
    dataset:
  hardware:
    xpu_spec: {type: GPU, model: nvidia_a100, total_count: 4, count_per_node: 4}
Model-executor:
  framework: {name: torchtitan}
  model_plan_parallelization: {dp_shard: 2, tp: 2}
  communication_library: {name: NCCL}
metric_source:
  traces: kineto_trace
";

    #[test]
    fn a_loose_card() {
        assert!(is_workload_card(LOOSE.as_bytes()));
        let card = WorkloadCard::read(LOOSE.as_bytes()).expect("a card");
        assert_eq!((card.batch_size, card.seq_len), (Some(4), Some(1024)));
        assert_eq!(card.model.parameters, Some(8_030_000_000));
        assert_eq!((card.parallelism.tp, card.parallelism.pp), (Some(2), None));
        assert_eq!(card.traces, ["kineto_trace"]);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let card = WorkloadCard::read(LOOSE.as_bytes()).expect("a card");
        let text = card.write().expect("YAML");
        let again = WorkloadCard::read(text.as_bytes()).expect("a card");
        assert_eq!(again.write().expect("YAML"), text);
        let source = card.source.clone();
        assert_eq!(WorkloadCard { source, ..again }, card);
    }

    #[test]
    fn what_nothing_here_uses_is_written_too() {
        let text = "
hf_url: https://example.org/qwen
workload:
  model: {phase: training, moe: false, model_arch: {num_layers: 28}}
  hardware: {network_topo: {topology: nvlink, bandwidth_gbps: [400, 3600]}}
  notes: [own]
metric_source: {traces: [], metrics_specific_trace: []}
";
        let mut card = WorkloadCard::read(text.as_bytes()).expect("a card");
        card.traces = vec!["nsys".to_owned()];
        card.model.phase = "inference".to_owned();
        let written = card.write().expect("YAML");
        let again: Value = serde_saphyr::from_str(&written).expect("YAML");
        assert_eq!(again["hf_url"], "https://example.org/qwen");
        let model = &again["workload"]["model"];
        assert_eq!(model["moe"], false);
        assert_eq!(model["model_arch"]["num_layers"], 28);
        assert_eq!(model["model_arch"]["num_heads"], Value::Null);
        let network = &again["workload"]["hardware"]["network_topo"];
        assert_eq!(network["bandwidth_gbps"], json!([400, 3600]));
        assert_eq!(again["workload"]["notes"], json!(["own"]));
        // existing values take precedence, and gaps are filled in
        assert_eq!(model["phase"], "training");
        assert_eq!(again["metric_source"]["traces"], json!(["nsys"]));
    }

    #[test]
    fn other_yaml_is_refused() {
        for text in ["a: 1", "- 1", "", "workload: 3"] {
            let read = WorkloadCard::read(text.as_bytes());
            assert!(read.is_err(), "{text:?}: {read:?}");
        }
        let read = WorkloadCard::read(&b"a: [1"[..]);
        assert!(read.is_err(), "{read:?}");
    }

    #[test]
    fn aliases_that_grow_do_not_fill_memory() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let last = format!("*a{}", level - 1);
            let list = [&last[..]; 9].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{list}]\n"));
        }
        text.push_str("workload: {}\n");
        let read = WorkloadCard::read(text.as_bytes());
        let error = read.expect_err("is refused").to_string();
        assert!(error.contains("not valid YAML"), "{error}");
    }
}
