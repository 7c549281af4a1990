//! Grouping of a folder's files into ranks of one run, recordings of one rank, or separate runs.

use crate::tool::Tool;
use etlink_testing::{DeviceQueue, KinetoFlavour, TraceBuilder};
use serde_json::Value;

const MS: i64 = 1_000_000;

/// A device trace of a process in a run of `world` ranks, without its rank. It meets the others in
/// collectives.
#[derive(Clone, Copy)]
struct Process {
    id: i64,
    world: u64,
    begin_ms: i64,
    device: i64,
    /// Number of its collectives, 3 ms apart.
    collectives: i64,
    /// Whether its collectives name their group.
    names_group: bool,
}

impl Process {
    const FIRST: Process = Process {
        id: 100,
        world: 4,
        begin_ms: 1_700_000_000_000,
        device: 0,
        collectives: 8,
        names_group: true,
    };

    fn trace(self) -> Vec<u8> {
        let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
        draw.process(self.id).origin(self.begin_ms * MS);
        let main = draw.thread();
        let ranks: Vec<String> = (0..self.world).map(|rank| rank.to_string()).collect();
        for number in 0..self.collectives {
            let at = (1 + 3 * number) * MS;
            let op = draw.op(main, "record_param_comms", at, at + 50_000);
            let group = format!("\"[{}]\"", ranks.join(", "));
            if self.names_group {
                draw.arg(op, "Process Group Ranks", &group);
            }
            let correlation = draw.next_correlation();
            draw.call(
                main,
                "cudaLaunchKernelExC",
                (at + 10_000, at + 20_000),
                correlation,
            );
            let queue = DeviceQueue {
                device: self.device,
                ..DeviceQueue::stream(20)
            };
            let kernel = "ncclDevKernel_AllReduce_Sum_f32";
            draw.kernel(queue, kernel, (at + 30_000, at + MS), correlation);
        }
        draw.kineto()
    }
}

/// Returns the name and the ranks of each run.
fn runs(tool: &Tool) -> Vec<(String, Vec<i64>)> {
    let report = tool.run("ranks run --json").json();
    let mut found = vec![];
    for run in report["runs"].as_array().into_iter().flatten() {
        let ranks = run["ranks"].as_array().into_iter().flatten();
        let ranks = ranks.filter_map(|rank| rank["rank"].as_i64()).collect();
        found.push((run["run"].as_str().unwrap_or_default().to_owned(), ranks));
    }
    found
}

/// Writes traces of processes whose ids follow each other.
fn put(tool: &Tool, names: &[&str], process: impl Fn(usize) -> Process) {
    for (place, name) in names.iter().enumerate() {
        tool.file(&format!("run/{name}"), process(place).trace());
    }
}

fn nth(place: usize) -> Process {
    Process {
        id: 100 + place as i64,
        ..Process::FIRST
    }
}

#[test]
fn processes_that_overlap_are_ranks_by_the_places_in_their_names() {
    for (names, by_process) in [
        (
            [
                "9.5-TP-0-PP-0.trace",
                "9.5-TP-1-PP-0.trace",
                "9.5-TP-0-PP-1.trace",
                "9.5-TP-1-PP-1.trace",
            ],
            [0, 1, 2, 3],
        ),
        (
            [
                "dp0_pp0_tp0_rank0.9",
                "dp0_pp0_tp1_rank1.9",
                "dp1_pp0_tp0_rank0.9",
                "dp1_pp0_tp1_rank1.9",
            ],
            [0, 1, 2, 3],
        ),
        (
            [
                "rank0_tp0_pp0_dp1.x",
                "rank1_tp1_pp0_dp1.x",
                "rank0_tp0_pp0_dp0.x",
                "rank1_tp1_pp0_dp0.x",
            ],
            [2, 3, 0, 1],
        ),
    ] {
        let tool = Tool::new();
        let files = names.map(|name| format!("{name}.json"));
        put(&tool, &files.each_ref().map(String::as_str), nth);
        assert_eq!(
            runs(&tool),
            [(String::new(), vec![0, 1, 2, 3])],
            "{names:?}"
        );
        let said = tool.run("ranks run -v");
        for (file, rank) in files.iter().zip(by_process) {
            let line = format!("rank {rank}: device trace run/{file}");
            assert!(said.stderr.contains(&line), "{line}: {}", said.stderr);
        }
    }
}

