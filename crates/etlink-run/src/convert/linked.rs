//! Merged JSON (ET+) as the graph that was made of the same two traces.

use super::error::ConversionError;
use super::graph_input::GraphInput;
use crate::input;
use crate::merged::{MergedNodes, read_stream};
use etlink_chakra::etplus::{RecordedTraces, recorded_traces};
use etlink_chakra::messages::{LossKind, Losses};
use etlink_chakra::{WriteOptions, et};

/// The graph as a `.et`, as `etlink link` without options writes it, and what it lacks.
pub(super) fn link_again(source: &mut GraphInput) -> Result<(Vec<u8>, Losses), ConversionError> {
    let path = source.path.clone();
    let not_linked = |why: String| ConversionError::NotLinked {
        path: path.clone(),
        why,
    };
    let MergedNodes {
        lines,
        graph,
        behind,
    } = read_stream(&input::display_name(&path), 0, source.open()?)?;
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
    let written = et::write_et(&trace, &WriteOptions::default(), &mut bytes);
    let written = written.map_err(ConversionError::Sink)?;
    losses.add(
        LossKind::CommunicationAsCompute,
        written.demoted.values().sum(),
    );
    Ok((bytes, losses))
}
