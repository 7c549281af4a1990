//! One rank from files to file: read both traces, link, write.

pub use crate::perfetto::PerfettoCounts;

use crate::Progress;
use crate::cancel::Cancelled;
use crate::device_readers::{expect_device, read_device_trace};
use crate::error::RunError;
use crate::flight;
use crate::input::database::database_processes;
use crate::input::{self, InputError, InputFile, InputKind, WantedTrace};
use crate::measurements::read_metric_file;
use crate::memory::RankOperation;
use crate::merged::read_merged;
use crate::output::{OutputError, OutputFormat, Piece, Target};
use crate::perfetto;
use crate::read_cache::{ReadCache, TraceReading};
use crate::run_files::ManifestEntry;
use crate::slice::{ChosenSlice, TraceSlice};
use crate::step_pattern::StepPattern;
use etlink_chakra::etplus::RecordedTraces;
use etlink_chakra::messages::Losses;
use etlink_chakra::{
    AttributeSet, LatencyMode, RankAgreement, TracePart, WriteOptions, WriteSummary, et, etplus,
};
use etlink_kineto::KinetoReadOptions;
use etlink_link::ranks::RankSteps;
use etlink_link::{LinkOptions, LinkReport, LinkedTrace, MetricJoin, TensorEdges};
use etlink_model::{DeviceTrace, GlobalRank, HostTrace, KeepEvents, KeptNodes, Severity, TimeNs};
use etlink_report::perfetto::TimelineRank;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The job of one rank.
#[derive(Clone, Debug)]
pub struct LinkJob {
    /// Host trace; without it the graph is that of the device trace alone.
    pub host: Option<PathBuf>,
    /// Device trace.
    pub device: PathBuf,
    /// Which of the processes in the file of the device trace; `None`: the only one.
    pub process: Option<i64>,
    /// Trace of the capture of its graphs.
    pub capture: Option<PathBuf>,
    /// Dump of the flight recorder.
    pub flight: Option<PathBuf>,
    /// Metrics of its kernels.
    pub metrics: Option<PathBuf>,
    /// Rank, where the traces do not name it.
    pub rank: Option<i64>,
    /// Where the result goes; nowhere if only the report is wanted.
    pub target: Option<Target>,
    /// What a `.et` is like.
    pub form: ChakraOptions,
    /// Which dependencies through tensors become edges.
    pub tensor_deps: TensorEdges,
    /// What to read that no graph needs.
    pub keep: KeepEvents,
    /// What steps are called; `None`: names that are known tell them.
    pub steps_by: Option<StepPattern>,
    /// Which part of the traces is read; `None`: all.
    pub slice: Option<TraceSlice>,
    /// Threads for reading.
    pub threads: usize,
    /// Refuse damaged traces.
    pub strict: bool,
    /// Link traces that do not seem to belong together.
    pub allow_mismatch: bool,
    /// What the manifest of the recording says of the traces.
    pub manifest: ManifestEntry,
    /// Parsed traces of earlier runs.
    pub cache: Option<ReadCache>,
    /// What is done with the rank, which decides what memory it takes.
    pub work: RankOperation,
}

impl LinkJob {
    /// Reads and links for figures: nothing is written, and no tensor edges are looked for.
    pub fn reading(host: Option<PathBuf>, device: PathBuf, threads: usize) -> LinkJob {
        LinkJob {
            host,
            device,
            process: None,
            capture: None,
            flight: None,
            metrics: None,
            rank: None,
            target: None,
            form: ChakraOptions::default(),
            tensor_deps: TensorEdges::None,
            keep: KeepEvents::Graph,
            steps_by: None,
            slice: None,
            threads,
            strict: false,
            allow_mismatch: false,
            manifest: ManifestEntry::default(),
            cache: None,
            work: RankOperation::default(),
        }
    }

    /// What is read of events: all of them for an export that leaves nothing out.
    fn kept_events(&self) -> KeepEvents {
        let target = self.target.as_ref();
        match target.and_then(|target| target.format.for_perfetto()) {
            Some(_) => KeepEvents::Everything,
            None => self.keep,
        }
    }

