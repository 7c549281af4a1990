//! What HTA loads.

use super::Settings;
use crate::rules::RulesError;
use etlink_link::LinkedTrace;
use etlink_model::{Correlation, DurationNs, NameId, TimeNs};
use regex::Regex;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// HTA's classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Type {
    Computation,
    Communication,
    Memory,
    Other,
}

impl Type {
    pub(super) fn name(self) -> &'static str {
        match self {
            Type::Computation => "COMPUTATION",
            Type::Communication => "COMMUNICATION",
            Type::Memory => "MEMORY",
            Type::Other => "OTHER",
        }
    }
}

/// HTA's patterns, at the start of the name.
pub(super) struct Patterns {
    communication: Regex,
    memory: Regex,
    not_computation: Regex,
}

impl Patterns {
    pub(super) fn new() -> Result<Patterns, RulesError> {
        let pattern = |text: &str| Regex::new(&format!("^(?:{text})")).map_err(|error| RulesError::TooLarge(error.to_string()));
        Ok(Patterns {
            communication: pattern("nccl|hip|hccl|.*ncclKernel")?,
            memory: pattern("(hip)?Memcpy|(hip)?Memset|dma")?,
            not_computation: pattern(
                "nccl|.*Memcpy|.*Memset|.*dma|.*Sync|Stream Wait Event|cuda.*LaunchKernel|runFunction|hip|job_exe|packet|pe_exe|cpum_exe_subgraph|hccl|collective_subgraph_execution",
            )?,
        })
    }

    pub(super) fn of(&self, name: &str) -> Type {
        match () {
            () if self.communication.is_match(name) => Type::Communication,
            () if self.memory.is_match(name) => Type::Memory,
            () if !self.not_computation.is_match(name) => Type::Computation,
            () => Type::Other,
        }
    }
}

/// A device row; times in units of [`Loaded::unit_us`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: NameId,
    pub(super) of: Type,
    pub(super) stream: i64,
    pub(super) start: i64,
    pub(super) end: i64,
    /// Row of the trace's calls that has its correlation.
    pub(super) call: Option<usize>,
    pub(super) correlation: Correlation,
    /// A kernel, copy or memset; not a wait.
    pub(super) works: bool,
    pub(super) gb_per_s: f64,
}

impl Row {
    pub(super) fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// What is left of a trace.
pub(super) struct Loaded<'t> {
    pub(super) trace: &'t LinkedTrace,
    pub(super) rank: i64,
    /// By start.
    pub(super) rows: Vec<Row>,
    /// Numbers of the steps, ascending.
    pub(super) steps: Vec<u64>,
    /// Microseconds of one unit of time.
    pub(super) unit_us: f64,
    nanoseconds: bool,
}

