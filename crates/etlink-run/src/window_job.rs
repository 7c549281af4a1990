//! A rank that is larger than memory: its traces are read again and again, each time with a part of
//! their ops, and its graph is written part by part.
//!
//! ```text
//! survey   the device trace without arguments, ids of the host trace    -> places to cut at
//! count    each window: read, linked                                    -> what stands in front
//! write    each window: read, linked, written                           -> the file
//! ```
//! The file has the bytes of one that is linked as a whole.

use crate::Progress;
use crate::error::RunError;
use crate::input::{self, InputKind};
use crate::job::{self, JobBytes, JobReport, JobSeconds, LinkJob, RankContext};
use crate::merge::traced_device;
use crate::output::{OutputFormat, Target};
use crate::storage;
use etlink_chakra::et::{EtSurvey, EtWindowWriter, has_windows};
use etlink_chakra::messages::Losses;
use etlink_chakra::{RooflineDevice, WriteOptions, WriteSummary, simulated_window_sizes};
use etlink_host::HostReadOptions;
use etlink_kineto::KinetoReadOptions;
use etlink_link::ranks::{RankSteps, RankSummary};
use etlink_link::windows::{
    LinkedWindow, Seams, Survey, SurveyOptions, WindowCounts, WindowError, WindowLinker,
    WindowSummary, survey,
};
use etlink_link::{LinkReport, TensorEdges};
use etlink_model::{
    DeviceTrace, DurationNs, GlobalRank, HostTrace, TimeNs, WantedNodes, WantedOps,
};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// Memory of an op and its host node in a window, with the nodes and edges that they become, bytes:
/// two events as `RankOperation::Write` reckons them.
const OP_BYTES: u64 = 2 * 285;
/// Memory of a call, a row or a synchronisation, which each window has, bytes: its columns, and what
/// the survey and the window know of it.
const EVENT_BYTES: u64 = 260;
/// Memory of the id of a host node, bytes.
const ID_BYTES: u64 = 24;
/// Memory of a name, bytes.
const NAME_BYTES: u64 = 220;
/// More windows than this are not tried: the traces are read twice for each.
pub(crate) const MOST_WINDOWS: usize = 64;
/// So many places that turn out to be no seam are left out before the rank is given up.
const MOST_TRIES: usize = 4;

/// Why a rank was not linked window by window.
pub(crate) enum WindowFailure {
    /// It cannot be cut.
    NoWindows(WindowError),
    /// A window is too large as well: it takes so much beyond what the process takes, bytes.
    TooLarge(u64),
    /// As if it was linked as a whole.
    Run(RunError),
}

impl<E: Into<RunError>> From<E> for WindowFailure {
    fn from(error: E) -> Self {
        WindowFailure::Run(error.into())
    }
}

/// Whether this job can be done window by window, if its traces can be.
pub(crate) fn can_use_windows(job: &LinkJob, among: RankContext<'_>) -> bool {
    let target = job.target.as_ref();
    // a phase that only looks at a rank writes nothing
    let is_chakra = target.is_none_or(|target| target.format == OutputFormat::Chakra);
    let has_more = job.capture.is_some() || job.flight.is_some() || job.metrics.is_some();
    let files = job.host.iter().chain([&job.device]);
    is_chakra
        && !has_more
        // whether host nodes are their own ancestors is known of a whole trace alone
        && !job.strict
        // a pipe can be read once
        && files.into_iter().all(|file| storage::is_file(file))
        && job.process.is_none()
        && job.steps_by.is_none()
        && !job.manifest.is_interleaved
        && has_windows(&job::write_options(job.form, among))
}

