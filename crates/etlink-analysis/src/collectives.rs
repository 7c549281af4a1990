//! Collectives and messages of one rank, by type and group: volume and bandwidth.
//!
//! Sizes and bus factors follow nccl-tests, as in [`etlink_link::ranks::CollectiveSkew`]: `bytes`
//! is the larger of input and output.
//!
//! ```text
//! algorithm bandwidth = bytes / duration
//! bus bandwidth = algorithm bandwidth · factor
//! bytes per ns = GB/s
//! ```
//! `latency` and `ns_per_byte` are the parameters of Hockney's model, duration = latency + bytes ·
//! ns_per_byte, fitted by least squares to the communications with a known size. Both are `None` if
//! all sizes are equal, or if one of the two is negative: communications that wait for other ranks
//! do not follow the model.
//!
//! The duration is the time of this rank's own kernel. The kernel begins when the rank arrives, so
//! it includes the wait for other ranks; for runs of several ranks, the stragglers' table (and
//! `etlink ranks`) separates transfer from wait. Host ops (gloo) return at once: their duration is
//! that of the operation that carries them out ([`CommExtent`](etlink_link::ranks::CommExtent)),
//! and they have no bandwidth if no transfer is recorded. Communication kernels without size and
//! group are counted by what their names state. If host ops have no records at all (DDP's reducer),
//! their ranges `gloo:…` are counted, with the size of their input.

mod gloo;

pub use gloo::input_bytes;

use crate::outside_work::CountedWork;
use crate::rows::ClassifiedRows;
use crate::rules::RowClass;
use crate::sums::sum_by_key;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::ranks::{Communication, GroupIdentity, Peers, RankSummary, bus_factor, rank_list};
use etlink_model::CollectiveKind;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;

/// Totals of all communications of one type in one group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectiveTotals {
    /// `all_reduce`, `send`, …; `other` if only a kernel is known.
    pub kind: String,
    /// Ranks of the group, or what else is known of it, such as its size; empty if nothing is
    /// known.
    pub group: String,
    /// Number of ranks in the group; 0 if unknown.
    pub group_size: u64,
    /// True for device rows; false for host ops (gloo), whose transfer may outlast them.
    pub on_device: bool,
    /// Number of communications.
    pub count: u64,
    /// Input of this rank in bytes, over the communications with a known size; `None` if there are
    /// none.
    pub in_bytes: Option<u64>,
    /// Larger of input and output in bytes, over the communications with a known size; `None` if
    /// there are none.
    pub bytes: Option<u64>,
    /// Number of communications without a known size, excluded from bytes and bandwidths.
    pub without_size: u64,
    /// Sum of the durations, ns.
    pub sum_ns: i64,
    /// Sum of the durations of communications with a known size and a recorded transfer, ns.
    pub sized_ns: i64,
    /// Bytes of the communications counted in `sized_ns`.
    #[serde(skip)]
    sized_bytes: u64,
    /// Number of communications in which this rank waited for one whose recording began later. Like
    /// communications without a size, they are excluded from bandwidths.
    pub start_skew: u64,
    /// Sum of these waits, ns.
    pub start_skew_ns: i64,
    /// `sized_bytes / sized_ns`; `None` without such communications.
    pub algorithm_gb_per_s: Option<f64>,
    /// Algorithm bandwidth times the bus factor: the load of the links.
    pub bus_gb_per_s: Option<f64>,
    /// Hockney's latency, ns.
    pub latency_ns: Option<f64>,
    /// Hockney's inverse bandwidth, ns per byte.
    pub ns_per_byte: Option<f64>,
    /// Bus factor of a ring.
    #[serde(skip)]
    factor: f64,
    #[serde(skip)]
    fit: HockneyFit,
}

/// Sums for a line through points (bytes, ns), exact in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct HockneyFit {
    n: i128,
    x: i128,
    y: i128,
    xx: i128,
    xy: i128,
}

impl HockneyFit {
    fn one_communication(bytes: u64, ns: i64) -> HockneyFit {
        let (x, y) = (i128::from(bytes), i128::from(ns));
        if bytes == 0 {
            HockneyFit::default()
        } else {
            HockneyFit {
                n: 1,
                x,
                y,
                xx: x.saturating_mul(x),
                xy: x.saturating_mul(y),
            }
        }
    }

