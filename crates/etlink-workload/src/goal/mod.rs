//! Writes GOAL: schedules of sends, receives and calculations per rank, simulated by LogGOPSim and
//! ATLAHS.
//!
//! ```text
//! num_ranks 2
//!
//! rank 0 {
//! n0: calc 1500 cpu 0
//! n1: send 4096b to 1 tag 0 cpu 1
//! n1 requires n0
//! }
//! …
//! ```
//! Each thread and stream of a rank is a `cpu`, which runs one op at a time. Times are ns.
//! Collectives become messages (`unroll`); the n-th collective of a group has a unique tag.
//! Grammar: `txt2bin.re` of LogGOPSim.

mod unroll;

#[cfg(test)]
mod tests;

use unroll::exchange_pairs;
pub use unroll::{CollectiveAlgorithm, CommStep, GroupPlace, unroll};

use etlink_chakra::check::cycle_of_nodes;
use etlink_chakra::convert::{GroupList, NodeNumbers};
use etlink_chakra::messages::{LossKind, Losses};
use etlink_chakra::proto::NodeType;
use etlink_chakra::read::ChakraGraph;
use indexmap::IndexSet;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Processors per rank: GOAL numbers them with 8 bits.
const MAX_PROCESSORS: usize = 256;
/// Maximum number of idle ranks after the last file.
const MAX_IDLE: u64 = 4096;
/// First tag of collectives; messages have lower tags.
const MESSAGE_TAGS: i64 = 1 << 24;

/// Ranks of a run, and the options of writing them.
#[derive(Clone, Debug)]
pub struct GoalRun<'g> {
    /// Graph of each rank.
    pub ranks: BTreeMap<u32, &'g ChakraGraph>,
    /// Ranks of groups, by `pg_name`.
    pub groups: GroupList,
    /// Algorithm that turns collectives into messages.
    pub algorithm: CollectiveAlgorithm,
}

/// Writes the run as GOAL; returns the losses in the conversion. O(nodes + deps + messages).
///
/// # Errors
/// Writing to `out` fails.
pub fn write_goal(run: &GoalRun<'_>, out: &mut impl Write) -> io::Result<Losses> {
    let last = run.ranks.keys().next_back().map_or(0, |last| last + 1);
    let absent = absent_ranks(run);
    // a damaged number does not cause a count up to it
    let idle = if absent <= MAX_IDLE { absent } else { 0 };
    let count = last.max(run.ranks.len() as u32 + idle as u32);
    writeln!(out, "num_ranks {count}")?;
    let mut tags = CollectiveTags::default();
    let mut losses = Losses::default();
    losses.add(LossKind::AbsentRank, absent);
    for rank in 0..count {
        writeln!(out, "\nrank {rank} {{")?;
        if let Some(file) = run.ranks.get(&rank) {
            let mut writer = RankWriter {
                run,
                rank,
                file,
                numbers: NodeNumbers::new(file),
                cycle: cycle_of_nodes(file),
                processors: IndexSet::new(),
                places: BTreeMap::new(),
                is_written: vec![false; file.len()],
                required_by: vec![None; file.len()],
                late: String::new(),
                losses: &mut losses,
            };
            writer.write(&mut tags, out)?;
        }
        writeln!(out, "}}")?;
    }
    Ok(losses)
}

/// Returns the number of ranks without a file: files, groups and the highest rank each imply a
/// count, and the largest applies.
fn absent_ranks(run: &GoalRun<'_>) -> u64 {
    let last = run.ranks.keys().next_back().map(|rank| i64::from(*rank));
    let listed = run.groups.values().flatten().copied().max();
    let by_number = last.max(listed).map_or(0, |last| last.saturating_add(1));
    let files = run.ranks.values();
    let stated = files.filter_map(|file| file.metadata_int("world_size"));
    let all = stated.fold(by_number, i64::max);
    u64::try_from(all)
        .unwrap_or(0)
        .saturating_sub(run.ranks.len() as u64)
}

/// Tags of collectives, by group and position in the order of the group's collectives.
#[derive(Default)]
struct CollectiveTags {
    tags: IndexSet<(Vec<u32>, u64)>,
}

impl CollectiveTags {
    fn tag(&mut self, group: &[u32], place: u64) -> i64 {
        let (index, _) = self.tags.insert_full((group.to_vec(), place));
        MESSAGE_TAGS + index as i64
    }
}

