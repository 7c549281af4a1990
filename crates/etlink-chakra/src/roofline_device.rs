//! The device of a roofline, and the times of kernels by it.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;

/// Peak speeds of a device, from which a roofline computes the time of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct RooflinePeaks {
    /// Peak compute speed, in 10¹² operations per second.
    pub tflops: u64,
    /// Peak memory bandwidth, in 10⁹ bytes per second.
    pub gb_per_s: u64,
}

impl Default for RooflinePeaks {
    /// Returns the peaks of ASTRA-sim's example of eight H100
    /// (`inputs/system/analytical/hgx_h100_8gpu.json`).
    fn default() -> RooflinePeaks {
        RooflinePeaks {
            tflops: 700,
            gb_per_s: 3350,
        }
    }
}

impl RooflinePeaks {
    /// Returns the time of the work in nanoseconds, computed like ASTRA-sim's `Roofline`.
    pub fn time_ns(&self, operations: u64, bytes: u64) -> u64 {
        let compute = u128::from(operations) / (u128::from(self.tflops.max(1)) * 1000);
        let compute = u64::try_from(compute).unwrap_or(u64::MAX);
        compute.max(bytes / self.gb_per_s.max(1))
    }
}

/// A device, or the devices of all ranks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct RooflineDevice {
    /// Name of the device in traces; empty if there is none.
    pub name: String,
    /// Peaks from its data sheet; `None` if unknown.
    pub sheet: Option<RooflinePeaks>,
}

impl RooflineDevice {
    /// Returns the device of a run, given the devices of its ranks. If they differ, peaks are
    /// unknown, because a simulator has one device type for all ranks.
    pub fn of_run<'d>(ranks: impl IntoIterator<Item = &'d RooflineDevice>) -> RooflineDevice {
        let mut all: Vec<&RooflineDevice> = ranks.into_iter().collect();
        all.retain(|device| !device.name.is_empty());
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.dedup();
        let names: Vec<&str> = all.iter().map(|device| device.name.as_str()).collect();
        RooflineDevice {
            name: names.join(" and "),
            sheet: match all[..] {
                [only] => only.sheet,
                _ => None,
            },
        }
    }

    /// Explains in a clause why a named device has the peaks of ASTRA-sim's example; `None` if it
    /// has its own.
    pub fn assumed(&self) -> Option<String> {
        let is_assumed = self.sheet.is_none() && !self.name.is_empty();
        is_assumed.then(|| {
            format!(
                "of ASTRA-sim's example, an NVIDIA H100, because no known data sheet has both peaks \
                 of the traced device ({}), for 16-bit products and memory",
                self.name
            )
        })
    }

    /// Returns the peaks of the data sheet, or of ASTRA-sim's example if they are unknown.
    pub fn peaks(&self) -> RooflinePeaks {
        self.sheet.unwrap_or_default()
    }
}

/// Measured time and roofline time of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelTimes {
    /// Number of nodes.
    pub nodes: u64,
    /// Measured time of the nodes, in nanoseconds.
    pub measured_ns: u64,
    /// Roofline time of the nodes, in nanoseconds.
    pub roofline_ns: u64,
}

impl KernelTimes {
    /// Adds other nodes with the same name.
    pub fn add(&mut self, other: &KernelTimes) {
        self.nodes += other.nodes;
        self.measured_ns = self.measured_ns.saturating_add(other.measured_ns);
        self.roofline_ns = self.roofline_ns.saturating_add(other.roofline_ns);
    }
}
