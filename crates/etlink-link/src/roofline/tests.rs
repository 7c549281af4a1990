//! Compares work with PyTorch's figures.

use super::*;
use etlink_model::{CpuOp, DeviceRow, HostIdx};

fn work(name: &str, shapes: &str, out_shapes: &str) -> RooflineWork {
    work_with_values(name, shapes, out_shapes, "")
}

/// Work of an op in a device trace, with its `Concrete Inputs`.
fn device_work(name: &str, shapes: &str, values: &str) -> RooflineWork {
    work_with_values(name, shapes, "[]", values)
}

fn work_with_values(name: &str, shapes: &str, out_shapes: &str, values: &str) -> RooflineWork {
    let types = |shapes: &str| {
        format!(
            "[{}]",
            vec!["\"Tensor(float)\""; shapes.matches('[').count() - 1].join(", ")
        )
    };
    let mut tensors = [TensorShapes::default(), TensorShapes::default()];
    tensors[0].read(shapes, &types(shapes));
    tensors[1].read(out_shapes, &types(out_shapes));
    let [inputs, outputs] = &tensors;
    let arguments = OpArguments {
        inputs,
        outputs: if outputs.is_empty() {
            None
        } else {
            Some(outputs)
        },
        values: ArgumentValues::new(values),
    };
    work_from_shapes(name, arguments)
}

/// The kernels touch one element for each target, and their calls of `zero_` fill the rest.
#[test]
fn losses_of_targets_touch_one_element_each() {
    let forward = work("aten::nll_loss_forward", "[[64, 1000], [64]]", "[[], []]");
    // 64 elements and 64 targets are read, two numbers written
    assert_eq!(
        (forward.operations, forward.bytes),
        (64, 4 * 64 * 2 + 4 * 2)
    );
    let shapes = "[[], [64, 1000], [64]]";
    let backward = work("aten::nll_loss_backward", shapes, "[[64, 1000]]");
    // the gradient of the loss and 64 targets are read, 64 elements written
    assert_eq!(
        (backward.operations, backward.bytes),
        (64, 4 + 4 * 64 + 4 * 64)
    );
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
        // for linear and matmul, the mm they call is counted
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

/// PyTorch counts 86 400 and 2 · 86 400 here: the weight's gradient for each pair of channels, even
/// across groups.
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
    let arguments = OpArguments {
        inputs: &tensors[0],
        outputs: Some(&tensors[1]),
        values: ArgumentValues::default(),
    };
    assert_eq!(
        work_from_shapes("aten::convolution_backward", arguments).operations,
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
        RooflineFormula::Unknown
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
        RooflineFormula::Unknown,
        "the output's size is not known"
    );
}

/// Kineto writes empty types and shapes for arguments that are no tensors.
const CONVOLUTION: &str = r#"["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"]"#;

