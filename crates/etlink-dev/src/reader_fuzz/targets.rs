//! The readers, and what is seen of what they made of a document.

use super::seeds;
use anyhow::Result;
use etlink_analyze::KernelRules;
use etlink_analyze::diff::FailRule;
use etlink_feeder::{Feeder, IssueOrder};
use etlink_findings::WhatIfQuestion;
use etlink_host::HostReadOptions;
use etlink_kineto::KinetoReadOptions;
use etlink_link::LinkOptions;
use etlink_metrics::{WorkloadCard, read_compute_csv, read_latencies};
use etlink_model::{Anomalies, DeviceTrace, HostTrace, KeepEvents};
use etlink_nsys::NsysReadOptions;
use etlink_perfetto::{KinetoText, TorchText};
use etlink_replay::DurationScale;
use etlink_rocm::{RocpdReadOptions, read_rocpd, read_rocprof_json, rocpd_processes};
use etlink_run::Progress;
use etlink_schedule::RankSelection;
use etlink_sqlite::set_safe_limits;
use etlink_torch::{ArmedStatus, ManifestContents, Process};
use etlink_xla::{XlaReadOptions, read_space, read_trace_json};
use rusqlite::{Connection, MAIN_DB};
use std::collections::hash_map::DefaultHasher;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::io::{Cursor, Read};
use std::path::Path;
use std::str::FromStr;

pub(super) struct ReaderTarget {
    pub(super) name: &'static str,
    pub(super) seeds: fn() -> Result<Vec<Vec<u8>>>,
    /// The document, and the file that it lies in.
    pub(super) read: fn(&[u8], &Path) -> Outcome,
    pub(super) keeps_length: bool,
}

impl ReaderTarget {
    const fn new(
        name: &'static str,
        seeds: fn() -> Result<Vec<Vec<u8>>>,
        read: fn(&[u8], &Path) -> Outcome,
    ) -> ReaderTarget {
        ReaderTarget {
            name,
            seeds,
            read,
            keeps_length: false,
        }
    }

    const fn database(
        name: &'static str,
        seeds: fn() -> Result<Vec<Vec<u8>>>,
        read: fn(&[u8], &Path) -> Outcome,
    ) -> ReaderTarget {
        ReaderTarget {
            keeps_length: true,
            ..ReaderTarget::new(name, seeds, read)
        }
    }
}

pub(super) const TARGETS: [ReaderTarget; 24] = [
    ReaderTarget::new("host", seeds::host_traces, read_host),
    ReaderTarget::new("kineto", seeds::kineto_traces, read_kineto),
    ReaderTarget::new("pair", seeds::pairs, read_pair),
    ReaderTarget::new("et", seeds::et_graphs, read_graph),
    ReaderTarget::new("feeder", seeds::et_graphs, feed_graph),
    ReaderTarget::new("etplus", seeds::etplus_graphs, read_graph),
    ReaderTarget::new("jsonizer", seeds::jsonizer_graphs, read_graph),
    ReaderTarget::new("flight-pickle", seeds::pickles, read_flight),
    ReaderTarget::new("flight-json", seeds::flight_json, read_flight),
    ReaderTarget::new("inspector", seeds::inspector_logs, read_inspector),
    ReaderTarget::database("nsys", seeds::nsys_exports, read_nsys),
    ReaderTarget::database("rocpd", seeds::rocpd_databases, read_rocpd_image),
    ReaderTarget::new("rocprof-json", seeds::rocprof_documents, read_rocprof),
    ReaderTarget::new("xla-space", seeds::xla_spaces, read_xla_space),
    ReaderTarget::new("xla-json", seeds::xla_documents, read_xla_json),
    ReaderTarget::new("perfetto", seeds::perfetto_traces, read_perfetto),
    ReaderTarget::new("pftrace", seeds::torch_pftraces, read_pftrace),
    ReaderTarget::new("compute-csv", seeds::compute_tables, read_csv),
    ReaderTarget::new("latencies", seeds::latencies, read_latency_file),
    ReaderTarget::new("card", seeds::cards, read_card),
    ReaderTarget::new("manifest", seeds::manifests, read_manifest),
    ReaderTarget::new("rules", seeds::rules, read_rules),
    ReaderTarget::new("kernel-rules", seeds::kernel_rules, read_kernel_rules),
    ReaderTarget::new("packed", seeds::packed_files, read_packed),
];

/// What was seen of an execution: two documents that gave the same are no news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Outcome {
    /// It was read, and not refused.
    pub(super) is_read: bool,
    seen: u64,
}