/// Links a rank within so many bytes, and writes its graph if that is wanted.
pub(crate) fn link_windows(
    job: &LinkJob,
    among: RankContext<'_>,
    (room, progress): (u64, &Progress),
) -> Result<JobReport, WindowFailure> {
    let traces = WindowTraces {
        job,
        among,
        progress,
    };
    let counted = traces.link(room)?;
    let Some(target) = &job.target else {
        return Ok(counted.report(job));
    };
    let begin = Instant::now();
    progress.phase("writing");
    let (written, stored) = traces.write(&counted, target)?;
    let mut report = counted.report(job);
    report.written = Some(written);
    report.bytes.output = stored;
    report.output = Some(target.path().display().to_string());
    report.seconds.write = begin.elapsed().as_secs_f64();
    Ok(report)
}

/// What the join with other ranks needs of a rank that is linked window by window.
pub(crate) struct WindowedRank {
    pub(crate) report: JobReport,
    pub(crate) facts: WindowFacts,
    survey: Survey,
}

impl WindowedRank {
    /// What is kept of it: its summary, the sizes of its communications, and its device.
    pub(crate) fn into_facts(
        self,
        rank: GlobalRank,
    ) -> (RankSummary, Vec<Option<i64>>, RooflineDevice) {
        let WindowFacts {
            summary,
            sizes,
            device,
        } = self.facts;
        (summary.finish(&self.survey, rank), sizes, device)
    }
}

/// Links a rank within so many bytes, for the join with others.
pub(crate) fn summarize_windows(
    job: &LinkJob,
    (room, progress): (u64, &Progress),
) -> Result<WindowedRank, WindowFailure> {
    let traces = WindowTraces {
        job,
        among: RankContext::default(),
        progress,
    };
    let counted = traces.link(room)?;
    Ok(WindowedRank {
        report: counted.report(job),
        facts: counted.facts,
        survey: counted.whole.survey,
    })
}

/// What is known of a rank before its windows are linked.
struct SurveyedRank {
    survey: Survey,
    bytes: JobBytes,
    step_note: Option<String>,
    seams: Seams,
    windows: usize,
    /// Of its files, before they were read.
    states: Vec<Option<FileState>>,
}

/// Size and time of a file, by which it is seen that another has taken its place.
type FileState = (u64, Option<SystemTime>);

/// Those of the files of a job; none where the system does not say, as of URLs.
fn file_states(job: &LinkJob) -> Vec<Option<FileState>> {
    let files = job.host.iter().chain([&job.device]);
    let state = |file: &PathBuf| {
        let data = storage::file_data(file).ok()?;
        Some((data.bytes, data.changed))
    };
    files.map(state).collect()
}

/// What the join with other ranks needs of a rank's windows so far.
pub(crate) struct WindowFacts {
    summary: WindowSummary,
    sizes: Vec<Option<i64>>,
    device: RooflineDevice,
}

impl WindowFacts {
    fn new(survey: &Survey) -> WindowFacts {
        WindowFacts {
            summary: WindowSummary::new(survey),
            sizes: vec![],
            device: RooflineDevice::default(),
        }
    }

    /// Adds the next window.
    fn add(&mut self, survey: &Survey, window: &LinkedWindow) {
        let places = self.summary.add(survey, window);
        self.sizes.extend(simulated_window_sizes(window, &places));
        // each window has all rows
        self.device = traced_device(&window.trace);
    }
}

/// What was seen of all windows.
struct SeenWindows {
    written: EtSurvey,
    counts: WindowCounts,
    facts: WindowFacts,
}

/// A rank whose windows were all looked through.
struct CountedRank {
    whole: SurveyedRank,
    written: EtSurvey,
    /// Of the linker, of all windows.
    linked: LinkReport,
    facts: WindowFacts,
    seconds: JobSeconds,
}

impl CountedRank {
    /// How it went until then.
    fn report(&self, job: &LinkJob) -> JobReport {
        let mut report = self.linked.clone();
        report.notes.extend(job.manifest.cost.clone());
        report.notes.extend(self.whole.step_note.clone());
        if job.cache.is_some() {
            report.notes.push(
                "what is linked in parts is neither taken from the cache nor kept in it".to_owned(),
            );
        }
        JobReport {
            host: job.host.as_ref().map(|path| path.display().to_string()),
            device: job.device.display().to_string(),
            capture: None,
            output: None,
            refused: false,
            report,
            lost: Losses::default(),
            written: None,
            shown: None,
            bytes: self.whole.bytes.clone(),
            seconds: self.seconds,
        }
    }
}

