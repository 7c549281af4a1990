//! Questions about another device, answered from the peaks of both devices.

use etlink_analyze::{DevicePeaks, Precision};
use etlink_link::roofline::{RooflineWork, op_types, op_work, row_work};
use etlink_link::{LinkedTrace, NodeKind};
use etlink_model::{OpIdx, RowKind};
use etlink_predict::USUAL_BALANCE;
use etlink_replay::GraphEdits;

/// Scales kernels to the time that the other device's peaks allow.
pub(super) fn change_device(trace: &LinkedTrace, name: &str) -> Result<GraphEdits, String> {
    let rows = &trace.device.rows;
    let peaks = |name: &str| DevicePeaks::find(name, None);
    let other = DevicePeaks::find_short(name).ok_or_else(|| unknown_device(name))?;
    let own_name = trace.device.header.devices.first();
    let own_name = own_name.ok_or("it does not name its device")?;
    let own = peaks(own_name).ok_or_else(|| unknown_device(own_name))?;
    let memory = own.gb_per_s.zip(other.gb_per_s);
    let (own_memory, other_memory) =
        memory.ok_or("the memory bandwidth of one of the devices is unknown")?;
    let works = row_work(trace, &op_work(trace));
    let mut edits = GraphEdits::default();
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let Some(row) = trace.row_of(&node) else {
            continue;
        };
        let at = row.index();
        // Communication depends on links, and copies from and to the host on the bus.
        if node.kind == NodeKind::Collective || rows.kind[at] != RowKind::Kernel {
            continue;
        }
        let op = trace.row_op[at].get();
        let types = op.map_or("", |op| op_types(trace, op));
        let rate = |peaks: &DevicePeaks| peaks.tflops(precision(types));
        let ratio = match rate(&own).zip(rate(&other)) {
            Some((own_rate, other_rate)) => {
                let time = least_seconds(&works[at], own_rate, own_memory);
                let other_time = least_seconds(&works[at], other_rate, other_memory);
                (time > 0.0).then(|| other_time / time)
            }
            None => None,
        };
        // Most kernels of unknown work are elementwise and memory-bound.
        edits
            .scaled
            .push((index, ratio.unwrap_or(own_memory / other_memory)));
    }
    if edits.is_empty() {
        return Err("it has no kernels".to_owned());
    }
    Ok(edits)
}

/// Returns the operations per byte of an op at which its device computes as long as it moves the
/// data.
pub(super) fn op_balance(trace: &LinkedTrace, op: OpIdx) -> f64 {
    let name = trace.device.header.devices.first();
    let peaks = name.and_then(|name| DevicePeaks::find(name, None));
    let rates = peaks.and_then(|peaks| {
        let tflops = peaks.tflops(precision(op_types(trace, op)))?;
        Some((tflops, peaks.gb_per_s?))
    });
    rates.map_or(USUAL_BALANCE, |(tflops, gb_per_s)| 1e3 * tflops / gb_per_s)
}

/// Operations per byte of work on the host at which a processor computes as long as it moves the
/// data: a core of 100 Gflop/s moves about 10 GB/s.
pub(super) const HOST_BALANCE: f64 = 10.0;

fn unknown_device(name: &str) -> String {
    format!(
        "the peaks of {name:?} are not known; known names contain: {}",
        DevicePeaks::names_like(name).join(", ")
    )
}

/// Returns the roofline's time: to compute or to move the data, whichever is longer.
fn least_seconds(work: &RooflineWork, tflops: f64, gb_per_s: f64) -> f64 {
    let compute = work.operations as f64 / (tflops * 1e12);
    let memory = work.bytes as f64 / (gb_per_s * 1e9);
    compute.max(memory)
}

/// Returns the precision of an op from its input types. Devices with TF32 units use them for fp32
/// only on request.
fn precision(types: &str) -> Precision {
    let lower = types.to_ascii_lowercase();
    let names = [
        ("bfloat16", Precision::Bf16),
        ("half", Precision::Fp16),
        ("float8", Precision::Fp8),
        ("double", Precision::Fp64),
    ];
    let found = names.iter().find(|(name, _)| lower.contains(name));
    found.map_or(Precision::Fp32, |(_, precision)| *precision)
}
