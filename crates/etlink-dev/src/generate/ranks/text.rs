//! A recorded trace as text with gaps: what is different on each rank.

use super::scenario::{Collective, Scenario};
use super::source::{Arguments, Origin, collectives, event};
use crate::generate::document::{Document, Family, write_micros};
use crate::generate::host;
use anyhow::{Context, Result};
use memchr::memmem;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Longer lists of ranks are cut in the arguments of collectives (`ParamCommsUtils.cpp`).
const LISTED: usize = 30;
/// The stream of the kernels that are added.
const STREAM: u32 = 20;

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
    /// Origin each collective, its thread and the arguments that its kernel has too, as they stand
    /// in the text.
    arguments: Vec<Arguments>,
    pub(super) window: (i64, i64),
}

impl Template {
    pub(super) fn device(text: Vec<u8>) -> Result<Template> {
        let document = Document::new(text, "traceEvents", event)?;
        let window = document.window.context("nothing in it has a length")?;
        let mut of = Origin::new(&document.text)?;
        let (collectives, arguments) = collectives(&document, &mut of)?;
        let mut gaps = times(&document);
        let last = document
            .elements
            .last()
            .map_or(0, |element| element.text.end);
        gaps.push((last, 0, Slot::Rows));
        let Origin {
            rank,
            world,
            pid,
            tids,
        } = &of;
        let list = list(*world as usize, false);
        let mut find = Find {
            text: &document.text,
            gaps: &mut gaps,
        };
        find.one(
            &format!("\"rank\": {rank}, \"world_size\": {world}"),
            &[("rank\": ", Slot::Rank), ("size\": ", Slot::World)],
        );
        find.one(
            &format!("\"pg_size\": {world}, \"ranks\": {list}"),
            &[
                ("size\": ", Slot::World),
                ("ranks\": ", Slot::Ranks { cut: false }),
            ],
        );
        find.one(
            &format!("\"Process Group Ranks\": \"{list}\""),
            &[("Ranks\": \"", Slot::Ranks { cut: true })],
        );
        find.one(&format!("\"Rank\": {rank},"), &[("Rank\": ", Slot::Rank)]);
        find.one(
            &format!("\"Group size\": {world},"),
            &[("size\": ", Slot::World)],
        );
        find.one(
            &format!("\"\", \"{rank}\", \"\", \"[]\", \"[]\", \"0\", \"1\", \"{world}\", "),
            &[("\"\", \"", Slot::Rank), ("\"1\", \"", Slot::World)],
        );
        for number in tids.iter().chain([pid]).collect::<BTreeSet<_>>() {
            for (before, after) in [
                ("\"pid\": ", ","),
                ("\"tid\": ", ","),
                ("\"thread ", " "),
                ("\"sort_index\": ", "\n"),
            ] {
                find.one(
                    &format!("{before}{number}{after}"),
                    &[(before, Slot::Process(*number))],
                );
            }
        }
        gaps.sort_by_key(|gap| (gap.0, gap.1));
        Ok(Template {
            text: document.text,
            gaps,
            of,
            collectives,
            arguments,
            window,
        })
    }

    /// A host trace has no times; of each rank it has the rank's number, its groups and its
    /// process.
    pub(super) fn host(text: Vec<u8>, of: &Origin) -> Result<Template> {
        let document = host::document(text)?;
        let Origin {
            rank, world, pid, ..
        } = of;
        let mut gaps = vec![];
        let mut find = Find {
            text: &document.text,
            gaps: &mut gaps,
        };
        find.one(
            &format!("\"pid\": {pid},"),
            &[("pid\": ", Slot::Process(*pid))],
        );
        find.one(
            &format!("\\\"group_size\\\": {world},"),
            &[("size\\\": ", Slot::World)],
        );
        find.one(&format!("\"default_pg\"],{rank},\""), &[("],", Slot::Rank)]);
        find.one(&format!(",[],[],0,1,{world},"), &[(",0,1,", Slot::World)]);
        find.one(
            &format!("\"pg_size\", \"type\": \"uint64\", \"value\": {world}}}"),
            &[("value\": ", Slot::World)],
        );
        gaps.sort_by_key(|gap| (gap.0, gap.1));
        Ok(Template {
            text: document.text,
            gaps,
            of: of.clone(),
            collectives: vec![],
            arguments: vec![],
            window: (0, 0),
        })
    }

