//! A recorded trace as text with gaps for everything that differs per rank.

use super::scenario::{CollectiveSpan, RunScenario};
use crate::generate::document::{element_places, write_micros};
use anyhow::{Context, Result, bail};
use etlink_json::micros_to_ns;
use regex::{Regex, escape};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Stream of the added kernels.
// NCCL has its own streams; PyTorch computes on 7.
const STREAM: i64 = 20;

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

/// Rank and process facts of a recording.
#[derive(Clone, Debug)]
pub(super) struct RecordedProcess {
    rank: usize,
    world: usize,
    pid: i64,
    tids: BTreeSet<i64>,
}

/// A collective, with its thread and the arguments that its op and kernel share.
#[derive(Debug)]
struct RecordedCollective {
    span: CollectiveSpan,
    tid: i64,
    args: Map<String, Value>,
}

/// Content of a gap.
#[derive(Clone, Copy, Debug)]
enum GapContent {
    /// Recorded time of a begin.
    Start(i64),
    /// Duration between two recorded times.
    Length(i64, i64),
    Rank,
    World,
    /// Ranks of the world group: a list, truncated like recorded ones if `cut`.
    Ranks {
        cut: bool,
    },
    /// Number that differs per process.
    Process(i64),
    /// Launch calls and kernels of the collectives.
    Rows,
}

/// A recorded trace with its gaps.
#[derive(Debug)]
pub(super) struct TraceTemplate {
    text: String,
    /// End and content of each gap, by its begin.
    gaps: BTreeMap<usize, (usize, GapContent)>,
    pub(super) of: RecordedProcess,
    collectives: Vec<RecordedCollective>,
    pub(super) window: (i64, i64),
}

/// The relevant parts of a device trace.
#[derive(Deserialize)]
struct Recording<'t> {
    #[serde(rename = "distributedInfo")]
    distributed: DistributedInfo,
    #[serde(borrow, rename = "traceEvents")]
    events: Vec<Event<'t>>,
}

#[derive(Deserialize)]
struct DistributedInfo {
    rank: usize,
    world_size: usize,
}

#[derive(Deserialize)]
struct Event<'t> {
    #[serde(borrow, default)]
    cat: Cow<'t, str>,
    #[serde(borrow, default)]
    name: Cow<'t, str>,
    #[serde(default)]
    pid: Value,
    #[serde(default)]
    tid: Value,
    #[serde(borrow)]
    ts: Option<&'t RawValue>,
    #[serde(borrow)]
    dur: Option<&'t RawValue>,
    #[serde(default)]
    args: Map<String, Value>,
}

impl Event<'_> {
    fn span(&self) -> Option<CollectiveSpan> {
        let [start, length] = [self.ts, self.dur].map(|time| micros_to_ns(time?.get().as_bytes()));
        let start = start?;
        let end = start.saturating_add(length?);
        Some(CollectiveSpan { start, end })
    }
}

