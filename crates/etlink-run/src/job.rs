//! Links one rank: reads both traces, links them, and writes the result.

pub use crate::perfetto::PerfettoCounts;

use crate::Progress;
use crate::cancel::Cancelled;
use crate::captures::CaptureFiles;
use crate::device_readers::{expect_device, read_device_trace};
use crate::error::RunError;
use crate::flight;
use crate::input::database::database_processes;
use crate::input::{self, InputFile, InputKind, WantedTrace};
use crate::inspector;
use crate::measurements::read_metric_file;
use crate::memory::RankOperation;
use crate::output::{OutputFormat, Piece, Target, no_target};
use crate::overhead::{Overhead, link_without_overhead};
use crate::perfetto;
use crate::read_cache::{ReadCache, TraceReading};
use crate::run_files::ManifestEntry;
use crate::slice::{ChosenSlice, TraceSlice};
use crate::slice_begin::TraceExtent;
use crate::step_pattern::StepPattern;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_chakra::{RankAgreement, WriteOptions, WriteSummary, et, etplus};
use etlink_formats::kineto::{KinetoReadOptions, TraceOutline};
use etlink_link::ranks::RankSteps;
use etlink_link::{LinkOptions, LinkReport, LinkedTrace, MetricJoin, TensorEdges};
use etlink_model::{
    DeviceTrace, Diagnostic, DiagnosticCode, Failure, GlobalRank, HostTrace, KeepEvents, KeptNodes,
    Severity, TimeNs, diagnostic,
};
use etlink_report::perfetto::TimelineRank;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Settings for linking one rank.
#[derive(Clone, Debug, Default)]
pub struct LinkJob {
    /// Host trace; `None` for the graph of the device trace alone.
    pub host: Option<PathBuf>,
    /// Device trace.
    pub device: PathBuf,
    /// Process in the device trace's file; `None` for the only one.
    pub process: Option<i64>,
    /// Device traces of the captures of the rank's graphs.
    pub captures: CaptureFiles,
    /// Dump of the rank's flight recorder.
    pub flight: Option<PathBuf>,
    /// Log of NCCL's inspector of the rank's process.
    pub inspector: Option<PathBuf>,
    /// Metrics of the rank's kernels.
    pub metrics: Option<PathBuf>,
    /// Rank, for traces that do not state it.
    pub rank: Option<i64>,
    /// Destination of the result; `None` if only the report is needed.
    pub target: Option<Target>,
    /// Settings of the `.et`.
    pub form: WriteOptions<'static>,
    /// Kinds of dependencies through tensors that become edges.
    pub tensor_deps: TensorEdges,
    /// Events to read beyond the needs of a graph.
    pub keep: KeepEvents,
    /// Pattern for the names of steps; `None` for the known names.
    pub steps_by: Option<StepPattern>,
    /// Part of the traces to read; `None` for all.
    pub slice: Option<TraceSlice>,
    /// Treatment of the overhead of recording in host times.
    pub overhead: Overhead,
    /// True if no other rank of the run is read.
    pub is_alone: bool,
    /// Number of reading threads.
    pub threads: usize,
    /// True to refuse damaged traces.
    pub strict: bool,
    /// True to link traces even if they seem not to belong together.
    pub allow_mismatch: bool,
    /// Facts about the traces from the recording's manifest.
    pub manifest: ManifestEntry,
    /// Cache of parsed traces; `None` without one.
    pub cache: Option<ReadCache>,
    /// Work on the rank, which determines its memory.
    pub work: RankOperation,
}

impl LinkJob {
    /// Creates a job that only links for figures: it writes nothing and searches no tensor edges.
    pub fn reading(host: Option<PathBuf>, device: PathBuf, threads: usize) -> LinkJob {
        LinkJob {
            host,
            device,
            tensor_deps: TensorEdges::None,
            threads,
            ..LinkJob::default()
        }
    }

    /// Returns the events to read: all of them for an export of everything.
    fn kept_events(&self) -> KeepEvents {
        let target = self.target.as_ref();
        match target.and_then(|target| target.format.for_perfetto()) {
            Some(_) => KeepEvents::Everything,
            None => self.keep,
        }
    }

