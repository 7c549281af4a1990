//! Interprets the fields of a span or event; the crate's documentation lists them.

use crate::spans::{FieldValue, fields};
use std::borrow::Cow;
use tracing::Metadata;

/// Kind of trace event that a span becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SpanRole {
    #[default]
    Op,
    /// Annotation: the span has the field `annotation`.
    Annotation,
    /// Runtime call: the span has the field `correlation`.
    Call,
    /// Device row: the span has the field `stream`.
    Row,
}

impl SpanRole {
    /// Returns true if the span has a node in the execution trace.
    pub(crate) fn is_op(self) -> bool {
        matches!(self, SpanRole::Op | SpanRole::Annotation)
    }
}

/// Fields that decide a span's place in the traces; the others are looked up when it is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanFacts {
    pub(crate) role: SpanRole,
    pub(crate) name: Cow<'static, str>,
    pub(crate) stream: Option<i64>,
    pub(crate) device: i64,
    pub(crate) correlation: Option<i64>,
    /// Stream that a call waits for, or, together with `wait_on_stream`, the stream made to wait.
    pub(crate) sync_stream: Option<i64>,
    pub(crate) wait_on_stream: Option<i64>,
    /// Correlation of the call that recorded the event.
    pub(crate) wait_on_record: Option<i64>,
    pub(crate) seq: Option<i64>,
    pub(crate) backward: bool,
    /// Start reported by the device, in Unix nanoseconds.
    pub(crate) start_ns: Option<i64>,
    pub(crate) end_ns: Option<i64>,
}

impl SpanFacts {
    /// Reads the facts from fields in all these words; the last value of a repeated field wins.
    pub(crate) fn of<'a>(
        callsite: &'static Metadata<'static>,
        words: impl Iterator<Item = &'a [u64]>,
    ) -> SpanFacts {
        let mut facts = SpanFacts {
            name: Cow::Borrowed(callsite.name()),
            ..SpanFacts::default()
        };
        for (name, value) in words.flat_map(|words| named(callsite, words)) {
            // the others are details
            drop(facts.take(name, value));
        }
        facts.role = match (facts.stream, facts.correlation) {
            // Rows have a stream and a correlation, calls only a correlation: the stream decides
            // first.
            (Some(_), _) => SpanRole::Row,
            (None, Some(_)) => SpanRole::Call,
            _ => facts.role,
        };
        facts
    }

    /// Takes a field that decides the place of a range.
    ///
    /// # Errors
    /// Returns the value of any other field.
    pub(crate) fn take(&mut self, name: &str, value: FieldValue) -> Result<(), FieldValue> {
        match name {
            "annotation" if value.is_true() => self.role = SpanRole::Annotation,
            "annotation" => self.role = SpanRole::Op,
            "name" | "message" => self.name = Cow::Owned(value.into_text()),
            "stream" => self.stream = value.int(),
            "device" => self.device = value.int().unwrap_or(0),
            "correlation" => self.correlation = value.int(),
            "sync_stream" => self.sync_stream = value.int(),
            "wait_on_stream" => self.wait_on_stream = value.int(),
            "wait_on_record" => self.wait_on_record = value.int(),
            "seq" => self.seq = value.int(),
            "backward" => self.backward = value.is_true(),
            "start_ns" => self.start_ns = value.int(),
            "end_ns" => self.end_ns = value.int(),
            _ => return Err(value),
        }
        Ok(())
    }

    /// Creates the range of a step with PyTorch's name for it.
    pub(crate) fn step(number: u64) -> SpanFacts {
        SpanFacts {
            role: SpanRole::Annotation,
            name: Cow::Owned(format!("ProfilerStep#{number}")),
            ..SpanFacts::default()
        }
    }
}

/// Decodes the fields in these words with their names.
pub(crate) fn named(
    callsite: &'static Metadata<'static>,
    words: &[u64],
) -> impl Iterator<Item = (&'static str, FieldValue)> {
    let names = callsite.fields();
    // Buffers hold field indices: the names are the same for all spans of a callsite.
    fields(words).filter_map(move |(index, value)| {
        let name = names.iter().nth(index)?;
        Some((name.name(), value))
    })
}
