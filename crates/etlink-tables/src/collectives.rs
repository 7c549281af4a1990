//! Communication, with what the traces say of it.

use crate::columns::{Columns, known, some};
use crate::{Error, events, nodes};
use arrow_array::RecordBatch;
use etlink_link::{CollectiveRef, LinkedTrace, Node, NodeKind};
use etlink_model::{NameId, dtype_bytes};
use std::ops::Range;

type Found<'t> = (u32, Node, CollectiveRef<'t>);

/// The collectives among some nodes; of a collective that is cut in slices the first.
pub(crate) fn batch(
    trace: &LinkedTrace,
    places: Range<usize>,
    mut columns: Columns,
) -> Result<RecordBatch, Error> {
    let all: Vec<Found<'_>> = places.filter_map(|place| found(trace, place)).collect();
    columns
        .number("node", all.iter().map(|(place, ..)| Some(*place)))
        .number(
            "event",
            all.iter().map(|(_, node, _)| nodes::event(trace, node)),
        )
        .flag(
            "on_device",
            all.iter().map(|(_, node, _)| Some(node.on_device)),
        )
        .signed(
            "start_ns",
            all.iter()
                .map(|(_, node, _)| Some(events::epoch(trace, node.start))),
        )
        .signed(
            "duration_ns",
            all.iter().map(|(_, node, _)| Some(node.duration.0)),
        );
    sizes(&all, &mut columns);
    group(&all, &mut columns);
    columns.finish()
}

fn found(trace: &LinkedTrace, place: usize) -> Option<Found<'_>> {
    let node = Some(trace.nodes.get(place))
        .filter(|node| node.kind == NodeKind::Collective && node.first)?;
    Some((u32::try_from(place).ok()?, node, trace.collective(&node)?))
}

fn sizes(all: &[Found<'_>], columns: &mut Columns) {
    let bytes = |found: &CollectiveRef<'_>, elements: u64| {
        dtype_bytes(found.names.get(found.record.dtype)).map(|each| elements.saturating_mul(each))
    };
    columns
        .text(
            "kind",
            all.iter().map(|(.., found)| Some(found.kind().name())),
        )
        .text(
            "name",
            all.iter().map(|(.., found)| text(found, found.record.name)),
        )
        .text(
            "dtype",
            all.iter()
                .map(|(.., found)| text(found, found.record.dtype)),
        )
        .unsigned(
            "in_elements",
            all.iter().map(|(.., found)| Some(found.record.in_elements)),
        )
        .unsigned(
            "out_elements",
            all.iter()
                .map(|(.., found)| Some(found.record.out_elements)),
        )
        .unsigned(
            "in_bytes",
            all.iter()
                .map(|(.., found)| bytes(found, found.record.in_elements)),
        )
        .unsigned(
            "out_bytes",
            all.iter()
                .map(|(.., found)| bytes(found, found.record.out_elements)),
        )
        .text(
            "in_split",
            all.iter()
                .map(|(.., found)| text(found, found.record.in_split)),
        )
        .text(
            "out_split",
            all.iter()
                .map(|(.., found)| text(found, found.record.out_split)),
        )
        .flag(
            "asynchronous",
            all.iter()
                .map(|(.., found)| Some(found.record.asynchronous)),
        );
}

/// `seq` is the number of the collective in its group: with `group_ranks` it tells which of other ranks are the same.
fn group(all: &[Found<'_>], columns: &mut Columns) {
    columns
        .text(
            "group_name",
            all.iter()
                .map(|(.., found)| text(found, found.record.group_name)),
        )
        .text(
            "group_desc",
            all.iter()
                .map(|(.., found)| text(found, found.record.group_desc)),
        )
        .text(
            "group_ranks",
            all.iter()
                .map(|(.., found)| text(found, found.record.group_ranks)),
        )
        .unsigned(
            "group_size",
            all.iter()
                .map(|(.., found)| Some(found.record.group_size).filter(|size| *size > 0)),
        )
        .signed("seq", all.iter().map(|(.., found)| known(found.record.seq)))
        .signed("src", all.iter().map(|(.., found)| known(found.record.src)))
        .signed("dst", all.iter().map(|(.., found)| known(found.record.dst)))
        .text(
            "comms_id",
            all.iter()
                .map(|(.., found)| text(found, found.record.comms_id)),
        );
}

fn text<'t>(found: &CollectiveRef<'t>, name: NameId) -> Option<&'t str> {
    some(found.names.get(name))
}
