use super::*;
use etlink_testing::{DeviceQueue, KinetoFlavour, TraceBuilder};

fn read(draw: &TraceBuilder) -> DeviceTrace {
    let options = etlink_formats::kineto::KinetoReadOptions {
        threads: 1,
        shapes: true,
        keep: etlink_model::KeepEvents::Auxiliary,
    };
    etlink_formats::kineto::read(&draw.kineto()[..], options).expect("a trace")
}

fn of(draw: &TraceBuilder) -> KeyAverages {
    key_averages(&read(draw), Options::default())
}

/// Rows as `name count self/host self/device` in us; `+` marks device rows, `~` annotations.
fn drawn(top: &KeyAverages) -> Vec<String> {
    let side = |row: &KeyAverage| {
        format!(
            "{}{}",
            if row.on_device { "+" } else { "" },
            if row.annotation { "~" } else { "" }
        )
    };
    let us = |ns: i64| ns / 1000;
    let line = |row: &KeyAverage| {
        let KeyAverage { name, count, .. } = row;
        format!(
            "{}{name} {count} {}/{} {}/{}",
            side(row),
            us(row.self_host_ns),
            us(row.host_ns),
            us(row.self_device_ns),
            us(row.device_ns)
        )
    };
    top.rows.iter().map(line).collect()
}

#[test]
fn device_time_is_that_of_the_op_which_launched_and_of_all_around_it() {
    // ProfilerStep#1 ------------------------------------
    //   linear ------------------------   relu ---------
    //     mm --------------                 launch
    //       launch    launch
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "ProfilerStep#1", 0, 100_000);
    draw.op(main, "aten::linear", 1_000, 61_000);
    draw.op(main, "aten::mm", 2_000, 42_000);
    draw.launch(
        main,
        (5_000, 8_000),
        DeviceQueue::stream(7),
        "gemm",
        (12_000, 30_000),
    );
    draw.launch(
        main,
        (10_000, 14_000),
        DeviceQueue::stream(7),
        "gemm",
        (30_000, 40_000),
    );
    draw.op(main, "aten::relu", 70_000, 80_000);
    draw.launch(
        main,
        (72_000, 75_000),
        DeviceQueue::stream(7),
        "relu_kernel",
        (80_000, 85_000),
    );
    let top = of(&draw);
    assert_eq!(
        drawn(&top),
        [
            "~ProfilerStep* 1 30/100 0/33",
            "aten::linear 1 20/60 0/28",
            "aten::mm 1 33/40 28/28",
            "cudaLaunchKernel 3 10/10 0/0",
            "+gemm 2 0/0 28/28",
            "aten::relu 1 7/10 5/5",
            "+relu_kernel 1 0/0 5/5",
        ]
    );
    assert_eq!(
        (top.device, top.self_host_ns, top.self_device_ns),
        ("CUDA", 100_000, 33_000)
    );
}

#[test]
fn an_only_child_of_the_same_name_is_one_with_its_parent() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for (start, end) in [(0, 50_000), (1_000, 40_000), (2_000, 30_000)] {
        draw.op(main, "aten::add", start, end);
    }
    draw.launch(
        main,
        (5_000, 8_000),
        DeviceQueue::stream(7),
        "add",
        (12_000, 14_000),
    );
    // not the only child
    draw.op(main, "aten::mul", 60_000, 90_000);
    draw.op(main, "aten::mul", 61_000, 65_000);
    draw.op(main, "aten::mul", 66_000, 70_000);
    let top = of(&draw);
    assert_eq!(
        drawn(&top),
        [
            "aten::add 1 47/50 2/2",
            "cudaLaunchKernel 1 3/3 0/0",
            "+add 1 0/0 2/2",
            "aten::mul 3 30/38 0/0"
        ]
    );
}

#[test]
fn ranges_that_overlap_are_no_children_and_utility_ops_are_left_out() {
    let mut draw = TraceBuilder::default();
    let (main, other) = (draw.thread(), draw.thread());
    draw.op(main, "a", 0, 20_000);
    draw.op(main, "b", 10_000, 30_000);
    draw.op(main, "aten::is_leaf", 12_000, 14_000);
    draw.op(other, "c", 5_000, 6_000);
    draw.annotation(main, "gloo:all_reduce", 1_000, 9_000);
    let top = of(&draw);
    assert_eq!(
        drawn(&top),
        [
            "a 1 20/20 0/0",
            "~gloo:all_reduce 1 0/8 0/0",
            "c 1 1/1 0/0",
            "b 1 20/20 0/0"
        ]
    );
    assert!(top.rows[1].asynchronous && !top.has_device());
}

#[test]
fn annotations_of_streams_are_rows_and_no_device_time() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.annotation(main, "forward", 0, 20_000);
    draw.op(main, "mm", 1_000, 19_000);
    draw.launch(
        main,
        (5_000, 8_000),
        DeviceQueue::stream(7),
        "gemm",
        (12_000, 30_000),
    );
    draw.raw(
        r#"{"ph": "X", "cat": "gpu_user_annotation", "name": "forward", "pid": 0, "tid": 7,
            "ts": 12.000, "dur": 18.000, "args": {"External id": 1}}"#,
    );
    let top = of(&draw);
    assert_eq!(
        drawn(&top),
        [
            "~forward 1 2/20 0/18",
            "mm 1 15/18 18/18",
            "cudaLaunchKernel 1 3/3 0/0",
            "+gemm 1 0/0 18/18",
            "+~forward 1 0/0 18/18"
        ]
    );
    assert_eq!(top.self_device_ns, 18_000);
}

#[test]
fn a_device_goes_by_its_own_name() {
    for (flavour, name) in [
        (KinetoFlavour::Cuda, "CUDA"),
        (KinetoFlavour::Rocm, "CUDA"),
        (KinetoFlavour::Xpu, "XPU"),
        (KinetoFlavour::Mtia, "MTIA"),
    ] {
        let mut draw = TraceBuilder::new(flavour);
        let main = draw.thread();
        draw.op(main, "mm", 0, 20_000);
        draw.launch(
            main,
            (5_000, 8_000),
            DeviceQueue::stream(7),
            "gemm",
            (12_000, 30_000),
        );
        let top = of(&draw);
        assert_eq!(top.device, name);
        let own = if flavour == KinetoFlavour::Mtia {
            0
        } else {
            18_000
        };
        assert_eq!(
            top.rows[0].self_device_ns,
            own,
            "{flavour:?}: {:?}",
            drawn(&top)
        );
    }
}

#[test]
fn rows_are_sorted_by_what_is_asked_for_and_equal_ones_stay() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for (name, start, end) in [
        ("a", 0, 5_000),
        ("b", 10_000, 30_000),
        ("c", 40_000, 45_000),
        ("c", 50_000, 51_000),
    ] {
        draw.op(main, name, start, end);
    }
    let mut top = of(&draw);
    let mut order = |by| {
        top.sort(by);
        top.rows
            .iter()
            .map(|row| row.name.as_str())
            .collect::<String>()
    };
    assert_eq!(
        [
            TopOrder::SelfHost,
            TopOrder::Count,
            TopOrder::Device,
            TopOrder::Host
        ]
        .map(&mut order),
        ["bca", "cba", "cba", "bca"]
    );
}
