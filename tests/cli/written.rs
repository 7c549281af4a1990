//! Written graphs as input: compressed, truncated, and as `merge` writes them for simulators.

use crate::tool::{Tool, gzip};
use prost::Message;

/// Writes the ranks of `ddp2-2.15.0` for ASTRA-sim to `out`.
fn written_ranks() -> Tool {
    let tool = Tool::new();
    tool.run("merge {pairs}/ddp2-2.15.0 --for astra-sim -o out")
        .exits(0);
    tool
}

/// Removes the last third of a file's messages; no message is truncated.
fn without_last_nodes(bytes: &[u8]) -> Vec<u8> {
    let mut ends = vec![];
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = prost::decode_length_delimiter(&mut rest).expect("a length");
        rest = &rest[length..];
        ends.push(bytes.len() - rest.len());
    }
    bytes[..ends[ends.len() * 2 / 3]].to_vec()
}

#[test]
fn packed_ranks_are_compared_as_plain_ones() {
    let tool = written_ranks();
    // rank 1 does nothing, so rank 0 waits for it forever
    let idle = etlink_chakra::astra::idle_rank();
    for (folder, pack) in [("plain", false), ("packed", true)] {
        tool.file(
            &format!("{folder}/comm_group.json"),
            tool.read("out/comm_group.json"),
        );
        let ranks = [tool.read("out/ddp2-2.15.0.0.et"), idle.clone()];
        for (rank, bytes) in ranks.iter().enumerate() {
            if pack {
                tool.file(&format!("{folder}/run.{rank}.et.gz"), gzip(bytes));
            } else {
                tool.file(&format!("{folder}/run.{rank}.et"), bytes);
            }
        }
        tool.run(&format!("check {folder}"))
            .exits(1)
            .says("2 ranks together")
            .says("wait forever");
    }
}

#[test]
fn packed_ranks_are_replayed_together() {
    let tool = written_ranks();
    tool.file("packed/comm_group.json", tool.read("out/comm_group.json"));
    for rank in 0..2 {
        let bytes = tool.read(&format!("out/ddp2-2.15.0.{rank}.et"));
        tool.file(&format!("packed/run.{rank}.et.gz"), gzip(&bytes));
    }
    let plain = tool.run("replay out --json").exits(0).runs();
    let packed = tool.run("replay packed --json").exits(0).runs();
    assert_eq!(plain[0]["figures"], packed[0]["figures"]);
}

#[test]
fn a_file_cut_between_two_nodes_is_damage_everywhere() {
    let tool = written_ranks();
    let cut = without_last_nodes(&tool.read("out/ddp2-2.15.0.0.et"));
    tool.file("cut/run.0.et", &cut);
    let stated = "more or fewer than the file states";
    tool.run("check cut/run.0.et").exits(1).says(stated);
    for command in ["analyze", "replay"] {
        tool.run(&format!("{command} cut/run.0.et"))
            .exits(0)
            .notes(stated);
        let strict = tool.run(&format!("{command} cut/run.0.et --strict"));
        assert_ne!(strict.code, 0, "{command} --strict");
        // in a folder, the damaged rank is left out, and there is no other
        let folder = tool.run(&format!("{command} cut --strict"));
        assert_ne!(folder.code, 0, "{command} --strict of a folder");
        tool.run(&format!("{command} out --strict")).exits(0);
    }
    tool.run("report cut/run.0.et -o page.html")
        .exits(0)
        .notes(stated);
}

/// Host gaps of these files wait for the last node that ended before them, so they begin later than
/// nodes with higher ids. No simulator can start them earlier.
#[test]
fn files_for_simulators_pass_the_check_without_warnings() {
    let tool = Tool::new();
    tool.run("merge {pairs} --for astra-sim -o out").exits(0);
    let checked = tool.run("check out").exits(0);
    assert!(!checked.stdout.contains("ascend"), "{}", checked.stdout);
}

#[test]
fn stock_readers_find_the_metadata_first() {
    let tool = written_ranks();
    let bytes = tool.read("out/ddp2-2.15.0.0.et");
    let mut rest = bytes.as_slice();
    let metadata = etlink_chakra::proto::GlobalMetadata::decode_length_delimited(&mut rest);
    let names: Vec<String> = metadata
        .expect("metadata")
        .attr
        .into_iter()
        .map(|attr| attr.name)
        .collect();
    assert!(names.contains(&"node_count".to_owned()), "{names:?}");
    let mut nodes = 0;
    while !rest.is_empty() {
        etlink_chakra::proto::Node::decode_length_delimited(&mut rest).expect("a node");
        nodes += 1;
    }
    let graph = etlink_chakra::read::read(bytes.as_slice()).expect("reads");
    assert_eq!(graph.metadata_int("node_count"), Some(nodes));
}

/// A merge without `--for` writes no configurations, so old ones would belong to other traces.
#[test]
fn configurations_of_a_simulator_go_with_the_traces_that_they_are_of() {
    let tool = written_ranks();
    tool.file("out/notes.txt", "mine");
    tool.run("merge {pairs}/ddp2-2.15.0 -o out --overwrite")
        .exits(0);
    let names: Vec<String> = tool.files("out").into_keys().collect();
    let expected = [
        "comm_group.json",
        "ddp2-2.15.0.0.et",
        "ddp2-2.15.0.1.et",
        "notes.txt",
    ];
    assert_eq!(names, expected);
    // a README that etlink did not write stays, along with the files next to it
    tool.file("out/README.md", "mine");
    tool.file("out/system.json", "mine");
    tool.run("merge {pairs}/ddp2-2.15.0 -o out --overwrite")
        .exits(0);
    assert_eq!(tool.read("out/README.md"), b"mine");
    assert_eq!(tool.read("out/system.json"), b"mine");
}

#[test]
fn a_rank_that_is_there_plain_and_packed_is_one() {
    let tool = written_ranks();
    let once = tool.run("analyze out --json").exits(0).runs();
    let bytes = tool.read("out/ddp2-2.15.0.0.et");
    tool.file("out/ddp2-2.15.0.0.et.gz", gzip(&bytes));
    let twice = tool.run("analyze out --json").exits(0).runs();
    assert_eq!(once, twice);
    let ranks = tool.run("replay out --json").exits(0).runs();
    let ranks = ranks[0]["together"]["ranks"].as_array().map(Vec::len);
    assert_eq!(ranks, Some(2));
}

#[test]
fn a_rank_that_is_cut_before_its_first_node_is_called_cut() {
    let tool = written_ranks();
    let bytes = tool.read("out/ddp2-2.15.0.1.et");
    tool.file("out/ddp2-2.15.0.1.et", &bytes[..100]);
    tool.run("analyze out")
        .exits(1)
        .notes("rank 1 is left out")
        .notes("the file is truncated");
    tool.run("report out -o page.html")
        .exits(1)
        .notes("rank 1 is left out")
        .notes("the file is truncated");
    tool.run("replay out")
        .exits(1)
        .notes("left out")
        .notes("the file is truncated");
}
