use super::*;
use etlink_link::ranks::{
    RankClock, RankSummary, align_clocks, join_ranks, step_stragglers, straggler_stats,
};
use etlink_model::GlobalRank;

fn recorded(times: u32) -> RankTemplate {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pairs/ddp2-2.15.0");
    RankTemplate::open(
        &folder.join("torch_et_0.json.gz"),
        &folder.join("kineto_trace_0.json.gz"),
        times,
    )
    .expect("opens")
}

const LATE: LateRank = LateRank {
    rank: 21,
    by_ns: 200_000,
};

fn wishes(ranks: usize) -> ScenarioSettings {
    ScenarioSettings {
        ranks,
        skew_ns: 5_000_000,
        drift_ppb: 0,
        jitter_ns: 20_000,
        late: Some(LATE),
        seed: 7,
    }
}

/// Returns the summaries of all ranks after linking.
fn linked(recorded: &RankTemplate, scenario: &RunScenario) -> Vec<RankSummary> {
    let one = |rank: usize| {
        let (mut host, mut device) = (vec![], vec![]);
        recorded
            .write_host(scenario, rank, &mut host)
            .expect("writes");
        recorded
            .write_device(scenario, rank, &mut device)
            .expect("writes");
        let host = etlink_host::read(&host[..], etlink_host::HostReadOptions::default())
            .expect("a host trace");
        let device = etlink_kineto::read(&device[..], etlink_kineto::KinetoReadOptions::default())
            .expect("a device trace");
        let trace = etlink_link::link(Some(host), device, etlink_link::LinkOptions::default())
            .expect("links");
        let report = &trace.report;
        assert_eq!(
            (report.rank, report.world_size),
            (Some(GlobalRank(rank as i64)), Some(scenario.ranks as i64))
        );
        assert_eq!(
            (report.launched, report.device_rows),
            (scenario.collectives() as u64, scenario.collectives() as u64)
        );
        assert!(
            !report.two_runs && !report.anomalies.any(etlink_model::Severity::Damage),
            "{:?} {:?}",
            report.notes,
            report.anomalies
        );
        RankSummary {
            // The recorded ranks ran on one machine; those in a scenario have separate clocks.
            machine: None,
            ..RankSummary::from_trace(&trace, GlobalRank(rank as i64))
        }
    };
    (0..scenario.ranks).map(one).collect()
}

/// Returns the worst error of a rank's time by a clock, over the window; times of rank 0 are true.
fn worst(scenario: &RunScenario, ranks: &[RankSummary], clocks: &[RankClock], rank: usize) -> i64 {
    let sides = ranks[rank].communications.iter().zip(0..);
    let wrong = sides.map(|(own, collective)| {
        let base = ranks[0].communications[0].end_ns.0 - scenario.rows(0, 0).kernel.1;
        let (offset, drift) = (scenario.offset_ns[rank], scenario.drift_ppb[rank]);
        let seen = scenario.rows(rank, collective).kernel.1;
        assert_eq!(own.end_ns.0, base + seen);
        let since = (i128::from(seen - offset - scenario.rows(0, 0).kernel.0) * i128::from(drift)
            / 1_000_000_000) as i64;
        (clocks[rank].aligned(own.end_ns).0 - (own.end_ns.0 - offset - since)).abs()
    });
    wrong.max().expect("collectives")
}

