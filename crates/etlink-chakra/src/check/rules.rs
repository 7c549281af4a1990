//! The rules of `etlink check`: a stable id per rule, and each reader's reaction to a violation.
//!
//! ASTRA-sim's reactions were tested with its analytical backend (518bd51), using the files of
//! `testdata/check`. The reactions of `chakra_converter` (1.0.0) and et_replay (0.5.0) follow from
//! their code.

use crate::finding::FindingKind;
use etlink_model::Severity;
use serde::Serialize;

/// A rule and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CheckRule {
    /// Stable id, never reused for another rule.
    pub id: &'static str,
    /// Title of one line.
    pub title: &'static str,
    /// `error`, `warning` or `note`.
    pub level: &'static str,
    /// Reason for the rule.
    pub reason: &'static str,
    /// Reaction of Chakra's feeder, and thus of ASTRA-sim.
    pub feeder: &'static str,
    /// Reaction of `chakra_converter` and et_replay.
    pub others: &'static str,
}

/// These readers do not take graph files.
const NOT_READ: &str = "read no .et";
/// Readers of `.et` do not read ET+.
const NO_ETPLUS: &str = "reads no ET+";
/// Each of these readers takes a single file.
const ONE_FILE: &str = "read each file alone";

macro_rules! rules {
    ($($kind:ident: $reason:literal; $feeder:expr; $others:expr;)*) => {
        /// All rules, by id.
        pub const RULES: &[CheckRule] = &[$(CheckRule {
            id: FindingKind::$kind.rule_id(),
            title: FindingKind::$kind.describe(),
            level: level(FindingKind::$kind),
            reason: $reason,
            feeder: $feeder,
            others: $others,
        },)*];

    };
}

const fn level(kind: FindingKind) -> &'static str {
    match kind.severity() {
        Severity::Error | Severity::Damage => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

impl CheckRule {
    /// Returns the rule with this id, ignoring case.
    pub fn find(id: &str) -> Option<&'static CheckRule> {
        RULES.iter().find(|rule| rule.id.eq_ignore_ascii_case(id))
    }
}

