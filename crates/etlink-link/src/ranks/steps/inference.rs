//! Annotations of inference engines around an iteration, and the meaning of their names.
//!
//! ```text
//! vLLM    execute_context_1(888)_generation_3(3)          requests(tokens) of prompts, of decoding
//!         execute_891_context_1(sq888sk888…)_generation_3(sq3sk90…)   the same, detailed
//!         execute_new_1_cached_3                          new and other requests
//! SGLang  step[EXTEND bs=1 toks=107], step[DECODE bs=32], step[MIXED bs=66 c=2 g=64 c_sq=… g_sq=…]
//! ATOM    prefill[bs=1 tok=888 ctx=888], decode[bs=32 …], eager_decode[bs=32 …]
//! SGLang  run_batch, scheduler.run_batch                  around `step[…]`, or alone
//! vLLM    gpu_model_runner: forward, v2_gpu_model_runner: forward
//! ```
//! From `Worker.annotate_profile` in vLLM's `v1/worker/gpu_worker.py`, `build_step_span_name` and
//! `_pp_launch_batch` of SGLang, and `run_model` of ROCm's ATOM.

use etlink_model::StepWork;

/// Engine that wrote a name, most informative first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InferenceEngine {
    /// vLLM's worker.
    Vllm,
    /// The model runner of SGLang.
    Sglang,
    /// ATOM.
    Atom,
    /// The scheduler of SGLang.
    SglangBatch,
    /// vLLM with `VLLM_CUSTOM_SCOPES_FOR_PROFILING`.
    VllmForward,
}

/// Returns the engine that writes such names, and the work stated in the name; `None` for other
/// names.
pub(super) fn step_work(name: &str) -> Option<(InferenceEngine, StepWork)> {
    if let Some(rest) = name.strip_prefix("execute_") {
        return Some((InferenceEngine::Vllm, vllm_work(rest)?));
    }
    if let Some(fields) = name.strip_prefix("step[") {
        return Some((InferenceEngine::Sglang, sglang_work(fields)?));
    }
    if let Some((phase, fields)) = name.split_once("[bs=") {
        return Some((InferenceEngine::Atom, atom_work(phase, fields)?));
    }
    let engine = match name {
        "run_batch" | "scheduler.run_batch" => InferenceEngine::SglangBatch,
        "gpu_model_runner: forward" | "v2_gpu_model_runner: forward" => {
            InferenceEngine::VllmForward
        }
        _ => return None,
    };
    Some((engine, StepWork::default()))
}

/// Parses the text after `execute_`.
fn vllm_work(rest: &str) -> Option<StepWork> {
    if let Some(counts) = rest.strip_prefix("new_") {
        let (new, cached) = counts.split_once("_cached_")?;
        let (new, cached) = (new.parse().ok()?, cached.parse().ok()?);
        return Some(request_work(new, cached, None));
    }
    // the detailed form starts with the number of all tokens
    let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let rest = rest.strip_prefix('_').unwrap_or(rest);
    let counts = rest.strip_prefix("context_")?;
    let Some((context, generation)) = counts.split_once("_generation_") else {
        // from another program: a step, but with unknown work
        return Some(StepWork::default());
    };
    let (prompts, prompt_tokens) = requests_and_tokens(context)?;
    let (decoding, decoded_tokens) = requests_and_tokens(generation)?;
    let tokens = prompt_tokens.saturating_add(decoded_tokens);
    Some(request_work(prompts, decoding, Some(tokens)))
}

/// Parses requests and their tokens: `3(12)`, `3(sq12sk90sqsq48sqsk360)` or `3(12_144)`.
fn requests_and_tokens(text: &str) -> Option<(u64, u64)> {
    let (requests, tokens) = text.split_once('(')?;
    let tokens = tokens.strip_prefix("sq").unwrap_or(tokens);
    let end = tokens.find(|char: char| !char.is_ascii_digit())?;
    Some((requests.parse().ok()?, tokens[..end].parse().ok()?))
}

/// Returns the work of requests that read prompts and requests that decode.
fn request_work(prompts: u64, decoding: u64, tokens: Option<u64>) -> StepWork {
    let phase = match (prompts > 0, decoding > 0) {
        (true, true) => Some("mixed"),
        (true, false) => Some("prefill"),
        (false, true) => Some("decode"),
        // an idle rank of data parallelism runs a dummy batch
        (false, false) => None,
    };
    StepWork {
        phase: phase.map(str::to_owned),
        batch: Some(prompts.saturating_add(decoding)),
        tokens,
    }
}

