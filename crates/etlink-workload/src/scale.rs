//! Scales a run of N ranks to M ranks, as data-parallel copies, or to the first M of the N ranks.
//!
//! ```text
//! ranks 0 … N-1 ──> copy 0: 0 … N-1   copy 1: N … 2N-1   …
//! ```
//! If there are fewer ranks, groups of data-parallel ranks lose some. A group of other ranks that
//! would lose some, or a message to a lost rank, is rejected by name: how the model would be
//! distributed is unknown.
//!
//! A group of data-parallel ranks spans all copies. Its all-reduces, reduce-scatters and broadcasts
//! keep their sizes, which depend only on the model. The recording does not tell the sizes of its
//! other collectives among more ranks: such a collective is rejected by name, or stays within each
//! copy. Other groups, sends and receives stay within a copy. Computation is unchanged.

use crate::set::{GroupNumbers, WorkloadSet};
use etlink_chakra::astra::is_idle_rank;
use etlink_chakra::convert::GroupList;
use etlink_chakra::messages::ChakraMessages;
use etlink_chakra::proto::attribute_proto::Value;
use etlink_chakra::proto::{AttributeProto, CollectiveCommType, Node, NodeType};
use std::collections::BTreeMap;

/// Options of [`scale`].
#[derive(Clone, Debug, Default)]
pub struct ScaleOptions {
    /// Number of ranks to scale to.
    pub ranks: u32,
    /// Groups of data-parallel ranks, by `pg_name`, in addition to the group of all ranks.
    pub data_parallel: Vec<String>,
    /// Types of collectives that stay within a copy although their group is data-parallel.
    pub keep: Vec<CollectiveCommType>,
}

/// Reason why a run cannot be scaled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ScaleError {
    problem: String,
    /// Rank with the file that caused the error, if there is one.
    pub rank: Option<u32>,
}

impl ScaleError {
    fn new(problem: String) -> ScaleError {
        let rank = None;
        ScaleError { problem, rank }
    }

    fn at_node(rank: u32, node: &Node, problem: &str) -> ScaleError {
        let Node { id, name, .. } = node;
        ScaleError {
            problem: format!("rank {rank}, node {id} ({name}): {problem}"),
            rank: Some(rank),
        }
    }

    fn unknown_group(name: &str, known: &[String]) -> ScaleError {
        let listed = listed_text(known);
        ScaleError::new(format!(
            "group {name:?} is not in comm_group.json, {listed}"
        ))
    }
}

/// Scales the graphs of ranks 0 to N-1.
///
/// # Errors
/// The ranks are not a whole run, or a collective cannot be scaled.
pub fn scale(
    recorded: &BTreeMap<u32, ChakraMessages>,
    listed: &GroupList,
    options: &ScaleOptions,
) -> Result<WorkloadSet, ScaleError> {
    let recorded = &without_neighbour(recorded);
    let count = recorded.len() as u32;
    if let Some(rank) = (0..count).find(|rank| !recorded.contains_key(rank)) {
        return Err(ScaleError::new(format!(
            "rank {rank} has no file, but scale copies all ranks of a run; merge all ranks first"
        )));
    }
    let mut graphs = recorded.iter();
    if let Some((rank, _)) = graphs.find(|(_, graph)| is_idle_rank(&graph.nodes)) {
        return Err(ScaleError {
            problem: format!(
                "rank {rank} has no trace, so its file has one empty node and communication with \
                 it is computation; merge the traces of all ranks first"
            ),
            rank: Some(*rank),
        });
    }
    let is_fewer = (1..count).contains(&options.ranks);
    if count == 0 || !is_fewer && (options.ranks == 0 || !options.ranks.is_multiple_of(count)) {
        let ranks = options.ranks;
        return Err(ScaleError::new(format!(
            "{ranks} ranks are not copies of {count} ranks; give a multiple of {count}, or fewer"
        )));
    }
    if is_fewer && !options.keep.is_empty() {
        return Err(ScaleError::new(format!(
            "--keep keeps collectives within copies of all {count} ranks; leave it out"
        )));
    }
    let groups = RecordedGroups::new(recorded, listed, options)?;
    let count = count.min(options.ranks);
    let mut numbers = GroupNumbers::default();
    let mut set = WorkloadSet::default();
    for copy in 0..options.ranks / count {
        for (rank, graph) in recorded.range(..count) {
            let place = Copy {
                first: copy * count,
                count,
                all: options.ranks,
                rank: *rank,
            };
            let mut graph = (*graph).clone();
            for node in &mut graph.nodes {
                rewrite(node, &place, &groups, options, &mut numbers)?;
            }
            set_number(&mut graph.metadata.attr, "rank", place.first + rank);
            set_number(&mut graph.metadata.attr, "world_size", options.ranks);
            set.ranks.push(graph);
        }
    }
    set.groups = numbers.into_groups();
    Ok(set)
}

