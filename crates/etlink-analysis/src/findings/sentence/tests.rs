//! Checks texts for random figures: each clause appears only if it holds.

use super::*;
use crate::findings::candidate::CauseEvidence;
use crate::findings::evidence::evidence_text;
use crate::findings::finding::RunFinding;
use crate::findings::kind::CauseKind;
use crate::findings::kinds::KINDS;
use crate::findings::limits::{DOMINANT_SHARE, MUCH_COMMUNICATION};
use crate::findings::title::{cause_name, finding_title};
use etlink_model::GlobalRank;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, most: i64) -> i64 {
        (self.next() % most.max(1) as u64) as i64
    }

    fn chance(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }

    fn share(&mut self) -> f64 {
        self.below(1_001) as f64 / 1_000.0
    }

    /// Returns a random time of any magnitude, from 0 to `most`.
    fn time(&mut self, most: i64) -> i64 {
        let digits = self.below(11) as u32;
        self.below(most.min(10i64.pow(digits))).max(0)
    }
}

/// Returns the number before ` %` that follows `begin`, as a share.
fn share_after(sentence: &str, begin: &str) -> Option<f64> {
    let (_, rest) = sentence.split_once(begin)?;
    let (number, _) = rest.split_once(" %")?;
    Some(number.parse::<f64>().ok()? / 100.0)
}

fn assert_near(told: Option<f64>, share: f64, sentence: &str) {
    let told = told.unwrap_or(f64::NAN);
    assert!(
        (told - share).abs() <= 0.005_01,
        "{told} for {share}: {sentence}"
    );
}

fn random_run(random: &mut Random) -> RunFindings {
    let window_ns = random.time(60_000_000_000).max(1);
    RunFindings {
        window: if random.chance() {
            UtilizationWindow::Steps
        } else {
            UtilizationWindow::Process
        },
        steps: random.below(5) as u64 + 1,
        window_ns,
        compute_or_copy_ns: random.below(window_ns + 1),
        has_work: !random.next().is_multiple_of(8),
        has_device: random.chance(),
        computes: random.chance(),
        between_ops_share: random.share(),
        has_stacks: random.chance(),
        ranks: random.below(3) as u64 + 1,
        kernel: random.chance().then(RunFinding::default),
        longest_cause: random.chance().then(|| "a cause".to_owned()),
        ..RunFindings::default()
    }
}

#[test]
fn what_is_said_of_a_run_without_findings_holds() {
    let mut random = Random(7);
    for _ in 0..3_000 {
        let found = random_run(&mut random);
        let sentence = nothing_sentence(&found);
        let says = |part: &str| sentence.contains(part);
        let idle = 1.0 - found.compute_or_copy_ns as f64 / found.window_ns as f64;
        let is_busy = found.has_work && found.has_device && idle <= MUCH_IDLE;
        let is_idle = found.has_work && found.has_device && idle > MUCH_IDLE;
        assert_eq!(says("nothing ran"), !found.has_work, "{sentence}");
        assert_eq!(says("nothing stands out"), is_busy, "{sentence}");
        assert_eq!(
            says("no known cause costs"),
            found.has_work && !is_busy,
            "{sentence}"
        );
        assert_eq!(says("neither computes nor copies"), is_idle, "{sentence}");
        if is_busy {
            let busy = share_after(&sentence, "computes or copies ");
            assert_near(busy, 1.0 - idle, &sentence);
        }
        if is_idle {
            let told = share_after(&sentence, "neither computes nor copies ");
            assert_near(told, idle, &sentence);
        }
        let has_no_large = found.computes && found.kernel.is_none();
        assert_eq!(
            says("no kernel takes"),
            is_busy && has_no_large,
            "{sentence}"
        );
        let is_unseen = found.between_ops_share > MUCH_BETWEEN_OPS;
        assert!(
            !says("neither ops nor runtime calls") || is_unseen,
            "{sentence}"
        );
        assert!(!says("--with-stack") || !found.has_stacks, "{sentence}");
        assert!(
            !says("a cause") || found.longest_cause.is_some(),
            "{sentence}"
        );
    }
}

