//! A recorded trace as text with gaps: what is different on each rank.

use super::story::{Collective, Story};
use crate::generate::document::{Document, Family, Finder, write_micros};
use crate::generate::host;
use anyhow::{Context, Result, anyhow, bail};
use etlink_json::{Broken, Scanner, micros_to_ns};
use memchr::memmem;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Longer lists of ranks are cut in the arguments of collectives (`ParamCommsUtils.cpp`).
const LISTED: usize = 30;
/// The stream of the kernels that are added.
const STREAM: u32 = 20;

/// What a recording says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    rank: i64,
    world: i64,
    pid: i64,
    tids: BTreeSet<i64>,
}

/// What stands in a gap.
#[derive(Clone, Debug)]
enum Slot {
    /// A recorded time of something that begins.
    Start(i64),
    /// The length of what is recorded from then to then.
    Length(i64, i64),
    Rank,
    World,
    /// Ranks of the group of all: a list, cut where lists are cut.
    Ranks {
        cut: bool,
    },
    /// A number that is different for each process.
    Process(i64),
    /// Launch calls and kernels of the collectives.
    Rows,
}

/// See the module text.
#[derive(Debug)]
pub(super) struct Template {
    text: Vec<u8>,
    /// Where and how long, ascending.
    gaps: Vec<(usize, usize, Slot)>,
    pub(super) of: Origin,
    pub(super) collectives: Vec<Collective>,
    /// Origin each collective, its thread and the arguments that its kernel has too, as they stand in the text.
    arguments: Vec<Arguments>,
    pub(super) window: (i64, i64),
}

/// A collective's thread, and its arguments as JSON text.
type Arguments = (i64, String);

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

impl Template {
    pub(super) fn device(text: Vec<u8>) -> Result<Template> {
        let document = Document::new(text, "traceEvents", event)?;
        let window = document.window.context("nothing in it has a length")?;
        let mut of = Origin::new(&document.text)?;
        let (collectives, arguments) = collectives(&document, &mut of)?;
        let mut gaps = times(&document);
        let last = document.elements.last().map_or(0, |element| element.text.end);
        gaps.push((last, 0, Slot::Rows));
        let Origin { rank, world, pid, tids } = &of;
        let list = list(*world as usize, false);
        let mut find = Find { text: &document.text, gaps: &mut gaps };
        find.one(&format!("\"rank\": {rank}, \"world_size\": {world}"), &[("rank\": ", Slot::Rank), ("size\": ", Slot::World)]);
        find.one(&format!("\"pg_size\": {world}, \"ranks\": {list}"), &[("size\": ", Slot::World), ("ranks\": ", Slot::Ranks { cut: false })]);
        find.one(&format!("\"Process Group Ranks\": \"{list}\""), &[("Ranks\": \"", Slot::Ranks { cut: true })]);
        find.one(&format!("\"Rank\": {rank},"), &[("Rank\": ", Slot::Rank)]);
        find.one(&format!("\"Group size\": {world},"), &[("size\": ", Slot::World)]);
        find.one(
            &format!("\"\", \"{rank}\", \"\", \"[]\", \"[]\", \"0\", \"1\", \"{world}\", "),
            &[("\"\", \"", Slot::Rank), ("\"1\", \"", Slot::World)],
        );
        for number in tids.iter().chain([pid]).collect::<BTreeSet<_>>() {
            for (before, after) in [("\"pid\": ", ","), ("\"tid\": ", ","), ("\"thread ", " "), ("\"sort_index\": ", "\n")] {
                find.one(&format!("{before}{number}{after}"), &[(before, Slot::Process(*number))]);
            }
        }
        gaps.sort_by_key(|gap| (gap.0, gap.1));
        Ok(Template { text: document.text, gaps, of, collectives, arguments, window })
    }

