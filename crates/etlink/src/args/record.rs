//! What can be typed about recording.

use super::{OverwriteArgs, TorchScheduleArgs};
use bytesize::ByteSize;
use clap::{ArgAction, Args, ValueEnum};
use etlink_schedule::{Arguments, Schedule};
use etlink_torch::{RankSelection, StepTimeLimit};
use std::ffi::OsString;
use std::path::PathBuf;

/// `etlink record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    #[command(flatten)]
    pub schedule: RecordScheduleArgs,
    #[command(flatten)]
    pub armed: ArmedArgs,
    /// What is done about a `torch.profiler.profile` of the program
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub own_profiler: OwnProfilerArg,
    /// Folder for the traces: `torch_et_0.json` and `kineto_trace_0.json` for rank 0, those of
    /// further cycles in cycle_1, cycle_2, …, and etlink.json, which says what was recorded, as
    /// JSON (there is no --json: standard output is the program's); made if it is not there
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// What counts as a step: `optimizer` (a call of optimizer.step()), `forward` (a call of the
    /// model: the outermost module with parameters), `forward:CLASS` (of a module of that class),
    /// `annotation:NAME` (a range of torch.profiler.record_function(NAME); `NAME*` for all that
    /// begin so), or a function of the program, `module:function`, `module:Class.method` or
    /// `__main__:function`
    #[arg(long, value_name = "WHAT", default_value = "optimizer", value_parser = step_on)]
    pub step_on: String,
    /// A schedule of its own for a phase of Lightning: `train`, `validate`, `test` or `predict`, such
    /// as `validate:wait=1,active=2`; the steps are batches of the phase. Also: warmup, repeat,
    /// skip_first, skip_first_wait. For several phases it is given several times
    #[arg(
        long,
        value_name = "PHASE:STEPS",
        value_parser = phase_schedule,
        conflicts_with_all = ["wait", "step_on", "interleave", "armed"]
    )]
    pub phase: Vec<PhaseScheduleArg>,
    /// Ranks to record, such as 0,8-15 [default: all]
    #[arg(long, value_name = "RANKS")]
    pub ranks: Option<RankSelection>,
    /// Activities to record, such as cpu,cuda; cpu is always recorded, because the two traces are
    /// joined by its operators [default: all that the machine has]
    #[arg(long, value_name = "KINDS", value_enum, value_delimiter = ',')]
    pub activities: Vec<ActivityArg>,
    #[command(flatten)]
    pub what: RecordedArgs,
    /// Link the traces as soon as the program has ended, into DIR/chakra, as `merge` does
    #[arg(long)]
    pub link: bool,
    /// Put the device traces there too, for TensorBoard's profiler plugin:
    /// `HOST_rankN.TIME.pt.trace.json`, the time being the span
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
    /// Begin no cycle that would make the traces in DIR larger than this, such as 10GiB
    #[arg(long, value_name = "SIZE")]
    pub max_size: Option<ByteSize>,
    #[command(flatten)]
    pub overwrite: OverwriteArgs,
    /// Run nothing: write the etlink.json that an `etlink record` into DIR did not write because it
    /// was killed, and put back what it had moved aside
    #[arg(long, conflicts_with_all = ["command", "overwrite"])]
    pub recover: bool,
    /// Refused with the reason: standard output is the program's.
    #[arg(long, hide = true)]
    pub json: bool,
    /// The program and its arguments
    // behind `--` alone: options of the program are not ours to read
    #[arg(
        last = true,
        required_unless_present = "recover",
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

/// What is done about a profiler that the program makes itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OwnProfilerArg {
    /// It keeps its schedule, options and files; the host trace is recorded beside it, and both
    /// traces come to DIR as well. Steps are the profiler's, and --wait, --warmup and --active are
    /// not used
    #[default]
    Adopt,
    /// From where it warms up or records, nothing is recorded
    Leave,
}

/// What the profiler records, by PyTorch's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ActivityArg {
    /// Operators and calls of the host
    Cpu,
    /// Kernels and copies of CUDA and ROCm
    Cuda,
    /// Intel
    Xpu,
    /// Meta
    Mtia,
}

impl ActivityArg {
    /// As the hook knows it: the module of torch.
    pub fn name(self) -> &'static str {
        match self {
            ActivityArg::Cpu => "cpu",
            ActivityArg::Cuda => "cuda",
            ActivityArg::Xpu => "xpu",
            ActivityArg::Mtia => "mtia",
        }
    }
}

/// Which steps are recorded of a program that has no profiler of its own: the arguments of
/// `torch.profiler.schedule`, by its names.
#[derive(Clone, Copy, Debug, Args)]
// so that -1 reaches the schedule, which says why it is refused, as PyTorch does
#[command(allow_negative_numbers = true)]
pub struct RecordScheduleArgs {
    /// Idle steps at the start of each cycle; --wait, --warmup and --active may be left out
    /// together if the program has a profiler of its own
    #[arg(long, value_name = "N", requires_all = ["warmup", "active"])]
    pub wait: Option<i64>,
    /// Steps for which the recorders warm up
    #[arg(long, value_name = "N", requires_all = ["wait", "active"])]
    pub warmup: Option<i64>,
    /// Steps that are recorded, at least 1; the trace is saved when the last of them ends
    #[arg(long, value_name = "N", requires_all = ["wait", "warmup"])]
    pub active: Option<i64>,
    /// Cycles of wait, warmup and active steps; 0: until the program ends [default: 1]
    #[arg(long, value_name = "N", requires = "active")]
    pub repeat: Option<i64>,
    /// Steps before the first cycle
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_first: i64,
    /// Anything but 0: the first cycle does not wait
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_first_wait: i64,
}

