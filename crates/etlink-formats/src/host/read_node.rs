//! Reads one element of `nodes` in any layout.

use crate::host::node::NodeFields;
use crate::host::{schema_attrs, schema_flat};
use etlink_json::{BrokenJson, JsonScanner};

/// Reads the node at the scanner's position to its end. Keys that no layout has (`ts`,
/// `inclusive_dur` of an ET+) are skipped. Nothing is kept before the whole node is read.
pub(crate) fn read_node<'a>(scanner: &mut JsonScanner<'a>) -> Result<NodeFields<'a>, BrokenJson> {
    let mut node = NodeFields::default();
    // Both layouts are tried for each key, whatever schema the file claims.
    while let Some(key) = scanner.key()? {
        match key {
            b"id" => node.id = scanner.value()?.uint(),
            // Names stay borrowed and escaped; the tables resolve each distinct one once.
            b"name" => node.name = scanner.value()?.raw(),
            _ => {
                let taken = schema_attrs::take(&mut node, key, scanner)?
                    || schema_flat::take(&mut node, key, scanner)?;
                if !taken {
                    scanner.value()?;
                }
            }
        }
    }
    Ok(node)
}