/// Returns the ranks of a run without the idle one that `merge` adds to a single rank, since
/// ASTRA-sim's network requires two.
fn without_neighbour(recorded: &BTreeMap<u32, ChakraMessages>) -> BTreeMap<u32, &ChakraMessages> {
    let mut ranks: BTreeMap<u32, &ChakraMessages> = recorded
        .iter()
        .map(|(rank, graph)| (*rank, graph))
        .collect();
    let all: Vec<&ChakraMessages> = ranks.values().copied().collect();
    if let [only, second] = all[..]
        && !is_idle_rank(&only.nodes)
        && is_idle_rank(&second.nodes)
        // a run of two ranks with one trace states that it has two
        && number(&only.metadata.attr, "world_size").is_none_or(|ranks| ranks <= 1)
    {
        ranks.pop_last();
    }
    ranks
}

/// Position of a copied rank in the scaled run.
struct Copy {
    /// First rank of the copy.
    first: u32,
    /// Ranks per copy.
    count: u32,
    /// Ranks of all copies together.
    all: u32,
    /// Recorded rank that is copied.
    rank: u32,
}

impl Copy {
    /// Maps recorded ranks to the ranks of this copy.
    fn within(&self, ranks: &[u32]) -> Vec<u32> {
        ranks.iter().map(|rank| self.first + rank).collect()
    }

    /// Checks that a rank named by a node is in the recorded run.
    fn find_peer(
        &self,
        node: &Node,
        attribute: &'static str,
        peer: i64,
    ) -> Result<u32, ScaleError> {
        let known = u32::try_from(peer).ok().filter(|peer| *peer < self.count);
        known.ok_or_else(|| {
            let last = self.count - 1;
            let problem = format!("{attribute} is {peer}, but only ranks 0 to {last} are copied");
            ScaleError::at_node(self.rank, node, &problem)
        })
    }

    /// Maps recorded ranks to the ranks of all copies.
    fn across(&self, ranks: &[u32]) -> Vec<u32> {
        let firsts = (0..self.all).step_by(self.count as usize);
        firsts
            .flat_map(|first| ranks.iter().map(move |rank| first + rank))
            .collect()
    }
}

/// Ranks of groups; the flag is true if the group is data-parallel.
struct RecordedGroups {
    groups: BTreeMap<String, (Vec<u32>, bool)>,
}

/// Describes the contents of a list of groups, for a message.
fn listed_text(names: &[String]) -> String {
    match names {
        [] => "which is missing next to the files, or lists no group; `etlink merge` writes it"
            .to_owned(),
        names => format!("which has {}", names.join(", ")),
    }
}

