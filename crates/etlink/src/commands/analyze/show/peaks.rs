//! Utilization of a device's peak rates.

use super::rows::over_text;
use super::{Analyzed, Shown, of_ranks, ranked_grid};
use crate::table::{Column, Limit, known, percent};
use etlink_analysis::PeakUse;
use etlink_analysis::peak_use::ENOUGH;

pub(super) fn peak_table(one: &Analyzed, limit: Limit) -> Shown {
    fn share_text(share: Option<f64>) -> String {
        known(share, |share| percent(share, 1))
    }
    fn peak_text(gb_per_s: Option<f64>) -> String {
        known(gb_per_s, |rate| format!("{rate} GB/s"))
    }
    let columns: &[Column<&PeakUse>] = &[
        ("device", |device| device.device.to_string()),
        ("MFU over", |device| {
            over_text(device.window, device.steps, device.window_ns)
        }),
        ("MFU", |device| share_text(device.mfu)),
        ("of roofline", |device| share_text(device.roof_share)),
        ("of peak bandwidth", |device| {
            share_text(device.bandwidth_share)
        }),
        ("memory-bound", |device| share_text(device.memory_bound)),
        ("peak bandwidth", |device| peak_text(device.gb_per_s)),
        ("peak link", |device| peak_text(device.link_gb_per_s)),
        ("known", |device| percent(device.covered, 1)),
        ("name", |device| device.name.clone()),
    ];
    let devices = || of_ranks(one, |rank| &rank.peaks);
    let mut sheets: Vec<&str> = devices().map(|(_, device)| &device.sheet[..]).collect();
    sheets.sort_unstable();
    sheets.dedup();
    let mut title =
        "use of device peaks (link: all links, one direction; known: share of kernel time \
        with known work"
            .to_owned();
    if devices().any(|(_, device)| device.covered < ENOUGH) {
        title += &format!("; no shares below {}", percent(ENOUGH, 0));
    }
    if devices().any(|(_, device)| lacks_memory_peak(device)) {
        title += "; no roofline share: the memory bandwidth of this device name is unknown";
    }
    if !sheets.is_empty() {
        title += &format!("; peaks: {}", sheets.join(", "));
    }
    if devices().next().is_none() {
        title += "; no device of the trace has known peaks";
    }
    (
        title + ")",
        ranked_grid(2, limit, columns, devices()).expendable([
            "peak bandwidth",
            "memory-bound",
            "MFU over",
        ]),
    )
}

/// Returns true if only the memory bandwidth is unknown, because variants of this device differ in
/// it: the work is known, but there is no roofline.
fn lacks_memory_peak(device: &PeakUse) -> bool {
    device.covered >= ENOUGH && device.gb_per_s.is_none()
}
