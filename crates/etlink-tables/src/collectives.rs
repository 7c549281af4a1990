//! Table of communication, with the facts that the traces record.

use crate::columns::{ColumnSet, known_number, non_empty};
use crate::{Error, events, nodes};
use arrow_array::RecordBatch;
use etlink_link::{CollectiveRef, LinkedTrace, Node};
use etlink_model::{NameId, NodeIdx, dtype_bytes};
use std::ops::Range;

type Found<'t> = (u32, Node, CollectiveRef<'t>);

/// Builds the rows of the collectives among some nodes; a collective split into slices gets one
/// row, its first slice.
pub(crate) fn collectives_batch(
    trace: &LinkedTrace,
    places: Range<usize>,
    mut columns: ColumnSet,
) -> Result<RecordBatch, Error> {
    let all: Vec<Found<'_>> = places
        .filter_map(|place| find_collective(trace, place))
        .collect();
    columns
        .add_number("node", all.iter().map(|(place, ..)| Some(*place)))
        .add_number(
            "event",
            all.iter()
                .map(|(_, node, _)| nodes::node_event(trace, node)),
        )
        .add_flag(
            "on_device",
            all.iter().map(|(_, node, _)| Some(node.on_device)),
        )
        .add_signed(
            "start_ns",
            all.iter()
                .map(|(_, node, _)| Some(events::unix_ns(trace, node.start))),
        )
        .add_signed(
            "duration_ns",
            all.iter().map(|(_, node, _)| Some(node.duration.0)),
        );
    add_sizes(&all, &mut columns);
    add_group(&all, &mut columns);
    columns.finish()
}

fn find_collective(trace: &LinkedTrace, place: usize) -> Option<Found<'_>> {
    // A collective interrupted by other work has several nodes; only one makes a row.
    let node = Some(trace.nodes.get(NodeIdx::new(place)));
    let node = node.filter(|node| trace.is_communication(node))?;
    Some((u32::try_from(place).ok()?, node, trace.collective(&node)?))
}

fn add_sizes(all: &[Found<'_>], columns: &mut ColumnSet) {
    columns
        .add_text(
            "kind",
            all.iter().map(|(.., found)| Some(found.kind().name())),
        )
        .add_text(
            "name",
            all.iter()
                .map(|(.., found)| non_empty_text(found, found.record.name)),
        )
        .add_text(
            "dtype",
            all.iter()
                .map(|(.., found)| non_empty_text(found, found.record.dtype)),
        )
        .add_unsigned(
            "in_elements",
            all.iter().map(|(.., found)| Some(found.record.in_elements)),
        )
        .add_unsigned(
            "out_elements",
            all.iter()
                .map(|(.., found)| Some(found.record.out_elements)),
        )
        .add_unsigned(
            "in_bytes",
            all.iter()
                .map(|(.., found)| bytes_of_elements(found, found.record.in_elements)),
        )
        .add_unsigned(
            "out_bytes",
            all.iter()
                .map(|(.., found)| bytes_of_elements(found, found.record.out_elements)),
        )
        .add_text(
            "in_split",
            all.iter()
                .map(|(.., found)| non_empty_text(found, found.record.in_split)),
        )
        .add_text(
            "out_split",
            all.iter()
                .map(|(.., found)| non_empty_text(found, found.record.out_split)),
        )
        .add_flag(
            "asynchronous",
            all.iter()
                .map(|(.., found)| Some(found.record.asynchronous)),
        );
}

/// Returns the size of these elements in bytes; `None` if the element size is unknown.
fn bytes_of_elements(found: &CollectiveRef<'_>, elements: u64) -> Option<u64> {
    let each = dtype_bytes(found.names.get(found.record.dtype))?;
    // A damaged trace may state any number of elements, so the product must not overflow.
    Some(elements.saturating_mul(each))
}

/// Adds the group's columns. `seq` is the number of the collective in its group: equal
/// `group_ranks` and `seq` on several ranks mean the same collective.
fn add_group(all: &[Found<'_>], columns: &mut ColumnSet) {
    columns
        .add_text(
            "group_name",
            all.iter()
                .map(|(.., found)| non_empty_text(found, found.record.group_name)),
        )
        .add_text(
            "group_desc",
            all.iter()
                .map(|(.., found)| non_empty_text(found, found.record.group_desc)),
        )
        .add_text(
            "group_ranks",
            all.iter()
                .map(|(.., found)| non_empty_text(found, found.record.group_ranks)),
        )
        .add_unsigned(
            "group_size",
            all.iter()
                // A group has at least one rank: the reader leaves 0 if the trace states none.
                .map(|(.., found)| Some(found.record.group_size).filter(|size| *size > 0)),
        )
        .add_signed(
            "seq",
            all.iter().map(|(.., found)| known_number(found.record.seq)),
        )
        .add_signed(
            "src",
            all.iter().map(|(.., found)| known_number(found.record.src)),
        )
        .add_signed(
            "dst",
            all.iter().map(|(.., found)| known_number(found.record.dst)),
        )
        .add_text(
            "comms_id",
            all.iter()
                .map(|(.., found)| non_empty_text(found, found.record.comms_id)),
        );
}

fn non_empty_text<'t>(found: &CollectiveRef<'t>, name: NameId) -> Option<&'t str> {
    non_empty(found.names.get(name))
}
