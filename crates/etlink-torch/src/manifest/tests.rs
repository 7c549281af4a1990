use super::*;
use crate::Cycle;

fn manifest() -> Manifest {
    let schedule = Arguments {
        skip_first: 0,
        wait: 10,
        warmup: 2,
        active: 2,
        repeat: 1,
        skip_first_wait: 0,
    };
    let options = Options {
        record_shapes: false,
        with_stack: false,
        profile_memory: false,
        with_flops: false,
        cuda_sync_events: true,
        thread_waits: true,
        memory_snapshot: false,
        cuda_graph_nodes: false,
        gzip: false,
        interleave: false,
    };
    Manifest {
        etlink: "0".into(),
        command: vec![],
        ended: Ended::ExitCode(0),
        schedule: Some(schedule),
        armed: None,
        phases: BTreeMap::new(),
        own_profiler: OwnProfiler::Adopt,
        step_on: "optimizer".into(),
        asked_ranks: None,
        options,
        job: None,
        tasks: vec![],
        ranks: vec![],
        missing: vec![],
        notes: vec![],
    }
}

fn rank(rank: u32, steps: u64, cycles: Vec<Cycle>) -> Process {
    Process {
        pid: 100 + rank,
        rank: Some(rank),
        steps,
        cycles,
        torch: "2.1.2".into(),
        ..Process::default()
    }
}

fn cycle(whole: bool) -> Cycle {
    Cycle {
        first_step: 12,
        last_step: 13,
        whole,
        ..Cycle::default()
    }
}

#[test]
fn why_nothing_is_recorded() {
    let none = BTreeSet::new();
    let short = Process {
        pid: 9,
        steps: 7,
        counted: Some("SGD".into()),
        ..Process::default()
    };
    for (processes, hooked, words) in [
        (vec![], false, "started no Python"),
        (vec![], true, "did not import torch"),
        (
            vec![Process::default()],
            true,
            "made no step; steps are calls of optimizer.step()",
        ),
        (
            vec![Process {
                trained_in_fork: true,
                ..Process::default()
            }],
            true,
            "in a forked process without a rank",
        ),
        (
            vec![short],
            true,
            "process 9: nothing was recorded: the program made 7 steps (calls of SGD.step), but recording starts at step 12",
        ),
    ] {
        let manifest = manifest().with(processes, hooked, &none);
        assert!(
            matches!(&manifest.notes[..], [note] if note.contains(words)),
            "{:?}",
            manifest.notes
        );
        assert!(!manifest.is_complete());
    }
}

#[test]
fn a_launcher_that_imports_torch_is_no_rank_and_ranks_are_in_order() {
    let launcher = Process {
        pid: 1,
        ..Process::default()
    };
    let manifest = manifest().with(
        vec![
            rank(1, 20, vec![cycle(true)]),
            launcher,
            rank(0, 20, vec![cycle(true)]),
        ],
        true,
        &BTreeSet::new(),
    );
    assert_eq!(
        manifest
            .ranks
            .iter()
            .map(|rank| rank.process.rank)
            .collect::<Vec<_>>(),
        [Some(0), Some(1)]
    );
    assert_eq!(
        (
            manifest.notes.len(),
            manifest.recorded(),
            manifest.is_complete()
        ),
        (0, 2, true)
    );
}

#[test]
fn what_is_lost_cut_or_lacking_is_told_once() {
    let lacking = |process: Process| Process {
        lacks: vec!["profile_all_threads".into()],
        ..process
    };
    let processes = vec![
        lacking(rank(0, 13, vec![cycle(false)])),
        lacking(rank(1, 13, vec![])),
    ];
    let manifest = manifest().with(processes, true, &BTreeSet::from([101]));
    assert!(!manifest.is_complete());
    let notes: Vec<&str> = manifest.notes.iter().map(String::as_str).collect();
    assert_eq!(
        notes,
        [
            "PyTorch 2.1.2 lacks profile_all_threads: recorded without it",
            "rank 0: the program ended in step 13, which is recorded up to its end",
            "rank 1: died in or after step 13 during recording: the traces of this cycle are lost",
        ]
    );
}

