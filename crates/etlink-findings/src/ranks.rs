//! What several ranks together show: one that is late, or each in its turn.

use crate::candidate::{CauseCandidate, CauseEvidence, RankWork};
use crate::finding::RankPart;
use crate::kind::CauseKind;
use crate::text::{median_ns, short_name};
use etlink_model::NodeIdx;
use etlink_replay::{GraphEdits, ReplayGraph};
use std::collections::BTreeSet;

/// Work that differs by less than this of the window does not make a rank late.
const LEAST_EXCESS: f64 = 0.003;

/// Work that takes this much longer than on other ranks is not just noise.
const LONGER: f64 = 1.05;

/// Causes that are seen by comparing the ranks. `whole_ns`: the time that gains are of.
pub(crate) fn rank_candidates(
    graph: &ReplayGraph,
    parts: &[RankPart<'_>],
    whole_ns: i64,
) -> Vec<CauseCandidate> {
    if parts.len() < 2 {
        return vec![];
    }
    let least_ns = (LEAST_EXCESS * whole_ns as f64) as i64;
    let all = parts.iter().flat_map(|part| part.causes.work.keys());
    let names: BTreeSet<&(bool, String)> = all.collect();
    let late = (0..parts.len()).filter_map(|late| late_rank(parts, &names, late, least_ns));
    let mut candidates: Vec<CauseCandidate> = late.collect();
    candidates.extend(imbalance(graph, parts, &names, least_ns));
    candidates
}

fn work_of<'p>(part: &RankPart<'p>, name: &(bool, String)) -> Option<&'p RankWork> {
    part.causes.work.get(name)
}

/// What a rank does longer than the others usually do.
fn late_rank(
    parts: &[RankPart<'_>],
    names: &BTreeSet<&(bool, String)>,
    late: usize,
    least_ns: i64,
) -> Option<CauseCandidate> {
    let mut edits = GraphEdits::default();
    let mut evidence = CauseEvidence::default();
    let mut worst = 0;
    for name in names {
        let Some(own) = work_of(&parts[late], name) else {
            continue;
        };
        let others = parts.iter().enumerate().filter(|(place, _)| *place != late);
        let mut times: Vec<i64> = others
            .map(|(_, part)| work_of(part, name).map_or(0, |work| work.time_ns))
            .collect();
        let usual = median_ns(&mut times);
        let excess = own.time_ns - usual;
        if excess < least_ns || (own.time_ns as f64) < LONGER * usual as f64 {
            continue;
        }
        evidence.count += 1;
        evidence.time_ns += excess;
        if excess > worst {
            worst = excess;
            evidence.within = Some(short_name(&name.1));
            evidence.typical_ns = own.time_ns;
            evidence.compared = Some(usual as f64);
        }
        let factor = usual as f64 / own.time_ns.max(1) as f64;
        let scaled = own.nodes.iter().map(|node| (*node, factor));
        let own_edits = GraphEdits {
            scaled: scaled.collect(),
            ..GraphEdits::default()
        };
        edits.extend_shifted(&own_edits, parts[late].first);
    }
    let rank = parts[late].causes.rank?;
    (!edits.is_empty()).then(|| CauseCandidate {
        kind: CauseKind::LateRank,
        subject: format!("rank {rank}"),
        edits,
        other_edits: None,
        evidence,
    })
}

/// Work that all ranks do equally often, each time as long as the mean over ranks.
fn imbalance(
    graph: &ReplayGraph,
    parts: &[RankPart<'_>],
    names: &BTreeSet<&(bool, String)>,
    least_ns: i64,
) -> Option<CauseCandidate> {
    let mut edits = GraphEdits::default();
    let mut evidence = CauseEvidence::default();
    let mut worst = 0;
    for name in names {
        let of_ranks: Option<Vec<&RankWork>> =
            parts.iter().map(|part| work_of(part, name)).collect();
        let Some(works) = of_ranks else { continue };
        let count = works[0].nodes.len();
        if works.iter().any(|work| work.nodes.len() != count) {
            continue;
        }
        let mut scaled = vec![];
        let mut excess = 0;
        for turn in 0..count {
            let nodes = parts.iter().zip(&works);
            let nodes: Vec<NodeIdx> = nodes
                .map(|(part, work)| NodeIdx(part.first.0 + work.nodes[turn].0))
                .collect();
            let times = nodes.iter().map(|node| graph.duration[node.index()].0);
            let times: Vec<i64> = times.collect();
            let mean = times.iter().sum::<i64>() / times.len() as i64;
            excess += times.iter().max().map_or(0, |most| most - mean);
            for (node, time) in nodes.iter().zip(&times) {
                scaled.push((*node, mean as f64 / (*time).max(1) as f64));
            }
        }
        if excess < least_ns {
            continue;
        }
        evidence.count += count as u64;
        evidence.time_ns += excess;
        if excess > worst {
            worst = excess;
            evidence.within = Some(short_name(&name.1));
        }
        edits.scaled.append(&mut scaled);
    }
    (!edits.is_empty()).then(|| CauseCandidate {
        kind: CauseKind::RankImbalance,
        subject: String::new(),
        edits,
        other_edits: None,
        evidence,
    })
}
