//! Chooses the levels of a network and the algorithms of collectives that come closest to the
//! measured transfers.

use super::cost::{CollectiveImplementation, NetworkCost, hierarchical_ns};
use super::levels::{CommReach, RankBlocks};
use super::regression::{CostedTransfer, NetworkLevel, fit_link, loss};
use super::transfers::{MeasuredTransfer, MeasuredTransfers};
use etlink_model::CollectiveKind;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum error of two levels, relative to one level.
const TWO_LEVELS_LOSS: f64 = 0.8;
/// Minimum time of a transfer across blocks, relative to its time within a block.
const TWO_LEVELS_RATIO: f64 = 1.5;
/// Maximum error of an algorithm other than a ring, relative to rings.
const ALGORITHM_LOSS: f64 = 0.9;
/// Maximum number of transfers that are used to choose algorithms.
const MOST_COMPARED: usize = 2_000;

/// Algorithm per kind of collective that ASTRA-sim has a setting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectiveImplementations {
    /// `all-reduce-implementation`.
    pub all_reduce: CollectiveImplementation,
    /// `all-gather-implementation`.
    pub all_gather: CollectiveImplementation,
    /// `reduce-scatter-implementation`.
    pub reduce_scatter: CollectiveImplementation,
    /// `all-to-all-implementation`.
    pub all_to_all: CollectiveImplementation,
}

impl Default for CollectiveImplementations {
    fn default() -> CollectiveImplementations {
        CollectiveImplementations {
            all_reduce: CollectiveImplementation::Ring,
            all_gather: CollectiveImplementation::Ring,
            reduce_scatter: CollectiveImplementation::Ring,
            // Around a ring, each rank would also pass on the parts of others.
            all_to_all: CollectiveImplementation::Direct1,
        }
    }
}

impl CollectiveImplementations {
    pub(super) fn of(self, kind: CollectiveKind) -> CollectiveImplementation {
        match kind {
            CollectiveKind::AllReduce => self.all_reduce,
            CollectiveKind::AllGather => self.all_gather,
            CollectiveKind::ReduceScatter => self.reduce_scatter,
            CollectiveKind::AllToAll => self.all_to_all,
            _ => CollectiveImplementation::Ring,
        }
    }

    fn with(mut self, kind: CollectiveKind, algorithm: CollectiveImplementation) -> Self {
        match kind {
            CollectiveKind::AllReduce => self.all_reduce = algorithm,
            CollectiveKind::AllGather => self.all_gather = algorithm,
            CollectiveKind::ReduceScatter => self.reduce_scatter = algorithm,
            _ => {}
        }
        self
    }
}

/// A network without its speeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NetworkShape {
    pub(super) blocks: RankBlocks,
    pub(super) algorithms: CollectiveImplementations,
}

impl NetworkShape {
    pub(super) fn flat(ranks: u64) -> NetworkShape {
        NetworkShape {
            blocks: RankBlocks::flat(ranks),
            algorithms: CollectiveImplementations::default(),
        }
    }

    /// Returns the dimension that a communication is charged to; `None` for both.
    fn level(self, members: &[u64]) -> Option<usize> {
        match self.blocks.reach(members) {
            CommReach::Within | CommReach::Mixed { across: false } => Some(0),
            CommReach::Across | CommReach::Mixed { across: true } => Some(1),
            CommReach::Everything => None,
        }
    }

    fn cost(self, kind: CollectiveKind, ranks: usize, bytes: f64) -> Option<NetworkCost> {
        NetworkCost::new(kind, self.algorithm(kind), ranks, bytes)
    }

    /// Returns the algorithm of a collective of some ranks.
    fn algorithm(self, kind: CollectiveKind) -> CollectiveImplementation {
        // Over two dimensions, a group that does not include all ranks always uses a ring, whatever
        // the setting: `CommunicatorGroup::get_collective_plan`.
        if self.blocks.is_flat() {
            self.algorithms.of(kind)
        } else {
            CollectiveImplementation::Ring
        }
    }

