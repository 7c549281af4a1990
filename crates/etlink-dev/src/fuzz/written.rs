//! What is written of a trace.

use anyhow::{Context, Result, bail};
use etlink_chakra::{WriteOptions, check, et, etplus, finding::Severity, read};
use etlink_link::LinkedTrace;

/// The `.et` and the merged JSON, checked.
pub(super) fn written(trace: &LinkedTrace) -> Result<[Vec<u8>; 2]> {
    let (mut protobuf, mut json) = (vec![], vec![]);
    et::write_et(trace, &WriteOptions::default(), &mut protobuf)?;
    etplus::write_etplus(trace, &mut json)?;
    serde_json::from_slice::<serde::de::IgnoredAny>(&json).context("the merged JSON is no JSON")?;
    for output in [&protobuf, &json] {
        let graph = read::read(&output[..]).context("own output cannot be read")?;
        let findings = check::check(&graph);
        if let Some(fault) = findings
            .iter()
            .find(|finding| finding.severity == Severity::Error)
        {
            bail!("own output has faults: {fault:?}");
        }
    }
    // the readers of written files get damaged files too
    let half = &protobuf[..protobuf.len() / 2];
    drop(read::read(half).map(|graph| check::check(&graph)));
    Ok([protobuf, json])
}
