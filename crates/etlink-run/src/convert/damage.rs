//! Losses of a graph whose file is damaged.

use etlink_chakra::finding::FindingKind;
use etlink_chakra::messages::{LossKind, Losses};
use etlink_chakra::read::ChakraGraph;

/// Metadata with the number of nodes that a file should have.
const NODE_COUNT: &str = "node_count";

/// Returns the losses of a graph, the same as when its messages are converted one by one.
pub(super) fn losses_of_damage(graph: &ChakraGraph) -> Losses {
    let mut losses = Losses::default();
    for (finding, loss) in [
        (FindingKind::Truncated, LossKind::CutTail),
        (FindingKind::Undecodable, LossKind::Undecodable),
        (FindingKind::InvalidUtf8, LossKind::Undecodable),
    ] {
        losses.add(loss, graph.findings.count(finding));
    }
    let differ = graph.findings.count(FindingKind::NodeCountDiffers);
    // more nodes than stated are not a loss
    if let Some(stated) = graph.metadata_int(NODE_COUNT)
        && usize::try_from(stated).is_ok_and(|stated| graph.len() < stated)
    {
        losses.add(LossKind::MissingNode, differ);
    }
    losses
}