#[test]
fn one_process_has_recordings_one_after_the_other() {
    let tool = Tool::new();
    let names = [
        "1.5-TP-0.trace.json",
        "2.5-TP-0.trace.json",
        "1.5-TP-1.trace.json",
        "2.5-TP-1.trace.json",
    ];
    put(&tool, &names, |place| Process {
        id: 100 + place as i64 / 2,
        world: 2,
        begin_ms: Process::FIRST.begin_ms + 1_000 * (place as i64 % 2),
        ..Process::FIRST
    });
    let expected = ["cycle1", "cycle2"].map(|name| (name.to_owned(), vec![0, 1]));
    assert_eq!(runs(&tool), expected);
}

#[test]
fn names_that_say_no_rank_have_it_at_their_end() {
    for names in [
        [
            "profile_0.json",
            "profile_1.json",
            "profile_2.json",
            "profile_3.json",
        ],
        ["x-r00.json", "x-r01.json", "x-r02.json", "x-r03.json"],
        [
            "r00_trace.json",
            "r01_trace.json",
            "r02_trace.json",
            "r03_trace.json",
        ],
        [
            "box0_7.17.pt.trace.json",
            "box1_7.17.pt.trace.json",
            "box2_7.17.pt.trace.json",
            "box3_7.17.pt.trace.json",
        ],
        [
            "t_rank[0].json",
            "t_rank[1].json",
            "t_rank[2].json",
            "t_rank[3].json",
        ],
    ] {
        let tool = Tool::new();
        put(&tool, &names, nth);
        assert_eq!(
            runs(&tool),
            [(String::new(), vec![0, 1, 2, 3])],
            "{names:?}"
        );
    }
    // in containers, all processes may have the id 1
    let tool = Tool::new();
    let names = [
        "worker0.17.json",
        "worker1.17.json",
        "worker2.17.json",
        "worker3.17.json",
    ];
    put(&tool, &names, |place| Process {
        id: 1,
        begin_ms: Process::FIRST.begin_ms + place as i64,
        ..Process::FIRST
    });
    assert_eq!(runs(&tool), [(String::new(), vec![0, 1, 2, 3])]);
    // recordings of one process are not ranks
    let tool = Tool::new();
    put(&tool, &["profile_0.json", "profile_1.json"], |place| {
        Process {
            begin_ms: Process::FIRST.begin_ms + 1_000 * place as i64,
            ..Process::FIRST
        }
    });
    assert!(runs(&tool).iter().all(|(_, ranks)| ranks.is_empty()));
}

#[test]
fn traces_without_any_rank_have_those_of_their_devices() {
    let tool = Tool::new();
    let names = [
        "host_94.17.pt.trace.json",
        "host_91.17.pt.trace.json",
        "host_92.17.pt.trace.json",
        "host_93.17.pt.trace.json",
    ];
    put(&tool, &names, |place| Process {
        device: place as i64,
        ..nth(place)
    });
    assert_eq!(runs(&tool), [(String::new(), vec![0, 1, 2, 3])]);
    tool.run("ranks run -v")
        .notes("rank 1: device trace run/host_91.17");
}

#[test]
fn folders_of_nodes_with_other_ranks_of_one_world_are_one_run() {
    let names = [
        "node0/rank0.json",
        "node0/rank1.json",
        "node1/rank2.json",
        "node1/rank3.json",
    ];
    let tool = Tool::new();
    put(&tool, &names, nth);
    assert_eq!(runs(&tool), [(String::new(), vec![0, 1, 2, 3])]);
    // an hour later it is another run
    let tool = Tool::new();
    put(&tool, &names, |place| Process {
        begin_ms: Process::FIRST.begin_ms + 3_600_000 * (place as i64 / 2),
        ..nth(place)
    });
    assert_eq!(runs(&tool).len(), 2);
}

