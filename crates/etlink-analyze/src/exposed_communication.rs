//! When devices communicate and do nothing else, and how long of that they only wait.
//!
//! A kernel of NCCL runs from when its own rank arrives. Until the last rank has, it waits, and the
//! device looks busy. One trace alone cannot tell this from the transfer: when the others arrived,
//! the join of the ranks says.
//!
//! ```text
//! rank 0   |= gemm =|~~~~~~ waits ~~~~~|= all_reduce =|      waiting: ~, where no gemm and no
//! rank 1   |======== gemm =============|= all_reduce =|      copy runs beside it
//! ```

use crate::breakdown::work_sets;
use crate::intervals::{Intervals, by_mask};
use crate::outside_time::is_from_before;
use crate::rows::ClassifiedRows;
use crate::rules::KernelRules;
use crate::steps::step_times;
use crate::utilization::{Utilization, utilizations};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::LinkedTrace;
use etlink_model::{NodeIdx, UnixNs};

/// A wait of a rank in a communication of its device, by the rank's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommunicationWait {
    /// The communication's node.
    pub node: NodeIdx,
    /// When the rank has arrived.
    pub start_ns: UnixNs,
    /// How much later the last rank does, ns.
    pub waits_ns: i64,
}

/// How busy the devices of a trace are, and with which communication.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct DeviceUse {
    /// Per device with rows, by number.
    pub utilization: Vec<Utilization>,
    /// When nothing but communication makes them busy.
    pub exposed: ExposedCommunication,
}

/// When nothing but communication makes devices busy. It does not need the trace any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct ExposedCommunication {
    devices: Vec<DeviceCommunication>,
}

/// The same of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
struct DeviceCommunication {
    /// Nodes of its rows that communicate, ascending.
    nodes: Vec<NodeIdx>,
    /// When only these run, by the clock of the rank, ns.
    exposed: Intervals,
}

/// Of each device of a trace, as [`analyze`](crate::analyze) has it. O(n log n) in the events.
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

/// When only communication of these rows runs, inside of the window; by the rank's clock.
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
    /// How long devices do nothing but wait in communications for other ranks, summed over
    /// devices, ns. A time in which two of them wait counts once. O(waits log waits + intervals).
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
