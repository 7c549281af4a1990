//! Longest gaps of devices, and host activity while devices waited for the host.

use super::host::HostThreads;
use super::{GapCause, GapParts};
use crate::rows::ClassifiedRows;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::NameId;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Gaps kept per device.
const LONGEST: usize = 50;

/// One of the longest gaps of a device, in which none of its streams works.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleGap {
    /// Device number.
    pub device: i64,
    /// Start, ns since the origin of the trace.
    pub start_ns: i64,
    /// Length, ns.
    pub length_ns: i64,
    /// Cause of the largest part of the gap.
    pub cause: GapCause,
    /// Length of that part, ns.
    pub cause_ns: i64,
    /// Longest activity of the thread that launched the next row, or of the thread that handed over
    /// that work, until the launch: innermost op, annotation or runtime call. `None` if the host
    /// was not late, or the trace shows nothing.
    pub host: Option<String>,
    /// Duration of that activity in this gap, ns.
    pub host_ns: i64,
    /// Row whose end begins the gap; empty at the start of the window.
    pub row_before: String,
    /// Row whose start ends the gap; empty at the end of the window.
    pub row_after: String,
}

/// Idle time of a device in which the host had not launched the next row, by host activity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostIdle {
    /// Device number.
    pub device: i64,
    /// Innermost op, annotation or runtime call of the launching thread, or of the thread that
    /// handed over the work; `None` if the trace shows nothing. Excludes time in which a thread
    /// idles.
    pub host: Option<String>,
    /// Number of gaps with such a part.
    pub gaps: u64,
    /// Idle time, ns.
    pub idle_ns: i64,
    /// Share of the idle time of the device that the host causes.
    pub share: f64,
}

/// A kept gap, ordered by length; the earlier of equals is greater.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KeptGap {
    length_ns: i64,
    start_ns: Reverse<i64>,
    parts: GapParts,
    before: Option<usize>,
    after: Option<usize>,
    host: Option<NameId>,
    host_ns: i64,
}

/// State of a device's gaps so far.
#[derive(Clone, Debug, Default)]
struct DeviceGaps {
    longest: BinaryHeap<Reverse<KeptGap>>,
    /// Idle time in ns and number of gaps, by host activity.
    by_host: IndexMap<Option<NameId>, (i64, u64), FxBuildHasher>,
    /// Idle time in which the host was late, ns.
    late_ns: i64,
}

/// Collects the gaps of all devices, each device's in order of time.
pub(super) struct GapCollector<'r, 't> {
    rows: &'r ClassifiedRows<'t>,
    threads: HostThreads<'t>,
    devices: Vec<DeviceGaps>,
}

impl<'r, 't> GapCollector<'r, 't> {
    pub(super) fn new(rows: &'r ClassifiedRows<'t>) -> GapCollector<'r, 't> {
        GapCollector {
            rows,
            threads: HostThreads::new(rows.trace),
            devices: vec![DeviceGaps::default(); rows.devices.len()],
        }
    }

    /// Adds the gap between the rows `before` and `after` on the device at index `device`; without
    /// `after`, the gap lasts until the end of the window. O(log gaps + ranges of the host in it).
    pub(super) fn add(
        &mut self,
        device: usize,
        parts: GapParts,
        before: Option<usize>,
        after: Option<usize>,
    ) {
        let (host, host_ns) = self.add_host_time(device, &parts, after.or(before));
        let gap = KeptGap {
            length_ns: parts.to.saturating_sub(parts.from),
            start_ns: Reverse(parts.from),
            parts,
            before,
            after,
            host,
            host_ns,
        };
        let longest = &mut self.devices[device].longest;
        longest.push(Reverse(gap));
        if longest.len() > LONGEST {
            longest.pop();
        }
    }

    /// Adds the activities of the late thread, which launches `row`, and returns the longest with its
    /// duration.
    fn add_host_time(
        &mut self,
        device: usize,
        parts: &GapParts,
        row: Option<usize>,
    ) -> (Option<NameId>, i64) {
        let late = (parts.from, parts.called);
        let Some(call) = row.and_then(|row| self.rows.trace.row_call[row].get()) else {
            return (None, 0);
        };
        if late.1 <= late.0 {
            return (None, 0);
        }
        let thread = self.rows.trace.device.calls.thread[call.index()];
        let mut here: IndexMap<Option<NameId>, i64, FxBuildHasher> = IndexMap::default();
        self.threads.add_work(thread, late, |name, ns| {
            *here.entry(name).or_default() += ns;
        });
        let found = &mut self.devices[device];
        found.late_ns = found.late_ns.saturating_add(late.1 - late.0);
        let by_host = &mut found.by_host;
        for (name, ns) in &here {
            let (sum, gaps) = by_host.entry(*name).or_default();
            *sum = sum.saturating_add(*ns);
            *gaps += 1;
        }
        // the first of equals
        let longest = here.into_iter().rev().max_by_key(|(_, ns)| *ns);
        longest.unwrap_or((None, 0))
    }

    /// Returns the gaps per device, longest first, and the host's activities per device, by falling
    /// time.
    pub(super) fn finish(self) -> (Vec<IdleGap>, Vec<HostIdle>) {
        let (mut gaps, mut hosts) = (vec![], vec![]);
        let names = &self.rows.trace.device.names;
        let row_name =
            |row: Option<usize>| row.map_or_else(String::new, |row| self.rows.name(row).to_owned());
        for (found, device) in self.devices.into_iter().zip(&self.rows.devices) {
            let kept = found.longest.into_sorted_vec();
            gaps.extend(kept.into_iter().map(|Reverse(gap)| {
                let (cause, cause_ns) = gap.parts.largest();
                // If the launching call blocks, the host is in that call.
                let call = gap
                    .after
                    .and_then(|row| self.rows.trace.row_call[row].get());
                let call = if cause == GapCause::LaunchCall {
                    call
                } else {
                    None
                };
                let calls = &self.rows.trace.device.calls;
                let (host, host_ns) = match call {
                    Some(call) => (Some(calls.name[call.index()]), cause_ns),
                    None => (gap.host, gap.host_ns),
                };
                IdleGap {
                    device: *device,
                    start_ns: gap.start_ns.0,
                    length_ns: gap.length_ns,
                    cause,
                    cause_ns,
                    host: host.map(|name| names.get(name).to_owned()),
                    host_ns,
                    row_before: row_name(gap.before),
                    row_after: row_name(gap.after),
                }
            }));
            let mut by_host: Vec<_> = found.by_host.into_iter().collect();
            let whole = found.late_ns as f64;
            by_host.sort_by_key(|(_, (ns, _))| Reverse(*ns));
            hosts.extend(by_host.into_iter().map(|(name, (idle_ns, gaps))| HostIdle {
                device: *device,
                host: name.map(|name| names.get(name).to_owned()),
                gaps,
                idle_ns,
                share: idle_ns as f64 / whole.max(1.0),
            }));
        }
        (gaps, hosts)
    }
}
