//! Work of ops and kernels: operations and bytes moved, from the shapes in the traces.
//!
//! ```text
//! op name, shapes, types ──> tensors ──> formula ──> Work of an op ──> shared by its kernels
//! ```
//! Formulas follow `torch.utils.flop_counter`, except for causal attention; see
//! [`RooflineFormula`]. O(ops + rows): repeated shapes are computed once.

mod attention;
mod convolution;
mod formulas;
mod libraries;
mod list_types;
mod outputs;
mod paged;
mod shapes;
mod values;

pub use formulas::{OpArguments, RooflineFormula};
pub use libraries::{has_all_arguments, work_from_shapes};
pub use shapes::{TensorShape, TensorShapes};
pub use values::ArgumentValues;

use crate::kernel_metrics::measured_work;
use crate::trace::LinkedTrace;
use etlink_model::{CollectiveKind, DurationNs, NameId, Names, OpIdx, RowIdx, RowKind};
use list_types::list_element_bytes;
use paged::{SequenceLengths, StepLengths, is_paged, paged_work};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Work of an op, a kernel or a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RooflineWork {
    /// Arithmetic operations; a multiplication and an addition count as two.
    pub operations: u64,
    /// Bytes read and written, counting each tensor once.
    pub bytes: u64,
    /// Source of the figures.
    pub formula: RooflineFormula,
}

/// Key of an op's work: ops with equal keys have equal work.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Signature<'t> {
    /// True if the names belong to the host trace.
    on_host: bool,
    name: NameId,
    /// Shapes and types of inputs, then of outputs.
    tensors: [NameId; 4],
    /// Scalars among the inputs, if the op's work depends on them.
    values: &'t str,
    /// Element size of lists whose types are not recorded, bytes; 0 if unknown.
    list_bytes: u64,
    /// Lengths of the step's sequences, if the op's work depends on them.
    lengths: Option<SequenceLengths>,
}

/// Returns the work of each CPU op by its own arguments, including its children's. O(ops).
pub fn op_work(trace: &LinkedTrace) -> Vec<RooflineWork> {
    let ops = &trace.device.ops;
    let mut known: FxHashMap<Signature<'_>, RooflineWork> = FxHashMap::default();
    let mut tensors = [TensorShapes::default(), TensorShapes::default()];
    let lists = list_element_bytes(trace);
    let steps = StepLengths::new(trace);
    let mut of = |op: usize| {
        let (names, mut signature) = signature(trace, op);
        signature.list_bytes = lists.get(&op).copied().unwrap_or(0);
        if is_paged(names.get(signature.name)) {
            signature.lengths = steps.at(ops.start[op]);
        }
        *known.entry(signature).or_insert_with(|| {
            let texts = signature.tensors.map(|id| names.get(id));
            let [shapes, types, out_shapes, out_types] = texts;
            tensors[0].read(shapes, types);
            tensors[0].set_list_bytes(signature.list_bytes);
            tensors[1].read(out_shapes, out_types);
            let arguments = OpArguments {
                inputs: &tensors[0],
                outputs: if tensors[1].is_empty() {
                    None
                } else {
                    Some(&tensors[1])
                },
                values: ArgumentValues::new(signature.values),
            };
            work_in_step(names.get(signature.name), arguments, signature.lengths)
        })
    };
    (0..ops.len()).map(&mut of).collect()
}

/// Returns the work of an op in a step with these lengths of sequences.
fn work_in_step(
    name: &str,
    arguments: OpArguments<'_>,
    lengths: Option<SequenceLengths>,
) -> RooflineWork {
    let in_step =
        lengths.and_then(|lengths| paged_work(name, arguments.inputs, arguments.values, lengths));
    in_step.unwrap_or_else(|| work_from_shapes(name, arguments))
}

/// Returns the types of an op's inputs as list text, as in the traces.
pub fn op_types(trace: &LinkedTrace, op: OpIdx) -> &str {
    let (names, signature) = signature(trace, op.index());
    let [_, types, _, _] = signature.tensors;
    names.get(types)
}