/// Parses the text after `step[`.
fn sglang_work(fields: &str) -> Option<StepWork> {
    let fields = fields.strip_suffix(']')?;
    let mode = fields.split(' ').next()?.to_ascii_uppercase();
    // the modes of `ForwardMode` in `forward_batch_info.py`
    let phase = match mode.as_str() {
        "EXTEND" | "PREFILL" | "SPLIT_PREFILL" => Some("prefill"),
        "MIXED" => Some("mixed"),
        // drafts for speculative decoding are made and verified while decoding
        "DECODE" | "TARGET_VERIFY" | "DRAFT_EXTEND" | "DRAFT_EXTEND_V2" => Some("decode"),
        _ => None,
    };
    let batch = field(fields, "bs");
    let tokens = match mode.as_str() {
        // one token per request
        "DECODE" => field(fields, "toks").or(batch),
        "MIXED" => sum_of_fields(fields, ["c_sq", "g_sq"])
            .or_else(|| sum_of_fields(fields, ["ext", "dec"])),
        _ => field(fields, "toks"),
    };
    Some(StepWork {
        phase: phase.map(str::to_owned),
        batch,
        tokens,
    })
}

/// Parses the text before and after `[bs=`.
fn atom_work(phase: &str, fields: &str) -> Option<StepWork> {
    let phase = match phase {
        "prefill" => "prefill",
        "decode" | "eager_decode" => "decode",
        _ => return None,
    };
    let end = fields.find([' ', ']'])?;
    Some(StepWork {
        phase: Some(phase.to_owned()),
        batch: fields[..end].parse().ok(),
        tokens: field(fields.trim_end_matches(']'), "tok"),
    })
}

/// Returns the number of `key=12` among words.
fn field(fields: &str, key: &str) -> Option<u64> {
    let mut pairs = fields.split(' ').filter_map(|word| word.split_once('='));
    pairs.find(|(own, _)| *own == key)?.1.parse().ok()
}

fn sum_of_fields(fields: &str, keys: [&str; 2]) -> Option<u64> {
    let [first, second] = keys.map(|key| field(fields, key));
    Some(first?.saturating_add(second?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str) -> (&'static str, Option<u64>, Option<u64>) {
        let (_, work) = step_work(name).expect("a step of inference");
        let phases = ["prefill", "decode", "mixed"];
        let phase = phases
            .into_iter()
            .find(|phase| work.phase.as_deref() == Some(phase));
        (phase.unwrap_or("-"), work.batch, work.tokens)
    }

    #[test]
    fn names_of_vllm() {
        assert_eq!(
            said("execute_context_1(888_788544)_generation_0(0)"),
            ("prefill", Some(1), Some(888))
        );
        assert_eq!(
            said("execute_context_2(40)_generation_3(3)"),
            ("mixed", Some(5), Some(43))
        );
        let detailed = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32)";
        assert_eq!(said(detailed), ("decode", Some(32), Some(32)));
        assert_eq!(said("execute_new_1_cached_0"), ("prefill", Some(1), None));
        assert_eq!(said("execute_new_0_cached_7"), ("decode", Some(7), None));
        assert_eq!(said("execute_context_4"), ("-", None, None));
    }

    #[test]
    fn names_of_sglang() {
        assert_eq!(
            said("step[EXTEND bs=1 toks=107]"),
            ("prefill", Some(1), Some(107))
        );
        assert_eq!(
            said("step[DECODE bs=64 g_sqsq=64 g_sk=100032]"),
            ("decode", Some(64), Some(64))
        );
        let mixed = "step[MIXED bs=66 c=2 g=64 c_sq=2048 c_sk=2048 g_sq=64 g_sk=65600]";
        assert_eq!(said(mixed), ("mixed", Some(66), Some(2112)));
        assert_eq!(
            said("step[mixed bs=3 ext=10 dec=2]"),
            ("mixed", Some(3), Some(12))
        );
        assert_eq!(said("step[TARGET_VERIFY bs=4]"), ("decode", Some(4), None));
        assert_eq!(said("step[IDLE bs=0]"), ("-", Some(0), None));
        assert_eq!(said("run_batch"), ("-", None, None));
    }

    #[test]
    fn names_of_atom() {
        assert_eq!(
            said("prefill[bs=2 tok=90 ctx=[45, 45]]"),
            ("prefill", Some(2), Some(90))
        );
        assert_eq!(said("decode[bs=8]"), ("decode", Some(8), None));
    }

    #[test]
    fn other_names_are_no_steps() {
        let names = [
            "execute_model",
            "execute_new_plan",
            "step[",
            "step 7",
            "flash_decode[bs=4]",
            "forward",
        ];
        for name in names {
            assert!(step_work(name).is_none(), "{name}");
        }
    }
}
