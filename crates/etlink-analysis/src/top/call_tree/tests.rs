use super::*;
use etlink_testing::{DeviceQueue, ThreadRef, TraceBuilder};

fn tree_of(draw: &TraceBuilder, options: TreeOptions) -> CallTree {
    let reading = etlink_formats::kineto::KinetoReadOptions {
        threads: 1,
        shapes: false,
        keep: etlink_model::KeepEvents::Auxiliary,
    };
    let trace = etlink_formats::kineto::read(&draw.kineto()[..], reading).expect("a trace");
    call_tree(&trace, options)
}

const PLAIN: TreeOptions = TreeOptions {
    python: false,
    each_module: false,
    order: TopOrder::Device,
};

/// Indented lines of the tree, as `  name times host/self device/self` in us.
fn lines(tree: &CallTree) -> Vec<String> {
    let line = |node: &CallNode| {
        format!(
            "{}{} {} {}/{} {}/{}",
            "  ".repeat(node.depth as usize),
            node.name,
            node.count,
            node.host_ns / 1000,
            node.self_host_ns / 1000,
            node.device_ns / 1000,
            node.self_device_ns / 1000
        )
    };
    tree.nodes.iter().map(line).collect()
}

fn launch(draw: &mut TraceBuilder, thread: ThreadRef, at: i64, us: i64) {
    let call = (at * 1000, at * 1000 + 500);
    let row = ((at + 200) * 1000, (at + 200 + us) * 1000);
    draw.launch(thread, call, DeviceQueue::stream(7), "gemm", row);
}

/// Two steps of 100 us, each with a model of two layers; the second layer of the second step
/// launches without an op.
fn drawn() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in 0..2 {
        let at = 100 * step;
        let us = |from: i64, to: i64| ((at + from) * 1000, (at + to) * 1000);
        let (from, to) = us(0, 90);
        draw.annotation(main, &format!("ProfilerStep#{step}"), from, to);
        let (from, to) = us(5, 85);
        draw.python(main, "train.py(7): forward", from, to);
        for layer in 0..2 {
            let (from, to) = us(10 + 40 * layer, 40 + 40 * layer);
            draw.python(main, &format!("nn.Module: Layer_{layer}"), from, to);
            if (step, layer) != (1, 1) {
                let (from, to) = us(12 + 40 * layer, 32 + 40 * layer);
                draw.op(main, "aten::mm", from, to);
            }
            launch(&mut draw, main, at + 15 + 40 * layer, 10 + layer);
        }
    }
    draw
}

#[test]
fn modules_of_a_class_and_steps_are_one_node() {
    let tree = tree_of(&drawn(), PLAIN);
    assert_eq!(
        lines(&tree)[1..],
        [
            "  step 2 180/60 42/0",
            "    nn.Module: Layer 4 120/60 42/11",
            "      aten::mm 3 60/60 31/31"
        ]
    );
    assert_eq!(tree.totals(), (180_000, 42_000));
    assert_eq!(tree.nodes[0].kind, CallKind::Thread);
    assert_eq!(tree.nodes[3].parent, Some(2));
}

#[test]
fn each_module_and_all_frames() {
    let options = TreeOptions {
        python: true,
        each_module: true,
        order: TopOrder::Device,
    };
    assert_eq!(
        lines(&tree_of(&drawn(), options))[1..],
        [
            "  step 2 180/20 42/0",
            "    train.py(7): forward 2 160/40 42/0",
            "      nn.Module: Layer_1 2 60/40 22/11",
            "        aten::mm 1 20/20 11/11",
            "      nn.Module: Layer_0 2 60/20 20/0",
            "        aten::mm 2 40/40 20/20"
        ]
    );
}

#[test]
fn what_outlasts_its_parent_is_cut_and_what_nobody_launched_is_a_root() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.op(main, "outer", 0, 10_000);
    // begins inside, ends on another thread
    draw.annotation(main, "nccl:all_reduce", 8_000, 30_000);
    let before = draw.next_correlation();
    draw.kernel(DeviceQueue::stream(7), "earlier", (0, 5_000), before);
    launch(&mut draw, main, 2, 3);
    let tree = tree_of(&draw, PLAIN);
    assert_eq!(
        lines(&tree),
        [
            "launched by no recorded call 0 0/0 5/5",
            "thread 1000 (python) 0 10/0 3/0",
            "  outer 1 10/8 3/3",
            "    nccl:all_reduce 1 2/2 0/0"
        ]
    );
    assert_eq!(tree.nodes[0].kind, CallKind::Device);
    assert_eq!(tree.totals(), (10_000, 8_000));
}

#[test]
fn what_a_context_manager_opens_is_not_of_its_frame() {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    draw.python(main, "profiler.py(9): __enter__", 0, 5_000);
    draw.annotation(main, "ProfilerStep#1", 4_000, 90_000);
    draw.python(main, "nn.Module: Linear_0", 10_000, 50_000);
    // rounded to microseconds, it ends after its module
    draw.op(main, "aten::mm", 12_000, 51_000);
    draw.op(main, "aten::add", 60_000, 70_000);
    let python = TreeOptions {
        python: true,
        ..PLAIN
    };
    assert_eq!(
        lines(&tree_of(&draw, python))[1..],
        [
            "  step 1 86/36 0/0",
            "    nn.Module: Linear 1 40/2 0/0",
            "      aten::mm 1 38/38 0/0",
            "    aten::add 1 10/10 0/0",
            "  profiler.py(9): __enter__ 1 4/4 0/0"
        ]
    );
    let tree = tree_of(&draw, PLAIN);
    assert_eq!(tree.totals().0, 86_000);
}