/// Expected outputs come from PyTorch 2.15.0 on a CPU.
#[test]
fn outputs_of_convolutions_follow_from_their_arguments() {
    for (name, inputs, values, output) in [
        (
            "aten::convolution",
            "[[2, 6, 20, 20], [8, 3, 3, 3]]",
            CONVOLUTION,
            "[[2, 8, 10, 10]]",
        ),
        (
            "aten::cudnn_convolution",
            "[[32, 3, 224, 224], [64, 3, 7, 7]]",
            r#"["", "", "[3, 3]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"]"#,
            "[[32, 64, 112, 112]]",
        ),
        (
            "aten::_convolution",
            "[[2, 6, 20], [6, 4, 5]]",
            r#"["", "", "", "[2]", "[0]", "[1]", "True", "[0]", "1", "False", "False", "True", "True"]"#,
            "[[2, 4, 43]]",
        ),
        (
            "aten::conv_transpose2d",
            "[[1, 8, 5, 7], [8, 2, 3, 3]]",
            r#"["", "", "", "[2, 3]", "[1]", "[1, 1]", "4", "[2, 1]"]"#,
            "[[1, 8, 12, 20]]",
        ),
        (
            "aten::conv2d",
            "[[1, 4, 9, 9], [4, 1, 3, 3]]",
            r#"["", "", "", "[1, 1]", "same", "[2, 2]", "4"]"#,
            "[[1, 4, 9, 9]]",
        ),
        (
            "aten::miopen_convolution",
            "[[1, 4, 9, 9], [8, 4, 3, 3]]",
            r#"["", "", "", "[1, 1]", "[1, 1]", "[2, 2]", "1", "False", "False"]"#,
            "[[1, 8, 7, 7]]",
        ),
    ] {
        let recorded = work_with_values(name, inputs, output, values);
        assert_eq!(device_work(name, inputs, values), recorded, "{name}");
        assert_eq!(recorded.formula, RooflineFormula::Convolution, "{name}");
        let unknown = device_work(name, inputs, "").formula;
        assert_eq!(unknown, RooflineFormula::Unknown, "{name}");
    }
    let inputs = "[[2, 8, 10, 10], [2, 6, 20, 20], [8, 3, 3, 3]]";
    let asks = |mask: &str| {
        let values = format!(
            r#"["", "", "", "[8]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2", "{mask}"]"#
        );
        device_work("aten::convolution_backward", inputs, &values).operations
    };
    assert_eq!(asks("[False, True, True]") * 2, asks("[True, True, False]"));
}

