//! Tests the summary of a single trace.

use super::*;
use CollectiveKind::{AllReduce, Barrier};

/// Draws a trace with a communication of this name and type on each of these groups.
fn drawn(name: &str, dtype: &str, groups: &[&str]) -> LinkedTrace {
    let mut trace = LinkedTrace::default();
    let device = &mut trace.device;
    for group in groups {
        let record = Collective {
            name: device.names.intern(name),
            dtype: device.names.intern(dtype),
            in_elements: 3,
            out_elements: 5,
            group_name: device.names.intern(group),
            ..Collective::absent()
        };
        device.collectives.push(record);
    }
    trace
}

fn first(trace: &LinkedTrace) -> CollectiveRef<'_> {
    CollectiveRef {
        record: trace.device.collectives.row(0),
        names: &trace.device.names,
    }
}

#[test]
fn a_trace_without_its_time_base_has_no_clock() {
    let report = LinkReport::default();
    let mut device = DeviceTrace::default();
    let has_no_clock =
        |device: &DeviceTrace| RankSummary::without_communications(device, &report).has_no_clock;
    assert!(!has_no_clock(&device));
    device.anomalies.note(AnomalyKind::NoTimeBase, String::new);
    assert!(has_no_clock(&device));
}

/// NCCL's barrier is an all-reduce of a few bytes; Gloo's states no size.
#[test]
fn a_barrier_has_the_size_that_it_says() {
    for (name, kind, dtype, want) in [
        ("barrier", Barrier, "Float", Some((12, 20))),
        ("barrier", Barrier, "", Some((0, 0))),
        ("allreduce", AllReduce, "Float", Some((12, 20))),
        ("allreduce", AllReduce, "", None),
    ] {
        let trace = drawn(name, dtype, &["0"]);
        let found = first(&trace);
        assert_eq!(
            (found.kind(), sizes(&found)),
            (kind, want),
            "{name} {dtype}"
        );
    }
}

#[test]
fn a_group_of_unknown_ranks_is_the_only_one_or_has_a_name() {
    let named = GroupIdentity::Named("0".to_owned());
    for (groups, want) in [(&["0"][..], GroupIdentity::Only), (&["0", "7"], named)] {
        let trace = drawn("allreduce", "Float", groups);
        let known = GroupResolver::new(&trace);
        assert_eq!(group_of(&known, &first(&trace)), want, "{groups:?}");
    }
}
