//! Reads the log of ASTRA-sim: its console output, or `log/log.log`.
//!
//! The lines come from `Workload.cc` and `Statistics.cc`:
//!
//! ```text
//! … [workload] [debug] issue,sys->id=0, tick=0, node->id=1, node->name=aten::mm, node->type=4
//! … [workload] [debug] callback,sys->id=0, tick=15001, node->id=1, node->name=…, node->type=4
//! … [workload] [info] sys[0] finished, 24139021 cycles, exposed communication 4708016 cycles.
//! … [statistics] [info] sys[0], Wall time: 24139021
//! ```
//! The first two lines appear only with `"trace-enabled": 1`, and only in the file. A cycle is a
//! nanosecond. The simulator appends to an existing log, so only the last run is used: a run begins
//! where time goes back.

use etlink_model::{NameId, Names};
use indexmap::IndexMap;
use memchr::memmem;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

/// Maximum length of a line, in bytes; longer ones are truncated. A name can be a kernel's, but a
/// binary file can have lines of gigabytes.
const MAX_LINE: u64 = 1 << 20;
/// Maximum number of messages kept.
const MAX_MESSAGES: usize = 16;

/// Returns true if a text begins like a log: one of its first lines is the simulator's, with a
/// level.
pub fn is_astra_log(head: &[u8]) -> bool {
    const LINES: usize = 200;
    // As written by spdlog, which other programs use too, with other components.
    let components = [
        &b"[system]"[..],
        b"[system::",
        b"[workload]",
        b"[workload::",
        b"[statistics]",
        b"[astraccl",
    ];
    let levels = [&b"] [info] "[..], b"] [debug] ", b"] [warning] "];
    let has_one = |line: &[u8], words: &[&[u8]]| {
        let mut words = words.iter();
        words.any(|word| memmem::find(line, word).is_some())
    };
    let has_level = |line: &[u8]| has_one(line, &components) && has_one(line, &levels);
    let mut lines = head.split(|byte| *byte == b'\n').take(LINES);
    lines.any(|line| {
        let found = LogLine::parse(line);
        let is_unsure = matches!(found, None | Some(LogLine::Damaged | LogLine::Critical(_)));
        !is_unsure && has_level(line)
    })
}

/// Contents of the log of one simulation.
#[derive(Clone, Debug, Default)]
pub struct AstraLog {
    /// Log of each rank.
    pub ranks: BTreeMap<i64, LoggedRank>,
    /// Names that [`LoggedNode::name`] refers to.
    pub names: Names,
    /// Number of simulations in the log; this is the last one.
    pub runs: u64,
    /// Critical messages of the simulator, without messages about its statistics.
    pub critical: Vec<String>,
    /// True if statistics of ranks were dropped because they have host nodes.
    pub statistics_dropped: bool,
    /// Number of nodes that end without having begun: the beginning of the log is missing.
    pub without_begin: u64,
    /// Number of lines that begin like the simulator's but continue differently.
    pub damaged: u64,
    /// Number of the first damaged line, from 1; `None` if there is none.
    pub first_damaged: Option<u64>,
    /// Number of lines with any content.
    pub lines: u64,
    /// Number of ASTRA-sim's lines.
    pub known_lines: u64,
    /// Last time in the log, in nanoseconds.
    pub last_ns: i64,
    /// True if the simulator's last line of the run is present.
    pub has_end: bool,
}

/// Log of one rank.
#[derive(Clone, Debug, Default)]
pub struct LoggedRank {
    /// Time at which the rank finished, in nanoseconds; `None` if it did not.
    pub finished_ns: Option<i64>,
    /// Time without computation on a device, in nanoseconds, which ASTRA-sim calls exposed
    /// communication.
    pub exposed_ns: Option<i64>,
    /// Statistics printed at the end.
    pub statistics: LoggedStatistics,
    /// Nodes by id, in the order in which they were issued.
    pub nodes: IndexMap<u64, LoggedNode, FxBuildHasher>,
}

/// ASTRA-sim's own sums of a rank, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoggedStatistics {
    /// `Wall time`.
    pub wall_ns: Option<i64>,
    /// `CPU time`: host nodes.
    pub host_ns: Option<i64>,
    /// `GPU time`: computation on devices.
    pub device_ns: Option<i64>,
    /// `Comm time`.
    pub communication_ns: Option<i64>,
    /// `Total compute-communication overlap`.
    pub overlap_ns: Option<i64>,
}

/// An issued node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedNode {
    /// Name of the node.
    pub name: NameId,
    /// Time at which the node was issued, in nanoseconds.
    pub start_ns: i64,
    /// Time at which the node was completed, in nanoseconds; `None` if it was not.
    pub end_ns: Option<i64>,
    /// Line of the log, from 1.
    pub line: u64,
}

