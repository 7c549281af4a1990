//! Makes large traces from recorded ones by repeating the recorded window N times.
//!
//! ```text
//! text -> Document (elements, and the numbers in them that are ids or times)
//!      -> header, elements, elements with every id and time moved on, …, trailer
//! ```
//! Everything else is copied byte by byte, so the traces keep their writer's habits.
//! [`NumberFamily`] gives the meaning of numbers: a family shifts by the same amount in both files
//! of a pair. So matching by id, launches and flows hold within each repetition, and repetitions
//! never collide. Memory is the size of the recorded files, whatever N is.

mod document;
pub mod ranks;

pub use document::{FamilySteps, NumberFamily};

use anyhow::{Context, Result, bail};
use document::{DEVICE_KEYS, HOST_KEYS, TraceText};
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
    /// Reads the traces of one rank, as plain text.
    ///
    /// # Errors
    /// A trace is damaged, so the meaning of its numbers is uncertain.
    pub fn new(host: Option<Vec<u8>>, device: Option<Vec<u8>>) -> Result<TraceRepeater> {
        let host = host
            .map(|text| TraceText::new(text, HOST_KEYS))
            .transpose()
            .context("host trace")?;
        let device = device
            .map(|text| TraceText::new(text, DEVICE_KEYS))
            .transpose()
            .context("device trace")?;
        let documents: Vec<&TraceText> = host.iter().chain(&device).collect();
        let steps = FamilySteps::new(&documents)?;
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

    /// Returns the size of both traces, bytes.
    pub fn bytes(&self) -> u64 {
        self.host
            .iter()
            .chain(&self.device)
            .map(TraceText::bytes)
            .sum()
    }

    /// Writes the host trace repeated `times` times; nothing if there is none.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn write_host(&self, times: u32, out: &mut impl Write) -> io::Result<()> {
        self.host
            .as_ref()
            .map_or(Ok(()), |host| host.write(times, &self.steps, out))
    }

    /// Writes the device trace repeated `times` times; nothing if there is none.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn write_device(&self, times: u32, out: &mut impl Write) -> io::Result<()> {
        self.device
            .as_ref()
            .map_or(Ok(()), |device| device.write(times, &self.steps, out))
    }

    /// Writes both traces to files with these names.
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

/// Writes repeated traces into `folder`, with their original file names. Returns the files.
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
        // Otherwise the copy would overwrite its recording. This covers links and relative paths.
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

/// Returns the path in another folder for a recording's name.
fn repeated_path(recorded: &Path, folder: &Path, gzip: bool) -> PathBuf {
    let name = recorded
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    // The extension follows the contents, whatever the recording's was.
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    folder.join(format!("{plain}{}", if gzip { ".gz" } else { "" }))
}

/// Returns the text of a file, plain or gzip.
///
/// # Errors
/// The file cannot be read or decompressed.
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
    // dropping the writer would hide errors such as a full disk
    file.flush()
}

#[cfg(test)]
mod tests;
