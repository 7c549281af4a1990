//! Selects the steps of a program to record, exactly like `torch.profiler.schedule`.
//!
//! ```text
//! skip_first=1, wait=1, warmup=1, active=2, repeat=2
//!
//! step    0     1     2       3       4                5     6       7       8                9 ..
//! action  NONE  NONE  WARMUP  RECORD  RECORD_AND_SAVE  NONE  WARMUP  RECORD  RECORD_AND_SAVE  NONE
//! calls               prepare start                    stop  prepare start                    stop
//!                                                      save                                   save
//! ```
//! - [`Schedule`]: returns the [`Action`] of each step, as a pure function of its number.
//! - [`Action::then`] and [`Action::exit`]: return the [`RecorderCall`]s that lead from one step's
//!   action to the next.
//! - [`PhaseSchedule`]: one schedule over training, validation, test and predict steps, like
//!   Lightning's.
//!
//! Steps are loop bodies, counted from 0. Everything is O(1) per step and valid for every `u64`.
//! The rules follow `torch/profiler/profiler.py` (PyTorch 2.15.0) and `ScheduleWrapper` in
//! `pytorch_lightning/profilers/pytorch.py` (2.6.6); `tests/` compares them with recorded answers
//! of the originals.
//!
//! ```
//! use etlink_schedule::{Action, Arguments, RecorderCall, Schedule};
//!
//! let cycle = Arguments { wait: 1, warmup: 1, active: 2, repeat: 1, ..Arguments::default() };
//! let schedule = Schedule::new(cycle)?;
//! assert_eq!(schedule.action(2), Action::Record);
//! let transition = schedule.action(3).then(schedule.action(4));
//! assert_eq!(transition.calls, [RecorderCall::Stop, RecorderCall::Save]);
//! # Ok::<(), etlink_schedule::InvalidArguments>(())
//! ```

mod action;
mod arguments;
mod phase;
mod ranks;
mod schedule;
mod transition;

pub use action::{Action, Warning};
pub use arguments::{Argument, ArgumentFault, Arguments, InvalidArguments};
pub use phase::{Loop, Phase, PhaseSchedule};
pub use ranks::{InvalidRanks, RankSelection};
pub use schedule::Schedule;
pub use transition::{RecorderCall, Transition};
