//! What is kept of a rank that is linked window by window, to join it with the others.

use super::LinkedWindow;
use super::survey::Survey;
use crate::ranks::{CommunicationCollector, GroupResolver, RankSummary};
use etlink_model::{GlobalRank, NodeIdx, StepIdx};

/// The summary of a rank, of which windows are added in their order: that of
/// [`RankSummary::from_trace`], of the whole.
pub struct WindowSummary {
    collector: CommunicationCollector,
    /// Per communication, its step.
    steps: Vec<StepIdx>,
}

impl WindowSummary {
    /// Before the first window.
    pub fn new(survey: &Survey) -> WindowSummary {
        WindowSummary {
            collector: CommunicationCollector::new(survey.summary.clone()),
            steps: vec![],
        }
    }

    /// Adds the next window; the nodes of its graph that communicate. O(nodes of the window).
    pub fn add(&mut self, survey: &Survey, window: &LinkedWindow) -> Vec<NodeIdx> {
        let (trace, nodes) = (&window.trace, &window.nodes);
        let known = GroupResolver::of_part(trace, window.one_group);
        let own = nodes.own.clone().map(NodeIdx::new);
        let before = self.collector.communications().len();
        self.collector.add(trace, &known, own);
        let has_steps = !survey.summary.steps.all.is_empty();
        let mut places = vec![];
        for communication in &mut self.collector.communications()[before..] {
            let place = communication.node;
            places.push(place);
            self.steps.push(match has_steps {
                true => survey.steps.step_at(trace, place),
                false => StepIdx::NONE,
            });
            // from places in the window to numbers in the whole graph
            let extent = &mut communication.extent;
            for node in [
                &mut communication.node,
                &mut extent.arrives,
                &mut extent.waits,
            ] {
                *node = nodes.numbers[node.index()];
            }
        }
        places
    }

    /// The summary of all windows, of the rank that they are of.
    pub fn finish(self, survey: &Survey, rank: GlobalRank) -> RankSummary {
        let mut summary = self.collector.finish(survey.gloo_ranges);
        summary.rank = rank;
        summary.steps.by_comm = self.steps;
        summary
    }
}
