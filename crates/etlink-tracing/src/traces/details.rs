//! Fields of a range that do not decide its place, read one by one when the range is written.

use super::tensors::TensorFields;
use super::window::{SpanRun, SpanWindow};
use crate::spans::FieldValue;

/// Fields that decide a range's place, and scalar fields of [`SpanDetails`].
const KNOWN: [&str; 15] = [
    "annotation",
    "name",
    "message",
    "stream",
    "device",
    "correlation",
    "sync_stream",
    "wait_on_stream",
    "wait_on_record",
    "seq",
    "backward",
    "start_ns",
    "end_ns",
    "schema",
    "tensor_device",
];

/// Descriptive fields of one range.
#[derive(Debug, Default)]
pub(crate) struct SpanDetails {
    pub(crate) inputs: TensorFields,
    pub(crate) outputs: TensorFields,
    /// Operator schema (`op_schema`).
    pub(crate) schema: String,
    /// Device of the range's tensors: `cpu`, `cuda:0`.
    pub(crate) tensor_device: String,
    /// All other fields of the span.
    pub(crate) more: Vec<(&'static str, FieldValue)>,
}

impl SpanDetails {
    pub(crate) fn of(window: &SpanWindow, ran: &SpanRun) -> SpanDetails {
        let mut details = SpanDetails {
            tensor_device: "cpu".into(),
            ..SpanDetails::default()
        };
        for (name, value) in window.fields(ran) {
            details.take(name, value);
        }
        details
    }

    fn take(&mut self, name: &'static str, value: FieldValue) {
        let untaken = match name {
            "shapes" | "dtypes" | "tensors" => self.inputs.take(name, value).err(),
            "out_shapes" | "out_dtypes" | "out_tensors" => self
                .outputs
                .take(name.trim_start_matches("out_"), value)
                .err(),
            "schema" => Some(value)
                .map(|value| self.schema = value.into_text())
                .and(None),
            "tensor_device" => Some(value)
                .map(|value| self.tensor_device = value.into_text())
                .and(None),
            _ => {
                if !KNOWN.contains(&name) {
                    Some(value)
                } else {
                    None
                }
            }
        };
        if let Some(value) = untaken {
            // A repeated field replaces its value: JSON keys must be unique.
            self.more.retain(|(known, _)| *known != name);
            self.more.push((name, value));
        }
    }
}