/// Collects what is seen.
#[derive(Default)]
struct Sight {
    hasher: DefaultHasher,
    is_refused: bool,
}

impl Sight {
    /// How many: one, two, some, many.
    fn count(&mut self, count: usize) {
        count.checked_ilog2().hash(&mut self.hasher);
    }

    fn anomalies(&mut self, anomalies: &Anomalies) {
        for (kind, anomaly) in anomalies.iter() {
            kind.hash(&mut self.hasher);
            anomaly.count.checked_ilog2().hash(&mut self.hasher);
        }
    }

    /// Why a document was refused.
    fn refusal(&mut self, error: &impl Debug) {
        self.is_refused = true;
        self.variants(error);
    }

    /// The names of variants, without what they hold.
    fn variants(&mut self, error: &impl Debug) {
        let text = format!("{error:?}");
        // quotes begin what the document says
        let text = text.split('"').next().unwrap_or_default();
        let is_name = |c: char| c.is_ascii_alphanumeric();
        let names = text.split(|c| !is_name(c)).filter(|word| !word.is_empty());
        let variants = names.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()));
        variants
            .take(2)
            .for_each(|name| name.hash(&mut self.hasher));
    }

    fn device(&mut self, trace: &DeviceTrace) {
        let counts = [
            trace.threads.len(),
            trace.queues.len(),
            trace.ops.len(),
            trace.calls.len(),
            trace.rows.len(),
            trace.syncs.len(),
            trace.waits.len(),
            trace.auxiliary.len(),
            trace.memory.len(),
            trace.collectives.len(),
            trace.graph_dependencies.len(),
        ];
        counts.into_iter().for_each(|count| self.count(count));
        self.anomalies(&trace.anomalies);
    }

    fn host(&mut self, trace: &HostTrace) {
        self.count(trace.nodes.len());
        self.count(trace.collectives.len());
        self.count(trace.groups.len());
        self.anomalies(&trace.anomalies);
    }

    fn end(self) -> Outcome {
        Outcome {
            is_read: !self.is_refused,
            seen: self.hasher.finish(),
        }
    }
}

/// The outcome of a result, of which `see` notes what is seen.
fn outcome_of<T, E: Debug>(result: Result<T, E>, see: impl FnOnce(&mut Sight, T)) -> Outcome {
    let mut sight = Sight::default();
    match result {
        Ok(value) => see(&mut sight, value),
        Err(error) => sight.refusal(&error),
    }
    sight.end()
}

/// Of a document that is refused before a reader sees it.
fn refused() -> Outcome {
    let sight = Sight {
        is_refused: true,
        ..Sight::default()
    };
    sight.end()
}

fn device_outcome<E: Debug>(result: Result<DeviceTrace, E>) -> Outcome {
    outcome_of(result, |sight, trace| sight.device(&trace))
}

/// What is in memory of a graph that lies in a scratch file: a few pages.
const PAGED_BYTES: usize = 1 << 15;

const EVERYTHING: KinetoReadOptions = KinetoReadOptions {
    threads: 1,
    shapes: true,
    keep: KeepEvents::Everything,
};

fn read_host(document: &[u8], _: &Path) -> Outcome {
    let read = etlink_host::read(document, HostReadOptions { threads: 1 });
    outcome_of(read, |sight, trace| {
        sight.count(etlink_host::tensor_uses(&trace).refs.len());
        sight.host(&trace);
    })
}

fn read_kineto(document: &[u8], _: &Path) -> Outcome {
    device_outcome(etlink_kineto::read(document, EVERYTHING))
}

/// A graph whose nodes are issued and read, in both orders as many; with pages in the place of memory
/// the same, or refused for the same reason.
fn feed_graph(document: &[u8], _: &Path) -> Outcome {
    let feeder = Feeder::new(Cursor::new(document), IssueOrder::Stock);
    let paged = feed_paged(document, IssueOrder::Stock);
    if let Err(error) = &feeder {
        assert_eq!(paged, Err(format!("{error:?}")), "with a scratch file");
    }
    outcome_of(feeder, |sight, mut feeder| {
        sight.count(feeder.nodes());
        let (mut issued, mut unread) = (vec![], 0);
        while let Ok(Some(id)) = feeder.issue_next() {
            issued.push(id);
            unread += usize::from(feeder.node(id).is_err());
            end_issued(&mut feeder, id);
        }
        sight.count(unread);
        sight.count(feeder.ended());
        assert_eq!(paged, Ok(issued), "issued with a scratch file");
        let by_id = Feeder::new(Cursor::new(document), IssueOrder::ById);
        let issued = by_id.map(|mut by_id| {
            let mut issued = vec![];
            while let Ok(Some(id)) = by_id.issue_next() {
                issued.push(id);
                end_issued(&mut by_id, id);
            }
            issued
        });
        let issued = issued.unwrap_or_default();
        assert_eq!(issued.len(), feeder.ended(), "issued in the other order");
        let paged = feed_paged(document, IssueOrder::ById);
        assert_eq!(paged, Ok(issued), "issued by id with a scratch file");
    })
}

