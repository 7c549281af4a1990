//! Reads schema 1.0.1 (PyTorch 2.1 and before): every field is a key of the node.
//!
//! ```text
//! {"name": "aten::add", "id": 5, "rf_id": 3, "parent": 4, "fw_parent": 0, "seq_id": -1,
//!  "scope": 0, "tid": 1, "fw_tid": 0, "op_schema": "…",
//!  "inputs": […], "input_shapes": […], "input_types": […], "outputs": […], …}
//! ```

use crate::host::node::{NodeFields, list_text, parent_id};
use etlink_json::{BrokenJson, JsonScanner};

/// Stores the value of `key` if this layout has such a key.
pub(crate) fn take<'a>(
    node: &mut NodeFields<'a>,
    key: &[u8],
    scanner: &mut JsonScanner<'a>,
) -> Result<bool, BrokenJson> {
    let list = match key {
        b"inputs" => &mut node.inputs.values,
        b"input_shapes" => &mut node.inputs.shapes,
        b"input_types" => &mut node.inputs.types,
        b"outputs" => &mut node.outputs.values,
        b"output_shapes" => &mut node.outputs.shapes,
        b"output_types" => &mut node.outputs.types,
        b"parent" => {
            node.parent = parent_id(scanner.value()?);
            return Ok(true);
        }
        b"rf_id" | b"fw_parent" | b"seq_id" | b"scope" | b"tid" | b"fw_tid" | b"op_schema" => {
            return Ok(node.attrs.set(key, scanner.value()?));
        }
        _ => return Ok(false),
    };
    *list = list_text(scanner.value()?);
    Ok(true)
}
