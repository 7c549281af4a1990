//! Tests graph launches with recorded dependencies: `testdata/graphs`.

use crate::support::{checked, edges};
use etlink_formats::kineto::KinetoReadOptions;
use etlink_link::{EdgeKind, LinkOptions, LinkedTrace};
use etlink_model::GraphDependencies;

const STREAMS: &[u8] = include_bytes!("../../../../testdata/graphs/streams-2.15.0.json");
const LANES: &[u8] = include_bytes!("../../../../testdata/graphs/lanes-2.15.0.json");

fn linked(text: &[u8], with_dependencies: bool) -> LinkedTrace {
    let mut device =
        etlink_formats::kineto::read(text, KinetoReadOptions::default()).expect("a trace");
    if !with_dependencies {
        device.graph_dependencies = GraphDependencies::default();
    }
    let linked = etlink_link::link(None, device, LinkOptions::default());
    checked(linked.expect("links"))
}

/// Counts the inferred event waits.
fn inferred_waits(trace: &LinkedTrace) -> usize {
    let waits = trace
        .edges
        .iter()
        .filter(|edge| edge.kind == EdgeKind::EventWait);
    waits.filter(|edge| edge.inferred).count()
}

#[test]
fn a_node_of_a_graph_waits_for_what_it_depends_on() {
    let one = ["kA -> kC", "HostNode: on_done -> kD"];
    for text in [STREAMS, LANES] {
        let trace = linked(text, true);
        assert_eq!(edges(&trace, EdgeKind::EventWait), [one, one].concat());
        assert_eq!(inferred_waits(&trace), 0);
    }
}

#[test]
fn without_them_the_branches_are_inferred() {
    let trace = linked(STREAMS, false);
    let waits = edges(&trace, EdgeKind::EventWait).len();
    assert!(waits > 0);
    assert_eq!(inferred_waits(&trace), waits);
}
