//! Questions about another device, answered from recordings of it, else from the peaks of both.

use super::predicted::{PredictedTimes, PredictionBasis, WorkPlace};
use super::transfer_cost::RankAnswer;
use crate::predict::{LearnedBasis, LearnedOp, LearnedTimes, USUAL_BALANCE};
use crate::{DevicePeaks, Precision, list_text};
use etlink_link::roofline::{
    OpCall, RooflineFormula, RooflineWork, op_call, op_types, op_work, row_owner, row_work,
};
use etlink_link::{LinkedTrace, Node, NodeKind};
use etlink_model::{DurationNs, NameId, OpIdx, RowIdx, RowKind};
use etlink_replay::GraphEdits;
use rustc_hash::FxHashMap;

/// Error of the sum of kernel times by recordings of ops of other shapes, as a share: on five models
/// and two devices it was off by 25 % at most.
const NEIGHBOUR_ERROR: f64 = 0.3;
/// The same by peak rates, where it was off by 108 % at most.
const PEAK_ERROR: f64 = 1.1;
/// Error of a duration that was recorded on the device, in another run.
const RECORDED_ERROR: f64 = 0.05;

/// Share of the kernel time by peak rates above which a note says so.
const MOST_BY_PEAKS: f64 = 0.2;

/// Time of the shortest kernels on current devices, which only launch, in ns: 960 on an H200, 1,470 on an
/// H100 in public traces.
const SHORTEST_KERNEL_NS: i64 = 1_000;

/// Distance from which neighbours tell less than the op's own duration and the peak rates of two
/// devices of one vendor, which run the same kernels. Across vendors they tell more.
const FAR: f64 = 1.0;

/// Devices of a change.
struct Change {
    own: DevicePeaks,
    other: DevicePeaks,
    own_memory: f64,
    other_memory: f64,
}

/// Scales kernels to the times that their ops take on another device: by recordings of that device,
/// else by the peak rates of both.
pub(super) fn change_device(
    trace: &LinkedTrace,
    name: &str,
    learned: Option<&LearnedTimes>,
) -> Result<RankAnswer, String> {
    let change = Change::new(trace, name)?;
    if learned.is_none() && change.own.name() == change.other.name() {
        return Err(format!("it was recorded on {}", change.own.name()));
    }
    let learned = match learned {
        Some(times) => times,
        None => LearnedTimes::built_in().map_err(|error| error.to_string())?,
    };
    let by_op = learned_factors(trace, &change, learned);
    let by_name = factors_by_name(trace, &by_op);
    let works = row_work(trace, &op_work(trace));
    let mut edits = GraphEdits::default();
    let mut times = PredictedTimes::default();
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        let Some(row) = kernel_row(trace, &node) else {
            // Copies count as work of the device, as in questions about sizes.
            if trace.row_of(&node).is_some() && node.kind != NodeKind::Collective {
                let unchanged = (WorkPlace::Device, PredictionBasis::SameWork);
                times.add(unchanged, node.duration, 1.0);
            }
            continue;
        };
        let at = row.index();
        let known = match row_owner(trace, at) {
            Some(op) => by_op.get(&op).copied(),
            None => {
                let of_name = by_name.get(&trace.device.rows.name[at]);
                of_name.map(|factor| (*factor, PredictionBasis::Name))
            }
        };
        let (factor, basis) = known.unwrap_or_else(|| {
            let types = trace.row_op[at].get().map_or("", |op| op_types(trace, op));
            let factor = change.peak_factor(&works[at], types);
            (factor, PredictionBasis::PeakRates)
        });
        let factor = match basis {
            PredictionBasis::SameShapes => factor,
            _ => factor.max(least_factor(node.duration)),
        };
        let error = match basis {
            PredictionBasis::SameShapes => RECORDED_ERROR,
            PredictionBasis::Neighbours | PredictionBasis::Name => NEIGHBOUR_ERROR,
            _ => PEAK_ERROR,
        };
        times.add((WorkPlace::Device, basis), node.duration, factor);
        edits.scaled.push((index, factor));
        edits.errors.push((index, error));
    }
    if edits.is_empty() {
        return Err("it has no kernels".to_owned());
    }
    let by_peaks = times.share(|(_, basis)| basis == PredictionBasis::PeakRates);
    let notes = if by_peaks > MOST_BY_PEAKS {
        vec![format!(
            "{:.0} % of the device work follows from peak rates alone: `etlink learn` \
             collects times of ops from recordings of that device",
            100.0 * by_peaks
        )]
    } else {
        vec![]
    };
    Ok(RankAnswer::predicted(edits, notes, (times, vec![])))
}

/// Returns the factor that leaves a kernel the time of the shortest ones.
fn least_factor(duration: DurationNs) -> f64 {
    let least = duration.0.min(SHORTEST_KERNEL_NS);
    least as f64 / duration.0.max(1) as f64
}

/// Returns the row of a kernel that computes: communication depends on links, and copies from and to
/// the host on the bus.
fn kernel_row(trace: &LinkedTrace, node: &Node) -> Option<RowIdx> {
    let row = trace.row_of(node)?;
    let is_kernel = trace.device.rows.kind[row.index()] == RowKind::Kernel;
    (is_kernel && node.kind != NodeKind::Collective).then_some(row)
}

