//! Verdict on a hang and its cause, in words.

use super::report::{HangReport, HangVerdict, RankHang, StuckCollective, missing_dumps};
use etlink_link::ranks::rank_list;
use etlink_model::GlobalRank;
use std::collections::BTreeSet;

/// Adds the verdict to an otherwise complete report.
pub(super) fn add_verdict(report: &mut HangReport) {
    let mut sentences = vec![];
    // ranks that called different things are the cause, whoever waits behind them
    sentences.extend(mismatch_words(&report.stuck));
    sentences.extend(waited_for_words(report));
    if !sentences.is_empty() {
        report.verdict = HangVerdict::Hangs;
    } else if report.ranks.iter().all(|rank| rank.hangs_in.is_none()) {
        report.verdict = HangVerdict::Ended;
        sentences.push(ended_words(report));
    } else if let Some(unknown) = unknown_words(report) {
        report.verdict = HangVerdict::Unknown;
        sentences.push(unknown);
    } else {
        report.verdict = HangVerdict::InFlight;
        sentences.push(flight_words(report));
    }
    report.sentences = sentences;
}

/// Describes the first collective that ranks call differently.
fn mismatch_words(stuck: &[StuckCollective]) -> Option<String> {
    let different = stuck.iter().filter(|one| one.mismatch.is_some());
    let first = different.min_by_key(|one| one.created_ns)?;
    let mismatch = first.mismatch.as_ref()?;
    Some(format!("the run hangs: {}", mismatch.sentence(first)))
}

/// Describes the ranks that others wait for.
fn waited_for_words(report: &HangReport) -> Option<String> {
    let waits = |rank: &RankHang| !rank.waits_for.is_empty();
    let (verb, them) = match &report.waited_for[..] {
        [] if !report.ranks.iter().any(waits) => return None,
        [] => {
            let said = "the run hangs: ranks wait for each other in different collectives";
            return Some(said.to_owned());
        }
        [_] => ("it waits", "it"),
        _ => ("they wait", "them"),
    };
    let ranks = rank_list("rank", &report.waited_for);
    let said = format!("the run hangs on {ranks}: others wait for {them}");
    let is_waited_for = |rank: &&RankHang| report.waited_for.contains(&rank.rank);
    let own = report.ranks.iter().filter(is_waited_for);
    let own: Vec<String> = own.filter_map(own_place).collect();
    Some(if own.is_empty() {
        format!("{said}, and {verb} for no rank")
    } else {
        format!("{said}; {}", own.join("; "))
    })
}

/// Describes the call of a rank that waits for no known rank.
fn own_place(rank: &RankHang) -> Option<String> {
    let place = rank.hangs_in.as_ref()?;
    let said = format!("rank {} is in {} {}", rank.rank, place.kind, place.number);
    Some(match &rank.may_wait_for[..] {
        [] => format!("{said} and waits for no rank"),
        ranks => format!("{said} and may wait for {}", rank_list("rank", ranks)),
    })
}

/// Describes a run without open calls, with a caveat for missing or truncated dumps.
fn ended_words(report: &HangReport) -> String {
    let (absent, cut) = (&report.absent, &report.cut);
    if absent.is_empty() && cut.is_empty() {
        return "no rank hangs in a collective: all called collectives have ended".to_owned();
    }
    let with_dump: Vec<GlobalRank> = report.ranks.iter().map(|rank| rank.rank).collect();
    let ranks = rank_list("rank", &with_dump);
    let is_one = with_dump.len() == 1;
    let only = match (absent.is_empty(), is_one) {
        (true, _) => "",
        (false, true) => ", the only rank with a dump,",
        (false, false) => ", the only ranks with a dump,",
    };
    let ended = match (cut.is_empty(), is_one) {
        (true, true) => "has finished all its calls",
        (true, false) => "have finished all their calls",
        (false, true) => "has finished all calls in its dump",
        (false, false) => "have finished all calls in their dumps",
    };
    let said = format!("{ranks}{only} {ended}");
    if absent.is_empty() {
        said
    } else {
        format!("{said}; {}", missing_dumps(absent, &report.unusable))
    }
}

/// Names the ranks whose calls are unknown and that others may wait for.
fn unknown_words(report: &HangReport) -> Option<String> {
    let ranks = report.ranks.iter();
    let unknown: BTreeSet<GlobalRank> = ranks
        .flat_map(|rank| rank.may_wait_for.iter().copied())
        .collect();
    let (absent, cut): (Vec<GlobalRank>, Vec<GlobalRank>) = unknown
        .into_iter()
        .partition(|rank| report.absent.binary_search(rank).is_ok());
    let mut reasons = vec![];
    if !absent.is_empty() {
        reasons.push(missing_dumps(&absent, &report.unusable));
    }
    match &cut[..] {
        [] => {}
        [rank] => reasons.push(format!("the dump of rank {rank} is truncated")),
        ranks => {
            let ranks = rank_list("rank", ranks);
            reasons.push(format!("the dumps of {ranks} are truncated"));
        }
    }
    let others = match absent.len() + cut.len() {
        0 => return None,
        1 => "others may wait for it",
        _ => "others may wait for them",
    };
    Some(format!(
        "the cause of the hang is unknown: {}, and {others}",
        reasons.join(" and ")
    ))
}

/// Describes open calls that all their ranks have made.
fn flight_words(report: &HangReport) -> String {
    let partly = report.stuck.iter().find(|stuck| !stuck.ended.is_empty());
    match partly {
        Some(stuck) => format!(
            "no rank visibly hangs: {} {} has ended on {} but not on {}, and may have been in \
             flight at the time of the dumps",
            stuck.kind,
            stuck.number,
            rank_list("rank", &stuck.ended),
            rank_list("rank", &stuck.waiting)
        ),
        None => {
            "no rank waits for another: open collectives were called by all their ranks, and were \
                 in flight at the time of the dumps or hang by themselves"
                .to_owned()
        }
    }
}
