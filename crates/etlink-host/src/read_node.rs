//! Reads one element of `nodes`, in whichever layout it is.

use crate::node::NodeFields;
use crate::{schema_attrs, schema_flat};
use etlink_json::{BrokenJson, JsonScanner};

/// Reads the node that `scanner` is in, to its end. Keys that no layout has
/// (`ts`, `inclusive_dur` of an ET+) are stepped over. Nothing of a node is kept before it has been
/// read whole.
pub(crate) fn read_node<'a>(scanner: &mut JsonScanner<'a>) -> Result<NodeFields<'a>, BrokenJson> {
    let mut node = NodeFields::default();
    // Both layouts are tried for each key: what the file claims as its schema does not decide.
    while let Some(key) = scanner.key()? {
        match key {
            b"id" => node.id = scanner.value()?.uint(),
            // Names stay borrowed and escaped; the tables resolve each different one once.
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
