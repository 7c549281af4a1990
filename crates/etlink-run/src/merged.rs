//! Merged JSON (ET+): both traces of a rank in one file, where etlink wrote it.

use crate::Progress;
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::input::{self, InputFile};
use etlink_chakra::etplus::{RecordedTraces, RecordingError, has_recording, recorded_traces};
use etlink_chakra::read::{self, ChakraGraph};
use etlink_host::HostReadOptions;
use etlink_model::HostTrace;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// What a merged trace has.
pub(crate) enum MergedContent {
    /// The traces that it was linked of.
    Traces(Box<RecordedTraces>),
    /// Its nodes alone.
    Nodes {
        /// The tree of ops.
        graph: Box<ChakraGraph>,
        /// Why the recording in it is of no use; `None` where it has none.
        unread: Option<RecordingError>,
    },
}

impl MergedContent {
    /// The traces of a file of this name.
    ///
    /// # Errors
    /// The file has none, or what it has of them is of no use.
    pub(crate) fn into_traces(self, name: String) -> Result<Box<RecordedTraces>, RunError> {
        match self {
            MergedContent::Traces(traces) => Ok(traces),
            MergedContent::Nodes { graph, unread } => Err(without_traces(name, &graph, unread)),
        }
    }
}

/// Why there are no traces in a merged trace.
pub(crate) fn without_traces(
    name: String,
    graph: &ChakraGraph,
    unread: Option<RecordingError>,
) -> RunError {
    match (unread, graph.damage()) {
        (Some(source), _) => RunError::Recording { name, source },
        (None, Some(damage)) => RunError::DamagedMerged { name, damage },
        (None, None) => RunError::NoRecording { name },
    }
}

/// A merged trace as it is read.
pub(crate) struct MergedNodes {
    /// What its nodes say as ops.
    pub(crate) lines: HostTrace,
    /// The same nodes with their times.
    pub(crate) graph: ChakraGraph,
    /// The text behind them.
    pub(crate) behind: Vec<u8>,
}

/// Reads a merged trace.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read_merged(
    input: InputFile,
    threads: usize,
    progress: &Progress,
) -> Result<MergedContent, RunError> {
    let InputFile {
        name,
        content,
        stored_path,
        ..
    } = input;
    let nodes = match stored_path {
        Some(path) => {
            let again = || Ok(input::open(&path, progress)?.content);
            read_twice(&name, threads, content, again)
        }
        None => read_stream(&name, threads, content),
    }?;
    let MergedNodes {
        lines,
        graph,
        behind,
    } = nodes;
    let bytes = lines.bytes;
    let traces = has_recording(&behind).then(|| recorded_traces(lines, &graph, &behind));
    let unread = match traces {
        Some(Ok(mut traces)) => {
            // the file is what was read; a host trace counts it where there is one
            if traces.host.is_none() {
                traces.device.bytes = bytes;
            }
            return Ok(MergedContent::Traces(Box::new(traces)));
        }
        Some(Err(error)) => Some(error),
        None => None,
    };
    Ok(MergedContent::Nodes {
        graph: Box::new(graph),
        unread,
    })
}

/// Reads what can be read once: its text stays in memory meanwhile.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read_stream(
    name: &str,
    threads: usize,
    mut content: impl Read,
) -> Result<MergedNodes, RunError> {
    let mut text = vec![];
    let error = match content.read_to_end(&mut text) {
        Ok(_) => None,
        // what came before the place of the damage is read, as readers of streams do
        Err(error) if is_damage(error.kind()) && !text.is_empty() => Some(error),
        Err(error) => return Err(error).with_path(FileAction::Read, Path::new(name))?,
    };
    let end = || FailedEnd(error.as_ref());
    read_twice(name, threads, text.chain(end()), || {
        Ok(Box::new(text.chain(end())))
    })
}

/// What decoders of packed files say of a file that is cut or damaged.
fn is_damage(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput
    )
}

/// The end of a stream, which an error may be.
struct FailedEnd<'e>(Option<&'e io::Error>);

impl Read for FailedEnd<'_> {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {
            Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
            None => Ok(0),
        }
    }
}

/// Nodes are read for what they say as ops, and then for their times.
fn read_twice<'s>(
    name: &str,
    threads: usize,
    content: impl Read + Send,
    again: impl FnOnce() -> Result<Box<dyn Read + Send + 's>, RunError>,
) -> Result<MergedNodes, RunError> {
    let options = HostReadOptions { threads };
    let lines = etlink_host::read_linked(content, options);
    let (lines, behind) = lines.map_err(|source| RunError::HostTrace {
        name: name.to_owned(),
        source,
    })?;
    let graph = read::read(again()?).map_err(|source| RunError::WrittenGraph {
        name: name.to_owned(),
        source,
    })?;
    Ok(MergedNodes {
        lines,
        graph,
        behind,
    })
}
