//! Tests recorded pairs: matching by order, compared with the true matches by id.

use crate::support::checked;
use etlink_link::ranks::{CommExtent, RankSummary};
use etlink_link::roofline::{RooflineFormula, op_work};
use etlink_link::{EdgeKind, LinkOptions, LinkedTrace};
use etlink_model::{
    AnomalyKind, DeviceTrace, DiagnosticCode, GlobalRank, HostIdx, HostTrace, RfId,
};
use flate2::read::MultiGzDecoder;
use std::collections::BTreeMap;

/// Recordings of PyTorch 2.15, with their number of ranks.
const PAIRS: [(&str, usize); 14] = [
    ("mlp", 1),
    ("conv", 1),
    ("transformer", 1),
    ("loader", 1),
    ("inference", 1),
    ("open_range", 1),
    ("threads", 1),
    ("threads_unprofiled", 1),
    ("ddp2", 2),
    ("ddp2_gloo", 2),
    ("ddp2_race", 2),
    ("tpdp4", 4),
    ("pipeline4", 4),
    ("experts2", 2),
];

#[expect(clippy::disallowed_methods, reason = "test data are files")]
fn recorded(case: &str, file: &str, rank: usize) -> impl std::io::Read + Send + use<> {
    let path = format!(
        "{}/../../testdata/pairs/{case}-2.15.0/{file}_{rank}.json.gz",
        env!("CARGO_MANIFEST_DIR")
    );
    MultiGzDecoder::new(
        std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}")),
    )
}

fn read(case: &str, rank: usize) -> (HostTrace, DeviceTrace) {
    let host = etlink_formats::host::read(
        recorded(case, "torch_et", rank),
        etlink_formats::host::HostReadOptions::default(),
    )
    .expect("a host trace");
    let device = etlink_formats::kineto::read(
        recorded(case, "kineto_trace", rank),
        etlink_formats::kineto::KinetoReadOptions::default(),
    )
    .expect("a device trace");
    (host, device)
}

fn linked(host: HostTrace, device: DeviceTrace) -> LinkedTrace {
    checked(etlink_link::link(Some(host), device, LinkOptions::default()).expect("links"))
}

fn each(mut test: impl FnMut(String, HostTrace, DeviceTrace)) {
    for (case, ranks) in PAIRS {
        for rank in 0..ranks {
            let (host, device) = read(case, rank);
            test(format!("{case} rank {rank}"), host, device);
        }
    }
}

#[test]
fn by_id_every_op_with_an_id_in_both_is_matched() {
    each(|case, host, device| {
        let in_host: Vec<RfId> = host.nodes.rf_id.clone();
        let both = device
            .ops
            .rf_id
            .iter()
            .filter(|id| id.0 != 0 && in_host.contains(id))
            .count();
        let trace = linked(host, device);
        let matched = trace
            .op_host
            .iter()
            .filter(|node| node.get().is_some())
            .count();
        assert_eq!(
            (matched, trace.report.unmatched.same_id_other_name),
            (both, 0),
            "{case}"
        );
        assert!(
            !DiagnosticCode::TwoRuns.is_in(&trace.report.diagnostics),
            "{case}"
        );
    });
}

#[test]
fn by_order_finds_what_the_ids_tell() {
    each(|case, host, device| {
        let mut blind = device.clone();
        blind.has_rf_ids = false;
        blind.ops.rf_id.fill(RfId(0));
        let truth = linked(host.clone(), device).op_host;
        let found = linked(host, blind).op_host;
        let known = truth.iter().filter(|node| **node != HostIdx::NONE).count();
        let right = truth
            .iter()
            .zip(&found)
            .filter(|(truth, found)| **truth != HostIdx::NONE && truth == found)
            .count();
        assert!(right * 1_000 >= known * 995, "{case}: {right} of {known}");
    });
}

#[test]
fn messages_without_rows_of_their_waits_end_with_their_ranges() {
    for rank in 0..4 {
        let (_, device) = read("pipeline4", rank);
        let records = &device.collectives;
        let wait = device.names.find("wait");
        let is_wait = |op: &u32| {
            let name = records
                .name
                .get(device.ops.collective[*op as usize] as usize);
            name.is_some() && name.copied() == wait
        };
        let rest: Vec<u32> = (0..device.ops.len() as u32)
            .filter(|op| !is_wait(op))
            .collect();
        let mut without = device.clone();
        without.ops.reorder(&rest);
        assert!(rest.len() < device.ops.len(), "no waits are recorded");
        let extents = |device: DeviceTrace| {
            let trace =
                checked(etlink_link::link(None, device, LinkOptions::default()).expect("links"));
            let summary = RankSummary::from_trace(&trace, GlobalRank(rank as i64));
            let messages = summary.communications.into_iter();
            let all: Vec<CommExtent> = messages.map(|message| message.extent).collect();
            all
        };
        let (with, without) = (extents(device), extents(without));
        assert_eq!(with.len(), without.len());
        for (with, without) in with.iter().zip(&without) {
            assert!(without.is_transfer);
            // the wait ends shortly after the range, or before it
            assert!(
                (with.end_ns - without.end_ns).0.abs() < 200_000,
                "{with:?} {without:?}"
            );
        }
    }
}