    /// Returns the time of a communication, in nanoseconds.
    pub(super) fn time_ns(
        self,
        kind: CollectiveKind,
        members: &[u64],
        bytes: f64,
        links: &[NetworkLevel],
    ) -> Option<f64> {
        if let Some(level) = self.level(members) {
            let link = links.get(level)?.speed();
            return Some(self.cost(kind, members.len(), bytes)?.time_ns(link));
        }
        let [within, across] = links else {
            return None;
        };
        let sizes = [self.blocks.block, self.blocks.blocks()];
        let [block, blocks] = sizes.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        hierarchical_ns(
            kind,
            self.algorithms.of(kind),
            bytes,
            (block, within.speed()),
            (blocks, across.speed()),
        )
    }

    pub(super) fn transfer_ns(
        self,
        measured: &MeasuredTransfers,
        transfer: &MeasuredTransfer,
        links: &[NetworkLevel],
    ) -> f64 {
        let members = measured.members(transfer);
        self.time_ns(transfer.kind, members, transfer.bytes, links)
            .unwrap_or(0.0)
    }

    /// Returns true if ranks pass on bytes for others in an all-to-all, so that its time says nothing
    /// about links.
    fn is_passed_on(self, kind: CollectiveKind, ranks: usize) -> bool {
        kind == CollectiveKind::AllToAll
            && ranks > 2
            && self.algorithm(kind) == CollectiveImplementation::Ring
    }

    /// Returns the chosen transfers that determine the speed of a level, by level.
    fn costed(self, measured: &MeasuredTransfers, chosen: &[usize]) -> [Vec<CostedTransfer>; 2] {
        let mut kind_ns: BTreeMap<&str, f64> = BTreeMap::new();
        let transfers = || chosen.iter().map(|at| &measured.transfers[*at]);
        for transfer in transfers() {
            *kind_ns.entry(transfer.kind.name()).or_default() += transfer.ns;
        }
        let mut levels = [vec![], vec![]];
        for transfer in transfers() {
            if let Some((level, cost)) = self.determined(measured, transfer) {
                levels[level].push(CostedTransfer {
                    cost,
                    ns: transfer.ns,
                    weight: 1.0 / kind_ns[transfer.kind.name()],
                });
            }
        }
        levels
    }

    /// Returns the level whose speed a transfer determines, and its cost there; `None` if it
    /// determines none.
    fn determined(
        self,
        measured: &MeasuredTransfers,
        transfer: &MeasuredTransfer,
    ) -> Option<(usize, NetworkCost)> {
        let members = measured.members(transfer);
        let level = match self.blocks.reach(members) {
            CommReach::Within => 0,
            CommReach::Across => 1,
            CommReach::Everything | CommReach::Mixed { .. } => return None,
        };
        if self.is_passed_on(transfer.kind, members.len()) {
            return None;
        }
        Some((
            level,
            self.cost(transfer.kind, members.len(), transfer.bytes)?,
        ))
    }

    /// Returns the transfers that determine the speeds of the levels.
    pub(super) fn fitted(self, measured: &MeasuredTransfers) -> Vec<usize> {
        let transfers = measured.transfers.iter().enumerate();
        transfers
            .filter(|(_, transfer)| self.determined(measured, transfer).is_some())
            .map(|(at, _)| at)
            .collect()
    }

    /// Fits the speeds of the levels; `None` if too few of the chosen transfers determine one.
    pub(super) fn fit(
        self,
        measured: &MeasuredTransfers,
        chosen: &[usize],
    ) -> Option<Vec<NetworkLevel>> {
        let [within, across] = self.costed(measured, chosen);
        let mut links = vec![fit_link(&within, measured.quantile)?];
        if !self.blocks.is_flat() {
            links.push(fit_link(&across, measured.quantile)?);
        }
        Some(links)
    }

    /// Returns the error of the chosen transfers.
    fn loss(self, measured: &MeasuredTransfers, chosen: &[usize], links: &[NetworkLevel]) -> f64 {
        let levels = self.costed(measured, chosen);
        let of_level = levels.iter().zip(links);
        of_level
            .map(|(transfers, link)| loss(transfers, link.speed(), measured.quantile))
            .sum()
    }

