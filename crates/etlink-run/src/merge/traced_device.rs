//! Identifies the device of a rank and its data sheet figures, for a simulator's roofline.

use etlink_analysis::{DevicePeaks, Precision};
use etlink_chakra::{RooflineDevice, RooflinePeaks};
use etlink_link::LinkedTrace;
use etlink_model::RowKind;

/// Returns the device of a rank's first kernel.
pub(crate) fn traced_device(trace: &LinkedTrace) -> RooflineDevice {
    let rows = &trace.device.rows;
    let kernel = rows.kind.iter().position(|kind| *kind == RowKind::Kernel);
    let queue = kernel.and_then(|row| trace.device.queues.get(rows.queue[row].index()));
    let Some(device) = queue.map(|queue| queue.device) else {
        return RooflineDevice::default();
    };
    let name = trace.device.header.device_name(device).unwrap_or_default();
    let sheet = DevicePeaks::find(name, trace.device.multiprocessors(device));
    RooflineDevice {
        name: name.to_owned(),
        sheet: sheet.and_then(|sheet| roofline_peaks(&sheet)),
    }
}

/// Returns the peaks for a simulator, which has one for all: 16 bits, as in most models' products.
fn roofline_peaks(sheet: &DevicePeaks) -> Option<RooflinePeaks> {
    Some(RooflinePeaks {
        tflops: whole(sheet.tflops(Precision::Fp16)?),
        gb_per_s: whole(sheet.gb_per_s?),
    })
}

fn whole(figure: f64) -> u64 {
    figure.round().max(1.0) as u64
}