/// The traces of a rank, which are read several times.
struct WindowTraces<'j> {
    job: &'j LinkJob,
    /// What the rank is among the others.
    among: RankContext<'j>,
    progress: &'j Progress,
}

impl WindowTraces<'_> {
    /// Cuts a rank into windows of which each has room, and looks through them.
    fn link(&self, room: u64) -> Result<CountedRank, WindowFailure> {
        let begin = Instant::now();
        self.progress.phase("reading");
        let whole = self.survey(room)?;
        let read = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        let (whole, seen) = self.count(whole)?;
        Ok(CountedRank {
            linked: seen.counts.finish(&whole.survey),
            written: seen.written,
            facts: seen.facts,
            seconds: JobSeconds {
                read,
                link: begin.elapsed().as_secs_f64(),
                ..JobSeconds::default()
            },
            whole,
        })
    }

    fn options(&self) -> WriteOptions<'_> {
        job::write_options(self.job.form, self.among)
    }

    /// Refuses what is of another recorder.
    fn check_kinds(&self) -> Result<(), WindowFailure> {
        let kind = |path: &Path| -> Result<InputKind, RunError> {
            Ok(input::open(path, self.job.threads, self.progress)?.kind)
        };
        let mut is_known = kind(&self.job.device)? == InputKind::KinetoTrace;
        if let Some(host) = &self.job.host {
            is_known &= kind(host)? == InputKind::HostTrace;
        }
        match is_known {
            true => Ok(()),
            false => Err(WindowFailure::NoWindows(WindowError::OtherRecorder)),
        }
    }

    /// Looks through the whole device trace and cuts it into windows of which each has room.
    fn survey(&self, room: u64) -> Result<SurveyedRank, WindowFailure> {
        self.check_kinds()?;
        let states = file_states(self.job);
        let mut device = self.read_device(None)?;
        let host = self.list_host()?;
        let step_note = RankSteps::excluded_note(&device);
        let bytes = JobBytes {
            host: host.as_ref().map_or(0, |host| host.bytes),
            device: device.bytes,
            output: 0,
        };
        let all_ops = (device.ops.len() as u64).saturating_mul(OP_BYTES);
        let fixed = fixed_bytes(host.as_ref(), &device);
        let left = room.saturating_sub(fixed).max(1);
        let largest = |survey: &Survey| (survey.largest as u64).saturating_mul(OP_BYTES);
        let too_large = |survey: &Survey| {
            let needed = fixed.saturating_add(largest(survey));
            WindowFailure::TooLarge(needed)
        };
        let windows = all_ops.div_ceil(left).saturating_add(1);
        let windows = usize::try_from(windows).unwrap_or(usize::MAX);
        if windows > MOST_WINDOWS {
            // more memory helps nobody whose rank cannot be cut
            let how = self.how(MOST_WINDOWS, Seams::Ops, &[]);
            return Err(match survey(&mut device, host.as_ref(), how) {
                Ok(survey) => too_large(&survey),
                Err(error) => WindowFailure::NoWindows(error),
            });
        }
        let mut failure = None;
        // steps are the better places: less goes over from one to the next
        for seams in [Seams::Steps, Seams::Ops] {
            let how = self.how(windows, seams, &[]);
            match survey(&mut device, host.as_ref(), how) {
                Ok(survey) if largest(&survey) <= left => {
                    return Ok(SurveyedRank {
                        survey,
                        bytes,
                        step_note,
                        seams,
                        windows,
                        states,
                    });
                }
                Ok(survey) => failure = Some(too_large(&survey)),
                // what steps say is more than that nothing else is a place either
                Err(error) => {
                    failure.get_or_insert(WindowFailure::NoWindows(error));
                }
            }
        }
        // both loops leave one
        Err(failure.unwrap_or(WindowFailure::TooLarge(fixed)))
    }

    fn how<'o>(&self, windows: usize, seams: Seams, not_at: &'o [TimeNs]) -> SurveyOptions<'o> {
        SurveyOptions {
            link: self.job.options(),
            windows,
            seams,
            not_at,
            margin: MARGIN,
        }
    }

    /// Links all windows once, for what stands in front of the file. Where a place turns out to be no
    /// seam, the rank is cut anew without it.
    fn count(&self, whole: SurveyedRank) -> Result<(SurveyedRank, SeenWindows), WindowFailure> {
        let mut whole = whole;
        let mut not_at: Vec<TimeNs> = vec![];
        loop {
            let (seam, error) = match self.look_through(&whole) {
                Ok(seen) => return Ok((whole, seen)),
                Err(FailedWindow::Run(error)) => return Err(WindowFailure::Run(error)),
                // another place helps nobody whose files are others now
                Err(FailedWindow::At {
                    error: WindowError::Changed,
                    ..
                }) => return Err(WindowFailure::NoWindows(WindowError::Changed)),
                Err(FailedWindow::At { seam, error }) => (seam, error),
            };
            let Some(seam) = seam.filter(|_| not_at.len() < MOST_TRIES) else {
                return Err(WindowFailure::NoWindows(error));
            };
            not_at.push(seam);
            let mut device = self.read_device(None)?;
            let host = self.list_host()?;
            let how = self.how(whole.windows, whole.seams, &not_at);
            whole.survey = match survey(&mut device, host.as_ref(), how) {
                Ok(survey) => survey,
                // no place is left of those that there were, and why the last was none is the reason
                Err(WindowError::NoSteps) => return Err(WindowFailure::NoWindows(error)),
                Err(other) => return Err(WindowFailure::NoWindows(other)),
            };
        }
    }

    fn look_through(&self, whole: &SurveyedRank) -> Result<SeenWindows, FailedWindow> {
        let survey = &whole.survey;
        let options = self.options();
        let mut written = EtSurvey::default();
        let mut counts = WindowCounts::new(survey);
        let mut facts = WindowFacts::new(survey);
        let mut linker = WindowLinker::new(survey, self.job.options());
        for (place, window) in survey.windows.iter().enumerate() {
            // the first window has a seam behind it alone
            let seam = match place {
                0 => window.until,
                _ => window.from,
            };
            let at_seam = |error| FailedWindow::At {
                seam: Some(seam),
                error,
            };
            let linked = self.link_window(whole, place, &mut linker)?;
            let linked = linked.map_err(at_seam)?;
            written.add(&linked, &options).map_err(at_seam)?;
            counts.add(&linked, window);
            facts.add(survey, &linked);
        }
        linker
            .finish()
            .map_err(|error| FailedWindow::At { seam: None, error })?;
        Ok(SeenWindows {
            written,
            counts,
            facts,
        })
    }

    /// Reads and links a window.
    fn link_window(
        &self,
        SurveyedRank {
            survey,
            bytes: read_bytes,
            states,
            ..
        }: &SurveyedRank,
        place: usize,
        linker: &mut WindowLinker<'_>,
    ) -> Result<Result<LinkedWindow, WindowError>, RunError> {
        let window = &survey.windows[place];
        self.progress.phase("reading");
        let device = self.read_device(Some(&window.ops))?;
        let nodes = window.nodes_of(&device);
        let tensors = self.job.tensor_deps != TensorEdges::None;
        let host = self.read_host(Some(&nodes), tensors)?;
        let host_bytes = host.as_ref().map_or(0, |host| host.bytes);
        let is_whole = (host_bytes, device.bytes) == (read_bytes.host, read_bytes.device);
        if !is_whole || file_states(self.job) != *states {
            return Ok(Err(WindowError::Changed));
        }
        self.progress.phase("linking");
        Ok(linker.link(host, device))
    }

    fn write(
        &self,
        counted: &CountedRank,
        target: &Target,
    ) -> Result<(WriteSummary, u64), WindowFailure> {
        let survey = &counted.whole.survey;
        let mut failure = None;
        let written = target.write(|mut out| {
            let mut writer = EtWindowWriter::new(&counted.written, self.options());
            let mut linker = WindowLinker::new(survey, self.job.options());
            for place in 0..survey.windows.len() {
                let linked = match self.link_window(&counted.whole, place, &mut linker) {
                    Ok(Ok(linked)) => linked,
                    // it was linked before: its files are others now
                    Ok(Err(_)) => {
                        failure = Some(WindowFailure::NoWindows(WindowError::Changed));
                        return Err(io::Error::other("a window cannot be linked again"));
                    }
                    Err(error) => {
                        failure = Some(WindowFailure::Run(error));
                        return Err(io::Error::other("a window cannot be read again"));
                    }
                };
                writer.write(&linked, &mut out)?;
            }
            writer.finish()
        });
        match (written, failure) {
            (_, Some(failure)) => Err(failure),
            (written, None) => Ok(written?),
        }
    }

    fn read_device(&self, wanted: Option<&WantedOps>) -> Result<DeviceTrace, RunError> {
        let input = input::open(&self.job.device, self.job.threads, self.progress)?;
        let options = KinetoReadOptions {
            threads: self.job.threads.max(1),
            shapes: self.job.host.is_none(),
            keep: self.job.keep,
        };
        let name = input.name;
        etlink_kineto::read_part(input.content, options, wanted)
            .map_err(|source| RunError::DeviceTrace { name, source })
    }

    /// The ids of the host trace's nodes, and its communication records.
    fn list_host(&self) -> Result<Option<HostTrace>, RunError> {
        let only_ids = WantedNodes {
            only_ids: true,
            ..WantedNodes::default()
        };
        self.read_host(Some(&only_ids), false)
    }

    fn read_host(
        &self,
        wanted: Option<&WantedNodes>,
        tensors: bool,
    ) -> Result<Option<HostTrace>, RunError> {
        let Some(path) = &self.job.host else {
            return Ok(None);
        };
        let input = input::open(path, self.job.threads, self.progress)?;
        let options = HostReadOptions {
            threads: self.job.threads.max(1),
        };
        let name = input.name;
        let mut host = etlink_host::read_part(input.content, options, wanted)
            .map_err(|source| RunError::HostTrace { name, source })?;
        if tensors {
            host.tensors = Some(etlink_host::tensor_uses(&host));
        }
        Ok(Some(host))
    }
}

/// Ops of so much time around a window are read with it: times are rounded by less.
const MARGIN: DurationNs = DurationNs(1_000_000);

/// A window that could not be linked, or read.
enum FailedWindow {
    At {
        /// The place that is no seam, if that is known.
        seam: Option<TimeNs>,
        error: WindowError,
    },
    Run(RunError),
}

impl From<RunError> for FailedWindow {
    fn from(error: RunError) -> Self {
        FailedWindow::Run(error)
    }
}

/// What each window takes beside its ops.
fn fixed_bytes(host: Option<&HostTrace>, device: &DeviceTrace) -> u64 {
    let events = device.calls.len() + device.rows.len() + device.syncs.len() + device.waits.len();
    let names = device.names.count() + host.map_or(0, |host| host.names.count());
    let ids = host.map_or(0, |host| host.listed.len());
    let parts = [(events, EVENT_BYTES), (names, NAME_BYTES), (ids, ID_BYTES)];
    let bytes = parts.map(|(count, each)| (count as u64).saturating_mul(each));
    bytes.into_iter().fold(0, u64::saturating_add)
}