    /// A host trace has no times; of each rank it has the rank's number, its groups and its process.
    pub(super) fn host(text: Vec<u8>, of: &Origin) -> Result<Template> {
        let document = host::document(text)?;
        let Origin { rank, world, pid, .. } = of;
        let mut gaps = vec![];
        let mut find = Find { text: &document.text, gaps: &mut gaps };
        find.one(&format!("\"pid\": {pid},"), &[("pid\": ", Slot::Process(*pid))]);
        find.one(&format!("\\\"group_size\\\": {world},"), &[("size\\\": ", Slot::World)]);
        find.one(&format!("\"default_pg\"],{rank},\""), &[("],", Slot::Rank)]);
        find.one(&format!(",[],[],0,1,{world},"), &[(",0,1,", Slot::World)]);
        find.one(&format!("\"pg_size\", \"type\": \"uint64\", \"value\": {world}}}"), &[("value\": ", Slot::World)]);
        gaps.sort_by_key(|gap| (gap.0, gap.1));
        Ok(Template { text: document.text, gaps, of: of.clone(), collectives: vec![], arguments: vec![], window: (0, 0) })
    }

    pub(super) fn write(&self, story: &Story, rank: usize, mut out: &mut dyn Write) -> io::Result<()> {
        let mut from = 0;
        for (at, length, slot) in &self.gaps {
            out.write_all(&self.text[from..*at])?;
            from = at + length;
            match *slot {
                Slot::Start(ns) => write_micros(story.start(rank, ns), &mut out)?,
                Slot::Length(start, end) => write_micros((story.end(rank, end) - story.start(rank, start)).max(0), &mut out)?,
                Slot::Rank => write!(out, "{rank}")?,
                Slot::World => write!(out, "{}", story.ranks)?,
                Slot::Ranks { cut } => out.write_all(list(story.ranks, cut).as_bytes())?,
                Slot::Process(number) => write!(out, "{}", process(number, rank))?,
                Slot::Rows => self.rows(story, rank, out)?,
            }
        }
        out.write_all(&self.text[from..])
    }

