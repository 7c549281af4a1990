//! Extracts the parts of a recorded trace that are rewritten.

use super::scenario::CollectiveSpan;
use crate::generate::document::{NumberFamily, NumberFinder, TraceText};
use anyhow::{Context, Result, anyhow, bail};
use etlink_json::{BrokenJson, JsonScanner, micros_to_ns};
use memchr::memmem;
use std::collections::BTreeSet;

/// Rank and process facts of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedProcess {
    pub(super) rank: i64,
    pub(super) world: i64,
    pub(super) pid: i64,
    pub(super) tids: BTreeSet<i64>,
}

/// Thread of a collective, and the arguments that its op and kernel share.
#[derive(Clone, Debug)]
pub(super) struct CollectiveArguments {
    pub(super) tid: i64,
    /// Keys with JSON text.
    pub(super) values: Vec<(&'static str, String)>,
}

/// Limit above which lists of ranks are truncated in the arguments of collectives
/// (`ParamCommsUtils.cpp`).
const LISTED: usize = 30;

/// Kineto's arguments of a collective's op that its kernel has too.
const ARGUMENTS: [&str; 9] = [
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "dtype",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
    "Seq",
];

impl RecordedProcess {
    /// Reads the facts from the head of a device trace.
    pub(super) fn from_head(text: &[u8]) -> Result<RecordedProcess> {
        Ok(RecordedProcess {
            rank: number_after(text, "\"rank\": ")?,
            world: number_after(text, "\"world_size\": ")?,
            pid: number_after(text, "\"pid\": ")?,
            tids: BTreeSet::new(),
        })
    }
}

/// Returns the number after the first occurrence of `before`.
fn number_after(text: &[u8], before: &str) -> Result<i64> {
    let place = memmem::find(text, before.as_bytes())
        .with_context(|| format!("it does not say {before}"))?;
    let rest = &text[place + before.len()..];
    let end = rest.iter().position(|byte| !byte.is_ascii_digit());
    let digits = &rest[..end.unwrap_or(rest.len())];
    Ok(std::str::from_utf8(digits)?.parse()?)
}

/// Returns collectives in order of time, with their threads and arguments; notes all threads.
pub(super) fn recorded_collectives(
    document: &TraceText,
    of: &mut RecordedProcess,
) -> Result<(Vec<CollectiveSpan>, Vec<CollectiveArguments>)> {
    let all_ranks = format!("\"{}\"", rank_list(of.world as usize, false));
    let mut found = vec![];
    for element in &document.elements {
        let seen = EventSummary::from_element(&document.text[element.text.clone()])
            .map_err(|_| anyhow!("damaged at byte {}", element.text.start))?;
        // Its own kernels would clash with the added ones.
        if seen.on_device {
            bail!("it has device rows of its own; this works with recordings of the CPU");
        }
        of.tids.extend(seen.tid);
        let (Some(time), Some(tid)) = (seen.time, seen.tid) else {
            continue;
        };
        // The op that waits for a collective has the same name.
        let Some(values) = kernel_arguments(&seen.args)? else {
            continue;
        };
        // It is unclear how a group of some ranks grows with the run.
        if !values.contains(&("Process Group Ranks", all_ranks.clone())) {
            bail!("a collective is of a part of the ranks only: {values:?}");
        }
        found.push((time, CollectiveArguments { tid, values }));
    }
    found.sort_by_key(|(time, _)| time.start);
    // Time is inserted after each collective; for overlapping ones the place would be ambiguous.
    if found.is_empty() || found.windows(2).any(|pair| pair[1].0.start < pair[0].0.end) {
        bail!("collectives are needed that are recorded one after the other");
    }
    Ok(found.into_iter().unzip())
}

/// Notes times and durations of a Kineto event, in which the time comes first.
pub(super) fn note_times(finder: &mut NumberFinder<'_>) -> Result<(), BrokenJson> {
    let mut start = None;
    while let Some(key) = finder.scanner.key()? {
        match key {
            b"ts" => start = finder.time()?,
            b"dur" => {
                if let (Some(start), Some(length)) = (start, finder.micros(NumberFamily::Duration)?)
                {
                    finder.lasts(start, start.saturating_add(length));
                }
            }
            _ => drop(finder.scanner.value()?),
        }
    }
    Ok(())
}

/// The relevant parts of an event.
#[derive(Default)]
struct EventSummary {
    tid: Option<i64>,
    on_device: bool,
    /// Span of a `record_param_comms`; `None` for other events.
    time: Option<CollectiveSpan>,
    args: Vec<u8>,
}

impl EventSummary {
    fn from_element(element: &[u8]) -> Result<EventSummary, BrokenJson> {
        let mut seen = EventSummary::default();
        let (mut start, mut length, mut is_collective) = (None, None, false);
        let mut scanner = JsonScanner::new(element);
        while scanner.eat(b',') {}
        scanner.enter()?;
        while let Some(key) = scanner.key()? {
            let value = scanner.value()?;
            match key {
                b"cat" => {
                    seen.on_device =
                        matches!(value.raw(), b"kernel" | b"gpu_memcpy" | b"gpu_memset")
                }
                b"name" => is_collective = value.raw() == b"record_param_comms",
                b"tid" => seen.tid = value.int(),
                b"ts" => start = micros_to_ns(value.raw()),
                b"dur" => length = micros_to_ns(value.raw()),
                b"args" if is_collective => seen.args = value.raw().to_vec(),
                _ => {}
            }
        }
        seen.time = match (start, length) {
            (Some(start), Some(length)) if is_collective => Some(CollectiveSpan {
                start,
                end: start + length,
            }),
            _ => None,
        };
        Ok(seen)
    }
}

/// Returns the arguments that a collective's kernel has too; `None` for other events, such as the
/// wait for a collective.
fn kernel_arguments(args: &[u8]) -> Result<Option<Vec<(&'static str, String)>>> {
    if args.is_empty() {
        return Ok(None);
    }
    let args: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(args)?;
    if args
        .get("Collective name")
        .is_none_or(|name| name == "wait")
    {
        return Ok(None);
    }
    let mut values = vec![];
    for name in ARGUMENTS {
        values.extend(args.get(name).map(|value| (name, value.to_string())));
    }
    Ok(Some(values))
}

/// Formats a list of ranks from 0, truncated if `cut`.
pub(super) fn rank_list(ranks: usize, cut: bool) -> String {
    let shown = if cut { ranks.min(LISTED) } else { ranks };
    let all: Vec<String> = (0..shown).map(|rank| rank.to_string()).collect();
    let rest = if shown < ranks { ", ..." } else { "" };
    format!("[{}{rest}]", all.join(", "))
}
