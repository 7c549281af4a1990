//! Workload cards of ccl-bench: descriptions of a run, its hardware and its recordings.
//!
//! Real cards are loose: keys are missing, numbers are in lists or in quotes. Unreadable values are
//! treated as unknown; a card is rejected only if it is not YAML or has no key `workload`.

use crate::metrics::{not_read, too_large};
use etlink_model::Failure;
use serde_json::{Map, Value, json};
use std::io::Read;

/// Maximum size of a card, bytes; real cards have a few kilobytes.
const MAX_BYTES: u64 = 1 << 20;

/// A workload card.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadCard {
    /// The whole card as read.
    source: Value,
}

/// Facts about a run that fill gaps of its card; empty if unknown.
#[derive(Clone, Debug, Default)]
pub struct CardGaps {
    /// `training`, `inference` or `serving`.
    pub phase: &'static str,
    /// Name of the device.
    pub device: String,
    /// Number of devices of the job.
    pub devices: Option<u64>,
    /// Name of the framework.
    pub framework: &'static str,
    /// Name of the communication library.
    pub communication: String,
    /// Kinds of available traces.
    pub traces: Vec<String>,
    /// Kinds of traces for single metrics.
    pub metric_traces: Vec<String>,
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
        Ok(WorkloadCard { source: card })
    }

    /// Returns the phase of the model: `training`, `inference`, `serving`, or nothing.
    pub fn phase(&self) -> Option<&str> {
        self.source["workload"]["model"]["phase"].as_str()
    }

    /// Returns the sequences per batch.
    pub fn batch_size(&self) -> Option<u64> {
        count_of(&self.source["workload"]["data"]["batch_size"])
    }

    /// Returns the tokens per sequence.
    pub fn seq_len(&self) -> Option<u64> {
        count_of(&self.source["workload"]["data"]["seq_len"])
    }

    /// Formats the card as YAML with its gaps filled in; what remains unknown has an empty value.
    ///
    /// # Errors
    /// Formatting fails, which a card that was read never does.
    pub fn filled(&self, gaps: &CardGaps) -> Result<String, Failure> {
        let device = &self.source["workload"]["hardware"]["xpu_spec"]["model"];
        let has_device = !says_nothing(device) || !gaps.device.is_empty();
        let card = json!({
            "version": 1,
            "description": "",
            "hf_url": "",
            "trace_url": "",
            "contributor": "",
            "contact": "",
            "workload": {
                "model": {
                    "phase": gaps.phase,
                    "moe": null,
                    "granularity": "",
                    "model_family": "",
                    "precision": "",
                    "epochs": null,
                    "iteration": null,
                    "model_arch": {
                        "num_params": null,
                        "num_params_embedding": null,
                        "num_layers": null,
                        "num_heads": null,
                        "head_dim": null,
                    },
                },
                "data": {
                    "batch_size": null,
                    "seq_len": null,
                    "input_len": null,
                    "output_len": null,
                    "dataset": "",
                },
                "hardware": {
                    "network_topo": { "topology": "", "bandwidth_gbps": [] },
                    "xpu_spec": {
                        "type": if has_device { "GPU" } else { "" },
                        "model": gaps.device,
                        "total_count": gaps.devices,
                        "count_per_node": null,
                    },
                    "driver_version": "",
                },
            },
            "Model-executor": {
                "framework": { "name": gaps.framework, "compiler_tool_selection": "" },
                "model_plan_parallelization": {
                    "dp_replicate": null,
                    "dp_shard": null,
                    "tp": null,
                    "pp": null,
                    "cp": null,
                    "ep": null,
                    "pp_mb": null,
                },
                "communication_library": {
                    "name": gaps.communication,
                    "version": "",
                    "env": Map::new(),
                },
                "protocol_selection": [],
            },
            "metric_source": {
                "traces": gaps.traces,
                "metrics_specific_trace": gaps.metric_traces,
            },
        });
        write_yaml(&fill_in(&self.source, card))
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
        assert_eq!(card.phase(), Some("training"));
        assert_eq!((card.batch_size(), card.seq_len()), (Some(4), Some(1024)));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let card = WorkloadCard::read(LOOSE.as_bytes()).expect("a card");
        let gaps = CardGaps::default();
        let text = card.filled(&gaps).expect("YAML");
        let again = WorkloadCard::read(text.as_bytes()).expect("a card");
        assert_eq!(again.filled(&gaps).expect("YAML"), text);
        assert_eq!(
            (again.phase(), again.batch_size(), again.seq_len()),
            (card.phase(), card.batch_size(), card.seq_len())
        );
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
        let card = WorkloadCard::read(text.as_bytes()).expect("a card");
        let gaps = CardGaps {
            phase: "inference",
            traces: vec!["nsys".to_owned()],
            ..CardGaps::default()
        };
        let written = card.filled(&gaps).expect("YAML");
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
