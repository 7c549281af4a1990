//! Compares the calls of one collective across ranks.

use super::entry_of;
use super::groups::{GroupSides, Side};
use super::report::{CallMismatch, CallPart, HangProblem, RankDump};
use etlink_formats::flight_recorder::FlightEntry;
use etlink_link::ranks::JoinProblemKind;
use etlink_model::{CollectiveKind, dtype_bytes};
use std::collections::BTreeMap;

/// Maximum number of examples per problem.
const EXAMPLES: usize = 5;

/// Compares the calls of each collective of a group with its first rank's call.
pub(super) fn compare_sides(
    dumps: &[RankDump],
    group: &GroupSides,
    problems: &mut BTreeMap<JoinProblemKind, HangProblem>,
) {
    for number in group.numbers() {
        let sides = group.sides_of(number);
        let Some((first, others)) = sides.split_first() else {
            continue;
        };
        let found = others
            .iter()
            .find_map(|other| Some((difference(dumps, *first, *other)?, other)));
        let Some((kind, other)) = found else {
            continue;
        };
        let problem = problems.entry(kind).or_insert_with(|| HangProblem {
            kind,
            count: 0,
            examples: vec![],
        });
        problem.count += 1;
        if problem.examples.len() < EXAMPLES {
            let said = |side: &Side| {
                let what = words(kind, dumps, side);
                format!("{what} on rank {}", side.rank)
            };
            let name = entry_of(dumps, first).kind.name();
            let (one, two) = (said(first), said(other));
            let title = group.title();
            problem
                .examples
                .push(format!("{name} {number} of {title}: {one}, {two}"));
        }
    }
}

/// Returns the differences between the calls of one collective, and the ranks on each side.
pub(super) fn call_mismatch(dumps: &[RankDump], sides: &[Side]) -> Option<CallMismatch> {
    let (first, others) = sides.split_first()?;
    // a wrong type says more than a wrong size: problems are ordered by that
    let found = others.iter().map(|other| difference(dumps, *first, *other));
    let kind = found.flatten().min()?;
    let mut parts: Vec<CallPart> = vec![];
    for side in sides {
        let what = words(kind, dumps, side);
        match parts.iter_mut().find(|part| part.what == what) {
            Some(part) => part.ranks.push(side.rank),
            None => parts.push(CallPart {
                what,
                ranks: vec![side.rank],
            }),
        }
    }
    // stable: of parts of equal length, the first rank's comes first
    parts.sort_by_key(|part| std::cmp::Reverse(part.ranks.len()));
    Some(CallMismatch { kind, parts })
}

/// Returns the first difference: kind, element type or size, as PyTorch's `fr_trace` does
/// (`components/types.py`, `Op.match`).
fn difference(dumps: &[RankDump], first: Side, other: Side) -> Option<JoinProblemKind> {
    let (one, two) = (entry_of(dumps, &first), entry_of(dumps, &other));
    if one.kind != two.kind {
        return Some(JoinProblemKind::KindDiffers);
    }
    let dtype = |side: &Side, entry: &FlightEntry| dumps[side.dump].dump.names.get(entry.dtype);
    let (one_dtype, two_dtype) = (dtype(&first, one), dtype(&other, two));
    if !one_dtype.is_empty() && !two_dtype.is_empty() && one_dtype != two_dtype {
        return Some(JoinProblemKind::DtypeDiffers);
    }
    // the other kinds have an input or output on the root alone, or parts of different sizes by
    // design
    let is_even = matches!(
        one.kind,
        CollectiveKind::AllReduce
            | CollectiveKind::Reduce
            | CollectiveKind::Broadcast
            | CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
    );
    (is_even && one.in_elements != two.in_elements).then_some(JoinProblemKind::SizeDiffers)
}

fn words(kind: JoinProblemKind, dumps: &[RankDump], side: &Side) -> String {
    let entry = entry_of(dumps, side);
    let dtype = dumps[side.dump].dump.names.get(entry.dtype);
    match kind {
        JoinProblemKind::KindDiffers => entry.kind.name().to_owned(),
        JoinProblemKind::DtypeDiffers => dtype.to_owned(),
        _ => match dtype_bytes(dtype) {
            Some(bytes) => format!("{} bytes", entry.in_elements.saturating_mul(bytes)),
            None => format!("{} elements", entry.in_elements),
        },
    }
}
