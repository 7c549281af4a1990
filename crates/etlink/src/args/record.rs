//! Arguments of `etlink record`.

use super::OverwriteArgs;
use super::names::{self, one_of};
use bytesize::ByteSize;
use clap::{ArgAction, Args};
use etlink_schedule::{Arguments, Schedule};
use etlink_torch::{OwnProfiler, RankSelection, StepTimeLimit};
use std::ffi::OsString;
use std::path::PathBuf;

/// `etlink record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    etlink record --wait 2 --warmup 1 --active 2 -o traces -- python train.py\n  \
    etlink record --wait 2 --warmup 1 --active 2 -o traces --link -- \\\n    \
    torchrun --nproc-per-node 4 train.py\n  \
    etlink record --armed -o traces -- python train.py    then: etlink trigger traces\n\n\
    Exit codes: that of the program; 1 if that is 0 and a trace, or a recorded part of one, is \
    missing, or --link failed; 2 if the program could not be started.")]
pub struct RecordArgs {
    #[command(flatten)]
    pub schedule: RecordScheduleArgs,
    #[command(flatten)]
    pub armed: ArmedArgs,
    /// Treatment of a `torch.profiler.profile` in the program
    #[arg(
        long,
        value_name = "WHAT",
        value_parser = one_of(names::OWN_PROFILER),
        default_value = "adopt"
    )]
    pub own_profiler: OwnProfiler,
    /// Output folder for traces and the manifest etlink.json, created if missing
    ///
    /// Rank 0 writes `torch_et_0.json` and `kineto_trace_0.json`. Further cycles are in cycle_1,
    /// cycle_2, … There is no --json, because standard output is the program's; etlink.json says
    /// what was recorded.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Step: `optimizer`, `forward`, `forward:CLASS`, `annotation:NAME`, or a function
    ///
    /// `optimizer`: a call of optimizer.step(). `forward`: a call of the model, the outermost
    /// module with parameters; `forward:CLASS`: a call of a module of this class.
    /// `annotation:NAME`: a range of torch.profiler.record_function(NAME); `NAME*` is a prefix.
    /// Functions: `module:function`, `module:Class.method`, `__main__:function`.
    #[arg(long, value_name = "WHAT", default_value = "optimizer", value_parser = step_on)]
    pub step_on: String,
    /// Schedule of a Lightning phase, such as `validate:wait=1,active=2`; repeatable
    ///
    /// Phases: train, validate, test, predict. A step is a batch of the phase. Numbers: wait,
    /// warmup, active, repeat, skip_first, skip_first_wait.
    #[arg(
        long,
        value_name = "PHASE:STEPS",
        value_parser = phase_schedule,
        conflicts_with_all = ["wait", "step_on", "interleave", "armed"]
    )]
    pub phase: Vec<(String, Arguments)>,
    /// Ranks to record, such as 0,8-15 [default: all]
    #[arg(long, value_name = "RANKS")]
    pub ranks: Option<RankSelection>,
    /// Activities to record, such as cpu,cuda; cpu is always recorded [default: all available]
    #[arg(
        long,
        value_name = "KINDS",
        value_parser = one_of(names::ACTIVITIES),
        value_delimiter = ','
    )]
    pub activities: Vec<&'static str>,
    #[command(flatten)]
    pub what: RecordedArgs,
    /// Link the traces into DIR/chakra when the program has ended, as `merge` does
    #[arg(long)]
    pub link: bool,
    /// Also write device traces here, for TensorBoard's profiler plugin
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
    /// Start no cycle that would make the traces in DIR larger than this, such as 10GiB
    #[arg(long, value_name = "SIZE")]
    pub max_size: Option<ByteSize>,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
    /// Run nothing; complete the recording in DIR of an `etlink record` that was killed
    ///
    /// Writes the missing etlink.json, and restores files that were moved aside.
    #[arg(long, conflicts_with_all = ["command", "overwrite"])]
    pub recover: bool,
    /// Refused, because standard output is the program's.
    #[arg(long, hide = true)]
    pub json: bool,
    /// Program and its arguments
    // only after `--`: options of the program are not ours
    #[arg(
        last = true,
        required_unless_present = "recover",
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