#[test]
fn folders_are_ranks_of_one_run_by_their_names_and_who_recorded_them() {
    for (names, by_process) in [
        (vec!["rank[0]/t.json", "rank[1]/t.json"], vec![0, 1]),
        (
            vec![
                "TP-0-PP-0/t.json",
                "TP-1-PP-0/t.json",
                "TP-0-PP-1/t.json",
                "TP-1-PP-1/t.json",
            ],
            vec![0, 1, 2, 3],
        ),
        (
            vec!["worker-2/t.json", "worker-1/t.json", "worker-3/t.json"],
            vec![2, 1, 3],
        ),
        (
            vec![
                "node0/rank0.json",
                "node0/rank1.json",
                "node1/rank0.json",
                "node1/rank1.json",
            ],
            vec![0, 1, 2, 3],
        ),
        (vec!["node0/rank0.json", "node1/rank0.json"], vec![0, 1]),
    ] {
        let world = if names.len() == 2 { 2 } else { 4 };
        let tool = Tool::new();
        put(&tool, &names, |place| Process {
            world,
            ..nth(place)
        });
        let mut ranks = by_process.clone();
        ranks.sort_unstable();
        assert_eq!(runs(&tool), [(String::new(), ranks)], "{names:?}");
        let said = tool.run("ranks run -v");
        for (name, rank) in names.iter().zip(&by_process) {
            let line = format!("rank {rank}: device trace run/{name}");
            assert!(said.stderr.contains(&line), "{line}: {}", said.stderr);
        }
    }
}

#[test]
fn folders_that_nothing_binds_stay_runs_and_both_readings_are_named() {
    let names = [
        "node0/rank0.json",
        "node0/rank1.json",
        "node1/rank0.json",
        "node1/rank1.json",
    ];
    let tool = Tool::new();
    put(&tool, &names, |place| Process {
        names_group: false,
        ..nth(place)
    });
    assert_eq!(runs(&tool).len(), 2);
    tool.run("ranks run")
        .notes("nodes of one run, or separate runs");
    // jobs of two ranks each are no nodes, and need no note
    let tool = Tool::new();
    put(&tool, &names, |place| Process {
        world: 2,
        ..nth(place)
    });
    assert_eq!(runs(&tool).len(), 2);
    let said = tool.run("ranks run").stderr;
    assert!(!said.contains("nodes of one run"), "{said}");
}

#[test]
fn places_along_axes_are_ranks_though_some_are_not_here() {
    for (names, expected) in [
        (
            vec!["tp0_dp0", "tp0_dp1", "tp1_dp0", "tp1_dp1"],
            vec![0, 1, 2, 3],
        ),
        (vec!["tp_0_pp_0", "tp_0_pp_1", "tp_1_pp_0"], vec![0, 1, 2]),
        (
            vec![
                "9.5-TP-0-PP-1.trace",
                "9.5-TP-1-PP-0.trace",
                "9.5-TP-1-PP-1.trace",
            ],
            vec![1, 2, 3],
        ),
        (
            vec!["9.5-TP-0-PP-0.trace", "9.5-TP-1-PP-1.trace"],
            vec![0, 3],
        ),
    ] {
        let tool = Tool::new();
        let files: Vec<String> = names.iter().map(|name| format!("{name}.json")).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        put(&tool, &files, nth);
        assert_eq!(runs(&tool), [(String::new(), expected)], "{names:?}");
    }
    // of four ranks these are 0 and 1, or 0 and 2
    let tool = Tool::new();
    put(
        &tool,
        &["9.5-TP-0-PP-0.trace.json", "9.5-TP-0-PP-1.trace.json"],
        nth,
    );
    assert!(runs(&tool).iter().all(|(_, ranks)| ranks.is_empty()));
    tool.run("ranks run")
        .notes("ranks 0, 1 or ranks 0, 2 of one run");
}