// Prefixes: 0 files, 1 the graph, 2 types and attributes, 3 communication, 4 ET+, 5 between ranks.
rules! {
    Unreadable:
        "The other ranks wait for a rank whose file cannot be read.";
        "aborts at load"; "end with an exception";
    EmptyFile: "A file has at least metadata. An empty file remains if its writer died.";
        "aborts at load"; "end with an exception";
    NoNodes: "Simulators need at least one node per rank.";
        "aborts at load"; NOT_READ;
    NoMetadata: "Readers use the first message as metadata, whatever it is.";
        "silently loses the first node; aborts at load if another node depends on it"; NOT_READ;
    Truncated: "The last nodes are missing, with their communication.";
        "silently reads the complete messages"; "end with an exception of the JSON reader";
    NodeCountDiffers:
        "Only the count that etlink writes shows a truncation between two messages.";
        "silently reads the existing nodes"; NOT_READ;
    Undecodable: "An entry that cannot be decoded is not a node.";
        "never finishes the rank, and the exit code is 0";
        "end with an exception of the JSON reader";
    InvalidUtf8: "Protobuf strings are UTF-8.";
        "silently reads the node without type and dependencies"; NOT_READ;
    DuplicateId: "Dependencies refer to nodes by id.";
        "silently keeps one of the nodes"; "silently keep the last node";
    DanglingDep: "The node waits for something that never ends.";
        "aborts at load"; NOT_READ;
    MissingParent: "The op is not part of any tree.";
        NO_ETPLUS; "chakra_converter keeps the reference to the parent; et_replay leaves out the op";
    SelfDep: "A node that waits for itself never starts.";
        "never runs the node, but reports the rank as finished"; "et_replay does not end";
    Cycle: "Nodes that wait for each other never start.";
        "never runs the nodes, but reports the rank as finished; aborts if no other node can start";
        "chakra_converter ends with an exception; et_replay does not end";
    IdsNotInTimeOrder: "The ready node with the lowest id starts first.";
        "runs nodes in id order"; NOT_READ;
    MetadataNode: "A metadata node has no time, and no meaning to a simulator.";
        "aborts when the node is issued"; NOT_READ;
    InvalidNode: "The work of a node without a type is unknown.";
        "never finishes the node or the rank, and the exit code is 0"; NOT_READ;
    WrongAttrType: "Readers request an attribute by its value type.";
        "throws when the node is issued"; NOT_READ;
    NoCommType: "The type determines how a collective runs.";
        "throws when the node is issued"; NOT_READ;
    UnsupportedCommType:
        "ASTRA-sim simulates all-reduce, all-gather, reduce-scatter and all-to-all. A broadcast \
        takes the duration of its node.";
        "throws when the node is issued"; NOT_READ;
    NoCommSize: "The size determines the duration of a transfer.";
        "throws when the node is issued"; NOT_READ;
    ZeroCommSize: "Nothing is sent, so nothing ends the node.";
        "aborts at a send or receive; ends a collective at once"; NOT_READ;
    SmallAllGather:
        "Configurations split each rank's share into 4 pieces, and an empty piece never ends.";
        "never finishes the ranks, and the exit code is 0"; NOT_READ;
    NoPeer: "A message needs a sender and a receiver.";
        "throws when the node is issued"; NOT_READ;
    CommOnCpu: "Communication runs on its own processor.";
        "throws when the node is issued"; NOT_READ;
    GlooAsCompute:
        "PyTorch records neither groups nor sizes for plain Gloo, so the ranks run independently.";
        "runs them as computation"; NOT_READ;
    InstantBroadcast:
        "ASTRA-sim does not simulate broadcasts. Each takes the duration of its node, whatever its \
        size.";
        "uses 1 ns"; NOT_READ;
    CollectiveAsCompute:
        "A collective whose group has ranks without a trace takes its measured time, and no network \
        changes it.";
        "runs them as computation"; NOT_READ;
    UnknownSchema: "The schema determines the layout of nodes.";
        NO_ETPLUS; "end with ValueError";
    MissingKey: "Readers have no default for these keys.";
        NO_ETPLUS; "end with KeyError";
    MissingAttr: "Readers have no default for these attributes.";
        NO_ETPLUS; "end with AttributeError or ValueError";
    Repaired: "PyTorch writes names without escapes, so the document is not valid JSON.";
        NO_ETPLUS; "end with an exception of the JSON reader";
    RankMissing: "Ranks that communicate with a missing rank wait forever.";
        "exits with 1: the rank has no file"; ONE_FILE;
    GroupNotListed: "`comm_group.json` lists the ranks of each group.";
        "exits with 1 when the node is issued"; ONE_FILE;
    NotInGroup: "A rank outside a group cannot take part in its collectives.";
        "aborts when the node is issued"; ONE_FILE;
    CollectiveMissing: "All ranks of a group have the same number of collectives.";
        "the other ranks never finish, and the exit code is 0"; ONE_FILE;
    CollectiveTypeDiffers: "Collectives are matched by position in the group.";
        "the ranks never finish, and the exit code is 0"; ONE_FILE;
    CollectiveSizeDiffers: "Ranks send, and wait for, the stated number of bytes.";
        "the ranks never finish, and the exit code is 0"; ONE_FILE;
    SendWithoutRecv: "Messages match by sender, receiver, tag and size.";
        "the message is silently lost"; ONE_FILE;
    RecvWithoutSend: "Messages match by sender, receiver, tag and size.";
        "the rank never finishes, and the exit code is 0"; ONE_FILE;
    Stuck: "All ranks run until none can continue, and some have not finished.";
        "the ranks never finish, and the exit code is 0"; ONE_FILE;
    OrderDiffers: "A rank runs one communication at a time.";
        "the ranks can deadlock, and the exit code is 0"; ONE_FILE;
    OneRankGroup: "A collective ends when other ranks respond.";
        "never finishes the rank, and the exit code is 0"; ONE_FILE;
    GroupKey: "`pg_name` is the number of a group.";
        "throws at load"; ONE_FILE;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_finding_has_a_rule_of_its_own() {
        let ids: BTreeSet<&str> = FindingKind::ALL.iter().map(|kind| kind.rule_id()).collect();
        assert_eq!(ids.len(), FindingKind::ALL.len());
        assert_eq!(RULES.len(), FindingKind::ALL.len());
        assert!(RULES.is_sorted_by_key(|rule| rule.id));
        for kind in FindingKind::ALL {
            let rule = CheckRule::find(kind.rule_id()).expect("has a rule");
            assert_eq!(CheckRule::find(&rule.id.to_lowercase()), Some(rule));
        }
    }
}
