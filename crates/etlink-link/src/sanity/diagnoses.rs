//! Recorders' messages about their own recording: Kineto's `ERROR` and `WARNING` lists, the table
//! `DIAGNOSTIC_EVENT` of Nsight Systems, errors and warnings of an XSpace.
//!
//! Most messages are harmless: one public trace has "gpuGetDeviceCount failed" and 1,313 device
//! rows. Relevant are messages that events were lost, and reasons for missing device rows.

use etlink_model::{Anomaly, AnomalyKind, DeviceTrace};

/// Words of messages about missing events.
const LOSS: [&str; 7] = [
    "dropped",
    "lost",
    "overflow",
    "exceeded",
    "out of memory",
    "not all ",
    "incomplete",
];

/// Words of messages about recorders of devices.
const RECORDERS: [&str; 6] = [
    "cupti",
    "roctracer",
    "rocprofiler",
    "cuda profiling",
    "cuda trace",
    "privilege",
];

/// Counts the messages about data missing in figures.
pub(super) fn note_diagnoses(device: &mut DeviceTrace) {
    let diagnoses = &device.header.diagnoses;
    let has_any = |text: &str, words: &[&str]| {
        let text = text.to_ascii_lowercase();
        words.iter().any(|word| text.contains(word))
    };
    let lost: Vec<&String> = diagnoses
        .iter()
        .filter(|text| has_any(text, &LOSS))
        .collect();
    let failed: Vec<&String> = if device.rows.is_empty() {
        let texts = diagnoses.iter();
        texts.filter(|text| has_any(text, &RECORDERS)).collect()
    } else {
        vec![]
    };
    for (kind, texts) in [
        (AnomalyKind::RecorderLost, lost),
        (AnomalyKind::RecorderFailed, failed),
    ] {
        let found = Anomaly {
            count: texts.len() as u64,
            first: texts.first().map(|text| format!("{text:?}")),
            ..Anomaly::default()
        };
        device.anomalies.add_all(kind, found);
    }
}
