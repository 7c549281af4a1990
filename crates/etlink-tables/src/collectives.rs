//! Table of communication, with the facts that the traces record.

use crate::columns::{Columns, known_number};
use crate::{Error, events, nodes};
use arrow_array::RecordBatch;
use etlink_link::{CollectiveRef, LinkedTrace, Node};
use etlink_model::{NodeIdx, dtype_bytes};
use std::ops::Range;

type Found<'t> = (u32, Node, CollectiveRef<'t>);

/// Builds the rows of the collectives among some nodes; a collective split into slices gets one
/// row, its first slice. `seq` is the number of the collective in its group: equal `group_ranks`
/// and `seq` on several ranks mean the same collective.
pub(crate) fn collectives_batch(
    trace: &LinkedTrace,
    places: Range<usize>,
    rank: Option<i64>,
) -> Result<RecordBatch, Error> {
    let all: Vec<Found<'_>> = places
        .filter_map(|place| find_collective(trace, place))
        .collect();
    Columns::new(rank, &all)
        .number("node", |(place, ..)| *place)
        .number("event", |(_, node, _)| nodes::node_event(trace, node))
        .flag("on_device", |(_, node, _)| node.on_device)
        .signed("start_ns", |(_, node, _)| {
            events::unix_ns(trace, node.start)
        })
        .signed("duration_ns", |(_, node, _)| node.duration.0)
        .text("kind", |(.., of)| of.kind().name())
        .text("name", |(.., of)| of.names.get(of.record.name))
        .text("dtype", |(.., of)| of.names.get(of.record.dtype))
        .unsigned("in_elements", |(.., of)| of.record.in_elements)
        .unsigned("out_elements", |(.., of)| of.record.out_elements)
        .unsigned("in_bytes", |(.., of)| byte_count(of, of.record.in_elements))
        .unsigned("out_bytes", |(.., of)| {
            byte_count(of, of.record.out_elements)
        })
        .text("in_split", |(.., of)| of.names.get(of.record.in_split))
        .text("out_split", |(.., of)| of.names.get(of.record.out_split))
        .flag("asynchronous", |(.., of)| of.record.asynchronous)
        .text("group_name", |(.., of)| of.names.get(of.record.group_name))
        .text("group_desc", |(.., of)| of.names.get(of.record.group_desc))
        .text("group_ranks", |(.., of)| {
            of.names.get(of.record.group_ranks)
        })
        .unsigned("group_size", |(.., of)| {
            // A group has at least one rank: the reader leaves 0 if the trace states none.
            Some(of.record.group_size).filter(|size| *size > 0)
        })
        .signed("seq", |(.., of)| known_number(of.record.seq))
        .signed("src", |(.., of)| known_number(of.record.src))
        .signed("dst", |(.., of)| known_number(of.record.dst))
        .text("comms_id", |(.., of)| of.names.get(of.record.comms_id))
        .finish()
}

fn find_collective(trace: &LinkedTrace, place: usize) -> Option<Found<'_>> {
    // A collective interrupted by other work has several nodes; only one makes a row.
    let node = Some(trace.nodes.get(NodeIdx::new(place)));
    let node = node.filter(|node| trace.is_communication(node))?;
    Some((u32::try_from(place).ok()?, node, trace.collective(&node)?))
}

/// Returns the size of these elements in bytes; `None` if the element size is unknown.
fn byte_count(of: &CollectiveRef<'_>, elements: u64) -> Option<u64> {
    let each = dtype_bytes(of.names.get(of.record.dtype))?;
    // A damaged trace may state any number of elements, so the product must not overflow.
    Some(elements.saturating_mul(each))
}