/// Arguments of an op as list texts; equal for calls with equal arguments. Texts that the traces
/// lack are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpCall<'t> {
    /// Name of the op.
    pub name: &'t str,
    /// Shapes of the inputs.
    pub shapes: &'t str,
    /// Types of the inputs.
    pub types: &'t str,
    /// Strides of the inputs, in elements.
    pub strides: &'t str,
    /// Scalars and lists of numbers; `""` for tensors.
    pub values: Cow<'t, str>,
}

/// Returns the name and the arguments of the op with a number of [`row_owner`]: from the host trace,
/// if it has the op. O(text).
pub fn op_call(trace: &LinkedTrace, owner: usize) -> OpCall<'_> {
    let call = owner.checked_sub(trace.device.ops.len());
    if let Some(op) = call.and_then(|call| trace.captured.as_ref()?.op(call)) {
        return OpCall {
            name: op.name,
            shapes: op.shapes,
            types: op.types,
            strides: op.strides,
            values: Cow::Borrowed(op.values),
        };
    }
    let op = OpIdx::new(owner);
    let (names, signature) = signature(trace, op.index());
    let ops = &trace.device.ops;
    let [shapes, types, ..] = signature.tensors.map(|id| names.get(id));
    let (strides, values) = match (&trace.host, trace.op_host[op.index()].get()) {
        (Some(host), Some(node)) => {
            let inputs = &host.nodes.inputs[node.index()];
            let text = std::str::from_utf8(host.span(inputs.values)).unwrap_or("");
            (inputs.strides, Cow::Owned(without_tensors(text, types)))
        }
        _ => {
            let text = trace.device.names.get(ops.values[op.index()]);
            (ops.strides[op.index()], Cow::Borrowed(text))
        }
    };
    OpCall {
        name: names.get(signature.name),
        shapes,
        types,
        strides: names.get(strides),
        values,
    }
}

/// Replaces the tensors of a host trace's list by `""`, or by `"=N"` if argument N is the same one:
/// they are numbers that no two calls share.
fn without_tensors(values: &str, types: &str) -> String {
    let types: Vec<&str> = types.split('"').skip(1).step_by(2).collect();
    let arguments = ArgumentValues::new(values);
    let all: Vec<&str> = arguments.iter().map(str::trim).collect();
    let is_tensor = |at: usize| types.get(at).is_some_and(|of| of.contains("Tensor"));
    let kept = all.iter().enumerate().map(|(at, value)| {
        if !is_tensor(at) {
            return (*value).to_owned();
        }
        let is_same =
            |other: &usize| value.starts_with('[') && all[*other] == *value && is_tensor(*other);
        let mut earlier = 0..at;
        match earlier.find(is_same) {
            Some(earlier) => format!("\"={earlier}\""),
            None => "\"\"".to_owned(),
        }
    });
    format!("[{}]", kept.collect::<Vec<_>>().join(", "))
}

/// Returns the name and the types of the op whose work a device row does: of the op at capture time
/// for a kernel of a graph launch, if it is known.
pub fn row_op_texts(trace: &LinkedTrace, row: RowIdx) -> Option<(&str, &str)> {
    let captured = trace.captured.as_ref();
    if let Some(op) = captured.and_then(|captured| captured.of(row)) {
        return Some((op.name, op.types));
    }
    let op = trace.row_op[row.index()].get()?;
    let name = trace.device.ops.name[op.index()];
    Some((trace.device_name(name), op_types(trace, op)))
}