impl RecordScheduleArgs {
    /// As `etlink schedule` takes them; none where the steps are left to the program's profiler.
    pub fn given(self) -> Option<TorchScheduleArgs> {
        Some(TorchScheduleArgs {
            wait: self.wait?,
            warmup: self.warmup?,
            active: self.active?,
            repeat: self.repeat,
            skip_first: self.skip_first,
            skip_first_wait: self.skip_first_wait,
        })
    }
}

/// Recordings that are asked for while the program runs.
#[derive(Clone, Debug, Args)]
pub struct ArmedArgs {
    /// Record nothing until `etlink trigger`, a signal, --every or --when asks for it; each recording
    /// is in a folder named for its first step, such as cycle_1200
    #[arg(long, conflicts_with_all = [
        "wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait", "interleave",
    ])]
    pub armed: bool,
    /// Steps of a recording for which nobody says how many [default: 2]
    #[arg(long, value_name = "N", requires = "armed", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub steps: Option<u64>,
    /// Record at each step whose number is a multiple of N
    #[arg(long, value_name = "N", requires = "armed", value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,
    /// Record after a step that took long: `step_time > 1.5 x median` or `step_time > 200 ms`. The
    /// recording begins about half a second later: it shows causes that last, not the slow step
    #[arg(long, value_name = "CONDITION", requires = "armed")]
    pub when: Option<StepTimeLimit>,
    /// Keep the last K recordings of this job, and remove older ones
    #[arg(long, value_name = "K", requires = "armed", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep: Option<u64>,
    /// The signal that asks for a recording: send it to a rank (a Python process that trains), not to
    /// torchrun, which would end. It is left alone where the program handles it [default: usr2]
    #[arg(long, value_name = "SIGNAL", value_enum, requires = "armed")]
    pub trigger_signal: Option<TriggerSignal>,
}

/// A signal that asks for a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TriggerSignal {
    /// SIGUSR1
    Usr1,
    /// SIGUSR2
    #[default]
    Usr2,
    /// No signal does
    None,
}

impl TriggerSignal {
    /// As Python knows it.
    pub fn name(self) -> Option<String> {
        let name = match self {
            TriggerSignal::Usr1 => "SIGUSR1",
            TriggerSignal::Usr2 => "SIGUSR2",
            TriggerSignal::None => return None,
        };
        Some(name.to_owned())
    }
}

/// The schedule of a phase.
#[derive(Clone, Debug)]
pub struct PhaseScheduleArg {
    /// `train`, `validate`, `test` or `predict`.
    pub name: String,
    /// One cycle, if no number is given.
    pub schedule: Arguments,
}

const PHASES: [&str; 4] = ["train", "validate", "test", "predict"];

fn phase_schedule(text: &str) -> Result<PhaseScheduleArg, String> {
    let (name, steps) = text
        .split_once(':')
        .ok_or("the phase comes first, such as validate:wait=1,active=2")?;
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
            .ok_or_else(|| format!("{pair} has no number, such as active=2"))?;
        let number = number
            .parse()
            .map_err(|_| format!("{key} is {number}, which is no whole number"))?;
        match key.replace('-', "_").as_str() {
            "wait" => schedule.wait = number,
            "warmup" => schedule.warmup = number,
            "active" => schedule.active = number,
            "repeat" => schedule.repeat = number,
            "skip_first" => schedule.skip_first = number,
            "skip_first_wait" => schedule.skip_first_wait = number,
            _ => return Err(format!("a schedule has no {key}")),
        }
    }
    Schedule::new(schedule).map_err(|error| error.to_string())?;
    let name = name.to_owned();
    Ok(PhaseScheduleArg { name, schedule })
}

/// What the profiler records besides times, by its own names.
#[derive(Clone, Copy, Debug, Args)]
pub struct RecordedArgs {
    /// Shapes of inputs in the device trace too; the host trace always has them
    #[arg(long)]
    pub record_shapes: bool,
    /// Python stacks; takes time
    #[arg(long)]
    pub with_stack: bool,
    /// Allocations
    #[arg(long)]
    pub profile_memory: bool,
    /// Estimated floating point operations
    #[arg(long)]
    pub with_flops: bool,
    /// Which event a stream or the host waited for (CUDA), where PyTorch has it
    #[arg(
        long,
        value_name = "BOOL",
        action = ArgAction::Set,
        default_value_t = true,
        num_args = 0..=1,
        // else the word after the option would be taken for its value
        require_equals = true,
        default_missing_value = "true"
    )]
    // PyTorch's own default is off; without these events waits between streams are inferred
    pub cuda_sync_events: bool,
    /// Where threads wait for each other (queues, events, futures, locks, DataLoader), and what
    /// for: without it a thread that waits looks as one that works
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
    /// Beside the traces of each cycle, a snapshot of CUDA memory with the latest 100,000
    /// allocations and their Python stacks; its cost is in the recorded times
    #[arg(long)]
    pub memory_snapshot: bool,
    /// Dependencies, annotations and events of the nodes of CUDA graphs, by PyTorch 2.15's own
    /// collector of CUDA activities instead of Kineto's; needs the package cupti-python
    #[arg(long)]
    pub cuda_graph_nodes: bool,
    /// Pack the files
    #[arg(long)]
    pub gzip: bool,
    /// Record host trace and device trace in neighbouring steps: the observer of the host trace
    /// does not slow down the steps whose times are recorded
    #[arg(long)]
    pub interleave: bool,
}

/// Whether names with dots between them are no obvious mistake.
fn is_dotted_path(path: &str) -> bool {
    let is_odd = |letter: char| letter.is_whitespace() || letter == ':';
    path.split('.')
        .all(|name| !name.is_empty() && !name.contains(is_odd))
}

// looked at before the program starts: it may run for hours before the hook would notice
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
