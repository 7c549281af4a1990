//! Checks that the two traces belong together.

use crate::diagnostics;
use crate::error::Error;
use crate::graph::kinds::MatchRule;
use crate::limits::{DENSE_SHARE, SAME_PROGRAM_SHARE};
use crate::matching::Matching;
use crate::options::LinkOptions;
use crate::recorder_advice::record_ops;
use crate::report::{LinkReport, UnmatchedCounts};
use etlink_model::{
    Anomalies, AnomalyKind, Collective, CollectiveKind, DeviceTrace, GlobalRank, HostIdx,
    HostTrace, NameId, Names, OpIdx, Setting, diagnostic,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Rejects traces that cannot be linked, and adds notes for the user.
///
/// # Errors
/// See [`Error`]; the first three only occur without `allow_mismatch`.
pub(crate) fn compare(
    host: &HostTrace,
    device: &DeviceTrace,
    matching: &Matching,
    options: LinkOptions,
    report: &mut LinkReport,
) -> Result<(), Error> {
    // PyTorch writes the process and thread nodes even if its observer saw no op, as in a window
    // that was never reached.
    if (0..host.nodes.len()).all(|node| host.is_root(node)) {
        return Err(Error::EmptyHost {
            nodes: host.nodes.len(),
        });
    }
    count(host, device, matching, report);
    // The share of the smaller trace: a host trace of the whole job still fits ten steps of Kineto.
    let smaller = report.host_ops.min(device.ops.len() as u64);
    let share = matching.count() as f64 / smaller.max(1) as f64;
    // ids that agree in name are proof: the windows then overlap only a little
    let by_id = matching.op_rule.contains(&MatchRule::Id);
    let ids_agree = by_id && matching.same_id_other_name * 20 < matching.count();
    if device.ops.is_empty() {
        let remedy = record_ops(device.header.recorder);
        let no_ops = diagnostic!(
            DataMissing,
            "the device trace has no CPU ops, so host ops have no times"
        );
        report.diagnostics.push(no_ops.advise(remedy));
    } else if share < SAME_PROGRAM_SHARE && !ids_agree {
        refuse(
            Error::DifferentPrograms {
                aligned: matching.count(),
                ops: smaller,
                percent: 100.0 * share,
                recorder: device.header.recorder,
            },
            options,
            report,
        )?;
    } else if matching.op_rule.contains(&MatchRule::Order) {
        let among = stretch(
            &host.nodes.tid,
            matching.host_op.iter().map(|op| op.get().is_some()),
        )
        .max(stretch(
            &device.ops.thread,
            matching.op_host.iter().map(|node| node.get().is_some()),
        ));
        let percent = 100.0 * matching.count() as f64 / among as f64;
        if percent < 100.0 * DENSE_SHARE {
            refuse(
                Error::DifferentPrograms {
                    aligned: matching.count(),
                    ops: among,
                    percent,
                    recorder: device.header.recorder,
                },
                options,
                report,
            )?;
        }
    }
    // Only steps distinguish two windows of one program: all names agree there.
    match other_steps(host, device) {
        Some(Error::DifferentSteps { host, device, .. }) if options.is_interleaved => {
            report.diagnostics.push(diagnostic!(
                Interleaved,
                "interleaved: the host trace is of {host}, the device trace of {device}. Ops are \
                 matched by order, and times are from steps that the execution trace observer \
                 did not slow down"
            ));
        }
        Some(error) => refuse(error, options, report)?,
        None => {}
    }
    if let (Some(of_host), Some(of_device)) = (host_rank(host), device.header.rank)
        && of_host != of_device
    {
        refuse(
            Error::DifferentRanks {
                host: of_host,
                device: of_device,
            },
            options,
            report,
        )?;
    }
    diagnostics::about_pair(host, device, matching, options, report);
    Ok(())
}

/// Sums, over threads, the number of entries from the first matched one to the last.
fn stretch<T: Copy + Eq + std::hash::Hash>(
    threads: &[T],
    matched: impl Iterator<Item = bool>,
) -> u64 {
    // per thread: entries seen, index of the first match, index of the last
    let mut seen: FxHashMap<T, (u64, u64, u64)> = FxHashMap::default();
    for (thread, partner) in threads.iter().zip(matched) {
        let (place, first, last) = seen.entry(*thread).or_insert((0, u64::MAX, 0));
        *place += 1;
        if partner {
            (*first, *last) = ((*first).min(*place), *place);
        }
    }
    seen.values()
        .filter(|(_, first, _)| *first != u64::MAX)
        .map(|(_, first, last)| last - first + 1)
        .sum()
}

/// Returns the error, or with `allow_mismatch` adds it as a note.
fn refuse(error: Error, options: LinkOptions, report: &mut LinkReport) -> Result<(), Error> {
    if !options.allow_mismatch {
        return Err(error);
    }
    report.diagnostics.push(diagnostic!(
        MismatchAllowed,
        "linked because of {}, despite this error: {error}",
        Setting::AllowMismatch
    ));
    Ok(())
}

/// Returns an error if both traces have step labels but none in common: they were recorded at
/// different times.
fn other_steps(host: &HostTrace, device: &DeviceTrace) -> Option<Error> {
    let (of_host, of_device) = (
        steps(&host.nodes.name, &host.names),
        steps(&device.ops.name, &device.names),
    );
    let known: FxHashSet<&str> = of_device.iter().copied().collect();
    let apart = !of_host.is_empty()
        && !of_device.is_empty()
        && !of_host.iter().any(|step| known.contains(step));
    apart.then(|| Error::DifferentSteps {
        host: first_steps(&of_host),
        device: first_steps(&of_device),
        recorder: device.header.recorder,
    })
}

/// Formats the first few of these labels.
fn first_steps(steps: &[&str]) -> String {
    const NAMED_STEPS: usize = 5;
    let first = &steps[..steps.len().min(NAMED_STEPS)];
    let more = if steps.len() > NAMED_STEPS {
        ", …"
    } else {
        ""
    };
    first.join(", ") + more
}

/// Returns the `ProfilerStep#N` labels in `used`, in order of first use.
fn steps<'n>(used: &[NameId], names: &'n Names) -> Vec<&'n str> {
    let mut is_used = vec![false; names.count()];
    used.iter().for_each(|name| is_used[name.index()] = true);
    let labels = (0..names.count())
        .filter(|&name| is_used[name])
        .map(|name| names.get(NameId::new(name)));
    labels
        .filter(|name| name.starts_with("ProfilerStep"))
        .collect()
}