/// Returns the work of each call of a captured op.
fn captured_work(trace: &LinkedTrace) -> Vec<RooflineWork> {
    let Some(captured) = &trace.captured else {
        return vec![];
    };
    // the steps that replay the captured calls
    let steps = StepLengths::new(trace);
    let mut lengths = vec![None; captured.calls()];
    for (row, call) in trace.row_call.iter().enumerate() {
        if let (Some(of), Some(call)) = (captured.call_of(RowIdx::new(row)), call.get()) {
            lengths[of] = steps.at(trace.device.calls.start[call.index()]);
        }
    }
    type CapturedKey<'t> = ([&'t str; 4], Option<SequenceLengths>);
    let mut known: FxHashMap<CapturedKey<'_>, RooflineWork> = FxHashMap::default();
    let mut inputs = TensorShapes::default();
    let mut work = vec![];
    for (call, lengths) in lengths.into_iter().enumerate() {
        let Some(op) = captured.op(call) else {
            continue;
        };
        let lengths = if is_paged(op.name) { lengths } else { None };
        let key = ([op.name, op.shapes, op.types, op.values], lengths);
        work.push(*known.entry(key).or_insert_with(|| {
            inputs.read(op.shapes, op.types);
            let arguments = OpArguments {
                inputs: &inputs,
                outputs: None,
                values: ArgumentValues::new(op.values),
            };
            work_in_step(op.name, arguments, lengths)
        }));
    }
    work
}

/// Returns the key of an op's work, with its names: from the host trace, which also has outputs, if
/// it has the op.
fn signature(trace: &LinkedTrace, op: usize) -> (&Names, Signature<'_>) {
    let ops = &trace.device.ops;
    let on_host = trace.op_host.get(op).and_then(|node| node.get());
    if let (Some(host), Some(node)) = (&trace.host, on_host) {
        let (nodes, node) = (&host.nodes, node.index());
        let (inputs, outputs) = (&nodes.inputs[node], &nodes.outputs[node]);
        let name = nodes.name[node];
        // the list has ids of tensors, which no other op shares: it is part of few keys
        let values = if ["attention", "attn", "mha_", "conv", "index_select"]
            .iter()
            .any(|part| host.names.get(name).contains(part))
        {
            std::str::from_utf8(host.span(inputs.values)).unwrap_or("")
        } else {
            ""
        };
        let signature = Signature {
            on_host: true,
            name,
            tensors: [inputs.shapes, inputs.types, outputs.shapes, outputs.types],
            values,
            list_bytes: 0,
            lengths: None,
        };
        return (&host.names, signature);
    }
    let none = NameId::default();
    let signature = Signature {
        on_host: false,
        name: ops.name[op],
        tensors: [ops.shapes[op], ops.types[op], none, none],
        values: trace.device.names.get(ops.values[op]),
        list_bytes: 0,
        lengths: None,
    };
    (&trace.device.names, signature)
}

/// Returns the work that each CPU op does on the host. Ops have none if they, or ops they call,
/// launch device rows, or if called ops do the work: for ops that PyTorch counts, called ops that
/// are counted too; for others, any. Ranges around ops (`MulBackward0`) have none. Takes the result
/// of [`op_work`]. O(ops + rows).
pub fn host_work(trace: &LinkedTrace, ops: &[RooflineWork]) -> Vec<RooflineWork> {
    let (mut counted, mut any) = (vec![false; ops.len()], vec![false; ops.len()]);
    for owner in trace.row_op.iter().filter_map(|owner| owner.get()) {
        counted[owner.index()] = true;
    }
    // ops are sorted by start, so called ops come after their callers
    for op in (0..ops.len()).rev() {
        let Some(parent) = trace.op_parent[op].get().map(OpIdx::index) else {
            continue;
        };
        counted[parent] |= counted[op] || ops[op].formula.is_counted();
        any[parent] |= any[op] || ops[op].formula != RooflineFormula::None;
    }
    // Every registered op has a namespace (`aten::mul`); ranges around ops have none.
    let names = &trace.device.ops.name;
    let mut own = Vec::with_capacity(ops.len());
    for (op, work) in ops.iter().enumerate() {
        let is_op = trace.device_name(names[op]).contains("::");
        let elsewhere = counted[op] || any[op] && !work.formula.is_counted() || !is_op;
        own.push(if elsewhere {
            RooflineWork::default()
        } else {
            *work
        });
    }
    own
}