/// The nodes that are issued where some pages are in memory, or why there are none.
fn feed_paged(document: &[u8], order: IssueOrder) -> Result<Vec<u64>, String> {
    let scratch = Cursor::new(vec![]);
    let feeder = Feeder::with_scratch(Cursor::new(document), order, scratch, PAGED_BYTES);
    let mut feeder = feeder.map_err(|error| format!("{error:?}"))?;
    let mut issued = vec![];
    while let Some(id) = feeder.issue_next().map_err(|error| format!("{error:?}"))? {
        issued.push(id);
        end_issued(&mut feeder, id);
    }
    Ok(issued)
}

fn end_issued(feeder: &mut Feeder<Cursor<&[u8]>>, id: u64) {
    let ended = feeder.end(id);
    assert!(
        ended.is_ok(),
        "a node that was issued does not end: {ended:?}"
    );
}

/// A host trace and a device trace with a mark between them, linked; the graph is written, read and
/// checked.
fn read_pair(document: &[u8], _: &Path) -> Outcome {
    let mark = memchr::memmem::find(document, seeds::PAIR_MARK);
    let (host, device) = match mark {
        Some(place) => (
            &document[..place],
            &document[place + seeds::PAIR_MARK.len()..],
        ),
        None => (&[][..], document),
    };
    let Ok(device) = etlink_kineto::read(device, EVERYTHING) else {
        return refused();
    };
    let mut host = etlink_host::read(host, HostReadOptions { threads: 1 }).ok();
    if let Some(host) = &mut host {
        host.tensors = Some(etlink_host::tensor_uses(host));
    }
    let options = LinkOptions {
        allow_mismatch: true,
        ..LinkOptions::default()
    };
    outcome_of(etlink_link::link(host, device, options), |sight, trace| {
        sight.count(trace.nodes.len());
        sight.count(trace.edges.len());
        sight.anomalies(&trace.device.anomalies);
        let mut written = vec![];
        let options = etlink_chakra::WriteOptions::default();
        let result = etlink_chakra::et::write_et(&trace, &options, &mut written);
        assert!(result.is_ok(), "a graph cannot be written: {result:?}");
        let graph = etlink_chakra::read::read(&written[..]);
        assert!(graph.is_ok(), "own output is not read: {graph:?}");
        let findings = graph.map_or(vec![], |graph| etlink_chakra::check::check(&graph));
        let fault = etlink_model::Severity::Error;
        let fault = findings.iter().find(|finding| finding.severity == fault);
        assert!(fault.is_none(), "own output has faults: {fault:?}");
    })
}

fn read_graph(document: &[u8], _: &Path) -> Outcome {
    outcome_of(etlink_chakra::read::read(document), |sight, graph| {
        sight.count(graph.len());
        for finding in etlink_chakra::check::check(&graph) {
            sight.variants(&finding.kind);
            sight.count(usize::try_from(finding.count).unwrap_or(usize::MAX));
        }
    })
}

fn read_flight(document: &[u8], _: &Path) -> Outcome {
    outcome_of(etlink_flight_recorder::read(document), |sight, dump| {
        sight.count(dump.entries.len());
        sight.count(dump.groups.len());
        sight.anomalies(&dump.anomalies);
    })
}

fn read_inspector(document: &[u8], _: &Path) -> Outcome {
    outcome_of(etlink_nccl_inspector::read(document), |sight, log| {
        sight.count(log.calls.len());
        sight.anomalies(&log.anomalies);
    })
}

/// A database of this image, if SQLite takes it for one.
fn open_image(image: &[u8]) -> Option<Connection> {
    let mut connection = Connection::open_in_memory().ok()?;
    let taken = connection.deserialize_read_exact(MAIN_DB, image, image.len(), true);
    taken.ok()?;
    set_safe_limits(&mut connection).ok()?;
    Some(connection)
}

fn read_nsys(document: &[u8], _: &Path) -> Outcome {
    let Some(connection) = open_image(document) else {
        return refused();
    };
    let options = NsysReadOptions {
        process: None,
        keep: KeepEvents::Everything,
    };
    device_outcome(etlink_nsys::read(&connection, options))
}

