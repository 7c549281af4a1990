//! What is read of a recorded trace to write it anew.

use super::scenario::Collective;
use super::text::list;
use crate::generate::document::{Document, Family, Finder};
use anyhow::{Context, Result, anyhow, bail};
use etlink_json::{BrokenJson, JsonScanner, micros_to_ns};
use memchr::memmem;
use std::collections::BTreeSet;

/// What a recording says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    pub(super) rank: i64,
    pub(super) world: i64,
    pub(super) pid: i64,
    pub(super) tids: BTreeSet<i64>,
}

/// A collective's thread, and its arguments as JSON text.
pub(super) type Arguments = (i64, String);

/// Kineto's arguments of a collective that its kernel has too.
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

impl Origin {
    /// What the head of a device trace says.
    pub(super) fn new(text: &[u8]) -> Result<Origin> {
        let number = |before: &str| -> Result<i64> {
            let at = memmem::find(text, before.as_bytes())
                .with_context(|| format!("it does not say {before}"))?
                + before.len();
            let digits = text[at..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            Ok(std::str::from_utf8(&text[at..at + digits])?.parse()?)
        };
        let (rank, world, pid) = (
            number("\"rank\": ")?,
            number("\"world_size\": ")?,
            number("\"pid\": ")?,
        );
        Ok(Origin {
            rank,
            world,
            pid,
            tids: BTreeSet::new(),
        })
    }
}

/// Collectives in order of time, with their threads and arguments; notes all threads.
pub(super) fn collectives(
    document: &Document,
    of: &mut Origin,
) -> Result<(Vec<Collective>, Vec<Arguments>)> {
    let all = format!(
        "\"Process Group Ranks\": \"{}\"",
        list(of.world as usize, false)
    );
    let mut found = vec![];
    for element in &document.elements {
        let seen = Seen::of(&document.text[element.text.clone()])
            .map_err(|_| anyhow!("damaged at byte {}", element.text.start))?;
        if seen.on_device {
            bail!("it has device rows of its own; this works with recordings of the CPU");
        }
        of.tids.extend(seen.tid);
        let (Some(time), Some(tid), Some(said)) = (seen.time, seen.tid, arguments(&seen.args)?)
        else {
            continue;
        };
        if !said.contains(&all) {
            bail!("a collective is of a part of the ranks only: {said}");
        }
        found.push((time, (tid, said)));
    }
    found.sort_by_key(|(time, _)| time.start);
    if found.is_empty() || found.windows(2).any(|pair| pair[1].0.start < pair[0].0.end) {
        bail!("collectives are needed that are recorded one after the other");
    }
    Ok(found.into_iter().unzip())
}

/// Notes times and lengths of a Kineto event, in which the time comes first.
pub(super) fn event(finder: &mut Finder<'_>) -> Result<(), BrokenJson> {
    let mut start = None;
    while let Some(key) = finder.scanner.key()? {
        match key {
            b"ts" => start = finder.time()?,
            b"dur" => {
                if let (Some(start), Some(length)) = (start, finder.micros(Family::Duration)?) {
                    finder.lasts(start, start.saturating_add(length));
                }
            }
            _ => drop(finder.scanner.value()?),
        }
    }
    Ok(())
}

/// What is of interest in an event.
#[derive(Default)]
struct Seen {
    tid: Option<i64>,
    on_device: bool,
    /// Origin a `record_param_comms`.
    time: Option<Collective>,
    args: Vec<u8>,
}

impl Seen {
    fn of(element: &[u8]) -> Result<Seen, BrokenJson> {
        let mut seen = Seen::default();
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
        seen.time = start
            .zip(length)
            .filter(|_| is_collective)
            .map(|(start, length)| Collective {
                start,
                end: start + length,
            });
        Ok(seen)
    }
}

/// Arguments of a collective that its kernel has too, as JSON text without brackets; `None` of what
/// is none, such as the wait for one.
fn arguments(args: &[u8]) -> Result<Option<String>> {
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
    let one = |name: &&str| Some(format!("\"{name}\": {}", args.get(*name)?));
    Ok(Some(
        ARGUMENTS
            .iter()
            .filter_map(one)
            .collect::<Vec<_>>()
            .join(", "),
    ))
}
