//! Makes large traces out of recorded ones: the recorded window is repeated N times.
//!
//! ```text
//! text -> Document (elements, and the numbers in them that are ids or times)
//!      -> header, elements, elements with every id and time moved on, …, trailer
//! ```
//! All else is copied byte by byte, so the traces keep their writer's habits. What numbers mean
//! is in [`NumberFamily`]: those of one family move by the same step in both files of a pair, so
//! that matching by id, launches and flows hold in each repetition and none meets another. Memory
//! is that of the recorded files, whatever N is.

mod device;
mod document;
mod host;
pub mod ranks;

pub use document::{FamilySteps, NumberFamily};

use anyhow::{Context, Result, bail};
use document::TraceText;
use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A recording that can be written at any size.
#[derive(Debug)]
pub struct TraceRepeater {
    host: Option<TraceText>,
    device: Option<TraceText>,
    steps: FamilySteps,
}

impl TraceRepeater {
    /// Takes in the traces of one rank, as plain text.
    ///
    /// # Errors
    /// A trace is damaged: what the numbers in it mean would be a guess.
    pub fn new(host: Option<Vec<u8>>, device: Option<Vec<u8>>) -> Result<TraceRepeater> {
        let host = host
            .map(host::read_host_text)
            .transpose()
            .context("host trace")?;
        let device = device
            .map(device::read_device_text)
            .transpose()
            .context("device trace")?;
        let mut steps = FamilySteps::default();
        for document in host.iter().chain(&device) {
            steps.include(document)?;
        }
        Ok(TraceRepeater {
            host,
            device,
            steps,
        })
    }

    /// Opens the traces of one rank, plain or gzip.
    ///
    /// # Errors
    /// A file cannot be read, or is damaged.
    pub fn open(host: Option<&Path>, device: Option<&Path>) -> Result<TraceRepeater> {
        TraceRepeater::new(
            host.map(read_unpacked).transpose()?,
            device.map(read_unpacked).transpose()?,
        )
    }

    /// Size of both traces, bytes.
    pub fn bytes(&self) -> u64 {
        self.host
            .iter()
            .chain(&self.device)
            .map(TraceText::bytes)
            .sum()
    }

    /// Writes the host trace `times` times as long; nothing if there is none.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_host(&self, times: u32, out: &mut impl Write) -> io::Result<()> {
        self.host
            .as_ref()
            .map_or(Ok(()), |host| host.write(times, &self.steps, out))
    }

    /// Writes the device trace `times` times as long; nothing if there is none.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_device(&self, times: u32, out: &mut impl Write) -> io::Result<()> {
        self.device
            .as_ref()
            .map_or(Ok(()), |device| device.write(times, &self.steps, out))
    }

    /// Writes both traces as files of these names.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_files(
        &self,
        times: u32,
        host: Option<&Path>,
        device: Option<&Path>,
        gzip: bool,
    ) -> Result<()> {
        if let Some(path) = host {
            write_file(path, gzip, |mut out| self.write_host(times, &mut out))?;
        }
        if let Some(path) = device {
            write_file(path, gzip, |mut out| self.write_device(times, &mut out))?;
        }
        Ok(())
    }
}

/// Repeats recorded traces into `folder`, under the names that they have. Returns the files.
///
/// # Errors
/// There is nothing to repeat, a trace is damaged, or a file cannot be read or written.
pub fn repeat_traces(
    host: Option<&Path>,
    device: Option<&Path>,
    times: u32,
    folder: &Path,
    gzip: bool,
) -> Result<Vec<PathBuf>> {
    if host.is_none() && device.is_none() || times == 0 {
        bail!("nothing to make: give --host or --device, and --times of at least 1");
    }
    let recording = TraceRepeater::open(host, device)?;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make folder {}", folder.display()))?;
    let to_host = host.map(|host| repeated_path(host, folder, gzip));
    let to_device = device.map(|device| repeated_path(device, folder, gzip));
    for (from, to) in host
        .iter()
        .zip(&to_host)
        .chain(device.iter().zip(&to_device))
    {
        // Else the recording would be lost to its own copy. Links and relative paths count too.
        if to.exists() && to.canonicalize()? == from.canonicalize()? {
            bail!(
                "{} is the recording itself: choose another folder",
                to.display()
            );
        }
    }
    recording.write_files(times, to_host.as_deref(), to_device.as_deref(), gzip)?;
    Ok(to_host.into_iter().chain(to_device).collect())
}

/// The recording's name in another folder.
fn repeated_path(recorded: &Path, folder: &Path, gzip: bool) -> PathBuf {
    let name = recorded
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    // The ending says what is in the file, whatever the recording was.
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    folder.join(format!("{plain}{}", if gzip { ".gz" } else { "" }))
}

/// The text of a file, plain or gzip.
///
/// # Errors
/// The file cannot be read or unpacked.
pub fn read_unpacked(path: &Path) -> Result<Vec<u8>> {
    let stored = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if !stored.starts_with(&[0x1f, 0x8b]) {
        return Ok(stored);
    }
    let mut text = vec![];
    MultiGzDecoder::new(&stored[..])
        .read_to_end(&mut text)
        .with_context(|| format!("cannot unpack {}", path.display()))?;
    Ok(text)
}

fn write_file(
    path: &Path,
    gzip: bool,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    fill_file(path, gzip, fill).with_context(|| format!("cannot write {}", path.display()))
}

fn fill_file(
    path: &Path,
    gzip: bool,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
    if gzip {
        let mut packed = GzEncoder::new(&mut file, Compression::default());
        fill(&mut packed)?;
        packed.finish()?;
    } else {
        fill(&mut file)?;
    }
    // a dropped writer would not say that the disk is full
    file.flush()
}

#[cfg(test)]
mod tests;
