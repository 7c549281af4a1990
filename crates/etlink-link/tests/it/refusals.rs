//! Tests that some pairs are not linked, and that `allow_mismatch` links them.

use crate::matching::{NAMES, training};
use crate::support::{device, host, pair};
use etlink_link::{Error, LinkOptions};
use etlink_model::GlobalRank;
use etlink_testing::{ParamComms, TraceBuilder};

fn refused(of_host: &TraceBuilder, of_device: &TraceBuilder) -> Error {
    let forced = LinkOptions {
        allow_mismatch: true,
        ..LinkOptions::default()
    };
    assert!(
        etlink_link::link(Some(host(of_host)), device(of_device), forced).is_ok(),
        "allow_mismatch links"
    );
    pair(of_host, of_device).expect_err("refused")
}

#[test]
fn different_programs() {
    let error = refused(
        &training(1000, 2, NAMES),
        &training(1000, 2, ["aten::conv2d", "aten::bmm", "aten::sum"]),
    );
    assert!(
        matches!(
            error,
            Error::DifferentPrograms {
                aligned: 2,
                ops: 50,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn different_steps() {
    let error = refused(&training(1000, 2, NAMES), &training(1000, 12, NAMES));
    let want = "the host trace has ProfilerStep#2, ProfilerStep#3 and the device trace has \
        ProfilerStep#12, ProfilerStep#13: they were not recorded over the same steps; record both \
        traces in one profiler, or --allow-mismatch";
    assert_eq!(error.to_string(), want);
}

#[test]
fn different_ranks() {
    let of_rank = |rank: i64| {
        let mut draw = training(1000, 2, NAMES);
        let main = draw.distributed(rank, 4).thread();
        draw.collective(main, &ParamComms::new("broadcast", 0..4, 0, 1), 100, 200);
        draw.collective(main, &ParamComms::new("allreduce", 0..4, rank, 2), 300, 400);
        draw
    };
    assert!(pair(&of_rank(3), &of_rank(3)).is_ok());
    let error = refused(&of_rank(1), &of_rank(3));
    assert!(
        matches!(
            error,
            Error::DifferentRanks {
                host: GlobalRank(1),
                device: GlobalRank(3)
            }
        ),
        "{error}"
    );
}

#[test]
fn another_rank_than_asked_for() {
    let mut draw = training(1000, 2, NAMES);
    draw.distributed(3, 4);
    let asked = |rank, allow_mismatch| {
        etlink_link::link(
            None,
            device(&draw),
            LinkOptions {
                rank: Some(GlobalRank(rank)),
                allow_mismatch,
                ..LinkOptions::default()
            },
        )
    };
    assert!(matches!(
        asked(1, false),
        Err(Error::WrongRank {
            asked: GlobalRank(1),
            found: GlobalRank(3)
        })
    ));
    assert_eq!(
        asked(3, false).expect("links").report.rank,
        Some(GlobalRank(3))
    );
    assert_eq!(
        asked(1, true).expect("links").report.rank,
        Some(GlobalRank(1))
    );
}

#[test]
fn traces_with_nothing_in_them() {
    let full = training(1000, 2, NAMES);
    let empty = TraceBuilder::default();
    assert!(matches!(
        etlink_link::link(None, device(&empty), LinkOptions::default()),
        Err(Error::EmptyDevice { .. })
    ));
    assert!(matches!(
        pair(&empty, &full),
        Err(Error::EmptyHost { nodes: 1 })
    ));
}
