//! Distinguishes captures, and finds the capture that a graph launch runs.

use super::place::{self, CapturePlace, GraphRow};
use super::recorded::{self, RecordedCaptures, transfer_token};
use super::{CaptureReport, NONE};
use etlink_model::{CallIdx, DeviceTrace, Names, RowIdx, RowKind};
use rustc_hash::FxHashMap;

/// Marks a launch that captures with equal names describe differently.
const DIFFERENT: u32 = u32::MAX - 1;

/// Tokens of what device rows run, in the numbers of the names of the captures.
pub(super) struct KernelTokens<'t> {
    device: &'t DeviceTrace,
    /// Token of each name, once looked up.
    of_name: Vec<u32>,
}

impl<'t> KernelTokens<'t> {
    pub(super) fn new(device: &'t DeviceTrace, captured: &Names) -> Self {
        let mut of_name = vec![NONE; device.names.count()];
        for (&name, kind) in device.rows.name.iter().zip(&device.rows.kind) {
            // Copies and memsets have their own tokens, since their names differ between capture
            // and replay.
            if *kind == RowKind::Kernel && of_name[name.index()] == NONE {
                let text = device.names.get(name);
                let named = || captured.find(text).map(|name| name.0);
                of_name[name.index()] = transfer_token(text).or_else(named).unwrap_or(NONE);
            }
        }
        KernelTokens { device, of_name }
    }

    /// Returns the rows of one launch. If the graph records their order, streams do not matter.
    pub(super) fn steps(&self, launch: &[(CallIdx, RowIdx)]) -> Vec<GraphRow> {
        let rows = &self.device.rows;
        // Node ids are numbered over the whole graph. Without them only time orders rows, and only
        // within one stream.
        let by_node = launch
            .iter()
            .all(|&(_, row)| rows.graph_node[row.index()] != 0);
        let mut steps = Vec::with_capacity(launch.len());
        for &(_, row) in launch {
            let row = row.index();
            let token = match rows.kind[row] {
                RowKind::Kernel => self.of_name[rows.name[row].index()],
                RowKind::Memcpy => recorded::COPY,
                RowKind::Memset => recorded::SET,
                // A capture contains ops that launched something, and graph nodes are no ops.
                RowKind::GraphNode => continue,
            };
            let lane = if by_node { 0 } else { rows.queue[row].0 };
            steps.push(GraphRow { token, lane });
        }
        steps
    }
}

/// Distinct captures, by their names.
#[derive(Default)]
pub(super) struct CapturedGraphs<'r> {
    by_tokens: FxHashMap<&'r [u32], usize>,
    all: Vec<(&'r [u32], Vec<u32>)>,
    /// Calls of the launches of each graph, in the first of its captures.
    calls: Vec<&'r [u32]>,
}

/// Merges captures with equal names. A launch that they describe differently keeps no op.
pub(super) fn distinct(recorded: &RecordedCaptures) -> CapturedGraphs<'_> {
    let mut graphs = CapturedGraphs::default();
    for range in &recorded.captures {
        let (tokens, ops) = (&recorded.tokens[range.clone()], &recorded.op[range.clone()]);
        let number = *graphs.by_tokens.entry(tokens).or_insert(graphs.all.len());
        // vLLM captures a graph per batch size: the kernels can be equal while the shapes differ.
        match graphs.all.get_mut(number) {
            None => {
                graphs.all.push((tokens, ops.to_vec()));
                graphs.calls.push(&recorded.call[range.clone()]);
            }
            Some((_, agreed)) => agreed
                .iter_mut()
                .zip(ops)
                .filter(|(agreed, op)| agreed != op)
                .for_each(|(agreed, _)| *agreed = DIFFERENT),
        }
    }
    graphs
}

/// Places of the rows of a launch, per matching capture.
#[derive(Default)]
pub(super) struct LaunchFit {
    pub(super) complete: bool,
    pub(super) fits: Vec<(usize, Vec<CapturePlace>)>,
}

impl CapturedGraphs<'_> {
    /// True if all rows of a launch are in this capture, and the capture has no further launches.
    fn is_whole(&self, (graph, places): &(usize, Vec<CapturePlace>)) -> bool {
        self.all[*graph].0.len() == places.len()
            && places.iter().all(|place| *place != CapturePlace::Nowhere)
    }

    pub(super) fn find(&self, steps: &[GraphRow]) -> LaunchFit {
        // On one stream, the order of rows is the graph's order, so equal names are proof. On
        // several streams, rows interleave arbitrarily.
        if place::single_lane(steps) {
            let tokens: Vec<u32> = steps.iter().map(|step| step.token).collect();
            if let Some(&graph) = self.by_tokens.get(&tokens[..]) {
                let places = (0..steps.len() as u32).map(CapturePlace::At).collect();
                return LaunchFit {
                    complete: true,
                    fits: vec![(graph, places)],
                };
            }
        }
        let mut fits: Vec<_> = self
            .all
            .iter()
            .enumerate()
            .filter_map(|(graph, (tokens, _))| Some((graph, place::place(steps, tokens)?)))
            .collect();
        // several streams: complete if one capture has exactly these rows
        let complete = fits.iter().any(|fit| self.is_whole(fit));
        if complete {
            fits.retain(|fit| self.is_whole(fit));
        }
        LaunchFit { complete, fits }
    }
}

impl LaunchFit {
    /// Returns the call in the capture that row `at` of the launch belongs to.
    pub(super) fn call_of(&self, at: usize, graphs: &CapturedGraphs<'_>) -> u32 {
        let calls = self.fits.iter().map(|(graph, places)| match places[at] {
            CapturePlace::At(place) => graphs.calls[*graph][place as usize],
            CapturePlace::Nowhere | CapturePlace::Several => NONE,
        });
        let mut known = calls.filter(|call| *call != NONE);
        known.next().unwrap_or(NONE)
    }

    /// Returns the op of row `at` of the launch if it is unique, and counts the outcome.
    pub(super) fn op_of(
        &self,
        at: usize,
        graphs: &CapturedGraphs<'_>,
        report: &mut CaptureReport,
    ) -> u32 {
        let mut found = None;
        for (graph, places) in &self.fits {
            let op = match places[at] {
                CapturePlace::Nowhere => continue,
                CapturePlace::Several => DIFFERENT,
                CapturePlace::At(place) => graphs.all[*graph].1[place as usize],
            };
            // Captures that fit equally well must agree on the op: a wrong op is worse than none.
            found = Some(if found.is_none_or(|other| other == op) {
                op
            } else {
                DIFFERENT
            });
        }
        let count = match found {
            None => &mut report.not_found,
            Some(DIFFERENT) => &mut report.ambiguous,
            Some(NONE) => &mut report.without_op,
            Some(_) => &mut report.carried,
        };
        *count += 1;
        found.filter(|op| *op != DIFFERENT).unwrap_or(NONE)
    }
}