/// Reader of a log, which can consist of several files.
#[derive(Debug, Default)]
pub struct AstraLogReader {
    log: AstraLog,
}

/// A line of the simulator.
#[derive(Debug, PartialEq, Eq)]
enum LogLine<'l> {
    Node {
        rank: i64,
        is_end: bool,
        tick: i64,
        id: u64,
        name: &'l [u8],
    },
    Finished {
        rank: i64,
        tick: i64,
        exposed_ns: i64,
    },
    Statistic {
        rank: i64,
        what: &'l [u8],
        ns: i64,
    },
    Critical(&'l [u8]),
    /// Last line of a simulation.
    Exiting,
    /// Line without relevant content.
    Other,
    /// Truncated line.
    Damaged,
}

impl AstraLogReader {
    /// Reads one file of the log; files have to be read in the order in which they were written.
    ///
    /// # Errors
    /// Fails if the source fails.
    pub fn read(&mut self, mut source: impl BufRead) -> io::Result<()> {
        let mut line = vec![];
        loop {
            line.clear();
            let mut rest = Read::by_ref(&mut source).take(MAX_LINE);
            let read = rest.read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(());
            }
            self.log.lines += 1;
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let is_cut = text.len() == line.len() && is_cut_in_name(text);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            let found = if is_cut {
                Some(LogLine::Damaged)
            } else {
                LogLine::parse(text)
            };
            if let Some(found) = found {
                self.take_line(found);
            }
        }
    }

    /// Returns the log.
    pub fn finish(mut self) -> AstraLog {
        if self.log.known_lines > 0 {
            self.log.runs += 1;
        }
        self.log
    }

    fn take_line(&mut self, found: LogLine<'_>) {
        if self.begins_anew(&found) {
            self.forget_run();
        }
        self.log.known_lines += 1;
        match found {
            LogLine::Node {
                rank,
                is_end,
                tick,
                id,
                name,
            } => self.take_node(rank, is_end, tick, id, name),
            LogLine::Finished {
                rank,
                tick,
                exposed_ns,
            } => {
                let known = self.log.ranks.entry(rank).or_default();
                known.finished_ns = Some(tick);
                known.exposed_ns = Some(exposed_ns);
                self.log.last_ns = tick;
            }
            LogLine::Statistic { rank, what, ns } => {
                let known = self.log.ranks.entry(rank).or_default();
                known.statistics.set(what, ns);
            }
            LogLine::Critical(text) => self.take_critical(text),
            LogLine::Exiting => self.log.has_end = true,
            LogLine::Other => {}
            LogLine::Damaged => {
                self.log.damaged += 1;
                self.log.first_damaged.get_or_insert(self.log.lines);
            }
        }
    }

    /// Returns true if a line belongs to a different simulation than the lines before.
    fn begins_anew(&self, line: &LogLine<'_>) -> bool {
        // A simulation ends with warnings of its threads, which can follow its last line.
        let says_nothing = matches!(line, LogLine::Critical(_) | LogLine::Exiting);
        if self.log.has_end && !says_nothing {
            return true;
        }
        match *line {
            LogLine::Finished { rank, tick, .. } => {
                let known = self.log.ranks.get(&rank);
                let is_done = known.is_some_and(|known| known.finished_ns.is_some());
                is_done || tick < self.log.last_ns
            }
            LogLine::Node { tick, .. } => tick < self.log.last_ns,
            _ => false,
        }
    }

    fn forget_run(&mut self) {
        let before = std::mem::take(&mut self.log);
        self.log.runs = before.runs + 1;
        self.log.lines = before.lines;
    }

    fn take_node(&mut self, rank: i64, is_end: bool, tick: i64, id: u64, name: &[u8]) {
        self.log.last_ns = tick;
        let name = self.log.names.intern(&crate::utf8(name));
        let nodes = &mut self.log.ranks.entry(rank).or_default().nodes;
        if !is_end {
            let line = self.log.lines;
            let node = LoggedNode {
                name,
                start_ns: tick,
                end_ns: None,
                line,
            };
            nodes.insert(id, node);
        } else if let Some(node) = nodes.get_mut(&id) {
            node.end_ns = Some(tick);
        } else {
            self.log.without_begin += 1;
        }
    }

    fn take_critical(&mut self, text: &[u8]) {
        if memmem::find(text, b"Only GPU and COMM types are supported").is_some() {
            self.log.statistics_dropped = true;
        } else if self.log.critical.len() < MAX_MESSAGES {
            self.log.critical.push(crate::utf8(text).into_owned());
        }
    }
}