/// Returns the process's global rank, from collectives in which each rank states its own.
fn host_rank(host: &HostTrace) -> Option<GlobalRank> {
    let all = &host.collectives;
    let mut records = (0..all.len()).map(|row| all.row(row));
    let record = records.find(|record| states_own_rank(record, record.kind(&host.names)))?;
    // `Rank` is the index in the group; the group's start and stride convert it to a global rank.
    let from_start = record.rank.checked_mul(record.rank_stride)?;
    from_start.checked_add(record.rank_start).map(GlobalRank)
}

/// True if `Rank` of a record is the recording rank's index in an evenly spaced group.
fn states_own_rank(record: &Collective, kind: CollectiveKind) -> bool {
    // `Rank` of a send, a broadcast or a reduce may be the peer's or the root's.
    let symmetric = matches!(
        kind,
        CollectiveKind::AllReduce
            | CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll
    );
    symmetric
        && record.rank >= 0
        && record.group_size > 1
        && record.rank_start >= 0
        && record.rank_stride > 0
}

/// Counts the host ops that a device trace of the same window would have, and the unmatched ones
/// among them by position.
fn count(host: &HostTrace, device: &DeviceTrace, matching: &Matching, report: &mut LinkReport) {
    // few distinct names, many nodes
    let mut known = vec![None; host.names.count()];
    let mut is_op = |node: usize| {
        let name = host.nodes.name[node];
        *known[name.index()].get_or_insert_with(|| {
            // `## process_group:init ##` is a node that the observer itself creates; Kineto has no
            // event for it.
            !host.is_root(node) && !host.names.get(name).contains("process_group:init")
        })
    };
    // ops: total, matched, number before the first match, number up to the last match
    let (mut ops, mut matched, mut before, mut until) = (0, 0, None, 0);
    // ops between matched ones of their thread; since the last one, by thread
    let mut lost = 0;
    let mut since: FxHashMap<u32, u64> = FxHashMap::default();
    for node in (0..host.nodes.len()).filter(|&node| is_op(node)) {
        let thread = host.nodes.tid[node];
        if matching.host_op[node] != OpIdx::NONE {
            matched += 1;
            before = before.or(Some(ops));
            until = ops + 1;
            lost += since.insert(thread, 0).unwrap_or(0);
        } else if let Some(since) = since.get_mut(&thread) {
            *since += 1;
        }
        ops += 1;
    }
    // forked processes use the same ids, and order alone shows no loss
    let by_id = matching.same_id_other_name == 0 && !matching.op_rule.contains(&MatchRule::Order);
    let is_counted = device.anomalies.count(AnomalyKind::OpLost) > 0;
    if by_id && !is_counted && !device.anomalies.is_cut() {
        report.anomalies.add(AnomalyKind::OpLost, lost, None);
    }
    // The host trace usually covers more than the device trace: ops before the first match and
    // after the last are outside the window.
    let among = until - before.unwrap_or(until);
    report.host_ops = ops;
    report.unmatched = UnmatchedCounts {
        host_outside_window: ops - among,
        host_not_in_device: among - matched,
        device_not_in_host: device.ops.len() as u64 - matching.count(),
        same_id_other_name: matching.same_id_other_name,
    };
}

