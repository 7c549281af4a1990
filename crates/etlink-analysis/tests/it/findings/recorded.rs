//! Plants faults into recordings of a GPU; the truth is the recording run again without the fault.
//!
//! `ROUNDS=20 cargo test -p etlink-analysis recorded:: -- --nocapture` prints the table of more
//! rounds. `GPU=lm,nccl*10` takes other recordings of `testdata/gpu`, with device rows ten times as
//! long, `TRACES=FILE:FILE` further device traces, and `RANKS=FOLDER` eight ranks.

use crate::findings::planted::find_in_ranks;
use crate::findings::random::Random;
use crate::findings::rerun::{Act, Change, Insertion, MeetingDelays, Place, Recording, run_ranks};
use etlink_analysis::findings::{
    CauseKind, RankPart, RunFinding, RunFindings, rank_causes, run_findings,
};
use etlink_analysis::{KernelRules, Options, RankAnalysis, analyze, counted_steps};
use etlink_link::ranks::{RankSummary, RunSteps};
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{
    DeviceTrace, GlobalRank, HostTrace, NameId, NodeIdx, ProcessGroup, QueueIdx, RowKind, TimeNs,
};
use etlink_replay::{EditableGraph, ReplayRun, graph_from_trace};
use flate2::read::MultiGzDecoder;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A fault that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    InputStall,
    SlowKernel,
    PageableCopy,
    Allocation,
    BlockedAllocator,
    HostWork,
    LaunchDelay,
    DeviceSync,
    ScalarRead,
    LateRank,
}

/// Faults of a single rank.
const FAULTS: [Fault; 9] = [
    Fault::InputStall,
    Fault::SlowKernel,
    Fault::PageableCopy,
    Fault::Allocation,
    Fault::BlockedAllocator,
    Fault::HostWork,
    Fault::LaunchDelay,
    Fault::DeviceSync,
    Fault::ScalarRead,
];

impl Fault {
    fn kinds(self) -> &'static [CauseKind] {
        match self {
            Fault::InputStall => &[CauseKind::InputPipeline],
            Fault::SlowKernel => &[CauseKind::DominantKernel],
            Fault::PageableCopy => &[CauseKind::PageableCopy],
            Fault::Allocation | Fault::BlockedAllocator => &[CauseKind::AllocatorCalls],
            Fault::HostWork => &[CauseKind::HostWork],
            Fault::LaunchDelay => &[CauseKind::SmallKernels, CauseKind::OptimizerLaunches],
            Fault::DeviceSync => &[CauseKind::ExplicitSync],
            Fault::ScalarRead => &[CauseKind::ScalarRead],
            Fault::LateRank => &[CauseKind::LateRank],
        }
    }

    fn is_named_by(self, finding: &RunFinding) -> bool {
        // Host work is inserted where no op runs.
        let is_between = finding.subject.is_empty() || finding.subject == "another thread";
        let is_there = self != Fault::HostWork || is_between;
        is_there && self.kinds().contains(&finding.kind)
    }
}

/// Smallest effect that must be named, as a share of the window.
const LEAST_EFFECT: f64 = 0.04;

pub(crate) fn read_device(path: &Path) -> DeviceTrace {
    let file = std::fs::File::open(path).expect("a recording");
    let options = etlink_formats::kineto::KinetoReadOptions::default();
    let is_zstd = path.extension().is_some_and(|end| end == "zst");
    if is_zstd {
        let text = zstd::stream::read::Decoder::new(file).expect("zstd");
        etlink_formats::kineto::read(text, options).expect("a device trace")
    } else {
        etlink_formats::kineto::read(MultiGzDecoder::new(file), options).expect("a device trace")
    }
}

/// A linked trace with its analysis.
pub(crate) struct Linked {
    pub(crate) trace: LinkedTrace,
    pub(crate) analysis: RankAnalysis,
}

impl Linked {
    pub(crate) fn new(device: DeviceTrace) -> Linked {
        Linked::of_rank(None, device, None)
    }

