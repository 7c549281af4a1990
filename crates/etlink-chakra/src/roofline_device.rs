//! The device that the times of a roofline are for, and what kernels take by it.

use serde::{Deserialize, Serialize};

/// What a device can do at most: by these a roofline says how long work takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RooflinePeaks {
    /// 10¹² operations per second.
    pub tflops: u64,
    /// Of its memory, 10⁹ bytes per second.
    pub gb_per_s: u64,
}

impl Default for RooflinePeaks {
    /// Those of ASTRA-sim's example of eight H100 (`inputs/system/analytical/hgx_h100_8gpu.json`).
    fn default() -> RooflinePeaks {
        RooflinePeaks {
            tflops: 700,
            gb_per_s: 3350,
        }
    }
}

impl RooflinePeaks {
    /// How long so much work takes, ns, as ASTRA-sim's `Roofline` has it.
    pub fn time_ns(&self, operations: u64, bytes: u64) -> u64 {
        let compute = u128::from(operations) / (u128::from(self.tflops.max(1)) * 1000);
        let compute = u64::try_from(compute).unwrap_or(u64::MAX);
        compute.max(bytes / self.gb_per_s.max(1))
    }
}

/// A device, or those of all ranks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RooflineDevice {
    /// As traces call it; empty where there is none.
    pub name: String,
    /// What its data sheet says, if that is known.
    pub sheet: Option<RooflinePeaks>,
}

impl RooflineDevice {
    /// The device of a run, by those of its ranks. Where they differ none is known: a simulator has
    /// one for all ranks.
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

    /// Those of its data sheet, or of ASTRA-sim's example.
    pub fn peaks(&self) -> RooflinePeaks {
        self.sheet.unwrap_or_default()
    }
}

/// How long a kernel took, and takes by a roofline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelTimes {
    /// How many nodes.
    pub nodes: u64,
    /// What they took, ns.
    pub measured_ns: u64,
    /// What they take by the roofline, ns.
    pub roofline_ns: u64,
}

impl KernelTimes {
    /// Adds others of the same name.
    pub fn add(&mut self, other: &KernelTimes) {
        self.nodes += other.nodes;
        self.measured_ns = self.measured_ns.saturating_add(other.measured_ns);
        self.roofline_ns = self.roofline_ns.saturating_add(other.roofline_ns);
    }
}