/// True if two traces state different sizes.
fn contradict(host: u64, device: u64) -> bool {
    // 0 means that the trace states no size, which contradicts nothing.
    host != 0 && device != 0 && host != device
}

/// Counts host ops whose recorded parent is not the op that encloses them in time, and collectives
/// that the two traces describe differently.
pub(crate) fn differences(
    host: &HostTrace,
    device: &DeviceTrace,
    matching: &Matching,
    op_parent: &[OpIdx],
) -> Anomalies {
    let is_op = |id| host.find(id).is_some_and(|node| !host.is_root(node));
    let mut anomalies = Anomalies::default();
    for (op, node) in matching
        .op_host
        .iter()
        .enumerate()
        .filter_map(|(op, node)| Some((op, node.get()?)))
    {
        let place = || {
            format!(
                "{:?}, node {}",
                host.names.get(host.nodes.name[node.index()]),
                host.nodes.id[node.index()]
            )
        };
        let enclosing = op_parent[op]
            .get()
            .map_or(HostIdx::NONE, |parent| matching.op_host[parent.index()]);
        let recorded = host.nodes.parent[node.index()];
        // ids are unique: the search is only needed if they differ
        let other = enclosing
            .get()
            .is_some_and(|enclosing| host.nodes.id[enclosing.index()] != recorded);
        if other && is_op(recorded) {
            anomalies.note(AnomalyKind::ParentDiffers, place);
        }
        let (of_host, of_device) = (
            host.nodes.collective[node.index()],
            device.ops.collective[op],
        );
        if of_host != u32::MAX && of_device != u32::MAX {
            let (a, b) = (
                host.collectives.row(of_host as usize),
                device.collectives.row(of_device as usize),
            );
            if contradict(a.in_elements, b.in_elements)
                || contradict(a.out_elements, b.out_elements)
                || contradict(a.group_size, b.group_size)
            {
                anomalies.note(AnomalyKind::CollectiveDiffers, place);
            }
        }
    }
    anomalies
}

#[cfg(test)]
mod tests {
    use super::contradict;

    #[test]
    fn sizes_contradict_where_both_traces_say_one() {
        assert!(contradict(4, 8));
        assert!(!contradict(4, 4));
        // 0 means that no size is stated
        for (host, device) in [(0, 8), (8, 0), (0, 0)] {
            assert!(!contradict(host, device), "{host} {device}");
        }
    }
}