    /// Returns the settings for reading the device trace.
    fn read_options(&self, shapes: bool) -> KinetoReadOptions {
        KinetoReadOptions {
            threads: self.threads.max(1),
            shapes,
            keep: self.kept_events(),
        }
    }

    /// Marks the steps that the pattern matches. Without a pattern, returns a note on excluded ranges.
    fn mark_steps(&self, device: &mut DeviceTrace) -> Option<Diagnostic> {
        match &self.steps_by {
            Some(pattern) => pattern.mark_steps(device),
            None => RankSteps::excluded_note(device),
        }
        .map(|note| diagnostic!(StepsExcluded, "{note}"))
    }

    /// Returns the settings for linking the traces.
    pub fn options(&self) -> LinkOptions {
        LinkOptions {
            allow_mismatch: self.allow_mismatch,
            is_interleaved: self.manifest.is_interleaved,
            rank: self.rank.map(GlobalRank),
            tensor_deps: self.tensor_deps,
        }
    }
}

/// Report of linking one rank.
#[derive(Clone, Debug, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobReport {
    /// File of the host trace.
    pub host: Option<String>,
    /// File of the device trace.
    pub device: String,
    /// Files of the device traces recorded during capture.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub captures: Vec<String>,
    /// Written file.
    pub output: Option<String>,
    /// True if damage was found under `--strict`, so that nothing was written.
    pub refused: bool,
    /// Report of the linker.
    pub report: LinkReport,
    /// Summary of the written graph.
    #[borsh(skip)]
    pub written: Option<WriteSummary>,
    /// Counts of a written trace for Perfetto.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[borsh(skip)]
    pub shown: Option<PerfettoCounts>,
    /// Sizes of the traces and the output.
    pub bytes: JobBytes,
    /// Times of the phases.
    pub seconds: JobSeconds,
}

/// Sizes of traces and output, bytes.
#[derive(Clone, Debug, Default, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobBytes {
    /// Unpacked host trace.
    pub host: u64,
    /// Unpacked device trace.
    pub device: u64,
    /// Stored output.
    pub output: u64,
}

/// Wall times of the phases, seconds.
#[derive(Clone, Copy, Debug, Default, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobSeconds {
    /// Reading of both traces, in parallel.
    pub read: f64,
    /// Linking of the traces.
    pub link: f64,
    /// Encoding and writing of the output.
    pub write: f64,
}

/// Data about a rank within its run, for writing.
#[derive(Clone, Copy, Debug, Default)]
pub struct RankContext<'a> {
    /// Form of the rank's communications.
    pub agreement: Option<&'a RankAgreement>,
    /// True if communications are serialized.
    pub serialize_comms: bool,
    /// Clock of the rank relative to the first rank.
    pub clock: etlink_link::ranks::RankClock,
}

/// Writes a linked trace, unless the job has no target or the trace was refused.
pub fn write_out(
    trace: &LinkedTrace,
    job: &LinkJob,
    among: RankContext<'_>,
    progress: &Progress,
    linked: &mut JobReport,
) -> Result<(), RunError> {
    if linked.refused {
        return Ok(());
    }
    let Some(target) = job.target.as_ref() else {
        return Ok(());
    };
    let mut stopwatch = Stopwatch(Instant::now());
    progress.phase("writing");
    linked.bytes.output = write(trace, target, job.form, among, linked)?;
    linked.output = Some(target.path().display().to_string());
    linked.seconds.write += stopwatch.lap();
    Ok(())
}

/// Writes a rank's part of the timeline of all ranks.
pub fn write_member(
    trace: &LinkedTrace,
    job: &LinkJob,
    member: &TimelineRank<'_>,
    progress: &Progress,
    linked: &mut JobReport,
) -> Result<Piece, RunError> {
    let target = job.target.as_ref().ok_or_else(no_target)?;
    let mut stopwatch = Stopwatch(Instant::now());
    progress.phase("writing");
    let (shown, piece) = perfetto::of_member(trace, member, target)?;
    (linked.shown, linked.bytes.output) = (Some(shown), piece.bytes);
    linked
        .report
        .diagnostics
        .extend(perfetto::left_out_note(trace));
    linked.seconds.write += stopwatch.lap();
    Ok(piece)
}

