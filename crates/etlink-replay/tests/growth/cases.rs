//! Odd traces, and ranks that communicate.

use etlink_formats::host::HostReadOptions;
use etlink_formats::kineto::KinetoReadOptions;
use etlink_link::ranks::{
    CommExtent, Communication, GroupIdentity, Peers, RankSummary, align_clocks, collective_skews,
    join_ranks, step_stragglers, wait_causes,
};
use etlink_link::{LinkOptions, LinkedTrace, link};
use etlink_model::{CollectiveKind, GlobalRank, GroupIdx, NodeIdx, UnixNs};
use etlink_replay::{ReplaySettings, critical_path, graph_from_trace, replay_figures, run_graph};
use etlink_testing::{OddTraces, Oddity};
use std::hint::black_box;

/// An input of one kind, created before time is measured.
#[derive(Debug)]
pub(crate) enum Case {
    /// Traces of one rank.
    Trace(OddTraces),
    /// Linked graph of one rank, for its summary alone: next to reading and linking, the summary
    /// would be too short to show its growth.
    Graph(Box<LinkedTrace>),
    /// Summaries of many ranks, for the join.
    Ranks(Vec<RankSummary>),
}

impl Case {
    /// Creates an input of about `events` events.
    pub(crate) fn new(oddity: Oddity, events: usize) -> Case {
        match oddity {
            Oddity::Ranks => Case::Ranks(rank_summaries(events)),
            _ => Case::Trace(oddity.draw_rank(events, 0)),
        }
    }

    /// Creates a linked input of about `events` events.
    pub(crate) fn linked(oddity: Oddity, events: usize) -> Case {
        Case::Graph(Box::new(link_traces(&oddity.draw_rank(events, 0))))
    }

    /// Reads, links and replays the input, summarizes it, or joins the ranks.
    pub(crate) fn run(&self) {
        match self {
            Case::Trace(traces) => link_and_replay(traces),
            Case::Graph(trace) => {
                black_box(RankSummary::from_trace(trace, GlobalRank(0)));
            }
            Case::Ranks(ranks) => join_and_compare(ranks),
        }
    }
}

fn link_traces(traces: &OddTraces) -> LinkedTrace {
    let device = etlink_formats::kineto::read(&traces.device[..], KinetoReadOptions::default());
    let device = device.expect("a device trace");
    let mut host = None;
    if let Some(text) = &traces.host {
        let read = etlink_formats::host::read(&text[..], HostReadOptions::default());
        let mut read = read.expect("a host trace");
        read.tensors = Some(etlink_formats::host::tensor_uses(&read));
        host = Some(read);
    }
    let options = LinkOptions {
        // host and device trace of some kinds have few names in common
        allow_mismatch: true,
        ..LinkOptions::default()
    };
    link(host, device, options).expect("links")
}

fn link_and_replay(traces: &OddTraces) {
    let trace = link_traces(traces);
    let graph = graph_from_trace(&trace).expect("a graph");
    let run = run_graph(&graph, &trace, &ReplaySettings::default());
    black_box(replay_figures(&graph, &trace, &run));
    black_box(critical_path(&graph, &run));
    black_box(RankSummary::from_trace(&trace, GlobalRank(0)));
}

fn join_and_compare(ranks: &[RankSummary]) {
    let join = join_ranks(ranks);
    let clocks = align_clocks(ranks, &join);
    black_box(collective_skews(ranks, &join, &clocks));
    black_box(step_stragglers(ranks, &join, &clocks));
    black_box(wait_causes(ranks, &join, &clocks));
}

/// Creates ranks with a hundred communications each, in groups of all ranks and of eight.
fn rank_summaries(events: usize) -> Vec<RankSummary> {
    const COMMS: usize = 100;
    let world = (events / COMMS).max(2) as u64;
    let all = GroupIdentity::Ranks((0..world).collect());
    let mut summaries = vec![];
    for rank in 0..world {
        let first = rank / 8 * 8;
        let neighbours = GroupIdentity::Ranks((first..(first + 8).min(world)).collect());
        let mut summary = RankSummary {
            rank: GlobalRank(rank as i64),
            world_size: Some(world as i64),
            groups: vec![all.clone(), neighbours],
            ..RankSummary::default()
        };
        let dtype = summary.names.intern("Float");
        for at in 0..COMMS {
            let start_ns = UnixNs(1_000 * at as i64 + rank as i64 % 7);
            let end_ns = UnixNs(1_000 * at as i64 + 500);
            // few include all ranks: each of these is as large as the world
            let group = GroupIdx(u32::from(at % 20 != 0));
            summary.communications.push(Communication {
                node: NodeIdx::new(at),
                peers: Peers::Group(group),
                kind: CollectiveKind::AllReduce,
                dtype,
                name: dtype,
                in_split: Default::default(),
                in_bytes: 1024,
                bytes: 1024,
                is_sized: true,
                seq: None,
                start_ns,
                end_ns,
                on_device: true,
                extent: CommExtent::from_node(NodeIdx::new(at), (start_ns, end_ns)),
            });
        }
        summaries.push(summary);
    }
    summaries
}
