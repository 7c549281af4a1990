//! Writing results: to a temporary name first, so that no half file ever bears the final one.

mod pieces;

pub use pieces::Piece;

use crate::interrupt;
use anyhow::{Context, Result, bail};
use flate2::{Compression, write::GzEncoder};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// What a failure to write to standard output says.
pub const TO_STDOUT: &str = "cannot write to standard output";

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Chakra protobuf, for simulators.
    Et,
    /// Merged JSON (ET+), for `chakra_converter` and `et_replay`.
    Json,
    /// Chrome JSON, for Perfetto.
    Perfetto,
    /// Perfetto's own format.
    Pftrace,
}

impl Format {
    /// How a trace for Perfetto is written; none for other formats.
    pub fn for_perfetto(self) -> Option<etlink_report::perfetto::Format> {
        match self {
            Format::Perfetto => Some(etlink_report::perfetto::Format::Json),
            Format::Pftrace => Some(etlink_report::perfetto::Format::Protobuf),
            Format::Et | Format::Json => None,
        }
    }
}

/// Where a result goes and in which form.
#[derive(Clone, Debug)]
pub struct Target {
    path: PathBuf,
    /// What is written.
    pub format: Format,
    gzip: bool,
    force: bool,
}

impl Target {
    /// Decides the format and refuses what exists, before any work is done.
    pub fn new(path: &Path, format: Option<Format>, force: bool) -> Result<Target> {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().to_lowercase())
            .unwrap_or_default();
        let plain = name.strip_suffix(".gz").unwrap_or(&name);
        let format = match format {
            Some(format) => format,
            None if path == Path::new("-") => {
                bail!("standard output has no name to tell the format; give --format")
            }
            None if plain.ends_with(".et") => Format::Et,
            None if plain.ends_with(".pftrace") => Format::Pftrace,
            None if plain.ends_with(".trace.json") => Format::Perfetto,
            None if plain.ends_with(".json") => Format::Json,
            None => {
                bail!(
                    "{}: the name's ending does not tell the format; use .et, .json, .trace.json or .pftrace (.gz after the last three packs), or --format",
                    path.display()
                )
            }
        };
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
        {
            bail!(
                "cannot write {}: there is no folder {}; make it first",
                path.display(),
                folder.display()
            );
        }
        let target = Target {
            path: path.to_owned(),
            format,
            gzip: plain.len() < name.len(),
            force,
        };
        if path.is_dir() {
            bail!("{} is a folder; give a file name", path.display());
        }
        if path.is_file() && !force {
            bail!("{} exists already; --force replaces it", path.display());
        }
        Ok(target)
    }

    /// As [`Target::new`], for a trace that only Perfetto reads; JSON on standard output.
    pub fn perfetto(path: &Path, force: bool) -> Result<Target> {
        let name = path.to_string_lossy().to_lowercase();
        let plain = name.strip_suffix(".gz").unwrap_or(&name);
        let format = if plain.ends_with(".pftrace") {
            Format::Pftrace
        } else {
            Format::Perfetto
        };
        if path != Path::new("-") && format == Format::Perfetto && !plain.ends_with(".trace.json") {
            bail!(
                "{}: replay writes a trace for Perfetto; use .pftrace, .pftrace.gz, .trace.json or .trace.json.gz",
                path.display()
            );
        }
        Target::new(path, Some(format), force)
    }

    /// As [`Target::new`], for a page; its format is not for choice.
    pub fn page(path: &Path, force: bool) -> Result<Target> {
        let name = path.to_string_lossy().to_lowercase();
        if path != Path::new("-")
            && ![".html", ".htm"]
                .iter()
                .any(|ending| name.ends_with(ending))
        {
            bail!("{}: a report is a page; use .html", path.display());
        }
        Target::fixed(path, force)
    }

    /// As [`Target::new`], for a file of which the name says all.
    pub fn fixed(path: &Path, force: bool) -> Result<Target> {
        Target::new(path, Some(Format::Json), force)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has `fill` write the content, in large blocks, then gives the file its name. Returns the stored size, bytes.
    pub fn write<T>(
        &self,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> std::io::Result<T>,
    ) -> Result<(T, u64)> {
        if self.path == Path::new("-") {
            return self
                .fill(Box::new(std::io::stdout()), fill)
                .context(TO_STDOUT);
        }
        let failed = || format!("cannot write {}", self.path.display());
        // devices and pipes cannot be renamed into place
        if self.path.exists() && !self.path.is_file() {
            let file = File::options()
                .write(true)
                .open(&self.path)
                .with_context(failed)?;
            return self.fill(Box::new(file), fill).with_context(failed);
        }
        let temporary = temporary_in(self.folder()).with_context(failed)?;
        let _listed = interrupt::TemporaryEntry::new(temporary.path());
        let written = self
            .fill(Box::new(temporary.as_file()), fill)
            .with_context(failed)?;
        if self.force {
            temporary
                .persist(&self.path)
                .map_err(|error| error.error)
                .with_context(failed)?;
        } else {
            temporary
                .persist_noclobber(&self.path)
                .map_err(|error| error.error)
                .with_context(failed)?;
        }
        Ok(written)
    }

    fn folder(&self) -> &Path {
        self.path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."))
    }

    fn fill<'w, T>(
        &self,
        sink: Box<dyn Write + Send + 'w>,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> std::io::Result<T>,
    ) -> std::io::Result<(T, u64)> {
        let mut counted = Counted { sink, bytes: 0 };
        let value = if self.gzip {
            let mut packed = GzEncoder::new(
                BufWriter::with_capacity(1 << 20, &mut counted),
                Compression::fast(),
            );
            let value = fill(&mut packed)?;
            packed.finish()?.flush()?;
            value
        } else {
            fill(&mut counted)?
        };
        counted.sink.flush()?;
        Ok((value, counted.bytes))
    }
}

#[cfg(unix)]
fn temporary_in(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    // as any new file; the process's umask applies
    tempfile::Builder::new()
        .prefix(".etlink-")
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
}

#[cfg(not(unix))]
fn temporary_in(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".etlink-")
        .tempfile_in(folder)
}

struct Counted<'w> {
    sink: Box<dyn Write + Send + 'w>,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        let written = self.sink.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}
