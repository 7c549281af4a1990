//! Ops of several runs side by side, by name and shapes.
//!
//! Two runs of one program on devices of two vendors launch their kernels from different ops, such as
//! `aten::cudnn_convolution` and `aten::miopen_convolution`. An op that not all runs have counts as
//! the nearest op around it that all of them have with the same recorded shapes:
//! `aten::_convolution`. An op without such an op around it has a row of its own, which the other
//! runs lack.

use crate::device_peaks::PeakTable;
use crate::ops::{WorkedRows, list_text, owner};
use crate::outside_work::CountedWork;
use crate::rows::ClassifiedRows;
use crate::rules::{KernelRules, RowClass};
use etlink_link::LinkedTrace;
use etlink_link::roofline::op_call;
use etlink_model::OpIdx;
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::cmp::Reverse;

/// Name and shapes of an op; of rows without an op the kernel's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct OpKey {
    op: String,
    shapes: String,
}

impl OpKey {
    fn has_shapes(&self) -> bool {
        self.shapes.contains(|letter: char| letter.is_ascii_digit())
    }
}

/// Calls of ops with device work in one rank: a tree, in which each op is below the op that calls it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpCalls {
    /// Nodes; a parent is before its children.
    nodes: Vec<CallNode>,
    /// Number of steps that count; 1 without steps.
    steps: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct CallNode {
    parent: Option<usize>,
    key: OpKey,
    /// Number of calls with work on a device, also of ops inside.
    calls: u64,
    sums: RowSums,
}

/// Sums of device rows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RowSums {
    ns: i64,
    /// Time at the peaks of the device; `None` if that of any row is unknown.
    roof_ns: Option<f64>,
}

impl Default for RowSums {
    fn default() -> RowSums {
        RowSums {
            ns: 0,
            roof_ns: Some(0.0),
        }
    }
}

impl RowSums {
    fn add(&mut self, other: RowSums) {
        self.ns = self.ns.saturating_add(other.ns);
        let roofs = self.roof_ns.zip(other.roof_ns);
        self.roof_ns = roofs.map(|(a, b)| a + b);
    }
}

/// Device time of an op in one of several runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunOp {
    /// Place of the run among those compared, from 0.
    pub run: usize,
    /// Name of the op; of rows without an op the kernel's name.
    pub op: String,
    /// Shapes of the inputs, list text.
    pub shapes: String,
    /// Calls per step and rank; per rank of a run without steps.
    pub calls: f64,
    /// Device time per step and rank, ns.
    pub ns: f64,
    /// Time at the peaks of the device divided by the device time; null if it is unknown.
    pub roof_share: Option<f64>,
}

impl OpCalls {
    /// Collects the calls of a rank. Rows outside the steps are left out. O(ops + rows).
    pub fn new(
        trace: &LinkedTrace,
        rules: &KernelRules,
        peaks: &PeakTable,
        steps: usize,
    ) -> OpCalls {
        let rows = ClassifiedRows::new(trace, rules);
        let worked = WorkedRows::new(&rows, peaks);
        let counted = CountedWork::new(trace);
        let mut tree = CallTree {
            trace,
            places: IndexMap::default(),
            of_op: vec![None; trace.device.ops.len()],
            nodes: vec![],
        };
        for row in 0..worked.rows.len() {
            if worked.rows.class[row] == RowClass::Other || counted.row_cause(row).is_some() {
                continue;
            }
            let node = tree.node_of_row(row);
            tree.nodes[node].sums.add(RowSums {
                ns: trace.device.rows.duration[row].0,
                roof_ns: worked.roof_ns(row),
            });
        }
        OpCalls {
            nodes: tree.nodes,
            steps: steps.max(1) as u64,
        }
    }
}

/// A tree while it is built.
struct CallTree<'t> {
    trace: &'t LinkedTrace,
    places: IndexMap<(Option<usize>, OpKey), usize, FxBuildHasher>,
    /// Node of each op that was met.
    of_op: Vec<Option<usize>>,
    nodes: Vec<CallNode>,
}

