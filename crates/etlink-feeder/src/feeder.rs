//! A graph that is fed, and its nodes, which are read when they are asked for.

use crate::error::FeederError;
use crate::index::Messages;
use crate::paged_file::{PagedFile, ScratchFile};
use crate::progress::{IssueOrder, Progress};
use crate::storage::Memory;
use etlink_chakra::proto::{GlobalMetadata, Node};
use prost::Message;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

/// Nodes that were looked up last, of which each place has one: simulators ask for a node several
/// times while it is issued.
const KEPT_NODES: usize = 4096;
/// The same where memory is scarce.
const FEW_KEPT_NODES: usize = 64;
/// There, larger ones are read whenever they are asked for, bytes.
const MOST_KEPT_BYTES: usize = 4096;
/// No byte of a graph makes more bytes of columns: a node is three bytes, a dependency one.
const MOST_COLUMN_BYTES: u64 = 64;

/// Feeds a simulator with the nodes of a graph. `source` is the file that the graph is read from.
///
/// Time: [`Self::issue_next`] and [`Self::end`] take constant time for each node and dependency, on
/// average. Memory: some 40 bytes a node and 4 a dependency, and the latest nodes that were looked
/// up; as much as you say by [`Self::with_scratch`].
#[derive(Debug)]
pub struct Feeder<R> {
    source: R,
    progress: Place,
    kept: Vec<Option<(u32, Arc<Node>)>>,
    /// Larger nodes are not kept, bytes.
    most_kept_bytes: usize,
}

/// Where the graph and its state lie.
#[derive(Debug)]
enum Place {
    Memory(Box<Progress<Memory>>),
    Scratch(Box<Progress<PagedFile>>),
}

/// The same of a graph, wherever it lies.
macro_rules! of_graph {
    ($feeder:expr, $progress:ident => $action:expr) => {
        match $feeder {
            Place::Memory($progress) => $action,
            Place::Scratch($progress) => $action,
        }
    };
}

impl<R: Read + Seek> Feeder<R> {
    /// Reads the graph once. Later only nodes that are looked up are read.
    ///
    /// # Errors
    /// The graph cannot be read, is cut, or is none whose nodes can all be issued.
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

    /// The same with a graph of any size in `memory_bytes` of memory: what is known of it lies in a
    /// scratch file, and the pages that were used last are in memory. Nodes are issued in the same
    /// order.
    ///
    /// `scratch` is read and written anywhere, and grows to some 50 bytes a node and 12 a dependency.
    /// What was in it is lost. Beside `memory_bytes` the feeder takes about one MB and the largest
    /// node. Fewer bytes than a page are a page.
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
    /// Those of [`Self::new`], or the scratch file cannot be read or written. Once it has failed, the
    /// feeder stays where it is, and each call says so.
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

    /// What the file says of itself.
    pub fn metadata(&self) -> &GlobalMetadata {
        of_graph!(&self.progress, progress => progress.index().metadata())
    }

    /// How many nodes the graph has.
    pub fn nodes(&self) -> usize {
        of_graph!(&self.progress, progress => progress.index().len())
    }

    /// How many nodes may be issued now.
    pub fn ready(&self) -> usize {
        of_graph!(&self.progress, progress => progress.ready())
    }

    /// How many nodes were issued and have not ended.
    pub fn issued(&self) -> usize {
        of_graph!(&self.progress, progress => progress.issued())
    }

    /// How many nodes have ended.
    pub fn ended(&self) -> usize {
        of_graph!(&self.progress, progress => progress.ended())
    }

    /// The id of the node that comes first, if one may be issued. It stays where it is.
    ///
    /// # Errors
    /// The scratch file failed. Without one there are none.
    pub fn first_ready(&mut self) -> Result<Option<u64>, FeederError> {
        of_graph!(&mut self.progress, progress => progress.first_ready())
    }

    /// Issues the node that comes first; its id, or `None` if none may be issued now.
    ///
    /// # Errors
    /// The scratch file failed. Without one there are none.
    pub fn issue_next(&mut self) -> Result<Option<u64>, FeederError> {
        of_graph!(&mut self.progress, progress => progress.issue_next())
    }

    /// Issues a node.
    ///
    /// # Errors
    /// It may not be issued now, or the scratch file failed.
    pub fn issue(&mut self, id: u64) -> Result<(), FeederError> {
        of_graph!(&mut self.progress, progress => progress.issue(id))
    }

    /// Takes a node back that was issued: it may be issued again.
    ///
    /// # Errors
    /// It was not issued, or the scratch file failed.
    pub fn push_back(&mut self, id: u64) -> Result<(), FeederError> {
        of_graph!(&mut self.progress, progress => progress.push_back(id))
    }

    /// A node that was issued has ended: those that waited for it alone may be issued.
    ///
    /// # Errors
    /// It was not issued, or the scratch file failed.
    pub fn end(&mut self, id: u64) -> Result<(), FeederError> {
        of_graph!(&mut self.progress, progress => progress.end(id))
    }

    /// All of a node.
    ///
    /// # Errors
    /// There is none of this id, the file cannot be read or has changed, or the scratch file failed.
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

    /// The node of a message, and how many bytes this has.
    fn read_node(&mut self, offset: u64, id: u64) -> Result<(Node, usize), FeederError> {
        self.source.seek(SeekFrom::Start(offset))?;
        let mut messages = Messages::small(&mut self.source, offset);
        let node = messages.next(|_, bytes| Some((Node::decode(bytes).ok()?, bytes.len())))?;
        // somebody may have written to the file
        node.filter(|(node, _)| node.id == id)
            .ok_or(FeederError::NoMessage { offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_chakra::messages::{ChakraMessage, write_et};
    use std::io::Cursor;

    /// Each node waits for the one before it.
    fn chain(count: u64) -> Vec<u8> {
        let mut bytes = vec![];
        let metadata = ChakraMessage::Metadata(GlobalMetadata::default());
        write_et(&metadata, &mut bytes).expect("memory takes it");
        // from the last one to the first, so that ids are sorted
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