    fn negated(self) -> HockneyFit {
        let HockneyFit { n, x, y, xx, xy } = self;
        let [n, x, y, xx, xy] = [n, x, y, xx, xy].map(i128::saturating_neg);
        HockneyFit { n, x, y, xx, xy }
    }

    fn add(&mut self, other: &HockneyFit) {
        (self.n, self.x, self.y) = (self.n + other.n, self.x + other.x, self.y + other.y);
        (self.xx, self.xy) = (
            self.xx.saturating_add(other.xx),
            self.xy.saturating_add(other.xy),
        );
    }

    /// Returns the line's value at 0 and its slope.
    fn fit_line(&self) -> Option<(f64, f64)> {
        // The sums are whole numbers, so the line does not depend on the order of ranks.
        let spread = self
            .n
            .checked_mul(self.xx)?
            .checked_sub(self.x.checked_mul(self.x)?)?;
        let slope = self
            .n
            .checked_mul(self.xy)?
            .checked_sub(self.x.checked_mul(self.y)?)? as f64
            / spread as f64;
        let line = (
            (self.y as f64 - slope * self.x as f64) / self.n as f64,
            slope,
        );
        (spread > 0 && line.0 >= 0.0 && line.1 >= 0.0).then_some(line)
    }
}

impl CollectiveTotals {
    fn with_bandwidths(mut self) -> CollectiveTotals {
        // A group of one rank moves nothing, whatever size its call states.
        if self.group_size == 1 {
            return self;
        }
        self.algorithm_gb_per_s = (self.sized_bytes > 0 && self.sized_ns > 0)
            .then(|| self.sized_bytes as f64 / self.sized_ns as f64);
        (self.latency_ns, self.ns_per_byte) = self.fit.fit_line().unzip();
        self.bus_gb_per_s = match self.algorithm_gb_per_s {
            Some(bandwidth) if self.group_size > 0 => Some(bandwidth * self.factor),
            _ => None,
        };
        self
    }

    /// True if these totals count a communication of this rank.
    pub(crate) fn has(&self, one: &Communication, summary: &RankSummary) -> bool {
        let (group, _) = group_and_size(summary, one.peers, self.group_size);
        self.is_alike(one) && self.group == group
    }

    /// True if these totals count kernels without records, of which this may be one: only the join
    /// knows its group.
    pub(crate) fn has_bare(&self, one: &Communication, summary: &RankSummary) -> bool {
        let is_inferred = match one.peers {
            Peers::Group(group) => matches!(
                summary.groups.get(group.index()),
                Some(GroupIdentity::Inferred(_))
            ),
            Peers::Peer(_) => true,
        };
        self.is_alike(one) && self.group.is_empty() && is_inferred && !one.is_sized
    }

    fn is_alike(&self, one: &Communication) -> bool {
        self.kind == one.kind.name() && self.on_device == one.on_device
    }

    /// Leaves a counted communication, which waited for a rank whose recording began later, out of the
    /// bandwidths.
    pub(crate) fn leave_out(&mut self, one: &Communication, waits_ns: i64) {
        let (duration, sized) = sized_transfer(one);
        let point = HockneyFit::one_communication(sized, duration);
        self.fit.add(&point.negated());
        if sized > 0 {
            self.sized_ns = self.sized_ns.saturating_sub(duration);
            self.sized_bytes = self.sized_bytes.saturating_sub(sized);
        }
        self.start_skew += 1;
        self.start_skew_ns = self.start_skew_ns.saturating_add(waits_ns);
        *self = std::mem::take(self).with_bandwidths();
    }

    fn add_communication(&mut self, one: &Communication) {
        let (duration, sized) = sized_transfer(one);
        self.count += 1;
        self.fit
            .add(&HockneyFit::one_communication(sized, duration));
        if one.is_sized {
            add_bytes(&mut self.in_bytes, Some(one.in_bytes));
            add_bytes(&mut self.bytes, Some(one.bytes));
        } else {
            self.without_size += 1
        }
        self.sum_ns = self.sum_ns.saturating_add(duration);
        if sized > 0 {
            self.sized_ns = self.sized_ns.saturating_add(duration);
            self.sized_bytes = self.sized_bytes.saturating_add(sized);
        }
    }