impl CallTree<'_> {
    fn node_of_row(&mut self, row: usize) -> usize {
        let trace = self.trace;
        match owner(trace, row) {
            Some(op) if op < self.of_op.len() => self.node_of_op(op),
            // a call captured in a graph has no op around it
            Some(call) => {
                let key = self.key(call);
                self.called_node(None, key)
            }
            None => {
                let kernel = trace.device_name(trace.device.rows.name[row]);
                let key = OpKey {
                    op: kernel.to_owned(),
                    shapes: String::new(),
                };
                self.called_node(None, key)
            }
        }
    }

    /// Returns the node of an op, and counts a call of it and of the ops around it when it is first
    /// met.
    fn node_of_op(&mut self, op: usize) -> usize {
        let mut unmet = vec![];
        let mut around = Some(op);
        let mut parent = None;
        while let Some(op) = around {
            if let Some(node) = self.of_op[op] {
                parent = Some(node);
                break;
            }
            if !self.trace.device.ops.annotation[op] {
                unmet.push(op);
            }
            around = self.trace.op_parent[op].get().map(OpIdx::index);
        }
        for op in unmet.into_iter().rev() {
            let key = self.key(op);
            let node = self.called_node(parent, key);
            self.of_op[op] = Some(node);
            parent = Some(node);
        }
        // an op that is met is a node itself, and no annotation owns rows
        parent.unwrap_or_default()
    }

    fn called_node(&mut self, parent: Option<usize>, key: OpKey) -> usize {
        let next = self.nodes.len();
        let node = *self.places.entry((parent, key.clone())).or_insert(next);
        if node == next {
            self.nodes.push(CallNode {
                parent,
                key,
                ..CallNode::default()
            });
        }
        self.nodes[node].calls += 1;
        node
    }

    fn key(&self, op: usize) -> OpKey {
        let call = op_call(self.trace, op);
        OpKey {
            op: call.name.to_owned(),
            shapes: list_text(call.shapes),
        }
    }
}

/// Compares the ops of several runs, each a list of its ranks: a record for each run and op, sorted
/// by falling device time of the run in which the op takes longest. O(nodes · depth).
pub fn compare_ops(runs: &[Vec<&OpCalls>]) -> Vec<RunOp> {
    let common = common_keys(runs);
    let mut ops: IndexMap<&OpKey, Vec<Option<(f64, RowSums)>>, FxBuildHasher> = IndexMap::default();
    for (run, ranks) in runs.iter().enumerate() {
        let steps: u64 = ranks.iter().map(|rank| rank.steps).sum();
        for (key, (calls, sums)) in run_ops(ranks, &common) {
            let of_runs = ops.entry(key).or_insert_with(|| vec![None; runs.len()]);
            of_runs[run] = Some((calls as f64 / steps as f64, sums));
        }
    }
    let steps = runs
        .iter()
        .map(|ranks| ranks.iter().map(|rank| rank.steps).sum::<u64>());
    let steps: Vec<f64> = steps.map(|steps| steps as f64).collect();
    let mut rows: Vec<(&OpKey, Vec<RunOp>)> = ops
        .into_iter()
        .map(|(key, of_runs)| (key, records(key, &of_runs, &steps)))
        .collect();
    // a stable sort: equal times stay in the order of the runs
    rows.sort_by_key(|(_, records)| {
        let longest = records.iter().map(|record| record.ns);
        Reverse(longest.fold(0.0, f64::max).round() as i64)
    });
    rows.into_iter().flat_map(|(_, records)| records).collect()
}

/// Makes the records of an op.
fn records(key: &OpKey, of_runs: &[Option<(f64, RowSums)>], steps: &[f64]) -> Vec<RunOp> {
    let known = of_runs.iter().enumerate();
    let known = known.filter_map(|(run, of)| Some((run, (*of)?)));
    let record = |(run, (calls, sums)): (usize, (f64, RowSums))| RunOp {
        run,
        op: key.op.clone(),
        shapes: key.shapes.clone(),
        calls,
        ns: sums.ns as f64 / steps[run],
        roof_share: match sums.roof_ns {
            Some(roof) if sums.ns > 0 => Some(roof / sums.ns as f64),
            _ => None,
        },
    };
    known.map(record).collect()
}

