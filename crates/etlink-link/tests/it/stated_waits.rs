//! Tests how well waits are inferred: links a trace with and without its `cuda_sync` rows, and
//! compares.
//!
//! A wait is correct if the other graph has it too, directly or through other nodes.
//! `ETLINK_TRACES` adds Kineto traces (gzip), separated by `:`.

use crate::support::checked;
use etlink_link::{EdgeKind, LinkOptions, LinkedTrace, NodeKind};
use etlink_model::{DeviceTrace, NodeIdx, SyncRows};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::Read;

#[test]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "test data are files"
)]
fn waits_that_are_recorded_are_inferred_without_their_rows() {
    let more = std::env::var("ETLINK_TRACES").unwrap_or_default();
    let named = more.split(':').filter(|path| !path.is_empty());
    let packed = named.map(|path| -> Box<dyn Read + Send> {
        Box::new(MultiGzDecoder::new(File::open(path).expect("a trace")))
    });
    let recorded = (0..2).map(|rank| -> Box<dyn Read + Send> {
        let path = format!("../../testdata/gpu/recorder-gloo2/kineto_trace_{rank}.json.zst");
        let file = File::open(path).expect("test data");
        Box::new(zstd::Decoder::new(file).expect("zstd"))
    });
    let mut sums = [[0; 4]; 2];
    for file in recorded.chain(packed) {
        let device = etlink_formats::kineto::read(file, Default::default()).expect("a trace");
        assert!(
            !device.syncs.is_empty(),
            "no cuda_sync rows to compare with"
        );
        // as if recorded without them: all waits of this graph are inferred
        let without = DeviceTrace {
            syncs: SyncRows::default(),
            ..device.clone()
        };
        let [stated, inferred] = [device, without].map(|device| {
            let linked = etlink_link::link(None, device, LinkOptions::default());
            checked(linked.expect("links"))
        });
        for (sums, kind) in sums
            .iter_mut()
            .zip([EdgeKind::EventWait, EdgeKind::HostWait])
        {
            let truth = waits_of_kind(&stated, kind, false);
            let found = waits_of_kind(&inferred, kind, true);
            // recall, and the reverse
            let counts = [
                count_waits(&truth, &inferred),
                truth.len(),
                count_waits(&found, &stated),
                found.len(),
            ];
            println!("{kind:?}: {counts:?}");
            sums.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
    }
    if more.is_empty() {
        assert_eq!(sums, [[0, 0, 70, 70], [42, 66, 44, 45]]);
    }
}

/// Returns how many of these waits a graph has.
fn count_waits(waits: &[Wait], graph: &LinkedTrace) -> usize {
    waits.iter().filter(|wait| has_path(graph, wait)).count()
}

/// Kind and source of two nodes: the waiting one and the row it waited for.
type Wait = [(NodeKind, u32); 2];

fn node_key(trace: &LinkedTrace, node: NodeIdx) -> (NodeKind, u32) {
    let node = trace.nodes.get(node);
    // a delay counts as the row that it delays
    let kind = match node.kind {
        NodeKind::UnexplainedWait | NodeKind::Boundary if node.on_device => NodeKind::DeviceOp,
        NodeKind::Collective if node.on_device => NodeKind::DeviceOp,
        kind => kind,
    };
    (kind, node.source)
}

fn waits_of_kind(trace: &LinkedTrace, kind: EdgeKind, inferred: bool) -> Vec<Wait> {
    let edges = trace
        .edges
        .iter()
        .filter(|edge| edge.kind == kind && edge.inferred == inferred);
    edges
        .map(|edge| [node_key(trace, edge.to), node_key(trace, edge.from)])
        .collect()
}

/// Returns true if a graph has a path between the last nodes with these kinds and sources.
fn has_path(trace: &LinkedTrace, [to, from]: &Wait) -> bool {
    let (Some(to), Some(from)) = (last_node(trace, *to), last_node(trace, *from)) else {
        return false;
    };
    let mut seen = vec![false; trace.nodes.len()];
    let mut open = vec![to];
    while let Some(node) = open.pop() {
        if node == from {
            return true;
        }
        let deps = trace.edges.deps(node).iter();
        // Edges lead to higher numbers, so nodes below `from` cannot come after it.
        for edge in deps.filter(|edge| edge.from >= from) {
            if !std::mem::replace(&mut seen[edge.from.index()], true) {
                open.push(edge.from);
            }
        }
    }
    false
}

fn last_node(trace: &LinkedTrace, wanted: (NodeKind, u32)) -> Option<NodeIdx> {
    // An op or call may have several nodes; it ends with its last one.
    let mut nodes = trace.nodes.indices();
    nodes.rfind(|node| node_key(trace, *node) == wanted)
}