/// Steps to record if the program has no profiler of its own: arguments of
/// `torch.profiler.schedule`, with its names.
#[derive(Clone, Copy, Debug, Args)]
// so that -1 reaches the schedule, which refuses it with PyTorch's reason
#[command(allow_negative_numbers = true)]
pub struct RecordScheduleArgs {
    /// Idle steps at the start of each cycle
    ///
    /// --wait, --warmup and --active may be left out together if the program has its own profiler.
    #[arg(long, value_name = "N", requires_all = ["warmup", "active"])]
    pub wait: Option<i64>,
    /// Steps in which the recorders warm up
    #[arg(long, value_name = "N", requires_all = ["wait", "active"])]
    pub warmup: Option<i64>,
    /// Recorded steps, at least 1; the trace is saved when the last one ends
    #[arg(long, value_name = "N", requires_all = ["wait", "warmup"])]
    pub active: Option<i64>,
    /// Number of cycles; 0: until the program ends [default: 1]
    #[arg(long, value_name = "N", requires = "active")]
    pub repeat: Option<i64>,
    /// Steps before the first cycle
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_first: i64,
    /// Unless 0, start the first cycle without its wait
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_first_wait: i64,
}

impl RecordScheduleArgs {
    /// Returns the schedule, of one cycle if no number is given; none if the program's profiler
    /// decides.
    pub fn given(self) -> Option<Arguments> {
        Some(Arguments {
            wait: self.wait?,
            warmup: self.warmup?,
            active: self.active?,
            repeat: self.repeat.unwrap_or(1),
            skip_first: self.skip_first,
            skip_first_wait: self.skip_first_wait,
        })
    }
}

/// Recordings that are requested while the program runs.
#[derive(Clone, Debug, Args)]
pub struct ArmedArgs {
    /// Record only on request: by `etlink trigger`, a signal, --every or --when
    ///
    /// Each recording has a folder named for its first step, such as cycle_1200.
    #[arg(long, conflicts_with_all = [
        "wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait", "interleave",
    ])]
    pub armed: bool,
    /// Steps per recording, if the request has no number [default: 2]
    #[arg(long, value_name = "N", requires = "armed", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub steps: Option<u64>,
    /// Record at each step whose number is a multiple of N
    #[arg(long, value_name = "N", requires = "armed", value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,
    /// Record after a slow step: `step_time > 1.5 x median` or `step_time > 200 ms`
    ///
    /// The recording begins up to half a second later, or later still if ranks must agree. It shows
    /// lasting causes, not the slow step itself.
    #[arg(long, value_name = "CONDITION", requires = "armed")]
    pub when: Option<StepTimeLimit>,
    /// Keep only the last K recordings of this job, and remove older ones
    #[arg(long, value_name = "K", requires = "armed", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep: Option<u64>,
    /// Signal that requests a recording; send it to a rank [default: usr2]
    ///
    /// A rank is a Python process that trains. Do not send the signal to torchrun, which would end.
    /// If the program handles the signal, etlink leaves it alone.
    #[arg(
        long,
        value_name = "SIGNAL",
        value_parser = one_of(names::TRIGGER_SIGNALS),
        requires = "armed"
    )]
    pub trigger_signal: Option<&'static str>,
}

const PHASES: [&str; 4] = ["train", "validate", "test", "predict"];