/// Returns the ops that all runs have.
fn common_keys<'r>(runs: &[Vec<&'r OpCalls>]) -> IndexSet<&'r OpKey, FxBuildHasher> {
    let mut of_runs = runs.iter().map(|ranks| {
        let nodes = ranks.iter().flat_map(|rank| &rank.nodes);
        nodes.map(|node| &node.key).collect::<IndexSet<_, _>>()
    });
    let first = of_runs.next().unwrap_or_default();
    of_runs.fold(first, |mut common, keys| {
        common.retain(|key| keys.contains(key));
        common
    })
}

/// Sums the rows of a run by the nearest common op around them.
fn run_ops<'r>(
    ranks: &[&'r OpCalls],
    common: &IndexSet<&'r OpKey, FxBuildHasher>,
) -> IndexMap<&'r OpKey, (u64, RowSums), FxBuildHasher> {
    let mut ops: IndexMap<&OpKey, (u64, RowSums), FxBuildHasher> = IndexMap::default();
    for rank in ranks {
        let mut counted = vec![false; rank.nodes.len()];
        for (at, node) in rank
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.sums.ns > 0)
        {
            let place = common_place(&rank.nodes, at, common).unwrap_or(at);
            let (calls, sums) = ops.entry(&rank.nodes[place].key).or_default();
            sums.add(node.sums);
            if !std::mem::replace(&mut counted[place], true) {
                *calls += rank.nodes[place].calls;
            }
        }
    }
    ops
}

/// Returns the nearest node, from a node outwards, whose op all runs have. An op around it counts only
/// if its shapes are recorded: a function of autograd would take in all ops of its kind.
fn common_place(
    nodes: &[CallNode],
    at: usize,
    common: &IndexSet<&OpKey, FxBuildHasher>,
) -> Option<usize> {
    let mut around = Some(at);
    while let Some(at) = around {
        if common.contains(&nodes[at].key) {
            return Some(at);
        }
        around = nodes[at].parent;
        while around.is_some_and(|outer| !nodes[outer].key.has_shapes()) {
            around = around.and_then(|outer| nodes[outer].parent);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(nodes: &[(Option<usize>, &str, u64, i64)], steps: u64) -> OpCalls {
        let nodes = nodes.iter().map(|(parent, op, calls, ns)| CallNode {
            parent: *parent,
            key: OpKey {
                op: (*op).to_owned(),
                shapes: "[[8]]".to_owned(),
            },
            calls: *calls,
            sums: RowSums {
                ns: *ns,
                roof_ns: Some(*ns as f64 / 2.0),
            },
        });
        OpCalls {
            nodes: nodes.collect(),
            steps,
        }
    }

    #[test]
    fn ops_of_two_vendors_meet_in_the_op_around_them() {
        let first = [
            (None, "aten::convolution", 2, 0),
            (Some(0), "aten::cudnn_convolution", 2, 80),
            (None, "aten::relu", 2, 10),
            (None, "aten::only_here", 1, 4),
        ];
        let second = [
            (None, "aten::convolution", 4, 0),
            (Some(0), "aten::miopen_convolution", 4, 200),
            (Some(0), "aten::transpose", 4, 40),
            (None, "aten::relu", 4, 20),
        ];
        let (first, second) = (calls(&first, 2), calls(&second, 4));
        let rows = compare_ops(&[vec![&first], vec![&second]]);
        let shown = rows
            .iter()
            .map(|row| (row.run, &*row.op, row.calls, row.ns));
        assert_eq!(
            Vec::from_iter(shown),
            [
                (0, "aten::convolution", 1.0, 40.0),
                (1, "aten::convolution", 1.0, 60.0),
                (0, "aten::relu", 1.0, 5.0),
                (1, "aten::relu", 1.0, 5.0),
                (0, "aten::only_here", 0.5, 2.0),
            ]
        );
        assert!(rows.iter().all(|row| row.roof_share == Some(0.5)));
    }
}
