//! Compares figures of the linker with sums that SQL computes from the same tables, as `nsys stats`
//! does.

use crate::nsys::support::{exported, read_export, read_kineto};
use etlink_formats::nsys::NsysSchema;
use etlink_link::{LinkOptions, NoLaunch};
use etlink_model::RowKind;
use etlink_testing::{Machine, random_program};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// Count and total time by name, ns: `cuda_gpu_kern_sum` and `cuda_api_sum` of `nsys stats`.
type SumsByName = BTreeMap<String, (i64, i64)>;

fn sums(connection: &Connection, table: &str, name: &str) -> SumsByName {
    let query = format!(
        "SELECT value, count(*), sum(end - start) FROM {table} JOIN StringIds ON id = {name} \
         GROUP BY value"
    );
    let mut query = connection.prepare(&query).expect("SQL");
    let rows = query.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))));
    rows.expect("rows").map(|row| row.expect("a row")).collect()
}

fn add_to(sums: &mut SumsByName, name: &str, duration: i64) {
    let sum = sums.entry(name.to_owned()).or_default();
    *sum = (sum.0 + 1, sum.1 + duration);
}

#[test]
fn kernels_and_calls_add_up_as_sql_adds_them() {
    let mut synced = 0;
    for seed in 0..24 {
        let (program, options, change) = random_program(seed);
        let machine = Machine::run(&program, options, change);
        let drawn = read_kineto(&machine.trace.kineto());
        let export = exported(&drawn, NsysSchema::V3_13);
        let trace = etlink_link::link(None, read_export(&export), LinkOptions::default());
        let trace = trace.expect("links");
        let (mut kernels, mut calls) = (SumsByName::new(), SumsByName::new());
        let rows = &trace.device.rows;
        for row in (0..rows.len()).filter(|row| rows.kind[*row] == RowKind::Kernel) {
            let name = trace.device.names.get(rows.name[row]);
            add_to(&mut kernels, name, rows.duration[row].0);
        }
        assert_eq!(
            kernels,
            sums(&export, "CUPTI_ACTIVITY_KIND_KERNEL", "demangledName")
        );
        for call in 0..trace.device.calls.len() {
            let name = trace.device.names.get(trace.device.calls.name[call]);
            add_to(&mut calls, name, trace.device.calls.duration[call].0);
        }
        let written = sums(&export, "CUPTI_ACTIVITY_KIND_RUNTIME", "nameId");
        let written = written.into_iter();
        let written = written.map(|(name, sum)| (name.replace("_v3020", ""), sum));
        assert_eq!(calls, written.collect());
        // every kernel has its launch
        let launched = trace.row_no_launch.iter();
        assert_eq!(
            launched.filter(|why| **why != NoLaunch::Launched).count(),
            0
        );
        let syncs = "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
        let syncs: i64 = export
            .query_row(syncs, [], |row| row.get(0))
            .expect("a count");
        assert_eq!(trace.device.syncs.len() as i64, syncs);
        synced += syncs;
    }
    assert!(synced > 0, "the test could not fail");
}
