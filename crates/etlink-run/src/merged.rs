//! Links merged JSON (ET+) again: the traces rebuilt from its nodes.

use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::input;
use etlink_chakra::messages::{LossKind, Losses};
use etlink_chakra::read::ChakraGraph;
use etlink_chakra::{WriteOptions, et, etplus, read};
use etlink_formats::host::HostReadOptions;
use etlink_link::LinkOptions;
use etlink_model::Failure;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Content of merged JSON, and the graph made of it.
pub(crate) struct RelinkedGraph {
    /// The nodes of the file.
    pub(crate) tree: ChakraGraph,
    /// The `.et` that `etlink link` without options writes of the rebuilt traces.
    pub(crate) graph: Vec<u8>,
    /// Data that this `.et` lacks.
    pub(crate) losses: Losses,
}

/// Reads merged JSON and links its traces again.
///
/// # Errors
/// Fails if the content cannot be read, or if no node has a time.
pub(crate) fn relink(path: &Path, mut content: impl Read) -> Result<RelinkedGraph, RunError> {
    let mut text = vec![];
    match content.read_to_end(&mut text) {
        // the text before the damage is used, like in other readers of streams
        Err(error) if is_damage(error.kind()) && !text.is_empty() => {}
        read => drop(read.with_path(FileAction::Read, path)?),
    }
    let name = input::display_name(path);
    let tree = read::read(&text[..]).map_err(|cause| RunError::unreadable(&name, cause))?;
    let lines = etlink_formats::host::read(&text[..], HostReadOptions::default());
    let lines = lines.map_err(|cause| RunError::unreadable(&name, cause))?;
    drop(text);
    let not_linked = |why: String| Failure::about(&name, format!(": {why}"));
    let traces = etplus::rebuilt_traces(lines, &tree);
    let (mut host, device) = traces.map_err(|failure| not_linked(failure.to_string()))?;
    let mut losses = Losses::default();
    let nodes = device.ops.len() + device.rows.len();
    losses.add(LossKind::Recording, nodes as u64);
    host.tensors = Some(etlink_formats::host::tensor_uses(&host));
    // they were accepted as traces of one run when the file was written
    let options = LinkOptions {
        allow_mismatch: true,
        ..LinkOptions::default()
    };
    let trace = etlink_link::link(Some(host), device, options);
    let trace = trace.map_err(|error| not_linked(error.to_string()))?;
    let mut graph = vec![];
    let written = et::write_et(&trace, &WriteOptions::default(), &mut graph);
    let written = written.map_err(|cause| RunError::unreadable(&name, cause))?;
    losses.add(
        LossKind::CommunicationAsCompute,
        written.demoted.values().sum(),
    );
    Ok(RelinkedGraph {
        tree,
        graph,
        losses,
    })
}

/// Returns true for the errors of decoders on truncated or damaged files.
fn is_damage(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput
    )
}
