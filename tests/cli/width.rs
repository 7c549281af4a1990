//! Printed output is never wider than the terminal.

use crate::tool::{Ran, Tool};
use etlink_testing::{DeviceQueue, HostSchema, ParamComms, TraceBuilder};
use std::collections::BTreeSet;

const US: i64 = 1_000;

/// Returns a kernel name as long as PyTorch's elementwise kernels have.
fn long_kernel(functor: &str) -> String {
    format!(
        "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<c10::BFloat16, \
         c10::BFloat16, c10::BFloat16, at::native::binary_internal::{functor}Functor<float> >, \
         std::array<char*, 3ul> >(int, at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, \
         c10::BFloat16, at::native::binary_internal::{functor}Functor<float> >, \
         std::array<char*, 3ul>)"
    )
}

/// Generates two steps with long names everywhere, `slow` times as long on the device.
fn draw(rank: i64, slow: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, 2);
    let main = draw.thread();
    for step in 0..2 {
        let at = |us: i64| (1_000 * step + us) * US;
        draw.annotation(main, &format!("ProfilerStep#{step}"), at(0), at(900));
        draw.python(
            main,
            "a/very/long/path/of/a/python/module/in/a/project/train.py(123): forward_backward_step",
            at(1),
            at(890),
        );
        draw.annotation(
            main,
            "Optimizer.step#DistributedFusedAdamWithAVeryLongNameAndMasterWeights.step",
            at(400),
            at(700),
        );
        for (at_us, functor) in [(10, "Mul"), (200, "Div"), (500, "Greater")] {
            let op = draw.op(
                main,
                &format!("a_library_with_a_long_name::an_operator_with_a_long_name_{functor}"),
                at(at_us),
                at(at_us + 60),
            );
            draw.arg(op, "Input Dims", "[[16, 4096, 4096], [16, 4096, 4096]]");
            draw.arg(op, "Input type", r#"["c10::BFloat16", "c10::BFloat16"]"#);
            draw.launch(
                main,
                (at(at_us + 5), at(at_us + 8)),
                DeviceQueue::stream(7),
                &long_kernel(functor),
                (at(at_us + 20), at(at_us + 20 + 30 * slow)),
            );
        }
        let mut comms = ParamComms::new("allreduce", 0..2, rank, step + 1);
        comms.group_desc = "a_process_group_with_a_long_description_of_what_it_is_for".into();
        draw.collective(main, &comms, at(720), at(740));
        let id = draw.next_correlation();
        draw.call(
            main,
            "cudaLaunchKernelExC",
            (at(725 + 3 * rank), at(730 + 3 * rank)),
            id,
        );
        draw.collective_kernel(
            DeviceQueue::stream(20),
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            (at(740 + 20 * rank), at(800)),
            id,
            &comms,
        );
        let id = draw.next_correlation();
        draw.call(main, "cudaMemcpyAsync", (at(820), at(825)), id);
        draw.memcpy(
            DeviceQueue::stream(7),
            "Memcpy DtoH (Device -> Pageable)",
            (at(830), at(850)),
            id,
            40_000,
        );
    }
    for (at_us, bytes) in [(15, 4096), (300, 1_234_567_890)] {
        draw.raw(&format!(
            r#"{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1,
            "tid": 1, "ts": {at_us}.5, "args": {{"Total Reserved": {bytes}, "Total Allocated":
            {bytes}, "Bytes": {bytes}, "Addr": 140000000000000, "Device Id": 0,
            "Device Type": 1}}}}"#
        ));
    }
    draw
}

/// Writes the log of a simulation that runs each node of both ranks for ten seconds.
fn drawn_log(tool: &Tool) -> String {
    let graphs: Vec<_> = (0..2)
        .map(|rank| {
            let bytes = tool.read(&format!("graphs/one.{rank}.et"));
            etlink_chakra::read::read(bytes.as_slice()).expect("a graph")
        })
        .collect();
    let nodes = graphs.iter().map(|graph| graph.len()).max().expect("ranks");
    let mut log = String::new();
    for moment in 0..=nodes {
        let tick = moment as u64 * 10_000_000_000;
        for (rank, graph) in graphs.iter().enumerate() {
            let mut line = |word: &str, node: usize| {
                log += &format!(
                    "[workload] [debug] {word},sys->id={rank}, tick={tick}, node->id={}, \
                     node->name={}, node->type=4\n",
                    graph.id[node],
                    graph.name_of(node)
                );
            };
            if (1..=graph.len()).contains(&moment) {
                line("callback", moment - 1);
            }
            if moment < graph.len() {
                line("issue", moment);
            }
            if moment == nodes {
                log += &format!(
                    "sys[{rank}] finished, {tick} cycles, exposed communication {tick} cycles.\n"
                );
            }
        }
    }
    log
}

