//! Classification of device work.
//!
//! A row is classified by the first of these that applies: arguments of a collective, the row's
//! category (copy, memset), rules on the name (the user's, then `rules.txt` in this folder). A row
//! without a matching rule is computation. A rule is a line `class label regex`; the regex is
//! searched in the name, and the first matching rule decides.

use borsh::{BorshDeserialize, BorshSerialize};
use regex::bytes::{RegexBuilder, RegexSet, RegexSetBuilder};
use serde::Serialize;
use std::sync::LazyLock;

/// Class of device work, in order of precedence for overlapping rows: see
/// [`DeviceTime`](crate::DeviceTime).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
    strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RowClass {
    /// Computation kernels.
    #[default]
    Computation,
    /// Collectives, sends and receives, from any library.
    Communication,
    /// Copies and memsets.
    Memory,
    /// Rows that are no work: waits of a device, brackets around other rows. While nothing else
    /// runs, the device is not busy.
    Other,
}

impl RowClass {
    /// All classes, in order of precedence.
    pub const ALL: [RowClass; 4] = [
        RowClass::Computation,
        RowClass::Communication,
        RowClass::Memory,
        RowClass::Other,
    ];

    /// Name of the class in rules and reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Reason for which rules could not be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RulesError {
    /// The line does not have three words.
    #[error(
        "line {line}: expected a class, a label and a regular expression, \
         such as `communication mylib ^my_all_reduce`"
    )]
    NotARule {
        /// Line number, from 1.
        line: usize,
    },
    /// The class does not exist.
    #[error(
        "line {line}: unknown class {class:?}; \
         classes: computation, communication, memory, other"
    )]
    NoClass {
        /// Line number, from 1.
        line: usize,
        /// Text in place of a class.
        class: String,
    },
    /// The regular expression is invalid.
    #[error("line {line}: {message}")]
    BadRegex {
        /// Line number, from 1.
        line: usize,
        /// Description of the fault, in one line.
        message: String,
    },
    /// The regular expressions together are too large.
    #[error("the rules are too large: {0}")]
    TooLarge(String),
}

/// Labels that no rule gives.
const NO_RULES: [&str; 4] = ["other", "collective", "memcpy", "memset"];

/// Compiled rules of one text.
#[derive(Clone, Debug)]
struct RuleSet {
    set: RegexSet,
    /// Class and label index of each rule.
    of: Vec<(RowClass, u16)>,
}

/// Compiled rules of the user and of etlink.
#[derive(Clone, Debug)]
pub struct KernelRules {
    /// Rules of the user, which win over the built-in ones.
    own: RuleSet,
    /// Compiled once: that takes longer than matching a few thousand names.
    built_in: &'static RuleSet,
    labels: Vec<String>,
}

/// Built-in rules, and the labels available without rules of the user.
static BUILT_IN: LazyLock<Result<(RuleSet, Vec<String>), RulesError>> = LazyLock::new(|| {
    let mut labels = NO_RULES.map(str::to_owned).to_vec();
    let rules = RuleSet::new(include_str!("rules.txt"), &mut labels)?;
    Ok((rules, labels))
});

impl KernelRules {
    /// Returns the built-in rules.
    ///
    /// # Errors
    /// None in practice: a test compiles them.
    pub fn built_in() -> Result<KernelRules, RulesError> {
        KernelRules::with("")
    }

    /// Returns the rules of `text`, followed by the built-in ones.
    ///
    /// # Errors
    /// Fails if a line is not a valid rule.
    pub fn with(text: &str) -> Result<KernelRules, RulesError> {
        let (built_in, labels) = BUILT_IN.as_ref().map_err(Clone::clone)?;
        let mut labels = labels.clone();
        Ok(KernelRules {
            own: RuleSet::new(text, &mut labels)?,
            built_in,
            labels,
        })
    }

    /// Returns class and label index of a kernel name; `None` if no rule matches. O(length).
    pub(crate) fn find(&self, name: &str) -> Option<(RowClass, u16)> {
        let own = self.own.find(name);
        own.or_else(|| self.built_in.find(name))
    }

    /// Returns the class of a kernel name. O(length).
    pub fn class(&self, name: &str) -> RowClass {
        self.find(name)
            .map_or(RowClass::Computation, |(class, _)| class)
    }

    /// Returns the label of a kernel name: `gemm`, `elementwise`, …. O(length).
    pub fn label(&self, name: &str) -> &str {
        self.label_at(self.find(name).map_or(NO_RULE, |(_, label)| label))
    }

    pub(crate) fn label_at(&self, label: u16) -> &str {
        self.labels.get(label as usize).map_or("", String::as_str)
    }
}