    fn of_rank(host: Option<HostTrace>, device: DeviceTrace, rank: Option<usize>) -> Linked {
        let rules = KernelRules::built_in().expect("rules");
        let options = LinkOptions {
            rank: rank.map(|rank| GlobalRank(rank as i64)),
            ..LinkOptions::default()
        };
        let trace = etlink_link::link(host, device, options).expect("links");
        let analysis = analyze(&trace, &rules, &Options::default());
        Linked { trace, analysis }
    }

    /// Returns the length of the window, in ns.
    fn window_ns(&self) -> i64 {
        let devices = self.analysis.utilization.iter();
        let busiest = devices.rev().max_by_key(|device| device.busy_ns);
        busiest.map_or(0, |device| device.whole_ns())
    }

    /// Returns the length of the window with the steps that another run's window has, in ns: a slow
    /// device can make the first step count.
    fn window_of_steps(&self, other: &Linked) -> i64 {
        let names =
            |steps| -> Vec<String> { counted_steps(steps).map(|one| one.name.clone()).collect() };
        let others = names(&other.analysis.steps);
        if others == names(&self.analysis.steps) {
            return self.window_ns();
        }
        let steps = self.analysis.steps.iter();
        let same = steps.filter(|step| others.contains(&step.name));
        same.map(|step| step.length_ns).sum()
    }

    pub(crate) fn findings(&self) -> RunFindings {
        let rules = KernelRules::built_in().expect("rules");
        let part = RankPart {
            first: NodeIdx(0),
            causes: rank_causes(&self.trace, &rules, &self.analysis),
        };
        let graph = graph_from_trace(&self.trace).expect("a graph");
        run_findings(&graph, vec![part], &RunSteps::default())
    }

    /// Returns the gain of each cause, also of those too small for a finding, by a replay of its own.
    fn gains(&self) -> BTreeMap<(CauseKind, String), i64> {
        let rules = KernelRules::built_in().expect("rules");
        let causes = rank_causes(&self.trace, &rules, &self.analysis);
        let graph = graph_from_trace(&self.trace).expect("a graph");
        let editable = EditableGraph::new(&graph);
        let ends = &causes.window_ends;
        let length_ns = |run: &ReplayRun| {
            let first = ends.firsts.iter().map(|node| run.start[node.index()]).min();
            let last = ends.lasts.iter().map(|node| run.end(*node)).max();
            last.zip(first).map_or(0, |(last, first)| last.since(first))
        };
        let plain_ns = length_ns(editable.plain_run());
        let mut gains = BTreeMap::new();
        for one in causes.candidates {
            let gain_ns = plain_ns - length_ns(&editable.run_edited(&one.edits));
            gains.insert((one.kind, one.subject), gain_ns.max(0));
        }
        gains
    }
}

/// A recording with its own findings.
struct Subject {
    name: String,
    recording: Recording,
    found: RunFindings,
    window_ns: i64,
    /// Recorded span of the steps.
    span: (TimeNs, TimeNs),
    /// Start of the second step; of the only one, if there is no second.
    second_step: TimeNs,
    /// Gains of the recording's own causes.
    gains: BTreeMap<(CauseKind, String), i64>,
}

impl Subject {
    fn new(name: &str, device: DeviceTrace) -> Subject {
        let recording = Recording::new(device);
        let plain = recording.run(&Change::default(), &MeetingDelays::new());
        let spans = |trace: &DeviceTrace| trace.rows.start.clone();
        assert_eq!(spans(&plain.trace), spans(&recording.device), "{name}");
        let linked = Linked::new(plain.trace);
        let devices = linked.analysis.utilization.iter();
        let busiest = devices.rev().max_by_key(|device| device.busy_ns);
        let mut span = busiest.expect("a device").span();
        // The host can be ahead of the window. A step that the window leaves out costs nothing.
        let mut steps = counted_steps(&linked.analysis.steps).map(|step| step.start_ns);
        span.0 = steps.next().unwrap_or(span.0).min(span.0);
        Subject {
            name: name.to_owned(),
            found: linked.findings(),
            window_ns: linked.window_ns(),
            span: (TimeNs(span.0), TimeNs(span.1)),
            second_step: TimeNs(steps.next().unwrap_or(span.0)),
            gains: linked.gains(),
            recording,
        }
    }

