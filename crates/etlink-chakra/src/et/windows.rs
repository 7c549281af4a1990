//! A file of a rank that is linked window by window, with the bytes of one that is linked as a whole.
//!
//! The first message states how many nodes follow and has the texts that many of them share. So all
//! windows are looked through before the first is written.

use super::BLOCK_NODES;
use super::metadata;
use super::node::Encoder;
use super::part::PartGraph;
use super::plan::{CommTurns, EtPlan};
use super::rounding::TrackRounding;
use super::shared_texts::{SharedTexts, SharedUses};
use crate::ordered_writer;
use crate::{LatencyMode, RankAgreement, TracePart, WriteOptions, WriteSummary};
use etlink_link::ranks::GroupResolver;
use etlink_link::windows::{LinkedWindow, WindowError};
use etlink_model::NodeIdx;
use std::io;

/// Whether a file of this form can be written window by window: one that has the nodes of the
/// linked graph, with latencies in their durations, and of communications what ranks agreed on.
pub fn has_windows(options: &WriteOptions<'_>) -> bool {
    options.part == TracePart::Whole
        && options.latency != LatencyMode::Node
        && !options.no_gaps
        && !options.dep_latencies
        && !options.serialize_comms
        && !options.roofline
}

/// What is agreed of the whole rank, by the places of nodes in a window.
fn window_agreement(window: &LinkedWindow, options: &WriteOptions<'_>) -> Option<RankAgreement> {
    let whole = options.agreement?;
    Some(whole.of_window(&window.nodes))
}

/// What a file needs to know of all windows before the first is written.
#[derive(Debug, Default)]
pub struct EtSurvey {
    nodes: u64,
    uses: SharedUses,
    /// Per thread, whether another thread or a queue waits for it.
    awaited: Vec<bool>,
}

impl EtSurvey {
    /// Looks through the next window.
    ///
    /// # Errors
    /// A node is written with one of another window that cannot be told.
    pub fn add(
        &mut self,
        window: &LinkedWindow,
        options: &WriteOptions<'_>,
    ) -> Result<(), WindowError> {
        let (trace, nodes) = (&window.trace, &window.nodes);
        let agreement = window_agreement(window, options);
        let options = &WriteOptions {
            agreement: agreement.as_ref(),
            ..*options
        };
        let groups = GroupResolver::of_part(trace, window.one_group);
        let graph = PartGraph::of_nodes(trace, &groups, options, nodes.own.clone());
        let plan = EtPlan::unrounded(trace, &graph, CommTurns::default(), None, options);
        for node in nodes.own.clone().map(NodeIdx::new) {
            let kind = trace.nodes.kind[node.index()];
            let froms = trace.edges.deps(node).iter().map(|edge| edge.from);
            let slices = plan.first_slice_of(trace, node).into_iter();
            let mut named = froms.chain(slices).chain([node]);
            // Whatever it names has to have a number.
            if named.any(|named| nodes.numbers[plan.with(named).index()] == NodeIdx::NONE) {
                return Err(WindowError::EdgeOverSeam);
            }
            self.nodes += u64::from(plan.is_written(node, kind, options));
        }
        self.uses
            .add(trace, &graph, &plan, (options, nodes.own.clone()));
        let awaited = window.awaited_threads();
        self.awaited.resize(awaited.len(), false);
        for (known, awaited) in self.awaited.iter_mut().zip(awaited) {
            *known |= awaited;
        }
        Ok(())
    }

    fn passive(&self) -> Vec<bool> {
        let any = self.awaited.contains(&true);
        self.awaited.iter().map(|awaited| !awaited && any).collect()
    }
}

/// Writes windows, one after the other.
pub struct EtWindowWriter<'s> {
    survey: &'s EtSurvey,
    options: WriteOptions<'s>,
    passive: Vec<bool>,
    rounding: Option<TrackRounding>,
    summary: WriteSummary,
}

impl<'s> EtWindowWriter<'s> {
    /// Before the first window.
    pub fn new(survey: &'s EtSurvey, options: WriteOptions<'s>) -> EtWindowWriter<'s> {
        EtWindowWriter {
            survey,
            options,
            passive: survey.passive(),
            rounding: None,
            summary: WriteSummary::default(),
        }
    }

    /// Writes the next window; the first message before the first one.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(
        &mut self,
        window: &LinkedWindow,
        out: &mut (impl io::Write + Send),
    ) -> io::Result<()> {
        let (trace, own) = (&window.trace, window.nodes.own.clone());
        let agreement = window_agreement(window, &self.options);
        let options = &WriteOptions {
            agreement: agreement.as_ref(),
            ..self.options
        };
        let groups = GroupResolver::of_part(trace, window.one_group);
        let graph = PartGraph::of_nodes(trace, &groups, options, own.clone());
        let is_first = self.rounding.is_none();
        let rounding = self
            .rounding
            .get_or_insert_with(|| TrackRounding::of(trace));
        let plan = EtPlan::of_window(
            trace,
            &graph,
            options,
            &window.nodes,
            (&self.passive, rounding),
        );
        let texts = SharedTexts::of_uses(trace, &self.survey.uses);
        let blocks = own.len().div_ceil(BLOCK_NODES).max(1);
        let summary = ordered_writer::write(out, blocks, |block, mut bytes| {
            if block == 0 && is_first {
                let count = self.survey.nodes;
                bytes = metadata::global_metadata(trace, options, &texts, count, bytes);
            }
            let mut encoder = Encoder::new(trace, &graph, &groups, options, &plan, &texts, bytes);
            let from = own.start + block * BLOCK_NODES;
            let nodes = from..(from + BLOCK_NODES).min(own.end);
            nodes.for_each(|node| encoder.node(NodeIdx::new(node)));
            Ok(encoder.finish())
        })?;
        self.summary.add(&summary);
        self.summary.bytes += summary.bytes;
        for (reason, count) in graph.demoted {
            *self.summary.demoted.entry(reason).or_default() += count;
        }
        Ok(())
    }

    /// What was written.
    ///
    /// # Errors
    /// Not as many nodes as the first message states.
    pub fn finish(self) -> io::Result<WriteSummary> {
        if self.summary.nodes == self.survey.nodes {
            return Ok(self.summary);
        }
        Err(io::Error::other("windows have other nodes than before"))
    }
}
