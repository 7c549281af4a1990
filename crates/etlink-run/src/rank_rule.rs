//! Rules that assign files to ranks, described in words for the notes of `-v`.

use regex::Regex;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::LazyLock;

/// Rule that determined the rank of traces, as the words after "by".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRule(Cow<'static, str>);

impl Default for RankRule {
    fn default() -> RankRule {
        RankRule::UNKNOWN
    }
}

/// Layouts of tools' file names, in lower case, which end in the rank or have it after a word.
static NAME_LAYOUTS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let layouts = [
        (r"-tp-\d", "SGLang's names, `<time>-TP-N`"),
        (r"_pp\d+_tp\d", "vLLM's names, `dp0_pp0_tp0_…_rankN`"),
        (
            r"chakra_(host|device)_\d",
            "names of Chakra's samples, `chakra_host_N` and `chakra_device_N`",
        ),
        (
            r"(pytorch_et_rank|kineto_rank)_?\d",
            "MLRepository's names, `pytorch_et_rank_N` and `kineto_rankN`",
        ),
        (
            r"(torch_et|kineto_trace)_\d",
            "the names `torch_et_N` and `kineto_trace_N`",
        ),
        (r"nsys_\d", "names of Nsight Systems' reports, `nsys_N`"),
        (r"rank\d+_trace", "torchtitan's names, `rankN_trace`"),
    ];
    let compiled = layouts
        .into_iter()
        .filter_map(|(pattern, layout)| Some((Regex::new(pattern).ok()?, layout)));
    compiled.collect()
});

impl RankRule {
    pub(crate) const UNKNOWN: RankRule = RankRule::of("the file name, since the rank is unknown");
    pub(crate) const CONTENT: RankRule = RankRule::of("the rank stated in the trace");
    pub(crate) const MANIFEST: RankRule = RankRule::of("the recording's manifest");
    pub(crate) const FOLDER: RankRule = RankRule::of("the folder name");
    pub(crate) const NODES: RankRule = RankRule::of("the local ranks of consecutive nodes");
    pub(crate) const ONLY_PAIR: RankRule = RankRule::of("being the only trace of its kind");
    pub(crate) const ONLY_LEFT: RankRule =
        RankRule::of("being the only trace without a rank, and only one rank lacks a trace");

    pub(crate) const fn of(words: &'static str) -> RankRule {
        RankRule(Cow::Borrowed(words))
    }

    /// Returns the rule for the processes that a report lists.
    pub(crate) fn of_processes(what: &str) -> RankRule {
        RankRule(format!("{what}, for the processes of a report").into())
    }

    /// Returns the rule for a name that contains a rank.
    pub(crate) fn of_name(stem: &str) -> RankRule {
        let lower = stem.to_lowercase();
        let mut known = NAME_LAYOUTS.iter();
        let known = known.find(|(pattern, _)| pattern.is_match(&lower));
        RankRule::of(match known {
            Some((_, layout)) => layout,
            None if lower.contains("rank") => "`rank` in the name",
            None => "the number in the name",
        })
    }

    /// Returns the rule for a trace that states its rank, while its name does not.
    pub(crate) fn of_content(stem: &str) -> RankRule {
        if stem.ends_with(".pt.trace") {
            RankRule::of(
                "the rank stated in the trace (TensorBoard handler names, `<worker>.<time>.pt.trace`)",
            )
        } else {
            RankRule::CONTENT
        }
    }

    pub(crate) fn describe(&self) -> &str {
        &self.0
    }
}

/// Layout of folders that are parts of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FolderLayout {
    /// Host traces in one folder, device traces in another.
    Sides,
    /// One rank per folder.
    Ranks,
    /// One folder per node of a job.
    Nodes,
}

impl FolderLayout {
    /// Describes the layout and the tools that use it.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            FolderLayout::Sides => {
                "one folder for host traces and one for device traces, as in Megatron-LM and NeMo"
            }
            FolderLayout::Ranks => "one folder per rank, as in OLMo",
            FolderLayout::Nodes => "one folder per node of a job",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_tools() {
        for (stem, layout) in [
            ("1795225129.51-TP-0.trace", "SGLang"),
            ("dp0_pp0_tp1_dcp0_ep0_rank1.1795.pt.trace", "vLLM"),
            ("chakra_device_3", "Chakra's samples"),
            ("m_kineto_rank0", "MLRepository"),
            ("kineto_trace_0.cycle1", "`torch_et_N`"),
            ("rank0_trace", "torchtitan"),
            ("rank-0", "`rank` in the name"),
            ("app_ppo_tpu_rank3", "`rank` in the name"),
            ("my_rank_trace_3", "`rank` in the name"),
            ("host_1", "the number in the name"),
        ] {
            let rule = RankRule::of_name(stem);
            let said = rule.describe();
            assert!(said.contains(layout), "{stem}: {said}");
        }
    }
}
