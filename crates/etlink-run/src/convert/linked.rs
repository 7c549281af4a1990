//! Converts merged JSON (ET+) to the graph of the same two traces: like `link` for a single file,
//! and like `merge` for a rank in a folder.

use super::InputRank;
use super::graph_input::GraphInput;
use crate::RunError;
use crate::input;
use crate::merge::{WrittenMember, write_member};
use crate::merged::{MergedNodes, read_stream};
use crate::run::RunSet;
use etlink_chakra::etplus::{RecordedTraces, RecordingError, recorded_traces};
use etlink_chakra::messages::{LossKind, Losses};
use etlink_chakra::{WriteOptions, et};
use etlink_model::Failure;

/// Returns the graph of a rank as `etlink merge` without options writes it. Returns `None` if the
/// rank has no readable recording, so that it cannot be joined.
pub(super) fn link_member(rank: &InputRank) -> Result<Option<WrittenMember>, RunError> {
    let mut set = rank.set.clone();
    set.keep_merged();
    let runs = RunSet::of_merged(&rank.folder, &set)?;
    match write_member(&runs, rank.rank) {
        Err(RunError::NoRecording(_)) => Ok(None),
        written => {
            let mut written = written?;
            written.diagnostics.extend(set.without_traces_note());
            Ok(Some(written))
        }
    }
}

/// Returns the graph as the `.et` that `etlink link` without options writes, and its losses.
pub(super) fn link_again(source: &mut GraphInput) -> Result<(Vec<u8>, Losses), RunError> {
    let path = source.path.clone();
    let not_linked = |why: String| Failure::about(path.display(), format!(": {why}"));
    let MergedNodes {
        lines,
        graph,
        behind,
    } = read_stream(&input::display_name(&path), 0, source.open()?)?;
    let mut losses = super::losses_of_damage(&graph);
    let traces = recorded_traces(lines, &graph, &behind);
    let traces = traces.map_err(|error| {
        // an intentionally edited graph can be converted from its nodes
        let more = match error {
            RecordingError::Changed { .. } => {
                ", or remove \"recording\" from the file to convert only its nodes"
            }
            _ => "",
        };
        not_linked(format!("{error}{more}"))
    })?;
    drop(graph);
    losses.extend(&traces.losses);
    let options = traces.link_options();
    let RecordedTraces {
        mut host, device, ..
    } = traces;
    if let Some(host) = &mut host {
        host.tensors = Some(etlink_formats::host::tensor_uses(host));
    }
    let trace = etlink_link::link(host, device, options);
    let trace = trace.map_err(|error| not_linked(error.to_string()))?;
    let mut bytes = vec![];
    let written = et::write_et(&trace, &WriteOptions::default(), &mut bytes);
    let written = written.map_err(|cause| RunError::unreadable(path.display(), cause))?;
    losses.add(
        LossKind::CommunicationAsCompute,
        written.demoted.values().sum(),
    );
    Ok((bytes, losses))
}
