//! The longest gaps of devices, and what the host did while devices waited for it.

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

/// Gaps that are kept per device.
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
    /// What took most of it.
    pub cause: GapCause,
    /// How much of it, ns.
    pub cause_ns: i64,
    /// What the thread that launched the next row, or gave that one its work, did longest until
    /// then: the innermost op, annotation or runtime call. None where the host was not late, or
    /// the trace shows nothing.
    pub host: Option<String>,
    /// For how long in this gap, ns.
    pub host_ns: i64,
    /// The row whose end begins the gap.
    pub row_before: String,
    /// The row that ends it.
    pub row_after: String,
}

/// Idle time of a device in which the host had not launched the next row, by what it did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostIdle {
    /// Device number.
    pub device: i64,
    /// Innermost op, annotation or runtime call of the launching thread, or of the one that gave
    /// it work; none where the trace shows nothing. Time in which a thread idles is not here.
    pub host: Option<String>,
    /// Gaps that have a part of it.
    pub gaps: u64,
    /// Idle time, ns.
    pub idle_ns: i64,
    /// Of all idle time of the device that is the host's.
    pub share: f64,
}

/// A gap that is kept, by its length; of equal ones the earlier.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KeptGap {
    length_ns: i64,
    start_ns: Reverse<i64>,
    parts: GapParts,
    before: Option<usize>,
    after: usize,
    host: Option<NameId>,
    host_ns: i64,
}

/// What is known of a device's gaps so far.
#[derive(Clone, Debug, Default)]
struct DeviceGaps {
    longest: BinaryHeap<Reverse<KeptGap>>,
    /// Idle time, ns, and gaps by name.
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

    /// A gap of device place `device` between the rows `before` and `after`. O(log gaps + ranges of
    /// the host in it).
    pub(super) fn add(
        &mut self,
        device: usize,
        parts: GapParts,
        before: Option<usize>,
        after: usize,
    ) {
        let (host, host_ns) = self.add_host_time(device, &parts, after);
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

    /// What the launching thread did longest while it was late, and for how long.
    fn add_host_time(
        &mut self,
        device: usize,
        parts: &GapParts,
        after: usize,
    ) -> (Option<NameId>, i64) {
        let late = (parts.from, parts.called);
        let Some(call) = self.rows.trace.row_call[after].get() else {
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
        // of equal ones the first
        let longest = here.into_iter().rev().max_by_key(|(_, ns)| *ns);
        longest.unwrap_or((None, 0))
    }

    /// The longest first, per device; and the host's part by falling time, per device.
    pub(super) fn finish(self) -> (Vec<IdleGap>, Vec<HostIdle>) {
        let (mut gaps, mut hosts) = (vec![], vec![]);
        let names = &self.rows.trace.device.names;
        for (found, device) in self.devices.into_iter().zip(&self.rows.devices) {
            let kept = found.longest.into_sorted_vec();
            gaps.extend(kept.into_iter().map(|Reverse(gap)| {
                let (cause, cause_ns) = gap.parts.largest();
                // Where the launching call blocks, that call is what the host is in.
                let call = self.rows.trace.row_call[gap.after].get();
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
                    row_before: gap
                        .before
                        .map(|row| self.rows.name(row).to_owned())
                        .unwrap_or_default(),
                    row_after: self.rows.name(gap.after).to_owned(),
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