    /// How a slice of its device trace is read.
    fn slicing(&self, slice: TraceSlice, shapes: bool) -> SliceReading<'_> {
        SliceReading {
            slice,
            options: KinetoReadOptions {
                threads: self.threads.max(1),
                shapes,
                keep: self.kept_events(),
            },
            steps_by: self.steps_by.as_ref(),
        }
    }

    /// How its traces are linked.
    pub fn options(&self) -> LinkOptions {
        LinkOptions {
            allow_mismatch: self.allow_mismatch,
            is_interleaved: self.manifest.is_interleaved,
            rank: self.rank.map(GlobalRank),
            tensor_deps: self.tensor_deps,
        }
    }
}

/// What a `.et` is like.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChakraOptions {
    /// Where latency goes.
    pub latency: LatencyMode,
    /// Without host gaps.
    pub no_gaps: bool,
    /// With what each dependency takes by itself, and the slack of nodes.
    pub dep_latencies: bool,
    /// Which attributes nodes have.
    pub attributes: AttributeSet,
    /// Which part of a rank.
    pub part: TracePart,
}

impl ChakraOptions {
    /// This part of a rank.
    pub fn with(self, part: TracePart) -> ChakraOptions {
        ChakraOptions { part, ..self }
    }
}

/// How it went.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobReport {
    /// The host trace's file.
    pub host: Option<String>,
    /// The device trace's file.
    pub device: String,
    /// The capture-time trace's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<String>,
    /// The file that was written.
    pub output: Option<String>,
    /// Damage was found and `--strict` given: nothing was written.
    pub refused: bool,
    /// The linker's report.
    pub report: LinkReport,
    /// What merged JSON does not have of the traces that it was made from.
    #[serde(skip)]
    pub lost: Losses,
    /// What the writer wrote.
    pub written: Option<WriteSummary>,
    /// What a trace for Perfetto has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<PerfettoCounts>,
    /// JobBytes.
    pub bytes: JobBytes,
    /// JobSeconds per phase.
    pub seconds: JobSeconds,
}

/// JobBytes in bytes.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobBytes {
    /// Host trace, unpacked.
    pub host: u64,
    /// Device trace, unpacked.
    pub device: u64,
    /// Output as stored.
    pub output: u64,
}

/// Wall time in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobSeconds {
    /// Both traces, at the same time.
    pub read: f64,
    /// Linking.
    pub link: f64,
    /// Encoding and writing.
    pub write: f64,
}

/// What a rank is among the others, for what is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct RankContext<'a> {
    /// What its communications become.
    pub agreement: Option<&'a RankAgreement>,
    /// Communications go in turn.
    pub serialize_comms: bool,
    /// Its clock against the first rank's.
    pub clock: etlink_link::ranks::RankClock,
}

/// Writes what was linked, unless there is nowhere to write to or it was refused.
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

/// Writes a rank's part of the file of all ranks.
pub fn write_member(
    trace: &LinkedTrace,
    job: &LinkJob,
    member: &TimelineRank<'_>,
    progress: &Progress,
    linked: &mut JobReport,
) -> Result<Piece, RunError> {
    let target = job.target.as_ref().ok_or(OutputError::NoTarget)?;
    let mut stopwatch = Stopwatch(Instant::now());
    progress.phase("writing");
    let (shown, piece) = perfetto::of_member(trace, member, target)?;
    (linked.shown, linked.bytes.output) = (Some(shown), piece.bytes);
    linked.report.notes.extend(perfetto::left_out_note(trace));
    linked.seconds.write += stopwatch.lap();
    Ok(piece)
}

/// What of a job's traces is open or read already.
pub(crate) enum OpenedTrace {
    /// The device trace of a job without a host trace.
    File(InputFile),
    /// Both of them, out of merged JSON.
    Merged(Box<RecordedTraces>),
}

/// What of a recording merged JSON never has.
const MERGED_LACKS: &str = "merged JSON has what linking needs: allocations, Python frames, annotations \
    of devices and the occupancy of kernels are in the recording alone";

