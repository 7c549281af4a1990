//! Fuzzes Perfetto traces: written files read back as the original recording, and damaged files
//! cause no panic.

use super::corpus::{mutate_text, read_unpacked, sorted_entries};
use anyhow::{Context, Result, ensure};
use etlink_chakra::{WriteOptions, et};
use etlink_formats::kineto::KinetoReadOptions;
use etlink_link::{LinkOptions, LinkedTrace};
use etlink_model::{AnomalyKind, DeviceTrace, DurationNs, KeepEvents, TimeNs};
use etlink_report::perfetto::{TimelineFormat, write_trace};
use etlink_report::pftrace::{kineto_text, perfetto_origin, torch_text};
use std::io::Read;
use std::path::Path;

/// Writes a trace and reads it back.
pub(super) fn check_perfetto(trace: &LinkedTrace) -> Result<Vec<u8>> {
    let mut bytes = vec![];
    write_trace(trace, &[], TimelineFormat::Protobuf, &mut bytes)?;
    let mut text = vec![];
    kineto_text(&bytes[..])
        .read_to_end(&mut text)
        .context("own output cannot be read")?;
    let again = etlink_formats::kineto::read(&text[..], everything())
        .context("what own output is read as is no recording")?;
    // Times saturate at the maximum, so a range beyond it cannot be written. What is read back has
    // the recorded correlations, also of rows that were assigned to another launch.
    let is_reassigned = trace.device.anomalies.count(AnomalyKind::CorrelationShared) > 0;
    if ends_in_time(&trace.device) && !is_reassigned {
        compare_graphs(&trace.device, again)?;
    }
    for damaged in damaged_files(&bytes) {
        perfetto_origin(&damaged);
        // an error is acceptable; the text before it is a truncated recording
        let mut part = vec![];
        drop(kineto_text(&damaged[..]).read_to_end(&mut part));
        drop(etlink_formats::kineto::read(&part[..], everything()));
    }
    Ok(bytes)
}

/// Damages a file of PyTorch's own collector, which must be read or rejected.
pub(super) fn check_torch(files: &[Vec<u8>], random: &mut fastrand::Rng) {
    let damaged = mutate_text(&files[random.usize(..files.len())], random);
    perfetto_origin(&damaged);
    let mut text = vec![];
    // an error is acceptable; the text before it is a truncated recording
    drop(torch_text(&damaged[..]).read_to_end(&mut text));
    drop(etlink_formats::kineto::read(&text[..], everything()));
}

/// Reads the files of PyTorch's own collector in testdata.
pub(super) fn read_torch_files() -> Result<Vec<Vec<u8>>> {
    let mut files = vec![];
    for entry in sorted_entries(Path::new("testdata/graphs"))? {
        let path = entry.path();
        if path.extension().is_some_and(|ending| ending == "pftrace") {
            files.push(read_unpacked(&path)?);
        }
    }
    Ok(files)
}

/// Returns true if all ranges end long before the maximum of 64-bit times.
fn ends_in_time(device: &DeviceTrace) -> bool {
    let others = device.details.as_ref().map(|details| &details.others);
    let none = (&[][..], &[][..]);
    let columns: [(&[TimeNs], &[DurationNs]); 6] = [
        (&device.ops.start, &device.ops.duration),
        (&device.calls.start, &device.calls.duration),
        (&device.rows.start, &device.rows.duration),
        (&device.syncs.start, &device.syncs.duration),
        (&device.auxiliary.start, &device.auxiliary.duration),
        others.map_or(none, |others| (&others.start[..], &others.duration[..])),
    ];
    let mut ranges = columns
        .into_iter()
        .flat_map(|(starts, durations)| starts.iter().zip(durations));
    // half of all times, because an origin is added to them
    ranges.all(|(start, duration)| start.0.saturating_add(duration.0) < i64::MAX / 2)
}

fn everything() -> KinetoReadOptions {
    KinetoReadOptions {
        threads: 1,
        shapes: true,
        keep: KeepEvents::Everything,
    }
}

/// Returns the file truncated, and with one byte changed, at places that depend only on the file.
fn damaged_files(bytes: &[u8]) -> [Vec<u8>; 2] {
    let place = bytes.len() / 3;
    let mut changed = bytes.to_vec();
    if let Some(byte) = changed.get_mut(place) {
        *byte ^= 0x15;
    }
    [bytes[..bytes.len() / 2].to_vec(), changed]
}

/// Compares the graphs of both traces.
fn compare_graphs(one: &DeviceTrace, mut two: DeviceTrace) -> Result<()> {
    // a damaged trace is linked with more care, and the copy has no damage
    two.anomalies.clone_from(&one.anomalies);
    let graph = |device: DeviceTrace| -> Result<Vec<u8>> {
        let linked = etlink_link::link(None, device, LinkOptions::default())?;
        let mut bytes = vec![];
        et::write_et(&linked, &WriteOptions::default(), &mut bytes)?;
        Ok(bytes)
    };
    ensure!(
        graph(one.clone())? == graph(two)?,
        "the graph of what comes back from Perfetto is another"
    );
    Ok(())
}
