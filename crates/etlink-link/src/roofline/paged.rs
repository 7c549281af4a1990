//! Attention over pages of a cache: its arguments lack the lengths of the sequences, but the range of
//! the engine's step states them.
//!
//! ```text
//! execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)
//!     sums over the sequences: queries s, keys t, s squared, s t
//! ```

use super::formulas::RooflineFormula;
use super::{ArgumentValues, RooflineWork, TensorShapes};
use crate::trace::LinkedTrace;
use etlink_model::TimeNs;

/// Sums over the sequences of a step: prompts, then sequences that are decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SequenceLengths([LengthSums; 2]);

/// Sums over sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct LengthSums {
    /// Queries.
    queries: u64,
    /// Keys.
    keys: u64,
    /// Pairs of queries and keys that a causal mask leaves.
    pairs: u64,
}

impl SequenceLengths {
    /// Returns the sums over the sequences with this number of queries: of all, of the prompts, or of
    /// the others. A graph's padded batch has none.
    fn of_queries(self, queries: u64) -> Option<LengthSums> {
        let [prompts, others] = self.0;
        let all = LengthSums {
            queries: prompts.queries.checked_add(others.queries)?,
            keys: prompts.keys.checked_add(others.keys)?,
            pairs: prompts.pairs.checked_add(others.pairs)?,
        };
        let kinds = [all, prompts, others];
        kinds.into_iter().find(|sums| sums.queries == queries)
    }
}

/// Steps that state the lengths of their sequences, by time.
pub(super) struct StepLengths(Vec<(TimeNs, TimeNs, SequenceLengths)>);

impl StepLengths {
    /// Finds the steps of a trace. O(ops).
    pub(super) fn new(trace: &LinkedTrace) -> StepLengths {
        let ops = &trace.device.ops;
        let annotations = (0..ops.len()).filter(|op| ops.annotation[*op]);
        let steps = annotations.filter_map(|op| {
            let lengths = sequence_lengths(trace.device_name(ops.name[op]))?;
            let start = ops.start[op];
            Some((start, start + ops.duration[op], lengths))
        });
        StepLengths(steps.collect())
    }

    /// Returns the lengths of the step at a time. O(steps), mostly O(log steps).
    pub(super) fn at(&self, time: TimeNs) -> Option<SequenceLengths> {
        let begun = self.0.partition_point(|(start, _, _)| *start <= time);
        // the innermost range that has not ended
        let mut latest = self.0.get(..begun)?.iter().rev();
        let (_, _, lengths) = latest.find(|(_, end, _)| time < *end)?;
        Some(*lengths)
    }
}

/// Parses the name of a step.
fn sequence_lengths(name: &str) -> Option<SequenceLengths> {
    let rest = name.strip_prefix("execute_")?;
    let mut all = SequenceLengths::default();
    for (kind, sums) in ["context_", "generation_"].iter().zip(&mut all.0) {
        let (_, rest) = rest.split_once(*kind)?;
        let (text, _) = rest.split_once('(')?.1.split_once(')')?;
        let rest = text.strip_prefix("sq")?;
        let (queries, rest) = rest.split_once("sk")?;
        let (keys, rest) = rest.split_once("sqsq")?;
        let (squares, products) = rest.split_once("sqsk")?;
        let [queries, keys, squares, products] = [queries, keys, squares, products].map(str::parse);
        let (queries, squares): (u64, u64) = (queries.ok()?, squares.ok()?);
        // the last query sees all keys, each earlier one sees one fewer
        let hidden = squares.checked_sub(queries)? / 2;
        let products: u64 = products.ok()?;
        *sums = LengthSums {
            queries,
            keys: keys.ok()?,
            pairs: products.checked_sub(hidden)?,
        };
    }
    Some(all)
}

/// Places of an op's arguments.
struct PagedOp {
    /// Query, `[tokens, heads, depth]`.
    query: u32,
    /// Pages of keys; of values in the next argument.
    keys: u32,
    /// The flag of a causal mask, then two numbers that limit the keys of a query, -1 for no limit;
    /// without it, queries are those of decoding.
    mask: Option<u32>,
}