/// The traces of a job.
struct JobTraces {
    host: Option<HostTrace>,
    device: DeviceTrace,
    /// How those of merged JSON were linked.
    linked: Option<LinkOptions>,
    lost: Losses,
    notes: Vec<String>,
}

impl JobTraces {
    /// Those of files of their own.
    fn plain(host: Option<HostTrace>, device: DeviceTrace) -> JobTraces {
        JobTraces {
            host,
            device,
            linked: None,
            lost: Losses::default(),
            notes: vec![],
        }
    }

    /// Those that merged JSON was made from.
    fn of_merged(traces: RecordedTraces, job: &LinkJob) -> JobTraces {
        let linked = traces.link_options();
        let losses = traces.losses.iter();
        let notes = losses
            .map(|(loss, count)| format!("merged JSON does not have {}: {count}", loss.describe()));
        let mut notes: Vec<String> = notes.collect();
        notes.push(MERGED_LACKS.to_owned());
        let mut host = traces.host;
        if job.tensor_deps != TensorEdges::None
            && let Some(host) = host.as_mut()
        {
            host.tensors = Some(etlink_host::tensor_uses(host));
        }
        JobTraces {
            host,
            device: traces.device,
            linked: Some(linked),
            lost: traces.losses,
            notes,
        }
    }

    /// Cuts the slice that the job is of out of traces that were read whole.
    fn cut(mut self, job: &LinkJob, name: String) -> Result<JobTraces, RunError> {
        if let Some(slice) = job.slice {
            let window = self.device.window();
            self.notes
                .extend(mark_steps(&mut self.device, job.steps_by.as_ref()));
            let chosen = choose_slice(&self.device, window, slice, name.clone())?;
            self.notes.push(chosen.note.clone());
            chosen.cut(&mut self.device);
            expect_events(&self.device, window, slice, name)?;
        }
        Ok(self)
    }

    /// How they are linked.
    fn options(&self, job: &LinkJob) -> LinkOptions {
        let options = job.options();
        match &self.linked {
            Some(linked) => LinkOptions {
                allow_mismatch: linked.allow_mismatch,
                is_interleaved: linked.is_interleaved,
                ..options
            },
            None => options,
        }
    }
}

/// Reads the files of a job, and links.
pub(crate) fn link_files(
    job: &LinkJob,
    progress: &Progress,
) -> Result<(LinkedTrace, JobReport), RunError> {
    read_and_link(job, None, progress)
}

/// Reads and links. One trace of the job is open already.
pub(crate) fn link_opened(
    job: &LinkJob,
    opened: OpenedTrace,
    progress: &Progress,
) -> Result<(LinkedTrace, JobReport), RunError> {
    read_and_link(job, Some(opened), progress)
}