    pub(super) fn write(
        &self,
        scenario: &Scenario,
        rank: usize,
        mut out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut from = 0;
        for (at, length, slot) in &self.gaps {
            out.write_all(&self.text[from..*at])?;
            from = at + length;
            match *slot {
                Slot::Start(ns) => write_micros(scenario.start(rank, ns), &mut out)?,
                Slot::Length(start, end) => write_micros(
                    (scenario.end(rank, end) - scenario.start(rank, start)).max(0),
                    &mut out,
                )?,
                Slot::Rank => write!(out, "{rank}")?,
                Slot::World => write!(out, "{}", scenario.ranks)?,
                Slot::Ranks { cut } => out.write_all(list(scenario.ranks, cut).as_bytes())?,
                Slot::Process(number) => write!(out, "{}", process(number, rank))?,
                Slot::Rows => self.rows(scenario, rank, out)?,
            }
        }
        out.write_all(&self.text[from..])
    }

    fn rows(&self, scenario: &Scenario, rank: usize, mut out: &mut dyn Write) -> io::Result<()> {
        let (all, size) = (
            list(self.of.world as usize, false),
            format!("\"Group size\": {},", self.of.world),
        );
        for (number, (tid, said)) in self.arguments.iter().enumerate() {
            let rows = scenario.rows(rank, number);
            let (pid, tid) = (process(self.of.pid, rank), process(*tid, rank));
            let said = said
                .replace(&all, &list(scenario.ranks, true))
                .replace(&size, &format!("\"Group size\": {},", scenario.ranks));
            let correlation = number + 1;
            let mut row = |cat: &str,
                           name: &str,
                           pid: i64,
                           tid: i64,
                           (start, end): (i64, i64),
                           args: &str|
             -> io::Result<()> {
                write!(
                    out,
                    ",\n  {{\n    \"ph\": \"X\", \"cat\": \"{cat}\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": {tid},\n    \"ts\": "
                )?;
                write_micros(start, &mut out)?;
                write!(out, ", \"dur\": ")?;
                write_micros(end - start, &mut out)?;
                write!(out, ",\n    \"args\": {{\n      {args}\n    }}\n  }}")
            };
            row(
                "cuda_runtime",
                "cudaLaunchKernelExC",
                pid,
                tid,
                rows.call,
                &format!("\"cbid\": 430, \"correlation\": {correlation}"),
            )?;
            let args = format!(
                "\"device\": 0, \"context\": 1, \"stream\": {STREAM}, \"correlation\": {correlation}, {said}"
            );
            row(
                "kernel",
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                0,
                i64::from(STREAM),
                rows.kernel,
                &args,
            )?;
        }
        Ok(())
    }
}

/// A process or thread id of a rank.
fn process(number: i64, rank: usize) -> i64 {
    number + 1000 * rank as i64
}

/// Ranks from 0 as lists have them.
pub(super) fn list(ranks: usize, cut: bool) -> String {
    let shown = if cut { ranks.min(LISTED) } else { ranks };
    let all: Vec<String> = (0..shown).map(|rank| rank.to_string()).collect();
    format!(
        "[{}{}]",
        all.join(", "),
        if shown < ranks { ", ..." } else { "" }
    )
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

/// Finds known texts and makes gaps in them.
struct Find<'t> {
    text: &'t [u8],
    gaps: &'t mut Vec<(usize, usize, Slot)>,
}

impl Find<'_> {
    /// Wherever `text` is, gaps for the values behind these marks in it; a value is a number or a
    /// list.
    fn one(&mut self, text: &str, slots: &[(&str, Slot)]) {
        for at in memmem::find_iter(self.text, text.as_bytes()) {
            for (mark, slot) in slots {
                let Some(from) = text.find(mark).map(|place| place + mark.len()) else {
                    continue;
                };
                let rest = &text[from..];
                let length = if rest.starts_with('[') {
                    rest.find(']').map(|end| end + 1)
                } else {
                    rest.find(|c: char| !c.is_ascii_digit())
                };
                self.gaps
                    .push((at + from, length.unwrap_or(rest.len()), slot.clone()));
            }
        }
    }
}