/// The numbers of each name are the places along TP, DP and PP.
#[test]
fn places_of_megatron_are_ranks_with_pipeline_stages_outermost() {
    let of = |tp: i64, dp: i64, pp: i64| [tp, dp, pp];
    let mut grid = vec![];
    for pp in 0..2 {
        for dp in 0..2 {
            grid.extend([of(0, dp, pp), of(1, dp, pp)]);
        }
    }
    let flat: Vec<[i64; 3]> = grid.iter().copied().filter(|[_, dp, _]| *dp == 0).collect();
    type NameOf = fn([i64; 3]) -> String;
    let names: [(&[[i64; 3]], NameOf); 9] = [
        (&grid, |[tp, dp, pp]| {
            format!("TP-{tp}-DP-{dp}-PP-{pp}-EP-{dp}.json")
        }),
        (&grid, |[tp, dp, pp]| {
            format!("TP-{tp}-DP-{dp}-PP-{pp}-EP-0.json")
        }),
        (&grid, |[tp, dp, pp]| {
            format!("tp{tp}_dp{dp}_pp{pp}_ep{dp}.json")
        }),
        (&grid, |[tp, dp, pp]| {
            format!("pp{pp}_ep{dp}_dp{dp}_tp{tp}.json")
        }),
        (&grid, |[tp, ep, pp]| {
            format!("mp_rank_{tp:02}_{pp:03}_{ep:03}/trace.json")
        }),
        (&flat, |[tp, _, pp]| {
            format!("mp_rank_{tp:02}_{pp:03}/trace.json")
        }),
        (&flat, |[tp, _, pp]| {
            format!("trace_mp_rank_{tp:02}_{pp:03}.json")
        }),
        (&flat, |[tp, _, pp]| {
            format!("tp_rank_{tp:02}_pp_rank_{pp:03}/trace.json")
        }),
        (&flat, |[tp, _, pp]| {
            format!("9.5-TP-{tp}-DP-{tp}-PP-{pp}-EP-{tp}.trace.json")
        }),
    ];
    for (places, name) in names {
        let files: Vec<String> = places.iter().map(|places| name(*places)).collect();
        let names: Vec<&str> = files.iter().map(String::as_str).collect();
        let tool = Tool::new();
        put(&tool, &names, |place| Process {
            world: files.len() as u64,
            ..nth(place)
        });
        let ranks: Vec<i64> = (0..files.len() as i64).collect();
        assert_eq!(runs(&tool), [(String::new(), ranks)], "{files:?}");
        let said = tool.run("ranks run -v");
        for (rank, file) in files.iter().enumerate() {
            let line = format!("rank {rank}: device trace run/{file}");
            assert!(said.stderr.contains(&line), "{line}: {}", said.stderr);
        }
    }
}

#[test]
fn nodes_in_names_have_consecutive_ranks() {
    for names in [
        [
            "node0_rank0.json",
            "node0_rank1.json",
            "node1_rank0.json",
            "node1_rank1.json",
        ],
        [
            "host-9_gpu0.json",
            "host-9_gpu1.json",
            "host-10_gpu0.json",
            "host-10_gpu1.json",
        ],
    ] {
        let tool = Tool::new();
        put(&tool, &names, nth);
        assert_eq!(
            runs(&tool),
            [(String::new(), vec![0, 1, 2, 3])],
            "{names:?}"
        );
        let said = tool.run("ranks run -v");
        for (rank, name) in names.iter().enumerate() {
            let line = format!("rank {rank}: device trace run/{name}");
            assert!(said.stderr.contains(&line), "{line}: {}", said.stderr);
        }
        // two jobs of two ranks at the same time are two runs
        let tool = Tool::new();
        put(&tool, &names, |place| Process {
            world: 2,
            ..nth(place)
        });
        let found = runs(&tool);
        assert!(found.iter().all(|(_, ranks)| ranks.len() < 3), "{found:?}");
    }
}