fn read_and_link(
    job: &LinkJob,
    opened: Option<OpenedTrace>,
    progress: &Progress,
) -> Result<(LinkedTrace, JobReport), RunError> {
    let mut stopwatch = Stopwatch(Instant::now());
    // the trace of the capture is opened first: a wrong file fails before gigabytes are read
    progress.phase("reading");
    let capture = job
        .capture
        .as_ref()
        .map(|path| open_capture(path, progress))
        .transpose()?;
    let traces = read_opened(job, opened, progress)?;
    let options = traces.options(job);
    let is_merged = traces.linked.is_some();
    let JobTraces {
        host,
        mut device,
        lost,
        notes,
        ..
    } = traces;
    // of merged JSON it is in the same file
    let host_file = if is_merged && host.is_some() {
        Some(&job.device)
    } else {
        job.host.as_ref()
    };
    let host_file = host_file.map(|path| path.display().to_string());
    check_memory(job, host.as_ref(), &device, progress)?;
    let flight_note = flight::describe_collectives(job.flight.as_deref(), &mut device, progress);
    // of a slice the steps are known already
    let step_note = match job.slice {
        Some(_) => None,
        None => mark_steps(&mut device, job.steps_by.as_ref()),
    };
    let mut read = stopwatch.lap();
    let bytes = JobBytes {
        host: host.as_ref().map_or(0, |host| host.bytes),
        device: device.bytes,
        output: 0,
    };
    progress.phase("linking");
    let linked = etlink_link::link(host, device, options);
    let mut trace = linked.map_err(|source| link_error(job, source))?;
    trace.report.notes.extend(notes);
    trace.report.notes.extend(job.manifest.cost.clone());
    trace.report.notes.extend(step_note);
    trace.report.notes.extend(flight_note);
    // captured ops are carried after linking: they need to know which launch is which graph's
    let mut link = stopwatch.lap();
    if let Some(capture) = capture {
        let name = capture.name.clone();
        // read only now, when linking has given back what it took beside the traces
        let capture = read_device(capture, job.threads, true)?;
        read += stopwatch.lap();
        etlink_link::carry_captured_ops(&mut trace, &capture).map_err(|source| RunError::Link {
            inputs: name,
            source,
        })?;
        link += stopwatch.lap();
    }
    join_metrics(job, progress, &mut trace)?;
    let linked = JobReport {
        host: host_file,
        device: job.device.display().to_string(),
        capture: job.capture.as_ref().map(|path| path.display().to_string()),
        output: None,
        // no error: the report says what is damaged, and the caller decides what to print
        refused: job.strict && is_damaged(&trace.report),
        report: trace.report.clone(),
        lost,
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

/// Looks whether the work on a rank that is read fits into memory.
fn check_memory(
    job: &LinkJob,
    host: Option<&HostTrace>,
    device: &DeviceTrace,
    progress: &Progress,
) -> Result<(), RunError> {
    if let Some(watch) = progress.memory() {
        let takes = job.work.bytes(host, device);
        // who watches knows what to say of it
        watch.check_read(takes).map_err(|_| Cancelled)?;
    }
    Ok(())
}

/// Joins what was measured of kernels: what a file beside the trace says, else what CUPTI's range
/// profiler wrote into it.
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
                trace.report.notes.push(format!(
                    "{name}: {} lines are no lines of its table, and left out",
                    profile.damaged_lines
                ));
            }
            let join = etlink_link::join_kernel_metrics(trace, &profile);
            let grid = if join.by_grid { ", grid, block" } else { "" };
            trace.report.notes.push(format!(
                "metrics of {name} are joined to {} kernels, by name{grid} and order of launch",
                join.joined
            ));
            Some(join)
        }
        None => etlink_link::join_counter_ranges(trace),
    };
    let notes = join.iter().flat_map(MetricJoin::notes);
    trace.report.notes.extend(notes);
    Ok(())
}

/// Reads the host trace of a job and links it with a device trace that was read already.
///
/// # Errors
/// The host trace cannot be read, the two are of two programs, or memory is short.
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
    etlink_link::link(host, device, job.options()).map_err(|source| link_error(job, source))
}

/// What `--strict` refuses.
pub fn is_damaged(report: &LinkReport) -> bool {
    report.two_runs || report.anomalies.any(Severity::Damage)
}

fn link_error(job: &LinkJob, source: etlink_link::Error) -> RunError {
    RunError::Link {
        inputs: inputs(job),
        source,
    }
}

/// The traces of a job, for messages.
pub fn inputs(job: &LinkJob) -> String {
    let device = input::display_name(&job.device);
    match &job.host {
        Some(host) => format!("{} and {device}", input::display_name(host)),
        None => device,
    }
}

