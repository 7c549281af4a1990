//! Errors of feeding a graph.

use crate::storage::ScratchError;

/// Reason why a graph cannot be fed. The caller adds the name of the file.
#[derive(Debug, thiserror::Error)]
pub enum FeederError {
    /// The graph's file cannot be read.
    #[error("cannot read it")]
    Io(#[from] std::io::Error),
    /// The scratch file cannot be read or written.
    #[error("the scratch file cannot be used")]
    Scratch(#[source] std::io::Error),
    /// The file ends inside a message.
    #[error("it is cut: the message at byte {offset} has {bytes} bytes, and the file ends before")]
    Cut {
        /// Offset of the message, bytes.
        offset: u64,
        /// Claimed length of the message, bytes.
        bytes: u64,
    },
    /// The file ends inside the length of a message.
    #[error("it is cut: it ends within the length of the message at byte {offset}")]
    CutLength {
        /// Offset of the message, bytes.
        offset: u64,
    },
    /// The number of nodes differs from the stated one.
    #[error("it says that it has {stated} nodes, and has {found}: it is cut, or was changed")]
    OtherCount {
        /// Number in the metadata.
        stated: u64,
        /// Number of nodes found.
        found: u64,
    },
    /// The next bytes are not a Chakra message.
    #[error("what begins at byte {offset} is no node of a Chakra graph; `etlink check` says more")]
    NoMessage {
        /// Offset of those bytes.
        offset: u64,
    },
    /// The file is compressed, so offsets in it could not be found again.
    #[error("it is packed by {tool}; unpack it: `{tool} -d FILE`")]
    Packed {
        /// Program that decompresses the file.
        tool: &'static str,
    },
    /// The file contains no nodes.
    #[error("it has no nodes")]
    NoNodes,
    /// The graph has more nodes or dependencies than 32 bits can count.
    #[error("it has more than 4,294,967,294 nodes or dependencies")]
    TooLarge,
    /// Two nodes share an id.
    #[error("two nodes have the id {id}")]
    RepeatedId {
        /// The shared id.
        id: u64,
    },
    /// A node depends on a node that is not in the file.
    #[error("node {node} depends on node {missing}, which is not in the file")]
    MissingNode {
        /// Id of the node.
        node: u64,
        /// Id of the missing dependency.
        missing: u64,
    },
    /// Some nodes wait for each other.
    #[error("{nodes} nodes can never be issued: they wait for each other, as node {id} does")]
    Cycle {
        /// Id of one of these nodes.
        id: u64,
        /// Number of nodes in cycles, plus the nodes that wait for them.
        nodes: usize,
    },
    /// No node has this id.
    #[error("there is no node {id}")]
    UnknownNode {
        /// The unknown id.
        id: u64,
    },
    /// The node waits for others, was issued already, or has ended.
    #[error("node {id} cannot be issued: it waits for others, was issued, or has ended")]
    NotReady {
        /// Id of the node.
        id: u64,
    },
    /// The node was not issued, or has ended.
    #[error("node {id} was not issued, or has ended already")]
    NotIssued {
        /// Id of the node.
        id: u64,
    },
}

impl From<ScratchError> for FeederError {
    fn from(ScratchError(error): ScratchError) -> FeederError {
        FeederError::Scratch(error)
    }
}
