//! Sorts the nodes and repairs misleading ones: duplicate ids, missing parents, and cycles of
//! parents.
//!
//! A forked child flushes the writer's buffer, so nodes occur twice. An op that ended by an
//! exception, or was open when recording stopped, is never written, so its children are orphans.
//! The observer pops its stack blindly when an op ends, so ranges that do not nest give later nodes
//! a wrong parent.

use etlink_model::{Anomalies, AnomalyKind, HostTrace};

/// Id of the process root in every file of PyTorch; there it is its own parent.
const PROCESS: u64 = 1;

/// Sorts by id, drops nodes with a duplicate id, and turns the parents into a forest. In a slice,
/// parents before it are missing without damage.
pub(crate) fn finish(trace: &mut HostTrace, is_slice: bool) {
    // The steps below find nodes by binary search, so sorting comes first.
    sort_nodes(trace);
    number_collectives(trace);
    let rf_ids = trace.nodes.rf_id.iter().filter_map(|id| id.get());
    let rf_ids = rf_ids.map(|id| id.0).collect();
    count_rf_ids(rf_ids, &mut trace.anomalies);
    let roots = ThreadRoots::find(trace);
    adopt_orphans(trace, &roots, is_slice);
    break_cycles(trace, &roots);
}

/// Sorts by id; of equal ids the first in the file stays.
fn sort_nodes(trace: &mut HostTrace) {
    let HostTrace {
        nodes, anomalies, ..
    } = trace;
    // The sort is stable: of two nodes with one id, the first in the file comes first and stays.
    let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
    order.sort_by_key(|&row| nodes.id[row as usize]);
    order.dedup_by(|later, first| {
        let id = nodes.id[*first as usize];
        let taken = nodes.id[*later as usize] == id;
        if taken {
            anomalies.note(AnomalyKind::DuplicateNodeId, || format!("id {id}"));
        }
        taken
    });
    nodes.reorder(&order);
}

/// Reorders the communication records like their nodes, and drops records of dropped nodes.
fn number_collectives(trace: &mut HostTrace) {
    let mut order = vec![];
    for row in trace
        .nodes
        .collective
        .iter_mut()
        .filter(|row| **row != u32::MAX)
    {
        order.push(*row);
        *row = order.len() as u32 - 1;
    }
    trace.collectives.reorder(&order);
}

fn count_rf_ids(mut ids: Vec<u64>, anomalies: &mut Anomalies) {
    ids.sort_unstable();
    for pair in ids.windows(2).filter(|pair| pair[0] == pair[1]) {
        anomalies.note(AnomalyKind::DuplicateRfId, || format!("rf_id {}", pair[0]));
    }
}

/// Nodes that represent threads and the process.
struct ThreadRoots {
    /// (Thread id, node id) of the first root of each thread, sorted by thread id.
    threads: Vec<(u32, u64)>,
}

fn is_process(trace: &HostTrace, row: usize) -> bool {
    let name = trace.names.get(trace.nodes.name[row]);
    trace.is_root(row) && name.ends_with("|process]")
}

impl ThreadRoots {
    /// Finds the roots and limits their own parents, so that every chain through them ends.
    fn find(trace: &mut HostTrace) -> Self {
        let rows: Vec<usize> = (0..trace.nodes.len())
            .filter(|&row| trace.is_root(row))
            .collect();
        let (mut threads, mut cut) = (vec![], vec![]);
        for &row in &rows {
            let parent = trace.nodes.parent[row];
            // The parent of a thread's root is the process, which a truncated file lacks; its id
            // counts as an end.
            let ends = trace
                .find(parent)
                .map_or(parent == PROCESS, |row| is_process(trace, row));
            if is_process(trace, row) || !ends {
                cut.push(row);
            }
            if !is_process(trace, row) {
                threads.push((trace.nodes.tid[row], trace.nodes.id[row]));
            }
        }
        for row in cut {
            trace.nodes.parent[row] = 0;
        }
        threads.sort_unstable();
        // Sorted by node id within a thread, so the oldest root remains.
        threads.dedup_by_key(|(tid, _)| *tid);
        ThreadRoots { threads }
    }

    /// Returns the id of a thread's root; 0 for none.
    fn root_of(&self, tid: u32) -> u64 {
        self.threads
            .binary_search_by_key(&tid, |(tid, _)| *tid)
            .map_or(0, |at| self.threads[at].1)
    }
}

/// Attaches nodes with a missing parent to their thread's root. The process root is written last,
/// so a truncated file lacks it: its id does not count as damage.
fn adopt_orphans(trace: &mut HostTrace, roots: &ThreadRoots, is_slice: bool) {
    for row in 0..trace.nodes.len() {
        let parent = trace.nodes.parent[row];
        // Children of an op that ended by an exception have its id as parent, and the op was never
        // written.
        if parent != 0 && parent != PROCESS && trace.find(parent).is_none() {
            if !is_slice {
                let id = trace.nodes.id[row];
                trace.anomalies.note(AnomalyKind::OrphanNode, || {
                    format!("id {id}, parent {parent}")
                });
            }
            trace.nodes.parent[row] = roots.root_of(trace.nodes.tid[row]);
        }
    }
}

