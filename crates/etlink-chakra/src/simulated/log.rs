//! The log of ASTRA-sim: its console output, or `log/log.log`.
//!
//! Lines are those of `Workload.cc` and `Statistics.cc`:
//!
//! ```text
//! … [workload] [debug] issue,sys->id=0, tick=0, node->id=1, node->name=aten::mm, node->type=4
//! … [workload] [debug] callback,sys->id=0, tick=15001, node->id=1, node->name=…, node->type=4
//! … [workload] [info] sys[0] finished, 24139021 cycles, exposed communication 4708016 cycles.
//! … [statistics] [info] sys[0], Wall time: 24139021
//! ```
//! The first two are there with `"trace-enabled": 1` alone, and in the file alone. A cycle is a
//! nanosecond. The simulator appends to a log that is there already, so the last of its runs is
//! taken: time goes back where one begins.

use etlink_model::{NameId, Names};
use indexmap::IndexMap;
use memchr::memmem;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

/// Longer lines are cut: a name can be a kernel's, but a binary file can have lines of gigabytes.
const MAX_LINE: u64 = 1 << 20;
/// Messages that are kept.
const MAX_MESSAGES: usize = 16;

/// Whether a text begins like a log: one of its first lines is the simulator's, with a level.
pub fn is_astra_log(head: &[u8]) -> bool {
    const LINES: usize = 200;
    // as spdlog writes them: other programs use it too, with components of their own
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

/// What the log of one simulation says.
#[derive(Clone, Debug, Default)]
pub struct AstraLog {
    /// By rank.
    pub ranks: BTreeMap<i64, LoggedRank>,
    /// The names that [`LoggedNode::name`] numbers.
    pub names: Names,
    /// How many simulations the log holds, of which this is the last.
    pub runs: u64,
    /// What the simulator calls critical, but for its statistics.
    pub critical: Vec<String>,
    /// Ranks' statistics were dropped, since they have nodes of the host.
    pub statistics_dropped: bool,
    /// Nodes that end and do not begin: the beginning of the log is missing.
    pub without_begin: u64,
    /// Lines that begin as one of the simulator's and do not go on so.
    pub damaged: u64,
    /// The first of these, from 1.
    pub first_damaged: Option<u64>,
    /// Lines of any content.
    pub lines: u64,
    /// Lines of ASTRA-sim.
    pub known_lines: u64,
    /// The last time that the log has, ns.
    pub last_ns: i64,
    /// The simulator's last line of the run is there.
    pub has_end: bool,
}

/// What the log says of a rank.
#[derive(Clone, Debug, Default)]
pub struct LoggedRank {
    /// When it finished, ns; `None`: it did not.
    pub finished_ns: Option<i64>,
    /// Its time without computation on a device, which ASTRA-sim calls exposed communication, ns.
    pub exposed_ns: Option<i64>,
    /// What it prints at the end.
    pub statistics: LoggedStatistics,
    /// Its nodes by id, in the order in which they were issued.
    pub nodes: IndexMap<u64, LoggedNode, FxBuildHasher>,
}

/// ASTRA-sim's own sums of a rank, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoggedStatistics {
    /// `Wall time`.
    pub wall_ns: Option<i64>,
    /// `CPU time`: nodes of the host.
    pub host_ns: Option<i64>,
    /// `GPU time`: computation on devices.
    pub device_ns: Option<i64>,
    /// `Comm time`.
    pub communication_ns: Option<i64>,
    /// `Total compute-communication overlap`.
    pub overlap_ns: Option<i64>,
}

/// A node that was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedNode {
    /// Its name.
    pub name: NameId,
    /// When it was issued, ns.
    pub start_ns: i64,
    /// When it was done, ns; `None`: it was not.
    pub end_ns: Option<i64>,
    /// Line of the log, from 1.
    pub line: u64,
}

/// Reads a log, which can be several files.
#[derive(Debug, Default)]
pub struct AstraLogReader {
    log: AstraLog,
}

/// A line of the simulator that says something.
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
    /// The last of a simulation.
    Exiting,
    /// One that says nothing here.
    Other,
    /// One that is cut.
    Damaged,
}

impl AstraLogReader {
    /// Reads a file of the log; the files come in the order in which they were written.
    ///
    /// # Errors
    /// The source fails.
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

    /// What was read.
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

    /// Whether a line is of another simulation than those before it.
    fn begins_anew(&self, line: &LogLine<'_>) -> bool {
        // A simulation ends with warnings of its threads, which can come after its last line.
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
    /// `None` for a line that is not the simulator's.
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

/// What follows `head` where the message of a line begins so. Before it stand time, component and
/// level, by a pattern that a configuration can change.
fn after_prefix<'l>(line: &'l [u8], head: &[u8]) -> Option<&'l [u8]> {
    let at = memmem::find(line, head)?;
    let is_begin = at == 0 || line[at - 1] == b' ';
    is_begin.then(|| &line[at + head.len()..])
}

/// Whether the last line of a log, which has no end, is that of a node and ends in its name. A line
/// that has an end is that of a name with a line end in it.
fn is_cut_in_name(line: &[u8]) -> bool {
    let has = |part: &[u8]| memmem::find(line, part).is_some();
    has(b", node->name=") && !has(b", node->type=")
}

/// `0, tick=15001, node->id=1, node->name=aten::mm, node->type=4`.
fn parse_node(rest: &[u8], is_end: bool) -> Option<LogLine<'_>> {
    let (rank, rest) = number(rest)?;
    let (tick, rest) = tick(rest.strip_prefix(b", tick=")?)?;
    let (id, rest) = number(rest.strip_prefix(b", node->id=")?)?;
    let name = rest.strip_prefix(b", node->name=")?;
    // A name that has a line end is cut there, and the type stands in a later line.
    let end = memmem::rfind(name, b", node->type=").unwrap_or(name.len());
    Some(LogLine::Node {
        rank,
        is_end,
        tick,
        id: id.cast_unsigned(),
        name: &name[..end],
    })
}

/// `0] finished, 5 cycles, exposed communication 5 cycles.`, or `0], Wall time: 5`.
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
    // `sys[0]. Post statistics processing start.` and what is not known say nothing.
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

/// A time at the beginning, ns. No simulation takes 100 days: such a number is damage, and sums of it
/// would overflow.
fn tick(text: &[u8]) -> Option<(i64, &[u8])> {
    const MOST_NS: i64 = 1 << 53;
    number(text).filter(|(tick, _)| (0..MOST_NS).contains(tick))
}

/// The whole number at the beginning. ASTRA-sim's are unsigned, and differences that would be
/// below 0 wrap.
fn number(text: &[u8]) -> Option<(i64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(digits);
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((number.cast_signed(), rest))
}
