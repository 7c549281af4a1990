//! A training loop in Rust, recorded under a schedule and linked after each cycle: `cargo run -p
//! etlink-tracing --example training`. With a folder as argument, the traces are kept there.
//!
//! Two loader threads make batches, forward and optimizer run on the main thread, backward on a
//! separate one. Kernels run on a device with two streams, simulated by two more threads.
#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stdout,
    reason = "an example for people at a terminal"
)]

mod device;
mod tensor;
mod train;

use etlink_link::{LinkOptions, LinkedTrace, link};
use etlink_schedule::{Arguments, Schedule};
use etlink_tracing::{
    FinishedTrace, ProgramInfo, ProgramSpans, RecorderError, RecordingSession, TraceFolder,
    TraceKind, TraceOutput,
};
use tracing_subscriber::prelude::*;

fn main() -> Result<(), RecorderError> {
    let spans = ProgramSpans::new(ProgramInfo {
        rank: Some(0),
        devices: vec!["two threads".into()],
        ..ProgramInfo::default()
    });
    tracing_subscriber::registry().with(spans.layer()).init();
    let schedule = Schedule::new(Arguments {
        wait: 2,
        warmup: 1,
        active: 2,
        repeat: 2,
        ..Arguments::default()
    })?;
    let recorders = match std::env::args().nth(1) {
        Some(folder) => spans.recorders(TraceFolder::new(folder).gzip(true)),
        None => spans.recorders(link_at_once()),
    };
    let mut session = RecordingSession::scheduled(recorders, schedule);
    train::train(&mut session, 12)?;
    session.finish()?;
    Ok(())
}

/// Links as soon as both traces of a cycle are there: the host trace arrives first.
fn link_at_once() -> impl TraceOutput {
    let mut host = vec![];
    move |trace: &FinishedTrace<'_>| -> Result<(), RecorderError> {
        match trace.kind {
            TraceKind::Host => host = trace.to_vec()?,
            TraceKind::Device => tell(trace, &linked(&host, &trace.to_vec()?)?),
        }
        Ok(())
    }
}

fn linked(host: &[u8], device: &[u8]) -> Result<LinkedTrace, RecorderError> {
    let host = etlink_formats::host::read(
        std::io::Cursor::new(host.to_vec()),
        etlink_formats::host::HostReadOptions::default(),
    )?;
    let device = etlink_formats::kineto::read(
        std::io::Cursor::new(device.to_vec()),
        etlink_formats::kineto::KinetoReadOptions::default(),
    )?;
    Ok(link(Some(host), device, LinkOptions::default())?)
}

fn tell(trace: &FinishedTrace<'_>, linked: &LinkedTrace) {
    let matched = linked
        .op_host
        .iter()
        .filter(|node| node.get().is_some())
        .count();
    println!(
        "steps {:?}: {matched} of {} ops matched, {} device rows",
        trace.cycle.steps,
        linked.device.ops.len(),
        linked.device.rows.len()
    );
}
