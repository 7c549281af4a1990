//! Errors of feeding a graph.

use crate::columns::ScratchError;

/// Reason why a graph cannot be fed. The caller adds the name of the file.
#[derive(Debug, thiserror::Error)]
pub enum FeederError {
    /// The graph's file cannot be read.
    #[error("cannot read the file")]
    Io(#[from] std::io::Error),
    /// The scratch file cannot be read or written.
    #[error("cannot use the scratch file")]
    Scratch(#[source] std::io::Error),
    /// The file ends inside a message.
    #[error("the file is truncated inside the message at byte {offset} with {bytes} bytes")]
    Cut {
        /// Offset of the message, bytes.
        offset: u64,
        /// Claimed length of the message, bytes.
        bytes: u64,
    },
    /// The file ends inside the length of a message.
    #[error("the file is truncated inside the length of the message at byte {offset}")]
    CutLength {
        /// Offset of the message, bytes.
        offset: u64,
    },
    /// The number of nodes differs from the stated one.
    #[error("the file states {stated} nodes but has {found}: it is truncated or was changed")]
    OtherCount {
        /// Number in the metadata.
        stated: u64,
        /// Number of nodes found.
        found: u64,
    },
    /// The next bytes are not a Chakra message.
    #[error("byte {offset} does not start a node of a Chakra graph; see `etlink check`")]
    NoMessage {
        /// Offset of those bytes.
        offset: u64,
    },
    /// The file is compressed, so offsets in it could not be found again.
    #[error("the file is compressed with {tool}; decompress it: `{tool} -d FILE`")]
    Packed {
        /// Program that decompresses the file.
        tool: &'static str,
    },
    /// The file contains no nodes.
    #[error("the graph has no nodes")]
    NoNodes,
    /// The graph has more nodes or dependencies than 32 bits can count.
    #[error("the graph has more than 4,294,967,292 nodes or dependencies")]
    TooLarge,
    /// Two nodes share an id.
    #[error("two nodes have the id {id}")]
    RepeatedId {
        /// The shared id.
        id: u64,
    },
    /// A node depends on a node that is not in the file.
    #[error("node {node} depends on node {missing}, which is missing from the file")]
    MissingNode {
        /// Id of the node.
        node: u64,
        /// Id of the missing dependency.
        missing: u64,
    },
    /// Some nodes wait for each other.
    #[error(
        "{nodes} nodes can never be issued, because they wait for each other (one is node {id})"
    )]
    Cycle {
        /// Id of one of these nodes.
        id: u64,
        /// Number of nodes in cycles, plus the nodes that wait for them.
        nodes: usize,
    },
    /// No node has this id.
    #[error("node {id} does not exist")]
    UnknownNode {
        /// The unknown id.
        id: u64,
    },
    /// The node waits for others, was issued already, or has ended.
    #[error(
        "node {id} cannot be issued: it waits for other nodes, was already issued, or has ended"
    )]
    NotReady {
        /// Id of the node.
        id: u64,
    },
    /// The node was not issued, or has ended.
    #[error("node {id} was not issued, or has already ended")]
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