/// Traces of a job.
struct JobTraces {
    host: Option<HostTrace>,
    device: DeviceTrace,
    diagnostics: Vec<Diagnostic>,
}

/// Reads and links the traces of a job. A trace that is already open is not opened again: standard
/// input cannot be.
pub(crate) fn link_opened(
    job: &LinkJob,
    opened: Option<InputFile>,
    progress: &Progress,
) -> Result<(LinkedTrace, JobReport), RunError> {
    let mut stopwatch = Stopwatch(Instant::now());
    progress.phase("reading");
    let named_capture = job.captures.open_named(progress)?;
    let JobTraces {
        host,
        mut device,
        diagnostics,
    } = read_opened(job, opened, progress)?;
    check_memory(job, host.as_ref(), &device, progress)?;
    let flight_note = flight::describe_collectives(job.flight.as_deref(), &mut device, progress);
    let log = job.inspector.as_deref();
    let log_note = inspector::describe_collectives(log, &mut device, progress);
    // for a slice, the steps are already known
    let step_note = match job.slice {
        Some(_) => None,
        None => job.mark_steps(&mut device),
    };
    let mut read = stopwatch.lap();
    let bytes = JobBytes {
        host: host.as_ref().map_or(0, |host| host.bytes),
        device: device.bytes,
        output: 0,
    };
    progress.phase("linking");
    let mut trace = link_traces(job, host, device, job.options())?;
    trace.report.diagnostics.extend(diagnostics);
    trace.report.diagnostics.extend(step_note);
    trace.report.diagnostics.extend(flight_note);
    trace.report.diagnostics.extend(log_note);
    // captured ops are added after linking, which assigns launches to graphs
    let mut link = stopwatch.lap();
    // read only now, when linking has freed its working memory
    let read_capture = |input| read_device(input, job.threads, true);
    let files = &job.captures;
    let captures = files.read(named_capture, progress, read_capture, &mut trace)?;
    read += stopwatch.lap();
    if let Some(captures) = captures {
        etlink_link::carry_captured_ops(&mut trace, captures);
        link += stopwatch.lap();
    }
    join_metrics(job, progress, &mut trace)?;
    let linked = JobReport {
        host: job.host.as_ref().map(|path| path.display().to_string()),
        device: job.device.display().to_string(),
        captures: job
            .captures
            .paths
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        output: None,
        // not an error: the report states the damage, and the caller decides what to print
        refused: job.strict && is_damaged(&trace.report),
        report: trace.report.clone(),
        written: None,
        shown: None,
        bytes,
        seconds: JobSeconds {
            read,
            link,
            write: 0.0,
        },
    };
    Ok((trace, linked))
}

/// Checks that the work on a rank that has been read fits into memory.
fn check_memory(
    job: &LinkJob,
    host: Option<&HostTrace>,
    device: &DeviceTrace,
    progress: &Progress,
) -> Result<(), RunError> {
    if let Some(watch) = progress.memory() {
        let takes = job.work.bytes(host, device);
        // the gate's owner reports the error
        watch.check_read(takes).map_err(|_| Cancelled)?;
    }
    Ok(())
}

/// Joins metrics of kernels: from a file next to the trace, or else those that CUPTI's range
/// profiler wrote into the trace.
fn join_metrics(
    job: &LinkJob,
    progress: &Progress,
    trace: &mut LinkedTrace,
) -> Result<(), RunError> {
    let join = match &job.metrics {
        Some(path) => {
            let profile = read_metric_file(input::open(path, progress)?)?;
            let name = input::display_name(path);
            if profile.damaged_lines > 0 {
                trace.report.diagnostics.push(diagnostic!(
                    MetricsIncomplete,
                    "{name}: lines that are not rows of the table, left out: {}",
                    profile.damaged_lines
                ));
            }
            let join = etlink_link::join_kernel_metrics(trace, &profile);
            let grid = if join.by_grid { ", grid, block" } else { "" };
            trace.report.diagnostics.push(diagnostic!(
                MetricsJoined,
                "metrics of {name} are joined to {} by name{grid} and launch order",
                crate::text::count(join.joined, "kernel")
            ));
            Some(join)
        }
        None => etlink_link::join_counter_ranges(trace),
    };
    let incomplete = join.iter().flat_map(MetricJoin::diagnostics);
    trace.report.diagnostics.extend(incomplete);
    Ok(())
}

