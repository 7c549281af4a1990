//! Ranges of Gloo (`gloo:all_reduce`) as communications: how many, how long, and as much of size
//! and group as their inputs and the trace's list of groups say. A range also holds the time in
//! which the work was queued, so that there is no bandwidth.

use super::{CollectiveTotals, add_bytes};
use crate::outside_work::CountedWork;
use etlink_link::LinkedTrace;
use etlink_link::ranks::rank_list;
use etlink_model::{CollectiveKind, dtype_bytes};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// All that the trace has and that are of a step, by kind. O(ops).
pub(super) fn gloo_ranges(
    trace: &LinkedTrace,
    counted: &CountedWork<'_>,
) -> impl Iterator<Item = CollectiveTotals> {
    let (device, group) = (&trace.device, only_group(trace));
    let kinds: Vec<_> = device
        .names
        .iter()
        .map(|name| name.strip_prefix("gloo:").map(CollectiveKind::from_name))
        .collect();
    let mut all: IndexMap<CollectiveKind, CollectiveTotals, FxBuildHasher> = IndexMap::default();
    for op in 0..device.ops.len() {
        let Some(kind) = kinds[device.ops.name[op].index()] else {
            continue;
        };
        if !device.ops.annotation[op] {
            continue;
        }
        if counted.time_cause(device.ops.start[op]).is_some() {
            continue;
        }
        // Plain Gloo never writes `record_param_comms`:
        // shapes are all that the trace has of the size.
        let in_bytes = input_bytes(trace, op);
        // the output is not said: it is no larger than the input of these
        let as_large = matches!(
            kind,
            CollectiveKind::AllReduce | CollectiveKind::Reduce | CollectiveKind::Broadcast
        );
        let totals = all.entry(kind).or_insert_with(|| CollectiveTotals {
            kind: kind.name().to_owned(),
            group: group.map_or(String::new(), |ranks| rank_list("rank", ranks)),
            group_size: group.map_or(0, |ranks| ranks.len() as u64),
            ..CollectiveTotals::default()
        });
        totals.count += 1;
        let bytes = if as_large { in_bytes } else { None };
        add_bytes(&mut totals.in_bytes, in_bytes);
        add_bytes(&mut totals.bytes, bytes);
        totals.without_size += u64::from(bytes.is_none());
        totals.sum_ns = totals.sum_ns.saturating_add(device.ops.duration[op].0);
    }
    all.into_values()
}

/// The ranks that all groups of the trace have, if they are the same.
fn only_group(trace: &LinkedTrace) -> Option<&[u64]> {
    let (first, others) = trace.device.header.groups.split_first()?;
    others
        .iter()
        .all(|group| group.ranks == first.ranks)
        .then_some(&first.ranks[..])
        .filter(|ranks| !ranks.is_empty())
}

/// Size of an op's tensors, by the shapes and types of its inputs: all that a range of Gloo has of
/// its size.
pub fn input_bytes(trace: &LinkedTrace, op: usize) -> Option<u64> {
    let (device, names) = (&trace.device, &trace.device.names);
    let host = trace
        .host
        .as_ref()
        .zip(trace.op_host[op].get())
        .map(|(host, node)| (host, host.nodes.inputs[node.index()]));
    let own = (
        names.get(device.ops.shapes[op]),
        names.get(device.ops.types[op]),
    );
    let (shapes, types) = match host {
        Some((host, inputs)) if own.0.is_empty() => {
            (host.names.get(inputs.shapes), host.names.get(inputs.types))
        }
        _ => own,
    };
    // The first type stands for all: a collective takes tensors of one type.
    let dtype = types.split('"').nth(1)?;
    let dtype = dtype
        .strip_prefix("Tensor(")
        .map_or(dtype, |inner| inner.trim_end_matches(')'));
    let elements = shapes.split(['[', ']']).filter_map(|shape| {
        shape
            .split(',')
            .map(|size| size.trim().parse().ok())
            .collect::<Option<Vec<u64>>>()
    });
    let elements = elements
        .map(|shape| shape.into_iter().fold(1, u64::saturating_mul))
        .fold(0, u64::saturating_add);
    Some(elements.saturating_mul(dtype_bytes(dtype)?))
}