fn random_figures(random: &mut Random, kind: CauseKind, window_ns: i64) -> CauseEvidence {
    let time_ns = random.time(window_ns);
    // Detectors guarantee these limits: see `planted`.
    let compared = match kind {
        CauseKind::DominantKernel => random.share().max(DOMINANT_SHARE),
        CauseKind::ExposedCopies | CauseKind::LowCoverage => random.share(),
        _ => random.time(window_ns) as f64,
    };
    CauseEvidence {
        count: random.below(1_000) as u64 + 1,
        time_ns,
        typical_ns: random.time(time_ns),
        compared: random.chance().then_some(compared),
        roof_share: random.chance().then(|| random.share()),
        exposed_ns: random.chance().then(|| random.time(time_ns + 1)),
        other_subjects: random.below(3) as u64,
        within: random.chance().then(|| "some op".to_owned()),
        python: random.chance().then(|| "train.py(3): f".to_owned()),
        python_lines: random.below(4) as u64,
        before_launches_ns: random.time(time_ns),
        may_wait: random.chance(),
        host_slowed: random.chance(),
        loader_sets_pace: random.chance(),
        ..CauseEvidence::default()
    }
}

#[test]
fn each_clause_of_a_finding_holds() {
    let mut random = Random(8);
    for (turn, rule) in KINDS.iter().cycle().take(5_000).enumerate() {
        let found = random_run(&mut random);
        let gain_ns = random.below(found.window_ns + 1);
        let mut finding = RunFinding {
            kind: rule.kind,
            subject: if turn % 5 == 0 {
                String::new()
            } else {
                "a subject".to_owned()
            },
            inferred: rule.inferred || random.chance(),
            gain_ns,
            gain_share: gain_ns as f64 / found.window_ns as f64,
            figures: random_figures(&mut random, rule.kind, found.window_ns),
            ..RunFinding::default()
        };
        finding.cause = cause_name(&finding);
        let figures = &finding.figures;
        let title = finding_title(&finding, &found);
        let gain = title.rsplit_once(" (").expect("a share").1;
        assert_near(share_after(gain, ""), finding.gain_share, &title);
        let sentence = evidence_text(&finding, &found);
        let says = |part: &str| sentence.contains(part);
        assert_eq!(
            sentence.starts_with("probably "),
            rule.inferred,
            "{sentence}"
        );
        let is_paced = figures.loader_sets_pace && rule.kind != CauseKind::InputPipeline;
        assert_eq!(says("with a faster loader"), is_paced, "{sentence}");
        let may_wait = figures.may_wait && !is_paced;
        assert_eq!(
            says("may be waiting for the device"),
            may_wait,
            "{sentence}"
        );
        let slowed = figures.host_slowed && !may_wait;
        assert_eq!(says("recording slowed the host"), slowed, "{sentence}");
        let hangs = finding.inferred && !rule.inferred && !may_wait && !slowed && !is_paced;
        assert_eq!(says("depends on inferred waits"), hangs, "{sentence}");
        let says_others = says(" and 1 other ") || says(" and 2 other ");
        assert!(!says_others || figures.other_subjects > 0, "{sentence}");
        assert!(
            !says(" lines of Python") || figures.python_lines > 1,
            "{sentence}"
        );
        assert!(!says("train.py") || figures.python.is_some(), "{sentence}");
        if rule.kind == CauseKind::ExposedCommunication {
            // the exposed part comes before the total
            let exposed = figures
                .exposed_ns
                .filter(|exposed| *exposed < figures.time_ns);
            let part = exposed
                .map(|exposed| format!("{} of {}", time_text(exposed), time_text(figures.time_ns)));
            assert!(part.is_none_or(|part| says(&part)), "{sentence}");
        }
        if matches!(
            rule.kind,
            CauseKind::ExposedCopies | CauseKind::DominantKernel
        ) {
            let share = figures.compared.unwrap_or_default();
            let told = share_after(&sentence, " take ").or(share_after(&sentence, " takes "));
            assert_near(told, share, &sentence);
        }
    }
}