    /// Returns true if the recording has such a fault itself, whose gain would not be known.
    fn has_own(&self, fault: Fault) -> bool {
        let device = &self.recording.device;
        let has_row = |part: &str| {
            let names = device.rows.name.iter();
            names
                .map(|name| device.names.get(*name))
                .any(|name| name.contains(part))
        };
        let has_call = |part: &str| {
            let names = device.calls.name.iter();
            names
                .map(|name| device.names.get(*name))
                .filter(|name| name.contains(part))
                .count()
                > 1
        };
        match fault {
            Fault::PageableCopy | Fault::ScalarRead => has_row("Pageable"),
            Fault::DeviceSync => has_call("ynchronize"),
            // In a single step, allocations are one-time work.
            Fault::Allocation | Fault::BlockedAllocator => {
                self.found.steps < 2 || has_call("Malloc") || has_call("Free")
            }
            _ => false,
        }
    }

    /// Returns the gain of the recording's own causes of a fault's kinds. A finding has them in its
    /// gain, however small they are.
    fn own_gain(&self, fault: Fault, found: &RunFindings) -> i64 {
        let told = self.found.findings.iter().chain(&found.findings);
        let told = told.filter(|one| fault.is_named_by(one));
        // The finding is named after the longest op; host work has several names.
        let name = |subject: &str| (fault == Fault::HostWork).then(|| subject.to_owned());
        let told: BTreeSet<(CauseKind, Option<String>)> =
            told.map(|one| (one.kind, name(&one.subject))).collect();
        let own = self.gains.iter();
        let own = own.filter(|((kind, subject), _)| told.contains(&(*kind, name(subject))));
        own.map(|(_, gain_ns)| gain_ns).sum()
    }
}

/// A planted fault: the recording with it, and without it.
struct Plan {
    faulty: Change,
    mended: Change,
    /// Name that the finding must have.
    subject: Option<String>,
}

fn insertion(place: Place, ops: &'static [&'static str], acts: Vec<Act>) -> Insertion {
    Insertion {
        at: place.at,
        thread: place.thread,
        queue: QueueIdx(0),
        ops,
        acts,
    }
}

fn call(name: &'static str, ns: i64, waits: bool) -> Act {
    Act::Call {
        name,
        ns,
        copy: None,
        waits,
    }
}

fn copy(name: &'static str, copied_ns: i64, waits: bool) -> Act {
    Act::Call {
        name: "cudaMemcpyAsync",
        ns: 6_000,
        copy: Some((name, copied_ns)),
        waits,
    }
}

/// Parts of the names of kernels for matrix products, convolutions, and attention, in lower case.
const MATRIX_KERNELS: [&str; 9] = [
    "gemm", "nvjet", "cutlass", "cudnn", "attn", "flash", "conv", "cijk", "fmha",
];

const COPY_OPS: &[&str] = &["aten::to", "aten::_to_copy", "aten::copy_"];
const PAGEABLE: &str = "Memcpy HtoD (Pageable -> Device)";
const PINNED: &str = "Memcpy HtoD (Pinned -> Device)";
const READ_BACK: &str = "Memcpy DtoH (Device -> Pinned)";
const LOADER: &[&str] = &["enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"];

/// Returns what one occurrence of a fault inserts, and what remains of it without the fault.
fn occurrence(fault: Fault, place: Place, ns: i64) -> (Insertion, Option<Insertion>) {
    let sync = || call("cudaStreamSynchronize", 3_000, true);
    let one = |ops, acts| (insertion(place, ops, acts), None);
    match fault {
        Fault::InputStall => one(LOADER, vec![Act::Work(ns)]),
        Fault::PageableCopy => {
            let blocking = vec![copy(PAGEABLE, ns, true), sync()];
            let ahead = vec![copy(PINNED, ns, false)];
            let mended = insertion(place, COPY_OPS, ahead);
            (insertion(place, COPY_OPS, blocking), Some(mended))
        }
        Fault::Allocation => one(&[], vec![call("cudaMalloc", ns, false)]),
        Fault::BlockedAllocator => {
            let acts = vec![
                call("cudaFree", 20_000, true),
                call("cudaMalloc", ns, false),
            ];
            one(&[], acts)
        }
        Fault::DeviceSync => one(&[], vec![call("cudaDeviceSynchronize", 3_000, true)]),
        Fault::ScalarRead => one(
            &["aten::item", "aten::_local_scalar_dense"],
            vec![copy(READ_BACK, 1_500, false), sync()],
        ),
        _ => one(&[], vec![Act::Work(ns)]),
    }
}