fn drawn_runs() -> Tool {
    let tool = Tool::new();
    for (folder, slow) in [("one", 1), ("two", 3)] {
        for rank in 0..2 {
            let draw = draw(rank, slow);
            tool.file(&format!("{folder}/kineto_trace_{rank}.json"), draw.kineto());
            tool.file(
                &format!("{folder}/pytorch_et_{rank}.json"),
                draw.host(HostSchema::default()),
            );
        }
    }
    tool.run("merge one -o graphs").exits(0);
    tool.file("log.log", drawn_log(&tool));
    let metrics = [
        "dram__bytes.sum",
        "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active",
    ];
    let rows = ["Mul", "Div", "Greater"].map(|functor| {
        let name = long_kernel(functor);
        format!("\"1\",\"{name}\",\"1,234,567.5\",\"12.25\"\n")
    });
    let [bytes, share] = metrics;
    let head =
        format!("\"ID\",\"Kernel Name\",\"{bytes}\",\"{share}\"\n\"\",\"\",\"Mbyte\",\"%\"\n");
    tool.file("ncu_rank_0.csv", head + &rows.concat());
    tool
}

const TABLES: [&str; 24] = [
    "utilization",
    "breakdown",
    "steps",
    "kernels",
    "idle",
    "host_idle",
    "gaps",
    "stream_idle",
    "collectives",
    "copies",
    "launches",
    "queues",
    "coverage",
    "work",
    "sequences --sequences-of an_operator",
    "memory",
    "memory_timeline",
    "metrics",
    "stragglers",
    "phases",
    "op_launches",
    "peaks",
    "outside",
    "host_ops",
];

const LINES: [&str; 33] = [
    "link --host one/pytorch_et_0.json --device one/kineto_trace_0.json",
    "link --device one/kineto_trace_0.json -o linked.pftrace --overwrite",
    "merge one -o merged --for astra-sim --overwrite",
    "ranks one",
    "ranks one --rows 0",
    "ranks one --table bandwidth",
    "top one",
    "top one --group shape",
    "top one --group stack --python",
    "ops one",
    "repro one -o repro.py -f",
    "diff one two",
    "diff one two --full-names",
    "diff one two --group shape",
    "analyze one",
    "analyze graphs",
    "analyze one/kineto_trace_0.json --table counters --metrics ncu_rank_0.csv",
    "analyze one --compat hta",
    "report one -o page.html --overwrite",
    "report one two -o page.html --overwrite",
    "findings one",
    "replay one --critical-path",
    "replay graphs --critical-path",
    "replay one/kineto_trace_0.json --explain a_library_with_a_long_name::an_operator_with_a_long_name_Mul",
    "check graphs",
    "check one/pytorch_et_0.json",
    "inspect one/pytorch_et_0.json one/kineto_trace_0.json",
    "inspect graphs/one.0.et",
    "convert graphs/one.0.et converted.json --overwrite",
    "generate prefill --ranks 4 --pipeline 4 -o drawn --overwrite",
    "scale graphs --ranks 4 -o scaled --overwrite",
    "simulated log.log --graphs graphs --against one",
    "schedule --wait 1 --warmup 1 --active 2 --steps 20",
];