struct RankWriter<'a, 'g> {
    run: &'a GoalRun<'g>,
    rank: u32,
    file: &'a ChakraGraph,
    numbers: NodeNumbers,
    /// Cycle of each node, if it is on one.
    cycle: Vec<Option<u32>>,
    /// Processors of the file, in the order of their numbers in the schedule.
    processors: IndexSet<u32>,
    /// Number of collectives written so far, per group.
    places: BTreeMap<Vec<u32>, u64>,
    /// For each node: true if its label is written.
    is_written: Vec<bool>,
    /// For each node: the last node written as requiring it.
    required_by: Vec<Option<usize>>,
    /// Dependencies on nodes that are written later.
    late: String,
    losses: &'a mut Losses,
}

impl RankWriter<'_, '_> {
    fn write(&mut self, tags: &mut CollectiveTags, out: &mut impl Write) -> io::Result<()> {
        self.losses
            .add(LossKind::DuplicateId, self.numbers.duplicates());
        // ASTRA-sim starts ready nodes by id, which orders the collectives of a group
        let mut order: Vec<usize> = (0..self.file.len()).collect();
        order.sort_by_key(|node| self.file.id[*node]);
        for node in order {
            match self.file.node_type[node] {
                NodeType::CommCollNode => self.write_collective(node, tags, out)?,
                NodeType::CommSendNode => self.write_message(node, true, out)?,
                NodeType::CommRecvNode => self.write_message(node, false, out)?,
                kind => {
                    let is_memory = matches!(kind, NodeType::MemLoadNode | NodeType::MemStoreNode);
                    self.losses
                        .add(LossKind::MemoryAsCalc, u64::from(is_memory));
                    self.write_calc(node, out)?;
                }
            }
            self.is_written[node] = true;
        }
        out.write_all(self.late.as_bytes())
    }

    fn write_calc(&mut self, node: usize, out: &mut impl Write) -> io::Result<()> {
        let latency = self.file.latency_ns[node].unwrap_or_default();
        let time = self.file.duration_ns[node].saturating_add(latency).max(0);
        let processor = self.processor(node);
        writeln!(out, "n{node}: calc {time} cpu {processor}")?;
        self.write_deps(node, &format!("n{node}"), out)
    }

    fn write_message(&mut self, node: usize, sends: bool, out: &mut impl Write) -> io::Result<()> {
        let comm = self.file.comm_of(node);
        let peer = if sends { comm.dst } else { comm.src };
        let peer = peer.and_then(|peer| u32::try_from(peer).ok());
        let size = comm.size.filter(|size| *size >= 0);
        let (Some(peer), Some(size)) = (peer, size) else {
            self.losses.add(LossKind::MessageAsCalc, 1);
            return self.write_calc(node, out);
        };
        // The message would never be answered: a simulator would wait forever, or reject the
        // missing rank.
        if !self.run.ranks.contains_key(&peer) {
            self.losses.add(LossKind::AbsentPeer, 1);
            return self.write_calc(node, out);
        }
        let whole_tag = comm.tag.unwrap_or(0);
        let tag = whole_tag & (MESSAGE_TAGS - 1);
        self.losses
            .add(LossKind::TagFolded, u64::from(tag != whole_tag));
        let (op, way) = if sends {
            ("send", "to")
        } else {
            ("recv", "from")
        };
        let processor = self.processor(node);
        writeln!(
            out,
            "n{node}: {op} {size}b {way} {peer} tag {tag} cpu {processor}"
        )?;
        self.write_deps(node, &format!("n{node}"), out)
    }

