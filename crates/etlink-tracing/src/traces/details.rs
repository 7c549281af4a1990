//! Fields of a range that do not decide its place, read one by one when the range is written.

use super::facts::SpanFacts;
use super::tensors::TensorFields;
use super::window::{SpanRun, SpanWindow};
use crate::spans::FieldValue;

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
            if let Err(value) = details.take(name, value) {
                // A repeated field replaces its value: JSON keys must be unique.
                details.more.retain(|(known, _)| *known != name);
                details.more.push((name, value));
            }
        }
        details
    }

    /// Takes a field with a meaning; returns the value of any other.
    fn take(&mut self, name: &'static str, value: FieldValue) -> Result<(), FieldValue> {
        match name {
            "shapes" | "dtypes" | "tensors" => return self.inputs.take(name, value),
            "out_shapes" | "out_dtypes" | "out_tensors" => {
                return self.outputs.take(name.trim_start_matches("out_"), value);
            }
            "schema" => self.schema = value.into_text(),
            "tensor_device" => self.tensor_device = value.into_text(),
            // decides the place of the range
            _ => return SpanFacts::default().take(name, value),
        }
        Ok(())
    }
}
