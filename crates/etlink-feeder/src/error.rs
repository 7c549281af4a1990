//! Why a graph cannot be fed.

use crate::storage::ScratchError;

/// Why a graph cannot be fed. The name of the file is the caller's to add.
#[derive(Debug, thiserror::Error)]
pub enum FeederError {
    /// The file cannot be read.
    #[error("cannot read it")]
    Io(#[from] std::io::Error),
    /// The scratch file cannot be read or written.
    #[error("the scratch file cannot be used")]
    Scratch(#[source] std::io::Error),
    /// It ends within a message.
    #[error("it is cut: the message at byte {offset} has {bytes} bytes, and the file ends before")]
    Cut {
        /// Where the message begins, bytes.
        offset: u64,
        /// How long it says that it is, bytes.
        bytes: u64,
    },
    /// It ends within the length of a message.
    #[error("it is cut: it ends within the length of the message at byte {offset}")]
    CutLength {
        /// Where the message begins, bytes.
        offset: u64,
    },
    /// It has fewer or more nodes than it says.
    #[error("it says that it has {stated} nodes, and has {found}: it is cut, or was changed")]
    OtherCount {
        /// By its metadata.
        stated: u64,
        /// In it.
        found: u64,
    },
    /// What stands there is no message of Chakra.
    #[error("what begins at byte {offset} is no node of a Chakra graph; `etlink check` says more")]
    NoMessage {
        /// Where it begins, bytes.
        offset: u64,
    },
    /// It is compressed: places in it could not be found again.
    #[error("it is packed by {tool}; unpack it: `{tool} -d FILE`")]
    Packed {
        /// The program that unpacks it.
        tool: &'static str,
    },
    /// It is empty.
    #[error("it has no nodes")]
    NoNodes,
    /// More than 32 bits can count.
    #[error("it has more than 4,294,967,294 nodes or dependencies")]
    TooLarge,
    /// Two nodes have one id.
    #[error("two nodes have the id {id}")]
    RepeatedId {
        /// The id.
        id: u64,
    },
    /// A dependency on a node that is not there.
    #[error("node {node} depends on node {missing}, which is not in the file")]
    MissingNode {
        /// The node.
        node: u64,
        /// What it depends on.
        missing: u64,
    },
    /// Nodes wait for each other.
    #[error("{nodes} nodes can never be issued: they wait for each other, as node {id} does")]
    Cycle {
        /// One of them.
        id: u64,
        /// How many there are, with those that wait for them.
        nodes: usize,
    },
    /// There is no such node.
    #[error("there is no node {id}")]
    UnknownNode {
        /// The id.
        id: u64,
    },
    /// It waits for others, was issued already, or has ended.
    #[error("node {id} cannot be issued: it waits for others, was issued, or has ended")]
    NotReady {
        /// The id.
        id: u64,
    },
    /// It was not issued, or has ended.
    #[error("node {id} was not issued, or has ended already")]
    NotIssued {
        /// The id.
        id: u64,
    },
}

impl From<ScratchError> for FeederError {
    fn from(ScratchError(error): ScratchError) -> FeederError {
        FeederError::Scratch(error)
    }
}
