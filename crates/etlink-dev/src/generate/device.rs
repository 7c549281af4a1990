//! Finds the numbers in a Kineto event (`output_json.cpp`).

use super::document::{NumberFamily, NumberFinder, TraceText};
use anyhow::Result;
use etlink_json::BrokenJson;

/// Reads a Kineto trace.
pub(super) fn read_device_text(text: Vec<u8>) -> Result<TraceText> {
    TraceText::new(text, "traceEvents", note_event)
}

fn note_event(finder: &mut NumberFinder<'_>) -> Result<(), BrokenJson> {
    let (mut start, mut duration) = (None, None);
    while let Some(key) = finder.scanner.key()? {
        match key {
            b"ts" => start = finder.time()?,
            // Durations are the same in each repetition, so their places are not recorded.
            b"dur" => duration = finder.scanner.value()?.time_ns(),
            b"id" => drop(finder.number(NumberFamily::Correlation, 1)?),
            b"name" => drop(finder.name()?),
            b"args" if finder.scanner.peek() == Some(b'{') => note_arguments(finder)?,
            _ => drop(finder.scanner.value()?),
        }
    }
    if let (Some(start), Some(duration)) = (start, duration) {
        finder.lasts(start, start.saturating_add(duration));
    }
    Ok(())
}

fn note_arguments(finder: &mut NumberFinder<'_>) -> Result<(), BrokenJson> {
    finder.scanner.enter()?;
    while let Some(key) = finder.scanner.key()? {
        // 0 is not a valid id, except that the first event, sequence and Python call are numbered 0
        let (family, least) = match key {
            b"External id" | b"external id" | b"Record function id" => (NumberFamily::Function, 1),
            b"correlation" | b"wait_on_cuda_event_record_corr_id" => (NumberFamily::Correlation, 1),
            b"Sequence number" => (NumberFamily::Sequence, 0),
            b"Ev Idx" => (NumberFamily::Event, 0),
            b"Python id" | b"Python parent id" => (NumberFamily::Python, 0),
            _ => {
                finder.scanner.value()?;
                continue;
            }
        };
        finder.number(family, least)?;
    }
    Ok(())
}
