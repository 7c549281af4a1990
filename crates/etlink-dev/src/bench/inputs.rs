//! What is measured with: recordings, and what they are when repeated.

use anyhow::{Context, Result};
use etlink_chakra::read::{FileKind, sniff};
use etlink_dev::generate::{Recording, unpacked};
use std::path::{Path, PathBuf};

/// A recorded pair, or a device trace alone.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its folder's name, or its file's.
    pub name: String,
    pub host: Option<PathBuf>,
    pub device: PathBuf,
    /// Size, unpacked.
    pub bytes: u64,
}

/// A recording at one size, as files.
#[derive(Clone, Debug)]
pub struct Input {
    pub name: String,
    /// Packed.
    pub host: Option<PathBuf>,
    /// Packed.
    pub device: PathBuf,
    /// Unpacked, where a tool wants that.
    pub plain: Option<(PathBuf, PathBuf)>,
    /// Size, unpacked.
    pub bytes: u64,
}

/// The largest pair of testdata, and what is in `traces` of `min_mb` or more, by size.
pub fn recorded(root: &Path, traces: Option<&Path>, min_mb: u64) -> Result<Vec<Recorded>> {
    let mut all = vec![];
    search(&root.join("testdata/pairs"), &mut all)?;
    all.retain(|found| found.host.is_some());
    all.sort_by_key(|found| (std::cmp::Reverse(found.bytes), found.name.clone()));
    all.truncate(1);
    if let Some(traces) = traces {
        let mut more = vec![];
        search(traces, &mut more)?;
        more.retain(|found| found.bytes >= min_mb * 1_000_000);
        more.sort_by_key(|found| (found.bytes, found.name.clone()));
        all.extend(more);
    }
    Ok(all)
}

/// The smallest pair of testdata.
pub fn smallest(root: &Path) -> Result<Recorded> {
    let mut all = vec![];
    search(&root.join("testdata/pairs"), &mut all)?;
    all.into_iter()
        .filter(|found| found.host.is_some())
        .min_by_key(|found| found.bytes)
        .context("no pairs in testdata")
}

/// Adds the traces in `folder` and its subfolders: one pair per folder, or each device trace alone.
fn search(folder: &Path, all: &mut Vec<Recorded>) -> Result<()> {
    let cannot = || format!("cannot read folder {}", folder.display());
    let mut entries = folder
        .read_dir()
        .with_context(cannot)?
        .collect::<Result<Vec<_>, _>>()
        .with_context(cannot)?;
    entries.sort_by_key(std::fs::DirEntry::path);
    let (mut hosts, mut devices) = (vec![], vec![]);
    for path in entries.iter().map(std::fs::DirEntry::path) {
        if path.is_dir() {
            search(&path, all)?;
        } else if [".json", ".json.gz"]
            .iter()
            .any(|ending| path.to_string_lossy().ends_with(ending))
        {
            let Ok(text) = unpacked(&path) else { continue };
            match sniff(&text[..text.len().min(256 << 10)]) {
                FileKind::HostTrace => hosts.push((path, text.len() as u64)),
                FileKind::KinetoTrace => devices.push((path, text.len() as u64)),
                _ => {}
            }
        }
    }
    let name = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    if let (Some((host, host_bytes)), Some((device, device_bytes))) =
        (hosts.first(), devices.first())
    {
        let (host, device) = (Some(host.clone()), device.clone());
        all.push(Recorded {
            name: name(folder),
            host,
            device,
            bytes: host_bytes + device_bytes,
        });
    } else {
        let alone = |(device, bytes): (PathBuf, u64)| {
            let name = name(&device)
                .split(".json")
                .next()
                .unwrap_or_default()
                .to_owned();
            Recorded {
                name,
                host: None,
                device,
                bytes,
            }
        };
        all.extend(devices.into_iter().map(alone));
    }
    Ok(())
}

/// The recording at each of `sizes`, packed with gzip as profilers do it.
pub fn sizes(
    found: &Recorded,
    sizes: &[u32],
    max_mb: u64,
    folder: &Path,
    plain: bool,
) -> Result<Vec<Input>> {
    let recording = match Recording::open(found.host.as_deref(), Some(&found.device)) {
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
        .map(|times| input(found, &recording, *times, folder, plain))
        .collect()
}

fn input(
    found: &Recorded,
    recording: &Recording,
    times: u32,
    folder: &Path,
    plain: bool,
) -> Result<Input> {
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
    let mut counted = Counted(0);
    recording.write_host(times, &mut counted)?;
    recording.write_device(times, &mut counted)?;
    Ok(Input {
        name,
        host,
        device,
        plain,
        bytes: counted.0,
    })
}

/// Counts what is written.
struct Counted(u64);

impl std::io::Write for Counted {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.0 += buffer.len() as u64;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