#[test]
fn a_rank_that_was_started_again_is_there() {
    let first = Process {
        pid: 7,
        ..rank(0, 2, vec![])
    };
    let manifest = manifest().with(
        vec![rank(0, 20, vec![cycle(true)]), first],
        true,
        &BTreeSet::from([7]),
    );
    assert!(manifest.is_complete());
    assert!(
        matches!(&manifest.notes[..], [note] if note.contains("rank 0: died in or after step 2")),
        "{:?}",
        manifest.notes
    );
}

#[test]
fn ranks_that_were_not_asked_for_are_no_loss() {
    let other = Process {
        excluded: true,
        ..rank(1, 20, vec![])
    };
    let manifest = manifest().with(
        vec![rank(0, 20, vec![cycle(true)]), other],
        true,
        &BTreeSet::new(),
    );
    assert!(manifest.is_complete(), "{:?}", manifest.notes);
    assert_eq!(manifest.notes.len(), 0);
}

#[test]
fn a_manifest_is_read_back() {
    let written = manifest().with(
        vec![rank(1, 20, vec![]), rank(0, 20, vec![cycle(true)])],
        true,
        &BTreeSet::from([101]),
    );
    let read = ManifestContents::read(&serde_json::to_vec(&written).expect("json")).expect("reads");
    let told: Vec<_> = read
        .ranks
        .iter()
        .map(|rank| {
            (
                rank.process.rank,
                rank.process.steps,
                rank.process.cycles.clone(),
                rank.lost,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (Some(0), 20, vec![cycle(true)], false),
            (Some(1), 20, vec![], true)
        ]
    );
    let newer = ManifestContents::read(
        br#"{"ranks": [{"rank": 3, "new": 1, "cycles": [{"host_trace": "a"}]}], "more": []}"#,
    )
    .expect("reads");
    assert_eq!(
        (newer.ranks[0].process.rank, newer.ranks[0].lost),
        (Some(3), false)
    );
    assert!(ManifestContents::read(b"[]").is_err() && ManifestContents::read(b"{}").is_err());
}

#[test]
fn ranks_of_which_nothing_is_heard_are_missed() {
    let two_of_four = |local_world| {
        let process = |number| Process {
            world: Some(4),
            local_world,
            ..rank(number, 20, vec![cycle(true)])
        };
        let processes = vec![process(2), process(3)];
        let manifest = manifest().with(processes, true, &BTreeSet::new());
        manifest.with_missing(true)
    };
    let alone = two_of_four(None);
    assert_eq!(
        (alone.missing.clone(), alone.is_complete()),
        (vec![0, 1], false)
    );
    assert_eq!(
        alone.notes,
        ["rank 0, 1 of 4 is missing: none of its processes reported a step"]
    );
    // torchrun on two machines: the other ranks are recorded on the second one
    assert!(two_of_four(Some(2)).is_complete());
}

#[test]
fn a_second_program_of_a_rank_is_no_loss_but_a_second_process_is() {
    let second = |duplicate| Process {
        pid: 7,
        duplicate,
        notes: vec!["why".into()],
        ..rank(0, 20, vec![])
    };
    for duplicate in [false, true] {
        let processes = vec![rank(0, 20, vec![cycle(true)]), second(duplicate)];
        let manifest = manifest().with(processes, true, &BTreeSet::new());
        assert_eq!(manifest.is_complete(), !duplicate);
    }
}

#[test]
fn tasks_of_a_job_join_their_parts() {
    let part = |number: u32, earlier: ManifestContents, ended| {
        let own = Task {
            task: number,
            attempt: 0,
            ended,
            notes: vec![],
        };
        let mut manifest = manifest();
        manifest.job = Some("slurm 1.0".into());
        manifest.ended = ended;
        let process = Process {
            launcher: format!("L{number}"),
            pid: 5,
            world: Some(3),
            ..rank(number, 20, vec![cycle(true)])
        };
        let manifest = manifest.with(vec![process], true, &BTreeSet::new());
        manifest.joined(earlier, Some(own))
    };
    let first = part(1, ManifestContents::default(), Ended::ExitCode(3));
    let written = serde_json::to_vec(&first).expect("json");
    let both = part(
        0,
        ManifestContents::read(&written).expect("reads"),
        Ended::ExitCode(0),
    );
    let ranks: Vec<_> = both.ranks.iter().map(|rank| rank.process.rank).collect();
    assert_eq!(ranks, [Some(0), Some(1)]);
    assert_eq!((both.tasks.len(), both.ended), (2, Ended::ExitCode(3)));
    assert!(both.clone().with_missing(false).is_complete());
    assert_eq!(both.with_missing(true).missing, [2]);
}

#[test]
fn ranks_that_the_program_does_not_profile_are_no_loss_without_a_schedule() {
    let own = Cycle {
        own_profiler: true,
        whole: true,
        ..Cycle::default()
    };
    let processes = || vec![rank(0, 8, vec![own.clone()]), rank(1, 8, vec![])];
    let asked = manifest().with(processes(), true, &BTreeSet::new());
    assert!(!asked.is_complete());
    let mut unasked = manifest();
    unasked.schedule = None;
    let unasked = unasked.with(processes(), true, &BTreeSet::new());
    assert!(unasked.is_complete());
    assert_eq!(
        unasked.notes,
        [
            "rank 1: nothing was recorded: the program made 8 steps and created no profiler; choose the steps with --wait, --warmup and --active"
        ]
    );
}

#[test]
fn an_armed_program_misses_only_what_was_asked_for() {
    let armed = || Manifest {
        schedule: None,
        armed: Some(ArmedSettings {
            steps: 2,
            warmup: 1,
            every: None,
            when: None,
            keep: None,
            signal: None,
        }),
        ..manifest()
    };
    let asked = |why: Option<&str>| AskedRecording {
        by: "etlink trigger".into(),
        first_step: 12,
        why: why.map(str::to_owned),
        ..AskedRecording::default()
    };
    let process = |number, cycles, asked| Process {
        asked,
        ..rank(number, 40, cycles)
    };
    let none = BTreeSet::new();
    let idle = armed().with(vec![process(0, vec![], vec![])], true, &none);
    assert!(idle.is_idle() && idle.is_complete() && idle.notes.is_empty());
    let recorded = || process(0, vec![cycle(true)], vec![asked(None)]);
    let whole = armed().with(vec![recorded()], true, &none);
    assert!(!whole.is_idle() && whole.is_complete() && whole.notes.is_empty());
    let late = process(1, vec![], vec![asked(Some("it was late"))]);
    let partial = armed().with(vec![recorded(), late], true, &none);
    assert!(!partial.is_complete());
    assert_eq!(
        partial.notes,
        [
            "rank 1: nothing was recorded from step 12 on, as requested by etlink trigger: it was late"
        ]
    );
}

#[test]
fn a_phase_without_a_cycle_is_missed() {
    let of_phase = |phase: &str| Cycle {
        phase: Some(phase.to_owned()),
        ..cycle(true)
    };
    let asked = manifest();
    let steps = asked.schedule.expect("a schedule");
    let asked = Manifest {
        schedule: None,
        phases: ["train", "test"]
            .map(|phase| (phase.to_owned(), steps))
            .into(),
        ..asked
    };
    for (recorded, is_complete) in [(vec!["train"], false), (vec!["train", "test"], true)] {
        let cycles = recorded.into_iter().map(of_phase).collect();
        let process = Process {
            notes: vec!["a note".into()],
            ..rank(0, 20, cycles)
        };
        let found = asked.clone().with(vec![process], true, &BTreeSet::new());
        assert_eq!(found.is_complete(), is_complete);
    }
    let idle = asked.with(vec![Process::default()], true, &BTreeSet::new());
    assert!(idle.notes[0].contains("ran no Lightning batch"), "{idle:?}");
}
