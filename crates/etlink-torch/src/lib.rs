//! Collects host and device traces from unmodified PyTorch programs, both over exactly the same
//! steps.
//!
//! ```text
//! launcher (the command)                     each Python process of the program
//!   HOOK ──> private folder ── PYTHONPATH ──> sitecustomize: waits for `import torch`
//!   Settings ── ETLINK_RECORD ─────────────> counts steps, runs the profiler by the schedule
//!                                            records by a schedule, or when `etlink trigger` asks
//!   Manifest <── <pid>.json, <pid>.steps <── torch_et_<rank>.json, kineto_trace_<rank>.json
//! ```
//! `python/` is also a package for scripts that record themselves (`from etlink_torch import
//! profile`); such scripts write the manifest on their own. This crate holds texts and values;
//! folders, processes and signals are up to the launcher. The hook runs on Python 3.8 and needs
//! only PyTorch 2.1 or newer. Each cycle of the schedule has its own profiler and observer, so its
//! trace files are complete as soon as its last step ends.

mod apart;
mod armed;
mod hook;
mod manifest;
mod masking;
mod process;
mod settings;

pub use apart::{ApartCycles, apart_cycles};
pub use armed::{ArmedSettings, ArmedStatus, AskedRecording, END, PLAN, REQUEST, StepTimeLimit};
pub use etlink_schedule::{InvalidRanks, RankSelection};
pub use hook::{ENDED, HOOK, LEFT, MARKER, python_path};
pub use manifest::{Ended, Manifest, ManifestContents, NOTHING, Task, steps_counted};
pub use masking::masked_command;
pub use process::{Clock, Cycle, FILE_SYSTEM, HostClock, Process, Rank, StepTimes};
pub use settings::{Options, OwnProfiler, SETTINGS_VARIABLE, Settings};
