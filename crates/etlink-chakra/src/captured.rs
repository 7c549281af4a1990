//! Capture-time attributes of a device row, under the names that both formats use.

use etlink_link::LinkedTrace;
use etlink_model::RowIdx;

/// Returns the attributes of a row whose op was found at capture time, without unknown ones. Shapes
/// and types are lists as text.
pub(crate) fn captured(
    trace: &LinkedTrace,
    row: RowIdx,
) -> impl Iterator<Item = (&'static str, &str)> {
    let op = trace
        .captured
        .as_ref()
        .and_then(|captured| captured.of(row));
    let texts = op.map(|op| {
        [
            ("captured_op", op.name),
            ("captured_shapes", op.shapes),
            ("captured_types", op.types),
            ("captured_scope", op.scope),
        ]
    });
    texts
        .into_iter()
        .flatten()
        .filter(|(_, text)| !text.is_empty())
}