#[test]
fn a_copy_under_another_rank_is_refused_by_name() {
    let tool = Tool::new();
    put(&tool, &["rank0.json", "rank1.json", "rank2.json"], nth);
    tool.file("run/rank3.json", nth(2).trace());
    assert_eq!(runs(&tool), [(String::new(), vec![0, 1])]);
    let said: Value = tool.run("ranks run --json").json();
    let excluded = said["runs"][0]["excluded"].as_array().map(Vec::len);
    assert_eq!(excluded, Some(2));
}

#[test]
fn jobs_whose_names_differ_alike_are_runs() {
    for begin_ms in [0, 5, 3_600_000] {
        let tool = Tool::new();
        let names = [
            "a_rank0.json",
            "a_rank1.json",
            "b_rank0.json",
            "b_rank1.json",
        ];
        put(&tool, &names, |place| Process {
            world: 2,
            begin_ms: Process::FIRST.begin_ms + begin_ms * (place as i64 / 2),
            id: 100 + place as i64,
            ..nth(place % 2)
        });
        let of_job = |name: &str| (name.to_owned(), vec![0, 1]);
        assert_eq!(runs(&tool), ["a", "b"].map(of_job), "{begin_ms} ms later");
    }
}

#[test]
fn a_trace_of_another_day_does_not_take_the_rank_of_one() {
    for (days, ranks) in [(0, vec![1, 2]), (1, vec![0, 1, 2])] {
        let tool = Tool::new();
        let names = [
            "kineto_trace_0.json",
            "kineto_trace_1.json",
            "kineto_trace_2.json",
            "rank0_trace.json",
        ];
        put(&tool, &names, |place| Process {
            world: 3,
            begin_ms: Process::FIRST.begin_ms - days * 86_400_000 * (place as i64 / 3),
            ..nth(place)
        });
        let found = runs(&tool);
        assert_eq!(found, [(String::new(), ranks)], "{days} days before");
        let ran = tool.run("ranks run");
        let is_left_out = ran.stderr.contains("rank0_trace.json is left out");
        assert_eq!(is_left_out, days > 0, "{}", ran.stderr);
    }
}

#[test]
fn folders_of_a_run_are_found_at_any_depth() {
    for (names, by_process) in [
        (
            [
                "node0/rank0/t.json",
                "node0/rank1/t.json",
                "node1/rank0/t.json",
                "node1/rank1/t.json",
            ],
            [0, 1, 2, 3],
        ),
        (
            [
                "node0/gpu0/t.json",
                "node0/gpu1/t.json",
                "node1/gpu0/t.json",
                "node1/gpu1/t.json",
            ],
            [0, 1, 2, 3],
        ),
        (
            [
                "n0/rank0/t.json",
                "n0/rank1/t.json",
                "n1/rank2/t.json",
                "n1/rank3/t.json",
            ],
            [0, 1, 2, 3],
        ),
        (
            [
                "dp_0/tp_0/t.json",
                "dp_0/tp_1/t.json",
                "dp_1/tp_0/t.json",
                "dp_1/tp_1/t.json",
            ],
            [0, 1, 2, 3],
        ),
        (
            [
                "pp1/dp0/tp0/t.json",
                "pp1/dp1/tp0/t.json",
                "pp0/dp0/tp0/t.json",
                "pp0/dp1/tp0/t.json",
            ],
            [2, 3, 0, 1],
        ),
        (
            [
                "rack0/node0/rank0.json",
                "rack0/node1/rank0.json",
                "rack1/node0/rank0.json",
                "rack1/node1/rank0.json",
            ],
            [0, 1, 2, 3],
        ),
        (
            [
                "rank0/a/t.json",
                "rank1/a/t.json",
                "rank2/a/t.json",
                "rank3/a/t.json",
            ],
            [0, 1, 2, 3],
        ),
    ] {
        let tool = Tool::new();
        put(&tool, &names, nth);
        // another run is next to it, of another day
        tool.file(
            "run/old/t.json",
            Process {
                begin_ms: Process::FIRST.begin_ms - 90_000_000,
                world: 1,
                ..Process::FIRST
            }
            .trace(),
        );
        let found = runs(&tool);
        assert_eq!(found[0].1, [0, 1, 2, 3], "{names:?}: {found:?}");
        assert_eq!(found.len(), 2, "{names:?}: {found:?}");
        let said = tool.run("ranks run -v");
        for (name, rank) in names.iter().zip(&by_process) {
            let line = format!("rank {rank}: device trace run/{name}");
            assert!(said.stderr.contains(&line), "{line}: {}", said.stderr);
        }
        assert!(!said.stderr.contains("no trace of"), "{}", said.stderr);
    }
}