/// Attaches every node that is its own ancestor to its thread's root.
fn break_cycles(trace: &mut HostTrace, roots: &ThreadRoots) {
    let up: Vec<Option<usize>> = trace
        .nodes
        .parent
        .iter()
        .map(|&parent| {
            if parent == 0 {
                None
            } else {
                trace.find(parent)
            }
        })
        .collect();
    // the first walk that visited a node; 0 for none yet
    let mut walks = vec![0usize; up.len()];
    for start in 0..up.len() {
        let mut row = Some(start);
        while let Some(at) = row.filter(|&at| walks[at] == 0) {
            walks[at] = start + 1;
            row = up[at];
        }
        // A walk that ends at a node of an older walk, or at a root, has found no new cycle.
        let Some(turn) = row.filter(|&at| walks[at] == start + 1) else {
            continue;
        };
        let mut at = turn;
        loop {
            let id = trace.nodes.id[at];
            trace
                .anomalies
                .note(AnomalyKind::ParentCycle, || format!("id {id}"));
            // Every node of the cycle is detached, because none of the recorded parents can be
            // trusted.
            trace.nodes.parent[at] = roots.root_of(trace.nodes.tid[at]);
            match up[at].filter(|&next| next != turn) {
                Some(next) => at = next,
                None => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::host::tests::{Node, document, read};
    use etlink_model::{AnomalyKind, HostTrace};

    const PROCESS: &str = "[pytorch|profiler|execution_trace|process]";
    const THREAD: &str = "[pytorch|profiler|execution_trace|thread]";

    /// Reads nodes `(id, parent, name)` of thread 1.
    fn trace(nodes: &[(u64, u64, &str)]) -> HostTrace {
        let nodes: Vec<_> = nodes
            .iter()
            .map(|&(id, parent, name)| Node::new(id, parent, name).rf_id(id / 10).text())
            .collect();
        read(&document(&nodes))
    }

    fn counts(trace: &HostTrace) -> [u64; 4] {
        [
            AnomalyKind::DuplicateNodeId,
            AnomalyKind::DuplicateRfId,
            AnomalyKind::OrphanNode,
            AnomalyKind::ParentCycle,
        ]
        .map(|kind| trace.anomalies.count(kind))
    }

    #[test]
    fn by_id_with_roots() {
        let trace = trace(&[(2, 1, THREAD), (5, 4, "b"), (4, 2, "a"), (1, 1, PROCESS)]);
        assert_eq!(trace.nodes.id, [1, 2, 4, 5]);
        assert_eq!(trace.nodes.parent, [0, 1, 2, 4]);
        assert_eq!(counts(&trace), [0; 4]);
    }

    #[test]
    fn the_first_of_a_double_id_stays() {
        let trace = trace(&[
            (2, 1, THREAD),
            (20, 2, "first"),
            (30, 2, "other"),
            (20, 2, "second"),
            (31, 2, "same rf"),
            (20, 2, "third"),
        ]);
        let names: Vec<_> = trace
            .nodes
            .name
            .iter()
            .map(|name| trace.names.get(*name))
            .collect();
        assert_eq!(names, [THREAD, "first", "other", "same rf"]);
        assert_eq!(counts(&trace), [2, 1, 0, 0]);
    }

    #[test]
    fn collectives_of_dropped_nodes_go() {
        let comm = |id, name: &str| {
            Node::new(id, 1, "record_param_comms")
                .inputs(&format!(r#"[7,0,0,"{name}",[],[]]"#), "[]")
                .text()
        };
        let trace = read(&document(&[comm(4, "b"), comm(2, "a"), comm(4, "dropped")]));
        let names: Vec<_> = trace
            .nodes
            .collective
            .iter()
            .map(|row| trace.names.get(trace.collectives.name[*row as usize]))
            .collect();
        assert_eq!((names, trace.collectives.len()), (vec!["a", "b"], 2));
    }

    #[test]
    fn orphans_hang_on_their_threads_root() {
        let nodes = [
            (2, 1, THREAD, 1),
            (3, 1, THREAD, 4),
            (10, 9, "a", 1),
            (11, 9, "b", 4),
            (12, 9, "c", 5),
            (13, 10, "d", 1),
        ];
        let nodes: Vec<_> = nodes
            .iter()
            .map(|&(id, parent, name, tid)| Node::new(id, parent, name).tid(tid).text())
            .collect();
        let trace = read(&document(&nodes));
        assert_eq!(trace.nodes.parent, [1, 1, 2, 3, 0, 10]);
        assert_eq!(counts(&trace), [0, 0, 3, 0]);
    }

    #[test]
    fn nodes_above_themselves_hang_on_their_threads_root() {
        for (nodes, parents, cycles) in [
            (vec![(2, 1, THREAD), (5, 5, "self")], vec![1, 2], 1),
            (
                vec![
                    (2, 1, THREAD),
                    (5, 7, "a"),
                    (6, 5, "b"),
                    (7, 6, "c"),
                    (8, 7, "below"),
                ],
                vec![1, 2, 2, 2, 7],
                3,
            ),
            (vec![(5, 6, "a"), (6, 5, "b")], vec![0, 0], 2),
            (vec![(2, 5, THREAD), (5, 2, "a")], vec![0, 2], 0),
            (
                vec![(1, 5, PROCESS), (2, 1, THREAD), (5, 2, "a")],
                vec![0, 1, 2],
                0,
            ),
        ] {
            let trace = trace(&nodes);
            assert_eq!(trace.nodes.parent, parents, "{nodes:?}");
            assert_eq!(counts(&trace)[3], cycles, "{nodes:?}");
        }
    }

    #[test]
    fn a_long_chain_costs_no_stack() {
        let nodes: Vec<_> = (2..50_000)
            .map(|id| Node::new(id, id + 1, "up").text())
            .collect();
        let trace = read(&document(&nodes[..2_000]));
        assert_eq!(counts(&trace)[2..], [1, 0]);
        let all = crate::host::read(
            document(&nodes).as_bytes(),
            crate::host::HostReadOptions::default(),
        )
        .expect("reads");
        assert_eq!(all.nodes.len(), 49_998);
    }
}