    fn add(&mut self, other: &CollectiveTotals) {
        self.count += other.count;
        self.fit.add(&other.fit);
        add_bytes(&mut self.in_bytes, other.in_bytes);
        add_bytes(&mut self.bytes, other.bytes);
        self.without_size += other.without_size;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.start_skew += other.start_skew;
        self.start_skew_ns = self.start_skew_ns.saturating_add(other.start_skew_ns);
        self.sized_ns = self.sized_ns.saturating_add(other.sized_ns);
        self.sized_bytes = self.sized_bytes.saturating_add(other.sized_bytes);
    }
}

/// Returns the duration in ns, and the bytes that it transfers; 0 bytes if it says nothing about a
/// bandwidth, as a host op that returns before its transfer ends.
fn sized_transfer(one: &Communication) -> (i64, u64) {
    let duration = one.extent.end_ns.since(one.extent.start_ns);
    let is_transfer = one.extent.is_transfer && duration > 0;
    (duration, if is_transfer { one.bytes } else { 0 })
}

/// Adds a size to a sum, if it is known.
fn add_bytes(sum: &mut Option<u64>, bytes: Option<u64>) {
    if let Some(bytes) = bytes {
        *sum = Some(sum.unwrap_or(0).saturating_add(bytes));
    }
}

/// Key of a record in the table. Records may disagree on the size of a group.
type TotalsKey = (CollectiveKind, Peers, u64, bool);

/// Totals the communications of a rank, by falling time, without communication outside the steps.
/// O(nodes).
pub(crate) fn collective_totals(
    rows: &ClassifiedRows<'_>,
    counted: &CountedWork<'_>,
) -> Vec<CollectiveTotals> {
    // The number appears in no figure of a single rank, so any will do if it is unknown.
    let rank = rows.trace.report.rank.unwrap_or_default();
    let facts = RankSummary::from_trace(rows.trace, rank);
    // Group names are built once per group: there may be a million communications.
    let mut all: IndexMap<TotalsKey, CollectiveTotals, FxBuildHasher> = IndexMap::default();
    let mut known = vec![false; rows.len()];
    for one in &facts.communications {
        let node = rows.trace.nodes.get(one.node);
        // Such a kernel has a record; the loop at the end is for those without one.
        if let Some(row) = rows.trace.row_of(&node) {
            known[row.index()] = true;
        }
        let cause = match rows.trace.row_of(&node) {
            Some(row) => counted.row_cause(row.index()),
            None => counted.time_cause(node.start),
        };
        if cause.is_some() {
            continue;
        }
        let record = rows.trace.collective(&node);
        let said = record.map_or(0, |record| record.record.group_size);
        all.entry((one.kind, one.peers, said, one.on_device))
            .or_insert_with(|| totals_without_figures(&facts, one, said))
            .add_communication(one);
    }
    let mut all: Vec<CollectiveTotals> = all.into_values().collect();
    // With host records, Gloo's ranges would count the same communication twice.
    if facts.communications.iter().all(|one| one.on_device) {
        all.extend(gloo::gloo_ranges(rows.trace, counted));
    }
    all.extend(unrecorded_kernels(rows, &known, counted));
    sum_collectives(all.iter())
}

/// Totals the communication kernels without a record, by their names. `known` marks rows that have
/// one.
fn unrecorded_kernels(
    rows: &ClassifiedRows<'_>,
    known: &[bool],
    counted: &CountedWork<'_>,
) -> impl Iterator<Item = CollectiveTotals> {
    let device = &rows.trace.device;
    let mut kinds: Vec<Option<CollectiveKind>> = vec![None; device.names.count()];
    let mut all: IndexMap<CollectiveKind, CollectiveTotals, FxBuildHasher> = IndexMap::default();
    for (row, known) in known.iter().enumerate() {
        let is_counted = counted.row_cause(row).is_none();
        if rows.class[row] != RowClass::Communication || *known || !is_counted {
            continue;
        }
        let name = device.rows.name[row];
        // few kernels have many rows, and reading a kind from a name takes longer than adding it
        let kind =
            *kinds[name.index()].get_or_insert_with(|| CollectiveKind::from_name(rows.name(row)));
        let totals = all.entry(kind).or_insert_with(|| CollectiveTotals {
            kind: kind.name().to_owned(),
            on_device: true,
            ..CollectiveTotals::default()
        });
        totals.count += 1;
        totals.without_size += 1;
        totals.sum_ns = totals.sum_ns.saturating_add(device.rows.duration[row].0);
    }
    all.into_values()
}

