use super::*;

/// What a rank called: group, number, kind, elements, whether it has ended.
type Call = (&'static str, i64, &'static str, u64, bool);

fn dump_of(rank: i64, groups: &str, calls: &[Call]) -> RankDump {
    let mut text = format!(r#"{{"version": "2.10", "pg_config": {{{groups}}}, "entries": ["#);
    for (place, (group, number, kind, elements, done)) in calls.iter().enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        let created = 1_000 + place as i64 * 10 + rank;
        let is_message = kind.contains(' ');
        text += &format!(
            r#"{comma}{{"record_id": {place}, "process_group": ["{group}", "g{group}"],
            "collective_seq_id": {number}, "p2p_seq_id": {number}, "profiling_name": "nccl:{kind}",
            "time_created_ns": {created}, "input_sizes": [[{elements}]],
            "input_dtypes": ["Float"], "state": "{}", "is_p2p": {is_message}}}"#,
            if *done { "completed" } else { "started" }
        );
    }
    text += "]}";
    RankDump {
        rank: GlobalRank(rank),
        dump: etlink_flight_recorder::read(text.as_bytes()).expect("a dump"),
    }
}

const WORLD: &str = r#""0": {"name": "0", "desc": "g0", "ranks": "[0, 1, 2, 3]"}"#;

fn ranks(all: &[i64]) -> Vec<GlobalRank> {
    all.iter().copied().map(GlobalRank).collect()
}

#[test]
fn the_rank_that_has_not_called_it_is_waited_for() {
    let done = ("0", 1, "all_reduce", 8, true);
    let open = ("0", 2, "all_gather", 8, false);
    let dumps = [
        dump_of(0, WORLD, &[done, open]),
        dump_of(1, WORLD, &[done, open]),
        dump_of(2, WORLD, &[done]),
    ];
    let report = hang_report(&dumps);
    assert_eq!(report.absent, ranks(&[3]));
    assert_eq!(report.waited_for, ranks(&[2]));
    assert_eq!(report.collectives, 2);
    let [stuck] = &report.stuck[..] else {
        panic!("{:?}", report.stuck)
    };
    assert_eq!(
        stuck.sentence(),
        "ranks 0, 1 wait in all_gather number 2 of ranks 0, 1, 2, 3, which rank 2 has not called \
         (its last is all_reduce number 1); there is no dump of rank 3"
    );
    assert_eq!((stuck.bytes, stuck.dtype.as_str()), (32, "Float"));
    assert_eq!(report.ranks[0].waits_for, ranks(&[2]));
    assert_eq!(report.ranks[2].hangs_in, None);
    assert_eq!(flight_calls(&dumps).len(), 5);
}

#[test]
fn a_rank_that_waits_in_another_group_is_not_blamed() {
    let groups = format!(r#"{WORLD}, "1": {{"name": "1", "desc": "g1", "ranks": "[2, 3]"}}"#);
    let (world, pair) = (
        ("0", 1, "all_reduce", 8, false),
        ("1", 5, "broadcast", 8, false),
    );
    let dumps = [
        dump_of(0, WORLD, &[world]),
        dump_of(1, WORLD, &[world]),
        dump_of(2, &groups, &[("1", 4, "broadcast", 8, true), pair]),
        dump_of(3, &groups, &[("1", 4, "broadcast", 8, true)]),
    ];
    let report = hang_report(&dumps);
    assert_eq!(report.ranks[0].waits_for, ranks(&[2, 3]));
    assert_eq!(report.ranks[2].waits_for, ranks(&[3]));
    assert_eq!(report.waited_for, ranks(&[3]));
    assert_eq!(report.stuck.len(), 2);
}

#[test]
fn a_collective_that_all_have_called_waits_for_nobody() {
    let open = ("0", 9, "all_reduce", 8, false);
    let ended = ("0", 9, "all_reduce", 8, true);
    let dumps: Vec<RankDump> = (0..4)
        .map(|rank| dump_of(rank, WORLD, &[if rank == 1 { ended } else { open }]))
        .collect();
    let report = hang_report(&dumps);
    assert!(report.waited_for.is_empty());
    assert_eq!(
        report.stuck[0].sentence(),
        "ranks 0, 2, 3 wait in all_reduce number 9 of ranks 0, 1, 2, 3, which all of them have \
         called, and which has ended in rank 1"
    );
}

#[test]
fn what_the_ring_buffer_has_lost_was_called() {
    let dumps = [
        dump_of(0, WORLD, &[("0", 7, "all_reduce", 8, false)]),
        dump_of(1, WORLD, &[("0", 9, "all_reduce", 8, true)]),
        dump_of(2, WORLD, &[("0", 7, "all_reduce", 8, false)]),
        dump_of(3, WORLD, &[("0", 7, "all_reduce", 8, false)]),
    ];
    assert!(hang_report(&dumps).waited_for.is_empty());
}

#[test]
fn messages_wait_for_their_other_side() {
    let group = r#""0": {"name": "0", "desc": "g0", "ranks": "[4, 6]"}"#;
    let dumps = [
        dump_of(4, group, &[("0", 1, "recv 0<-1", 8, false)]),
        dump_of(6, group, &[]),
    ];
    let report = hang_report(&dumps);
    assert_eq!(report.ranks[0].waits_for, ranks(&[6]));
    let dumps = [
        dump_of(4, group, &[("0", 1, "recv 0<-1", 8, false)]),
        dump_of(6, group, &[("0", 1, "send 1->0", 8, false)]),
    ];
    assert!(hang_report(&dumps).waited_for.is_empty());
}

#[test]
fn unequal_calls_are_named_in_the_words_of_a_join() {
    let dumps = [
        dump_of(
            0,
            WORLD,
            &[
                ("0", 1, "all_reduce", 8, true),
                ("0", 2, "all_reduce", 8, false),
            ],
        ),
        dump_of(
            1,
            WORLD,
            &[
                ("0", 1, "all_reduce", 4, true),
                ("0", 2, "broadcast", 8, false),
            ],
        ),
    ];
    let report = hang_report(&dumps);
    let said: Vec<&str> = report
        .problems
        .iter()
        .map(|one| one.examples[0].as_str())
        .collect();
    assert_eq!(
        said,
        [
            "all_reduce number 2 of ranks 0, 1, 2, 3: all_reduce on rank 0, broadcast on rank 1",
            "all_reduce number 1 of ranks 0, 1, 2, 3: 32 bytes on rank 0, 16 bytes on rank 1",
        ]
    );
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a search that is quadratic shows in nothing but its time"
)]
fn many_absent_ranks_take_little_time() {
    let listed: Vec<String> = (0..60_000).map(|rank: i64| rank.to_string()).collect();
    let group = format!(
        r#""0": {{"name": "0", "desc": "g0", "ranks": "[{}]"}}"#,
        listed.join(", ")
    );
    let calls = [("0", 1, "all_reduce", 8, false)];
    let dumps: Vec<RankDump> = (0..3).map(|rank| dump_of(rank, &group, &calls)).collect();
    let begin = std::time::Instant::now();
    let report = hang_report(&dumps);
    assert_eq!(report.absent.len(), 59_997);
    // to look for each absent rank among all of them takes a minute
    assert!(begin.elapsed() < std::time::Duration::from_secs(5));
}
