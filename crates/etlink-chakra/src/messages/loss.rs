//! Counts data of a file that is missing in its conversion.

use indexmap::IndexMap;
use serde::Serialize;

macro_rules! losses {
    ($($(#[$doc:meta])+ $name:ident = $text:literal;)*) => {
        /// Ways in which a conversion contains less than its source.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum LossKind { $($(#[$doc])+ $name,)* }

        impl LossKind {
            /// Returns a description of the counted objects, for people.
            pub fn describe(self) -> &'static str {
                match self { $(LossKind::$name => $text,)* }
            }
        }
    };
}

losses! {
    /// The bytes end inside a message.
    CutTail = "truncated messages at the end of the file";
    /// The file has fewer nodes than it states.
    MissingNode = "nodes that the file states but does not contain";
    /// Some bytes are not a message.
    Undecodable = "messages that cannot be decoded, or that have text that is not UTF-8";
    /// The schema does not have a field.
    UnknownField = "messages with fields that are not in the Chakra schema";
    /// The schema does not have a type.
    UnknownType = "nodes of a type that is not in the Chakra schema, written without a type";
    /// JSON cannot represent NaN and infinity.
    NotFinite = "attributes that are NaN or infinite, which JSON cannot represent";
    /// The file has a second message of metadata.
    SecondMetadata = "metadata messages after the first one";
    /// Deps refer to missing nodes.
    DanglingDep = "dependencies on nodes that are missing from the file";
    /// Deps make nodes wait for each other, or for themselves.
    CyclicDep = "cyclic dependencies, left out";
    /// Several nodes have the same id.
    DuplicateId = "nodes with the id of an earlier node";
    /// Merged JSON has the op tree and the device rows alone.
    Recording = "runtime calls, host waits and waits between streams, which merged JSON lacks (each \
        kernel is launched as late in its op as its start allows); nodes";
    /// A `.et` has no communication node for a communication.
    CommunicationAsCompute = "collectives and messages written as computation, as in `etlink link`, because \
        they move no data, or their type, group, size or peer is unknown";
    /// Nodes are outside of the selection.
    NodeNotChosen = "nodes outside the selection";
    /// Simulators do not read some attributes.
    AttributesNotChosen = "nodes with start times, arguments or attributes that simulators do not read";
    /// A dep connects a selected node with one that is not selected.
    DepNotChosen = "dependencies between selected and unselected nodes";
    /// GOAL has no memory operations.
    MemoryAsCalc = "nodes that read or write memory, written as calculations";
    /// A collective has an unknown type or group.
    CollectiveAsCalc = "collectives of an unknown group or type, written as calculations";
    /// A message has no peer or size.
    MessageAsCalc = "sends and receives without a peer rank, written as calculations";
    /// A message involves a rank without a file.
    AbsentPeer = "sends and receives of ranks without a file, written as calculations";
    /// Some ranks of a collective have no file.
    PartialGroup = "collectives of a group with missing ranks, written as calculations";
    /// A tag has more than 32 bits.
    TagFolded = "messages whose tag has more than 32 bits, written with the lowest 24 bits";
    /// A rank has no file.
    AbsentRank = "ranks without a file, written as idle ranks";
}

impl LossKind {
    /// Returns true if the loss was requested, rather than caused by limits of the target format.
    pub fn is_chosen(self) -> bool {
        matches!(
            self,
            LossKind::NodeNotChosen | LossKind::DepNotChosen | LossKind::AttributesNotChosen
        )
    }
}

/// Losses by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Losses {
    counts: IndexMap<LossKind, u64>,
}

impl Losses {
    /// Counts `count` losses; 0 adds no entry.
    pub fn add(&mut self, kind: LossKind, count: u64) {
        if count > 0 {
            *self.counts.entry(kind).or_default() += count;
        }
    }

    /// Adds the losses of another part.
    pub fn extend(&mut self, other: &Losses) {
        for (kind, count) in other.iter() {
            self.add(kind, count);
        }
    }

    /// Returns true if nothing was lost.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the number of losses of a kind.
    pub fn count(&self, kind: LossKind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    /// Returns all kinds with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (LossKind, u64)> {
        self.counts.iter().map(|(kind, count)| (*kind, *count))
    }
}