fn plan(fault: Fault, subject: &Subject, dice: &mut Random) -> Option<Plan> {
    match fault {
        _ if subject.has_own(fault) => None,
        Fault::SlowKernel => slow_kernel(subject, dice),
        Fault::LaunchDelay => {
            let (from, until) = subject.span;
            let half = until.since(from) / 2;
            let from = from.shifted(dice.below(half as u64) as i64);
            let until = until.shifted(-(dice.below(half as u64) as i64).min(until.since(from) / 2));
            let more = 20_000 + dice.below(80_000) as i64;
            Some(Plan {
                faulty: Change {
                    launches: Some(((from, until), more)),
                    ..Change::default()
                },
                mended: Change::default(),
                subject: None,
            })
        }
        _ => inserted(fault, subject, dice),
    }
}

/// Inserts a fault at some places.
fn inserted(fault: Fault, subject: &Subject, dice: &mut Random) -> Option<Plan> {
    let in_op = matches!(fault, Fault::Allocation | Fault::BlockedAllocator);
    let mut places = subject.recording.places(subject.span);
    // Whatever only the first step does would be one-time work.
    places.retain(|place| place.in_op == in_op && place.at >= subject.second_step);
    if places.is_empty() {
        return None;
    }
    if fault == Fault::HostWork {
        // Work of one thread is one cause.
        let thread = places[dice.below(places.len() as u64) as usize].thread;
        places.retain(|place| place.thread == thread);
    }
    let share = [0.06, 0.1, 0.2, 0.4, 0.8][dice.below(5) as usize];
    let whole = share * subject.window_ns as f64;
    let most = match fault {
        Fault::DeviceSync | Fault::ScalarRead => 150,
        // Longer than a launch takes on a slow host.
        Fault::HostWork => ((whole / 1.3e6) as u64).min(20),
        _ => ((whole / 2e5) as u64).min(20),
    };
    let count = 1 + dice.below(most.max(1)) as usize;
    let mut chosen: BTreeMap<TimeNs, Place> = BTreeMap::new();
    for _ in 0..count {
        let place = places[dice.below(places.len() as u64) as usize];
        chosen.insert(place.at, place);
    }
    let ns = (whole / chosen.len() as f64) as i64;
    // What the host did there anyway must not matter.
    chosen.retain(|_, place| place.gap_ns * 50 <= ns || fault != Fault::HostWork);
    let (mut faulty, mut mended) = (Change::default(), Change::default());
    for place in chosen.into_values() {
        let (with, without) = occurrence(fault, place, dice.near(ns));
        faulty.insertions.push(with);
        mended.insertions.extend(without);
    }
    Some(Plan {
        faulty,
        mended,
        subject: None,
    })
}

/// Makes one of the longer kernels slower. The finding says what half of its time would gain.
fn slow_kernel(subject: &Subject, dice: &mut Random) -> Option<Plan> {
    let device = &subject.recording.device;
    let mut times: BTreeMap<NameId, i64> = BTreeMap::new();
    // Other kernels can have causes of their own: copies of tensors, chains.
    let is_plain = |name: NameId| {
        let name = device.names.get(name).to_lowercase();
        MATRIX_KERNELS.iter().any(|part| name.contains(part))
    };
    let places = device.multiprocessors(0).unwrap_or(0);
    for row in 0..device.rows.len() {
        // Kernels with few blocks have another cause.
        let blocks: u32 = device.rows.grid[row].iter().product();
        if device.rows.kind[row] == RowKind::Kernel && blocks >= places {
            *times.entry(device.rows.name[row]).or_default() += device.rows.duration[row].0;
        }
    }
    let all: i64 = times.values().sum();
    let mut names: Vec<(i64, NameId)> = times.iter().map(|(name, ns)| (*ns, *name)).collect();
    names.retain(|(_, name)| is_plain(*name));
    names.sort_unstable();
    let (ns, name) = *names.iter().rev().nth(dice.below(6) as usize)?;
    // It takes a third to two thirds of all kernel time.
    let share = 0.35 + dice.below(30) as f64 / 100.0;
    let factor = (share / (1.0 - share) * (all - ns) as f64 / ns.max(1) as f64).max(2.0);
    let change = |factor| Change {
        slower: BTreeMap::from([(name, factor)]),
        ..Change::default()
    };
    Some(Plan {
        faulty: change(factor),
        mended: change(factor / 2.0),
        subject: Some(device.names.get(name).to_owned()),
    })
}