impl RecordedGroups {
    fn new(
        recorded: &BTreeMap<u32, &ChakraMessages>,
        listed: &GroupList,
        options: &ScaleOptions,
    ) -> Result<RecordedGroups, ScaleError> {
        let all: Vec<u32> = recorded.keys().copied().collect();
        let known: Vec<String> = listed.keys().cloned().collect();
        let is_none = options.data_parallel == ["none"];
        let mut groups = BTreeMap::from([
            (String::new(), (all.clone(), true)),
            ("0".to_owned(), (all.clone(), true)),
        ]);
        for (name, ranks) in listed {
            let ranks = ranks.iter().map(|rank| {
                let known = u32::try_from(*rank).ok();
                let known = known.filter(|rank| recorded.contains_key(rank));
                known.ok_or_else(|| {
                    let last = all.len().saturating_sub(1);
                    ScaleError::new(format!(
                        "group {name:?} of comm_group.json has rank {rank}, but the run has ranks 0 \
                         to {last}; merge all its ranks first"
                    ))
                })
            });
            let ranks: Vec<u32> = ranks.collect::<Result<_, ScaleError>>()?;
            let is_shared = ranks == all || options.data_parallel.contains(name);
            groups.insert(name.clone(), (ranks, is_shared));
        }
        let asked: &[String] = if is_none { &[] } else { &options.data_parallel };
        if let Some(name) = asked.iter().find(|name| !groups.contains_key(*name)) {
            return Err(ScaleError::unknown_group(name, &known));
        }
        let parts = groups.iter().filter(|(_, (ranks, _))| *ranks != all);
        let parts: Vec<String> = parts
            .map(|(name, (ranks, _))| format!("{name:?}: ranks {ranks:?}"))
            .collect();
        if !parts.is_empty() && options.data_parallel.is_empty() {
            return Err(ScaleError::new(format!(
                "the run has groups of some of the ranks ({}); name the data-parallel groups with \
                 --data-parallel, or give `--data-parallel none`",
                parts.join("; ")
            )));
        }
        for (name, (ranks, is_shared)) in &mut groups {
            let kept = ranks.iter().filter(|rank| **rank < options.ranks).count();
            let why = match kept {
                0 => continue,
                kept if kept == ranks.len() => continue,
                1 => "would be a single one",
                _ if !*is_shared => "are not data-parallel",
                _ => {
                    ranks.retain(|rank| *rank < options.ranks);
                    continue;
                }
            };
            let new = options.ranks;
            return Err(ScaleError::new(format!(
                "with {new} ranks, group {name:?} would lose some of its ranks {ranks:?}, which {why}"
            )));
        }
        Ok(RecordedGroups { groups })
    }
}

fn rewrite(
    node: &mut Node,
    place: &Copy,
    groups: &RecordedGroups,
    options: &ScaleOptions,
    numbers: &mut GroupNumbers,
) -> Result<(), ScaleError> {
    match node.r#type() {
        NodeType::CommSendNode | NodeType::CommRecvNode => {
            for name in ["comm_src", "comm_dst"] {
                if let Some(peer) = number(&node.attr, name) {
                    let peer = place.find_peer(node, name, peer)?;
                    set_number(&mut node.attr, name, place.first + peer);
                }
            }
        }
        NodeType::CommCollNode => {
            let group = match AttributeProto::find(&node.attr, "pg_name") {
                Some(Value::StringVal(group)) => group.clone(),
                _ => String::new(),
            };
            let Some((ranks, is_shared)) = groups.groups.get(&group) else {
                // these two groups are known without being listed
                let listed = groups
                    .groups
                    .keys()
                    .filter(|name| !["", "0"].contains(&&***name));
                let known: Vec<String> = listed.cloned().collect();
                return Err(ScaleError::unknown_group(&group, &known));
            };
            let spans = *is_shared && !is_kept(node, place, &group, options)?;
            let ranks = if spans {
                place.across(ranks)
            } else {
                place.within(ranks)
            };
            let name = Value::StringVal(numbers.number(ranks).to_string());
            AttributeProto::set(&mut node.attr, "pg_name", name);
        }
        _ => {}
    }
    Ok(())
}

