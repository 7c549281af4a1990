//! Opening traces: files or standard input, plain, gzip or zstd, by content.

pub(crate) mod database;
mod error;
mod gzip;
mod kind;
mod member;
#[cfg(test)]
mod tests;

pub use database::{DatabaseProcess, database_processes};
pub use error::{InputError, WantedTrace};
pub use kind::InputKind;

use crate::Progress;
use crate::file_error::{FileAction, FileContext};
use crate::storage::{self, StoredKind, is_url, shown_path};
#[cfg(feature = "sqlite")]
use database::UnpackedFile;
use database::{MAGIC, ask_tables, kind_of_pages};
use etlink_chakra::read::sniff;
use etlink_chakra::simulated::is_astra_log;
use etlink_flight_recorder::is_flight_dump;
use etlink_nccl_inspector::is_inspector_log;
use etlink_perfetto::{KinetoText, PerfettoOrigin, TorchText, perfetto_origin};
use etlink_workload::text_workload::is_text_workload;
use gzip::Gzip;
use memchr::memmem;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// How much of a file its kind is told from.
const HEAD_BYTES: u64 = 256 << 10;
const BUFFER_BYTES: usize = 128 << 10;

/// A trace that has been opened.
pub struct InputFile {
    /// Its name for messages.
    pub name: String,
    /// What it is, from its first bytes.
    pub kind: InputKind,
    /// It is a view for Perfetto that etlink wrote, not a recording.
    pub is_view: bool,
    /// It is such a view in Perfetto's own format, whose content is read as the recording that it
    /// was made from.
    pub is_read_back: bool,
    /// Where it lies, if it is a file that is not packed.
    pub plain_path: Option<PathBuf>,
    /// Where it lies, if it is a file.
    pub stored_path: Option<PathBuf>,
    /// Which of the processes in it is wanted, as its rows call it; `None`: the only one.
    pub process: Option<i64>,
    /// Size as stored, if it is a file.
    pub stored_bytes: Option<u64>,
    /// Its unpacked content.
    pub content: Box<dyn Read + Send>,
    /// The content as a file, where it had to be unpacked to tell what it is.
    #[cfg(feature = "sqlite")]
    pub(crate) unpacked: Option<UnpackedFile>,
}

impl InputFile {
    /// What to say where another kind is wanted.
    pub(crate) fn refuse_kind(&self, wanted: WantedTrace) -> InputError {
        InputError::WrongKind {
            name: self.name.clone(),
            kind: self.kind,
            wanted,
        }
    }
}

/// What a file is called in messages.
pub fn display_name(path: &Path) -> String {
    if path == Path::new("-") {
        return "standard input".to_owned();
    }
    shown_path(path)
}

/// Opens `path` (`-`: standard input) and looks at its beginning.
///
/// # Errors
/// It cannot be read, is a folder or empty, or its first bytes cannot be unpacked.
pub fn open(path: &Path, progress: &Progress) -> Result<InputFile, InputError> {
    let input = if path == Path::new("-") {
        let source = Box::new(std::io::stdin());
        watched(from_source(display_name(path), None, source)?, progress)
    } else {
        open_file(path, progress)?
    };
    // tables tell more than the text of the first pages, which need not have them all
    match input.kind {
        InputKind::OtherSqlite => ask_tables(input),
        _ => Ok(input),
    }
}

fn open_file(path: &Path, progress: &Progress) -> Result<InputFile, InputError> {
    let name = path.display().to_string();
    let file = storage::open(path).with_path(FileAction::Open, path)?;
    // Unix opens folders as files, and fails at the first read with less clear words
    if file.data.kind == StoredKind::Folder {
        let entries = storage::list(path).unwrap_or_default();
        return Err(if entries.iter().any(|entry| is_nsys_table(&entry.path)) {
            InputError::NsysTables { name }
        } else {
            InputError::IsFolder { name }
        });
    }
    // pipes and devices have the length 0, which would be taken for an empty file
    let stored = (file.data.kind == StoredKind::File).then_some(file.data.bytes);
    let mut input = from_source(
        name,
        stored,
        Box::new(progress.watch(file.content, stored.unwrap_or(0))),
    )?;
    input.stored_path = stored.map(|_| path.to_owned());
    Ok(watched(input, progress))
}