impl TraceTemplate {
    pub(super) fn device(text: Vec<u8>) -> Result<TraceTemplate> {
        let text = String::from_utf8(text)?;
        let Recording {
            distributed: DistributedInfo { rank, world_size },
            events,
        } = serde_json::from_str(&text)?;
        // Its own kernels would clash with the added ones.
        if events
            .iter()
            .any(|event| matches!(&*event.cat, "kernel" | "gpu_memcpy" | "gpu_memset"))
        {
            bail!("it has device rows of its own; this works with recordings of the CPU");
        }
        let spans = || events.iter().filter_map(Event::span);
        let of = RecordedProcess {
            rank,
            world: world_size,
            pid: (events.iter().find_map(|event| event.pid.as_i64()))
                .context("it does not say its process")?,
            tids: (events.iter().filter_map(|event| event.tid.as_i64())).collect(),
        };
        let window = (spans().map(|span| span.start).min())
            .zip(spans().map(|span| span.end).max())
            .context("nothing in it has a length")?;
        let collectives = recorded_collectives(&events, of.world)?;
        let (rank, world) = (of.rank, of.world);
        let list = escape(&rank_list(world, false));
        // On Linux the main thread's id equals the process id. As a set, no place gets two gaps.
        let numbers: BTreeSet<i64> = of.tids.iter().copied().chain([of.pid]).collect();
        let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
        // A number is searched with the keys around it, because alone it is ambiguous.
        let mut gaps = find_gaps(
            &text,
            &[
                r#""ts": (?<start>[\d.]+)(,\s*"dur": (?<length>[\d.]+))?"#.to_owned(),
                format!(r#""rank": (?<rank>{rank}), "world_size": (?<world>{world})\b"#),
                format!(r#""pg_size": (?<world>{world}), "ranks": (?<ranks>{list})"#),
                format!(r#""Process Group Ranks": "(?<cut>{list})""#),
                format!(r#""Rank": (?<rank>{rank}),"#),
                format!(r#""Group size": (?<world>{world}),"#),
                // `Concrete Inputs` of the ops: positions, not keys, identify rank and size.
                format!(
                    r#""", "(?<rank>{rank})", "", "\[\]", "\[\]", "0", "1", "(?<world>{world})", "#
                ),
                format!(
                    r#"(?:"pid": |"tid": |"thread |"sort_index": )(?<process>{})\b"#,
                    numbers.join("|")
                ),
            ],
        )?;
        // After the last event, but still inside the array.
        let last = element_places(&text)?.last().map_or(0, |event| event.end);
        gaps.insert(last, (last, GapContent::Rows));
        Ok(TraceTemplate {
            text,
            gaps,
            of,
            collectives,
            window,
        })
    }

    /// Builds the template of a host trace. It has no times; only the rank's number, its groups and
    /// its process differ.
    pub(super) fn host(text: Vec<u8>, of: &RecordedProcess) -> Result<TraceTemplate> {
        let text = String::from_utf8(text)?;
        let RecordedProcess {
            rank, world, pid, ..
        } = of;
        let gaps = find_gaps(
            &text,
            &[
                format!(r#""pid": (?<process>{pid}),"#),
                format!(r#"\\"group_size\\": (?<world>{world}),"#),
                format!(r#""default_pg"\],(?<rank>{rank}),""#),
                format!(r",\[\],\[\],0,1,(?<world>{world}),"),
                format!(r#""pg_size", "type": "uint64", "value": (?<world>{world})\}}"#),
            ],
        )?;
        Ok(TraceTemplate {
            text,
            gaps,
            of: of.clone(),
            collectives: vec![],
            window: (0, 0),
        })
    }

    pub(super) fn spans(&self) -> Vec<CollectiveSpan> {
        self.collectives.iter().map(|one| one.span).collect()
    }

    pub(super) fn write(
        &self,
        scenario: &RunScenario,
        rank: usize,
        mut out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut from = 0;
        for (&at, &(end, content)) in &self.gaps {
            out.write_all(&self.text.as_bytes()[from..at])?;
            from = end;
            match content {
                GapContent::Start(ns) => write_micros(scenario.start(rank, ns), &mut out)?,
                GapContent::Length(start, end) => write_micros(
                    // Start and end are shifted independently, which must not make a duration
                    // negative.
                    (scenario.end(rank, end) - scenario.start(rank, start)).max(0),
                    &mut out,
                )?,
                GapContent::Rank => write!(out, "{rank}")?,
                GapContent::World => write!(out, "{}", scenario.ranks)?,
                GapContent::Ranks { cut } => {
                    out.write_all(rank_list(scenario.ranks, cut).as_bytes())?
                }
                GapContent::Process(number) => write!(out, "{}", process_number(number, rank))?,
                GapContent::Rows => self.write_rows(scenario, rank, out)?,
            }
        }
        out.write_all(&self.text.as_bytes()[from..])
    }

    fn write_rows(
        &self,
        scenario: &RunScenario,
        rank: usize,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for (number, collective) in self.collectives.iter().enumerate() {
            let rows = scenario.rows(rank, number);
            let correlation = number + 1;
            let call = json!({
                "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC",
                "pid": process_number(self.of.pid, rank),
                "tid": process_number(collective.tid, rank),
                // CUPTI's number for cudaLaunchKernelExC
                "args": {"cbid": 430, "correlation": correlation},
            });
            write_row(call, rows.call, out)?;
            let mut kernel = json!({
                "ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                "pid": 0, "tid": STREAM,
                "args": {"device": 0, "context": 1, "stream": STREAM, "correlation": correlation},
            });
            for (key, value) in &collective.args {
                kernel["args"][key] = match key.as_str() {
                    "Group size" => scenario.ranks.into(),
                    "Process Group Ranks" => rank_list(scenario.ranks, true).into(),
                    _ => value.clone(),
                };
            }
            write_row(kernel, rows.kernel, out)?;
        }
        Ok(())
    }
}

/// Writes an event with its times.
fn write_row(event: Value, (start, end): (i64, i64), mut out: &mut dyn Write) -> io::Result<()> {
    let text = event.to_string();
    let open = text.strip_suffix('}').unwrap_or(&text);
    write!(out, ",\n  {open}, \"ts\": ")?;
    write_micros(start, &mut out)?;
    out.write_all(b", \"dur\": ")?;
    write_micros(end - start, &mut out)?;
    out.write_all(b"}")
}

/// Returns a process or thread id for a rank.
fn process_number(recorded: i64, rank: usize) -> i64 {
    // No recorded process has a thousand threads, so ids of ranks on one machine never collide.
    recorded + 1000 * rank as i64
}

/// Returns collectives in order of time.
fn recorded_collectives(events: &[Event<'_>], world: usize) -> Result<Vec<RecordedCollective>> {
    let mut found = vec![];
    for event in events {
        let (Some(span), Some(tid)) = (event.span(), event.tid.as_i64()) else {
            continue;
        };
        // The op that waits for a collective has the same name.
        let kind = event.args.get("Collective name");
        if event.name != "record_param_comms" || kind.is_none_or(|kind| kind == "wait") {
            continue;
        }
        let mut args = event.args.clone();
        args.retain(|key, _| ARGUMENTS.contains(&key.as_str()));
        // It is unclear how a group of some ranks grows with the run.
        if args
            .get("Process Group Ranks")
            .is_none_or(|ranks| *ranks != rank_list(world, false))
        {
            bail!("a collective is of a part of the ranks only: {args:?}");
        }
        found.push(RecordedCollective { span, tid, args });
    }
    found.sort_by_key(|one| one.span.start);
    // Time is inserted after each collective; for overlapping ones the place would be ambiguous.
    if found.is_empty() || (found.windows(2)).any(|pair| pair[1].span.start < pair[0].span.end) {
        bail!("collectives are needed that are recorded one after the other");
    }
    Ok(found)
}

/// Returns gaps at the named groups of these patterns.
fn find_gaps(text: &str, patterns: &[String]) -> Result<BTreeMap<usize, (usize, GapContent)>> {
    let mut gaps = BTreeMap::new();
    for pattern in patterns {
        let pattern = Regex::new(pattern)?;
        for found in pattern.captures_iter(text) {
            let ns = |name| micros_to_ns(found.name(name)?.as_str().as_bytes());
            let start = ns("start").unwrap_or(0);
            for name in pattern.capture_names().flatten() {
                let Some(place) = found.name(name) else {
                    continue;
                };
                let content = match name {
                    "start" => GapContent::Start(start),
                    "length" => {
                        GapContent::Length(start, start.saturating_add(ns(name).unwrap_or(0)))
                    }
                    "rank" => GapContent::Rank,
                    "world" => GapContent::World,
                    "ranks" => GapContent::Ranks { cut: false },
                    "cut" => GapContent::Ranks { cut: true },
                    _ => GapContent::Process(place.as_str().parse()?),
                };
                gaps.insert(place.start(), (place.end(), content));
            }
        }
    }
    Ok(gaps)
}

/// Formats a list of ranks from 0, truncated if `cut`.
fn rank_list(ranks: usize, cut: bool) -> String {
    let shown = if cut { ranks.min(LISTED) } else { ranks };
    let all: Vec<String> = (0..shown).map(|rank| rank.to_string()).collect();
    let rest = if shown < ranks { ", ..." } else { "" };
    format!("[{}{rest}]", all.join(", "))
}