impl RuleSet {
    /// Compiles the rules of a text, and adds new labels to `labels`.
    fn new(text: &str, labels: &mut Vec<String>) -> Result<RuleSet, RulesError> {
        let (mut patterns, mut of) = (vec![], vec![]);
        for (line, rule) in (1..).zip(text.lines()) {
            let rule = rule.trim();
            if rule.is_empty() || rule.starts_with('#') {
                continue;
            }
            // A pattern may contain spaces (`Stream Wait Event`), so the rest of the line is not
            // split further.
            let mut words = rule.splitn(2, char::is_whitespace);
            let (class, rest) = (
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default().trim_start(),
            );
            let Some((label, pattern)) = rest.split_once(char::is_whitespace) else {
                return Err(RulesError::NotARule { line });
            };
            let known = RowClass::ALL
                .into_iter()
                .find(|known| known.name() == class);
            let Some(known) = known else {
                return Err(RulesError::NoClass {
                    line,
                    class: class.to_owned(),
                });
            };
            of.push((known, label_number(labels, label)));
            patterns.push((line, pattern.trim_start()));
        }
        // Kernel names are ASCII. Unicode case tables take longer to prepare than all names take to
        // match.
        let set = RegexSetBuilder::new(patterns.iter().map(|(_, pattern)| pattern))
            .unicode(false)
            .build();
        let set = set.map_err(|error| {
            // `RegexSet` does not name the bad pattern: each is tried alone, only in this case.
            wrong(&patterns).unwrap_or_else(|| RulesError::TooLarge(error.to_string()))
        })?;
        Ok(RuleSet { set, of })
    }

    fn find(&self, name: &str) -> Option<(RowClass, u16)> {
        // Matches come by index of the pattern, which is the order of the rules.
        let first = self.set.matches(name.as_bytes()).iter().next()?;
        self.of.get(first).copied()
    }
}

/// Returns the index of a label; adds the label if it is new.
fn label_number(labels: &mut Vec<String>, label: &str) -> u16 {
    let known = labels.iter().position(|known| known == label);
    let at = known.unwrap_or_else(|| {
        labels.push(label.to_owned());
        labels.len() - 1
    });
    u16::try_from(at).unwrap_or(0)
}

/// Returns the error of the first invalid pattern.
fn wrong(patterns: &[(usize, &str)]) -> Option<RulesError> {
    patterns.iter().find_map(|(line, pattern)| {
        let error = RegexBuilder::new(pattern)
            .unicode(false)
            .build()
            .err()?
            .to_string();
        let message = error
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ");
        Some(RulesError::BadRegex {
            line: *line,
            message: format!("{pattern:?}: {message}"),
        })
    })
}