/// Returns a phase and its schedule: one cycle, if no number is given.
fn phase_schedule(text: &str) -> Result<(String, Arguments), String> {
    let (name, steps) = text
        .split_once(':')
        .ok_or("a schedule begins with its phase, such as validate:wait=1,active=2")?;
    if !PHASES.contains(&name) {
        let known = PHASES.join(", ");
        return Err(format!("there is no phase {name}; the phases are {known}"));
    }
    let mut schedule = Arguments {
        repeat: 1,
        ..Arguments::default()
    };
    for pair in steps.split(',') {
        let (key, number) = pair
            .split_once('=')
            .ok_or_else(|| format!("{pair} has no number; write it as in active=2"))?;
        let number = number
            .parse()
            .map_err(|_| format!("{key} is {number}, which is not a whole number"))?;
        match key.replace('-', "_").as_str() {
            "wait" => schedule.wait = number,
            "warmup" => schedule.warmup = number,
            "active" => schedule.active = number,
            "repeat" => schedule.repeat = number,
            "skip_first" => schedule.skip_first = number,
            "skip_first_wait" => schedule.skip_first_wait = number,
            _ => return Err(format!("a schedule has no argument {key}")),
        }
    }
    Schedule::new(schedule).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), schedule))
}

/// Data to record besides times, with the profiler's own names.
#[derive(Clone, Copy, Debug, Args)]
pub struct RecordedArgs {
    /// Record input shapes in the device trace; the host trace always has them
    #[arg(long)]
    pub record_shapes: bool,
    /// Record Python stacks, which slows the program
    #[arg(long)]
    pub with_stack: bool,
    /// Record allocations
    #[arg(long)]
    pub profile_memory: bool,
    /// Record estimated floating point operations
    #[arg(long)]
    pub with_flops: bool,
    /// Record the event that a stream or the host waited for (CUDA), if PyTorch supports it
    #[arg(
        long,
        value_name = "BOOL",
        action = ArgAction::Set,
        default_value_t = true,
        num_args = 0..=1,
        // else the word after the option would be its value
        require_equals = true,
        default_missing_value = "true"
    )]
    // PyTorch's own default is off; without these events waits between streams are inferred
    pub cuda_sync_events: bool,
    /// Record waits between threads: queues, events, futures, locks, DataLoader
    ///
    /// Without this, a thread that waits looks like one that works.
    #[arg(
        long,
        value_name = "BOOL",
        action = ArgAction::Set,
        default_value_t = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub thread_waits: bool,
    /// Record a CUDA memory snapshot per cycle: latest 100,000 allocations with Python stacks
    ///
    /// The recorded times include its cost.
    #[arg(long)]
    pub memory_snapshot: bool,
    /// Record dependencies, annotations and events of CUDA graph nodes; needs cupti-python
    ///
    /// PyTorch 2.15's own collector then records CUDA activities instead of Kineto's.
    #[arg(long)]
    pub cuda_graph_nodes: bool,
    /// Compress the files with gzip
    #[arg(long)]
    pub gzip: bool,
    /// Record the host trace in the first half of the active steps, the device trace in the rest
    ///
    /// So the observer of the host trace does not slow down the steps whose times are recorded. Use
    /// it only if steps repeat.
    #[arg(long)]
    pub interleave: bool,
}

/// Returns true if a dotted path has no obvious mistake.
fn is_dotted_path(path: &str) -> bool {
    let is_odd = |letter: char| letter.is_whitespace() || letter == ':';
    path.split('.')
        .all(|name| !name.is_empty() && !name.contains(is_odd))
}

// checked before the program starts: it may run for hours before the hook would notice
fn step_on(text: &str) -> Result<String, String> {
    let is_annotation = text
        .strip_prefix("annotation:")
        .is_some_and(|name| !name.is_empty());
    let is_function = text
        .split_once(':')
        .is_some_and(|(module, function)| is_dotted_path(module) && is_dotted_path(function));
    if is_function || is_annotation || ["optimizer", "forward"].contains(&text) {
        return Ok(text.to_owned());
    }
    Err(
        "a step is `optimizer`, `forward`, `forward:CLASS`, `annotation:NAME`, or a function \
        such as `train:train_step` or `__main__:train_step`"
            .to_owned(),
    )
}
