use super::*;
use crate::Cycle;

fn manifest() -> Manifest {
    let schedule = ScheduleSettings {
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
        gzip: false,
    };
    Manifest {
        etlink: "0".into(),
        command: vec![],
        ended: Ended::ExitCode(0),
        schedule,
        step_on: "optimizer".into(),
        asked_ranks: None,
        options,
        ranks: vec![],
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
            vec![short],
            true,
            "process 9: nothing is recorded: the program made 7 steps, recording starts at step 12",
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
            "PyTorch 2.1.2 lacks profile_all_threads: recorded without",
            "rank 0: the program ended in step 13, which is recorded as far as it went",
            "rank 1: died in or after step 13 while it was recorded: the traces of that cycle are lost",
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
    let read = Recorded::read(&serde_json::to_vec(&written).expect("json")).expect("reads");
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
    let newer = Recorded::read(
        br#"{"ranks": [{"rank": 3, "new": 1, "cycles": [{"host_trace": "a"}]}], "more": []}"#,
    )
    .expect("reads");
    assert_eq!(
        (newer.ranks[0].process.rank, newer.ranks[0].lost),
        (Some(3), false)
    );
    assert!(Recorded::read(b"[]").is_err() && Recorded::read(b"{}").is_err());
}