#[test]
fn recordings_in_the_folders_of_ranks_are_runs_of_all_ranks() {
    for (names, expected) in [
        (
            [
                "rank0/cycle1.json",
                "rank0/cycle2.json",
                "rank1/cycle1.json",
                "rank1/cycle2.json",
            ],
            ["cycle1", "cycle2"],
        ),
        (
            [
                "rank[0]/step_100.json",
                "rank[0]/step_200.json",
                "rank[1]/step_100.json",
                "rank[1]/step_200.json",
            ],
            ["step100", "step200"],
        ),
        (
            [
                "rank0/iteration_10/t.json",
                "rank0/iteration_20/t.json",
                "rank1/iteration_10/t.json",
                "rank1/iteration_20/t.json",
            ],
            ["iteration_10", "iteration_20"],
        ),
        (
            [
                "node0/rank0/cycle1.json",
                "node0/rank0/cycle2.json",
                "node1/rank0/cycle1.json",
                "node1/rank0/cycle2.json",
            ],
            ["cycle1", "cycle2"],
        ),
        (
            [
                "iteration_10/rank0/t.json",
                "iteration_20/rank0/t.json",
                "iteration_10/rank1/t.json",
                "iteration_20/rank1/t.json",
            ],
            ["iteration_10", "iteration_20"],
        ),
    ] {
        let tool = Tool::new();
        put(&tool, &names, |place| Process {
            id: 100 + place as i64 / 2,
            world: 2,
            begin_ms: Process::FIRST.begin_ms + 1_000 * (place as i64 % 2),
            ..Process::FIRST
        });
        let expected = expected.map(|name| (name.to_owned(), vec![0, 1]));
        assert_eq!(runs(&tool), expected, "{names:?}");
        let one = tool.run(&format!("ranks run/{} --json", expected[1].0));
        assert_eq!(
            one.json()["runs"][0]["ranks"].as_array().map(Vec::len),
            Some(2)
        );
    }
}

#[test]
fn recordings_of_two_processes_at_the_same_time_are_no_cycles() {
    // the second recording of a process overlaps with one of another process, and nothing says
    // which ranks they are
    let tool = Tool::new();
    let names = [
        "rank0.cycle1.json",
        "rank0.cycle2.json",
        "rank0.cycle3.json",
    ];
    put(&tool, &names, |place| Process {
        id: 100 + place as i64 / 2,
        begin_ms: Process::FIRST.begin_ms + [0, 100, 110][place],
        ..Process::FIRST
    });
    tool.run("ranks run").exits(2).complains(&[
        "3 device traces claim rank 0",
        "into a separate folder",
        "put the global rank in each name",
    ]);
    // two jobs at the same time, each with both ranks of its world
    let tool = Tool::new();
    let names = [
        "rank0.a.json",
        "rank1.a.json",
        "rank0.b.json",
        "rank1.b.json",
    ];
    put(&tool, &names, |place| Process {
        world: 2,
        ..nth(place)
    });
    let expected = ["a", "b"].map(|name| (name.to_owned(), vec![0, 1]));
    assert_eq!(runs(&tool), expected);
}