/// The same, whose reading waits or fails where memory is short.
fn watched(input: InputFile, progress: &Progress) -> InputFile {
    let Some(watch) = progress.memory() else {
        return input;
    };
    InputFile {
        content: Box::new(watch.watch(input.content)),
        ..input
    }
}

/// Opens a file for a reader that tells kinds apart by itself; an empty one is for it to judge.
///
/// # Errors
/// As those of [`open`].
pub fn open_any(path: &Path) -> Result<Box<dyn Read + Send>, InputError> {
    let data = storage::file_data(path);
    if data.is_ok_and(|data| data.kind == StoredKind::File && data.bytes == 0) {
        Ok(Box::new(std::io::empty()))
    } else {
        open(path, &Progress::hidden()).map(|input| input.content)
    }
}

fn from_source(
    name: String,
    stored_bytes: Option<u64>,
    mut source: Box<dyn Read + Send>,
) -> Result<InputFile, InputError> {
    let path = Path::new(&name);
    // the formats differ in their first four bytes; names of files are often wrong
    let mut magic = vec![];
    source
        .by_ref()
        .take(4)
        .read_to_end(&mut magic)
        .with_path(FileAction::Read, path)?;
    if magic.is_empty() {
        return Err(InputError::Empty { name });
    }
    // standard input cannot be sought back to its beginning
    let stored = Cursor::new(magic.clone()).chain(source);
    let buffered = |stored| BufReader::with_capacity(BUFFER_BYTES, stored);
    let is_packed = matches!(
        magic[..],
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18]
    );
    let mut content: Box<dyn Read + Send> = match magic[..] {
        [0x1f, 0x8b, ..] => Box::new(Gzip::new(Box::new(buffered(stored)))),
        // a frame, or a skippable one before it
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
    // blanks before a document say nothing of its kind, however many
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
    // packets begin with the byte that is the length of a Chakra message of ten bytes
    let is_packets = matches!(kind, InputKind::Unknown | InputKind::ChakraEt);
    let origin = if is_packets {
        perfetto_origin(&head)
    } else {
        None
    };
    let is_read_back = origin == Some(PerfettoOrigin::Recorded);
    let is_torch = origin == Some(PerfettoOrigin::Torch);
    if !is_read_back
        && !is_torch
        && let Some(origin) = origin
    {
        return Err(InputError::Perfetto { name, origin });
    }
    if origin.is_some() {
        kind = InputKind::KinetoTrace;
    }
    if kind == InputKind::Unknown && is_nsys_report(path) {
        kind = InputKind::NsysReport;
    }
    if let Some(error) = cut {
        // where the kind is known already, the reader keeps what came before the damage
        if kind == InputKind::Unknown {
            let failed = Err(error).with_path(FileAction::UnpackBeginning, path);
            return Ok(failed?);
        }
        // readers find the damage where it is, behind the head, and count it
        content = Box::new(FailingSource(Some(error)));
    }
    let is_view = is_view(&head);
    content = Box::new(Cursor::new(head).chain(content));
    if is_read_back {
        content = Box::new(KinetoText::new(content));
    } else if is_torch {
        content = Box::new(TorchText::new(content));
    }
    // what is packed or no file is a stream, of which no place can be asked for
    let is_plain = !is_packed && stored_bytes.is_some() && !is_url(path);
    let plain_path = is_plain.then(|| path.to_owned());
    Ok(InputFile {
        name,
        plain_path,
        stored_path: None,
        process: None,
        kind,
        is_view,
        is_read_back,
        stored_bytes,
        content,
        #[cfg(feature = "sqlite")]
        unpacked: None,
    })
}