impl LoggedStatistics {
    fn set(&mut self, what: &[u8], ns: i64) {
        let place = match what {
            b"Wall time" => &mut self.wall_ns,
            b"CPU time" => &mut self.host_ns,
            b"GPU time" => &mut self.device_ns,
            b"Comm time" => &mut self.communication_ns,
            b"Total compute-communication overlap" => &mut self.overlap_ns,
            _ => return,
        };
        *place = Some(ns);
    }
}

impl<'l> LogLine<'l> {
    /// Parses a line; returns `None` if it is not the simulator's.
    fn parse(line: &'l [u8]) -> Option<LogLine<'l>> {
        for (head, is_end) in [
            (&b"issue,sys->id="[..], false),
            (b"callback,sys->id=", true),
        ] {
            if let Some(rest) = after_prefix(line, head) {
                return Some(parse_node(rest, is_end).unwrap_or(LogLine::Damaged));
            }
        }
        if let Some(rest) = after_prefix(line, b"sys[") {
            return Some(parse_rank(rest));
        }
        let is = |what: &[u8]| memmem::find(line, what).is_some();
        if let Some(at) = memmem::find(line, b"[critical] ") {
            return Some(LogLine::Critical(&line[at + b"[critical] ".len()..]));
        }
        if is(b"[system] [warning] Exiting") {
            return Some(LogLine::Exiting);
        }
        let components = [&b"[system"[..], b"[workload", b"[statistics", b"[astraccl"];
        components
            .iter()
            .any(|name| is(name))
            .then_some(LogLine::Other)
    }
}

/// Returns the text after `head` if a line's message begins with `head`. Time, component and level
/// precede the message, in a format that a configuration can change.
fn after_prefix<'l>(line: &'l [u8], head: &[u8]) -> Option<&'l [u8]> {
    let at = memmem::find(line, head)?;
    let is_begin = at == 0 || line[at - 1] == b' ';
    is_begin.then(|| &line[at + head.len()..])
}

/// Returns true if the last line of a log has no line end, belongs to a node and ends in the node's
/// name. A line with an end contains a name with a line break.
fn is_cut_in_name(line: &[u8]) -> bool {
    let has = |part: &[u8]| memmem::find(line, part).is_some();
    has(b", node->name=") && !has(b", node->type=")
}

/// Parses `0, tick=15001, node->id=1, node->name=aten::mm, node->type=4`.
fn parse_node(rest: &[u8], is_end: bool) -> Option<LogLine<'_>> {
    let (rank, rest) = number(rest)?;
    let (tick, rest) = tick(rest.strip_prefix(b", tick=")?)?;
    let (id, rest) = number(rest.strip_prefix(b", node->id=")?)?;
    let name = rest.strip_prefix(b", node->name=")?;
    // A name with a line break is split there, and the type is in a later line.
    let end = memmem::rfind(name, b", node->type=").unwrap_or(name.len());
    Some(LogLine::Node {
        rank,
        is_end,
        tick,
        id: id.cast_unsigned(),
        name: &name[..end],
    })
}

/// Parses `0] finished, 5 cycles, exposed communication 5 cycles.`, or `0], Wall time: 5`.
fn parse_rank(rest: &[u8]) -> LogLine<'_> {
    let Some((rank, rest)) = number(rest) else {
        return LogLine::Other;
    };
    if let Some(rest) = rest.strip_prefix(b"] finished, ") {
        let times = tick(rest).and_then(|(tick, rest)| {
            let (exposed_ns, rest) =
                number(rest.strip_prefix(b" cycles, exposed communication ")?)?;
            rest.starts_with(b" cycles").then_some((tick, exposed_ns))
        });
        return times.map_or(LogLine::Damaged, |(tick, exposed_ns)| LogLine::Finished {
            rank,
            tick,
            exposed_ns,
        });
    }
    // `sys[0]. Post statistics processing start.` and unknown lines are irrelevant.
    let statistic = rest.strip_prefix(b"], ").and_then(|rest| {
        let colon = memmem::find(rest, b": ")?;
        let (ns, end) = number(&rest[colon + 2..])?;
        end.is_empty().then_some((&rest[..colon], ns))
    });
    statistic.map_or(LogLine::Other, |(what, ns)| LogLine::Statistic {
        rank,
        what,
        ns,
    })
}

/// Parses a time at the beginning, in nanoseconds. No simulation takes 100 days: such a number is
/// damage, and its sums would overflow.
fn tick(text: &[u8]) -> Option<(i64, &[u8])> {
    const MOST_NS: i64 = 1 << 53;
    number(text).filter(|(tick, _)| (0..MOST_NS).contains(tick))
}

/// Parses the integer at the beginning. ASTRA-sim's integers are unsigned, and negative differences
/// wrap.
fn number(text: &[u8]) -> Option<(i64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(digits);
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((number.cast_signed(), rest))
}
