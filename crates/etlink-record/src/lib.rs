//! Switches any number of recorders together, under one schedule.
//!
//! ```text
//! schedule ─ action ─> Session ─┬─ prepare, start, stop, save ─> Recorder (host trace)
//!      program ─ step ─>        └─ prepare, start, stop, save ─> Recorder (device trace)
//! ```
//! A host trace and a device trace can be linked only if they are of the same steps. A [`Session`] is told when a step
//! ends, asks the schedule for the next action, and gives all [`Recorder`]s the calls that
//! [`etlink_schedule::Transition`] has for this pair of actions, in the order in which they were given to it.
//!
//! - A recorder that fails does not leave others running, and does not cost what others recorded.
//! - The program's end, also by an error or a panic, ends the session: what was recorded so far is saved.
//! - Every cycle is saved under a number of its own ([`Cycle`]).
//!
//! A session knows neither files nor formats nor the clock; its recorders do. No recorder is in this crate yet.
//!
//! ```
//! use etlink_record::{Cycle, Recorder, RecorderError, Session};
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
//!     fn save(&mut self, cycle: &Cycle) -> Result<(), RecorderError> {
//!         assert_eq!(cycle.steps, 2..4);
//!         Ok(())
//!     }
//! }
//!
//! let schedule = Schedule::new(Arguments { wait: 1, warmup: 1, active: 2, repeat: 1, ..Arguments::default() })?;
//! let mut session = Session::scheduled(vec![Box::new(Announcer)], schedule);
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
mod session;
mod spans;
mod together;
mod traces;

pub use failure::{Failure, Failures, Request};
pub use output::{Folder, Output, TensorBoard, Trace, TraceKind};
pub use program::{ExecutionTraceRecorder, KinetoRecorder, Program, Spans};
pub use recorder::{Activity, Cycle, Recorder, RecorderError};
pub use session::Session;
pub use spans::{SpanFilter, SpanLayer};
