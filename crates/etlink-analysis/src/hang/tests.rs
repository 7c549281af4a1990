use super::*;

/// A call of a rank: group, number, kind, elements, and true if it has ended.
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
        dump: etlink_formats::flight_recorder::read(text.as_bytes()).expect("a dump"),
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
        "ranks 0, 1 wait in all_gather 2 of ranks 0, 1, 2, 3, which rank 2 has not called (its last \
         is all_reduce 1); there is no dump of rank 3"
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
        "ranks 0, 2, 3 wait in all_reduce 9 of ranks 0, 1, 2, 3, which all of them called, and which \
         has ended on rank 1"
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
            "all_reduce 2 of ranks 0, 1, 2, 3: all_reduce on rank 0, broadcast on rank 1",
            "all_reduce 1 of ranks 0, 1, 2, 3: 32 bytes on rank 0, 16 bytes on rank 1",
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
    // searching for each absent rank among all of them would take a minute
    assert!(begin.elapsed() < std::time::Duration::from_secs(5));
}

/// The same dump, as if its file were truncated after these calls.
fn cut_dump(rank: i64, groups: &str, calls: &[Call]) -> RankDump {
    let mut one = dump_of(rank, groups, calls);
    one.dump
        .anomalies
        .note(etlink_model::AnomalyKind::Truncated, String::new);
    one
}

const PAIR: &str = r#""0": {"name": "0", "desc": "g0", "ranks": "[0, 1]"}"#;

#[test]
fn a_rank_whose_dump_is_cut_is_not_accused() {
    let (done, open) = (
        ("0", 1, "all_reduce", 8, true),
        ("0", 4, "barrier", 0, false),
    );
    let dumps = [cut_dump(0, PAIR, &[done]), dump_of(1, PAIR, &[done, open])];
    let report = hang_report(&dumps);
    assert_eq!(report.verdict, HangVerdict::Unknown);
    assert!(report.waited_for.is_empty());
    assert_eq!(
        report.sentences,
        [
            "the cause of the hang is unknown: the dump of rank 0 is truncated, and others may wait \
             for it"
        ]
    );
    assert_eq!(
        report.cut[0].message,
        "rank 0's dump is truncated after all_reduce 1: its later calls are unknown"
    );
    assert_eq!(
        report.stuck[0].sentence(),
        "rank 1 waits in barrier 4 of ranks 0, 1; calls of rank 0 after all_reduce 1 are unknown: its \
         dump is truncated"
    );
    assert_eq!(report.ranks[1].may_wait_for, ranks(&[0]));
    let cut = flight_calls(&dumps).into_iter().filter(|call| call.is_cut);
    assert_eq!(cut.count(), 1);
}

#[test]
fn what_ranks_call_differently_is_the_verdict() {
    let said = |kinds: [(&'static str, u64); 4]| {
        let dumps: Vec<RankDump> = (0i64..)
            .zip(kinds)
            .map(|(rank, (kind, elements))| {
                dump_of(rank, WORLD, &[("0", 2, kind, elements, false)])
            })
            .collect();
        let report = hang_report(&dumps);
        assert_eq!(report.verdict, HangVerdict::Hangs);
        (report.sentences[0].clone(), report.stuck[0].sentence())
    };
    let reduce = ("all_reduce", 8);
    let (verdict, stuck) = said([reduce, reduce, reduce, ("broadcast", 8)]);
    assert_eq!(
        verdict,
        "the run hangs: rank 3 called broadcast 2, but ranks 0, 1, 2 called all_reduce 2"
    );
    assert_eq!(
        stuck,
        "ranks 0, 1, 2, 3 wait in collective 2 of ranks 0, 1, 2, 3: all_reduce on ranks 0, \
         1, 2, broadcast on rank 3"
    );
    let (verdict, stuck) = said([reduce, ("all_reduce", 4), reduce, reduce]);
    assert_eq!(
        verdict,
        "the run hangs: rank 1 called all_reduce 2 with 16 bytes, but ranks 0, 2, 3 called \
         all_reduce 2 with 32 bytes"
    );
    assert!(stuck.ends_with(": 32 bytes on ranks 0, 2, 3, 16 bytes on rank 1"));
}

#[test]
fn one_dump_of_two_says_only_what_its_rank_did() {
    let done = ("0", 1, "all_reduce", 8, true);
    let report = hang_report(&[dump_of(0, PAIR, &[done])]);
    assert_eq!(report.verdict, HangVerdict::Ended);
    assert_eq!(
        report.sentences,
        [
            "rank 0, the only rank with a dump, has finished all its calls; there is no dump of \
          rank 1"
        ]
    );
    let both = [dump_of(0, PAIR, &[done]), dump_of(1, PAIR, &[done])];
    assert_eq!(
        hang_report(&both).sentences,
        ["no rank hangs in a collective: all called collectives have ended"]
    );
}

#[test]
fn what_has_ended_elsewhere_may_have_been_in_flight() {
    let call = |done| ("0", 9, "all_reduce", 8, done);
    let dumps = [
        dump_of(0, PAIR, &[call(false)]),
        dump_of(1, PAIR, &[call(true)]),
    ];
    let report = hang_report(&dumps);
    assert_eq!(report.verdict, HangVerdict::InFlight);
    assert_eq!(
        report.sentences,
        [
            "no rank visibly hangs: all_reduce 9 has ended on rank 1 but not on rank 0, and may have \
          been in flight at the time of the dumps"
        ]
    );
}

#[test]
fn a_send_without_its_receive_is_named() {
    let send = ("0", 1, "send 0->1", 8, false);
    let report = hang_report(&[dump_of(0, PAIR, &[send]), dump_of(1, PAIR, &[])]);
    assert_eq!(report.waited_for, ranks(&[1]));
    assert_eq!(
        report.messages[0].sentence(),
        "rank 0 waits in send 1 to rank 1, which is in no matching recv"
    );
    // a rank about which nothing is known is not accused
    let report = hang_report(&[dump_of(0, PAIR, &[send])]);
    assert_eq!(report.verdict, HangVerdict::Unknown);
    assert_eq!(
        report.messages[0].sentence(),
        "rank 0 waits in send 1 to rank 1; there is no dump of rank 1"
    );
}

#[test]
fn each_rank_that_waits_has_a_line() {
    let dumps = [
        dump_of(
            0,
            PAIR,
            &[
                ("0", 104, "all_reduce", 8, true),
                ("0", 105, "all_reduce", 8, false),
            ],
        ),
        dump_of(1, PAIR, &[("0", 55, "all_reduce", 8, false)]),
    ];
    let report = hang_report(&dumps);
    assert_eq!(
        report.sentences,
        [
            "the run hangs on rank 1: others wait for it; rank 1 is in all_reduce 55 and waits \
          for no rank"
        ]
    );
    let lines: Vec<String> = report.stuck.iter().map(StuckCollective::sentence).collect();
    assert_eq!(
        lines,
        [
            "rank 0 waits in all_reduce 105 of ranks 0, 1, which rank 1 has not called (its last is \
             all_reduce 55)",
            "rank 1 waits in all_reduce 55 of ranks 0, 1, which all of them called",
        ]
    );
}
