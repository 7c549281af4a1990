//! Opens traces: files or standard input; plain, gzip or zstd, detected by content.

pub(crate) mod database;
mod foreign;
mod gzip;
mod kind;
mod member;
#[cfg(test)]
mod tests;
mod wanted;

pub use database::{DatabaseProcess, database_processes};
pub use kind::InputKind;
pub use wanted::WantedTrace;

use crate::Progress;
use crate::error::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::storage::{self, StoredKind, shown_path};
#[cfg(feature = "sqlite")]
use database::UnpackedFile;
use database::{MAGIC, ask_tables, kind_of_pages};
use encoding_rs_io::DecodeReaderBytes;
use etlink_chakra::read::sniff;
use etlink_chakra::simulated::is_astra_log;
use etlink_formats::flight_recorder::is_flight_dump;
use etlink_formats::nccl_inspector::is_inspector_log;
use etlink_model::Failure;
use foreign::foreign_kind;
use gzip::Gzip;
use memchr::memmem;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Bytes at the beginning of a file from which its kind is detected.
const HEAD_BYTES: u64 = 256 << 10;
const BUFFER_BYTES: usize = 128 << 10;

/// An opened trace.
pub struct InputFile {
    /// Name in messages.
    pub name: String,
    /// Kind of file, detected from the first bytes.
    pub kind: InputKind,
    /// Path, if it is an uncompressed file.
    pub plain_path: Option<PathBuf>,
    /// Path, if it is a file.
    pub stored_path: Option<PathBuf>,
    /// Process to read, as identified in the database's rows; `None` for the only one.
    pub process: Option<i64>,
    /// Stored size, if it is a file.
    pub stored_bytes: Option<u64>,
    /// Uncompressed content.
    pub content: Box<dyn Read + Send>,
    /// Content as a file, if detecting its kind required unpacking it.
    #[cfg(feature = "sqlite")]
    pub(crate) unpacked: Option<UnpackedFile>,
}

impl InputFile {
    /// Creates the error for a file that is not of the wanted kind.
    pub(crate) fn refuse_kind(&self, wanted: WantedTrace) -> RunError {
        wanted.refuse(&self.name, self.kind)
    }
}

/// Creates the error of a folder with tables exported by Nsight Systems.
pub(crate) fn unread_tables(folder: String) -> Failure {
    let what = " has tables exported by Nsight Systems, which etlink does not read";
    let remedy = "export the report with `nsys export --type sqlite`, and give the .sqlite file";
    Failure::about(folder, what).advise(remedy)
}

/// Returns the name of a file in messages.
pub fn display_name(path: &Path) -> String {
    if path == Path::new("-") {
        return "standard input".to_owned();
    }
    shown_path(path)
}

/// Opens `path` (`-`: standard input) and detects its kind from the beginning.
///
/// # Errors
/// Fails if the file cannot be read, is a folder, is empty, or its first bytes cannot be unpacked.
pub fn open(path: &Path, progress: &Progress) -> Result<InputFile, RunError> {
    let input = if path == Path::new("-") {
        let source = Box::new(std::io::stdin());
        watched(from_source(display_name(path), None, source)?, progress)
    } else {
        open_file(path, progress)?
    };
    // the first pages may not list all tables, so the database is queried
    match input.kind {
        InputKind::OtherSqlite => ask_tables(input),
        _ => Ok(input),
    }
}

fn open_file(path: &Path, progress: &Progress) -> Result<InputFile, RunError> {
    let name = path.display().to_string();
    let file = storage::open(path).with_path(FileAction::Open, path)?;
    // Unix opens folders as files and fails on the first read, with a less clear message
    if file.data.kind == StoredKind::Folder {
        let entries = storage::list(path).unwrap_or_default();
        return Err(if entries.iter().any(|entry| is_nsys_table(&entry.path)) {
            unread_tables(name)
        } else {
            let failure = Failure::about(name, " is a folder, not a trace file");
            failure.advise("use `etlink merge` to link all ranks in a folder")
        }
        .into());
    }
    // pipes and devices have length 0, which would look like an empty file
    let stored = (file.data.kind == StoredKind::File).then_some(file.data.bytes);
    let mut input = from_source(
        name,
        stored,
        Box::new(progress.watch(file.content, stored.unwrap_or(0))),
    )?;
    input.stored_path = stored.map(|_| path.to_owned());
    Ok(watched(input, progress))
}