#[test]
fn no_line_is_wider_than_the_terminal() {
    let tool = drawn_runs();
    let tables = TABLES.map(|table| format!("analyze one --table {table}"));
    let lines = LINES.map(String::from);
    let known: BTreeSet<&str> = LINES
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    for line in lines.iter().chain(&tables) {
        for columns in ["80", "100", "120"] {
            // a failing command would print nothing, which fits
            let ran = tool.run_in(line, &[("COLUMNS", columns)]).exits(0);
            assert!(!ran.stdout.is_empty(), "{line}");
            assert_fits(&ran, columns.parse().expect("a number"));
        }
    }
    // covers new commands too; `record` prints nothing of its own, `completions` a script, and `learn` the name of
    // its file
    let help = tool.run("--help").exits(0).stdout;
    let commands = help
        .split("Commands:\n")
        .nth(1)
        .expect("a list of commands");
    let commands = commands.split("\n\n").next().expect("its end");
    let names = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    let missing: Vec<&str> = names
        .filter(|name| {
            !known.contains(name)
                && !["record", "trigger", "completions", "help", "learn"].contains(name)
        })
        .collect();
    assert!(missing.is_empty(), "not looked at: {missing:?}");
}

fn assert_fits(ran: &Ran, columns: usize) {
    let widest = ran.stdout.lines().max_by_key(|line| line.chars().count());
    let widest = widest.unwrap_or_default();
    assert!(
        widest.chars().count() <= columns,
        "{columns} columns, and this line has {}:\n{widest}\n{}",
        widest.chars().count(),
        ran.shown()
    );
}

#[test]
fn columns_that_are_left_out_are_named() {
    let tool = drawn_runs();
    let at = |columns: &str| {
        let ran = tool.run_in("analyze one --table kernels", &[("COLUMNS", columns)]);
        let text = ran.exits(0).stdout;
        text.split_once("kernels and copies")
            .expect("a table")
            .1
            .to_owned()
    };
    let [narrow, wide] = [at("80"), at("300")];
    assert!(
        narrow.contains("columns left out to fit: ") && narrow.contains("stddev"),
        "{narrow}"
    );
    assert!(!wide.contains("left out"), "{wide}");
    // the name is the last column, including the part that distinguishes kernels
    for functor in ["Mul", "Div", "Greater"] {
        let rows = narrow.lines().filter(|line| line.contains(functor));
        assert_eq!(rows.count(), 1, "{functor}: {narrow}");
    }
}

#[test]
fn kernels_have_short_names_and_full_ones_on_request() {
    let tool = drawn_runs();
    let full = long_kernel("Mul");
    let short = "vectorized_elementwise_kernel<MulFunctor>";
    for command in ["analyze one --table kernels", "top one", "diff one two"] {
        let said = tool.run(&format!("{command} --rows 0")).exits(0).stdout;
        assert!(
            said.contains(short) && !said.contains("void at::"),
            "{command}: {said}"
        );
        // ops of the host keep the namespace of their library
        if command == "top one" {
            assert!(said.contains("a_library_with_a_long_name::"), "{said}");
        }
        let said = tool
            .run(&format!("{command} --rows 0 --full-names"))
            .exits(0);
        said.says("void at::native::vec");
    }
    let gaps = tool.run("analyze one --table gaps").exits(0).stdout;
    assert!(!gaps.contains("void at::"), "{gaps}");
    let json = tool
        .run("analyze one --table kernels --json")
        .exits(0)
        .runs();
    let kernels = json[0]["total"]["kernels"].as_array().expect("a table");
    let kernel = kernels.iter().find(|kernel| kernel["name"] == *full);
    assert_eq!(kernel.expect("that kernel")["short_name"], short);
    for (command, list) in [("top one", "/tables/0/rows"), ("diff one two", "/changes")] {
        let json = tool.run(&format!("{command} --json")).exits(0).json();
        let rows = json.pointer(list).and_then(|rows| rows.as_array());
        let mut rows = rows.expect("rows").iter();
        let row = rows.find(|row| row["name"] == *full).expect("that kernel");
        assert_eq!(row["short_name"], short, "{command}");
    }
}

#[test]
fn json_and_csv_are_as_wide_as_they_are() {
    let tool = drawn_runs();
    for line in [
        "analyze one --json",
        "top one --csv",
        "link --device one/kineto_trace_0.json --json",
    ] {
        let seconds = |text: &str| {
            text.lines()
                .filter(|line| !line.contains("seconds"))
                .count()
        };
        let narrow = tool.run_in(line, &[("COLUMNS", "80")]).exits(0).stdout;
        let free = tool.run(line).exits(0).stdout;
        assert_eq!(seconds(&narrow), seconds(&free), "{line}");
    }
}