/// Compares outputs with those of the same op with a host trace, which has PyTorch's outputs.
#[test]
fn outputs_without_a_host_trace_are_those_with_it() {
    for (name, inputs, values, output) in [
        ("aten::sum", "[[100, 30]]", r#"["", ""]"#, "[[]]"),
        (
            "aten::sum",
            "[[100, 30]]",
            r#"["", "[1]", "False", ""]"#,
            "[[100]]",
        ),
        (
            "aten::mean",
            "[[4, 5, 6]]",
            r#"["", "[-1, 0]", "True", ""]"#,
            "[[1, 5, 1]]",
        ),
        (
            "aten::amax",
            "[[4, 5, 6]]",
            r#"["", "[]", "False"]"#,
            "[[]]",
        ),
        (
            "aten::prod",
            "[[4, 5]]",
            r#"["", "0", "False", ""]"#,
            "[[5]]",
        ),
        (
            "aten::linalg_vector_norm",
            "[[4, 5]]",
            r#"["", "2", "[1]", "True", ""]"#,
            "[[4, 1]]",
        ),
        (
            "aten::_softmax",
            "[[100, 30]]",
            r#"["", "-1", "False"]"#,
            "[[100, 30]]",
        ),
        (
            "aten::_log_softmax_backward_data",
            "[[8, 9], [8, 9]]",
            r#"["", "", "1", "6"]"#,
            "[[8, 9]]",
        ),
        (
            "aten::native_layer_norm",
            "[[8, 9], [9], [9]]",
            "",
            "[[8, 9]]",
        ),
        (
            "aten::native_batch_norm_backward",
            "[[8, 9, 4], [8, 9, 4], [9]]",
            "",
            "[[8, 9, 4]]",
        ),
        ("aten::clone", "[[24]]", "", "[[24]]"),
        ("aten::mul", "[[8, 1], [1, 9]]", "", "[[8, 9]]"),
        (
            "aten::embedding",
            "[[1000, 16], [3, 5]]",
            "",
            "[[3, 5, 16]]",
        ),
        (
            "aten::mse_loss",
            "[[8, 9], [8, 9]]",
            r#"["", "", "1"]"#,
            "[[]]",
        ),
        (
            "aten::mse_loss",
            "[[8, 9], [8, 9]]",
            r#"["", "", "0"]"#,
            "[[8, 9]]",
        ),
        (
            "aten::avg_pool2d",
            "[[2, 3, 15, 15]]",
            r#"["", "[3, 3]", "[2, 2]", "[1, 1]", "True", "True", ""]"#,
            "[[2, 3, 8, 8]]",
        ),
        (
            "aten::avg_pool2d",
            "[[2, 3, 14, 14]]",
            r#"["", "[3, 3]", "[]", "[0]", "True", "True", ""]"#,
            "[[2, 3, 5, 5]]",
        ),
        (
            "aten::_adaptive_avg_pool2d",
            "[[2, 3, 15, 15]]",
            r#"["", "[1, 1]"]"#,
            "[[2, 3, 1, 1]]",
        ),
        ("aten::copy_", "[[24], [24]]", "", "[[24]]"),
        ("aten::fill_", "[[24]]", r#"["", "0"]"#, "[[24]]"),
        ("aten::add_", "[[24], [24]]", "", "[[24]]"),
        (
            "aten::index_add_",
            "[[24, 4], [2], [2, 4]]",
            r#"["", "0", "", "", "1"]"#,
            "[[24, 4]]",
        ),
    ] {
        let recorded = work_with_values(name, inputs, output, values);
        assert_eq!(
            device_work(name, inputs, values),
            recorded,
            "{name} {inputs} {values}"
        );
    }
    assert_eq!(
        device_work("aten::copy_", "[[24], [24]]", "").bytes,
        2 * 24 * 4,
        "what is copied is read once and written once"
    );
    let lists = |name: &str, types: &str, shapes: &str| {
        let mut inputs = TensorShapes::default();
        inputs.read(shapes, types);
        let arguments = OpArguments {
            inputs: &inputs,
            outputs: None,
            values: ArgumentValues::default(),
        };
        work_from_shapes(name, arguments).bytes
    };
    let list = r#"["TensorList", "Scalar"]"#;
    assert_eq!(
        lists("aten::cat", list, "[[[2, 3], [4, 3]], []]"),
        2 * 18 * 4
    );
    assert_eq!(
        device_work("aten::sum", "[[100, 30]]", "").formula,
        RooflineFormula::Unknown,
        "nothing says what is summed"
    );
    assert_eq!(
        device_work("aten::max", "[[8, 9]]", r#"["", "1", "False"]"#).bytes,
        8 * 9 * 4 + 8 * (4 + 8),
        "values and their places"
    );
    assert_eq!(
        device_work("vllm::fused", "[[8, 9]]", "").formula,
        RooflineFormula::Bytes,
        "the outputs of such ops are among their arguments"
    );
}

/// A causal query sees itself and earlier keys.
#[test]
fn causal_attention_counts_the_pairs_that_are_seen() {
    let shapes = "[[2, 4, 32, 16], [2, 4, 32, 16], [2, 4, 32, 16]]";
    let per_pair = 2 * 2 * 4 * (16 + 16);
    for (name, values, pairs, formula) in [
        (
            "aten::_scaled_dot_product_flash_attention",
            r#"["", "", "", "0.", "True", "False", ""]"#,
            32 * 33 / 2,
            "causal_attention",
        ),
        (
            "aten::_scaled_dot_product_flash_attention",
            r#"["", "", "", "0.", "False", "False", ""]"#,
            32 * 32,
            "attention",
        ),
        (
            "aten::_scaled_dot_product_efficient_attention",
            r#"["", "", "", "", "True", "0.", "True", ""]"#,
            32 * 33 / 2,
            "causal_attention",
        ),
        // a host trace has tuples of tensors
        (
            "aten::scaled_dot_product_attention",
            r#"[[1,2,0,9,4,"cpu"],[3,2,0,9,4,"cpu"],[4,2,0,9,4,"cpu"],"<None>",0.0,true,"<None>"]"#,
            32 * 33 / 2,
            "causal_attention",
        ),
    ] {
        let found = device_work(name, shapes, values);
        assert_eq!(
            (found.operations, found.formula.name()),
            (per_pair * pairs, formula),
            "{name}"
        );
    }
    let backward = device_work(
        "aten::_scaled_dot_product_flash_attention_backward",
        "[[2, 4, 32, 16], [2, 4, 32, 16], [2, 4, 32, 16], [2, 4, 32, 16], [2, 4, 32, 16], [2, 4, 32]]",
        r#"["", "", "", "", "", "", "", "", "32", "32", "0.", "True", "", "", ""]"#,
    );
    assert_eq!(backward.operations, 2 * 2 * 4 * (32 * 33 / 2) * (16 * 5));
    // fewer queries than keys, as in a decoder with a cache
    let longer = device_work(
        "aten::_flash_attention_forward",
        "[[1, 2, 4, 8], [1, 6, 4, 8], [1, 6, 4, 8]]",
        r#"["", "", "", "", "", "2", "6", "0.", "True", "False", ""]"#,
    );
    assert_eq!(longer.operations, 2 * 4 * (5 + 6) * 16);
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

fn typed_work(name: &str, shapes: &str, types: &str, values: &str) -> RooflineWork {
    let mut inputs = TensorShapes::default();
    inputs.read(shapes, types);
    let arguments = OpArguments {
        inputs: &inputs,
        outputs: None,
        values: ArgumentValues::new(values),
    };
    work_from_shapes(name, arguments)
}

#[test]
fn a_selection_reads_the_rows_that_its_indices_name() {
    for (dim, rows) in [("0", 8 * 128), ("1", 1_000_000 * 8), ("-1", 1_000_000 * 8)] {
        let values = format!(r#"["", "{dim}", ""]"#);
        let types = r#"["c10::BFloat16", "Scalar", "long int"]"#;
        let selected = typed_work(
            "aten::index_select",
            "[[1000000, 128], [], [8]]",
            types,
            &values,
        );
        assert_eq!(selected.bytes, 2 * 2 * rows + 8 * 8, "{dim}");
    }
}

#[test]
fn writes_into_some_rows_of_a_table_are_of_these_rows() {
    let bf16 = r#"["c10::BFloat16", "Scalar", "long int", "c10::BFloat16"]"#;
    let rows = "[[1000000, 128], [], [8], [8, 128]]";
    let values = r#"["", "0", "", ""]"#;
    let row_bytes = 8 * 128 * 2;
    for (name, bytes) in [
        ("aten::index_copy_", 2 * row_bytes + 64),
        ("aten::index_add_", 3 * row_bytes + 64),
    ] {
        assert_eq!(typed_work(name, rows, bf16, values).bytes, bytes, "{name}");
    }
    // a cache of keys: one position of each sequence
    let put = typed_work(
        "aten::index_put_",
        "[[16, 8192, 8, 128], [[16], [16]], [16, 8, 128], []]",
        r#"["c10::BFloat16", "TensorList", "c10::BFloat16", "Scalar"]"#,
        r#"["", "", "", "False"]"#,
    );
    assert_eq!(put.bytes, 2 * 16 * 8 * 128 * 2 + 2 * 16 * 8);
    let masked = typed_work(
        "aten::index_put_",
        "[[16, 8192], [[16, 8192]], [], []]",
        r#"["float", "TensorList", "float", "Scalar"]"#,
        r#"["", "", "", "False"]"#,
    );
    assert_eq!(masked.formula, RooflineFormula::Unknown);
}

#[test]
fn the_stated_direction_of_a_convolution_counts() {
    // padding makes the output larger, as that of a transposed one
    let causal = device_work(
        "aten::cudnn_convolution",
        "[[8, 64, 1000], [64, 64, 3]]",
        r#"["", "", "[128]", "[1]", "[64]", "1", "False", "False", "True"]"#,
    );
    assert_eq!(causal.operations, 2 * 8 * 1128 * 64 * 64 * 3);
    let backward = device_work(
        "aten::convolution_backward",
        "[[1, 64, 228], [1, 64, 100], [64, 64, 3]]",
        r#"["", "", "", "[64]", "[1]", "[128]", "[64]", "False", "[0]", "1", "[True, True, True]"]"#,
    );
    assert_eq!(backward.operations, 2 * 2 * 228 * 64 * 64 * 3);
    let smaller = device_work(
        "aten::conv_transpose2d",
        "[[1, 64, 10, 10], [64, 64, 3, 3]]",
        r#"["", "", "", "[1, 1]", "[2, 2]", "[0, 0]", "1", "[1, 1]"]"#,
    );
    assert_eq!(smaller.operations, 2 * 10 * 10 * 64 * 64 * 9);
}

#[test]
fn types_of_results_count() {
    let sum = typed_work(
        "aten::cumsum",
        "[[1024]]",
        r#"["bool"]"#,
        r#"["", "0", ""]"#,
    );
    assert_eq!(sum.bytes, 1024 + 1024 * 8);
    let float8 = r#"["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float", "float"]"#;
    let product = typed_work(
        "aten::_scaled_mm",
        "[[64, 64], [64, 64], [], []]",
        float8,
        r#"["", "", "", "", "", "", "15", "True"]"#,
    );
    assert_eq!(product.bytes, 2 * 64 * 64 + 2 * 4 + 64 * 64 * 2);
    let dropout = device_work(
        "aten::native_dropout",
        "[[64, 64]]",
        r#"["", "0.1", "True"]"#,
    );
    assert_eq!(dropout.bytes, 64 * 64 * (4 + 4 + 1));
    let product = device_work("aten::matmul", "[[8, 1, 64, 64], [1, 16, 64, 64]]", "");
    assert_eq!(product.operations, 2 * 8 * 16 * 64 * 64 * 64);
    let list = typed_work(
        "aten::cat",
        "[[[2, 3], [4, 3]], []]",
        r#"["TensorList", "Scalar"]"#,
        r#"["", "0"]"#,
    );
    assert_eq!(
        list.formula,
        RooflineFormula::Unknown,
        "no trace says which types"
    );
    let long = typed_work("aten::cat", "[[], []]", r#"["TensorList", "Scalar"]"#, "");
    assert_ne!(
        long.formula,
        RooflineFormula::Bytes,
        "a list that is left out"
    );
}

/// Schemas of vLLM 0.15, SGLang's kernels and AITER; sizes of gpt-oss on a B200.
#[test]
fn ops_of_libraries_read_and_write_their_arguments() {
    let half = |count: usize| format!("[{}]", vec![r#""c10::BFloat16""#; count].join(", "));
    for (name, shapes, types, expected) in [
        (
            "_C::fused_add_rms_norm",
            "[[888, 2880], [888, 2880], [2880], []]",
            half(3),
            (888 * 2880, 2 * (4 * 888 * 2880 + 2880), "reduction"),
        ),
        (
            "aiter::rmsnorm2d_fwd_with_add_ck",
            "[[32, 2880], [32, 2880], [32, 2880], [32, 2880], [2880]]",
            half(5),
            (32 * 2880, 2 * (4 * 32 * 2880 + 2880), "reduction"),
        ),
        (
            "sgl_kernel::silu_and_mul",
            "[[64, 1000], [64, 2000]]",
            half(2),
            (64 * 2000, 2 * 64 * 3000, "elementwise"),
        ),
        (
            "_C::rotary_embedding",
            "[[888], [888, 512], [888, 64], [], [131072, 64], []]",
            r#"["long int", "c10::BFloat16", "c10::BFloat16", "Scalar", "c10::BFloat16", "Scalar"]"#
                .to_owned(),
            (888 * 576, 888 * 8 + 2 * (2 * 888 * 576 + 888 * 64), "elementwise"),
        ),
        (
            "_C_cache_ops::reshape_and_cache_flash",
            "[[888, 1, 64], [888, 1, 64], [4213816, 16, 1, 64], [4213816, 16, 1, 64], [888]]",
            r#"["c10::BFloat16", "c10::BFloat16", "unsigned char", "unsigned char", "long int"]"#
                .to_owned(),
            (888 * 128, 888 * (128 * 2 + 128 + 8), "bytes"),
        ),
        (
            "_C::cutlass_scaled_fp4_mm",
            "[[32, 5120], [32, 1440], [5120, 1440]]",
            r#"["c10::BFloat16", "unsigned char", "unsigned char"]"#.to_owned(),
            (2 * 32 * 5120 * 2880, 2 * 32 * 5120 + 32 * 1440 + 5120 * 1440, "matmul"),
        ),
        // 2 of 8 experts for each of 3 tokens: at most 6 are read
        (
            "vllm::inplace_fused_experts",
            "[[3, 16], [8, 40, 16], [8, 16, 20], [3, 2], [3, 2]]",
            r#"["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "float", "int"]"#.to_owned(),
            (
                6 * 2 * (40 * 16 + 16 * 20),
                2 * 2 * 3 * 16 + 2 * 6 * 4 + 6 * 2 * (40 * 16 + 16 * 20),
                "experts",
            ),
        ),
    ] {
        let found = typed_work(name, shapes, &types, "");
        let found = (found.operations, found.bytes, found.formula.name());
        assert_eq!(found, expected, "{name}");
        assert!(has_all_arguments(name), "{name}");
    }
    assert!(!has_all_arguments("vllm::moe_forward"));
    // packed weights do not show their number of values
    let packed = "[[3, 16], [8, 40, 8], [8, 16, 10], [3, 2], [3, 2]]";
    let packed = typed_work("vllm::inplace_fused_experts", packed, &half(5), "");
    assert_eq!(packed.formula, RooflineFormula::Unknown);
}

#[test]
fn a_tensor_that_is_only_written_into_counts_once() {
    let plain = device_work("aten::mm", "[[8, 16], [16, 24]]", "");
    assert_eq!(
        device_work("aten::mm", "[[8, 16], [16, 24], [8, 24]]", ""),
        plain
    );
    let plain = device_work("aten::addmm", "[[24], [8, 16], [16, 24]]", "");
    let into = "[[24], [8, 16], [16, 24], [], [], [8, 24]]";
    let types = r#"["float", "float", "float", "Scalar", "Scalar", "float"]"#;
    assert_eq!(typed_work("aten::addmm", into, types, ""), plain);
    let values = r#"["", "[20, 30]", ""]"#;
    let larger = device_work("aten::upsample_nearest2d", "[[2, 3, 10, 15]]", values);
    assert_eq!(larger.bytes, 4 * 2 * 3 * (150 + 600));
}

#[test]
fn products_of_groups_count_each_row_once() {
    let rows = device_work("aten::_grouped_mm", "[[96, 32], [4, 32, 64], [4]]", "");
    let floats = 96 * 32 + 4 * 32 * 64 + 4 + 96 * 64;
    assert_eq!(
        (rows.operations, rows.bytes),
        (2 * 96 * 32 * 64, 4 * floats)
    );
    // the gradient of the weight: parts of the inner dimension
    let inner = device_work("aten::_grouped_mm", "[[32, 96], [96, 64], [4]]", "");
    let floats = 32 * 96 + 96 * 64 + 4 + 4 * 32 * 64;
    assert_eq!(
        (inner.operations, inner.bytes),
        (2 * 32 * 96 * 64, 4 * floats)
    );
}

#[test]
fn packed_sequences_of_equal_length_are_known() {
    let values = |longest: u64, causal: &str| {
        format!(r#"["", "", "", "", "", "{longest}", "{longest}", "0.", "{causal}", "False"]"#)
    };
    let shapes = "[[64, 4, 8], [64, 2, 8], [64, 2, 8], [5], [5]]";
    let name = "aten::_flash_attention_forward";
    let equal = device_work(name, shapes, &values(16, "True"));
    let pairs = 16 * 17 / 2;
    assert_eq!(
        (equal.operations, equal.formula.name()),
        (2 * 4 * 4 * pairs * 16, "causal_attention")
    );
    let unequal = device_work(name, shapes, &values(20, "True"));
    assert_eq!(unequal.formula, RooflineFormula::Unknown);
}

#[test]
fn bags_read_the_rows_that_they_name() {
    let name = "aten::_embedding_bag";
    let values = r#"["", "", "", "False", "0", "False", "", "True", "-1"]"#;
    let types = r#"["float", "long int", "long int"]"#;
    let bags = typed_work(name, "[[1000, 64], [300], [11]]", types, values);
    let read = 4 * 300 * 64 + 8 * (300 + 11);
    assert_eq!(bags.bytes, read + 4 * 10 * 64 + 8 * (300 + 2 * 10));
}
