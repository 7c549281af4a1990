//! Inputs of the benchmarks: recordings, and repeated ones.

use anyhow::{Context, Result};
use etlink_chakra::read::{FileKind, sniff};
use etlink_dev::generate::{TraceRepeater, read_unpacked};
use std::path::{Path, PathBuf};

/// A recorded pair, or a device trace without a host trace.
#[derive(Clone, Debug)]
pub struct BenchRecording {
    /// Name of the folder or file.
    pub name: String,
    pub host: Option<PathBuf>,
    pub device: PathBuf,
    /// Uncompressed size, bytes.
    pub bytes: u64,
}

/// A recording repeated to one size, as files.
#[derive(Clone, Debug)]
pub struct BenchInput {
    pub name: String,
    /// Compressed host trace; `None` if there is none.
    pub host: Option<PathBuf>,
    /// Compressed device trace.
    pub device: PathBuf,
    /// Uncompressed host and device trace, for tools that need them.
    pub plain: Option<(PathBuf, PathBuf)>,
    /// Uncompressed size, bytes.
    pub bytes: u64,
}

/// Returns the largest pair of testdata, and the recordings in `traces` of at least `min_mb`, by
/// size.
pub fn find_recordings(
    root: &Path,
    traces: Option<&Path>,
    min_mb: u64,
) -> Result<Vec<BenchRecording>> {
    let mut all = vec![];
    search_folder(&root.join("testdata/pairs"), &mut all)?;
    all.retain(|found| found.host.is_some());
    all.sort_by_key(|found| (std::cmp::Reverse(found.bytes), found.name.clone()));
    // Only the largest: on small ones, process start-up dominates.
    all.truncate(1);
    if let Some(traces) = traces {
        let mut more = vec![];
        search_folder(traces, &mut more)?;
        more.retain(|found| found.bytes >= min_mb * 1_000_000);
        more.sort_by_key(|found| (found.bytes, found.name.clone()));
        all.extend(more);
    }
    Ok(all)
}

/// Returns the smallest pair of testdata.
pub fn smallest_recording(root: &Path) -> Result<BenchRecording> {
    let mut all = vec![];
    search_folder(&root.join("testdata/pairs"), &mut all)?;
    all.into_iter()
        .filter(|found| found.host.is_some())
        .min_by_key(|found| found.bytes)
        .context("no pairs in testdata")
}

/// Adds the traces in `folder` and its subfolders: one pair per folder, or each device trace
/// separately.
fn search_folder(folder: &Path, all: &mut Vec<BenchRecording>) -> Result<()> {
    let (mut hosts, mut devices) = (vec![], vec![]);
    for path in sorted_entries(folder)? {
        if path.is_dir() {
            search_folder(&path, all)?;
        } else if [".json", ".json.gz"]
            .iter()
            .any(|ending| path.to_string_lossy().ends_with(ending))
        {
            // A damaged file among the traces must not prevent the measurement.
            let Ok(text) = read_unpacked(&path) else {
                continue;
            };
            // The head identifies a file; the rest may be gigabytes.
            match sniff(&text[..text.len().min(256 << 10)]) {
                FileKind::HostTrace => hosts.push((path, text.len() as u64)),
                FileKind::KinetoTrace => devices.push((path, text.len() as u64)),
                _ => {}
            }
        }
    }
    if let (Some((host, host_bytes)), Some((device, device_bytes))) =
        (hosts.first(), devices.first())
    {
        let (host, device) = (Some(host.clone()), device.clone());
        all.push(BenchRecording {
            name: file_name(folder),
            host,
            device,
            bytes: host_bytes + device_bytes,
        });
    } else {
        for (device, bytes) in devices {
            let name = file_name(&device);
            let stem = name.split_once(".json").map_or(&name[..], |(stem, _)| stem);
            all.push(BenchRecording {
                name: stem.to_owned(),
                host: None,
                device,
                bytes,
            });
        }
    }
    Ok(())
}

/// Lists a folder by name, since the file system's order is arbitrary.
fn sorted_entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = folder.read_dir().and_then(|entries| {
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        paths.collect::<Result<Vec<PathBuf>, _>>()
    });
    let mut paths = entries.with_context(|| format!("cannot read folder {}", folder.display()))?;
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Writes the recording at each of `sizes`, compressed with gzip as profilers do.
pub fn make_inputs(
    found: &BenchRecording,
    sizes: &[u32],
    max_mb: u64,
    folder: &Path,
    plain: bool,
) -> Result<Vec<BenchInput>> {
    let recording = match TraceRepeater::open(found.host.as_deref(), Some(&found.device)) {
        Ok(recording) => recording,
        Err(error) => {
            println!("\n{}: left out: {error:#}", found.name);
            return Ok(vec![]);
        }
    };
    let sizes = sizes
        .iter()
        .filter(|times| recording.bytes() * u64::from(**times) <= max_mb * 1_000_000);
    sizes
        .map(|times| make_input(found, &recording, *times, folder, plain))
        .collect()
}

fn make_input(
    found: &BenchRecording,
    recording: &TraceRepeater,
    times: u32,
    folder: &Path,
    plain: bool,
) -> Result<BenchInput> {
    let name = format!("{} x{times}", found.name);
    let folder = folder.join(name.replace(' ', "-"));
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make folder {}", folder.display()))?;
    let host = found
        .host
        .as_ref()
        .map(|_| folder.join("torch_et_0.json.gz"));
    let device = folder.join("kineto_trace_0.json.gz");
    recording.write_files(times, host.as_deref(), Some(&device), true)?;
    let plain = match &host {
        Some(_) if plain => {
            let plain = (
                folder.join("torch_et_0.json"),
                folder.join("kineto_trace_0.json"),
            );
            recording.write_files(times, Some(&plain.0), Some(&plain.1), false)?;
            Some(plain)
        }
        _ => None,
    };
    // Counted rather than multiplied: ids and times get longer as they grow.
    let mut counted = ByteCount(0);
    recording.write_host(times, &mut counted)?;
    recording.write_device(times, &mut counted)?;
    Ok(BenchInput {
        name,
        host,
        device,
        plain,
        bytes: counted.0,
    })
}

/// Writer that counts bytes.
struct ByteCount(u64);

impl std::io::Write for ByteCount {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.0 += buffer.len() as u64;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