/// Reads the host trace of a job and links it with a device trace that has been read.
///
/// # Errors
/// Fails if the host trace cannot be read, the traces are of different programs, or memory
/// is short.
pub fn link_read(
    job: &LinkJob,
    device: DeviceTrace,
    progress: &Progress,
) -> Result<LinkedTrace, RunError> {
    let host = match &job.host {
        Some(host) => {
            let input = input::open(host, progress)?;
            Some(host_of_slice(input, job, &device)?)
        }
        None => None,
    };
    check_memory(job, host.as_ref(), &device, progress)?;
    link_traces(job, host, device, job.options())
}

/// Links traces that have been read, without the overhead of recording if this is asked for.
fn link_traces(
    job: &LinkJob,
    host: Option<HostTrace>,
    device: DeviceTrace,
    options: LinkOptions,
) -> Result<LinkedTrace, RunError> {
    let (overhead, manifest) = ((job.overhead, job.is_alone), &job.manifest);
    link_without_overhead(overhead, manifest, (host, device), |host, device| {
        let linked = etlink_link::link(host, device, options);
        linked.map_err(|source| Failure::new(inputs(job)).because(source).into())
    })
}

/// Returns true if `--strict` refuses a trace with this report.
pub fn is_damaged(report: &LinkReport) -> bool {
    // damage of files next to the traces is among the diagnostics too, and is not refused
    report.anomalies.any(Severity::Damage) || DiagnosticCode::TwoRuns.is_in(&report.diagnostics)
}

/// Returns the names of a job's traces, for messages.
pub fn inputs(job: &LinkJob) -> String {
    let device = input::display_name(&job.device);
    match &job.host {
        Some(host) => format!("{} and {device}", input::display_name(host)),
        None => device,
    }
}

/// Returns the options for writing a `.et` in this form of a rank in this context.
pub(crate) fn write_options<'a>(
    form: WriteOptions<'static>,
    among: RankContext<'a>,
) -> WriteOptions<'a> {
    WriteOptions {
        agreement: among.agreement,
        serialize_comms: among.serialize_comms,
        // only for ASTRA-sim
        roofline: among.serialize_comms,
        clock: among.clock,
        ..form
    }
}

/// Writes the graph. Returns its summary and the stored size, bytes.
fn write(
    trace: &LinkedTrace,
    target: &Target,
    form: WriteOptions<'static>,
    among: RankContext<'_>,
    linked: &mut JobReport,
) -> Result<u64, RunError> {
    let options = write_options(form, among);
    let (summary, stored) = match target.format {
        OutputFormat::Chakra => target.write(|mut out| et::write_et(trace, &options, &mut out))?,
        OutputFormat::EtPlus => target.write(|mut out| etplus::write_etplus(trace, &mut out))?,
        OutputFormat::Chrome | OutputFormat::Perfetto => {
            let (shown, stored) = perfetto::of_linked(trace, target)?;
            linked.shown = Some(shown);
            linked
                .report
                .diagnostics
                .extend(perfetto::left_out_note(trace));
            return Ok(stored);
        }
    };
    linked.written = Some(summary);
    Ok(stored)
}

struct Stopwatch(Instant);

impl Stopwatch {
    fn lap(&mut self) -> f64 {
        let now = Instant::now();
        (now - std::mem::replace(&mut self.0, now)).as_secs_f64()
    }
}

fn read_opened(
    job: &LinkJob,
    opened: Option<InputFile>,
    progress: &Progress,
) -> Result<JobTraces, RunError> {
    let Some(host) = &job.host else {
        return read_one_file(job, opened, progress);
    };
    let [host, device] = open_pair(job, host, progress)?;
    let Some(slice) = job.slice else {
        let (host, device) = read_pair(job, host, device)?;
        return Ok(JobTraces {
            host: Some(host),
            device,
            diagnostics: vec![],
        });
    };
    let (device, diagnostics) = read_slice(device, job, slice, false, progress)?;
    let host = host_of_slice(host, job, &device)?;
    Ok(JobTraces {
        host: Some(host),
        device,
        diagnostics,
    })
}

