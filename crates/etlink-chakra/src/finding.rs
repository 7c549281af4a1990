//! Faults of a file: kind, severity, count and first places.

pub use etlink_model::Severity;
use indexmap::IndexMap;
use serde::Serialize;
use std::cmp::Reverse;

/// Maximum number of examples that a finding keeps.
pub const EXAMPLES: usize = 5;
/// Maximum number of cycles that a finding keeps; whoever repairs a file needs all of them.
const CYCLES: usize = 1_000;

macro_rules! findings {
    ($($(#[$doc:meta])+ $name:ident $rule:literal = $severity:ident, $text:literal;)*) => {
        /// Every kind of finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum FindingKind { $($(#[$doc])+ $name,)* }

        impl FindingKind {
            /// All kinds, in order.
            pub const ALL: &[FindingKind] = &[$(FindingKind::$name,)*];

            /// Returns the id of the kind's rule, which is never reused.
            pub const fn rule_id(self) -> &'static str {
                match self { $(FindingKind::$name => $rule,)* }
            }

            /// Returns the severity of the kind.
            pub const fn severity(self) -> Severity {
                match self { $(FindingKind::$name => Severity::$severity,)* }
            }

            /// Returns true if a part of the file is lost rather than incorrect.
            pub fn is_damage(self) -> bool {
                use FindingKind::{NodeCountDiffers, Truncated, Undecodable};
                matches!(self, Truncated | NodeCountDiffers | Undecodable)
            }

            /// Returns a one-line description.
            pub const fn describe(self) -> &'static str {
                match self { $(FindingKind::$name => $text,)* }
            }
        }
    };
}

findings! {
    /// The file, or the list of groups next to it, cannot be opened or has a different format.
    Unreadable "ET001" = Error, "files that cannot be read";
    /// The file has no bytes.
    EmptyFile "ET002" = Error, "the file is empty";
    /// The file has no node messages.
    NoNodes "ET003" = Error, "the file has no nodes: simulators need one per rank";
    /// The first message is a node.
    NoMetadata "ET004" = Error, "the first message is a node, not metadata: readers silently skip the node";
    /// The bytes end inside a message or list.
    Truncated "ET005" = Error, "the file is truncated: readers silently use the complete part";
    /// The number of nodes differs from the number that the first message states.
    NodeCountDiffers "ET006" = Error,
        "nodes more or fewer than the file states: it is truncated, or two files were joined into one";
    /// Some bytes are not a message.
    Undecodable "ET007" = Error, "entries that cannot be decoded";
    /// A string is not UTF-8.
    InvalidUtf8 "ET008" = Error,
        "nodes with a string that is not UTF-8: C++ readers silently drop these nodes";
    /// Two nodes have the same id.
    DuplicateId "ET101" = Error, "nodes with an id that another node has";
    /// A dep refers to a missing node.
    DanglingDep "ET102" = Error, "dependencies on nodes that are missing from the file: ASTRA-sim aborts at load";
    /// A parent is missing.
    MissingParent "ET103" = Error, "nodes whose parent is missing from the file";
    /// A node waits for itself.
    SelfDep "ET104" = Error, "nodes that wait for themselves and never run";
    /// Nodes wait for each other.
    Cycle "ET105" = Error, "nodes on a cycle: they never run, and ASTRA-sim does not report it";
    /// The file contains a METADATA_NODE.
    MetadataNode "ET201" = Error, "metadata nodes, on which ASTRA-sim aborts";
    /// A node has the type INVALID_NODE, or a type unknown to the schema.
    InvalidNode "ET202" = Error, "nodes without a valid type: their children never run";
    /// `comm_type` is missing.
    NoCommType "ET301" = Error, "collectives without comm_type";
    /// ASTRA-sim does not run a collective's type.
    UnsupportedCommType "ET302" = Error, "collectives of a type that ASTRA-sim does not run";
    /// `comm_size` is missing.
    NoCommSize "ET303" = Error, "communication nodes without comm_size";
    /// `comm_size` is 0.
    ZeroCommSize "ET304" = Error, "communication nodes of size 0";
    /// An all-gather is too small to be split into the pieces that configurations require.
    SmallAllGather "ET305" = Error, "all-gathers of fewer than 4 bytes: ASTRA-sim never ends";
    /// A send or receive does not state its peer.
    NoPeer "ET306" = Error, "sends or receives without a peer rank";
    /// A communication node has `is_cpu_op`.
    CommOnCpu "ET307" = Error, "communication nodes with is_cpu_op true: ASTRA-sim throws";
    /// An attribute is a string or float instead of an integer, or the reverse.
    WrongAttrType "ET203" = Error, "attributes of the wrong type: ASTRA-sim throws";
    /// chakra_converter rejects the schema.
    UnknownSchema "ET401" = Error, "a schema that chakra_converter cannot read";
    /// A key of the document is missing.
    MissingKey "ET402" = Error, "missing keys that readers require";
    /// An attribute of a node is missing.
    MissingAttr "ET403" = Error, "nodes that lack an attribute that readers require";
    /// A rank of a group has no file.
    RankMissing "ET501" = Error, "ranks that take part in communication but have no file";
    /// `pg_name` is missing in the group file.
    GroupNotListed "ET502" = Error,
        "collectives of a group that comm_group.json does not list: ASTRA-sim aborts";
    /// A group does not contain this rank.
    NotInGroup "ET503" = Error, "collectives of a group that does not contain the rank";
    /// A group has fewer collectives on this rank than on others.
    CollectiveMissing "ET504" = Error,
        "collectives that this rank lacks and other ranks of the group have: the other ranks wait \
        forever";
    /// Types differ at the same position in a group.
    CollectiveTypeDiffers "ET505" = Error, "collectives with a different type than on other ranks";
    /// Sizes differ at the same position in a group.
    CollectiveSizeDiffers "ET506" = Error,
        "collectives with a different size than on other ranks: ASTRA-sim never ends";
    /// A message is never received.
    SendWithoutRecv "ET507" = Error, "sends without a matching receive (same ranks, tag and size)";
    /// A message is never sent.
    RecvWithoutSend "ET508" = Error,
        "receives without a matching send (same ranks, tag and size): the rank never finishes";
    /// Nodes remain after all ranks have run as far as they can.
    Stuck "ET509" = Error, "ranks that never finish because they wait for each other";
    /// Ranks have communications in opposite order.
    OrderDiffers "ET510" = Warning,
        "communications in opposite order on different ranks: simulators that run one at a time \
        can deadlock";
    /// A collective has no other participants.
    OneRankGroup "ET511" = Error, "collectives of a group of one rank: the rank never finishes";
    /// A key of `comm_group.json` is not a group number.
    GroupKey "ET512" = Error,
        "keys of comm_group.json that are not positive whole numbers: ASTRA-sim aborts at load";
    /// Ids contradict the order of time.
    IdsNotInTimeOrder "ET106" = Warning,
        "ids do not ascend with time: ASTRA-sim starts the lowest ready id first";
    /// Ranges of Gloo are computation.
    GlooAsCompute "ET308" = Warning,
        "Gloo collectives as computation: PyTorch does not record their group and size; record \
        with NCCL, or put flight recorder dumps next to the traces, as `etlink record` does";
    /// A broadcast, which ASTRA-sim does not simulate, has no duration of its own.
    InstantBroadcast "ET309" = Warning, "broadcasts without a duration: ASTRA-sim uses 1 ns";
    /// Collectives are computation.
    CollectiveAsCompute "ET310" = Warning,
        "collectives as computation: traces of their ranks are missing, or do not describe them";
    /// JSON was repaired.
    Repaired "ET404" = Warning, "entries with unescaped quotes, repaired";
}