/// Wraps the content so that reads wait or fail if memory is short.
fn watched(input: InputFile, progress: &Progress) -> InputFile {
    let Some(watch) = progress.memory() else {
        return input;
    };
    InputFile {
        content: Box::new(watch.watch(input.content)),
        ..input
    }
}

/// Opens a file for a reader that detects kinds itself and also accepts empty files.
///
/// # Errors
/// Fails like [`open`].
pub fn open_any(path: &Path) -> Result<Box<dyn Read + Send>, RunError> {
    let data = storage::file_data(path);
    if data.is_ok_and(|data| data.kind == StoredKind::File && data.bytes == 0) {
        Ok(Box::new(std::io::empty()))
    } else {
        let input = open(path, &Progress::hidden())?;
        if input.kind.is_foreign() {
            return Err(input.refuse_kind(WantedTrace::Times));
        }
        Ok(input.content)
    }
}

fn from_source(
    name: String,
    stored_bytes: Option<u64>,
    mut source: Box<dyn Read + Send>,
) -> Result<InputFile, RunError> {
    let path = Path::new(&name);
    // formats differ in their first four bytes; file names are often wrong
    let mut magic = vec![];
    source
        .by_ref()
        .take(4)
        .read_to_end(&mut magic)
        .with_path(FileAction::Read, path)?;
    if magic.is_empty() {
        return Err(RunError::EmptyFile { name });
    }
    // standard input cannot seek back to its beginning
    let stored = Cursor::new(magic.clone()).chain(source);
    let buffered = |stored| BufReader::with_capacity(BUFFER_BYTES, stored);
    let is_packed = matches!(
        magic[..],
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18]
    );
    let mut content: Box<dyn Read + Send> = match magic[..] {
        [0x1f, 0x8b, ..] => Box::new(Gzip::new(Box::new(buffered(stored)))),
        // a frame, or a skippable frame before it
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            Box::new(Zstd::new(buffered(stored)).with_path(FileAction::Unpack, path)?)
        }
        _ => Box::new(stored),
    };
    let mut head = vec![];
    let mut cut = content
        .by_ref()
        .take(HEAD_BYTES)
        .read_to_end(&mut head)
        .err();
    // as a Windows shell writes redirected text
    let is_utf16 = matches!(head[..], [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    if is_utf16 {
        let encoded = Cursor::new(head).chain(content);
        content = Box::new(DecodeReaderBytes::new(encoded));
        head = vec![];
        let decoded = content.by_ref().take(HEAD_BYTES).read_to_end(&mut head);
        cut = cut.or(decoded.err());
    }
    // any amount of leading whitespace says nothing about the kind
    while cut.is_none()
        && head.len() as u64 == HEAD_BYTES
        && head.iter().all(u8::is_ascii_whitespace)
    {
        head.clear();
        cut = content
            .by_ref()
            .take(HEAD_BYTES)
            .read_to_end(&mut head)
            .err();
    }
    let mut kind = sniff_kind(&head);
    if kind == InputKind::Unknown && is_nsys_report(path) {
        kind = InputKind::NsysReport;
    }
    if let Some(error) = cut {
        // if the kind is known, the reader keeps the data before the damage
        if kind == InputKind::Unknown {
            let failed = Err(error).with_path(FileAction::UnpackBeginning, path);
            return Ok(failed?);
        }
        // readers find and count the damage after the head
        content = Box::new(FailingSource(Some(error)));
    }
    content = Box::new(Cursor::new(head).chain(content));
    // compressed input and non-files are streams, without random access
    let is_plain = !is_packed && !is_utf16 && stored_bytes.is_some() && storage::is_on_disk(path);
    let plain_path = is_plain.then(|| path.to_owned());
    Ok(InputFile {
        name,
        plain_path,
        stored_path: None,
        process: None,
        kind,
        stored_bytes,
        content,
        #[cfg(feature = "sqlite")]
        unpacked: None,
    })
}

/// First bytes of every Parquet file (<https://parquet.apache.org/docs/file-format/>).
const PARQUET_MAGIC: &[u8] = b"PAR1";

/// Returns the kind of a file from its unpacked beginning.
fn sniff_kind(head: &[u8]) -> InputKind {
    if head.starts_with(MAGIC) {
        return kind_of_pages(head);
    }
    if head.starts_with(PARQUET_MAGIC) {
        return InputKind::ParquetTable;
    }
    if let Some(kind) = foreign_kind(head) {
        return kind;
    }
    // A pickle's first bytes are also the length of a Chakra message of 256 bytes or more.
    if is_flight_dump(head) {
        return InputKind::FlightRecorder;
    }
    if is_inspector_log(head) {
        return InputKind::NcclInspector;
    }
    // A plane's name is more specific than the check for Chakra messages, so it comes first.
    if etlink_formats::xla::is_xla_space(head) {
        return InputKind::XlaSpace;
    }
    // The file may contain any text as kernel names, so its first key is checked first.
    if is_rocprof_json(head) {
        return InputKind::RocprofJson;
    }
    if is_timeline(head) {
        return InputKind::Timeline;
    }
    match InputKind::from(sniff(head)) {
        InputKind::KinetoTrace if etlink_formats::xla::is_xla_json(head) => InputKind::XlaJson,
        InputKind::Unknown => sniff_other(head),
        kind => kind,
    }
}

/// Returns true if a document begins like JSON of ROCm's rocprofv3.
fn is_rocprof_json(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    let text = text.trim_ascii_start().strip_prefix(b"{");
    text.is_some_and(|text| {
        text.trim_ascii_start()
            .starts_with(b"\"rocprofiler-sdk-tool\"")
    })
}

/// Returns true if a name belongs to a Nsight Systems report, whose format is not public; `.qdrep`
/// until 2021.
pub(crate) fn is_nsys_report(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| ending == "nsys-rep" || ending == "qdrep")
}