/// Returns the work of each device row: for a copy the bytes it moves; for a kernel its share of
/// its op's work, by duration, so an op's kernels add up to it. Takes the result of [`op_work`].
/// O(rows).
pub fn row_work(trace: &LinkedTrace, ops: &[RooflineWork]) -> Vec<RooflineWork> {
    let rows = &trace.device.rows;
    let owners = [ops, &captured_work(trace)].concat();
    let mut total = vec![DurationNs(0); owners.len()];
    for row in 0..rows.len() {
        if let Some(owner) = kernel_owner(trace, row) {
            total[owner] += at_least_one(rows.duration[row]);
        }
    }
    let mut before = vec![DurationNs(0); owners.len()];
    let mut work = Vec::with_capacity(rows.len());
    for row in 0..rows.len() {
        let Some(owner) = kernel_owner(trace, row) else {
            work.push(copy(trace, row));
            continue;
        };
        let from = before[owner];
        before[owner] += at_least_one(rows.duration[row]);
        // Differences of rounded sums, so the shares add up to the op's work exactly.
        let RooflineWork {
            operations, bytes, ..
        } = owners[owner];
        let share = (from, before[owner], total[owner]);
        work.push(RooflineWork {
            operations: part_between(operations, share),
            bytes: part_between(bytes, share),
            ..owners[owner]
        });
    }
    take_measured(trace, &mut work);
    work
}

/// Replaces the formulas' results with a kernel's measured work.
fn take_measured(trace: &LinkedTrace, work: &mut [RooflineWork]) {
    for (row, measured) in measured_work(trace) {
        let work = &mut work[row.index()];
        // A measurement without tensor cores tells less about a product than its shapes do.
        let is_whole = measured.has_tensor || !work.formula.is_counted();
        if is_whole && let Some(operations) = measured.operations {
            work.operations = operations;
            work.formula = RooflineFormula::Measured;
        }
        if let Some(bytes) = measured.bytes {
            work.bytes = bytes;
        }
        // A kernel without an op has no formula; only its bytes are known.
        if work.formula == RooflineFormula::None {
            work.formula = RooflineFormula::Bytes;
        }
    }
}

/// Returns the number of the op whose work a kernel does, captured calls after all ops; `None` for
/// copies and collectives.
fn kernel_owner(trace: &LinkedTrace, row: usize) -> Option<usize> {
    let computes = trace.device.rows.kind[row] == RowKind::Kernel && !communicates(trace, row);
    if computes {
        row_owner(trace, row)
    } else {
        None
    }
}

/// Returns the number of the op that a device row belongs to: of a CPU op, or the number of CPU ops
/// plus that of a call captured in a graph.
pub fn row_owner(trace: &LinkedTrace, row: usize) -> Option<usize> {
    let captured = trace.captured.as_ref();
    match captured.and_then(|captured| captured.call_of(RowIdx::new(row))) {
        Some(call) => Some(trace.device.ops.len() + call),
        None => trace.row_op[row].get().map(OpIdx::index),
    }
}

fn communicates(trace: &LinkedTrace, row: usize) -> bool {
    trace
        .row_collective(RowIdx::new(row))
        .is_some_and(|found| found.kind() != CollectiveKind::Other)
}

fn at_least_one(duration: DurationNs) -> DurationNs {
    duration.max(DurationNs(1))
}

/// `all · done / total`, rounded down.
fn part(all: u64, done: DurationNs, total: DurationNs) -> u64 {
    let (done, total) = (done.0.unsigned_abs(), total.0.unsigned_abs());
    u64::try_from(u128::from(all) * u128::from(done) / u128::from(total.max(1))).unwrap_or(all)
}

/// Returns the share of `all` between two times of the total time.
fn part_between(all: u64, (from, until, total): (DurationNs, DurationNs, DurationNs)) -> u64 {
    part(all, until, total) - part(all, from, total)
}

/// Work of a copy: within a device it reads and writes there; to or from the host it does only one
/// of these.
fn copy(trace: &LinkedTrace, row: usize) -> RooflineWork {
    let rows = &trace.device.rows;
    let within =
        rows.kind[row] == RowKind::Memcpy && trace.device_name(rows.name[row]).contains("DtoD");
    match rows.bytes[row] {
        0 => RooflineWork::default(),
        bytes => RooflineWork {
            operations: 0,
            bytes: bytes.saturating_mul(1 + u64::from(within)),
            formula: RooflineFormula::Copy,
        },
    }
}

#[cfg(test)]
mod tests;