/// One place of a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingExample {
    /// Id of the node; `None` if the fault is not in a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Name of the node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Byte offset in the decompressed file; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Details of the fault.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Ids of the nodes of a cycle, in the order of waiting: each waits for the next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u64>,
}

impl FindingExample {
    /// Creates an example that has only a description.
    pub fn described(detail: impl Into<String>) -> FindingExample {
        FindingExample {
            detail: detail.into(),
            ..FindingExample::default()
        }
    }
}

/// A kind of fault and its number of occurrences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Id of the violated rule, such as `ET102`.
    pub rule: &'static str,
    /// Kind of the fault.
    pub kind: FindingKind,
    /// Severity of the fault.
    pub severity: Severity,
    /// Number of occurrences in the file.
    pub count: u64,
    /// First places: at most [`EXAMPLES`], but more for cycles.
    pub examples: Vec<FindingExample>,
}

impl Finding {
    /// Creates the finding for a file that cannot be read, with the file's name and the reason.
    pub fn unreadable(why: String) -> Finding {
        Finding {
            count: 1,
            examples: vec![FindingExample::described(why)],
            ..Finding::new(FindingKind::Unreadable)
        }
    }

    fn new(kind: FindingKind) -> Finding {
        Finding {
            rule: kind.rule_id(),
            kind,
            severity: kind.severity(),
            count: 0,
            examples: vec![],
        }
    }
}

/// Findings by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    all: IndexMap<FindingKind, Finding>,
}

impl Findings {
    /// Counts one occurrence; `example` is only called for the first few.
    pub fn note(&mut self, kind: FindingKind, example: impl FnOnce() -> FindingExample) {
        let finding = self.all.entry(kind).or_insert_with(|| Finding::new(kind));
        finding.count += 1;
        let most = match kind {
            FindingKind::Cycle => CYCLES,
            _ => EXAMPLES,
        };
        if finding.examples.len() < most {
            finding.examples.push(example());
        }
    }

    /// Counts `count` occurrences with a single example.
    pub fn add(&mut self, kind: FindingKind, count: u64, example: impl FnOnce() -> FindingExample) {
        if count > 0 {
            self.note(kind, example);
            if let Some(finding) = self.all.get_mut(&kind) {
                finding.count += count - 1;
            }
        }
    }

    /// Returns the number of occurrences of `kind`.
    pub fn count(&self, kind: FindingKind) -> u64 {
        self.all.get(&kind).map_or(0, |finding| finding.count)
    }

    /// Returns the findings of lost data: truncated or undecodable. `--strict` rejects them.
    pub fn damage(&self) -> impl Iterator<Item = &Finding> {
        let all = self.all.values();
        all.filter(|finding| finding.kind.is_damage())
    }

    /// Returns the findings sorted by severity, errors first, then in the order of [`FindingKind`].
    pub fn into_sorted(self) -> Vec<Finding> {
        let mut all: Vec<Finding> = self.all.into_values().collect();
        all.sort_by_key(|finding| (Reverse(finding.severity), finding.kind));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_examples_are_kept_of_many() {
        let mut findings = Findings::default();
        for id in 0..9 {
            findings.note(FindingKind::DuplicateId, || FindingExample {
                id: Some(id),
                ..FindingExample::default()
            });
        }
        let [finding] = &findings.all.into_values().collect::<Vec<_>>()[..] else {
            panic!("one kind");
        };
        let ids: Vec<Option<u64>> = finding.examples.iter().map(|example| example.id).collect();
        assert_eq!(finding.count, 9);
        assert_eq!(ids, [0, 1, 2, 3, 4].map(Some));
    }
}
