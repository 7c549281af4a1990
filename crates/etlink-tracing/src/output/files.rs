//! Folders with traces. No file is ever overwritten.
#![allow(clippy::disallowed_methods, reason = "recorders write files")]

use super::{FinishedTrace, TraceKind, TraceOutput};
use crate::RecorderError;
use flate2::{Compression, write::GzEncoder};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes `cycle_<n>/torch_et_<rank>.json` and `cycle_<n>/kineto_trace_<rank>.json`: one folder per
/// cycle for `etlink merge`.
#[derive(Clone, Debug)]
pub struct TraceFolder {
    folder: PathBuf,
    gzip: bool,
}

impl TraceFolder {
    /// Creates an output whose folder is created with the first trace.
    pub fn new(folder: impl Into<PathBuf>) -> TraceFolder {
        TraceFolder {
            folder: folder.into(),
            gzip: false,
        }
    }

    /// Selects compressed files, `.json.gz`.
    #[must_use]
    pub fn gzip(self, gzip: bool) -> TraceFolder {
        TraceFolder { gzip, ..self }
    }

    /// Returns the path of a trace.
    pub fn path(&self, trace: &FinishedTrace<'_>) -> PathBuf {
        let name = match trace.kind {
            TraceKind::Host => "torch_et",
            TraceKind::Device => "kineto_trace",
        };
        self.folder.join(trace.cycle.path(format!(
            "{name}_{}.{}",
            trace.rank.unwrap_or(0),
            file_suffix(self.gzip)
        )))
    }
}

impl TraceOutput for TraceFolder {
    fn take(&mut self, trace: &FinishedTrace<'_>) -> Result<(), RecorderError> {
        Ok(create_file(&self.path(trace), trace, self.gzip)?)
    }
}

/// Writes `<worker>.<span>.pt.trace.json`, the name that TensorBoard's profiler plugin expects
/// (`torch.profiler.tensorboard_trace_handler`), and the host trace next to it,
/// `<worker>.<span>.et.json`. Spans are numbered from 0, skipping existing files.
#[derive(Clone, Debug)]
pub struct TensorBoardFolder {
    folder: PathBuf,
    worker: String,
    gzip: bool,
    /// Last cycle and its span.
    span: Option<(u64, u64)>,
}

impl TensorBoardFolder {
    /// Creates an output whose folder is created with the first trace. Each process needs its own
    /// worker name, for example host and rank.
    pub fn new(folder: impl Into<PathBuf>, worker: impl Into<String>) -> TensorBoardFolder {
        TensorBoardFolder {
            folder: folder.into(),
            worker: worker.into(),
            gzip: false,
            span: None,
        }
    }

    /// Selects compressed files, `.json.gz`.
    #[must_use]
    pub fn gzip(self, gzip: bool) -> TensorBoardFolder {
        TensorBoardFolder { gzip, ..self }
    }

    fn path(&self, kind: TraceKind, span: u64, gzip: bool) -> PathBuf {
        let kind = match kind {
            TraceKind::Host => "et",
            TraceKind::Device => "pt.trace",
        };
        self.folder.join(format!(
            "{}.{span}.{kind}.{}",
            self.worker,
            file_suffix(gzip)
        ))
    }

    /// Returns true if any of the four possible files of a span exists.
    fn is_taken(&self, span: u64) -> bool {
        let kinds = [TraceKind::Host, TraceKind::Device];
        let mut files = kinds
            .into_iter()
            .flat_map(|kind| [(kind, false), (kind, true)]);
        files.any(|(kind, gzip)| self.path(kind, span, gzip).exists())
    }

    /// Returns the span of a cycle: the first without a file.
    fn span(&mut self, cycle: u64) -> u64 {
        if let Some((_, span)) = self.span.filter(|(known, _)| *known == cycle) {
            return span;
        }
        let mut span = self.span.map_or(0, |(_, span)| span + 1);
        // Another process may write to the folder too, so the number is searched instead of
        // counted.
        while self.is_taken(span) {
            span += 1;
        }
        self.span = Some((cycle, span));
        span
    }
}

impl TraceOutput for TensorBoardFolder {
    fn take(&mut self, trace: &FinishedTrace<'_>) -> Result<(), RecorderError> {
        let span = self.span(trace.cycle.number);
        Ok(create_file(
            &self.path(trace.kind, span, self.gzip),
            trace,
            self.gzip,
        )?)
    }
}

fn file_suffix(gzip: bool) -> &'static str {
    if gzip { "json.gz" } else { "json" }
}

/// Writes a new file, under a temporary name until it is complete. Fails if the file exists.
fn create_file(path: &Path, trace: &FinishedTrace<'_>, gzip: bool) -> io::Result<()> {
    let failed = |error: io::Error| {
        let remedy = if error.kind() == io::ErrorKind::AlreadyExists {
            "; record to another folder"
        } else {
            ""
        };
        let message = format!("{}: {error}{remedy}", path.display());
        io::Error::new(error.kind(), message)
    };
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .map_err(failed)?;
    // reserves the name against other processes
    File::create_new(path).map_err(failed)?;
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = write(&part, trace, gzip).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        // Both names are freed: an empty file under the final name would look like a trace.
        let _ = (fs::remove_file(&part), fs::remove_file(path));
        failed(error)
    })
}

fn write(path: &Path, trace: &FinishedTrace<'_>, gzip: bool) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 18, File::create(path)?);
    if gzip {
        let mut packer = GzEncoder::new(&mut file, Compression::fast());
        trace.write_to(&mut packer)?;
        packer.finish()?;
    } else {
        trace.write_to(&mut file)?;
    }
    file.flush()
}