/// Returns the places of the arguments of an op whose windows are known. Layers of vLLM's
/// `unified_attention` may have windows, which no argument states.
fn paged_op(name: &str) -> Option<PagedOp> {
    match name {
        // `mha_batch_prefill` of AITER 0.1
        "aiter::mha_batch_prefill" => Some(PagedOp {
            query: 0,
            keys: 1,
            mask: Some(12),
        }),
        // SGLang numbers the ops that it wraps for profiles
        _ if name.starts_with("sglang_profiler::attention_paged_attention_ragged") => {
            Some(PagedOp {
                query: 2,
                keys: 3,
                mask: None,
            })
        }
        _ => None,
    }
}

/// True if the work of an op follows from the lengths of its step.
pub(super) fn is_paged(name: &str) -> bool {
    paged_op(name).is_some()
}

/// Returns the work of an attention over pages; `None` for other ops.
pub(super) fn paged_work(
    name: &str,
    inputs: &TensorShapes,
    values: ArgumentValues<'_>,
    lengths: SequenceLengths,
) -> Option<RooflineWork> {
    let op = paged_op(name)?;
    if let Some(flag) = op.mask {
        let windows = [flag + 1, flag + 2].map(|number| values.integer(number));
        if values.flag(flag) != Some(true) || windows != [Some(-1); 2] {
            return None;
        }
    }
    let query = inputs.argument(op.query)?;
    let (keys, other) = (inputs.argument(op.keys)?, inputs.argument(op.keys + 1)?);
    let &[tokens, heads, depth] = query.dims else {
        return None;
    };
    let (&[.., key_heads, _], &value_depth) = (keys.dims, other.dims.last()?) else {
        return None;
    };
    let sums = lengths.of_queries(tokens)?;
    let both = depth.saturating_add(value_depth);
    let result = tokens.saturating_mul(heads).saturating_mul(value_depth);
    let read = [sums.keys, key_heads, both, keys.element_bytes];
    let bytes = [
        query.bytes(),
        result.saturating_mul(query.element_bytes),
        read.into_iter().fold(1, u64::saturating_mul),
    ];
    let operations = [2, heads, sums.pairs, both];
    Some(RooflineWork {
        operations: operations.into_iter().fold(1, u64::saturating_mul),
        bytes: bytes.into_iter().fold(0, u64::saturating_add),
        formula: RooflineFormula::CausalAttention,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps and shapes of SGLang 0.5 with Qwen3-8B on an MI300X: decoding of 32 sequences, and 15
    /// prompts of 1,024 tokens.
    #[test]
    fn lengths_of_the_step_give_the_work() {
        let decode =
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)";
        let decode = sequence_lengths(decode).expect("parses");
        let mut inputs = TensorShapes::default();
        let half = r#""c10::BFloat16""#;
        inputs.read(
            "[[32, 32, 128], [10905190400], [32, 32, 128], [835874, 1, 8, 128], [835874, 1, 8, 128]]",
            &format!(r#"[{half}, "unsigned char", {half}, {half}, {half}]"#),
        );
        let name = "sglang_profiler::attention_paged_attention_ragged_100";
        let found = paged_work(name, &inputs, ArgumentValues::new(""), decode).expect("known");
        assert_eq!(found.operations, 2 * 32 * 32_785 * 256);
        assert_eq!(found.bytes, 2 * (2 * 32 * 32 * 128 + 32_785 * 8 * 256));

        let prompts = "execute_15360_context_15(sq15360sk15360sqsq15728640sqsk15728640)_generation_0(sq0sk0sqsq0sqsk0)";
        let prompts = sequence_lengths(prompts).expect("parses");
        inputs.read(
            "[[15360, 32, 128], [835874, 8, 128], [835874, 8, 128]]",
            &format!("[{half}, {half}, {half}]"),
        );
        let masked = |causal: &str, first: i64| {
            format!(
                "[{}\"{causal}\", \"{first}\", \"-1\"]",
                r#""", "#.repeat(12)
            )
        };
        let name = "aiter::mha_batch_prefill";
        let of = |text: &str| paged_work(name, &inputs, ArgumentValues::new(text), prompts);
        let found = of(&masked("True", -1)).expect("known");
        assert_eq!(found.operations, 2 * 32 * 15 * (1024 * 1025 / 2) * 256);
        assert_eq!(of(&masked("True", 128)), None);
        assert_eq!(of(&masked("False", -1)), None);
        for other in [
            "execute_new_1_cached_3",
            "execute_context_1(8)_generation_0(0)",
        ] {
            assert_eq!(sequence_lengths(other), None);
        }
    }
}