#[test]
fn a_joint_gain_that_is_not_the_sum_is_explained() {
    let mut random = Random(9);
    for _ in 0..2_000 {
        let found = random_run(&mut random);
        let gain_ns = random.below(found.window_ns + 1);
        let joint = JointGain {
            gain_ns,
            gain_share: gain_ns as f64 / found.window_ns as f64,
            sum_ns: random.below(2 * found.window_ns),
            ..JointGain::default()
        };
        let sentence = joint_sentence(&joint, 2, &found);
        let (gain, sum) = (joint.gain_ns as f64, joint.sum_ns as f64);
        assert_eq!(
            sentence.contains("less than the sum"),
            gain < ADDS_UP * sum,
            "{sentence}"
        );
        assert_eq!(
            sentence.contains("more than the sum"),
            ADDS_UP * gain > sum,
            "{sentence}"
        );
    }
}

#[test]
fn the_waits_for_a_straggler_are_those_of_the_page() {
    let late = |rank: i64, caused_ns, began_late_ns| StragglerStats {
        rank: GlobalRank(rank),
        caused_ns,
        began_late_ns,
        ..StragglerStats::default()
    };
    let mut random = Random(10);
    for _ in 0..2_000 {
        let stats: Vec<StragglerStats> = (0..3)
            .map(|rank| late(rank, random.time(1_000_000), random.time(1_000_000)))
            .collect();
        let mut found = random_run(&mut random);
        found.name_straggler(&stats);
        let worst = stats.iter().map(StragglerStats::waits_for_it_ns).max();
        let worst = worst.expect("ranks");
        let whole = found.window_ns as f64 * found.ranks as f64;
        let is_much = worst > 0 && worst as f64 >= MUCH_COMMUNICATION * whole;
        assert_eq!(found.straggler.is_some(), is_much, "{stats:?}");
        let Some(sentence) = found.straggler else {
            continue;
        };
        let named = stats
            .iter()
            .find(|one| sentence.contains(&format!("rank {}:", one.rank)))
            .expect("a rank");
        assert_eq!(named.waits_for_it_ns(), worst, "{sentence}");
        assert!(sentence.contains(&time_text(worst)), "{sentence}");
        let says_late = sentence.contains("began later");
        assert_eq!(says_late, named.began_late_ns > 0, "{sentence}");
    }
}

fn half_of_the_time() -> CommunicationShare {
    CommunicationShare {
        time_ns: 500,
        is_awaited: true,
        windows_ns: 1_000,
        ..CommunicationShare::default()
    }
}

#[test]
fn ranks_that_meet_nowhere_are_not_said_to_wait_for_each_other() {
    let share = half_of_the_time();
    let found = RunFindings {
        has_device: true,
        ranks: 2,
        window_ns: 1_000,
        ..RunFindings::default()
    };
    let sentence = communication_sentence(&share, &found, false);
    assert!(
        sentence.ends_with("which rank waited for which"),
        "{sentence}"
    );
    let sentence = communication_sentence(&share, &found, true);
    assert!(sentence.contains("waiting for late ranks"), "{sentence}");
}

#[test]
fn a_trace_without_recorded_waits_is_not_said_to_gain_nothing() {
    let share = half_of_the_time();
    let found = RunFindings {
        has_device: true,
        ranks: 1,
        window_ns: 1_000,
        ..RunFindings::default()
    };
    let sentence = unknown_gain_sentence(&share, &found);
    assert!(
        sentence.ends_with("the trace records no calls that wait"),
        "{sentence}"
    );
    assert!(!sentence.contains("not end earlier"), "{sentence}");
}
