//! Compares with the data of HTA's Python class, computed by hand.

use crate::support::linked;
use etlink_hta::{HtaDetails, HtaOnDemand, HtaOptions, HtaTables, StragglerQuery};
use etlink_testing::{DeviceQueue, TraceBuilder};

const US: i64 = 1_000;

fn in_detail(draw: &TraceBuilder) -> (HtaTables, HtaDetails) {
    let trace = linked(draw);
    etlink_hta::hta_tables_in_detail(&trace, HtaOptions::default()).expect("patterns")
}

/// ```text
/// us          0    10    20        30         40    50
/// stream 7         [gemm=]         [copy======]
/// ```
fn kernel_and_copy() -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let stream = DeviceQueue::stream(7);
    draw.launch(main, (US, 2 * US), stream, "gemm", (10 * US, 20 * US));
    let id = draw.next_correlation();
    draw.call(main, "cudaMemcpyAsync", (22 * US, 25 * US), id);
    let copy = "Memcpy HtoD (Pinned -> Device)";
    draw.memcpy(stream, copy, (30 * US, 40 * US), id, 4_000);
    draw
}

#[test]
fn gaps_and_launches_before_any_argument() {
    let (tables, details) = in_detail(&kernel_and_copy());
    let gaps = details.idle_intervals.iter();
    let gaps: Vec<_> = gaps
        .map(|gap| (gap.stream, gap.idle_interval, gap.host_wait))
        .collect();
    // The first row has no previous gap; the copy was called after the kernel had ended.
    assert_eq!(gaps, [(7, None, false), (7, Some(10.0), true)]);
    let launches: Vec<_> = details.launches.iter().map(|one| one.is_memory).collect();
    assert_eq!(launches, [false, true]);
    let launches: Vec<_> = details.launches.iter().map(|one| &one.launch).collect();
    let stats: Vec<_> = tables.cuda_kernel_launch_stats.iter().collect();
    assert_eq!(launches, stats);
    let types = details.kernel_types_without_memory.iter();
    let types: Vec<_> = types.map(|one| (&one.kernel_type[..], one.sum)).collect();
    assert_eq!(types, [("COMPUTATION", 10.0)]);
    let extent = &details.extent[0];
    assert_eq!((extent.first_start, extent.duration), (Some(1.0), 29.0));
}

#[test]
fn every_table_is_found_by_its_name() {
    struct Count(usize);
    impl etlink_analyze::RecordVisitor for Count {
        type Error = std::convert::Infallible;

        fn visit(&mut self, _: &impl serde::Serialize) -> Result<(), Self::Error> {
            self.0 += 1;
            Ok(())
        }
    }
    for name in etlink_hta::RANK_TABLES {
        let mut count = Count(0);
        assert_eq!(HtaTables::blank().visit_table(name, &mut count), Ok(true));
        assert_eq!(count.0, 1, "{name}");
    }
    let mut count = Count(0);
    let details = HtaDetails::blank();
    assert_eq!(details.visit_table("launches", &mut count), Ok(true));
    assert_eq!(details.visit_table("no_such_table", &mut count), Ok(false));
    assert_eq!(count.0, 1);
}

/// Records of a table, as printed.
struct Shown(Vec<String>);

impl etlink_analyze::RecordVisitor for Shown {
    type Error = serde_json::Error;

    fn visit(&mut self, record: &impl serde::Serialize) -> Result<(), Self::Error> {
        self.0.push(serde_json::to_string(record)?);
        Ok(())
    }
}

fn shown((tables, details): &(HtaTables, HtaDetails), name: &str) -> Vec<String> {
    let mut shown = Shown(vec![]);
    let is_known = tables.visit_table(name, &mut shown).expect("JSON")
        || details.visit_table(name, &mut shown).expect("JSON");
    assert!(is_known, "{name}");
    shown.0
}

#[test]
fn a_table_alone_is_that_among_all() {
    let draw = kernel_and_copy();
    let all = in_detail(&draw);
    let loaded = HtaOnDemand::new(linked(&draw), HtaOptions::default());
    let of_class = ["idle_intervals", "launches", "annotations_cpu", "extent"];
    for name in etlink_hta::RANK_TABLES.iter().chain(&of_class) {
        let alone = loaded.tables(&[name]).expect("patterns");
        assert_eq!(shown(&alone, name), shown(&all, name), "{name}");
    }
    let one = loaded.tables(&["temporal_breakdown"]).expect("patterns");
    assert!(shown(&one, "kernel_breakdown").is_empty());
    assert_eq!(shown(&all, "kernel_breakdown").len(), 2);
}

/// HTA ignores `tid`: MTIA rows without `stream` belong to no device.
#[test]
fn rows_that_do_not_say_their_stream_are_left_out() {
    let row = |tid: u32, args: &str| {
        format!(
            r#"{{"ph": "X", "cat": "mtia_ccp_events", "name": "dma_request", "pid": 9,
                "tid": {tid}, "ts": {tid}, "dur": 5, "args": {{{args}}}}}"#
        )
    };
    let rows = [row(4, r#""stream": 1"#), row(801, r#""size": 16"#)];
    let text = format!(r#"{{"traceEvents": [{}]}}"#, rows.join(","));
    let options = etlink_formats::kineto::KinetoReadOptions::default();
    let device = etlink_formats::kineto::read(text.as_bytes(), options).expect("reads");
    let trace = etlink_link::link(None, device, Default::default()).expect("links");
    let (tables, details) =
        etlink_hta::hta_tables_in_detail(&trace, HtaOptions::default()).expect("patterns");
    assert_eq!(tables.temporal_breakdown[0].kernel_time, 5.0);
    // They are still events of the trace.
    assert_eq!(details.extent[0].duration, 797.0);
}

/// Draws a rank; rank 0 starts its communication of step 1 last, rank 1 its communication of step
/// 2.
fn rank(rank: i64) -> HtaTables {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    for step in [1, 2, 3] {
        let begin = i64::from(step) * 1_000 * US;
        draw.annotation(
            main,
            &format!("ProfilerStep#{step}"),
            begin,
            begin + 900 * US,
        );
        let late = if rank + 1 == i64::from(step) { 200 } else { 0 };
        let start = begin + (100 + late) * US;
        let stream = DeviceQueue::stream(20);
        let name = "ncclKernel_AllReduce";
        draw.launch(
            main,
            (begin + US, begin + 2 * US),
            stream,
            name,
            (start, begin + 800 * US),
        );
    }
    let settings = HtaOptions {
        rank: Some(rank),
        ..HtaOptions::default()
    };
    etlink_hta::hta_tables(&linked(&draw), settings).expect("patterns")
}

#[test]
fn stragglers_of_some_steps() {
    let ranks = [rank(0), rank(1)];
    let of_step = |step| {
        let query = StragglerQuery {
            steps: Some([step].into()),
            candidates: 1,
        };
        let found = etlink_hta::potential_stragglers(ranks.iter(), &query);
        found.iter().map(|one| one.straggler).collect::<Vec<_>>()
    };
    assert_eq!(of_step(1), [0]);
    assert_eq!(of_step(2), [1]);
    assert_eq!(of_step(7), [] as [i64; 0]);
}
