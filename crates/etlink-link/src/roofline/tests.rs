//! Work, compared with what PyTorch says.

use super::*;
use etlink_model::{CpuOp, DeviceRow};

fn work(name: &str, shapes: &str, out_shapes: &str) -> RooflineWork {
    let types = |shapes: &str| {
        format!(
            "[{}]",
            vec!["\"Tensor(float)\""; shapes.matches('[').count() - 1].join(", ")
        )
    };
    let mut tensors = [TensorShapes::default(), TensorShapes::default()];
    tensors[0].read(shapes, &types(shapes));
    tensors[1].read(out_shapes, &types(out_shapes));
    work_from_shapes(
        name,
        &tensors[0],
        Some(&tensors[1]).filter(|outputs| !outputs.is_empty()),
    )
}

/// Figures of `torch.utils.flop_counter.FlopCounterMode`, PyTorch 2.15.0 on a CPU.
#[test]
fn operations_are_those_that_pytorch_counts() {
    for (name, inputs, outputs, operations, formula) in [
        (
            "aten::mm",
            "[[8, 16], [16, 24]]",
            "[[8, 24]]",
            6_144,
            RooflineFormula::Matmul,
        ),
        (
            "aten::mm",
            "[[40, 16], [16, 24]]",
            "[[40, 24]]",
            30_720,
            RooflineFormula::Matmul,
        ),
        (
            "aten::addmm",
            "[[24], [8, 16], [16, 24]]",
            "[[8, 24]]",
            6_144,
            RooflineFormula::Matmul,
        ),
        (
            "aten::addmm",
            "[[8], [8, 16], [16, 8]]",
            "[[8, 8]]",
            2_048,
            RooflineFormula::Matmul,
        ),
        (
            "aten::bmm",
            "[[3, 8, 16], [3, 16, 24]]",
            "[[3, 8, 24]]",
            18_432,
            RooflineFormula::Matmul,
        ),
        (
            "aten::baddbmm",
            "[[3, 8, 24], [3, 8, 16], [3, 16, 24]]",
            "[[3, 8, 24]]",
            18_432,
            RooflineFormula::Matmul,
        ),
        // of a linear and a matmul the mm that they call is counted
        (
            "aten::linear",
            "[[8, 16], [24, 16]]",
            "[[8, 24]]",
            6_144,
            RooflineFormula::Matmul,
        ),
        (
            "aten::matmul",
            "[[5, 8, 16], [16, 24]]",
            "[[5, 8, 24]]",
            30_720,
            RooflineFormula::Matmul,
        ),
        // stride 2, two groups
        (
            "aten::convolution",
            "[[2, 6, 20, 20], [8, 3, 3, 3]]",
            "[[2, 8, 10, 10]]",
            86_400,
            RooflineFormula::Convolution,
        ),
        // transposed, stride 2
        (
            "aten::convolution",
            "[[2, 6, 20], [6, 4, 5]]",
            "[[2, 4, 43]]",
            9_600,
            RooflineFormula::Convolution,
        ),
        (
            "aten::convolution_backward",
            "[[2, 4, 43], [2, 6, 20], [6, 4, 5]]",
            "[[2, 6, 20], [6, 4, 5]]",
            19_200,
            RooflineFormula::ConvolutionBackward,
        ),
        (
            "aten::_scaled_dot_product_flash_attention_for_cpu",
            "[[2, 4, 32, 16], [2, 4, 48, 16], [2, 4, 48, 16]]",
            "[[2, 4, 32, 16], [2, 4, 32]]",
            786_432,
            RooflineFormula::Attention,
        ),
        (
            "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
            "[[2, 4, 32, 16], [2, 4, 32, 16], [2, 4, 48, 16], [2, 4, 48, 16], [2, 4, 32, 16], [2, \
             4, 32]]",
            "[[2, 4, 32, 16], [2, 4, 48, 16], [2, 4, 48, 16]]",
            1_966_080,
            RooflineFormula::AttentionBackward,
        ),
    ] {
        let found = work(name, inputs, outputs);
        assert_eq!(
            (found.operations, found.formula),
            (operations, formula),
            "{name} {inputs}"
        );
    }
}

