//! Merged JSON (ET+), which contains both traces of a rank if etlink wrote it.

use crate::Progress;
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::input::{self, InputFile};
use etlink_chakra::etplus::{RecordedTraces, RecordingError, has_recording, recorded_traces};
use etlink_chakra::read::{self, ChakraGraph};
use etlink_formats::host::HostReadOptions;
use etlink_model::{Failure, HostTrace};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Content of a merged trace.
pub(crate) enum MergedContent {
    /// The source traces.
    Traces(Box<RecordedTraces>),
    /// The nodes alone.
    Nodes {
        /// Tree of ops.
        graph: Box<ChakraGraph>,
        /// Error of the recording in the file; `None` if it has none.
        unread: Option<RecordingError>,
    },
}

impl MergedContent {
    /// Returns the source traces; `name` is the file's, for messages.
    ///
    /// # Errors
    /// Fails if the file has no recording, or an unusable one.
    pub(crate) fn into_traces(self, name: String) -> Result<Box<RecordedTraces>, RunError> {
        match self {
            MergedContent::Traces(traces) => Ok(traces),
            MergedContent::Nodes { graph, unread } => Err(without_traces(name, &graph, unread)),
        }
    }
}

/// Creates the error for a merged trace without source traces.
pub(crate) fn without_traces(
    name: String,
    graph: &ChakraGraph,
    unread: Option<RecordingError>,
) -> RunError {
    let what = " is a merged trace (ET+) that does not contain the traces it was made from";
    let failure = match (unread, graph.damage()) {
        (Some(cause), _) => Failure::unreadable(name, cause),
        (None, damage) => {
            let damage = damage.map_or(String::new(), |damage| format!(": {damage}"));
            Failure::about(name, format!("{what}{damage}")).advise(
                "give those traces. `etlink analyze`, `report`, `check` and `convert` also read its \
                 nodes",
            )
        }
    };
    RunError::NoRecording(Box::new(failure))
}

/// A merged trace as read.
pub(crate) struct MergedNodes {
    /// The nodes as ops.
    pub(crate) lines: HostTrace,
    /// The same nodes with their times.
    pub(crate) graph: ChakraGraph,
    /// Text after the nodes.
    pub(crate) behind: Vec<u8>,
}

/// Reads a merged trace.
///
/// # Errors
/// Fails if the file cannot be read.
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
            // these are the bytes read; a host trace counts them if there is one
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

/// Reads a stream that can only be read once, holding its text in memory meanwhile.
///
/// # Errors
/// Fails if the stream cannot be read.
pub(crate) fn read_stream(
    name: &str,
    threads: usize,
    mut content: impl Read,
) -> Result<MergedNodes, RunError> {
    let mut text = vec![];
    let error = match content.read_to_end(&mut text) {
        Ok(_) => None,
        // the text before the damage is used, like in other readers of streams
        Err(error) if is_damage(error.kind()) && !text.is_empty() => Some(error),
        Err(error) => return Err(error).with_path(FileAction::Read, Path::new(name))?,
    };
    let end = || FailedEnd(error.as_ref());
    read_twice(name, threads, text.chain(end()), || {
        Ok(Box::new(text.chain(end())))
    })
}

/// Returns true for the errors of decoders on truncated or damaged files.
fn is_damage(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput
    )
}

/// End of a stream, which may be an error.
struct FailedEnd<'e>(Option<&'e io::Error>);

impl Read for FailedEnd<'_> {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {
            Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
            None => Ok(0),
        }
    }
}

/// Reads the nodes twice: as ops, and for their times.
fn read_twice<'s>(
    name: &str,
    threads: usize,
    content: impl Read + Send,
    again: impl FnOnce() -> Result<Box<dyn Read + Send + 's>, RunError>,
) -> Result<MergedNodes, RunError> {
    let options = HostReadOptions { threads };
    let lines = etlink_formats::host::read_linked(content, options);
    let (lines, behind) = lines.map_err(|cause| RunError::unreadable(name, cause))?;
    let graph = read::read(again()?).map_err(|cause| RunError::unreadable(name, cause))?;
    Ok(MergedNodes {
        lines,
        graph,
        behind,
    })
}
