//! Checks the files written from a trace.

use anyhow::{Context, Result, bail};
use etlink_chakra::{WriteOptions, check, et, etplus, finding::Severity, read};
use etlink_formats::host::HostReadOptions;
use etlink_link::{LinkOptions, LinkedTrace};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Returns the `.et` and the merged JSON, after checking them.
pub(super) fn check_written(trace: &LinkedTrace) -> Result<[Vec<u8>; 2]> {
    let (mut protobuf, mut json) = (vec![], vec![]);
    et::write_et(trace, &WriteOptions::default(), &mut protobuf)?;
    etplus::write_etplus(trace, &mut json)?;
    expect_same_nodes(&json)?;
    expect_linked_again(&json)?;
    for output in [&protobuf, &json] {
        let graph = read::read(&output[..]).context("own output cannot be read")?;
        let findings = check::check(&graph);
        // Warnings are acceptable: a damaged trace gives an odd graph, but never an invalid file.
        if let Some(fault) = findings
            .iter()
            .find(|finding| finding.severity == Severity::Error)
        {
            bail!("own output has faults: {fault:?}");
        }
    }
    // readers of written files must cope with damaged ones too
    let half = &protobuf[..protobuf.len() / 2];
    drop(read::read(half).map(|graph| check::check(&graph)));
    Ok([protobuf, json])
}

/// Checks that merged JSON can be linked again if it has times, or is refused by name.
fn expect_linked_again(json: &[u8]) -> Result<()> {
    let lines = etlink_formats::host::read(json, HostReadOptions::default())?;
    let Ok((host, device)) = etplus::rebuilt_traces(lines, &read::read(json)?) else {
        return Ok(());
    };
    let options = LinkOptions {
        allow_mismatch: true,
        ..LinkOptions::default()
    };
    etlink_link::link(Some(host), device, options)?;
    Ok(())
}

/// Checks that our reader finds the same nodes in merged JSON as another parser.
fn expect_same_nodes(json: &[u8]) -> Result<()> {
    // the parser resolves escapes in place
    let mut copy = json.to_vec();
    let graph = read::read(json).context("own output cannot be read")?;
    let document: TreeDocument = match simd_json::serde::from_slice(&mut copy) {
        Ok(document) => document,
        // values of the host trace are copied verbatim: a number that exceeds a double is valid
        // JSON, but simd-json rejects it
        Err(_) => {
            return serde_json::from_slice::<IgnoredAny>(json)
                .map(drop)
                .context("the merged JSON is no JSON");
        }
    };
    if document.nodes.len() != graph.len() {
        let (theirs, ours) = (document.nodes.len(), graph.len());
        bail!("simd-json finds {theirs} nodes in the merged JSON, our reader {ours}");
    }
    for (index, node) in document.nodes.iter().enumerate() {
        let name = graph.names.get(graph.name[index]);
        if (node.id, node.name.as_str()) != (graph.id[index], name) {
            bail!("simd-json finds {node:?} in the merged JSON, our reader {name:?}");
        }
    }
    Ok(())
}

/// The parts of merged JSON that are compared.
#[derive(Debug, Deserialize)]
struct TreeDocument {
    nodes: Vec<TreeNode>,
}

#[derive(Debug, Deserialize)]
struct TreeNode {
    id: u64,
    name: String,
}