#[test]
fn why_ops_are_matched_by_order_is_said() {
    let note = |host: HostTrace, device: DeviceTrace| {
        let mut told = linked(host, device).report.diagnostics.into_iter();
        let found = told.find(|one| one.code == DiagnosticCode::MatchedByOrder);
        found.map(|one| one.message)
    };
    let (host, mut device) = read("mlp", 0);
    assert_eq!(note(host.clone(), device.clone()), None);
    let mut idless = host.clone();
    idless.nodes.rf_id.fill(RfId(0));
    let said = note(idless, device.clone()).expect("a note");
    assert!(said.starts_with("the host trace has no \"Record"), "{said}");
    // as in a later cycle of the run
    for id in device.ops.rf_id.iter_mut().filter(|id| id.0 > 0) {
        id.0 += 1_000_000;
    }
    let said = note(host, device).expect("a note");
    assert!(said.starts_with("none of the "), "{said}");
    assert!(said.contains("is in the host trace"), "{said}");
}

#[test]
fn sequence_numbers_tell_which_iteration_it_is() {
    let (host, mut device) = read("mlp", 0);
    let label = device.names.find("ProfilerStep#3").expect("a second step");
    let second = device
        .ops
        .name
        .iter()
        .position(|name| *name == label)
        .expect("its range");
    // the device trace of only the second iteration, without its label and without ids
    let rest: Vec<u32> = (second as u32 + 1..device.ops.len() as u32).collect();
    device.ops.reorder(&rest);
    let truth = std::mem::replace(&mut device.ops.rf_id, vec![RfId(0); rest.len()]);
    device.has_rf_ids = false;
    let trace = linked(host, device);
    let host = trace.host.as_ref().expect("a host trace");
    let right = trace
        .op_host
        .iter()
        .zip(&truth)
        .filter(|(node, id)| {
            node.get()
                .is_some_and(|node| host.nodes.rf_id[node.index()] == **id)
        })
        .count();
    assert!(
        right * 1000 >= truth.len() * 995,
        "{right} of {}",
        truth.len()
    );
}

#[test]
fn sequence_numbers_that_contradict_are_damage() {
    let (host, mut device) = read("mlp", 0);
    device.ops.rf_id.fill(RfId(0));
    device.has_rf_ids = false;
    device
        .ops
        .seq_id
        .iter_mut()
        .filter(|seq| **seq >= 0)
        .for_each(|seq| *seq += 40);
    let trace = linked(host, device);
    assert!(trace.report.anomalies.count(AnomalyKind::SequenceDiffers) > 50);
}

#[test]
fn something_waits_for_each_collective_of_the_reducer() {
    let mut collectives = 0;
    each(|case, host, device| {
        let trace = linked(host, device);
        let names = &trace.device.names;
        if names.find("DistributedDataParallel.forward").is_none() {
            return;
        }
        let ranges = trace.device.ops.name.iter();
        let ranges = ranges.filter(|name| names.get(**name).starts_with("gloo:"));
        let ranges = ranges.count();
        let waits = trace.edges.iter().filter(|edge| {
            let from = trace.nodes.get(edge.from);
            edge.kind == EdgeKind::Handoff && trace.name(&from).starts_with("gloo:")
        });
        assert_eq!(waits.count(), ranges, "{case}");
        collectives += ranges;
    });
    assert_eq!(collectives, 24);
}

/// Compares outputs derived from inputs and values with those recorded in the host trace.
#[test]
fn work_without_the_host_trace_is_the_work_with_it() {
    let mut differing = BTreeMap::new();
    let (mut known, mut unknown) = (0, 0);
    each(|_, host, device| {
        let mut trace = linked(host, device);
        let with_host = op_work(&trace);
        let of_host = std::mem::take(&mut trace.op_host);
        trace.host = None;
        trace.op_host = vec![HostIdx::NONE; of_host.len()];
        for (op, mut alone) in op_work(&trace).into_iter().enumerate() {
            let name = trace.device_name(trace.device.ops.name[op]);
            if of_host[op].get().is_none() || !name.starts_with("aten::") {
                continue;
            }
            if alone.formula == RooflineFormula::Unknown {
                unknown += 1;
                continue;
            }
            known += 1;
            if alone.formula == RooflineFormula::Bytes {
                // nominal: one per element of the largest recorded tensor
                alone.operations = with_host[op].operations;
            }
            if alone != with_host[op] {
                let ops = &trace.device.ops;
                let texts = [ops.shapes[op], ops.types[op], ops.values[op]];
                let texts = texts.map(|text| trace.device_name(text).to_owned());
                differing.insert(name.to_owned(), (with_host[op], alone, texts));
            }
        }
    });
    assert!(differing.is_empty(), "{differing:#?}");
    assert!(
        known > 10_000 && unknown * 100 < known,
        "{known}, {unknown}"
    );
}
