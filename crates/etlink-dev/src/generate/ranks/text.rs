//! A recorded trace as text with gaps for everything that differs per rank.

use super::scenario::{CollectiveSpan, RunScenario};
use super::source::{
    CollectiveArguments, RecordedProcess, note_times, rank_list, recorded_collectives,
};
use crate::generate::document::{NumberFamily, TraceText, write_micros};
use crate::generate::host;
use anyhow::{Context, Result};
use etlink_kineto::{CompleteEvent, KinetoVersion, KinetoWriteOptions, KinetoWriter};
use memchr::memmem;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Stream of the added kernels.
// NCCL has its own streams; PyTorch computes on 7.
const STREAM: u32 = 20;

/// Content of a gap.
#[derive(Clone, Debug)]
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
    pub(super) text: Vec<u8>,
    /// Position, length and content of each gap, ascending.
    gaps: Vec<(usize, usize, GapContent)>,
    pub(super) of: RecordedProcess,
    pub(super) collectives: Vec<CollectiveSpan>,
    /// Arguments of each collective.
    arguments: Vec<CollectiveArguments>,
    pub(super) window: (i64, i64),
}

impl TraceTemplate {
    pub(super) fn device(text: Vec<u8>) -> Result<TraceTemplate> {
        let document = TraceText::new(text, "traceEvents", note_times)?;
        let window = document.window.context("nothing in it has a length")?;
        let mut of = RecordedProcess::from_head(&document.text)?;
        let (collectives, arguments) = recorded_collectives(&document, &mut of)?;
        let mut gaps = time_gaps(&document);
        let last = document
            .elements
            .last()
            .map_or(0, |element| element.text.end);
        // After the last event, but still inside the array.
        gaps.push((last, 0, GapContent::Rows));
        let RecordedProcess {
            rank,
            world,
            pid,
            tids,
        } = &of;
        let list = rank_list(*world as usize, false);
        // A number is searched with the keys around it, because alone it is ambiguous.
        let mut find = GapFinder {
            text: &document.text,
            gaps: &mut gaps,
        };
        find.add_gaps(
            &format!("\"rank\": {rank}, \"world_size\": {world}"),
            &[
                ("rank\": ", GapContent::Rank),
                ("size\": ", GapContent::World),
            ],
        );
        find.add_gaps(
            &format!("\"pg_size\": {world}, \"ranks\": {list}"),
            &[
                ("size\": ", GapContent::World),
                ("ranks\": ", GapContent::Ranks { cut: false }),
            ],
        );
        find.add_gaps(
            &format!("\"Process Group Ranks\": \"{list}\""),
            &[("Ranks\": \"", GapContent::Ranks { cut: true })],
        );
        find.add_gaps(
            &format!("\"Rank\": {rank},"),
            &[("Rank\": ", GapContent::Rank)],
        );
        find.add_gaps(
            &format!("\"Group size\": {world},"),
            &[("size\": ", GapContent::World)],
        );
        find.add_gaps(
            // `Concrete Inputs` of the ops: positions, not keys, identify rank and size.
            &format!("\"\", \"{rank}\", \"\", \"[]\", \"[]\", \"0\", \"1\", \"{world}\", "),
            &[
                ("\"\", \"", GapContent::Rank),
                ("\"1\", \"", GapContent::World),
            ],
        );
        // On Linux the main thread's id equals the process id. As a set, no place gets two gaps.
        for number in tids.iter().chain([pid]).collect::<BTreeSet<_>>() {
            for (before, after) in [
                ("\"pid\": ", ","),
                ("\"tid\": ", ","),
                ("\"thread ", " "),
                ("\"sort_index\": ", "\n"),
            ] {
                find.add_gaps(
                    &format!("{before}{number}{after}"),
                    &[(before, GapContent::Process(*number))],
                );
            }
        }
        gaps.sort_by_key(|gap| (gap.0, gap.1));
        Ok(TraceTemplate {
            text: document.text,
            gaps,
            of,
            collectives,
            arguments,
            window,
        })
    }