/// The first bytes of every Parquet file (<https://parquet.apache.org/docs/file-format/>).
const PARQUET_MAGIC: &[u8] = b"PAR1";

/// What a file is, by its unpacked beginning.
fn sniff_kind(head: &[u8]) -> InputKind {
    if head.starts_with(MAGIC) {
        return kind_of_pages(head);
    }
    if head.starts_with(PARQUET_MAGIC) {
        return InputKind::ParquetTable;
    }
    // A pickle's first bytes are the length of a Chakra message of 256 bytes or more.
    if is_flight_dump(head) {
        return InputKind::FlightRecorder;
    }
    if is_inspector_log(head) {
        return InputKind::NcclInspector;
    }
    // A plane's name is surer than what a Chakra message would say: it is asked for first.
    if etlink_xla::is_xla_space(head) {
        return InputKind::XlaSpace;
    }
    // Names of kernels in it are any text: its first key is asked for first.
    if is_rocprof_json(head) {
        return InputKind::RocprofJson;
    }
    match InputKind::from(sniff(head)) {
        InputKind::KinetoTrace if etlink_xla::is_xla_json(head) => InputKind::XlaJson,
        InputKind::Unknown => sniff_other(head),
        kind => kind,
    }
}

/// Returns whether a document begins as those of ROCm's rocprofv3.
fn is_rocprof_json(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    let text = text.trim_ascii_start().strip_prefix(b"{");
    text.is_some_and(|text| {
        text.trim_ascii_start()
            .starts_with(b"\"rocprofiler-sdk-tool\"")
    })
}

/// Whether a name is that of a report of Nsight Systems, whose format is not public; `.qdrep` until
/// 2021.
pub(crate) fn is_nsys_report(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| ending == "nsys-rep" || ending == "qdrep")
}

/// Whether a name is that of a table in a folder that `nsys export --type parquetdir` or `arrowdir`
/// wrote: they are called as those of an SQLite export are.
pub(crate) fn is_nsys_table(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let is_known = matches!(&*name, "StringIds" | "NVTX_EVENTS" | "META_DATA_EXPORT")
        || name.starts_with("CUPTI_ACTIVITY_KIND_")
        || name.starts_with("TARGET_INFO_");
    is_known && ending.is_some_and(|ending| ending == "parquet" || ending == "arrow")
}

/// What is no trace and is read all the same, by its unpacked beginning.
fn sniff_other(head: &[u8]) -> InputKind {
    if etlink_metrics::is_latency_file(head) {
        InputKind::RequestLatencies
    } else if etlink_metrics::is_compute_csv(head) {
        InputKind::KernelMetrics
    } else if etlink_metrics::is_workload_card(head) {
        InputKind::WorkloadCard
    } else if is_astra_log(head) {
        InputKind::AstraLog
    } else if is_text_workload(head) {
        InputKind::TextWorkload
    } else {
        InputKind::Unknown
    }
}

/// Whether Chrome JSON begins as that of `etlink_report::perfetto`, which names its writer before
/// its events.
fn is_view(head: &[u8]) -> bool {
    // behind the events the same words may be an argument of somebody's op
    let events = memmem::find(head, b"\"traceEvents\"").unwrap_or(head.len());
    memmem::find(&head[..events], b"\"written_by\": \"etlink ").is_some()
}

/// What is left of a source whose damage was met in its first bytes: decoders tell it once.
struct FailingSource(Option<std::io::Error>);

impl Read for FailingSource {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// zstd reports damage as an error of no kind; readers take [`ErrorKind::InvalidData`] for
/// an early end and keep what came before.
struct Zstd<R: BufRead>(zstd::Decoder<'static, R>);

impl<R: BufRead> Zstd<R> {
    fn new(stored: R) -> std::io::Result<Self> {
        let mut decoder = zstd::Decoder::with_buffer(stored)?;
        // as `zstd --long=31` packs; memory is only taken for the window that a file has
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