    pub(super) fn levels(
        self,
        links: &[NetworkLevel],
        measured: &MeasuredTransfers,
    ) -> Vec<NetworkLevel> {
        let all: Vec<usize> = (0..measured.transfers.len()).collect();
        let used = self.costed(measured, &all).map(|level| level.len() as u64);
        let sizes = [self.blocks.block, self.blocks.blocks()];
        let links = links.iter().zip(sizes).zip(used);
        links
            .map(|((link, size), used)| NetworkLevel {
                size,
                used,
                ..*link
            })
            .collect()
    }

    /// Returns the number of communications that ASTRA-sim charges to a different dimension than
    /// they cross.
    pub(super) fn mixed(self, measured: &MeasuredTransfers) -> u64 {
        let is_mixed = |transfer: &&MeasuredTransfer| {
            let reach = self.blocks.reach(measured.members(transfer));
            matches!(reach, CommReach::Mixed { .. })
        };
        measured.transfers.iter().filter(is_mixed).count() as u64
    }
}

/// Returns the best shape and its speeds; `None` if too few transfers determine them.
pub(super) fn find_shape(
    measured: &MeasuredTransfers,
    chosen: &[usize],
    ranks: u64,
) -> Option<(NetworkShape, Vec<NetworkLevel>)> {
    find_two_levels(measured, chosen, ranks)
        .or_else(|| find_algorithms(measured, chosen, NetworkShape::flat(ranks)))
}

/// Finds two levels if groups within blocks are faster than groups across them.
fn find_two_levels(
    measured: &MeasuredTransfers,
    chosen: &[usize],
    ranks: u64,
) -> Option<(NetworkShape, Vec<NetworkLevel>)> {
    let flat = NetworkShape::flat(ranks);
    let mut found: Option<(usize, f64, NetworkShape, Vec<NetworkLevel>)> = None;
    for blocks in RankBlocks::of_two_levels(ranks) {
        let shape = NetworkShape { blocks, ..flat };
        let tells = |at: &&usize| {
            let members = measured.members(&measured.transfers[**at]);
            let reach = blocks.reach(members);
            matches!(reach, CommReach::Within | CommReach::Across)
        };
        let telling: Vec<usize> = chosen.iter().filter(tells).copied().collect();
        let Some(links) = shape.fit(measured, &telling) else {
            continue;
        };
        let Some(one) = flat.fit(measured, &telling) else {
            continue;
        };
        let relative = shape.loss(measured, &telling, &links) / flat.loss(measured, &telling, &one);
        let is_better = relative <= TWO_LEVELS_LOSS
            && across_ratio(shape, measured, &telling, &links) >= TWO_LEVELS_RATIO
            && found
                .as_ref()
                .is_none_or(|(told, least, ..)| (telling.len(), -relative) > (*told, -*least));
        if is_better {
            found = Some((telling.len(), relative, shape, links));
        }
    }
    found.map(|(_, _, shape, links)| (shape, links))
}

/// Returns the median ratio of transfer times across blocks to the times within a block.
fn across_ratio(
    shape: NetworkShape,
    measured: &MeasuredTransfers,
    chosen: &[usize],
    links: &[NetworkLevel],
) -> f64 {
    let [_, across] = shape.costed(measured, chosen);
    let [quick, slow] = links else {
        return 0.0;
    };
    let ratio = |transfer: &CostedTransfer| {
        transfer.cost.time_ns(slow.speed()) / transfer.cost.time_ns(quick.speed())
    };
    let mut ratios: Vec<f64> = across.iter().map(ratio).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(0.0)
}

/// Chooses algorithms other than rings if together they fit better.
fn find_algorithms(
    measured: &MeasuredTransfers,
    chosen: &[usize],
    flat: NetworkShape,
) -> Option<(NetworkShape, Vec<NetworkLevel>)> {
    let links = flat.fit(measured, chosen)?;
    // The choice does not depend on each of many thousand transfers.
    let step = chosen.len().div_ceil(MOST_COMPARED).max(1);
    let compared: Vec<usize> = chosen.iter().step_by(step).copied().collect();
    let loss_of = |shape: NetworkShape| {
        let links = shape.fit(measured, &compared)?;
        Some(shape.loss(measured, &compared, &links))
    };
    let Some(of_rings) = loss_of(flat) else {
        return Some((flat, links));
    };
    let (mut best, mut least) = (flat, ALGORITHM_LOSS * of_rings);
    // The best algorithm of one kind depends on the others, so all combinations are tried.
    for algorithms in algorithm_choices(measured, &compared) {
        let shape = NetworkShape { algorithms, ..flat };
        if let Some(loss) = loss_of(shape).filter(|loss| *loss < least) {
            (best, least) = (shape, loss);
        }
    }
    let links = best.fit(measured, chosen)?;
    Some((best, links))
}

