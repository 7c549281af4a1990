//! What of a file is not in its conversion.

use indexmap::IndexMap;
use serde::Serialize;

macro_rules! losses {
    ($($(#[$doc:meta])+ $name:ident = $text:literal;)*) => {
        /// Ways in which a conversion has less than its source.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum LossKind { $($(#[$doc])+ $name,)* }

        impl LossKind {
            /// What of it there is a number of, for people.
            pub fn describe(self) -> &'static str {
                match self { $(LossKind::$name => $text,)* }
            }
        }
    };
}

losses! {
    /// The bytes end inside of a message.
    CutTail = "messages cut at the end of the file";
    /// Fewer nodes than the file says.
    MissingNode = "nodes that the file says it has, and that are not there";
    /// Bytes that are no message.
    Undecodable = "messages that cannot be decoded, or have a text that is not UTF-8";
    /// Fields that the schema does not have.
    UnknownField = "messages with fields that Chakra's schema does not have";
    /// Types that the schema does not have.
    UnknownType = "nodes of a type that Chakra's schema does not have, written without a type";
    /// NaN and infinity, for which JSON has no text.
    NotFinite = "attributes that are NaN or infinite, which JSON cannot say";
    /// A second message of metadata.
    SecondMetadata = "messages of metadata after the first one";
    /// Deps on nodes that are not there.
    DanglingDep = "dependencies on nodes that are not in the file";
    /// Deps by which nodes wait for each other, or for themselves.
    CyclicDep = "dependencies by which nodes wait for themselves or for each other, left out";
    /// Nodes of one id.
    DuplicateId = "nodes whose id an earlier node has";
    /// Of merged JSON without a recording.
    Recording = "runtime calls, waits of the host and waits between streams, which merged JSON without \
        a recording lacks (each kernel is launched as late in its op as its own start allows); nodes";
    /// Of merged JSON, what was linked beside the two traces.
    BesideTraces = "files that were linked beside the two traces: the trace of a capture, metrics of \
        kernels";
    /// What a `.et` has no communication node for.
    CommunicationAsCompute = "collectives and messages written as computation, as `etlink link` does, since \
        they move no data, or their type, group, size or peer is unknown";
    /// Nodes outside of what was chosen.
    NodeNotChosen = "nodes outside of what was chosen";
    /// Attributes that simulators do not read.
    AttributesNotChosen = "nodes with starts, arguments or attributes that simulators do not read";
    /// Deps between a chosen node and another.
    DepNotChosen = "dependencies between a chosen node and one that is not";
    /// GOAL has no memory.
    MemoryAsCalc = "nodes that read or write memory, written as calculations";
    /// A collective of a type or group that is not known.
    CollectiveAsCalc = "collectives of an unknown group or type, written as calculations";
    /// A message without peer or size.
    MessageAsCalc = "sends and receives without the other rank, written as calculations";
    /// A message of a rank without a file.
    AbsentPeer = "sends and receives of ranks without a file, written as calculations";
    /// A collective of ranks of which some have no file.
    PartialGroup = "collectives of ranks of which some have no file, written among the others";
    /// A tag of more than 32 bits.
    TagFolded = "messages whose tag has more than 32 bits, written with its lowest 24";
    /// No file of a rank.
    AbsentRank = "ranks without a file, which do nothing";
}

impl LossKind {
    /// Whether it is what was asked for, rather than what the other format cannot hold.
    pub fn is_chosen(self) -> bool {
        matches!(
            self,
            LossKind::NodeNotChosen | LossKind::DepNotChosen | LossKind::AttributesNotChosen
        )
    }
}

/// What was lost, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Losses {
    counts: IndexMap<LossKind, u64>,
}

impl Losses {
    /// Counts some; none is nothing.
    pub fn add(&mut self, kind: LossKind, count: u64) {
        if count > 0 {
            *self.counts.entry(kind).or_default() += count;
        }
    }

    /// Adds what another part lost.
    pub fn extend(&mut self, other: &Losses) {
        for (kind, count) in other.iter() {
            self.add(kind, count);
        }
    }

    /// Whether nothing was lost.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many of a kind.
    pub fn count(&self, kind: LossKind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    /// All kinds with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (LossKind, u64)> {
        self.counts.iter().map(|(kind, count)| (*kind, *count))
    }
}
