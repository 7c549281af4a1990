//! Finds the time in which devices only communicate, and how much of it is spent waiting.
//!
//! A NCCL kernel runs from its own rank's arrival. Until the last rank arrives, the kernel waits
//! and the device looks busy. A single trace cannot separate this wait from the transfer: the other
//! ranks' arrivals come from the join of the ranks.
//!
//! ```text
//! rank 0   |= gemm =|~~~~~~ waits ~~~~~|= all_reduce =|      waiting: ~, while no gemm and no
//! rank 1   |======== gemm =============|= all_reduce =|      copy runs
//! ```

use crate::breakdown::work_sets;
use crate::intervals::{Intervals, by_mask};
use crate::rows::ClassifiedRows;
use crate::rules::KernelRules;
use crate::steps::step_times;
use crate::utilization::{Utilization, utilizations};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::{LinkedTrace, is_from_before};
use etlink_model::{NodeIdx, UnixNs};

/// A rank's wait in a communication of its device, on the rank's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommunicationWait {
    /// Node of the communication.
    pub node: NodeIdx,
    /// Arrival of the rank.
    pub start_ns: UnixNs,
    /// Delay from this arrival to the last rank's, ns.
    pub waits_ns: i64,
}

/// Use of a trace's devices, with the communication that keeps them busy.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct DeviceUse {
    /// Utilization of each device with rows, sorted by device number.
    pub utilization: Vec<Utilization>,
    /// Time in which only communication keeps them busy.
    pub exposed: ExposedCommunication,
}

/// Time in which only communication keeps devices busy. Independent of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct ExposedCommunication {
    devices: Vec<DeviceCommunication>,
}

/// Exposed communication of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
struct DeviceCommunication {
    /// Nodes of its communication rows, ascending.
    nodes: Vec<NodeIdx>,
    /// Time in which only these rows run, by the rank's clock, ns.
    exposed: Intervals,
}

/// Computes the use of each device of a trace, as in [`analyze`](crate::analyze). O(n log n) in the
/// number of events.
pub fn device_use(trace: &LinkedTrace, rules: &KernelRules) -> DeviceUse {
    let rows = ClassifiedRows::new(trace, rules);
    let utilization = utilizations(&rows, &step_times(&rows));
    let devices = utilization.iter().zip(&rows.of_devices);
    let devices = devices.map(|(device, of_device)| {
        let end_ns = device.start_ns.saturating_add(device.window_ns);
        let window = (device.start_ns, end_ns);
        DeviceCommunication {
            nodes: vec![],
            exposed: exposed_intervals(&rows, of_device, window),
        }
    });
    let mut devices: Vec<DeviceCommunication> = devices.collect();
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        if let Some(row) = trace.row_of(&node)
            && let Some(device) = devices.get_mut(rows.device_place(row.index()))
            && trace.is_communication(&node)
        {
            device.nodes.push(index);
        }
    }
    DeviceUse {
        utilization,
        exposed: ExposedCommunication { devices },
    }
}

/// Returns the intervals of the window in which only communication of these rows runs, on the
/// rank's clock.
fn exposed_intervals(
    rows: &ClassifiedRows<'_>,
    of_device: &[usize],
    window: (i64, i64),
) -> Intervals {
    let launched = of_device.iter().copied();
    let launched = launched.filter(|row| !is_from_before(rows.trace, *row));
    let [computation, communication, memory, _] = work_sets(rows, launched, window);
    let header = &rows.trace.device.header;
    let unix_ns = |time| header.unix_time(etlink_model::TimeNs(time)).0;
    let mut exposed = Intervals::default();
    for (start, end) in communication.without(&computation).without(&memory).spans() {
        exposed.push(unix_ns(*start), unix_ns(*end));
    }
    exposed
}

impl ExposedCommunication {
    /// Time in which devices only wait in communications for other ranks, summed over devices, ns.
    /// Concurrent waits of a device count once. O(waits log waits + intervals).
    pub fn waiting_ns(&self, waits: &[CommunicationWait]) -> i64 {
        let devices = self.devices.iter();
        devices.fold(0, |sum, device| {
            sum.saturating_add(device.waiting_ns(waits))
        })
    }
}

impl DeviceCommunication {
    fn waiting_ns(&self, waits: &[CommunicationWait]) -> i64 {
        let own = waits.iter();
        let own = own.filter(|wait| self.nodes.binary_search(&wait.node).is_ok());
        let mut spans: Vec<(i64, i64)> = own
            .map(|wait| {
                (
                    wait.start_ns.0,
                    wait.start_ns.0.saturating_add(wait.waits_ns),
                )
            })
            .collect();
        spans.sort_unstable();
        let mut waiting = Intervals::default();
        for (start, end) in spans {
            waiting.push(start, end);
        }
        let times: [i64; 4] = by_mask(&[waiting, self.exposed.clone()]);
        times[0b11]
    }
}
