//! Switches any number of recorders together, under one schedule.
//!
//! ```text
//! schedule ─ action ─> RecordingSession ─┬─ prepare, start, stop, save ─> Recorder (host trace)
//!      program ─ step ─>        └─ prepare, start, stop, save ─> Recorder (device trace)
//! ```
//! A host trace and a device trace can be linked only if they are of the same steps. A
//! [`RecordingSession`] is told when a step ends, asks the schedule for the next action, and gives
//! all [`Recorder`]s the calls that [`etlink_schedule::Transition`] has for this pair of actions,
//! in the order in which they were given to it.
//!
//! - A recorder that fails does not leave others running, and does not cost what others recorded.
//! - The program's end, also by an error or a panic, ends the session: what was recorded so far is
//!   saved.
//! - Every cycle is saved under a number of its own ([`RecordedCycle`]).
//!
//! A session knows neither files nor formats nor the clock; its recorders do.
//!
//! # Recording a Rust program
//!
//! [`ProgramSpans`] takes the spans of the [`tracing`] crate up, and has two recorders that write
//! them as PyTorch would have: [`ExecutionTraceRecorder`] the host trace, [`KinetoRecorder`] the
//! device trace, with the same ids for the same ops.
//!
//! ```
//! use etlink_tracing::{TraceFolder, ProgramInfo, RecordingSession, ProgramSpans};
//! use etlink_schedule::{Arguments, Schedule};
//! use tracing::trace_span;
//! use tracing_subscriber::prelude::*;
//!
//! # let folder = tempfile::tempdir()?;
//! let spans = ProgramSpans::new(ProgramInfo { rank: Some(0), ..ProgramInfo::default() });
//! tracing_subscriber::registry().with(spans.layer()).init();
//!
//! let cycle = Arguments { wait: 1, warmup: 1, active: 2, repeat: 1, ..Arguments::default() };
//! let recorders = spans.recorders(TraceFolder::new(folder.path()));
//! let mut session = RecordingSession::scheduled(recorders, Schedule::new(cycle)?);
//! session.start()?;
//! for _ in 0..10 {
//!     let op = trace_span!("aten::mm", shapes = "[[8, 32], [32, 64]]", dtypes = "f32, f32");
//!     let op = op.entered();
//!     // the work of the op
//!     drop(op);
//!     session.step()?;
//! }
//! session.finish()?;
//! assert!(folder.path().join("cycle_0/torch_et_0.json").exists());
//! assert!(folder.path().join("cycle_0/kineto_trace_0.json").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! What a span becomes, its fields decide, in this order:
//!
//! | a span with | is | in the device trace | in the host trace |
//! |---|---|---|---|
//! | `stream` | a row of a device of the program | `kernel`, `gpu_memcpy`, `gpu_memset` | – |
//! | `correlation` | a call that gives work to a device, or waits for it | `cuda_runtime` | – |
//! | `annotation = true` | a range of the program | `user_annotation` | a node, scope 7 |
//! | none of these | an op | `cpu_op` | a node |
//!
//! A row is a copy or a memset where its name begins with `Memcpy` or `Memset`.
//!
//! | field | says | of |
//! |---|---|---|
//! | `name` | the name, if it is not known when the program is compiled | all |
//! | `shapes` | its input tensors: `"[[8, 32], [32]]"`, or `?` and anything that prints so | ops |
//! | `dtypes` | their types: `"f32, float"`, Rust's names or PyTorch's | ops |
//! | `tensors` | what tells their storages apart, such as addresses; else none is shared | ops |
//! | `out_shapes`, `out_dtypes`, `out_tensors` | its outputs | ops |
//! | `tensor_device` | where they are, `cuda:0`; else `cpu` | ops |
//! | `seq` | the number that a forward op and its backward op share, one per op | ops |
//! | `backward = true` | which of the two is the backward op | ops |
//! | `schema` | `op_schema` | ops |
//! | `correlation` | which call gave which row its work: any number, once | calls, rows |
//! | `sync_stream` | the stream that its thread waits for; -1: all of the device | calls |
//! | `sync_stream`, `wait_on_stream` | the stream that waits, and for which stream | calls |
//! | `wait_on_record` | the `correlation` of the call that marked the place there | calls |
//! | `device` | the number of the device, else 0 | calls, rows |
//! | `start_ns`, `end_ns` | when it ran, unix time in nanoseconds: of an event | rows |
//! | any other | an argument of its name in the device trace: `bytes`, `grid`, `block`, … | all |
//!
//! A row is a span of the thread that is the device, or an event with its times: `trace!(stream =
//! 7, correlation, start_ns, end_ns, "gemm")`. Other events are not recorded. The linker reads the
//! names of calls: what ends in `StreamSynchronize`, `DeviceSynchronize`, `EventRecord` or
//! `StreamWaitEvent` orders work as CUDA's calls of these names do. Which streams these mean, all
//! of them have to say in `sync_stream`, or none, and it is inferred. HTA and `chakra_trace_link`
//! know only launches that are called as CUDA calls them, `cudaLaunchKernel`. `examples/training`
//! is a program with loader threads, a backward thread and a device.
//!
//! - Each time that a span is entered is an op of the thread that enters it. Parents are what the
//!   thread was in.
//! - Steps are ranges `ProfilerStep#<n>` on the thread that steps the session.
//! - A span that is to be in a step ends before the session steps.
//! - A span that still runs when the window closes ends there in both traces, with `finished:
//!   false`. One that was made before the window is in neither.
//! - Strides are those of contiguous tensors. Collectives have no fields yet.
//!
//! A recorded span takes about 0.2 us, more where fields have to be printed, one that is not
//! recorded a few nanoseconds: the layer tells `tracing` that it wants no spans.
//! Threads write to buffers of their own without locks, about 80 bytes per span and what its fields
//! take; the traces are made when the window has closed.
//!
//! # Recorders of other things
//!
//! ```
//! use etlink_tracing::{RecordedCycle, Recorder, RecorderError, RecordingSession};
//! use etlink_schedule::{Arguments, Schedule};
//!
//! struct Announcer;
//!
//! impl Recorder for Announcer {
//!     fn name(&self) -> &str {
//!         "announcer"
//!     }
//!     fn prepare(&mut self) -> Result<(), RecorderError> {
//!         Ok(())
//!     }
//!     fn start(&mut self) -> Result<(), RecorderError> {
//!         Ok(())
//!     }
//!     fn stop(&mut self) -> Result<(), RecorderError> {
//!         Ok(())
//!     }
//!     fn save(&mut self, cycle: &RecordedCycle) -> Result<(), RecorderError> {
//!         assert_eq!(cycle.steps, 2..4);
//!         Ok(())
//!     }
//! }
//!
//! let cycle = Arguments { wait: 1, warmup: 1, active: 2, repeat: 1, ..Arguments::default() };
//! let schedule = Schedule::new(cycle)?;
//! let mut session = RecordingSession::scheduled(vec![Box::new(Announcer)], schedule);
//! session.start()?;
//! for _ in 0..10 {
//!     // the work of a step
//!     session.step()?;
//! }
//! session.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod failure;
mod output;
mod program;
mod recorder;
mod recorder_group;
mod session;
mod spans;
mod traces;

pub use failure::{RecorderFailure, RecorderFailures, RecorderRequest};
pub use output::{FinishedTrace, TensorBoardFolder, TraceFolder, TraceKind, TraceOutput};
pub use program::{ExecutionTraceRecorder, KinetoRecorder, ProgramInfo, ProgramSpans};
pub use recorder::{ProfilerActivity, RecordedCycle, Recorder, RecorderError};
pub use session::RecordingSession;
pub use spans::{SpanFilter, SpanLayer};
