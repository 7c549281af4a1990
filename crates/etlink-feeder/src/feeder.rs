//! Feeds a graph, and reads its nodes on request.

use crate::error::FeederError;
use crate::index::Messages;
use crate::paged_file::{PagedFile, ScratchFile};
use crate::progress::{IssueOrder, Progress};
use crate::storage::Memory;
use etlink_chakra::proto::{GlobalMetadata, Node};
use prost::Message;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

/// Cache of the last nodes looked up, with one entry per slot: simulators request a node several
/// times while it is issued.
const KEPT_NODES: usize = 4096;
/// Number of cached nodes if memory is scarce.
const FEW_KEPT_NODES: usize = 64;
/// Maximum size of a cached node if memory is scarce, bytes; larger ones are read on each request.
const MOST_KEPT_BYTES: usize = 4096;
/// Maximum bytes of columns per byte of a graph: a node has at least three bytes, a dependency one.
const MOST_COLUMN_BYTES: u64 = 64;

/// Feeds a simulator with the nodes of a graph. `source` is the file that contains the graph.
///
/// Time: [`Self::issue_next`] and [`Self::end`] take constant time per node and dependency, on
/// average. Memory: some 40 bytes per node and 4 per dependency, plus the last nodes looked up;
/// with [`Self::with_scratch`], the memory you grant.
#[derive(Debug)]
pub struct Feeder<R> {
    source: R,
    progress: Place,
    kept: Vec<Option<(u32, Arc<Node>)>>,
    /// Maximum size of a cached node, bytes.
    most_kept_bytes: usize,
}

/// Location of the graph and its state.
#[derive(Debug)]
enum Place {
    Memory(Box<Progress<Memory>>),
    Scratch(Box<Progress<PagedFile>>),
}

/// Applies an action to the graph, in memory or in a scratch file.
macro_rules! of_graph {
    ($feeder:expr, $progress:ident => $action:expr) => {
        match $feeder {
            Place::Memory($progress) => $action,
            Place::Scratch($progress) => $action,
        }
    };
}

impl<R: Read + Seek> Feeder<R> {
    /// Reads the graph once. Later reads concern only the requested nodes.
    ///
    /// # Errors
    /// The graph cannot be read, is truncated, or contains nodes that can never be issued.
    pub fn new(mut source: R, order: IssueOrder) -> Result<Feeder<R>, FeederError> {
        source.seek(SeekFrom::Start(0))?;
        let progress = Progress::read(&mut source, order, Memory)?;
        Ok(Feeder {
            source,
            progress: Place::Memory(Box::new(progress)),
            kept: vec![None; KEPT_NODES],
            most_kept_bytes: usize::MAX,
        })
    }

    /// Reads a graph of any size in `memory_bytes` of memory: the index is in a scratch file, and
    /// the most recently used pages are in memory. The issue order is the same as with
    /// [`Self::new`].
    ///
    /// `scratch` is read and written at any offset, and grows to some 50 bytes per node and 12 per
    /// dependency. Its previous contents are lost. Besides `memory_bytes` the feeder takes about
    /// one MB and the largest node. At least one page is in memory.
    ///
    /// ```
    /// # use etlink_feeder::{Feeder, FeederError, IssueOrder};
    /// # use std::io::Cursor;
    /// # fn feed(graph: &[u8]) -> Result<(), FeederError> {
    /// // for large graphs a file: `tempfile::tempfile()?`
    /// let scratch = Cursor::new(vec![]);
    /// let graph = Cursor::new(graph);
    /// let mut feeder = Feeder::with_scratch(graph, IssueOrder::Stock, scratch, 16 << 20)?;
    /// while let Some(id) = feeder.issue_next()? {
    ///     feeder.end(id)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`Self::new`], or the scratch file cannot be read or written. After such a failure
    /// the feeder does not advance, and each call reports it.
    pub fn with_scratch(
        mut source: R,
        order: IssueOrder,
        scratch: impl ScratchFile + 'static,
        memory_bytes: usize,
    ) -> Result<Feeder<R>, FeederError> {
        let source_bytes = source.seek(SeekFrom::End(0))?;
        source.seek(SeekFrom::Start(0))?;
        let most_bytes = source_bytes.saturating_mul(MOST_COLUMN_BYTES);
        let pages = PagedFile::new(scratch, memory_bytes, most_bytes);
        let progress = Progress::read(&mut source, order, pages)?;
        Ok(Feeder {
            source,
            progress: Place::Scratch(Box::new(progress)),
            kept: vec![None; FEW_KEPT_NODES],
            most_kept_bytes: MOST_KEPT_BYTES,
        })
    }

    /// Returns the metadata of the file.
    pub fn metadata(&self) -> &GlobalMetadata {
        of_graph!(&self.progress, progress => progress.index().metadata())
    }

    /// Returns the number of nodes in the graph.
    pub fn nodes(&self) -> usize {
        of_graph!(&self.progress, progress => progress.index().len())
    }

    /// Returns the number of nodes that may be issued now.
    pub fn ready(&self) -> usize {
        of_graph!(&self.progress, progress => progress.ready())
    }

