//! Rules that assign files to ranks, described in words for the notes of `-v`.

use regex::Regex;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::LazyLock;

/// Rule that determined the rank of traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RankRule {
    /// The rank is unknown.
    #[default]
    Unknown,
    /// The file's name, which follows this layout.
    Name(Cow<'static, str>),
    /// The trace's content; names in this layout do not contain the rank.
    Content(Option<Cow<'static, str>>),
    /// The recording's manifest.
    Manifest,
    /// The processes listed in a report.
    Processes(Cow<'static, str>),
    /// The name of the traces' folder.
    Folder,
    /// Local ranks in the names, and the order of the nodes.
    Nodes,
    /// The folder has only one host trace and one device trace.
    OnlyPair,
    /// The rank lacks a host or a device trace, and only one such file is left.
    OnlyLeft,
}

/// Layouts of tools' file names, in lower case, which end in the rank or have it after a word.
static NAME_LAYOUTS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
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
    /// Returns the rule for a name that contains a rank.
    pub(crate) fn of_name(stem: &str) -> RankRule {
        let lower = stem.to_lowercase();
        let mut known = NAME_LAYOUTS.iter();
        let known = known.find(|(pattern, _)| pattern.is_match(&lower));
        let layout: &str = match known {
            Some((_, layout)) => layout,
            None if lower.contains("rank") => "`rank` in the name",
            None => "the number in the name",
        };
        RankRule::Name(layout.into())
    }

    /// Returns the rule for a trace that states its rank, while its name does not.
    pub(crate) fn of_content(stem: &str) -> RankRule {
        let is_tensorboard = stem.ends_with(".pt.trace");
        RankRule::Content(is_tensorboard.then(|| "<worker>.<time>.pt.trace".into()))
    }

    /// Describes the rule, as the words after "by".
    pub(crate) fn describe(&self) -> String {
        match self {
            RankRule::Unknown => "the file name, since the rank is unknown".to_owned(),
            RankRule::Name(layout) => layout.to_string(),
            RankRule::Content(None) => "the rank stated in the trace".to_owned(),
            RankRule::Content(Some(names)) => {
                format!("the rank stated in the trace (TensorBoard handler names, `{names}`)")
            }
            RankRule::Manifest => "the recording's manifest".to_owned(),
            RankRule::Processes(what) => format!("{what}, for the processes of a report"),
            RankRule::Folder => "the folder name".to_owned(),
            RankRule::Nodes => "the local ranks of consecutive nodes".to_owned(),
            RankRule::OnlyPair => "being the only trace of its kind".to_owned(),
            RankRule::OnlyLeft => {
                "being the only trace without a rank, and only one rank lacks a trace".to_owned()
            }
        }
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
            let said = RankRule::of_name(stem).describe();
            assert!(said.contains(layout), "{stem}: {said}");
        }
    }
}
