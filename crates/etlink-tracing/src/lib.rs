//! Starts and stops any number of recorders together, under one schedule.
//!
//! ```text
//! schedule ─ action ─> RecordingSession ─┬─ prepare, start, stop, save ─> Recorder (host trace)
//!      program ─ step ─>        └─ prepare, start, stop, save ─> Recorder (device trace)
//! ```
//! A host trace and a device trace can be linked only if they cover the same steps. The program
//! reports the end of each step to a [`RecordingSession`], which gets the next action from the
//! schedule. It then makes the calls that [`etlink_schedule::Transition`] defines for this pair of
//! actions on all [`Recorder`]s, in the order in which they were passed to the session.
//!
//! - A failing recorder does not leave others running and does not destroy their recordings.
//! - The end of the program, even by an error or a panic, ends the session: everything recorded so
//!   far is saved.
//! - Every cycle is saved under its own number ([`RecordedCycle`]).
//!
//! A session uses neither files nor formats nor the clock; its recorders do.
//!
//! # Recording a Rust program
//!
//! [`ProgramSpans`] records the spans of the [`tracing`] crate and has two recorders that write
//! them in PyTorch's formats: [`ExecutionTraceRecorder`] the host trace, [`KinetoRecorder`] the
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
//! The fields of a span decide its kind, in this order:
//!
//! | field | kind | in the device trace | in the host trace |
//! |---|---|---|---|
//! | `stream` | a row of a device of the program | `kernel`, `gpu_memcpy`, `gpu_memset` | – |
//! | `correlation` | a call that gives work to a device, or waits for it | `cuda_runtime` | – |
//! | `annotation = true` | a range of the program | `user_annotation` | a node, scope 7 |
//! | none of these | an op | `cpu_op` | a node |
//!
//! A row is a copy or a memset if its name begins with `Memcpy` or `Memset`.
//!
//! | field | meaning | applies to |
//! |---|---|---|
//! | `name` | the name, if it is not known when the program is compiled | all |
//! | `shapes` | shapes of inputs: `"[[8, 32], [32]]"`, or `?` and a value that prints so | ops |
//! | `dtypes` | types of inputs: `"f32, float"`, Rust's names or PyTorch's | ops |
//! | `tensors` | identities of input storages, such as addresses; by default none is shared | ops |
//! | `out_shapes`, `out_dtypes`, `out_tensors` | the same fields for outputs | ops |
//! | `tensor_device` | device of the tensors, `cuda:0`; by default `cpu` | ops |
//! | `seq` | the number that a forward op and its backward op share, one per op | ops |
//! | `backward = true` | marks the backward op of the pair | ops |
//! | `schema` | `op_schema` | ops |
//! | `correlation` | links a call to the row that it launches: any number, once | calls, rows |
//! | `sync_stream` | the stream that its thread waits for; -1: the whole device | calls |
//! | `sync_stream`, `wait_on_stream` | the stream that waits, and the stream waited for | calls |
//! | `wait_on_record` | the `correlation` of the call that recorded the event | calls |
//! | `device` | the number of the device; 0 by default | calls, rows |
//! | `start_ns`, `end_ns` | start and end of an event's row, Unix time in nanoseconds | rows |
//! | any other | an argument with its name in the device trace: `bytes`, `grid`, `block`, … | all |
//!
//! A row is a span of the thread that acts as the device, or an event with its times:
//! `trace!(stream = 7, correlation, start_ns, end_ns, "gemm")`. Other events are not recorded. The
//! linker interprets the names of calls: names that end in `StreamSynchronize`,
//! `DeviceSynchronize`, `EventRecord` or `StreamWaitEvent` order work like CUDA's calls of these
//! names. Either all of them state their streams in `sync_stream`, or none does and the streams are
//! inferred. HTA and `chakra_trace_link` recognize only launches with CUDA's names, such as
//! `cudaLaunchKernel`. `examples/training` is a program with loader threads, a backward thread and
//! a device.
//!
//! - Each entry of a span is an op of the thread that enters it. Its parent is the span around it
//!   on that thread.
//! - Steps are ranges `ProfilerStep#<n>` on the thread that steps the session.
//! - A span that belongs to a step must end before the session steps.
//! - A span that still runs when the window closes ends there in both traces, with
//!   `finished: false`. A span made before the window is in neither.
//! - Strides assume contiguous tensors. Collectives have no fields yet.
//!
//! A recorded span takes about 0.2 us, more if fields must be printed. A span that is not recorded
//! takes a few nanoseconds, because the layer disables spans in `tracing`. Threads write to their
//! own buffers without locks, about 80 bytes per span plus its fields. The traces are written after
//! the window has closed.
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
