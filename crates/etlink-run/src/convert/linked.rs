//! Merged JSON (ET+) as the graph that was made of the same two traces.

use super::error::ConversionError;
use super::graph_input::GraphInput;
use crate::RunError;
use crate::file_error::{FileAction, FileContext};
use etlink_chakra::etplus::{RecordedTraces, recorded_traces};
use etlink_chakra::messages::Losses;
use etlink_chakra::{WriteOptions, et, read};
use etlink_host::HostReadOptions;
use std::io::Read;

/// The graph as a `.et`, as `etlink link` without options writes it, and what it lacks.
pub(super) fn link_again(input: &mut GraphInput) -> Result<(Vec<u8>, Losses), ConversionError> {
    let path = input.path.clone();
    let not_linked = |why: String| ConversionError::NotLinked {
        path: path.clone(),
        why,
    };
    // Nodes are read twice, for what they say as ops and for their times.
    let mut text = vec![];
    let read = input.open()?.read_to_end(&mut text);
    read.with_path(FileAction::Read, &path)
        .map_err(RunError::from)?;
    let (lines, behind) = etlink_host::read_linked(&text[..], HostReadOptions::default())
        .map_err(|error| not_linked(error.to_string()))?;
    let graph = read::read(&text[..]).map_err(|source| ConversionError::Graph {
        path: path.clone(),
        source,
    })?;
    drop(text);
    let mut losses = super::losses_of_damage(&graph);
    let traces = recorded_traces(lines, &graph, &behind);
    let traces = traces.map_err(|error| not_linked(error.to_string()))?;
    drop(graph);
    losses.extend(&traces.losses);
    let options = traces.link_options();
    let RecordedTraces {
        mut host, device, ..
    } = traces;
    if let Some(host) = &mut host {
        host.tensors = Some(etlink_host::tensor_uses(host));
    }
    let trace = etlink_link::link(host, device, options);
    let trace = trace.map_err(|error| not_linked(error.to_string()))?;
    let mut bytes = vec![];
    et::write_et(&trace, &WriteOptions::default(), &mut bytes).map_err(ConversionError::Sink)?;
    Ok((bytes, losses))
}
