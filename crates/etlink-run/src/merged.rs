//! Merged JSON (ET+): both traces of a rank in one file, where etlink wrote it.

use crate::Progress;
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::input::{self, InputFile};
use etlink_chakra::etplus::{RecordedTraces, RecordingError, has_recording, recorded_traces};
use etlink_chakra::read::{self, ChakraGraph};
use etlink_host::HostReadOptions;
use etlink_model::HostTrace;
use std::io::Read;
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
            MergedContent::Nodes {
                unread: Some(source),
                ..
            } => Err(RunError::Recording { name, source }),
            MergedContent::Nodes { unread: None, .. } => Err(RunError::NoRecording { name }),
        }
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
            let again = || Ok(input::open(&path, threads, progress)?.content);
            read_twice(&name, threads, content, again)
        }
        None => read_stream(&name, threads, content),
    }?;
    let MergedNodes {
        lines,
        graph,
        behind,
    } = nodes;
    let traces = has_recording(&behind).then(|| recorded_traces(lines, &graph, &behind));
    let unread = match traces {
        Some(Ok(traces)) => return Ok(MergedContent::Traces(Box::new(traces))),
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
    let read = content.read_to_end(&mut text);
    read.with_path(FileAction::Read, Path::new(name))?;
    read_twice(name, threads, &text[..], || Ok(Box::new(&text[..])))
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