    /// Builds the template of a host trace. It has no times; only the rank's number, its groups and
    /// its process differ.
    pub(super) fn host(text: Vec<u8>, of: &RecordedProcess) -> Result<TraceTemplate> {
        let document = host::read_host_text(text)?;
        let RecordedProcess {
            rank, world, pid, ..
        } = of;
        let mut gaps = vec![];
        let mut find = GapFinder {
            text: &document.text,
            gaps: &mut gaps,
        };
        find.add_gaps(
            &format!("\"pid\": {pid},"),
            &[("pid\": ", GapContent::Process(*pid))],
        );
        find.add_gaps(
            &format!("\\\"group_size\\\": {world},"),
            &[("size\\\": ", GapContent::World)],
        );
        find.add_gaps(
            &format!("\"default_pg\"],{rank},\""),
            &[("],", GapContent::Rank)],
        );
        find.add_gaps(
            &format!(",[],[],0,1,{world},"),
            &[(",0,1,", GapContent::World)],
        );
        find.add_gaps(
            &format!("\"pg_size\", \"type\": \"uint64\", \"value\": {world}}}"),
            &[("value\": ", GapContent::World)],
        );
        gaps.sort_by_key(|gap| (gap.0, gap.1));
        Ok(TraceTemplate {
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
        scenario: &RunScenario,
        rank: usize,
        mut out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut from = 0;
        for (at, length, slot) in &self.gaps {
            out.write_all(&self.text[from..*at])?;
            from = at + length;
            match *slot {
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
        out.write_all(&self.text[from..])
    }

    fn write_rows(
        &self,
        scenario: &RunScenario,
        rank: usize,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let options = KinetoWriteOptions {
            // readers accept any layout; this is the one of the recordings that request it
            version: KinetoVersion::Torch2_15,
            verbatim: false,
        };
        let mut writer = KinetoWriter::after_events(out, options);
        let pid = process_number(self.of.pid, rank);
        let ranks = rank_list(scenario.ranks, true);
        for (number, CollectiveArguments { tid, values }) in self.arguments.iter().enumerate() {
            let rows = scenario.rows(rank, number);
            let correlation = number + 1;
            let call = CompleteEvent {
                category: "cuda_runtime",
                name: "cudaLaunchKernelExC",
                pid: pid.into(),
                tid: process_number(*tid, rank).into(),
                start_ns: rows.call.0,
                duration_ns: rows.call.1 - rows.call.0,
                external_id: None,
            };
            writer.complete(&call, |args| {
                // CUPTI's number for cudaLaunchKernelExC
                args.number("cbid", 430)?;
                args.number("correlation", correlation)
            })?;
            let kernel = CompleteEvent {
                category: "kernel",
                name: "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                pid: 0.into(),
                tid: i64::from(STREAM).into(),
                start_ns: rows.kernel.0,
                duration_ns: rows.kernel.1 - rows.kernel.0,
                external_id: None,
            };
            writer.complete(&kernel, |args| {
                args.number("device", 0)?;
                args.number("context", 1)?;
                args.number("stream", STREAM)?;
                args.number("correlation", correlation)?;
                for (key, value) in values {
                    match *key {
                        "Group size" => args.number(key, scenario.ranks)?,
                        "Process Group Ranks" => args.text(key, &ranks)?,
                        _ => args.raw(key, value)?,
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Returns a process or thread id for a rank.
fn process_number(recorded: i64, rank: usize) -> i64 {
    // No recorded process has a thousand threads, so ids of ranks on one machine never collide.
    recorded + 1000 * rank as i64
}

/// Returns the gaps for times and durations.
fn time_gaps(document: &TraceText) -> Vec<(usize, usize, GapContent)> {
    let mut gaps = vec![];
    for element in &document.elements {
        let mut start = 0;
        for place in &document.places[element.places.clone()] {
            let slot = if place.family == NumberFamily::Time {
                start = place.value;
                GapContent::Start(start)
            } else {
                GapContent::Length(start, start.saturating_add(place.value))
            };
            gaps.push((place.at, place.length as usize, slot));
        }
    }
    gaps
}

/// Finds known texts and makes gaps in them.
struct GapFinder<'t> {
    text: &'t [u8],
    gaps: &'t mut Vec<(usize, usize, GapContent)>,
}

impl GapFinder<'_> {
    /// At each occurrence of `text`, adds gaps for the values after these marks; a value is a
    /// number or a list.
    fn add_gaps(&mut self, text: &str, slots: &[(&str, GapContent)]) {
        for at in memmem::find_iter(self.text, text.as_bytes()) {
            for (mark, slot) in slots {
                let Some(from) = text.find(mark).map(|place| place + mark.len()) else {
                    continue;
                };
                // The length is taken from the pattern, which contains the recorded value.
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