#[derive(Clone, Debug, Default)]
struct Score {
    rounds: u32,
    /// Rounds in which the fault costs enough to be named.
    counted: u32,
    named: u32,
    /// Rounds in which the fault costs a tenth more than the gain of any other finding.
    largest: u32,
    first: u32,
    exact: u32,
}

impl Score {
    fn add(&mut self, other: &Score) {
        self.rounds += other.rounds;
        self.counted += other.counted;
        self.named += other.named;
        self.largest += other.largest;
        self.first += other.first;
        self.exact += other.exact;
    }

    fn assert_good(&self) {
        let line = self.line();
        assert!(self.counted > 0, "{line}");
        assert!(self.named * 100 >= self.counted * 98, "{line}");
        assert!(self.first * 100 >= self.largest * 98, "{line}");
        assert!(self.exact * 100 >= self.counted * 95, "{line}");
    }

    fn line(&self) -> String {
        format!(
            "rounds {:>4}  costly {:>4}  named {:>4}  first {:>4} of {:>4}  within 10 % {:>4}",
            self.rounds, self.counted, self.named, self.first, self.largest, self.exact
        )
    }
}

/// Judges the findings on a faulty run.
fn judge(fault: Fault, found: &RunFindings, truth: Truth, line: &str) -> Score {
    let mut score = Score {
        rounds: 1,
        ..Score::default()
    };
    let others = found.findings.iter();
    let others = others.filter(|one| !fault.kinds().contains(&one.kind));
    let others_ns = others.map(|one| one.gain_ns).max().unwrap_or(0);
    let matches = |one: &&RunFinding| {
        let is_named = truth
            .subject
            .is_none_or(|name| is_kernel(&one.subject, name));
        fault.is_named_by(one) && is_named
    };
    let gain: i64 = found
        .findings
        .iter()
        .filter(matches)
        .map(|one| one.gain_ns)
        .sum();
    let error = (gain - truth.expected_ns) as f64 / truth.expected_ns.max(1) as f64;
    if truth.ns as f64 >= LEAST_EFFECT * found.window_ns as f64 {
        score.counted = 1;
        score.named = u32::from(found.findings.iter().any(|one| matches(&one)));
        score.exact = u32::from(error.abs() <= 0.1);
        // A loader that sets the pace comes first, whatever gains more beside it.
        let paces =
            |one: &RunFinding| one.kind == CauseKind::InputPipeline && one.figures.loader_sets_pace;
        let is_behind = found
            .findings
            .first()
            .is_some_and(|one| paces(one) && !matches(&one));
        if truth.ns as f64 >= 1.1 * others_ns as f64 && !is_behind {
            score.largest = 1;
            score.first = u32::from(found.findings.first().is_some_and(|one| matches(&one)));
        }
    }
    let is_wrong = score.named + score.exact < 2 * score.counted || score.first < score.largest;
    if is_wrong || std::env::var_os("VERBOSE").is_some() {
        let told: Vec<String> = found
            .findings
            .iter()
            .map(|one| {
                let name: String = one.subject.chars().take(30).collect();
                format!("{:?} {name:?} {:.3}", one.kind, one.gain_ns as f64 / 1e6)
            })
            .collect();
        println!(
            "{}{line}: window {:.3} ms, truth {:.3} (expected {:.3}, others {:.3}), gain {:.3} ({:+.1} %); {}",
            if is_wrong { "WRONG " } else { "" },
            found.window_ns as f64 / 1e6,
            truth.ns as f64 / 1e6,
            truth.expected_ns as f64 / 1e6,
            others_ns as f64 / 1e6,
            gain as f64 / 1e6,
            100.0 * error,
            told.join(" | ")
        );
    }
    score
}