#[test]
fn copies_of_a_rank_are_left_out_by_name() {
    let both = ["rank0.1700.pt.trace.json", "rank1.1701.pt.trace.json"];
    for (copies, copied) in [
        (vec!["rank0.1900.pt.trace.json"], vec![0]),
        (
            vec!["rank0.1900.pt.trace.json", "rank1.1901.pt.trace.json"],
            vec![0, 1],
        ),
        (vec!["rank0.1700.pt.trace (1).json"], vec![0]),
        (vec!["rank1.1701.pt.trace.copy.json"], vec![1]),
    ] {
        let tool = Tool::new();
        let of_two = |place: usize| Process {
            world: 2,
            ..nth(place)
        };
        put(&tool, &both, of_two);
        for (name, place) in copies.iter().zip(copied) {
            tool.file(&format!("run/{name}"), of_two(place).trace());
        }
        assert_eq!(runs(&tool), [(String::new(), vec![0, 1])], "{copies:?}");
        let mut said = tool.run("ranks run").exits(0);
        for name in copies {
            said = said.notes(&format!("{name} is left out: it is a copy of "));
        }
    }
    // of a truncated copy, the whole trace is used
    let tool = Tool::new();
    put(&tool, &["rank0.9.json", "rank1.9.json"], nth);
    let whole = nth(0).trace();
    tool.file("run/rank0.8.json", &whole[..whole.len() / 2]);
    tool.run("ranks run")
        .notes("rank0.8.json is left out: it is a truncated copy of rank0.9.json");
}

#[test]
fn cycles_are_told_by_time_whatever_the_names() {
    // names of processes and times, and a rank that lacks the last cycle
    let tool = Tool::new();
    let names = [
        "rank0_7.1700.json",
        "rank0_9.1712.json",
        "rank0_5.1724.json",
        "rank1_8.1701.json",
        "rank1_3.1711.json",
    ];
    put(&tool, &names, |place| Process {
        id: 100 + place as i64 / 3,
        world: 2,
        begin_ms: Process::FIRST.begin_ms + 10_000 * (place as i64 % 3) + place as i64,
        ..Process::FIRST
    });
    let expected = [
        ("cycle1".to_owned(), vec![0, 1]),
        ("cycle2".to_owned(), vec![0, 1]),
        ("cycle3".to_owned(), vec![0]),
    ];
    assert_eq!(runs(&tool), expected);
    tool.run("ranks run").notes("cycle3 has no trace of rank 1");
}

#[test]
fn ranks_whose_recordings_are_short_belong_to_the_longest() {
    let tool = Tool::new();
    let names = ["node0/t.json", "node1/t.json", "node2/t.json"];
    put(&tool, &names, |place| Process {
        begin_ms: Process::FIRST.begin_ms + [0, 2, 10][place],
        collectives: [8, 1, 1][place],
        names_group: false,
        ..nth(place)
    });
    assert_eq!(runs(&tool), [(String::new(), vec![0, 1, 2])]);
}

#[test]
fn two_jobs_in_one_folder_have_folders_of_their_own() {
    let tool = Tool::new();
    let names = [
        "alpha0/t.json",
        "alpha1/t.json",
        "beta0/t.json",
        "beta1/t.json",
    ];
    put(&tool, &names, |place| Process {
        id: 100 + place as i64,
        world: 2,
        begin_ms: Process::FIRST.begin_ms + 5_000 * (place as i64 / 2),
        ..nth(place % 2)
    });
    let folders: Vec<String> = runs(&tool).into_iter().map(|(folder, _)| folder).collect();
    let different: std::collections::BTreeSet<&String> = folders.iter().collect();
    assert!(
        folders.len() > 1 && different.len() == folders.len(),
        "{folders:?}"
    );
    tool.run("merge run -o out").exits(0);
}