/// Returns the factor on the kernels of each op with recordings of its kind on the other device.
fn learned_factors(
    trace: &LinkedTrace,
    change: &Change,
    learned: &LearnedTimes,
) -> FxHashMap<usize, (f64, PredictionBasis)> {
    let mut factors = FxHashMap::default();
    let device = change.other.name();
    if !learned.has_device(&device) {
        return factors;
    }
    let mut own_ns: FxHashMap<usize, i64> = FxHashMap::default();
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        if let Some(row) = kernel_row(trace, &node)
            && let Some(op) = row_owner(trace, row.index())
        {
            *own_ns.entry(op).or_default() += node.duration.0;
        }
    }
    let works = op_work(trace);
    let roof_ns = |op: &LearnedOp| change.roof_ns(op);
    // most ops are called many times with the same arguments
    let mut known: FxHashMap<OpCall<'_>, Option<(f64, LearnedBasis)>> = FxHashMap::default();
    for (op, ns) in own_ns {
        let Some(work) = works.get(op) else {
            continue;
        };
        let told = known.entry(op_call(trace, op)).or_insert_with_key(|call| {
            let asked = asked_op(call, work);
            learned.op_ns(&device, &asked, roof_ns)
        });
        if let Some((predicted, basis)) = told
            && ns > 0
        {
            let basis = match basis {
                LearnedBasis::SameShapes => PredictionBasis::SameShapes,
                LearnedBasis::Neighbours(far) if *far > FAR && change.is_one_vendor() => continue,
                LearnedBasis::Neighbours(_) => PredictionBasis::Neighbours,
            };
            factors.insert(op, (*predicted / ns as f64, basis));
        }
    }
    factors
}

/// Returns the factor of all kernels of a name whose ops have one, for kernels launched before the
/// recording.
fn factors_by_name(
    trace: &LinkedTrace,
    by_op: &FxHashMap<usize, (f64, PredictionBasis)>,
) -> FxHashMap<NameId, f64> {
    let mut sums: FxHashMap<NameId, [f64; 2]> = FxHashMap::default();
    for index in trace.nodes.indices() {
        let node = trace.nodes.get(index);
        if let Some(row) = kernel_row(trace, &node)
            && let Some(op) = row_owner(trace, row.index())
            && let Some((factor, _)) = by_op.get(&op)
        {
            let name = trace.device.rows.name[row.index()];
            let [own, predicted] = sums.entry(name).or_default();
            *own += node.duration.0 as f64;
            *predicted += node.duration.0 as f64 * factor;
        }
    }
    let known = sums.into_iter().filter(|(_, [own, _])| *own > 0.0);
    known
        .map(|(name, [own, predicted])| (name, predicted / own))
        .collect()
}

/// Describes an op as the files of learned times do.
fn asked_op(call: &OpCall<'_>, work: &RooflineWork) -> LearnedOp {
    let has_operations = work.formula != RooflineFormula::Bytes;
    LearnedOp {
        formula: work.formula.name().to_owned(),
        dtype: LearnedOp::first_dtype(call.types).to_owned(),
        op: call.name.to_owned(),
        shapes: LearnedOp::plain_lists(&list_text(call.shapes)),
        strides: LearnedOp::plain_lists(&list_text(call.strides)),
        operations: if has_operations { work.operations } else { 0 },
        bytes: work.bytes,
        ..LearnedOp::default()
    }
}

impl Change {
    fn new(trace: &LinkedTrace, name: &str) -> Result<Change, String> {
        let other = DevicePeaks::find_short(name).ok_or_else(|| unknown_device(name))?;
        let own_name = trace.device.header.devices.first();
        let own_name = own_name.filter(|name| !name.is_empty());
        let own_name = own_name.ok_or("it does not name its device")?;
        let own = DevicePeaks::find(own_name, None).ok_or_else(|| unknown_device(own_name))?;
        let memory = |peaks: &DevicePeaks, name: &str| {
            let unknown = || {
                format!(
                    "{name} is a name of devices with different memories: their bandwidth is not known"
                )
            };
            peaks.gb_per_s.ok_or_else(unknown)
        };
        Ok(Change {
            own_memory: memory(&own, own_name)?,
            other_memory: memory(&other, name)?,
            own,
            other,
        })
    }

    /// True if both devices are of AMD or both of NVIDIA.
    fn is_one_vendor(&self) -> bool {
        let [own, other] = [&self.own, &self.other].map(|peaks| peaks.name().starts_with("mi"));
        own == other
    }

    /// Ratio of the times of work at the peak rates. Most kernels of unknown work are elementwise and
    /// memory-bound.
    fn peak_factor(&self, work: &RooflineWork, types: &str) -> f64 {
        let rate = |peaks: &DevicePeaks| peaks.tflops(precision(types));
        let by_work = rate(&self.own)
            .zip(rate(&self.other))
            .and_then(|(own_rate, other_rate)| {
                let time = least_seconds(work, own_rate, self.own_memory);
                let other_time = least_seconds(work, other_rate, self.other_memory);
                (time > 0.0).then(|| other_time / time)
            });
        by_work.unwrap_or(self.own_memory / self.other_memory)
    }

    /// Time of an op at the peak rates of the other device, ns.
    fn roof_ns(&self, op: &LearnedOp) -> f64 {
        let memory = op.bytes as f64 / self.other_memory;
        let multiplies = ["matmul", "convolution", "attention"];
        let is_product = multiplies.iter().any(|word| op.formula.contains(word));
        match self.other.tflops(precision(&op.dtype)) {
            Some(tflops) if is_product => memory.max(op.operations as f64 / (tflops * 1e3)),
            _ => memory,
        }
    }
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