/// How a `.et` of this form is written of a rank that is this among the others.
pub(crate) fn write_options(form: ChakraOptions, among: RankContext<'_>) -> WriteOptions<'_> {
    let RankContext {
        agreement,
        serialize_comms,
        clock,
    } = among;
    let ChakraOptions {
        latency,
        no_gaps,
        dep_latencies,
        attributes,
        part,
    } = form;
    WriteOptions {
        attributes,
        part,
        latency,
        no_gaps,
        dep_latencies,
        agreement,
        serialize_comms,
        // for ASTRA-sim alone
        roofline: serialize_comms,
        clock,
    }
}

/// Writes, and says what. Returns the stored size, bytes.
fn write(
    trace: &LinkedTrace,
    target: &Target,
    form: ChakraOptions,
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
            linked.report.notes.extend(perfetto::left_out_note(trace));
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

/// Reads the two traces at the same time.
pub fn read_both(
    job: &LinkJob,
    progress: &Progress,
) -> Result<(Option<HostTrace>, DeviceTrace), RunError> {
    let JobTraces { host, device, .. } = read_opened(job, None, progress)?;
    Ok((host, device))
}

fn read_opened(
    job: &LinkJob,
    opened: Option<OpenedTrace>,
    progress: &Progress,
) -> Result<JobTraces, RunError> {
    match (&job.host, job.slice) {
        (Some(host), Some(slice)) => {
            let [host, device] = open_pair(job, host, progress)?;
            let (device, notes) = read_slice(device, job.slicing(slice, false), progress)?;
            let host = host_of_slice(host, job, &device)?;
            Ok(JobTraces {
                notes,
                ..JobTraces::plain(Some(host), device)
            })
        }
        (Some(host), None) => {
            let (host, device) = read_pair(job, host, progress)?;
            Ok(JobTraces::plain(Some(host), device))
        }
        (None, _) => read_one_file(job, opened, progress),
    }
}

/// Reads a device trace, or what merged JSON was made from.
fn read_one_file(
    job: &LinkJob,
    opened: Option<OpenedTrace>,
    progress: &Progress,
) -> Result<JobTraces, RunError> {
    // a trace that was opened to see what it is cannot be opened again if it is standard input
    let mut device = match opened {
        Some(OpenedTrace::Merged(traces)) => {
            let name = input::display_name(&job.device);
            return JobTraces::of_merged(*traces, job).cut(job, name);
        }
        Some(OpenedTrace::File(device)) => device,
        None => input::open(&job.device, progress)?,
    };
    if device.kind == InputKind::EtPlus {
        let name = device.name.clone();
        let content = read_merged(device, job.threads, progress)?;
        let traces = content.into_traces(name.clone())?;
        return JobTraces::of_merged(*traces, job).cut(job, name);
    }
    choose_process(&mut device, job)?;
    if let Some(slice) = job.slice {
        let (device, notes) = read_slice(device, job.slicing(slice, true), progress)?;
        return Ok(JobTraces {
            notes,
            ..JobTraces::plain(None, device)
        });
    }
    let options = KinetoReadOptions {
        threads: job.threads,
        // without a host trace these shapes are all there are
        shapes: true,
        keep: job.kept_events(),
    };
    let device = device_tables(device, options, job.cache.as_ref())?;
    Ok(JobTraces::plain(None, device))
}

/// Opens the two traces.
fn open_pair(
    job: &LinkJob,
    host: &PathBuf,
    progress: &Progress,
) -> Result<[InputFile; 2], RunError> {
    if host == &job.device {
        return Err(RunError::SameFile { path: host.clone() });
    }
    let host = input::open(host, progress)?;
    let mut device = input::open(&job.device, progress)?;
    choose_process(&mut device, job)?;
    // wrong kinds first: both files may be large
    expect_host(&host)?;
    expect_device(&device, WantedTrace::Device)?;
    Ok([host, device])
}

/// Reads the two traces at the same time.
fn read_pair(
    job: &LinkJob,
    host: &PathBuf,
    progress: &Progress,
) -> Result<(HostTrace, DeviceTrace), RunError> {
    let [host, device] = open_pair(job, host, progress)?;
    let options = KinetoReadOptions {
        threads: job.threads.max(1),
        // the host trace has the shapes; reading them twice takes time and memory
        shapes: false,
        keep: job.kept_events(),
    };
    // one thread is what was asked for
    if job.threads <= 1 {
        return Ok((
            host_tables(host, job)?,
            device_tables(device, options, job.cache.as_ref())?,
        ));
    }
    let host = Mutex::new(Some(host));
    let read_host_trace = || {
        let host = host.lock().unwrap_or_else(PoisonError::into_inner).take();
        let host = host.ok_or(RunError::HostReader)?;
        host_tables(host, job)
    };
    std::thread::scope(|scope| {
        let reading = std::thread::Builder::new().spawn_scoped(scope, read_host_trace);
        let device = device_tables(device, options, job.cache.as_ref());
        // the device trace's error waits: whoever gave a wrong --host shall read about that first
        let host = match reading {
            Ok(reading) => reading.join().map_err(|_| RunError::HostReader)?,
            // a limit of the process: one after the other then
            Err(_) => read_host_trace(),
        }?;
        Ok((host, device?))
    })
}

/// How a slice of a device trace is read.
#[derive(Clone, Copy)]
pub(crate) struct SliceReading<'j> {
    pub(crate) slice: TraceSlice,
    pub(crate) options: KinetoReadOptions,
    pub(crate) steps_by: Option<&'j StepPattern>,
}

/// Reads a slice of a device trace, and says what it is. A file is read twice, once to see where the
/// slice is; what is no file of Kineto is read whole.
pub(crate) fn read_slice(
    input: InputFile,
    how: SliceReading<'_>,
    progress: &Progress,
) -> Result<(DeviceTrace, Vec<String>), RunError> {
    expect_device(&input, WantedTrace::Device)?;
    let name = input.name.clone();
    let again = match (&input.stored_path, input.kind) {
        (Some(path), InputKind::KinetoTrace) => Some(path.clone()),
        _ => None,
    };
    let Some(path) = again else {
        let mut device = read_device_with(input, how.options)?;
        let note = mark_steps(&mut device, how.steps_by);
        let window = device.window();
        let chosen = choose_slice(&device, window, how.slice, name.clone())?;
        let notes = note.into_iter().chain([chosen.note.clone()]).collect();
        chosen.cut(&mut device);
        expect_events(&device, window, how.slice, name)?;
        return Ok((device, notes));
    };
    let failed = |source| RunError::DeviceTrace {
        name: name.clone(),
        source,
    };
    let is_step = |text: &str| how.steps_by.is_some_and(|pattern| pattern.is_match(text));
    // what a slice is told by has neither frames nor details
    let outlined = KinetoReadOptions {
        keep: KeepEvents::Graph,
        ..how.options
    };
    let outline = etlink_kineto::read_outline(input.content, outlined, &is_step);
    let mut outline = outline.map_err(failed)?;
    let note = mark_steps(&mut outline.trace, how.steps_by);
    let chosen = choose_slice(&outline.trace, outline.window, how.slice, name.clone())?;
    let slice = outline.slice(chosen.time);
    let window = outline.window;
    drop(outline);
    let content = input::open(&path, progress)?.content;
    let mut device = etlink_kineto::read_slice(content, how.options, &slice).map_err(failed)?;
    let notes = note.into_iter().chain([chosen.note.clone()]).collect();
    chosen.cut(&mut device);
    etlink_link::judge_rows(&mut device);
    expect_events(&device, window, how.slice, name)?;
    Ok((device, notes))
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
    let length = window.map_or(DurationNs::ZERO, |(start, end)| end - start);
    Err(RunError::EmptySlice {
        name,
        slice,
        why: format!("nothing is recorded then; {}", slice::extent(length)),
    })
}

fn choose_slice(
    device: &DeviceTrace,
    window: Option<(TimeNs, TimeNs)>,
    slice: TraceSlice,
    name: String,
) -> Result<ChosenSlice, RunError> {
    let chosen = match window {
        Some(window) => slice.choose(device, window),
        None => Err("the trace has no event".to_owned()),
    };
    chosen.map_err(|why| RunError::EmptySlice { name, slice, why })
}

/// Marks the steps that a pattern matches. Returns a note on ranges that are none.
fn mark_steps(device: &mut DeviceTrace, steps_by: Option<&StepPattern>) -> Option<String> {
    match steps_by {
        Some(pattern) => pattern.mark_steps(device),
        None => RankSteps::excluded_note(device),
    }
}

/// Reads the part of a host trace that belongs to a slice of its device trace: by ids, or, where ops
/// have none, all of it.
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

/// Reads a host trace, or takes what an earlier command has read of it.
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

/// The same of a device trace.
fn device_tables(
    input: InputFile,
    options: KinetoReadOptions,
    cache: Option<&ReadCache>,
) -> Result<DeviceTrace, RunError> {
    let reading = if !input.kind.has_processes() {
        TraceReading::of_device(options)
    } else {
        None
    };
    match (cache, input.stored_path.clone(), reading) {
        (Some(cache), Some(path), Some(reading)) => {
            cache.read(&path, reading, || read_device_with(input, options))
        }
        _ => read_device_with(input, options),
    }
}

/// Which process of a report is meant: the one that discovery found, else that of the rank that was
/// asked for.
fn choose_process(device: &mut InputFile, job: &LinkJob) -> Result<(), RunError> {
    device.process = job.process;
    if let (None, Some(rank), Some(path)) = (job.process, job.rank, &device.plain_path)
        && device.kind.has_processes()
    {
        let processes = database_processes(path)?;
        // of one process the rank is what the user says it is
        if processes.len() < 2 {
            return Ok(());
        }
        let of_rank = processes.iter().find(|process| process.rank == Some(rank));
        let Some(of_rank) = of_rank else {
            let ranks = processes.iter().filter_map(|process| process.rank);
            let mut ranks: Vec<i64> = ranks.collect();
            ranks.sort_unstable();
            return Err(RunError::NoProcessOfRank {
                name: device.name.clone(),
                rank,
                ranks,
            });
        };
        device.process = Some(of_rank.process);
    }
    Ok(())
}

pub(crate) fn expect_host(input: &InputFile) -> Result<(), InputError> {
    match input.kind {
        InputKind::HostTrace | InputKind::EtPlus => Ok(()),
        _ => Err(input.refuse_kind(WantedTrace::Host)),
    }
}

/// Opens the trace of a capture; a wrong kind is refused before anything is read.
fn open_capture(path: &Path, progress: &Progress) -> Result<InputFile, InputError> {
    let input = input::open(path, progress)?;
    expect_device(&input, WantedTrace::Capture)?;
    Ok(input)
}

/// Reads a host trace, and which tensors its nodes use if that is asked for.
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
    let options = etlink_host::HostReadOptions { threads };
    let name = input.name;
    let mut host = etlink_host::read_part(input.content, options, kept)
        .map_err(|source| RunError::HostTrace { name, source })?;
    // on request: each use of a tensor takes 24 bytes, and a node has several
    if tensors != TensorEdges::None {
        host.tensors = Some(etlink_host::tensor_uses(&host));
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

/// The same, with what is asked for.
pub fn read_device_with(
    input: InputFile,
    options: KinetoReadOptions,
) -> Result<DeviceTrace, RunError> {
    read_device_trace(input, WantedTrace::Device, options)
}

/// Reads a device trace with what no graph needs, or takes it from the cache; marks its steps, or cuts
/// out a slice. Returns the trace and notes on these. Merged JSON is refused:
/// it lacks what figures of ops need.
///
/// # Errors
/// It is no device trace, or cannot be read.
pub fn read_for_figures(
    input: InputFile,
    job: &LinkJob,
    progress: &Progress,
) -> Result<(DeviceTrace, Vec<String>), RunError> {
    let options = KinetoReadOptions {
        threads: job.threads,
        shapes: true,
        keep: job.keep,
    };
    expect_device(&input, WantedTrace::Table)?;
    if let Some(slice) = job.slice {
        let how = SliceReading {
            slice,
            options,
            steps_by: job.steps_by.as_ref(),
        };
        return read_slice(input, how, progress);
    }
    let mut trace = device_tables(input, options, job.cache.as_ref())?;
    let note = mark_steps(&mut trace, job.steps_by.as_ref());
    Ok((trace, note.into_iter().collect()))
}
