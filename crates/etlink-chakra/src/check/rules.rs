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
    #[serde(skip)]
    kind: FindingKind,
}

/// These readers do not take graph files.
const NOT_READ: &str = "read no .et";
/// Readers of `.et` do not read ET+.
const NO_ETPLUS: &str = "reads no ET+";
/// Each of these readers takes a single file.
const ONE_FILE: &str = "read one file by itself";

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
            kind: FindingKind::$kind,
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

    /// Returns the rule that a finding of this kind violates.
    pub fn of(kind: FindingKind) -> Option<&'static CheckRule> {
        RULES.iter().find(|rule| rule.kind == kind)
    }
}

// Prefixes: 0 files, 1 the graph, 2 types and attributes, 3 communication, 4 ET+, 5 between ranks.
rules! {
    Unreadable:
        "Of a rank that cannot be read nothing is known, and the others wait for it.";
        "aborts at load"; "end with an exception";
    EmptyFile: "A file has metadata at least. An empty one is left where a writer died.";
        "aborts at load"; "end with an exception";
    NoNodes: "Simulators want a node of each rank.";
        "aborts at load"; NOT_READ;
    NoMetadata: "Readers take the first message for metadata, whatever it is.";
        "loses the first node in silence; aborts at load if another one names it"; NOT_READ;
    Truncated: "The last nodes are missing, and with them what they communicate.";
        "takes the whole messages in silence"; "end with an exception of the JSON reader";
    NodeCountDiffers:
        "A cut between two messages shows nowhere else than in the count that etlink writes.";
        "takes what is there in silence"; NOT_READ;
    Undecodable: "What cannot be decoded is no node.";
        "never finishes the rank, and the exit code is 0";
        "end with an exception of the JSON reader";
    InvalidUtf8: "Protobuf's strings are UTF-8.";
        "makes the node one without type and dependencies, in silence"; NOT_READ;
    DuplicateId: "Dependencies name nodes by their ids.";
        "keeps one of the nodes, in silence"; "keep the last one, in silence";
    DanglingDep: "A node waits for something that never ends.";
        "aborts at load"; NOT_READ;
    MissingParent: "The op is in no tree.";
        NO_ETPLUS; "chakra_converter keeps the name of the parent; et_replay leaves the op out";
    SelfDep: "A node that waits for itself never begins.";
        "never runs it, and reports the rank as finished"; "et_replay does not end";
    Cycle: "Nodes that wait for each other never begin.";
        "never runs them, and reports the rank as finished; aborts if no other node can begin";
        "chakra_converter ends with an exception; et_replay does not end";
    IdsNotInTimeOrder: "Of the nodes that are ready, the lowest id begins first.";
        "runs them in the order of ids"; NOT_READ;
    MetadataNode: "A node of metadata has no time and no meaning to a simulator.";
        "aborts when the node is issued"; NOT_READ;
    InvalidNode: "What a node without a type does is not known.";
        "never ends the node nor the rank, and the exit code is 0"; NOT_READ;
    WrongAttrType: "Readers ask for an attribute by the type of its value.";
        "throws when the node is issued"; NOT_READ;
    NoCommType: "A collective is done by its type.";
        "throws when the node is issued"; NOT_READ;
    UnsupportedCommType:
        "ASTRA-sim simulates all-reduce, all-gather, reduce-scatter and all-to-all, and gives a \
        broadcast the duration of its node.";
        "throws when the node is issued"; NOT_READ;
    NoCommSize: "A transfer takes a time by its size.";
        "throws when the node is issued"; NOT_READ;
    ZeroCommSize: "Nothing is sent, so that nothing ends the node.";
        "aborts at a send or receive; ends a collective at once"; NOT_READ;
    SmallAllGather:
        "Configurations cut the share of each rank into 4 pieces, and a piece of nothing has no end.";
        "never finishes the ranks, and the exit code is 0"; NOT_READ;
    NoPeer: "A message needs a sender and a receiver.";
        "throws when the node is issued"; NOT_READ;
    CommOnCpu: "Communications have a processor of their own.";
        "throws when the node is issued"; NOT_READ;
    GlooAsCompute:
        "PyTorch says of plain Gloo neither groups nor sizes: the ranks run without each other.";
        "runs them as computation"; NOT_READ;
    InstantBroadcast:
        "ASTRA-sim does not simulate broadcasts: each takes the duration of its node, whatever its \
        size.";
        "takes 1 ns"; NOT_READ;
    UnknownSchema: "The layout of nodes follows the schema.";
        NO_ETPLUS; "end with ValueError";
    MissingKey: "These keys are asked for without a default.";
        NO_ETPLUS; "end with KeyError";
    MissingAttr: "These attributes are asked for without a default.";
        NO_ETPLUS; "end with AttributeError or ValueError";
    Repaired: "PyTorch writes names without escapes: the document is no JSON.";
        NO_ETPLUS; "end with an exception of the JSON reader";
    RankMissing: "Who communicates with a rank that is not there waits for ever.";
        "ends with 1: there is no file of the rank"; ONE_FILE;
    GroupNotListed: "`comm_group.json` says which ranks a group has.";
        "ends with 1 when the node is issued"; ONE_FILE;
    NotInGroup: "A rank that is not in a group has no part in its collectives.";
        "aborts when the node is issued"; ONE_FILE;
    CollectiveMissing: "All ranks of a group have the same number of collectives.";
        "the others never finish, and the exit code is 0"; ONE_FILE;
    CollectiveTypeDiffers: "Collectives are matched by their place in the group.";
        "the ranks never finish, and the exit code is 0"; ONE_FILE;
    CollectiveSizeDiffers: "Ranks send and wait for as many bytes as they say.";
        "the ranks never finish, and the exit code is 0"; ONE_FILE;
    SendWithoutRecv: "Messages match by sender, receiver, tag and size.";
        "the message is lost in silence"; ONE_FILE;
    RecvWithoutSend: "Messages match by sender, receiver, tag and size.";
        "the rank never finishes, and the exit code is 0"; ONE_FILE;
    Stuck: "All ranks run until none can go on, and some are not at their end.";
        "the ranks never finish, and the exit code is 0"; ONE_FILE;
    OrderDiffers: "A rank has one communication at a time.";
        "the ranks can wait for each other for ever, and the exit code is 0"; ONE_FILE;
    OneRankGroup: "A collective ends when others answer.";
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
            let rule = CheckRule::of(*kind).expect("has a rule");
            assert_eq!(CheckRule::find(&rule.id.to_lowercase()), Some(rule));
        }
    }
}