/// Returns true if a name belongs to a table written by `nsys export --type parquetdir` or
/// `arrowdir`. Their names equal the tables of an SQLite export.
pub(crate) fn is_nsys_table(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let is_known = matches!(&*name, "StringIds" | "NVTX_EVENTS" | "META_DATA_EXPORT")
        || name.starts_with("CUPTI_ACTIVITY_KIND_")
        || name.starts_with("TARGET_INFO_");
    is_known && ending.is_some_and(|ending| ending == "parquet" || ending == "arrow")
}

/// Returns the kind of a readable file other than a trace, from its unpacked beginning.
fn sniff_other(head: &[u8]) -> InputKind {
    if etlink_formats::metrics::is_latency_file(head) {
        InputKind::RequestLatencies
    } else if etlink_formats::metrics::is_compute_csv(head) {
        InputKind::KernelMetrics
    } else if etlink_formats::metrics::is_workload_card(head) {
        InputKind::WorkloadCard
    } else if is_astra_log(head) {
        InputKind::AstraLog
    } else {
        InputKind::Unknown
    }
}

/// Returns true for a file in Perfetto's format, which begins with a packet (field 1) of clocks
/// (field 6), and for Chrome JSON that names `etlink_report::perfetto` before the events.
fn is_timeline(head: &[u8]) -> bool {
    if let [0x0a, length, 0x32, ..] = head {
        // a Chakra message of ten bytes begins with the same byte, but no packet follows it
        let next = head.get(2 + usize::from(*length));
        return next.is_none_or(|byte| *byte == 0x0a);
    }
    // after the events, the same words may be an argument of any op
    let events = memmem::find(head, b"\"traceEvents\"").unwrap_or(head.len());
    memmem::find(&head[..events], b"\"written_by\": \"etlink ").is_some()
}

/// Rest of a source whose first bytes are damaged. Returns the error once, then the end, as
/// decoders do.
struct FailingSource(Option<std::io::Error>);

impl Read for FailingSource {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// zstd decoder that reports damage as [`ErrorKind::InvalidData`], instead of an error without a
/// kind. Readers take that for an early end and keep the data before it.
struct Zstd<R: BufRead>(zstd::Decoder<'static, R>);

impl<R: BufRead> Zstd<R> {
    fn new(stored: R) -> std::io::Result<Self> {
        let mut decoder = zstd::Decoder::with_buffer(stored)?;
        // as `zstd --long=31` packs; memory is only allocated for a file's actual window
        decoder.window_log_max(31)?;
        Ok(Zstd(decoder))
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            ErrorKind::Other => std::io::Error::new(ErrorKind::InvalidData, error),
            _ => error,
        })
    }
}
