//! Counts Gloo's ranges (`gloo:all_reduce`) as communications: count, time, and what their inputs
//! and the trace's list of groups reveal of size and group. A range includes the time in which the
//! work was queued, so it has no bandwidth.

use super::{CollectiveTotals, add_bytes};
use crate::outside_work::CountedWork;
use etlink_link::LinkedTrace;
use etlink_link::ranks::rank_list;
use etlink_model::{CollectiveKind, dtype_bytes};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// Totals the ranges within steps, by kind. O(ops).
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
        // Plain Gloo never writes `record_param_comms`: shapes are the trace's only information
        // about the size.
        let in_bytes = input_bytes(trace, op);
        // the output is not recorded: for these kinds it is no larger than the input
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

/// Returns the ranks of the trace's groups if all groups have the same ranks.
fn only_group(trace: &LinkedTrace) -> Option<&[u64]> {
    let (first, others) = trace.device.header.groups.split_first()?;
    others
        .iter()
        .all(|group| group.ranks == first.ranks)
        .then_some(&first.ranks[..])
        .filter(|ranks| !ranks.is_empty())
}

/// Returns the size of an op's tensors in bytes, from the shapes and types of its inputs: a Gloo
/// range has no other size information.
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
    // The first type applies to all: a collective takes tensors of one type.
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