impl<'t> Loaded<'t> {
    pub(super) fn new(trace: &'t LinkedTrace, patterns: &Patterns, settings: Settings) -> Loaded<'t> {
        let (nanoseconds, rank) = (settings.nanoseconds, trace.report.rank.unwrap_or(0));
        let mut loaded = Loaded { trace, rank, rows: vec![], steps: vec![], unit_us: if nanoseconds { 1e-3 } else { 1.0 }, nanoseconds };
        let (until, steps) = loaded.until(settings.include_last);
        loaded.steps = steps;
        loaded.rows = loaded.device_rows(patterns);
        if let Some(until) = until {
            loaded.keep_launched(until);
        }
        // as a stable sort of the file's order would have it
        loaded.rows.sort_by_key(|row| row.start);
        loaded
    }

    /// Start and end as HTA rounds them: by floating point, which decides where an end is a whole microsecond.
    pub(super) fn times(&self, start: TimeNs, duration: DurationNs) -> (i64, i64) {
        if self.nanoseconds {
            return (start.0, (start + duration).0);
        }
        // as parsing the decimal text gives it; nanoseconds since 1970 are more than a double holds
        let us = |ns: i64| ns.div_euclid(1_000) as f64 + ns.rem_euclid(1_000) as f64 / 1e3;
        let (ts, dur) = (us(start.0), us(duration.0));
        (ts.ceil() as i64, (ts + dur).floor() as i64)
    }

    /// Until when calls are kept (exclusive), if there are several steps, and the steps that are.
    fn until(&self, include_last: bool) -> (Option<i64>, Vec<u64>) {
        let device = &self.trace.device;
        let number: Vec<Option<u64>> = device.names.iter().map(|name| name.strip_prefix("ProfilerStep#")?.parse().ok()).collect();
        let ops = (0..device.ops.len()).filter_map(|op| Some((number[device.ops.name[op].index()]?, op)));
        let steps: Vec<(u64, i64, i64)> = ops
            .map(|(number, op)| {
                let (start, end) = self.times(device.ops.start[op], device.ops.duration[op]);
                (number, start, end)
            })
            .collect();
        let all: BTreeSet<u64> = steps.iter().map(|step| step.0).collect();
        if all.len() < 2 {
            return (None, all.into_iter().collect());
        }
        let until = match include_last {
            true => steps.iter().map(|step| step.2).max().map(|end| end.saturating_add(1)),
            false => steps.iter().map(|step| step.1).max(),
        };
        let kept: BTreeSet<u64> = steps.iter().filter(|step| until.is_none_or(|until| step.1 < until)).map(|step| step.0).collect();
        (until, kept.into_iter().collect())
    }

    fn device_rows(&self, patterns: &Patterns) -> Vec<Row> {
        let device = &self.trace.device;
        let mut known = vec![None; device.names.count()];
        let mut of = |name: NameId| *known[name.index()].get_or_insert_with(|| patterns.of(device.names.get(name)));
        let by_correlation: FxHashMap<Correlation, usize> = (0..device.calls.len())
            .filter(|call| device.calls.correlation[*call].get().is_some())
            .map(|call| (device.calls.correlation[call], call))
            .collect();
        let row = |name: NameId, of: Type, stream: i64, (start, end): (i64, i64), correlation: Correlation| {
            let call = by_correlation.get(&correlation).copied();
            Row { name, of, stream, start, end, call, correlation, works: false, gb_per_s: -1.0 }
        };
        let mut all = Vec::with_capacity(device.rows.len());
        for at in 0..device.rows.len() {
            let rows = &device.rows;
            let (stream, times) = (device.queues[rows.queue[at].index()].stream, self.times(rows.start[at], rows.duration[at]));
            let base = row(rows.name[at], of(rows.name[at]), stream, times, rows.correlation[at]);
            let call = self.trace.row_call[at].get().map(|call| call.index());
            all.push(Row { call: call.or(base.call), works: true, gb_per_s: rows.gb_per_s[at], ..base });
        }
        for at in 0..device.syncs.len() {
            let syncs = &device.syncs;
            let times = self.times(syncs.start[at], syncs.duration[at]);
            let stream = if syncs.unsigned[at] { i64::from(u32::MAX) } else { device.queues[syncs.queue[at].index()].stream };
            all.push(row(syncs.name[at], of(syncs.name[at]), stream, times, syncs.correlation[at]));
        }
        for at in 0..device.stream_ops.len() {
            let op = device.stream_ops.row(at);
            all.push(row(op.name, of(op.name), op.stream, self.times(op.start, op.duration), Correlation::NONE));
        }
        all.retain(|row| row.stream != -1);
        all
    }

    /// Rows of calls before `until`; a row comes as often as its correlation does.
    fn keep_launched(&mut self, until: i64) {
        let calls = &self.trace.device.calls;
        let mut times: FxHashMap<Correlation, usize> = FxHashMap::default();
        for call in (0..calls.len()).filter(|call| self.times(calls.start[*call], calls.duration[*call]).0 < until) {
            *times.entry(calls.correlation[call]).or_default() += 1;
        }
        let often = |row: &Row| row.correlation.get().and_then(|id| times.get(&id)).copied().unwrap_or(0);
        self.rows = self.rows.iter().flat_map(|row| std::iter::repeat_n(*row, often(row))).collect();
    }

    /// The name of a row.
    pub(super) fn name(&self, row: &Row) -> &'t str {
        self.trace.device_name(row.name)
    }

    /// Start and end of a call.
    pub(super) fn call(&self, call: usize) -> (i64, i64) {
        let calls = &self.trace.device.calls;
        self.times(calls.start[call], calls.duration[call])
    }

    /// Start of what HTA takes for a row's call: where no call has its correlation, the file's first event.
    pub(super) fn called(&self, row: &Row) -> Option<i64> {
        match row.call {
            Some(call) => Some(self.call(call).0),
            None => Some(self.times(self.trace.device.first_start?, DurationNs(0)).0).filter(|_| row.correlation.get().is_some()),
        }
    }

    /// The name of a call.
    pub(super) fn call_name(&self, call: usize) -> &'t str {
        self.trace.device_name(self.trace.device.calls.name[call])
    }

    /// A time as HTA writes it, us.
    pub(super) fn us(&self, time: i64) -> f64 {
        if self.nanoseconds { time as f64 / 1e3 } else { time as f64 * self.unit_us }
    }
}