/// Returns true if a finding's name is that of a kernel, whose arguments it may leave out.
fn is_kernel(subject: &str, name: &str) -> bool {
    name == subject
}

#[derive(Clone, Copy)]
struct Truth<'n> {
    ns: i64,
    /// With the gain of the same kind in the recording.
    expected_ns: i64,
    subject: Option<&'n str>,
}

fn round(fault: Fault, subject: &Subject, seed: u64) -> Option<Score> {
    let mut dice = Random(seed);
    let plan = plan(fault, subject, &mut dice)?;
    let run = |change| {
        let delays = MeetingDelays::new();
        Linked::new(subject.recording.run(change, &delays).trace)
    };
    let (faulty, mended) = (run(&plan.faulty), run(&plan.mended));
    let found = faulty.findings();
    let ns = faulty.window_ns() - mended.window_of_steps(&faulty);
    let own_ns = if plan.subject.is_some() {
        0
    } else {
        subject.own_gain(fault, &found)
    };
    let truth = Truth {
        ns,
        expected_ns: ns + own_ns,
        subject: plan.subject.as_deref(),
    };
    let line = format!("{fault:?} {} {seed}", subject.name);
    Some(judge(fault, &found, truth, &line))
}

const ALL_REDUCE: &str =
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/// Makes the ranks of a job from the recording of a job of one rank, whose collectives have no
/// kernels: NCCL has nothing to do there.
fn copied_ranks(device: DeviceTrace, count: usize) -> Vec<Recording> {
    let ops = &device.ops;
    let collectives: Vec<usize> = (0..ops.len())
        .filter(|op| ops.collective[*op] != u32::MAX)
        .collect();
    let recording = Recording::new(device.clone());
    let everywhere = (TimeNs(i64::MIN), TimeNs(i64::MAX));
    let places = recording.places(everywhere);
    let mut change = Change::default();
    for op in &collectives {
        let (start, end) = (ops.start[*op], ops.start[*op] + ops.duration[*op]);
        let place = places
            .iter()
            .rfind(|place| place.at > start && place.at < end);
        let launch = Act::Call {
            name: "cudaLaunchKernelExC",
            ns: 6_000,
            copy: Some((ALL_REDUCE, 300_000)),
            waits: false,
        };
        let place = *place.expect("a place in the op");
        change.insertions.push(insertion(place, &[], vec![launch]));
    }
    let delays = MeetingDelays::new();
    let mut device = recording.run(&change, &delays).trace;
    let of_ops: Vec<u32> = {
        let all = device.ops.collective.iter();
        all.copied().filter(|one| *one != u32::MAX).collect()
    };
    let mut of_ops = of_ops.into_iter();
    for row in 0..device.rows.len() {
        if device.names.get(device.rows.name[row]) == ALL_REDUCE {
            device.rows.kind[row] = RowKind::Kernel;
            device.rows.collective[row] = of_ops.next().expect("an op");
        }
    }
    let ranks = 0..count;
    ranks
        .map(|rank| Recording::new(as_rank(&device, rank, count)))
        .collect()
}

fn as_rank(device: &DeviceTrace, rank: usize, count: usize) -> DeviceTrace {
    let mut own = device.clone();
    own.header.rank = Some(GlobalRank(rank as i64));
    own.header.world_size = Some(count as i64);
    for group in &mut own.header.groups {
        *group = ProcessGroup {
            size: count as u64,
            ranks: (0..count as u64).collect(),
            ..group.clone()
        };
    }
    let listed: Vec<usize> = (0..count).collect();
    let ranks = own.names.intern(&format!("{listed:?}"));
    let all = &mut own.collectives;
    all.group_size.fill(count as u64);
    all.group_ranks.fill(ranks);
    all.rank.fill(rank as i64);
    all.rank_start.fill(0);
    all.rank_stride.fill(1);
    own
}