    /// Writes a collective: it begins with `nNe`, ends with `nN`, and its messages are in between.
    /// If ranks of its group are missing, it is a calculation of its measured time.
    fn write_collective(
        &mut self,
        node: usize,
        tags: &mut CollectiveTags,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let comm = self.file.comm_of(node);
        let group = self.group_of(node);
        let (Some(kind), Some((group, is_whole))) = (comm.collective_type(), group) else {
            self.losses.add(LossKind::CollectiveAsCalc, 1);
            return self.write_calc(node, out);
        };
        if !is_whole {
            self.losses.add(LossKind::PartialGroup, 1);
            return self.write_calc(node, out);
        }
        let count = self.places.entry(group.clone()).or_default();
        let tag = tags.tag(&group, *count);
        *count += 1;
        let place = GroupPlace {
            rank: group.iter().take_while(|rank| **rank != self.rank).count() as u32,
            ranks: group.len() as u32,
        };
        let bytes = comm.size.and_then(|size| u64::try_from(size).ok());
        let of_pairs = u32::try_from(node).ok();
        let of_pairs = of_pairs.and_then(|node| self.file.pair_bytes.get(&node));
        let steps = match of_pairs {
            Some(bytes) if bytes.iter().all(|of| of.len() == group.len()) => {
                exchange_pairs(self.run.algorithm, bytes, place)
            }
            _ => unroll(self.run.algorithm, kind, bytes.unwrap_or(0), place),
        };
        let processor = self.processor(node);
        writeln!(out, "n{node}e: calc 0 cpu {processor}")?;
        self.write_deps(node, &format!("n{node}e"), out)?;
        let mut before = vec![format!("n{node}e")];
        for (number, step) in steps.iter().enumerate() {
            let mut own = vec![];
            let sends = step.sends.iter().map(|message| ("send", "to", message));
            let receives = step
                .receives
                .iter()
                .map(|message| ("recv", "from", message));
            for (at, (op, way, (peer, bytes))) in sends.chain(receives).enumerate() {
                let label = format!("n{node}s{number}x{at}");
                let peer = group[*peer as usize];
                writeln!(
                    out,
                    "{label}: {op} {bytes}b {way} {peer} tag {tag} cpu {processor}"
                )?;
                for earlier in &before {
                    writeln!(out, "{label} requires {earlier}")?;
                }
                own.push(label);
            }
            before = own;
        }
        writeln!(out, "n{node}: calc 0 cpu {processor}")?;
        for earlier in &before {
            writeln!(out, "n{node} requires {earlier}")?;
        }
        Ok(())
    }

    /// Returns the ranks of a collective's group that have files, and true if all have one; `None`
    /// if the group is unknown or does not contain this rank.
    fn group_of(&self, node: usize) -> Option<(Vec<u32>, bool)> {
        let name = self.file.comm_of(node).group;
        let name = name.map_or("", |name| self.file.names.get(name));
        let present = &self.run.ranks;
        let (group, all): (Vec<u32>, usize) = match self.run.groups.get(name) {
            Some(listed) => {
                let ranks = listed.iter().filter_map(|rank| u32::try_from(*rank).ok());
                let here = ranks.filter(|rank| present.contains_key(rank));
                (here.collect(), listed.len())
            }
            None if name.is_empty() || name == "0" => {
                let stated = self.file.metadata_int("world_size").unwrap_or(0);
                let all = usize::try_from(stated).unwrap_or(0);
                (present.keys().copied().collect(), all)
            }
            None => return None,
        };
        let is_whole = group.len() >= all;
        group.contains(&self.rank).then_some((group, is_whole))
    }

    fn write_deps(&mut self, node: usize, label: &str, out: &mut impl Write) -> io::Result<()> {
        let file = self.file;
        let known = file.deps(node).filter_map(|(_, id)| self.numbers.find(id));
        let known: Vec<u32> = known.collect();
        let missing = file.deps(node).count() - known.len();
        self.losses.add(LossKind::DanglingDep, missing as u64);
        for dep in known {
            let place = dep as usize;
            // a node can be in both lists
            if self.required_by[place].replace(node) == Some(node) {
                continue;
            }
            if self.closes_cycle(node, place) {
                self.losses.add(LossKind::CyclicDep, 1);
                continue;
            }
            let line = format!("{label} requires n{dep}\n");
            // the parser accepts only labels that are already defined
            if self.is_written[place] {
                out.write_all(line.as_bytes())?;
            } else {
                self.late.push_str(&line);
            }
        }
        Ok(())
    }

    /// Returns true if a node waits for itself, or for a later node on the same cycle. With such a
    /// dependency the schedule would never end.
    fn closes_cycle(&self, node: usize, dep: usize) -> bool {
        let is_same_cycle = self.cycle[node].is_some() && self.cycle[node] == self.cycle[dep];
        node == dep || is_same_cycle && !self.is_written[dep]
    }

    fn processor(&mut self, node: usize) -> usize {
        let (index, _) = self.processors.insert_full(self.file.place[node]);
        index.min(MAX_PROCESSORS - 1)
    }
}