/// Reads a device trace.
fn read_one_file(
    job: &LinkJob,
    opened: Option<InputFile>,
    progress: &Progress,
) -> Result<JobTraces, RunError> {
    // standard input was opened to detect its kind, and cannot be opened again
    let mut device = match opened {
        Some(device) => device,
        None => input::open(&job.device, progress)?,
    };
    choose_process(&mut device, job)?;
    // without a host trace, no other shapes exist
    let shapes = true;
    let (device, diagnostics) = match job.slice {
        Some(slice) => read_slice(device, job, slice, shapes, progress)?,
        None => (device_tables(device, job, shapes)?, vec![]),
    };
    Ok(JobTraces {
        host: None,
        device,
        diagnostics,
    })
}

/// Opens both traces.
fn open_pair(
    job: &LinkJob,
    host: &PathBuf,
    progress: &Progress,
) -> Result<[InputFile; 2], RunError> {
    if host == &job.device {
        let path = host.display();
        let same = Failure::new(format!(
            "the host trace and the device trace are the same file, {path}"
        ))
        .of(path);
        return Err(same.advise("give the two traces of one rank").into());
    }
    let host = input::open(host, progress)?;
    let mut device = input::open(&job.device, progress)?;
    choose_process(&mut device, job)?;
    // checks both kinds first: the files may be large
    expect_host(&host)?;
    expect_device(&device, WantedTrace::Device)?;
    Ok([host, device])
}

/// Reads both traces in parallel.
fn read_pair(
    job: &LinkJob,
    host: InputFile,
    device: InputFile,
) -> Result<(HostTrace, DeviceTrace), RunError> {
    // the host trace has the shapes; reading them twice takes time and memory
    let read_device_trace = || device_tables(device, job, false);
    // only one thread is allowed
    if job.threads <= 1 {
        return Ok((host_tables(host, job)?, read_device_trace()?));
    }
    let host = Mutex::new(Some(host));
    let read_host_trace = || {
        let host = host.lock().unwrap_or_else(PoisonError::into_inner).take();
        host_tables(host.ok_or_else(host_reader_failed)?, job)
    };
    std::thread::scope(|scope| {
        let reading = std::thread::Builder::new().spawn_scoped(scope, read_host_trace);
        let device = read_device_trace();
        // the error of the device trace waits, so that a wrong --host is reported first
        let host = match reading {
            Ok(reading) => reading.join().map_err(|_| host_reader_failed())?,
            // if the process may not start another thread, one after the other
            Err(_) => read_host_trace(),
        }?;
        Ok((host, device?))
    })
}

/// Creates the error of a thread that ended before it had read the host trace.
fn host_reader_failed() -> Failure {
    Failure::new("reading the host trace failed")
}

/// Reads a slice of a device trace. Returns notes on the slice. A Kineto file is read twice, the
/// first time to locate the slice. Other inputs are read completely.
fn read_slice(
    input: InputFile,
    job: &LinkJob,
    slice: TraceSlice,
    shapes: bool,
    progress: &Progress,
) -> Result<(DeviceTrace, Vec<Diagnostic>), RunError> {
    expect_device(&input, WantedTrace::Device)?;
    let (name, options) = (input.name.clone(), job.read_options(shapes));
    let again = match input.kind {
        InputKind::KinetoTrace => input.stored_path.clone(),
        _ => None,
    };
    let mut outline = match again {
        Some(_) => read_kineto_outline(input, job, options)?,
        None => TraceOutline::of_trace(read_device_with(input, options)?),
    };
    let note = job.mark_steps(&mut outline.trace);
    let window = outline.window;
    let chosen = choose_slice(&outline.trace, window, slice, name.clone())?;
    let diagnostics = note.into_iter().chain([chosen.note.clone()]).collect();
    let device = match again {
        Some(path) => {
            let events = outline.slice(chosen.time);
            drop(outline);
            let content = input::open(&path, progress)?.content;
            let read = etlink_formats::kineto::read_slice(content, options, &events);
            let mut device = read.map_err(|cause| RunError::unreadable(&name, cause))?;
            chosen.cut(&mut device);
            etlink_link::judge_rows(&mut device);
            device
        }
        None => {
            chosen.cut(&mut outline.trace);
            outline.trace
        }
    };
    expect_events(&device, window, slice, name)?;
    Ok((device, diagnostics))
}