/// Makes one rank of a job late, by host work or by slower kernels.
fn late_rank(name: &str, ranks: &[Recording], hosts: &[HostTrace], seed: u64) -> Option<Score> {
    let mut dice = Random(seed);
    let late = dice.below(ranks.len() as u64) as usize;
    let own = Subject::new(name, ranks[late].device.clone());
    let fault = [Fault::HostWork, Fault::SlowKernel][(seed % 2) as usize];
    let mut plan = plan(fault, &own, &mut dice)?;
    if fault == Fault::SlowKernel {
        // The rank is compared with the others, not with half of its time.
        plan.mended = Change::default();
    }
    let line = format!("late rank {late} {fault:?} {name} {seed}");
    Some(judge_late_rank(ranks, hosts, late, &plan, &line))
}

/// Makes a rank late by host work of this length, at the place between ops that is nearest to the middle
/// of its recording.
fn late_by(ranks: &[Recording], hosts: &[HostTrace], late: usize, ns: i64) -> Score {
    let own = Subject::new("ranks", ranks[late].device.clone());
    let mut places = own.recording.places(own.span);
    places.retain(|place| !place.in_op);
    let middle = own.span.1.since(own.span.0) / 2;
    let distance = |place: &Place| (place.at.since(own.span.0) - middle).abs();
    let place = places.into_iter().min_by_key(distance).expect("a place");
    let (with, _) = occurrence(Fault::HostWork, place, ns);
    let plan = Plan {
        faulty: Change {
            insertions: vec![with],
            ..Change::default()
        },
        mended: Change::default(),
        subject: None,
    };
    let host = if hosts.is_empty() { "without" } else { "with" };
    let line = format!("rank {late} late by {ns} ns, {host} host traces");
    judge_late_rank(ranks, hosts, late, &plan, &line)
}

/// Judges the findings on a run whose rank `late` has a fault.
fn judge_late_rank(
    ranks: &[Recording],
    hosts: &[HostTrace],
    late: usize,
    plan: &Plan,
    line: &str,
) -> Score {
    let link = |change: &Change| {
        let changes = ranks.iter().enumerate();
        let nothing = Change::default();
        let runs: Vec<(&Recording, &Change)> = changes
            .map(|(rank, one)| (one, if rank == late { change } else { &nothing }))
            .collect();
        let traces = run_ranks(&runs).into_iter().enumerate();
        let linked = traces.map(|(rank, trace)| {
            Linked::of_rank(hosts.get(rank).cloned(), trace, Some(rank)).trace
        });
        linked.collect::<Vec<_>>()
    };
    let window_ns = |traces: &[LinkedTrace]| {
        let ranks = traces.iter().zip(0..);
        let summaries: Vec<RankSummary> = ranks
            .map(|(trace, rank)| RankSummary::from_trace(trace, GlobalRank(rank)))
            .collect();
        RunSteps::of_ranks(&summaries, &[]).window_ns().unwrap_or(0)
    };
    let (faulty, mended) = (link(&plan.faulty), link(&plan.mended));
    let ns = window_ns(&faulty) - window_ns(&mended);
    let truth = Truth {
        ns,
        expected_ns: ns,
        subject: None,
    };
    let found = find_in_ranks(faulty.into_iter());
    judge(Fault::LateRank, &found, truth, line)
}

