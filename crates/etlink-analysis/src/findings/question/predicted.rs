//! Time and memory of a predicted run.

use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::DurationNs;
use serde::Serialize;
use std::collections::BTreeMap;

/// Place of predicted work.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkPlace {
    /// Kernels, copies and memsets, without communication.
    Device,
    /// Ops that work on the host.
    Host,
}

/// What a predicted duration rests on.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, BorshSerialize, BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PredictionBasis {
    /// The recorded duration, and the op's work before and after.
    Shapes,
    /// The recorded duration: the op's work does not change.
    SameWork,
    /// The recorded duration, as often as there are layers.
    Repeated,
    /// Recordings of the other device, of the same ops with the same shapes.
    SameShapes,
    /// Recordings of the other device, of ops of other shapes.
    Neighbours,
    /// The peak rates of both devices.
    PeakRates,
    /// The factor of other kernels of the same name: its op was not recorded.
    Name,
    /// Nothing: the op has no shapes, and the recorded duration stays.
    Nothing,
}

/// Time of work in the recorded and in the predicted run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PredictedTime {
    /// Place of the work.
    pub place: WorkPlace,
    /// What the predicted time rests on.
    pub basis: PredictionBasis,
    /// Sum of the recorded durations.
    pub recorded_ns: DurationNs,
    /// Sum of the predicted durations.
    pub predicted_ns: DurationNs,
}

/// Peak of allocated memory in the recorded and in the predicted run.
#[derive(Clone, Debug, PartialEq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PredictedMemory {
    /// `cuda`, `hip`, …
    pub device_type: String,
    /// Number of the device.
    pub device: i64,
    /// Largest number of bytes allocated at once in the recording.
    pub recorded_bytes: u64,
    /// Largest number of bytes allocated at once in the predicted run.
    pub predicted_bytes: u64,
    /// Share of the recorded allocations that belong to no tensor of known shape and keep their
    /// size.
    pub unknown_share: f64,
}

/// Times by place and basis.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub(super) struct PredictedTimes(BTreeMap<(WorkPlace, PredictionBasis), [DurationNs; 2]>);

impl PredictedTimes {
    pub(super) fn add(
        &mut self,
        key: (WorkPlace, PredictionBasis),
        duration: DurationNs,
        factor: f64,
    ) {
        let [recorded, predicted] = self.0.entry(key).or_default();
        *recorded += duration;
        *predicted += DurationNs((duration.0 as f64 * factor).round() as i64);
    }

    /// Adds the times of another rank.
    pub(super) fn extend(&mut self, other: &PredictedTimes) {
        for (key, [recorded, predicted]) in &other.0 {
            let own = self.0.entry(*key).or_default();
            own[0] += *recorded;
            own[1] += *predicted;
        }
    }

    pub(super) fn list(&self) -> Vec<PredictedTime> {
        let times = self.0.iter();
        times
            .map(|((place, basis), [recorded, predicted])| PredictedTime {
                place: *place,
                basis: *basis,
                recorded_ns: *recorded,
                predicted_ns: *predicted,
            })
            .collect()
    }

    /// Share of the recorded time that rests on nothing.
    pub(super) fn unknown_share(&self) -> f64 {
        self.share(|(_, basis)| basis == PredictionBasis::Nothing)
    }

    /// Share of the recorded time that changes with shapes or layers.
    pub(super) fn changed_share(&self) -> f64 {
        let changes = [PredictionBasis::Shapes, PredictionBasis::Repeated];
        self.share(|(_, basis)| changes.contains(&basis))
    }

    /// Share of the recorded time with these places and bases.
    pub(super) fn share(&self, is_part: impl Fn((WorkPlace, PredictionBasis)) -> bool) -> f64 {
        let all: i64 = self.0.values().map(|times| times[0].0).sum();
        let parts = self.0.iter().filter(|(key, _)| is_part(**key));
        let part: i64 = parts.map(|(_, times)| times[0].0).sum();
        part as f64 / all.max(1) as f64
    }
}