/// Indexes of the labels in [`NO_RULES`].
pub(crate) const NO_RULE: u16 = 0;
pub(crate) const COLLECTIVE: u16 = 1;
pub(crate) const MEMCPY: u16 = 2;
pub(crate) const MEMSET: u16 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'r>(rules: &'r KernelRules, name: &str) -> (RowClass, &'r str) {
        let (class, label) = rules.find(name).unwrap_or((RowClass::Computation, NO_RULE));
        (class, rules.label_at(label))
    }

    #[test]
    fn names_of_all_libraries() {
        let rules = KernelRules::built_in().expect("the built-in rules are right");
        for (class, label, name) in [
            (
                RowClass::Communication,
                "nccl",
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            ),
            (
                RowClass::Communication,
                "nccl",
                "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t\
                 (ncclDevComm*, unsigned long, ncclWork*)",
            ),
            (
                RowClass::Communication,
                "nccl",
                "void ncclSymkDevKernel_AllReduce_RSxLD_AGxST<float>(ncclSymkDevArgs)",
            ),
            (RowClass::Communication, "rccl", "rcclKernel_AllReduce"),
            (RowClass::Communication, "rccl", "mscclKernel_Sum_half_LL"),
            (
                RowClass::Communication,
                "mscclpp",
                "void mscclpp::collective::allreduceNvls<__half>(int)",
            ),
            (
                RowClass::Communication,
                "deepep",
                "void deep_ep::internode_ll::dispatch<true, 7168>(void*)",
            ),
            (RowClass::Communication, "nvshmem", "nvshmemi_transfer_rma"),
            (
                RowClass::Communication,
                "symm_mem",
                "void (anonymous namespace)::multimem_all_reduce_kernel\
                 <c10::BFloat16, 16>(c10::BFloat16*)",
            ),
            (
                RowClass::Communication,
                "symm_mem",
                "void c10d::symmetric_memory::two_shot_all_reduce_kernel<float>()",
            ),
            (
                RowClass::Communication,
                "vllm",
                "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(RankData*)",
            ),
            (
                RowClass::Communication,
                "trtllm",
                "void flashinfer::trtllm_allreduce_fusion::\
                 allreduce_fusion_kernel_oneshot_lamport<4>()",
            ),
            (RowClass::Communication, "hccl", "hccl::allreduce"),
            (
                RowClass::Communication,
                "oneccl",
                "oneccl_allreduce_small_kernel",
            ),
            (
                RowClass::Communication,
                "by_name",
                "my_reduce_scatter_kernel",
            ),
            (
                RowClass::Computation,
                "reduction",
                "void layer_norm_grad<BlockAllReduce<float>>()",
            ),
            (
                RowClass::Computation,
                "gemm",
                "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n",
            ),
            (
                RowClass::Computation,
                "gemm",
                "Cijk_Ailk_Bjlk_SB_Bias_AS_SAV_UserArgs_MT64x16x16",
            ),
            (
                RowClass::Computation,
                "attention",
                "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>()",
            ),
            (
                RowClass::Computation,
                "elementwise",
                "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor>()",
            ),
            (
                RowClass::Computation,
                "triton",
                "triton_poi_fused_add_cos_sin_0",
            ),
            (
                RowClass::Computation,
                "triton",
                "triton_poi_fused_all_reduce_0",
            ),
            (
                RowClass::Computation,
                "triton",
                "triton_red_fused__to_copy_reduce_scatter_tensor_1",
            ),
            (RowClass::Computation, "gemm", "diag_gemm_kernel"),
            (
                RowClass::Computation,
                "convolution",
                "cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1",
            ),
            (
                RowClass::Computation,
                "convolution",
                "void cutlass_cudnn_infer::Kernel\
                 <cutlass_tensorop_s1688fprop_optimized_tf32>(int)",
            ),
            (
                RowClass::Computation,
                "convolution",
                "igemm_bwd_gtcx2_nhwc_bf16_bx0_ex1_bt128x128x32",
            ),
            (
                RowClass::Computation,
                "convolution",
                "void fft2d_r2c_32x32<float, false>(float2*, cudnn::reduced_divisor)",
            ),
            (RowClass::Computation, "convolution", "Im2d2Col_v2"),
            (
                RowClass::Computation,
                "attention",
                "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16",
            ),
            (
                RowClass::Computation,
                "copy",
                "void cudnn::ops::nchwToNhwcKernel<float, float, float>(float const*)",
            ),
            (RowClass::Computation, "copy", "SubTensorOpWithScalar1d"),
            (
                RowClass::Computation,
                "norm",
                "void cudnn::bn_fw_tr_1C11_kernel_NCHW\
                 <float, float, int, 128>(cudnnTensorStruct)",
            ),
            (
                RowClass::Computation,
                "norm",
                "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel\
                 <float>(long)",
            ),
            (
                RowClass::Computation,
                "reduction",
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp\
                 <float, at::native::NormTwoOps<float>>>()",
            ),
            (
                RowClass::Computation,
                "optimizer",
                "void at::native::(anonymous namespace)::multi_tensor_apply_kernel\
                 <at::native::LpNormFunctor>()",
            ),
            (
                RowClass::Computation,
                "random",
                "void at::native::(anonymous namespace)::distribution_element\
                 wise_grid_stride_kernel<float, 4, normal_and_transform>()",
            ),
            (
                RowClass::Computation,
                "pooling",
                "void at::native::(anonymous namespace)::max_pool_forward_nchw\
                 <float, float>(int)",
            ),
            (
                RowClass::Computation,
                "embedding",
                "void permute_pooled_embs_kernel<float>(float const*, long const*)",
            ),
            (
                RowClass::Computation,
                "embedding",
                "void fbgemm_gpu::permute_2D_data_kernel<false, int>(int)",
            ),
            (
                RowClass::Computation,
                "quantize",
                "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16>(int)",
            ),
            (
                RowClass::Computation,
                "quantize",
                "void tensorrt_llm::kernels::quantize_with_block_size\
                 <2, __nv_bfloat16>(int, mla_t)",
            ),
            (
                RowClass::Computation,
                "gemm",
                "void quantized_gemm_kernel<float>(int)",
            ),
            (
                RowClass::Computation,
                "elementwise",
                "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
            ),
            (RowClass::Computation, "moe", "_topk_forward"),
            (
                RowClass::Computation,
                "index",
                "void (anonymous namespace)::indexing_backward_kernel<float, 4>(long*)",
            ),
            (
                RowClass::Communication,
                "triton_dist",
                "kernel_consumer_ag_gemm_persistent",
            ),
            (RowClass::Communication, "triton_dist", "gemm_rs"),
            (RowClass::Computation, "other", "pe_exe"),
            (RowClass::Memory, "dma", "dma_request"),
            (RowClass::Other, "wait", "event_wait"),
            (RowClass::Other, "event", "event_record"),
            (RowClass::Memory, "copy", "__amd_rocclr_copyBuffer"),
        ] {
            assert_eq!(found(&rules, name), (class, label), "{name}");
        }
    }

    #[test]
    fn rules_of_the_user_come_first() {
        let rules = KernelRules::with(
            "# ours\n\n  communication  ours  ^ours_.* kernel$ \nmemory spill spill",
        )
        .expect("rules");
        assert_eq!(
            found(&rules, "ours_gemm kernel"),
            (RowClass::Communication, "ours")
        );
        assert_eq!(found(&rules, "spill_gemm"), (RowClass::Memory, "spill"));
    }

    #[test]
    fn a_wrong_rule_is_named() {
        let error = |text| KernelRules::with(text).expect_err("refused").to_string();
        assert!(error("\ncomputation gemm").starts_with("line 2: expected a class"));
        assert!(error("compute gemm x").contains("unknown class \"compute\""));
        assert!(
            error("computation gemm (").starts_with("line 1: \"(\": "),
            "{}",
            error("computation gemm (")
        );
    }
}
