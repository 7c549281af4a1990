//! Pairs of queries and keys that an attention multiplies, by the arguments of its op.

use super::values::ArgumentValues;

/// Keys visible to the queries. Masks that are tensors count as none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttentionMask {
    /// Each query sees all keys.
    None,
    /// Query i sees the keys up to i.
    FromFirst,
    /// The last query sees all keys, and each earlier one sees one fewer.
    ToLast,
}

impl AttentionMask {
    /// Number of visible pairs among s queries and t keys; s (s + 1) / 2 with a mask and s = t.
    pub(super) fn pairs(self, s: u64, t: u64) -> u64 {
        let triangle = |n: u64| (u128::from(n) * (u128::from(n) + 1)) / 2;
        let rest = u128::from(s.abs_diff(t));
        let pairs = match self {
            AttentionMask::None => u128::from(s) * u128::from(t),
            AttentionMask::FromFirst if s <= t => triangle(s),
            // queries after the last key see all keys
            AttentionMask::FromFirst => triangle(t) + rest * u128::from(t),
            AttentionMask::ToLast if s <= t => triangle(s) + rest * u128::from(s),
            AttentionMask::ToLast => triangle(t),
        };
        u64::try_from(pairs).unwrap_or(u64::MAX)
    }
}

/// Returns the mask that the op's flag, or number, states; none if the trace lacks it.
pub(super) fn attention_mask(name: &str, values: ArgumentValues<'_>) -> AttentionMask {
    let known = FLAGS.iter().find(|(known, _, _)| *known == name);
    if let Some((_, argument, mask)) = known {
        return match values.flag(*argument) {
            Some(true) => *mask,
            _ => AttentionMask::None,
        };
    }
    let number = match name {
        "_efficient_attention_forward" => 9,
        "_efficient_attention_backward" => 14,
        _ => return AttentionMask::None,
    };
    // `custom_mask_type`
    match values.integer(number) {
        Some(1) => AttentionMask::FromFirst,
        Some(2) => AttentionMask::ToLast,
        _ => AttentionMask::None,
    }
}

/// Index of `is_causal` among an op's arguments, by its name without namespace: PyTorch 2.1 to 2.15
/// and `flash_attn` 2.6.
const FLAGS: &[(&str, u32, AttentionMask)] = &[
    ("scaled_dot_product_attention", 5, AttentionMask::FromFirst),
    (
        "_scaled_dot_product_attention_math",
        5,
        AttentionMask::FromFirst,
    ),
    (
        "_scaled_dot_product_flash_attention",
        4,
        AttentionMask::ToLast,
    ),
    (
        "_scaled_dot_product_flash_attention_backward",
        11,
        AttentionMask::ToLast,
    ),
    (
        "_scaled_dot_product_flash_attention_for_cpu",
        4,
        AttentionMask::FromFirst,
    ),
    (
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        7,
        AttentionMask::FromFirst,
    ),
    (
        "_scaled_dot_product_efficient_attention",
        6,
        AttentionMask::FromFirst,
    ),
    (
        "_scaled_dot_product_efficient_attention_backward",
        11,
        AttentionMask::FromFirst,
    ),
    (
        "_scaled_dot_product_cudnn_attention",
        6,
        AttentionMask::FromFirst,
    ),
    (
        "_scaled_dot_product_cudnn_attention_backward",
        14,
        AttentionMask::FromFirst,
    ),
    (
        "_scaled_dot_product_fused_attention_overrideable",
        5,
        AttentionMask::FromFirst,
    ),
    (
        "_scaled_dot_product_fused_attention_overrideable_backward",
        13,
        AttentionMask::FromFirst,
    ),
    ("_cudnn_attention_forward", 10, AttentionMask::FromFirst),
    ("_cudnn_attention_backward", 14, AttentionMask::FromFirst),
    ("_flash_attention_forward", 8, AttentionMask::ToLast),
    ("_flash_attention_backward", 11, AttentionMask::ToLast),
    ("_flash_attn_forward", 5, AttentionMask::ToLast),
    ("_flash_attn_varlen_forward", 9, AttentionMask::ToLast),
    ("_flash_attn_backward", 11, AttentionMask::ToLast),
];
