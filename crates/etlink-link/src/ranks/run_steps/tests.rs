use super::*;
use crate::ranks::StepExclusion;
use etlink_model::UnixNs;

/// Steps of these names, each from the end of the one before to this time.
fn steps(begin: i64, ends: &[(&str, i64)]) -> Vec<StepSpan> {
    let mut begin = UnixNs(begin);
    let step = |(name, end): &(&str, i64)| {
        let span = (std::mem::replace(&mut begin, UnixNs(*end)), UnixNs(*end));
        StepSpan::on_host((*name).to_owned(), span)
    };
    ends.iter().map(step).collect()
}

fn run_steps(ranks: &[Vec<StepSpan>]) -> RunSteps {
    let ranks: Vec<&[StepSpan]> = ranks.iter().map(Vec::as_slice).collect();
    RunSteps::new(&ranks, &[])
}

fn lengths(ranks: &[Vec<StepSpan>]) -> Vec<i64> {
    run_steps(ranks).lengths().collect()
}

#[test]
fn lengths_add_up_to_the_time_from_the_last_begin_to_the_last_end() {
    let ranks = [
        steps(0, &[("a", 20), ("b", 45), ("c", 70)]),
        steps(5, &[("a", 30), ("b", 40), ("c", 72)]),
    ];
    assert_eq!(lengths(&ranks), [25, 15, 27]);
    let run = run_steps(&ranks);
    assert_eq!(run.window_ns(), Some(72 - 5));
    assert_eq!(run.mean_ns(), Some(22));
    let first = &run.all[0];
    assert_eq!(first.last_start_ns.since(first.first_start_ns), 5);
    // a single rank
    assert_eq!(lengths(&ranks[..1]), [20, 25, 25]);
    assert_eq!(run_steps(&[]).window_ns(), None);
}

#[test]
fn a_step_counts_where_every_rank_has_it() {
    let ranks = [
        steps(0, &[("1", 10), ("2", 20), ("3", 30), ("4", 40)]),
        steps(10, &[("2", 21), ("3", 31)]),
        steps(10, &[("2", 22), ("3", 32), ("4", 42), ("5", 52)]),
    ];
    assert_eq!(lengths(&ranks), [12, 10]);
    let run = run_steps(&ranks);
    let lacking = |name: &str| Vec::from_iter(run.find(name).unwrap().lacking.iter().map(|r| r.0));
    assert_eq!(lacking("1"), [1, 2]);
    assert_eq!(lacking("4"), [1]);
    assert_eq!(lacking("5"), [0, 1]);
}

#[test]
fn names_that_no_other_rank_has_are_matched_by_position() {
    let first = steps(0, &[("a", 10), ("b", 20)]);
    assert_eq!(
        lengths(&[first.clone(), steps(0, &[("c", 11), ("d", 20)])]),
        [11, 9]
    );
    // with different numbers of steps, nothing matches
    assert!(lengths(&[first, steps(0, &[("c", 11)])]).is_empty());
}

#[test]
fn iterations_of_inference_are_matched_by_position() {
    // each rank has its own requests, and one name is equal by chance
    let mut ranks = [
        steps(0, &[("e(1)", 10), ("e(2)", 20)]),
        steps(0, &[("e(2)", 11), ("e(3)", 20)]),
    ];
    for step in ranks.iter_mut().flatten() {
        step.work.phase = Some("decode".to_owned());
    }
    assert_eq!(lengths(&ranks), [11, 9]);
}

#[test]
fn a_step_that_is_truncated_on_a_rank_does_not_count() {
    let mut ranks = [
        steps(0, &[("a", 10), ("b", 20)]),
        steps(0, &[("a", 11), ("b", 21)]),
    ];
    ranks[1][1].excluded = Some(StepExclusion::Stub);
    assert_eq!(lengths(&ranks), [11]);
}