/// Reads what determines the slices of a Kineto file.
fn read_kineto_outline(
    input: InputFile,
    job: &LinkJob,
    options: KinetoReadOptions,
) -> Result<TraceOutline, RunError> {
    let pattern = job.steps_by.as_ref();
    let is_step = |text: &str| pattern.is_some_and(|pattern| pattern.is_match(text));
    // locating a slice needs neither frames nor details
    let outlined = KinetoReadOptions {
        keep: KeepEvents::Graph,
        ..options
    };
    let outline = etlink_formats::kineto::read_outline(input.content, outlined, &is_step);
    outline.map_err(|cause| RunError::unreadable(input.name, cause))
}

/// Reads when the device trace of a job was recorded, and its steps; `None` for an empty trace.
pub(crate) fn read_extent(
    job: &LinkJob,
    progress: &Progress,
) -> Result<Option<TraceExtent>, RunError> {
    let mut input = input::open(&job.device, progress)?;
    choose_process(&mut input, job)?;
    let mut outline = match input.kind {
        InputKind::KinetoTrace => read_kineto_outline(input, job, job.read_options(false))?,
        _ => TraceOutline::of_trace(read_device(input, job.threads, false)?),
    };
    job.mark_steps(&mut outline.trace);
    Ok(TraceExtent::of_outline(&outline))
}

/// Refuses a slice in which nothing is recorded.
fn expect_events(
    device: &DeviceTrace,
    window: Option<(TimeNs, TimeNs)>,
    slice: TraceSlice,
    name: String,
) -> Result<(), RunError> {
    if device.window().is_some() {
        return Ok(());
    }
    let extent = window.map(|(start, end)| crate::slice::extent(end - start));
    let why = format!("nothing is recorded in it; {}", extent.unwrap_or_default());
    Err(empty_slice(name, slice, why))
}

fn choose_slice(
    device: &DeviceTrace,
    window: Option<(TimeNs, TimeNs)>,
    slice: TraceSlice,
    name: String,
) -> Result<ChosenSlice, RunError> {
    let chosen = match window {
        Some(window) => slice.choose(device, window),
        None => Err("the trace has no events".to_owned()),
    };
    chosen.map_err(|why| empty_slice(name, slice, why))
}

fn empty_slice(name: String, slice: TraceSlice, why: String) -> RunError {
    Failure::new(format!("{name}: {slice} selects nothing: {why}")).into()
}

/// Reads the part of a host trace that belongs to a slice of its device trace: by ids, or all of it
/// if ops have no ids.
fn host_of_slice(
    input: InputFile,
    job: &LinkJob,
    device: &DeviceTrace,
) -> Result<HostTrace, RunError> {
    let is_sliced = device.sliced_steps.is_some() && !job.manifest.is_interleaved;
    let kept = if is_sliced {
        KeptNodes::of_slice(device)
    } else {
        None
    };
    match kept {
        Some(kept) => read_host_part(input, job.threads.max(1), job.tensor_deps, Some(&kept)),
        None => host_tables(input, job),
    }
}

/// Reads a host trace, from the cache if possible.
fn host_tables(input: InputFile, job: &LinkJob) -> Result<HostTrace, RunError> {
    let reading = TraceReading::Host {
        tensors: job.tensor_deps != TensorEdges::None,
    };
    let read = |input| read_host(input, job.threads.max(1), job.tensor_deps);
    match (&job.cache, input.stored_path.clone()) {
        (Some(cache), Some(path)) => cache.read(&path, reading, || read(input)),
        _ => read(input),
    }
}

/// Reads a device trace, from the cache if possible.
fn device_tables(input: InputFile, job: &LinkJob, shapes: bool) -> Result<DeviceTrace, RunError> {
    let options = job.read_options(shapes);
    let reading = if !input.kind.has_processes() {
        TraceReading::of_device(options)
    } else {
        None
    };
    match (&job.cache, input.stored_path.clone(), reading) {
        (Some(cache), Some(path), Some(reading)) => {
            cache.read(&path, reading, || read_device_with(input, options))
        }
        _ => read_device_with(input, options),
    }
}

