//! The table as text.

use super::super::results::AnalyzedRun;
use crate::args::{OpOrder, OpsArgs};
use crate::table::{self, Column, Grid, Limit, count, enum_name, known, mean_time, percent, time};
use etlink_analysis::{OpTotals, RankOps};
use etlink_link::roofline::ArgumentValues;
use std::fmt::Write;

pub(super) fn run_text(run: &AnalyzedRun<RankOps>, args: &OpsArgs) -> String {
    let mut out = String::new();
    if !run.name.is_empty() {
        let _ = writeln!(
            out,
            "{}: {}",
            run.name,
            count(run.ranks.len() as u64, "rank")
        );
    }
    out += &run.row_damage_lines();
    out += &run.cut_line();
    let limit = Limit::rows(args.rows.rows);
    for rank in &run.ranks {
        let ops = &rank.said;
        if ops.ops.is_empty() {
            let _ = writeln!(out, "{}: no ops", table::rank(&rank.label));
            continue;
        }
        let of_what = if ops.on_host {
            "host time, as no device worked"
        } else {
            "device time"
        };
        let peaks = if ops.sheets.is_empty() {
            "unknown; --peaks FILE states them".to_owned()
        } else {
            ops.sheets.join(", ")
        };
        let mut title = format!(
            "{}: {} by arguments (figures of all calls; work is known for {} of the \
             {of_what}; peaks: {peaks})",
            table::rank(&rank.label),
            count(ops.ops.len() as u64, "op"),
            percent(ops.known_share(), 1),
        );
        let (sum_ns, lost_ns) = ops.lost_ns();
        if sum_ns > 0 {
            let (lost, sum) = (time(lost_ns), time(sum_ns));
            title += &format!("; at the peaks, these and their copies would save {lost} of {sum}");
        }
        out += &op_table(ops, limit, args).titled(&title);
    }
    out
}

fn op_table(ops: &RankOps, limit: Limit, args: &OpsArgs) -> Grid {
    let [key, other] = match args.by {
        OpOrder::Time => ["sum", "lost"],
        OpOrder::Lost => ["lost", "sum"],
    };
    let kernel: fn(&&OpTotals) -> String = if args.names.full_names {
        |op| op.kernel.clone()
    } else {
        |op| op.short_kernel.clone()
    };
    let columns: &[Column<&OpTotals>] = &[
        ("op", |op| match &*op.op {
            "" => "-".to_owned(),
            name => name.to_owned(),
        }),
        ("arguments", |op| argument_text(op)),
        ("calls", |op| op.count.to_string()),
        ("sum", |op| time(op.sum_ns)),
        ("share", |op| percent(op.share, 1)),
        ("mean", |op| mean_time(op.mean_ns)),
        ("median", |op| time(op.median_ns)),
        ("min", |op| time(op.min_ns)),
        ("max", |op| time(op.max_ns)),
        ("stddev", |op| known(op.stddev_ns, mean_time)),
        ("GFLOP", |op| {
            figure(op.operations.map(|operations| operations as f64 / 1e9))
        }),
        ("MB", |op| figure(op.bytes.map(|bytes| bytes as f64 / 1e6))),
        ("FLOP/B", |op| figure(op.operations_per_byte)),
        ("TFLOP/s", |op| figure(op.tflops)),
        ("TB/s", |op| figure(op.tb_per_s)),
        ("bound", |op| known(op.bound, enum_name)),
        ("at roof", |op| known(op.roof_ns, mean_time)),
        ("of roof", |op| {
            known(op.roof_share, |share| percent(share, 0))
        }),
        ("lost", |op| known(op.lost_ns, time)),
        ("formula", |op| known(op.formula, enum_name)),
        ("kernel", kernel),
        ("line", |op| op.line.clone().unwrap_or_default()),
    ];
    // an empty column at the right edge would only widen the table
    let has_lines = ops.ops.iter().any(|op| op.line.is_some());
    let columns = &columns[..columns.len() - usize::from(!has_lines)];
    let grid = Grid::from_records(2, limit, columns, ops.ops.iter())
        .last_texts(1 + usize::from(has_lines))
        .text_columns(|head| {
            ["op", "arguments", "bound", "formula", "kernel", "line"].contains(&head)
        });
    let expendable = [
        "stddev", "min", "max", "median", "formula", "GFLOP", "MB", "at roof", "FLOP/B", "line",
        "kernel", "mean", "TB/s", "TFLOP/s", "calls", "bound",
    ];
    let shown = expendable.into_iter();
    grid.expendable(shown.filter(|head| has_lines || *head != "line"))
        .decisive(["of roof", other, key])
}

/// Formats a figure with three digits; `-` if it is unknown.
fn figure(value: Option<f64>) -> String {
    let Some(value) = value else {
        return "-".to_owned();
    };
    let decimals = match value {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        value if value >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Formats an op's arguments: `bf16[8, 16], f32[16], 1, False`.
fn argument_text(op: &OpTotals) -> String {
    let [shapes, types, values] = [&op.shapes, &op.types, &op.values];
    let [shapes, types, values] = [shapes, types, values].map(|text| ArgumentValues::new(text));
    let mut out: Vec<String> = vec![];
    for number in 0..shapes.count().max(types.count()) as u32 {
        let of = |list: ArgumentValues<'_>| list.text(number).unwrap_or("").to_owned();
        let (shape, dtype, value) = (of(shapes), of(types), of(values));
        // "=N" is the tensor of argument N
        let is_scalar = shape == "[]" && !value.is_empty() && !value.starts_with('=');
        match short_type(&dtype) {
            Some(dtype) if !is_scalar => out.push(format!("{dtype}{shape}")),
            _ if dtype.contains("Tensor") && !is_scalar => out.push(shape),
            _ if !value.is_empty() => out.push(value),
            _ => {}
        }
    }
    out.join(", ")
}

/// Returns a short name of a tensor's type; `None` for other types.
fn short_type(dtype: &str) -> Option<&str> {
    let inner = match dtype.strip_prefix("Tensor(") {
        Some(inner) => inner.split(')').next().unwrap_or(inner),
        None => dtype,
    };
    let inner = inner.trim_start_matches("c10::");
    Some(match inner {
        "float" => "f32",
        "double" => "f64",
        "Half" => "f16",
        "BFloat16" => "bf16",
        "long" | "long int" => "i64",
        "int" => "i32",
        "short" | "short int" => "i16",
        "signed char" => "i8",
        "unsigned char" => "u8",
        "bool" => "bool",
        other if other.starts_with("Float8") => other,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_either_trace() {
        let text = |shapes: &str, types: &str, values: &str| {
            argument_text(&OpTotals {
                shapes: shapes.to_owned(),
                types: types.to_owned(),
                values: values.to_owned(),
                ..OpTotals::default()
            })
        };
        assert_eq!(
            text(
                "[[8, 3, 4], [], [], []]",
                r#"["c10::BFloat16", "", "ScalarList", "Scalar"]"#,
                r#"["", "", "[2, 2]", "False"]"#
            ),
            "bf16[8, 3, 4], [2, 2], False"
        );
        assert_eq!(
            text(
                "[[[2, 3], [4]], [], [[], []]]",
                r#"["GenericList[Tensor(float),Tensor(float)]", "Tensor(long)", "GenericList[Int,Int]"]"#,
                r#"["", "", [1, 2]]"#
            ),
            "[[2, 3], [4]], i64[], [1, 2]"
        );
        assert_eq!(text("", "", ""), "");
    }
}