fn read_rocpd_image(document: &[u8], _: &Path) -> Outcome {
    let Some(connection) = open_image(document) else {
        return refused();
    };
    drop(rocpd_processes(&connection));
    device_outcome(read_rocpd(&connection, RocpdReadOptions::default()))
}

fn read_rocprof(document: &[u8], _: &Path) -> Outcome {
    device_outcome(read_rocprof_json(document))
}

const XLA: XlaReadOptions = XlaReadOptions {
    threads: 1,
    keep: KeepEvents::Auxiliary,
};

fn read_xla_space(document: &[u8], _: &Path) -> Outcome {
    device_outcome(read_space(document, XLA))
}

fn read_xla_json(document: &[u8], _: &Path) -> Outcome {
    device_outcome(read_trace_json(document, XLA))
}

/// Text that is made of packets, read as the recording that it is.
fn text_outcome(mut text: impl Read) -> Outcome {
    let mut made = vec![];
    let result = text.read_to_end(&mut made);
    let mut sight = Sight::default();
    if let Err(error) = result {
        sight.refusal(&error.kind());
    }
    if let Ok(trace) = etlink_kineto::read(&made[..], EVERYTHING) {
        sight.device(&trace);
    }
    sight.end()
}

fn read_perfetto(document: &[u8], _: &Path) -> Outcome {
    etlink_perfetto::perfetto_origin(document);
    text_outcome(KinetoText::new(document))
}

fn read_pftrace(document: &[u8], _: &Path) -> Outcome {
    etlink_perfetto::perfetto_origin(document);
    text_outcome(TorchText::new(document))
}

fn read_csv(document: &[u8], _: &Path) -> Outcome {
    outcome_of(read_compute_csv(document), |sight, profile| {
        sight.count(profile.kernels.len());
        sight.count(usize::try_from(profile.damaged_lines).unwrap_or(usize::MAX));
    })
}

fn read_latency_file(document: &[u8], _: &Path) -> Outcome {
    outcome_of(read_latencies(document), |sight, runs| {
        sight.count(runs.len());
    })
}

fn read_card(document: &[u8], _: &Path) -> Outcome {
    outcome_of(WorkloadCard::read(document), |sight, card| {
        // which fields are there, not what they say
        sight.count(format!("{card:?}").matches("Some(").count());
    })
}

/// The JSON files that the recorder leaves beside traces, and speaks by.
fn read_manifest(document: &[u8], _: &Path) -> Outcome {
    let mut sight = Sight::default();
    if let Ok(manifest) = ManifestContents::read(document) {
        sight.count(manifest.ranks.len());
        sight.count(manifest.tasks.len());
        let slowdown = manifest.slowdown();
        sight.count(usize::from(slowdown.is_some()));
    }
    match Process::read(document, document) {
        Ok(process) => sight.count(process.cycles.len()),
        Err(error) => sight.variants(&error.classify()),
    }
    sight.count(usize::from(ArmedStatus::read(document).is_ok()));
    sight.end()
}

/// Options with rules in them: a document is tried as each.
fn read_rules(document: &[u8], _: &Path) -> Outcome {
    let text = String::from_utf8_lossy(document);
    let mut sight = Sight::default();
    note_rule(&mut sight, DurationScale::from_str(&text));
    note_rule(&mut sight, WhatIfQuestion::from_str(&text));
    note_rule(&mut sight, FailRule::from_str(&text));
    note_rule(&mut sight, RankSelection::from_str(&text));
    sight.end()
}

/// A file of rules: with the built-in ones behind them they are compiled as regular expressions.
fn read_kernel_rules(document: &[u8], _: &Path) -> Outcome {
    let text = String::from_utf8_lossy(document);
    outcome_of(KernelRules::with(&text), |sight, rules| {
        sight.variants(&rules.class("void gemm<128>(float*)"));
    })
}

fn note_rule<T, E: Debug>(sight: &mut Sight, rule: Result<T, E>) {
    match rule {
        Ok(_) => sight.count(1),
        Err(error) => sight.variants(&error),
    }
}

/// A packed file, opened from the disk as the command does.
fn read_packed(_: &[u8], path: &Path) -> Outcome {
    let opened = etlink_run::input::open(path, &Progress::hidden());
    outcome_of(opened, |sight, mut input| {
        sight.variants(&input.kind);
        let mut unpacked = vec![];
        let limit = 1 << 20;
        match input
            .content
            .by_ref()
            .take(limit)
            .read_to_end(&mut unpacked)
        {
            Ok(length) => sight.count(length),
            Err(error) => sight.refusal(&error.kind()),
        }
    })
}
