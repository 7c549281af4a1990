//! Layer and filter for a `tracing` subscriber.

use super::collector::Collector;
use super::entry::EntryKind;
use super::thread_writer::SecondWord;
use std::sync::Arc;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Filter, Layer};

/// Records spans. Created by [`ProgramSpans::layer`](crate::ProgramSpans::layer).
pub struct SpanLayer(pub(crate) Arc<Collector>);

/// Enables spans only while they are recorded. Other layers are unaffected.
pub struct SpanFilter(pub(crate) Arc<Collector>);

impl<S: Subscriber> Layer<S> for SpanLayer {
    #[inline]
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let second = SecondWord::Callsite(attributes.metadata());
        self.0
            .describe(EntryKind::Span, id.into_u64(), second, |encoder| {
                attributes.record(encoder)
            });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.0.describe(
            EntryKind::Fields,
            id.into_u64(),
            SecondWord::None,
            |encoder| values.record(encoder),
        );
    }

    #[inline]
    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        self.0.enter(id.into_u64());
    }

    #[inline]
    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        self.0.exit(id.into_u64());
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let second = SecondWord::Time(event.metadata());
        self.0
            .describe(EntryKind::Event, self.0.clock.now(), second, |encoder| {
                event.record(encoder)
            });
    }
}

impl<S> Filter<S> for SpanFilter {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.0.wants(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.0.wants(metadata) {
            // Never `sometimes`, which would ask the filter again for each span.
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.0.is_idle().then_some(LevelFilter::OFF)
    }
}