    /// Returns the number of nodes that were issued and have not ended.
    pub fn issued(&self) -> usize {
        of_graph!(&self.progress, progress => progress.issued())
    }

    /// Returns the number of nodes that have ended.
    pub fn ended(&self) -> usize {
        of_graph!(&self.progress, progress => progress.ended())
    }

    /// Returns the id of the node that is next, if one may be issued, without issuing it.
    ///
    /// # Errors
    /// The scratch file failed. Without a scratch file this cannot fail.
    pub fn first_ready(&mut self) -> Result<Option<u64>, FeederError> {
        of_graph!(&mut self.progress, progress => progress.first_ready())
    }

    /// Issues the next node and returns its id; `None` if none may be issued now.
    ///
    /// # Errors
    /// The scratch file failed. Without a scratch file this cannot fail.
    pub fn issue_next(&mut self) -> Result<Option<u64>, FeederError> {
        of_graph!(&mut self.progress, progress => progress.issue_next())
    }

    /// Issues a node.
    ///
    /// # Errors
    /// The node may not be issued now, or the scratch file failed.
    pub fn issue(&mut self, id: u64) -> Result<(), FeederError> {
        of_graph!(&mut self.progress, progress => progress.issue(id))
    }

    /// Takes back an issued node, which may then be issued again.
    ///
    /// # Errors
    /// The node was not issued, or the scratch file failed.
    pub fn push_back(&mut self, id: u64) -> Result<(), FeederError> {
        of_graph!(&mut self.progress, progress => progress.push_back(id))
    }

    /// Ends an issued node: nodes that waited only for it may then be issued.
    ///
    /// # Errors
    /// The node was not issued, or the scratch file failed.
    pub fn end(&mut self, id: u64) -> Result<(), FeederError> {
        of_graph!(&mut self.progress, progress => progress.end(id))
    }

    /// Returns the complete node with an id.
    ///
    /// # Errors
    /// No node has this id, the file cannot be read or has changed, or the scratch file failed.
    pub fn node(&mut self, id: u64) -> Result<Arc<Node>, FeederError> {
        let (place, offset) = of_graph!(&mut self.progress, progress => progress.message(id))?;
        let slot = place as usize % self.kept.len();
        if let Some((kept, node)) = &self.kept[slot]
            && *kept == place
        {
            return Ok(Arc::clone(node));
        }
        let (node, bytes) = self.read_node(offset, id)?;
        let node = Arc::new(node);
        if bytes <= self.most_kept_bytes {
            self.kept[slot] = Some((place, Arc::clone(&node)));
        }
        Ok(node)
    }

    /// Reads the node of a message; also returns the message's length in bytes.
    fn read_node(&mut self, offset: u64, id: u64) -> Result<(Node, usize), FeederError> {
        self.source.seek(SeekFrom::Start(offset))?;
        let mut messages = Messages::small(&mut self.source, offset);
        let node = messages.next(|_, bytes| Some((Node::decode(bytes).ok()?, bytes.len())))?;
        // another program may have written to the file
        node.filter(|(node, _)| node.id == id)
            .ok_or(FeederError::NoMessage { offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_chakra::messages::{ChakraMessage, write_et};
    use std::io::Cursor;

    /// Builds a graph of nodes that each wait for the previous one.
    fn chain(count: u64) -> Vec<u8> {
        let mut bytes = vec![];
        let metadata = ChakraMessage::Metadata(GlobalMetadata::default());
        write_et(&metadata, &mut bytes).expect("memory takes it");
        // written last to first, so that ids are sorted
        for id in (0..count).rev() {
            let node = Node {
                id,
                data_deps: id.checked_sub(1).into_iter().collect(),
                ..Node::default()
            };
            write_et(&ChakraMessage::Node(Box::new(node)), &mut bytes).expect("memory takes it");
        }
        bytes
    }

    fn pages_in_memory<R>(feeder: &Feeder<R>) -> usize {
        match &feeder.progress {
            Place::Memory(_) => 0,
            Place::Scratch(progress) => progress.storage().pages_in_memory(),
        }
    }

    #[test]
    fn pages_take_no_more_memory_than_they_may() {
        let bytes = chain(6_000);
        for (memory_bytes, most_pages) in [(0, 1), (4_096, 1), (100_000, 24), (200_000, 48)] {
            let graph = Cursor::new(&bytes[..]);
            let scratch = Cursor::new(vec![]);
            let feeder = Feeder::with_scratch(graph, IssueOrder::Stock, scratch, memory_bytes);
            let mut feeder = feeder.expect("a graph");
            let mut issued = 0;
            while let Some(id) = feeder.issue_next().expect("room in memory") {
                assert_eq!(id, issued);
                feeder.node(id).expect("it is there");
                feeder.end(id).expect("it was issued");
                issued += 1;
                let pages = pages_in_memory(&feeder);
                assert!(pages > 0 && pages <= most_pages, "{pages} pages");
                assert!(feeder.kept.iter().flatten().count() <= FEW_KEPT_NODES);
            }
            assert_eq!(issued, 6_000);
        }
    }
}