/// Returns true if a collective of a data-parallel group stays within its copy; an error if its
/// size would be unknown.
fn is_kept(
    node: &Node,
    place: &Copy,
    group: &str,
    options: &ScaleOptions,
) -> Result<bool, ScaleError> {
    use CollectiveCommType as Kind;
    let kind = number(&node.attr, "comm_type").and_then(|kind| i32::try_from(kind).ok());
    let kind = kind.and_then(|kind| Kind::try_from(kind).ok());
    if kind.is_some_and(|kind| options.keep.contains(&kind)) {
        return Ok(true);
    }
    match kind {
        Some(Kind::AllReduce | Kind::ReduceScatter | Kind::Broadcast) => Ok(false),
        other => {
            let kind = other.map_or("a collective without a type", |kind| kind.as_str_name());
            let option = kind.to_lowercase().replace('_', "-");
            let problem = format!(
                "the size of {kind} in the data-parallel group {group:?} is unknown for other \
                 numbers of ranks; `--keep {option}` keeps it within the ranks of each copy"
            );
            Err(ScaleError::at_node(place.rank, node, &problem))
        }
    }
}

fn number(attributes: &[AttributeProto], name: &str) -> Option<i64> {
    match AttributeProto::find(attributes, name)? {
        // no valid rank or type is that large
        Value::Uint64Val(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
        other => other.whole_number(),
    }
}

/// Replaces a number, keeping its type.
fn set_number(attributes: &mut [AttributeProto], name: &str, number: u32) {
    let found = attributes
        .iter_mut()
        .find(|attribute| attribute.name == name);
    let Some(attribute) = found else { return };
    attribute.value = Some(match attribute.value {
        Some(Value::Int32Val(_)) => Value::Int32Val(i32::try_from(number).unwrap_or(i32::MAX)),
        Some(Value::Uint64Val(_)) => Value::Uint64Val(u64::from(number)),
        _ => Value::Int64Val(i64::from(number)),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{Message, WorkloadBuilder};
    use crate::generate::tests::{MODEL, SIZES};
    use crate::generate::{Transformer, WorkloadPattern, WorkloadSizes, generate};
    use etlink_chakra::astra::idle_rank;

    fn recorded(kind: CollectiveCommType) -> BTreeMap<u32, ChakraMessages> {
        let rank = |rank: u32| {
            let message = Message {
                source: 0,
                destination: 1,
                tag: 0,
                bytes: 8,
            };
            let mut graph = WorkloadBuilder::default();
            let first = graph.add_collective("c", kind, 64, None, &[]);
            match rank {
                0 => graph.add_send("s", message, &[first]),
                _ => graph.add_receive("r", message, &[first]),
            };
            graph.finish(&[])
        };
        BTreeMap::from([(0, rank(0)), (1, rank(1))])
    }

    fn options(ranks: u32) -> ScaleOptions {
        ScaleOptions {
            ranks,
            ..ScaleOptions::default()
        }
    }

    /// The idle rank that `merge --for astra-sim` adds to a run of one rank is not counted.
    #[test]
    fn the_neighbour_of_a_single_rank_is_no_rank_of_its_run() {
        let mut work = WorkloadBuilder::default();
        work.add_computation("work", 7, &[]);
        let (idle, _) = ChakraMessages::read(&idle_rank()[..]).expect("reads");
        let mut run = BTreeMap::from([(0, work.finish(&[])), (1, idle)]);
        let set = scale(&run, &GroupList::new(), &options(3)).expect("scales");
        let names: Vec<&str> = set.ranks.iter().map(|rank| &*rank.nodes[0].name).collect();
        assert_eq!(names, ["work"; 3]);
        // two ranks ran, but one has no trace
        let only = run.get_mut(&0).expect("rank 0");
        let ranks = Value::Uint64Val(2);
        AttributeProto::set(&mut only.metadata.attr, "world_size", ranks);
        let error = scale(&run, &GroupList::new(), &options(4)).expect_err("refuses");
        assert!(error.to_string().contains("rank 1 has no trace"), "{error}");
    }

    #[test]
    fn copies_share_all_reduces_and_keep_messages() {
        let run = recorded(CollectiveCommType::AllReduce);
        let set = scale(&run, &GroupList::new(), &options(6)).expect("scales");
        assert_eq!(set.groups, BTreeMap::from([(1, vec![0, 1, 2, 3, 4, 5])]));
        let peers: Vec<Option<i64>> = set
            .ranks
            .iter()
            .map(|rank| number(&rank.nodes[1].attr, "comm_dst"))
            .collect();
        assert_eq!(peers, [1, 1, 3, 3, 5, 5].map(Some));
        let sizes = set
            .ranks
            .iter()
            .map(|rank| number(&rank.nodes[0].attr, "comm_size"));
        assert!(sizes.into_iter().all(|size| size == Some(64)));
        assert_eq!(crate::generate::tests::findings(&set), []);
    }

    #[test]
    fn ranks_that_the_run_has_not_are_refused() {
        for peer in [
            Value::Int32Val(-1),
            Value::Uint32Val(u32::MAX),
            Value::Int64Val(2),
            Value::Uint64Val(u64::MAX),
        ] {
            let mut run = recorded(CollectiveCommType::AllReduce);
            let graph = run.get_mut(&1).expect("rank 1");
            AttributeProto::set(&mut graph.nodes[1].attr, "comm_src", peer.clone());
            let error = scale(&run, &GroupList::new(), &options(4)).expect_err("refuses");
            let text = error.to_string();
            assert!(text.contains("rank 1, node 1 (r): comm_src is"), "{text}");
            assert!(text.contains("ranks 0 to 1"), "{text}");
            assert_eq!(error.rank, Some(1));
        }
        let run = recorded(CollectiveCommType::AllReduce);
        for rank in [-1, 2, i64::MAX] {
            let listed = GroupList::from([("3".to_owned(), vec![0, rank])]);
            let error = scale(&run, &listed, &options(4)).expect_err("refuses");
            assert!(error.to_string().contains("\"3\""), "{error}");
        }
    }

    #[test]
    fn other_collectives_are_refused_by_name_or_kept() {
        let run = recorded(CollectiveCommType::AllToAll);
        let error = scale(&run, &GroupList::new(), &options(4)).expect_err("refuses");
        let text = error.to_string();
        assert!(
            text.contains("rank 0, node 0 (c): the size of ALL_TO_ALL"),
            "{text}"
        );
        assert!(text.contains("--keep all-to-all"), "{text}");
        let kept = ScaleOptions {
            keep: vec![CollectiveCommType::AllToAll],
            ..options(4)
        };
        let set = scale(&run, &GroupList::new(), &kept).expect("scales");
        assert_eq!(
            set.groups,
            BTreeMap::from([(1, vec![0, 1]), (2, vec![2, 3])])
        );
        assert_eq!(crate::generate::tests::findings(&set), []);
    }

    #[test]
    fn groups_of_a_part_have_to_be_decided() {
        let model = Transformer {
            tensor: 2,
            pipeline: 1,
            expert: 1,
            layers: 1,
            hidden: 64,
            sequence: 16,
            ..MODEL
        };
        let sizes = WorkloadSizes {
            ranks: 4,
            rounds: 1,
            bytes: 64,
            micros: 5,
            jitter: 0,
            seed: 0,
        };
        let made = generate(&WorkloadPattern::Transformer(model), &sizes).expect("fits");
        let run: BTreeMap<u32, ChakraMessages> = (0..).zip(made.ranks).collect();
        let listed: GroupList = made
            .groups
            .iter()
            .map(|(number, ranks)| {
                let ranks = ranks.iter().map(|rank| i64::from(*rank)).collect();
                (number.to_string(), ranks)
            })
            .collect();
        let error = scale(&run, &listed, &options(8)).expect_err("undecided");
        assert!(error.to_string().contains("\"1\": ranks [0, 1]"), "{error}");
        // ranks 0 and 2, and 1 and 3, are data-parallel
        let data: Vec<String> = listed
            .iter()
            .filter(|(_, ranks)| ranks[1] - ranks[0] == 2)
            .map(|(name, _)| name.clone())
            .collect();
        let decided = ScaleOptions {
            data_parallel: data,
            ..options(8)
        };
        let set = scale(&run, &listed, &decided).expect("scales");
        let groups: Vec<Vec<u32>> = set.groups.values().cloned().collect();
        assert!(
            groups.contains(&vec![0, 2, 4, 6]) && groups.contains(&vec![4, 5]),
            "{groups:?}"
        );
        assert_eq!(crate::generate::tests::findings(&set), []);
    }

    /// Two tensor ranks times the first two of four data ranks stay.
    #[test]
    fn fewer_ranks_are_the_first_ones_if_the_others_are_data_parallel() {
        let model = Transformer {
            pipeline: 1,
            expert: 1,
            layers: 1,
            ..MODEL
        };
        let sizes = WorkloadSizes { ranks: 8, ..SIZES };
        let made = generate(&WorkloadPattern::Transformer(model), &sizes).expect("fits");
        let run: BTreeMap<u32, ChakraMessages> = (0..).zip(made.ranks).collect();
        let group = |ranks: &Vec<u32>| ranks.iter().map(|rank| i64::from(*rank)).collect();
        let listed = made.groups.iter();
        let listed: GroupList = listed
            .map(|(of, ranks)| (of.to_string(), group(ranks)))
            .collect();
        let data = listed.iter().filter(|(_, ranks)| ranks.len() == 4);
        let decided = |ranks| ScaleOptions {
            data_parallel: data.clone().map(|(name, _)| name.clone()).collect(),
            ..options(ranks)
        };
        let set = scale(&run, &listed, &decided(4)).expect("scales");
        let groups: Vec<Vec<u32>> = set.groups.values().cloned().collect();
        assert_eq!(groups, [vec![0, 1], vec![0, 2], vec![1, 3], vec![2, 3]]);
        assert_eq!(crate::generate::tests::findings(&set), []);
        for (ranks, why) in [
            (3, "[1, 3, 5, 7], which would be a single one"),
            (2, "[0, 2, 4, 6], which would be a single one"),
        ] {
            let error = scale(&run, &listed, &decided(ranks)).expect_err(why);
            assert!(error.to_string().contains(why), "{error}");
        }
        let none = ScaleOptions {
            data_parallel: vec!["none".to_owned()],
            ..options(4)
        };
        let error = scale(&run, &listed, &none).expect_err("not data-parallel");
        assert!(
            error.to_string().contains("[0, 2, 4, 6], which are not"),
            "{error}"
        );
        let kept = ScaleOptions {
            keep: vec![CollectiveCommType::AllReduce],
            ..decided(4)
        };
        let error = scale(&run, &listed, &kept).expect_err("no copies");
        assert!(error.to_string().contains("--keep"), "{error}");
        // messages to ranks that do not stay
        let mut run = recorded(CollectiveCommType::AllReduce);
        for rank in [2, 3] {
            run.insert(rank, run[&(rank - 2)].clone());
        }
        for rank in [0, 2] {
            let node = &mut run.get_mut(&rank).expect("is there").nodes[1];
            set_number(&mut node.attr, "comm_dst", 3);
        }
        let error = scale(&run, &GroupList::new(), &options(2)).expect_err("rank 3");
        assert!(error.to_string().contains("comm_dst is 3"), "{error}");
    }

    #[test]
    fn a_number_of_ranks_that_is_no_multiple_is_refused() {
        let run = recorded(CollectiveCommType::AllReduce);
        let error = scale(&run, &GroupList::new(), &options(5)).expect_err("5 of 2");
        assert!(error.to_string().contains("a multiple of 2"), "{error}");
    }
}