/// PyTorch counts 86 400 and 2 · 86 400 here: the weight's gradient for each pair of channels, be
/// they of one group or not.
#[test]
fn groups_of_a_convolution_count_once() {
    let inputs = "[[2, 8, 10, 10], [2, 6, 20, 20], [8, 3, 3, 3]]";
    assert_eq!(
        work(
            "aten::convolution_backward",
            inputs,
            "[[2, 6, 20, 20], [8, 3, 3, 3]]"
        )
        .operations,
        2 * 86_400
    );
    let mut tensors = [TensorShapes::default(), TensorShapes::default()];
    tensors[0].read(inputs, r#"["float", "float", "float"]"#);
    tensors[1].read(
        "[[], [8, 3, 3, 3]]",
        r#"["Tensor(nullptr (uninitialized))", "Tensor(float)"]"#,
    );
    assert_eq!(
        work_from_shapes("aten::convolution_backward", &tensors[0], Some(&tensors[1])).operations,
        86_400,
        "the first layer needs no gradient of its input"
    );
}

#[test]
fn kernels_level_attention_has_heads_last() {
    let found = work(
        "aten::_flash_attention_forward",
        "[[16, 559, 16, 64], [16, 559, 16, 64], [16, 559, 16, 64]]",
        "[]",
    );
    let above = work(
        "aten::_scaled_dot_product_flash_attention",
        "[[16, 16, 559, 64], [16, 16, 559, 64], [16, 16, 559, 64]]",
        "[]",
    );
    assert_eq!(
        (found, found.operations),
        (above, 2 * 16 * 16 * 559 * 559 * 128)
    );
    assert_eq!(
        work(
            "flash_attn::_flash_attn_varlen_forward",
            "[[888, 8, 64], [888, 1, 64], [888, 1, 64]]",
            "[]"
        )
        .formula,
        RooflineFormula::Bytes
    );
}

#[test]
fn bytes_are_those_of_all_tensors() {
    assert_eq!(
        work("aten::mm", "[[8, 16], [16, 24]]", "[[8, 24]]").bytes,
        4 * (128 + 384 + 192)
    );
    assert_eq!(
        work("aten::mm", "[[8, 16], [16, 24]]", "[]").bytes,
        4 * (128 + 384 + 192),
        "what is written follows"
    );
    assert_eq!(
        work("aten::add_", "[[100, 30], [30]]", "[]"),
        RooflineWork {
            operations: 3_000,
            bytes: 4 * (3_000 + 30 + 3_000),
            formula: RooflineFormula::Elementwise
        }
    );
    assert_eq!(
        work("aten::sum", "[[100, 30]]", "[[]]"),
        RooflineWork {
            operations: 3_000,
            bytes: 4 * 3_001,
            formula: RooflineFormula::Reduction
        }
    );
    assert_eq!(
        work("my::op", "[[100, 30]]", "[[5]]"),
        RooflineWork {
            operations: 3_000,
            bytes: 4 * 3_005,
            formula: RooflineFormula::Bytes
        }
    );
    assert_eq!(
        work("aten::view", "[[100, 30]]", "[[3000]]"),
        RooflineWork::default()
    );
    assert_eq!(
        work("aten::convolution", "[[2, 6, 20, 20], [8, 3, 3, 3]]", "[]").formula,
        RooflineFormula::Bytes,
        "the output's size is not known"
    );
}

#[test]
fn sizes_that_do_not_fit_stay_large() {
    let huge = "[[18446744073709551615, 3], [3, 18446744073709551615]]";
    assert_eq!(work("aten::mm", huge, "[]").operations, u64::MAX);
    for shapes in ["[[], []]", "[[0, 5], [5, 0]]", "[[5]]"] {
        work("aten::mm", shapes, "[]");
        work("aten::convolution", shapes, shapes);
        work("aten::_flash_attention_backward", shapes, shapes);
    }
}

/// ```text
/// linear [ addmm [ expand  clone [ copy_ ] ] ]   mul
/// ```
fn layer() -> LinkedTrace {
    let mut trace = LinkedTrace::default();
    let names = &mut trace.device.names;
    let types = names.intern(r#"["float", "float", "float"]"#);
    for (name, shapes, parent) in [
        ("aten::linear", "[[8, 16], [24, 16]]", None),
        ("aten::addmm", "[[24], [8, 16], [16, 24]]", Some(0)),
        ("aten::expand", "[[24]]", Some(1)),
        ("aten::clone", "[[24]]", Some(1)),
        ("aten::copy_", "[[24], [24]]", Some(3)),
        ("aten::mul", "[[24], [24]]", None),
        ("SumBackward0", "[[24]]", None),
    ] {
        let (name, shapes) = (names.intern(name), names.intern(shapes));
        trace.device.ops.push(CpuOp {
            name,
            shapes,
            types,
            collective: u32::MAX,
            ..CpuOp::default()
        });
        trace.op_host.push(HostIdx::NONE);
        trace.op_parent.push(parent.map_or(OpIdx::NONE, OpIdx::new));
    }
    trace
}

fn formulas(works: &[RooflineWork]) -> Vec<&str> {
    works.iter().map(|work| work.formula.name()).collect()
}

#[test]
fn on_the_host_the_op_that_does_it_has_the_work() {
    let trace = layer();
    let all = super::op_work(&trace);
    assert_eq!(
        formulas(&all),
        [
            "matmul",
            "matmul",
            "none",
            "bytes",
            "bytes",
            "elementwise",
            "bytes"
        ]
    );
    assert_eq!(
        formulas(&host_work(&trace, &all)),
        [
            "none",
            "matmul",
            "none",
            "none",
            "bytes",
            "elementwise",
            "none"
        ]
    );
}

#[test]
fn kernels_share_their_op_s_work() {
    let mut trace = layer();
    for (kind, duration, bytes) in [
        (RowKind::Kernel, 10, 0),
        (RowKind::Memset, 5, 64),
        (RowKind::Kernel, 0, 0),
        (RowKind::Kernel, 20, 0),
    ] {
        let duration = DurationNs(duration);
        trace.device.rows.push(DeviceRow {
            kind,
            duration,
            bytes,
            collective: u32::MAX,
            ..DeviceRow::default()
        });
        trace.row_op.push(OpIdx::new(1));
    }
    let all = super::op_work(&trace);
    let rows = row_work(&trace, &all);
    assert_eq!(formulas(&rows), ["matmul", "copy", "matmul", "matmul"]);
    let shared = |of: fn(&RooflineWork) -> u64| {
        rows.iter()
            .filter(|work| work.formula == RooflineFormula::Matmul)
            .map(of)
            .sum::<u64>()
    };
    assert_eq!(
        (shared(|work| work.operations), shared(|work| work.bytes)),
        (all[1].operations, all[1].bytes)
    );
    assert_eq!(rows[0].operations, 6_144 * 10 / 31);
    assert_eq!(
        rows[1],
        RooflineWork {
            operations: 0,
            bytes: 64,
            formula: RooflineFormula::Copy
        }
    );
    assert_eq!(
        formulas(&host_work(&trace, &all)),
        [
            "none",
            "none",
            "none",
            "none",
            "bytes",
            "elementwise",
            "none"
        ],
        "what launches does not do it itself"
    );
}
