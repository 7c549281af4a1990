//! Beginning of a run, from which slices of time count on all its ranks.

use etlink_formats::kineto::TraceOutline;
use etlink_link::ranks::RankSteps;
use etlink_model::{GlobalRank, UnixNs};
use std::collections::BTreeMap;

/// When a trace was recorded, by its own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceExtent {
    /// Rank that the trace states.
    pub(crate) rank: Option<GlobalRank>,
    /// World size that the trace states.
    world: Option<i64>,
    /// Machine whose clock the times use; empty if unknown.
    machine: String,
    begin: UnixNs,
    end: UnixNs,
    /// Begin and end of each step, by the number in its name.
    steps: BTreeMap<i64, (UnixNs, UnixNs)>,
}

impl TraceExtent {
    /// Returns the extent of a trace; `None` without any event.
    pub(crate) fn of_outline(outline: &TraceOutline) -> Option<TraceExtent> {
        let (begin, end) = outline.window?;
        let header = &outline.trace.header;
        let steps = RankSteps::numbered(&outline.trace).into_iter();
        // other numbers are places in the trace, and begin at 0 on every rank
        let named = steps.filter(|step| step.name.ends_with(&step.number.to_string()));
        let timed = named.map(|step| {
            let ends = (header.unix_time(step.start), header.unix_time(step.end));
            (step.number, ends)
        });
        Some(TraceExtent {
            rank: header.rank,
            world: header.world_size,
            machine: header.host_name.clone(),
            begin: header.unix_time(begin),
            end: header.unix_time(end),
            steps: timed.collect(),
        })
    }

    /// Returns how far the clock of this trace is ahead of that of `reference`, ns. Clocks are trusted
    /// to the length of a step; more is measured by steps of the same number. Without these, traces
    /// that do not overlap are taken to have begun together.
    fn ahead_of(&self, reference: &TraceExtent) -> i64 {
        let overlap = self.begin < reference.end && reference.begin < self.end;
        if overlap && self.machine == reference.machine {
            return 0;
        }
        let common = self.steps.iter().filter_map(|(number, (start, end))| {
            let (other, _) = reference.steps.get(number)?;
            Some((start.since(*other), end.since(*start)))
        });
        let (mut apart, lengths): (Vec<i64>, Vec<i64>) = common.unzip();
        apart.sort_unstable();
        match (apart.get(apart.len() / 2), lengths.into_iter().max()) {
            (Some(apart), Some(longest)) if apart.saturating_abs() > longest => *apart,
            (Some(_), _) => 0,
            (None, _) if overlap => 0,
            (None, _) => self.begin.since(reference.begin),
        }
    }
}

/// Returns the earliest begin of the ranks of a run, by the clock of each of them. A rank of another
/// world than most is of another job, and moves no begin.
pub(crate) fn run_begins(ranks: &[TraceExtent]) -> Vec<UnixNs> {
    let usual = usual_world(ranks);
    let is_member = |rank: &&TraceExtent| rank.world.is_none() || rank.world == usual;
    let Some(reference) = ranks.iter().find(is_member) else {
        return vec![];
    };
    let ahead = ranks.iter().map(|rank| rank.ahead_of(reference));
    let ahead: Vec<i64> = ahead.collect();
    let on_reference = ranks.iter().zip(&ahead);
    let on_reference = on_reference.filter(|(rank, _)| is_member(rank));
    let begins = on_reference.map(|(rank, ahead)| rank.begin.shifted(ahead.saturating_neg()));
    let first = begins.min().unwrap_or(reference.begin);
    ahead
        .into_iter()
        .map(|ahead| first.shifted(ahead))
        .collect()
}

/// Returns the world size that most ranks state, the larger of equally frequent ones.
fn usual_world(ranks: &[TraceExtent]) -> Option<i64> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    for world in ranks.iter().filter_map(|rank| rank.world) {
        *counts.entry(world).or_default() += 1;
    }
    let most = counts
        .into_iter()
        .max_by_key(|(world, count)| (*count, *world));
    most.map(|(world, _)| world)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rank whose steps take 100 ns each.
    fn rank(machine: &str, begin: i64, steps: std::ops::Range<i64>) -> TraceExtent {
        let timed = steps.clone().zip(0..).map(|(number, place)| {
            let start = UnixNs(begin + 100 * place);
            (number, (start, start.shifted(100)))
        });
        TraceExtent {
            rank: None,
            world: None,
            machine: machine.to_owned(),
            begin: UnixNs(begin),
            end: UnixNs(begin + 100 * (steps.end - steps.start)),
            steps: timed.collect(),
        }
    }

    #[test]
    fn a_run_begins_with_its_first_rank() {
        let begins = |ranks: &[TraceExtent]| -> Vec<i64> {
            run_begins(ranks).into_iter().map(|begin| begin.0).collect()
        };
        let steps = |begin, steps| rank("a", begin, steps);
        // a rank that begins later, one that numbers its steps otherwise, and one without steps
        assert_eq!(begins(&[steps(0, 3..13), steps(200, 5..13)]), [0, 0]);
        assert_eq!(begins(&[steps(200, 5..13), steps(0, 3..13)]), [0, 0]);
        assert_eq!(begins(&[steps(0, 3..13), steps(0, 9..19)]), [0, 0]);
        assert_eq!(begins(&[steps(0, 3..13), steps(1900, 0..0)]), [0, 1900]);
        // clocks that differ by little, and by 5000, overlapping or not
        let other = |begin, steps| rank("b", begin, steps);
        assert_eq!(begins(&[steps(0, 3..13), other(60, 3..13)]), [0, 0]);
        assert_eq!(begins(&[steps(0, 3..13), other(5200, 5..13)]), [0, 5000]);
        assert_eq!(begins(&[other(5200, 5..13), steps(0, 3..13)]), [5000, 0]);
        assert_eq!(begins(&[steps(0, 3..103), other(5200, 5..13)]), [0, 5000]);
        // a rank of another job that began earlier
        let of = |world, begin| TraceExtent {
            world: Some(world),
            ..steps(begin, 3..13)
        };
        assert_eq!(begins(&[of(8, 0), of(2, 40), of(2, 60)])[1..], [40, 40]);
        assert!(begins(&[]).is_empty());
    }
}