/// Returns all combinations of algorithms that ASTRA-sim supports for the groups of the chosen
/// transfers. They differ in latencies: each passes the same bytes.
fn algorithm_choices(
    measured: &MeasuredTransfers,
    chosen: &[usize],
) -> Vec<CollectiveImplementations> {
    use CollectiveImplementation::{HalvingDoubling, Ring};
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    let mut choices = vec![CollectiveImplementations::default()];
    for kind in [AllReduce, AllGather, ReduceScatter] {
        let of_kind = chosen.iter().map(|at| &measured.transfers[*at]);
        let of_kind = of_kind.filter(|transfer| transfer.kind == kind);
        let sizes: Vec<usize> = of_kind
            .map(|transfer| measured.members(transfer).len())
            .collect();
        // Between two ranks, all algorithms are the same.
        if sizes.iter().all(|ranks| *ranks <= 2) {
            continue;
        }
        if !sizes.iter().all(|ranks| ranks.is_power_of_two()) {
            continue;
        }
        let with_kind = [Ring, HalvingDoubling].into_iter().flat_map(|algorithm| {
            let choices = choices.iter();
            choices.map(move |choice| choice.with(kind, algorithm))
        });
        choices = with_kind.collect();
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::super::cost::BYTES_PER_NS;
    use super::*;
    use CollectiveKind::{AllGather, AllReduce, AllToAll, Recv};

    /// Groups among eight ranks: two hosts of four, the ranks at one position, all ranks, and a
    /// message from one host to a different position on the other.
    const GROUPS: [&[u64]; 7] = [
        &[0, 1, 2, 3],
        &[4, 5, 6, 7],
        &[0, 4],
        &[1, 5],
        &[2, 6],
        &[0, 1, 2, 3, 4, 5, 6, 7],
        &[3, 4],
    ];

    fn measured(quantile: f64) -> MeasuredTransfers {
        MeasuredTransfers {
            groups: GROUPS.map(<[u64]>::to_vec).to_vec(),
            quantile,
            ..MeasuredTransfers::default()
        }
    }

    fn link(latency_ns: f64, bandwidth: f64) -> NetworkLevel {
        NetworkLevel {
            latency_ns,
            bandwidth,
            bandwidth_is_fitted: true,
            ..NetworkLevel::example(2)
        }
    }

    /// Adds the network's times for each group of `groups` in several sizes.
    fn add(
        measured: &mut MeasuredTransfers,
        kind: CollectiveKind,
        groups: &[usize],
        (shape, links): (NetworkShape, &[NetworkLevel]),
    ) {
        for group in groups {
            for bytes in [4e3, 9e4, 1.6e6] {
                let ns = shape.time_ns(kind, &measured.groups[*group], bytes, links);
                measured.transfers.push(MeasuredTransfer {
                    kind,
                    group: *group,
                    bytes,
                    ns: ns.expect("a cost"),
                });
            }
        }
    }

    fn all(measured: &MeasuredTransfers) -> Vec<usize> {
        (0..measured.transfers.len()).collect()
    }

    const HOSTS: NetworkShape = NetworkShape {
        blocks: RankBlocks { ranks: 8, block: 4 },
        algorithms: CollectiveImplementations {
            all_reduce: CollectiveImplementation::Ring,
            all_gather: CollectiveImplementation::Ring,
            reduce_scatter: CollectiveImplementation::Ring,
            all_to_all: CollectiveImplementation::Direct1,
        },
    };

    #[test]
    fn two_levels_come_back() {
        let (mut measured, links) = (measured(0.5), [link(2_000.0, 150.0), link(9_000.0, 10.0)]);
        add(&mut measured, AllGather, &[0, 1], (HOSTS, &links));
        add(&mut measured, AllReduce, &[2, 3, 4, 5], (HOSTS, &links));
        add(&mut measured, Recv, &[6], (HOSTS, &links));
        let (shape, found) = find_shape(&measured, &all(&measured), 8).expect("a network");
        assert_eq!(shape, HOSTS);
        for (found, truth) in found.iter().zip(&links) {
            assert!(
                (found.latency_ns / truth.latency_ns - 1.0).abs() < 1e-3,
                "{found:?}"
            );
            assert!(
                (found.bandwidth / truth.bandwidth - 1.0).abs() < 1e-3,
                "{found:?}"
            );
        }
        // Groups of all ranks, which the levels were not fitted to, are reproduced too.
        for transfer in &measured.transfers {
            let ns = shape.transfer_ns(&measured, transfer, &found);
            assert!((ns / transfer.ns - 1.0).abs() < 1e-3, "{transfer:?} {ns}");
        }
        assert_eq!(shape.mixed(&measured), 3);
        let levels = shape.levels(&found, &measured);
        let sizes: Vec<(u64, u64)> = levels
            .iter()
            .map(|level| (level.size, level.used))
            .collect();
        assert_eq!(sizes, [(4, 6), (2, 9)]);
    }

    #[test]
    fn one_speed_is_one_level_however_groups_are_cut() {
        let flat = NetworkShape::flat(8);
        let (mut measured, links) = (measured(0.1), [link(30_000.0, 2.0)]);
        add(&mut measured, AllGather, &[0, 1], (flat, &links));
        add(&mut measured, AllReduce, &[2, 3, 4], (flat, &links));
        // On busy hosts, most transfers took much longer, whatever they crossed.
        let late = [1.0, 1.0, 4.0, 1.1, 9.0, 1.0, 30.0];
        for (transfer, times) in measured.transfers.iter_mut().zip(late.into_iter().cycle()) {
            transfer.ns *= times;
        }
        let (shape, _) = find_shape(&measured, &all(&measured), 8).expect("a network");
        assert_eq!(shape.blocks, RankBlocks::flat(8));
    }

    #[test]
    fn the_algorithms_are_those_that_fit() {
        let mut truth = NetworkShape::flat(8);
        truth.algorithms.all_reduce = CollectiveImplementation::HalvingDoubling;
        let (mut measured, links) = (measured(0.5), [link(2_000.0, 20.0)]);
        add(&mut measured, AllToAll, &[5], (truth, &links));
        add(&mut measured, AllReduce, &[0, 5], (truth, &links));
        let (shape, found) = find_shape(&measured, &all(&measured), 8).expect("a network");
        assert_eq!(shape, truth);
        assert!((found[0].latency_ns - 2_000.0).abs() < 1.0, "{found:?}");
    }

    /// All-reduces of eight GPUs over links of 24 GB/s whose latency hardly counts: no algorithm
    /// makes them quicker than bytes over bandwidth, at any number of ranks.
    #[test]
    fn the_bandwidth_is_that_of_links_at_any_number_of_ranks() {
        let (mut measured, gb_per_s) = (measured(0.5), 24.0);
        let bound_ns = |ranks: f64, bytes: f64| {
            2.0 * (ranks - 1.0) / ranks * bytes / (gb_per_s * BYTES_PER_NS)
        };
        for bytes in [2e6, 2.1e6, 4e6, 8e6] {
            measured.transfers.push(MeasuredTransfer {
                kind: AllReduce,
                group: 5,
                bytes,
                ns: bound_ns(8.0, bytes) + 5_000.0,
            });
        }
        let (shape, links) = find_shape(&measured, &all(&measured), 8).expect("a network");
        assert!(
            (links[0].bandwidth / gb_per_s - 1.0).abs() < 1e-3,
            "{links:?}"
        );
        for ranks in [8, 64, 256] {
            let members: Vec<u64> = (0..ranks).collect();
            let shape = NetworkShape {
                blocks: RankBlocks::flat(ranks),
                ..shape
            };
            let ns = shape
                .time_ns(AllReduce, &members, 4e6, &links)
                .expect("a time");
            assert!(ns >= bound_ns(ranks as f64, 4e6), "{ranks}: {ns}");
        }
    }
}