fn totals_without_figures(facts: &RankSummary, one: &Communication, said: u64) -> CollectiveTotals {
    let (group, group_size) = group_and_size(facts, one.peers, said);
    CollectiveTotals {
        kind: one.kind.name().to_owned(),
        group,
        group_size,
        on_device: one.on_device,
        factor: bus_factor(one.kind, group_size as f64),
        ..CollectiveTotals::default()
    }
}

/// Returns the name and the size of a group. `said` is the size in the record, used if nothing else
/// states one.
fn group_and_size(facts: &RankSummary, party: Peers, said: u64) -> (String, u64) {
    match party {
        Peers::Peer(Some(rank)) => (format!("rank {rank}"), 2),
        Peers::Peer(None) => (String::new(), 2),
        Peers::Group(at) => match facts.groups.get(at.index()) {
            Some(GroupIdentity::Ranks(ranks) | GroupIdentity::Inferred(ranks)) => {
                let ranks: Vec<u64> = ranks.iter().collect();
                (rank_list("rank", &ranks), ranks.len() as u64)
            }
            Some(GroupIdentity::Only) => (
                "all ranks".to_owned(),
                facts
                    .world_size
                    .and_then(|size| u64::try_from(size).ok())
                    .unwrap_or(said),
            ),
            Some(GroupIdentity::Communicator(name, size)) => {
                let text = pointer_text(name, *size);
                (
                    text.unwrap_or_else(|| format!("communicator {name}")),
                    *size,
                )
            }
            Some(GroupIdentity::Named(name)) if name.is_empty() && said > 0 => {
                (format!("{said} ranks"), said)
            }
            Some(GroupIdentity::Named(name)) => (
                pointer_text(name, said).unwrap_or_else(|| name.clone()),
                said,
            ),
            None => (String::new(), 0),
        },
    }
}

/// Returns a readable name for a group whose name is an address or a hash: its size and the last
/// digits, which distinguish it from others. `None` for other names.
fn pointer_text(name: &str, size: u64) -> Option<String> {
    let (digits, is_hex) = match name.strip_prefix("0x") {
        Some(digits) => (digits, true),
        None => (name, false),
    };
    // process group numbers are short, addresses of 64-bit machines are long
    let is_long = digits.len() > 8 || is_hex && !digits.is_empty();
    let has_digits = digits.chars().any(|digit| digit.is_ascii_digit());
    if !is_long || !has_digits || !digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let end = &digits[digits.len().saturating_sub(4)..];
    Some(match size {
        0 => format!("group …{end}"),
        size => format!("{size} ranks, group …{end}"),
    })
}

/// Merges records of the same type and group, also across ranks.
pub(crate) fn sum_collectives<'a>(
    all: impl Iterator<Item = &'a CollectiveTotals>,
) -> Vec<CollectiveTotals> {
    let sums = sum_by_key(
        all,
        |one| (&one.kind, &one.group, one.group_size, one.on_device),
        CollectiveTotals::add,
    );
    let mut all: Vec<CollectiveTotals> = sums
        .into_iter()
        .map(CollectiveTotals::with_bandwidths)
        .collect();
    all.sort_by(|a, b| {
        (b.sum_ns, &a.kind, &a.group, a.on_device).cmp(&(a.sum_ns, &b.kind, &b.group, b.on_device))
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rank_alone_has_no_bandwidth() {
        for (group_size, want) in [(1, None), (2, Some(4.0))] {
            let totals = CollectiveTotals {
                group_size,
                sized_ns: 1_000,
                sized_bytes: 4_000,
                ..CollectiveTotals::default()
            };
            assert_eq!(totals.with_bandwidths().algorithm_gb_per_s, want);
        }
    }

    #[test]
    fn addresses_are_no_names_of_groups() {
        for (name, size, want) in [
            ("0x7f3a5c0012ab", 8, Some("8 ranks, group …12ab")),
            ("94735123456789", 2, Some("2 ranks, group …6789")),
            ("5bcd3f0912aa01ff", 0, Some("group …01ff")),
            ("0", 8, None),
            ("12", 8, None),
            ("default_pg", 8, None),
            ("tensor_parallel", 2, None),
            ("deadbeefdead", 2, None),
        ] {
            assert_eq!(pointer_text(name, size).as_deref(), want, "{name}");
        }
    }
}