    fn rows(&self, story: &Story, rank: usize, mut out: &mut dyn Write) -> io::Result<()> {
        let (all, size) = (list(self.of.world as usize, false), format!("\"Group size\": {},", self.of.world));
        for (number, (tid, said)) in self.arguments.iter().enumerate() {
            let rows = story.rows(rank, number);
            let (pid, tid) = (process(self.of.pid, rank), process(*tid, rank));
            let said = said.replace(&all, &list(story.ranks, true)).replace(&size, &format!("\"Group size\": {},", story.ranks));
            let correlation = number + 1;
            let mut row = |cat: &str, name: &str, pid: i64, tid: i64, (start, end): (i64, i64), args: &str| -> io::Result<()> {
                write!(out, ",\n  {{\n    \"ph\": \"X\", \"cat\": \"{cat}\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": {tid},\n    \"ts\": ")?;
                write_micros(start, &mut out)?;
                write!(out, ", \"dur\": ")?;
                write_micros(end - start, &mut out)?;
                write!(out, ",\n    \"args\": {{\n      {args}\n    }}\n  }}")
            };
            row("cuda_runtime", "cudaLaunchKernelExC", pid, tid, rows.call, &format!("\"cbid\": 430, \"correlation\": {correlation}"))?;
            let args = format!("\"device\": 0, \"context\": 1, \"stream\": {STREAM}, \"correlation\": {correlation}, {said}");
            row("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, i64::from(STREAM), rows.kernel, &args)?;
        }
        Ok(())
    }
}

/// A process or thread id of a rank.
fn process(number: i64, rank: usize) -> i64 {
    number + 1000 * rank as i64
}

/// Ranks from 0 as lists have them.
fn list(ranks: usize, cut: bool) -> String {
    let shown = if cut { ranks.min(LISTED) } else { ranks };
    let all: Vec<String> = (0..shown).map(|rank| rank.to_string()).collect();
    format!("[{}{}]", all.join(", "), if shown < ranks { ", ..." } else { "" })
}

/// Collectives in order of time, with their threads and arguments; notes all threads.
fn collectives(document: &Document, of: &mut Origin) -> Result<(Vec<Collective>, Vec<Arguments>)> {
    let all = format!("\"Process Group Ranks\": \"{}\"", list(of.world as usize, false));
    let mut found = vec![];
    for element in &document.elements {
        let seen = Seen::of(&document.text[element.text.clone()]).map_err(|_| anyhow!("damaged at byte {}", element.text.start))?;
        if seen.on_device {
            bail!("it has device rows of its own; this works with recordings of the CPU");
        }
        of.tids.extend(seen.tid);
        let (Some(time), Some(tid), Some(said)) = (seen.time, seen.tid, arguments(&seen.args)?) else { continue };
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

/// The gaps for times and lengths.
fn times(document: &Document) -> Vec<(usize, usize, Slot)> {
    let mut gaps = vec![];
    for element in &document.elements {
        let mut start = 0;
        for place in &document.places[element.places.clone()] {
            let slot = if place.family == Family::Time {
                start = place.value;
                Slot::Start(start)
            } else {
                Slot::Length(start, start.saturating_add(place.value))
            };
            gaps.push((place.at, place.length as usize, slot));
        }
    }
    gaps
}

/// Notes times and lengths of a Kineto event, in which the time comes first.
fn event(finder: &mut Finder<'_>) -> Result<(), Broken> {
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

/// Finds known texts and makes gaps in them.
struct Find<'t> {
    text: &'t [u8],
    gaps: &'t mut Vec<(usize, usize, Slot)>,
}

impl Find<'_> {
    /// Wherever `text` is, gaps for the values behind these marks in it; a value is a number or a list.
    fn one(&mut self, text: &str, slots: &[(&str, Slot)]) {
        for at in memmem::find_iter(self.text, text.as_bytes()) {
            for (mark, slot) in slots {
                let Some(from) = text.find(mark).map(|place| place + mark.len()) else { continue };
                let rest = &text[from..];
                let length = if rest.starts_with('[') { rest.find(']').map(|end| end + 1) } else { rest.find(|c: char| !c.is_ascii_digit()) };
                self.gaps.push((at + from, length.unwrap_or(rest.len()), slot.clone()));
            }
        }
    }
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
    fn of(element: &[u8]) -> Result<Seen, Broken> {
        let mut seen = Seen::default();
        let (mut start, mut length, mut is_collective) = (None, None, false);
        let mut scanner = Scanner::new(element);
        while scanner.eat(b',') {}
        scanner.enter()?;
        while let Some(key) = scanner.key()? {
            let value = scanner.value()?;
            match key {
                b"cat" => seen.on_device = matches!(value.raw(), b"kernel" | b"gpu_memcpy" | b"gpu_memset"),
                b"name" => is_collective = value.raw() == b"record_param_comms",
                b"tid" => seen.tid = value.int(),
                b"ts" => start = micros_to_ns(value.raw()),
                b"dur" => length = micros_to_ns(value.raw()),
                b"args" if is_collective => seen.args = value.raw().to_vec(),
                _ => {}
            }
        }
        seen.time = start.zip(length).filter(|_| is_collective).map(|(start, length)| Collective { start, end: start + length });
        Ok(seen)
    }
}

/// Arguments of a collective that its kernel has too, as JSON text without brackets; `None` of what is none, such as the wait for one.
fn arguments(args: &[u8]) -> Result<Option<String>> {
    if args.is_empty() {
        return Ok(None);
    }
    let args: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(args)?;
    if args.get("Collective name").is_none_or(|name| name == "wait") {
        return Ok(None);
    }
    let one = |name: &&str| Some(format!("\"{name}\": {}", args.get(*name)?));
    Ok(Some(ARGUMENTS.iter().filter_map(one).collect::<Vec<_>>().join(", ")))
}

impl Origin {
    /// What the head of a device trace says.
    fn new(text: &[u8]) -> Result<Origin> {
        let number = |before: &str| -> Result<i64> {
            let at = memmem::find(text, before.as_bytes()).with_context(|| format!("it does not say {before}"))? + before.len();
            let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            Ok(std::str::from_utf8(&text[at..at + digits])?.parse()?)
        };
        let (rank, world, pid) = (number("\"rank\": ")?, number("\"world_size\": ")?, number("\"pid\": ")?);
        Ok(Origin { rank, world, pid, tids: BTreeSet::new() })
    }
}
