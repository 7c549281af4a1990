//! Runs mutated recordings through the readers, the linker, the writers, the checker and everything
//! that reports on traces.
//!
//! ```text
//! corpus ─ mutate ─ read ─ link ─┬─ written   .et, merged JSON: pass their own checker
//!                                ├─ measurements metrics of kernels, latencies, cards: joined
//!                                ├─ figures   analyze, top, diff, replay, page, Parquet: laws hold
//!                                └─ ranks     join, clocks, skews, joint replay: laws hold
//! dumps  ─ mutate ─ read ─────────── flight    hanging ranks, records of a trace's collectives
//! .sqlite ─ mutate ─ read, link ── nsys
//! rocpd, rocprofv3, XLA ─ mutate ─ recorders
//! logs   ─ mutate ─ read ─────────── inspector sums per communicator
//! ```
//! A round takes the traces of one recording, damages them like crashes, disks and writers do
//! (truncate, splice, repeat, flip, raw quotes, odd numbers), and runs everything, on one thread
//! and on three. A round fails on a panic, output that its own checker rejects, a law that does not
//! hold, or a result that depends on threads.

mod corpus;
mod figures;
mod flight;
mod inspector;
mod measurements;
mod nsys;
mod ranks;
mod recorders;
mod written;

use anyhow::{Result, bail};
use corpus::{FuzzRecording, mutate_text};
use etlink_analysis::KernelRules;
use etlink_link::LinkedTrace;
use etlink_model::DeviceTrace;
use etlink_report::perfetto::{TimelineFormat, write_trace};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Start, duration and inputs of the fuzzer.
#[derive(Debug, clap::Args)]
pub struct FuzzOptions {
    /// Folders with more device traces (`.gz`), each read alone
    #[arg(value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Duration in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Number of the first round; a round depends only on its number
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Folder for the traces of a round that fails
    #[arg(long, value_name = "DIR", default_value = "target/fuzz")]
    keep: PathBuf,
}

/// Runs rounds until the time is over or a round fails.
pub fn run_fuzzer(options: &FuzzOptions) -> Result<()> {
    let (corpus, rules) = (
        corpus::read_corpus(&options.folders)?,
        KernelRules::built_in()?,
    );
    let dumps = flight::read_dumps()?;
    let exports = nsys::read_exports()?;
    let recordings = recorders::read_recordings()?;
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut round = options.seed;
    while Instant::now() < end {
        // A round depends only on its number, so any round can be repeated without the earlier
        // ones.
        let mut random = fastrand::Rng::with_seed(round);
        let recording = &corpus[random.usize(..corpus.len())];
        let damaged: FuzzRecording = recording
            .iter()
            .map(|(host, device)| {
                (
                    mutate_text(host, &mut random),
                    mutate_text(device, &mut random),
                )
            })
            .collect();
        let mut check = || {
            check_recording(&damaged, &rules)?;
            let mut devices = damaged_devices(&damaged);
            flight::check_dumps(&dumps, &mut devices, &mut random)?;
            nsys::check_exports(&exports, &mut random)?;
            recorders::check_recorders(&recordings, &mut random)?;
            inspector::check_logs(&mut random)
        };
        // State that a panic left inconsistent is dropped with the round.
        let why = match catch_unwind(AssertUnwindSafe(&mut check)) {
            Ok(Ok(())) => {
                round += 1;
                continue;
            }
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "panicked".to_owned(),
        };
        // Kept as files, since the corpus that the seed selects from may change.
        corpus::keep_recording(&damaged, &options.keep)?;
        bail!(
            "round {round}: {why}; its traces are in {}; again with: cargo dev fuzz --seed {round}",
            options.keep.display()
        );
    }
    println!("{} passed, 0 failed", round - options.seed);
    Ok(())
}

/// Runs one round.
fn check_recording(recording: &FuzzRecording, rules: &KernelRules) -> Result<()> {
    let outputs = |threads: usize| -> Result<Vec<Vec<u8>>> {
        let traces: Vec<LinkedTrace> = recording
            .iter()
            .filter_map(|(host, device)| link_pair(host, device, threads))
            .collect();
        let mut outputs = vec![];
        for trace in &traces {
            outputs.extend(written::check_written(trace)?);
            outputs.push(figures::check_figures(trace, rules)?);
            let mut timeline = vec![];
            write_trace(trace, &[], TimelineFormat::Protobuf, &mut timeline)?;
            outputs.push(timeline);
            measurements::check_measurements(trace)?;
        }
        outputs.push(ranks::check_joined(&traces)?);
        Ok(outputs)
    };
    // With three threads, an order that is right by chance is rarer than with two.
    if outputs(1)? != outputs(3)? {
        bail!("1 and 3 threads give different results");
    }
    Ok(())
}

/// Returns the readable device traces of a recording.
fn damaged_devices(recording: &FuzzRecording) -> Vec<DeviceTrace> {
    let mut devices = vec![];
    for (_, device) in recording {
        let options = etlink_formats::kineto::KinetoReadOptions::default();
        devices.extend(etlink_formats::kineto::read(&device[..], options));
    }
    devices
}

/// Links a pair. Errors of readers and linker are acceptable, since they are rejections.
fn link_pair(host: &[u8], device: &[u8], threads: usize) -> Option<LinkedTrace> {
    let device = etlink_formats::kineto::read(
        device,
        etlink_formats::kineto::KinetoReadOptions {
            threads,
            shapes: true,
            keep: etlink_model::KeepEvents::Everything,
        },
    )
    .ok()?;
    let mut host =
        etlink_formats::host::read(host, etlink_formats::host::HostReadOptions { threads }).ok();
    // With tensors, so that the edges derived from them are built and checked too.
    host.iter_mut()
        .for_each(|host| host.tensors = Some(etlink_formats::host::tensor_uses(host)));
    etlink_link::link(
        host,
        device,
        etlink_link::LinkOptions {
            // Damage removes names from one file alone, so the linker would reject most pairs.
            allow_mismatch: true,
            ..etlink_link::LinkOptions::default()
        },
    )
    .ok()
}
