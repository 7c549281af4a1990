//! Links of the recordings, as text that a person can review. `INSTA_UPDATE=always` accepts it.
//!
//! `figures` has a line per recorded rank: matches, nodes, edges, anomalies, and checksums of both
//! outputs, which must only change on purpose. `experts2` is one small graph in full, `joined`
//! shows the communication shared by the ranks of a run.
#![allow(clippy::disallowed_methods, clippy::expect_used, reason = "tests")]
#![allow(unreachable_pub, reason = "a test program has no outside")]

use etlink_chakra::read::{self, ChakraGraph};
use etlink_chakra::{WriteOptions, agree, et, etplus, simulated_sizes};
use etlink_link::ranks::{self, RankSummary};
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{GlobalRank, NodeIdx};
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};

fn pairs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pairs")
}

fn unpack(path: &Path) -> impl std::io::Read + Send + use<> {
    flate2::read::MultiGzDecoder::new(File::open(path).expect("recorded file"))
}

fn link(folder: &Path, rank: usize) -> LinkedTrace {
    let host = unpack(&folder.join(format!("torch_et_{rank}.json.gz")));
    let mut host =
        etlink_formats::host::read(host, etlink_formats::host::HostReadOptions { threads: 2 })
            .expect("host trace");
    host.tensors = Some(etlink_formats::host::tensor_uses(&host));
    let device = unpack(&folder.join(format!("kineto_trace_{rank}.json.gz")));
    let device = etlink_formats::kineto::read(
        device,
        etlink_formats::kineto::KinetoReadOptions {
            threads: 2,
            shapes: false,
            keep: etlink_model::KeepEvents::Graph,
        },
    )
    .expect("device trace");
    etlink_link::link(Some(host), device, LinkOptions::default()).expect("links")
}

fn outputs(trace: &LinkedTrace) -> (Vec<u8>, Vec<u8>) {
    let (mut protobuf, mut json) = (vec![], vec![]);
    et::write_et(trace, &WriteOptions::default(), &mut protobuf).expect("writes");
    etplus::write_etplus(trace, &mut json).expect("writes");
    (protobuf, json)
}

fn sum(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn counts<K: serde::Serialize>(all: &indexmap::IndexMap<K, u64>) -> String {
    serde_json::to_string(all).expect("counts")
}

#[test]
fn figures() {
    let mut folders: Vec<PathBuf> = pairs()
        .read_dir()
        .expect("testdata")
        .map(|entry| entry.expect("entry").path())
        .collect();
    folders.sort();
    let mut text = String::new();
    for folder in folders {
        let name = folder
            .file_name()
            .expect("named")
            .to_string_lossy()
            .into_owned();
        for rank in
            (0..).take_while(|rank| folder.join(format!("torch_et_{rank}.json.gz")).exists())
        {
            let trace = link(&folder, rank);
            let (report, (protobuf, json)) = (&trace.report, outputs(&trace));
            let anomalies: Vec<String> = report
                .anomalies
                .iter()
                .map(|(kind, anomaly)| format!("{kind:?} {}", anomaly.count))
                .collect();
            let _ = writeln!(
                text,
                "{name}/{rank}: matched {} of {}; nodes {}; edges {}; [{}]; et {:08x}, et+ {:08x}",
                counts(&report.matched),
                report.cpu_ops,
                counts(&report.nodes),
                counts(&report.edges),
                anomalies.join(", "),
                sum(&protobuf),
                sum(&json),
            );
        }
    }
    insta::assert_snapshot!("figures", text);
}

/// Prints the communication shared by the ranks of a run: a line per collective or message.
#[test]
fn joined() {
    let mut text = String::new();
    for (case, ranks) in [
        ("tpdp4-2.15.0", 4),
        ("pipeline4-2.15.0", 4),
        ("experts2-2.15.0", 2),
        ("ddp2-2.4.1", 2),
    ] {
        let traces: Vec<LinkedTrace> = (0..ranks)
            .map(|rank| link(&pairs().join(case), rank))
            .collect();
        let facts: Vec<RankSummary> = traces
            .iter()
            .zip((0..).map(GlobalRank))
            .map(|(trace, rank)| RankSummary::from_trace(trace, rank))
            .collect();
        let sizes: Vec<_> = traces
            .iter()
            .zip(&facts)
            .map(|(trace, facts)| simulated_sizes(trace, facts))
            .collect();
        let join = ranks::join_ranks(&facts);
        let agreed = agree(&facts, &sizes, &join, true);
        let _ = writeln!(
            text,
            "{case}: groups {:?}, used {:?}, problems {:?}",
            join.groups,
            agreed.groups.keys(),
            join.problems
        );
        for (joint, skew) in join
            .matches
            .iter()
            .zip(ranks::collective_skews(&facts, &join, &[]))
        {
            let nodes = joint.members.iter().map(|part| {
                facts[part.rank.index()].communications[part.communication.index()].node
            });
            let nodes: Vec<u32> = nodes.map(|node| node.0).collect();
            let first = &agreed.ranks[joint.members[0].rank.index()];
            let fate = first.decision_for(NodeIdx(nodes[0]));
            let _ = writeln!(
                text,
                "  {} {} {}: nodes {nodes:?}, {fate:?}, skew {} ns, last {}",
                skew.kind, skew.number, skew.ranks, skew.skew_ns, skew.last
            );
        }
    }
    insta::assert_snapshot!("joined", text);
}

#[test]
fn experts2() {
    let (protobuf, _) = outputs(&link(&pairs().join("experts2-2.15.0"), 0));
    let graph = read::read(&protobuf[..]).expect("reads");
    insta::assert_snapshot!("experts2", draw(&graph));
}

/// Formats a line per node: id, deps, time, type and name.
fn draw(graph: &ChakraGraph) -> String {
    let origin = graph.start_ns.iter().flatten().min().copied().unwrap_or(0);
    let mut out = String::new();
    for node in 0..graph.len() {
        let start = graph.start_ns[node].unwrap_or(0) - origin;
        let _ = write!(
            out,
            "{:>3} ctrl {:?} data {:?} +{start} {} ns",
            graph.id[node],
            graph.ctrl_deps.list(node),
            graph.data_deps.list(node),
            graph.duration_ns[node]
        );
        let _ = write!(
            out,
            " {} {} {}",
            graph.node_type[node].as_str_name(),
            graph.names.get(graph.kind[node]),
            graph.name_of(node)
        );
        if graph.comm.contains_key(&(node as u32)) {
            let comm = graph.comm_of(node);
            let group = comm.group.map_or("", |group| graph.names.get(group));
            let _ = write!(
                out,
                " type {:?} size {:?} group {group:?}",
                comm.comm_type, comm.size
            );
        }
        out.push('\n');
    }
    out
}

#[test]
fn perfetto() {
    let folder = tempfile::tempdir().expect("a folder");
    let (case, output) = (
        pairs().join("experts2-2.15.0"),
        folder.path().join("x.trace.json"),
    );
    let mut etlink = std::process::Command::new(env!("CARGO_BIN_EXE_etlink"));
    etlink
        .arg("link")
        .arg("--host")
        .arg(case.join("torch_et_0.json.gz"))
        .arg("--device")
        .arg(case.join("kineto_trace_0.json.gz"));
    assert!(
        etlink
            .arg("-o")
            .arg(&output)
            .output()
            .expect("runs")
            .status
            .success()
    );
    insta::assert_snapshot!(
        "perfetto",
        std::fs::read_to_string(output).expect("written")
    );
}