#[test]
fn a_late_rank_of_copies_is_named_with_what_it_costs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/gpu");
    let device = read_device(&root.join("nccl/kineto_trace_0.json.zst"));
    let ranks = copied_ranks(device, 4);
    let rounds = std::env::var("ROUNDS")
        .ok()
        .and_then(|asked| asked.parse().ok());
    let rounds: u64 = rounds.unwrap_or(2);
    let mut score = Score::default();
    for seed in 1..=rounds {
        if let Some(one) = late_rank("nccl", &ranks, &[], seed) {
            score.add(&one);
        }
    }
    if let Ok(folder) = std::env::var("RANKS") {
        let files =
            (0..8).map(|rank| Path::new(&folder).join(format!("kineto_trace_{rank}.json.gz")));
        let ranks: Vec<Recording> = files
            .map(|file| Recording::new(read_device(&file)))
            .collect();
        let hosts = (0..8).map(|rank| {
            let path = Path::new(&folder).join(format!("pytorch_et_{rank}.json.gz"));
            let file = std::fs::File::open(path).expect("a host trace");
            let options = etlink_formats::host::HostReadOptions::default();
            etlink_formats::host::read(MultiGzDecoder::new(file), options).expect("a host trace")
        });
        let hosts: Vec<HostTrace> = hosts.collect();
        for hosts in [&hosts[..], &[]] {
            for seed in 1..=rounds {
                if let Some(one) = late_rank("ranks", &ranks, hosts, seed) {
                    score.add(&one);
                }
            }
            let mut planted = Score::default();
            for (late, ms) in [0, 2, 4, 6, 7]
                .into_iter()
                .flat_map(|rank| [6, 9, 12].map(|ms| (rank, ms)))
            {
                planted.add(&late_by(&ranks, hosts, late, ms * 1_000_000));
            }
            println!("planted, {} host traces: {}", hosts.len(), planted.line());
            planted.assert_good();
        }
    }
    println!("late rank {}", score.line());
    score.assert_good();
}

/// Returns the recording as a slower device would have run it: the host then runs ahead of it.
fn on_slower_device(device: DeviceTrace, factor: f64) -> DeviceTrace {
    let slower = device
        .rows
        .name
        .iter()
        .map(|name| (*name, factor))
        .collect();
    let change = Change {
        slower,
        ..Change::default()
    };
    Recording::new(device)
        .run(&change, &MeetingDelays::new())
        .trace
}

/// Returns the recordings that `GPU` and `TRACES` name, with their names and how much slower their
/// device is to be; `usual` ones without `GPU`.
pub(crate) fn recordings(usual: &str) -> Vec<(String, PathBuf, f64)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/gpu");
    let names = std::env::var("GPU").unwrap_or_else(|_| usual.to_owned());
    let of_names = names
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| {
            let (name, slower) = name.split_once('*').unwrap_or((name, "1"));
            let file = root.join(name).join("kineto_trace_0.json.zst");
            (name.to_owned(), file, slower.parse().expect("a factor"))
        });
    let traces = std::env::var("TRACES").unwrap_or_default();
    let of_files = traces
        .split(':')
        .filter(|file| !file.is_empty())
        .map(|file| {
            let name = Path::new(file).file_name().unwrap_or_default();
            (
                name.to_string_lossy().into_owned(),
                PathBuf::from(file),
                1.0,
            )
        });
    of_names.chain(of_files).collect()
}

fn subjects() -> Vec<Subject> {
    let all = recordings("gemm-base,streams-base,streams-base*30,compile-base,input_copy-changed");
    let read = all.into_iter().map(|(name, file, factor)| {
        let device = read_device(&file);
        let device = if factor == 1.0 {
            device
        } else {
            on_slower_device(device, factor)
        };
        Subject::new(&name, device)
    });
    read.collect()
}

#[test]
fn faults_in_recordings_are_named_with_what_they_cost() {
    let rounds = std::env::var("ROUNDS")
        .ok()
        .and_then(|asked| asked.parse().ok());
    let rounds: u64 = rounds.unwrap_or(1);
    let only = std::env::var("FAULT").unwrap_or_default();
    let mut scores: BTreeMap<Fault, Score> = BTreeMap::new();
    for subject in subjects() {
        for fault in FAULTS {
            for seed in 0..rounds {
                if !format!("{fault:?}").contains(&only) {
                    continue;
                }
                if let Some(score) = round(fault, &subject, seed + 1) {
                    scores.entry(fault).or_default().add(&score);
                }
            }
        }
    }
    let mut all = Score::default();
    for (fault, score) in &scores {
        println!("{:18} {}", format!("{fault:?}"), score.line());
        all.add(score);
    }
    println!("{:18} {}", "all", all.line());
    all.assert_good();
}