/// Selects the process to read: the one that discovery found, or else that of the requested rank.
fn choose_process(device: &mut InputFile, job: &LinkJob) -> Result<(), RunError> {
    device.process = job.process;
    if let (None, Some(rank), Some(path)) = (job.process, job.rank, &device.plain_path)
        && device.kind.has_processes()
    {
        let processes = database_processes(path)?;
        // the rank of a single process is the one that the user states
        if processes.len() < 2 {
            return Ok(());
        }
        let of_rank = processes.iter().find(|process| process.rank == Some(rank));
        let Some(of_rank) = of_rank else {
            let ranks = processes.iter().filter_map(|process| process.rank);
            let mut ranks: Vec<i64> = ranks.collect();
            ranks.sort_unstable();
            let ranks = listed_ranks(&ranks);
            let what = format!(": no process is rank {rank}; the processes are ranks {ranks}");
            let failure = Failure::about(&device.name, what).advise("give one of them");
            return Err(failure.into());
        };
        device.process = Some(of_rank.process);
    }
    Ok(())
}

/// Returns ranks separated by commas, at most the first 32.
fn listed_ranks(ranks: &[i64]) -> String {
    const MOST: usize = 32;
    let mut listed: Vec<String> = vec![];
    for rank in ranks.iter().take(MOST) {
        listed.push(rank.to_string());
    }
    if ranks.len() > MOST {
        listed.push(format!("and {} more", ranks.len() - MOST));
    }
    listed.join(", ")
}

pub(crate) fn expect_host(input: &InputFile) -> Result<(), RunError> {
    match input.kind {
        InputKind::HostTrace | InputKind::EtPlus => Ok(()),
        _ => Err(input.refuse_kind(WantedTrace::Host)),
    }
}

/// Reads a host trace, including the tensors of its nodes if requested.
pub fn read_host(
    input: InputFile,
    threads: usize,
    tensors: TensorEdges,
) -> Result<HostTrace, RunError> {
    read_host_part(input, threads, tensors, None)
}

fn read_host_part(
    input: InputFile,
    threads: usize,
    tensors: TensorEdges,
    kept: Option<&KeptNodes>,
) -> Result<HostTrace, RunError> {
    expect_host(&input)?;
    let options = etlink_formats::host::HostReadOptions { threads };
    let mut host = etlink_formats::host::read_part(input.content, options, kept)
        .map_err(|cause| RunError::unreadable(input.name, cause))?;
    // optional: each use of a tensor takes 24 bytes, and a node has several
    if tensors != TensorEdges::None {
        host.tensors = Some(etlink_formats::host::tensor_uses(&host));
    }
    Ok(host)
}

/// Reads a device trace.
pub fn read_device(
    input: InputFile,
    threads: usize,
    shapes: bool,
) -> Result<DeviceTrace, RunError> {
    read_device_with(
        input,
        KinetoReadOptions {
            threads,
            shapes,
            keep: KeepEvents::Graph,
        },
    )
}

/// Reads a device trace with the given options.
pub fn read_device_with(
    input: InputFile,
    options: KinetoReadOptions,
) -> Result<DeviceTrace, RunError> {
    read_device_trace(input, WantedTrace::Device, options)
}

/// Reads a device trace for figures, from the cache if possible. Marks its steps or cuts out a
/// slice, and returns notes on these.
///
/// # Errors
/// Fails if the input is not a device trace, or cannot be read.
pub fn read_for_figures(
    input: InputFile,
    job: &LinkJob,
    progress: &Progress,
) -> Result<(DeviceTrace, Vec<Diagnostic>), RunError> {
    expect_device(&input, WantedTrace::Table)?;
    if let Some(slice) = job.slice {
        return read_slice(input, job, slice, true, progress);
    }
    let mut trace = device_tables(input, job, true)?;
    let note = job.mark_steps(&mut trace);
    Ok((trace, note.into_iter().collect()))
}
