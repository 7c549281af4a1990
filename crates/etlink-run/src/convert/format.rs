//! Formats of graphs: detection for inputs, and endings of output names.

use crate::output::Packing;
use etlink_chakra::read::{FileKind, sniff};
use etlink_workload::generate::simai::is_simai_workload;
use serde::Serialize;
use std::path::Path;

/// Formats between which graphs are converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GraphFormat {
    /// Chakra protobuf, `.et`.
    Chakra,
    /// Chakra JSON, as `chakra_jsonizer` prints it.
    Jsonizer,
    /// Merged JSON: a tree of ops.
    EtPlus,
    /// PyTorch execution trace: a tree of ops, recorded but not linked.
    HostTrace,
    /// Tables of nodes and edges.
    Parquet,
    /// Graphviz.
    Dot,
    /// GraphML.
    GraphMl,
    /// Schedules of LogGOPSim and ATLAHS.
    Goal,
    /// Layers of a model, which AICB writes for SimAI.
    SimAi,
}

/// File name of the node table in a folder of tables.
pub(super) const NODES: &str = "nodes.parquet";

/// Endings of names, before the ending of a compression. The first one per format is suggested to
/// users.
const ENDINGS: [(&str, GraphFormat); 7] = [
    (".et", GraphFormat::Chakra),
    (".json", GraphFormat::Jsonizer),
    (".parquet", GraphFormat::Parquet),
    (".dot", GraphFormat::Dot),
    (".gv", GraphFormat::Dot),
    (".graphml", GraphFormat::GraphMl),
    (".goal", GraphFormat::Goal),
];

impl GraphFormat {
    /// Returns the name of the format in messages.
    pub fn describe(self) -> &'static str {
        match self {
            GraphFormat::Chakra => "Chakra protobuf",
            GraphFormat::Jsonizer => "jsonizer's JSON",
            GraphFormat::EtPlus => "merged JSON (ET+)",
            GraphFormat::HostTrace => "an execution trace of PyTorch",
            GraphFormat::Parquet => "Parquet tables",
            GraphFormat::Dot => "Graphviz",
            GraphFormat::GraphMl => "GraphML",
            GraphFormat::Goal => "GOAL",
            GraphFormat::SimAi => "a workload of SimAI",
        }
    }

    /// Returns true for formats to look at, which can be limited to a part.
    pub fn is_picture(self) -> bool {
        matches!(self, GraphFormat::Dot | GraphFormat::GraphMl)
    }

    /// Returns the format that the name of an output states.
    pub(super) fn from_name(path: &Path) -> Option<GraphFormat> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let (_, plain) = Packing::of_name(&name);
        let known = ENDINGS.iter().find(|(ending, _)| plain.ends_with(ending));
        known.map(|(_, format)| *format)
    }

    /// Detects the format of an input from its beginning; `None` if it cannot be converted.
    pub(super) fn from_head(head: &[u8]) -> Option<GraphFormat> {
        match sniff(head) {
            FileKind::ChakraEt => Some(GraphFormat::Chakra),
            FileKind::ChakraJson => Some(GraphFormat::Jsonizer),
            FileKind::EtPlus => Some(GraphFormat::EtPlus),
            FileKind::HostTrace => Some(GraphFormat::HostTrace),
            FileKind::KinetoTrace | FileKind::Unknown => {
                is_simai_workload(head).then_some(GraphFormat::SimAi)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_by_name() {
        for (name, format) in [
            ("a.0.et", Some(GraphFormat::Chakra)),
            ("a.0.ET.gz", Some(GraphFormat::Chakra)),
            ("a.0.et.zst", Some(GraphFormat::Chakra)),
            ("a.json", Some(GraphFormat::Jsonizer)),
            ("a.gv", Some(GraphFormat::Dot)),
            ("run.goal", Some(GraphFormat::Goal)),
            ("run", None),
        ] {
            assert_eq!(GraphFormat::from_name(Path::new(name)), format, "{name}");
        }
    }
}