#[test]
fn skew_and_the_late_rank_of_a_known_run_are_found() {
    let recorded = recorded(2);
    let scenario = recorded.scenario(&wishes(32)).expect("a scenario");
    let ranks = linked(&recorded, &scenario);
    let joined = join_ranks(&ranks);
    assert!(joined.problems.is_empty(), "{:?}", joined.problems);
    assert_eq!(
        (joined.groups.len(), joined.matches.len()),
        (1, scenario.collectives())
    );
    assert!(
        joined
            .matches
            .iter()
            .all(|joint| joint.members.len() == 32 && joint.is_whole())
    );
    let clocks = align_clocks(&ranks, &joined);
    for rank in 1..32 {
        let wrong = worst(&scenario, &ranks, &clocks, rank);
        assert!(
            wrong <= 5_000 && !clocks[rank].contradicted,
            "rank {rank}: {wrong} ns off, {:?}",
            clocks[rank]
        );
    }
    let sums = straggler_stats(&ranks, &joined, &clocks);
    let late = sums
        .iter()
        .max_by_key(|rank| rank.caused_ns)
        .expect("ranks");
    assert_eq!(
        (late.rank.0, late.last),
        (LATE.rank as i64, scenario.collectives() as u64)
    );
    let steps = step_stragglers(&ranks, &joined, &clocks);
    let told: Vec<_> = steps
        .iter()
        .map(|step| {
            (
                step.step.as_deref(),
                step.collectives,
                step.spans_steps,
                step.stragglers[0].rank.0,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "ProfilerStep#2",
            "ProfilerStep#3",
            "ProfilerStep#4",
            "ProfilerStep#5"
        ]
        .map(|step| (Some(step), 2, 0, LATE.rank as i64))
    );
}

#[test]
fn drift_of_a_known_run_is_found() {
    let recorded = recorded(40);
    let scenario = recorded
        .scenario(&ScenarioSettings {
            drift_ppb: 50_000,
            ranks: 4,
            late: None,
            ..wishes(4)
        })
        .expect("a scenario");
    let ranks = linked(&recorded, &scenario);
    let clocks = align_clocks(&ranks, &join_ranks(&ranks));
    for rank in 1..4 {
        let (clock, drift) = (clocks[rank], clocks[rank].drift.expect("a drift"));
        let truth = scenario.drift_ppb[rank];
        // a fast clock's second is short: up to 3 ppb at 50 ppm
        assert!(
            (drift.ppb + truth).abs() <= drift.uncertainty_ppb + 3 && drift.uncertainty_ppb < 5_000,
            "{clock:?}, {truth}"
        );
        assert!(drift.applied || truth.abs() < 5_000, "{clock:?}, {truth}");
        let wrong = worst(&scenario, &ranks, &clocks, rank);
        assert!(wrong <= 5_000, "rank {rank}: {wrong} ns off, {clock:?}");
    }
}

#[test]
fn nobody_ends_before_the_last_has_begun() {
    let recorded = recorded(1);
    let scenario = recorded
        .scenario(&ScenarioSettings {
            skew_ns: 0,
            ..wishes(8)
        })
        .expect_err("rank 21 is none of 8");
    assert!(scenario.to_string().contains("late"), "{scenario}");
    let scenario = recorded
        .scenario(&ScenarioSettings {
            skew_ns: 0,
            late: Some(LateRank { rank: 5, ..LATE }),
            ..wishes(8)
        })
        .expect("a scenario");
    for collective in 0..scenario.collectives() {
        let rows: Vec<_> = (0..8).map(|rank| scenario.rows(rank, collective)).collect();
        let begun = rows.iter().map(|rows| rows.kernel.0).max();
        assert!(rows.iter().map(|rows| rows.kernel.1).min() > begun);
        assert_eq!(begun, Some(rows[5].kernel.0));
        assert!(
            rows.iter()
                .all(|rows| rows.call.1 <= rows.kernel.0 + 3_000 && rows.call.0 < rows.kernel.0)
        );
    }
}

#[test]
fn the_recording_itself_comes_out_but_for_times_and_rows() {
    let recorded = recorded(1);
    let wishes = ScenarioSettings {
        ranks: 2,
        skew_ns: 0,
        drift_ppb: 0,
        jitter_ns: 0,
        late: None,
        seed: 0,
    };
    let scenario = recorded.scenario(&wishes).expect("a scenario");
    let mut text = vec![];
    recorded
        .write_host(&scenario, 0, &mut text)
        .expect("writes");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pairs/ddp2-2.15.0");
    assert!(text == read_unpacked(&folder.join("torch_et_0.json.gz")).expect("reads"));
    let mut text = vec![];
    recorded
        .write_device(&scenario, 0, &mut text)
        .expect("writes");
    let text = String::from_utf8(text).expect("text");
    let was =
        String::from_utf8(read_unpacked(&folder.join("kineto_trace_0.json.gz")).expect("reads"))
            .expect("text");
    let without = |text: &str| {
        text.lines()
            .filter(|line| !line.contains("\"ts\": ") && !line.contains("\"dur\": "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (text, was) = (without(&text), without(&was));
    let same = text.iter().zip(&was).take_while(|(a, b)| a == b).count();
    assert!(
        same > was.len() - 10,
        "line {same}: {} instead of {}",
        text[same],
        was[same]
    );
}

#[test]
fn a_recording_of_sub_groups_is_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pairs/tpdp4-2.15.0");
    let error = RankTemplate::open(
        &folder.join("torch_et_0.json.gz"),
        &folder.join("kineto_trace_0.json.gz"),
        1,
    )
    .expect_err("refuses");
    assert!(
        format!("{error:#}").contains("a part of the ranks only"),
        "{error:#}"
    );
}
