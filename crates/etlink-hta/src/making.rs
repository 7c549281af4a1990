//! Intermediate results that several tables share; each is computed once, on first use.

use super::ProfilerStep;
use super::kernels::{self, NameStats};
use super::rows::HtaTrace;
use super::series::{self, BandwidthSeries, QueueSeries};
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// A trace and the intermediate results of its tables.
pub(super) struct Making<'l, 't> {
    pub(super) loaded: &'l HtaTrace<'t>,
    queues: OnceCell<Vec<QueueSeries>>,
    bandwidths: OnceCell<Vec<BandwidthSeries>>,
}

impl<'l, 't> Making<'l, 't> {
    pub(super) fn new(loaded: &'l HtaTrace<'t>) -> Making<'l, 't> {
        Making {
            loaded,
            queues: OnceCell::new(),
            bandwidths: OnceCell::new(),
        }
    }

    pub(super) fn queues(&self) -> &[QueueSeries] {
        self.queues
            .get_or_init(|| series::queue_series(self.loaded))
    }

    pub(super) fn bandwidths(&self) -> &[BandwidthSeries] {
        let made = || series::bandwidth_series(self.loaded);
        self.bandwidths.get_or_init(made)
    }

    pub(super) fn annotations(&self, most: usize) -> Vec<NameStats> {
        kernels::annotation_stats(self.loaded, self.loaded.annotations(), most)
    }

    pub(super) fn device_annotations(&self, most: usize) -> Vec<NameStats> {
        kernels::annotation_stats(self.loaded, self.loaded.device_annotations(), most)
    }

    pub(super) fn profiler_steps(&self) -> Vec<ProfilerStep> {
        // A step has a range on the host and one on each device, all with the same number.
        let steps: BTreeSet<u64> = self.loaded.steps.iter().map(|step| step.number).collect();
        let steps = steps.into_iter();
        steps.map(|step| ProfilerStep { step }).collect()
    }
}
