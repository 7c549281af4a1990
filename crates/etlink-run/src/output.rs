//! Writes results, so that no incomplete file ever has a final name, and no two runs write the same
//! file.
//!
//! A file is written in a work folder (`output/work.rs`) next to it, synced, and renamed. Files
//! that belong together are a [`FileSet`]. Pipes, devices and open files are written directly.

mod disk;
mod error;
mod objects;
mod packing;
mod pieces;
mod place;
mod set;
mod work;
mod work_files;

pub use error::{StdoutError, no_target};
pub use packing::Packing;
pub use pieces::Piece;
pub use set::FileSet;
pub use work::{is_same_file, is_without_locks, is_work_folder};
pub use work_files::remove_work;

use crate::error::RunError;
use crate::file_error::{FileAction, FileContext, FileError};
use crate::interrupt::Changes;
use crate::storage::upload::{self, ObjectWriter, UploadedObject};
use crate::storage::{self, StoredKind, is_url};
use etlink_model::{Failure, Setting};
use packing::packing_of;
use set::{SetMembers, SetPlace};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use work::WorkFolder;

/// Name of a result in its work folder.
const RESULT: &str = "result";

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// Chakra protobuf, for simulators.
    #[default]
    Chakra,
    /// Merged JSON (ET+), for `chakra_converter` and `et_replay`.
    EtPlus,
    /// Chrome JSON, for Perfetto.
    Chrome,
    /// Perfetto's own format.
    Perfetto,
}

impl OutputFormat {
    /// Returns the format of a timeline for Perfetto; `None` for other formats.
    pub fn for_perfetto(self) -> Option<etlink_report::perfetto::TimelineFormat> {
        match self {
            OutputFormat::Chrome => Some(etlink_report::perfetto::TimelineFormat::Json),
            OutputFormat::Perfetto => Some(etlink_report::perfetto::TimelineFormat::Protobuf),
            OutputFormat::Chakra | OutputFormat::EtPlus => None,
        }
    }
}

/// Destination and form of a result.
#[derive(Clone, Debug)]
pub struct Target {
    /// Path as given by the user.
    path: PathBuf,
    /// Format of the content.
    pub format: OutputFormat,
    packing: Packing,
    overwrite: bool,
    place: OutputPlace,
}

#[derive(Clone, Debug)]
enum OutputPlace {
    Stdout,
    /// A pipe, a device or a file that is already open.
    Stream(PathBuf),
    File {
        /// Path without links.
        path: PathBuf,
        work: Arc<WorkFolder>,
    },
    Member {
        set: Arc<SetMembers>,
        name: String,
    },
    /// An object of a store, whose URL is the path.
    Object,
}

impl Target {
    /// Determines the format and refuses existing files, before any work is done.
    ///
    /// # Errors
    /// Fails if the format is unknown, or the path cannot or must not be written.
    pub fn new(
        path: &Path,
        format: Option<OutputFormat>,
        overwrite: bool,
    ) -> Result<Target, RunError> {
        let name = lower_name(path);
        let (_, plain) = Packing::of_name(&name);
        let format = match format {
            Some(format) => format,
            None if path == Path::new("-") => {
                let problem = "standard output has no file name to show the format";
                return Err(Failure::new(problem).advise("give --format").into());
            }
            None if plain.ends_with(".et") => OutputFormat::Chakra,
            None if plain.ends_with(".pftrace") => OutputFormat::Perfetto,
            // before `.json`, which is also its ending
            None if plain.ends_with(".trace.json") => OutputFormat::Chrome,
            None if plain.ends_with(".json") => OutputFormat::EtPlus,
            None => {
                let what = ": the file name does not show the format";
                let remedy = "use .et, .json, .trace.json or .pftrace (append .gz to compress, or \
                              .zst after .et), or --format";
                return Err(Failure::about(path.display(), what).advise(remedy).into());
            }
        };
        let place = match place::PathKind::find(path) {
            place::PathKind::Object => {
                check_object(path, overwrite)?;
                OutputPlace::Object
            }
            place::PathKind::Stdout => OutputPlace::Stdout,
            place::PathKind::Stream(path) => OutputPlace::Stream(path),
            place::PathKind::File(file) => {
                // claimed before hours of work, not when there is something to write
                let work = claim_file(path, &file, overwrite)?;
                OutputPlace::File {
                    path: file,
                    work: Arc::new(work),
                }
            }
        };
        Ok(Target {
            path: path.to_owned(),
            format,
            packing: packing_of(path),
            overwrite,
            place,
        })
    }

    /// Like [`Target::new`], for a trace that only Perfetto reads; JSON on standard output.
    pub fn perfetto(path: &Path, overwrite: bool) -> Result<Target, RunError> {
        let name = lower_name(path);
        let is_protobuf = name.ends_with(".pftrace") || name.ends_with(".pftrace.gz");
        let format = if is_protobuf {
            OutputFormat::Perfetto
        } else {
            OutputFormat::Chrome
        };
        let endings = [".pftrace", ".pftrace.gz", ".trace.json", ".trace.json.gz"];
        let remedy = "use .pftrace, .pftrace.gz, .trace.json or .trace.json.gz";
        check_ending(path, "a Perfetto trace", &endings, remedy)?;
        Target::new(path, Some(format), overwrite)
    }

    /// Like [`Target::new`], for Chrome's trace events, which may have any JSON name.
    pub fn chrome(path: &Path, overwrite: bool) -> Result<Target, RunError> {
        let remedy = "use .trace.json or .json, optionally with .gz";
        check_ending(path, "Chrome trace events", &[".json", ".json.gz"], remedy)?;
        Target::new(path, Some(OutputFormat::Chrome), overwrite)
    }

    /// Like [`Target::new`], for a page, whose format is fixed.
    pub fn page(path: &Path, overwrite: bool) -> Result<Target, RunError> {
        check_ending(path, "an HTML page", &[".html", ".htm"], "use .html")?;
        // the caller encodes the content, so any format other than Perfetto's works
        Target::new(path, Some(OutputFormat::EtPlus), overwrite)
    }

    /// Returns the path as given by the user.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the compression.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// Returns true if the target is standard output, which then cannot take reports.
    pub fn is_stdout(&self) -> bool {
        matches!(self.place, OutputPlace::Stdout)
    }

    /// Calls `fill` to write the content, in large blocks, and then gives the file its name.
    /// Returns the result of `fill` and the stored size, bytes.
    ///
    /// # Errors
    /// Fails if `fill` fails, or if the file cannot be written; an earlier file is then unchanged.
    pub fn write<T>(
        &self,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> std::io::Result<T>,
    ) -> Result<(T, u64), RunError> {
        let target = &self.path;
        match &self.place {
            OutputPlace::Stdout => {
                let written = self.fill(Box::new(std::io::stdout()), fill);
                Ok(written.map_err(StdoutError)?)
            }
            OutputPlace::Stream(path) => {
                let stream = disk::open_existing(path).with_path(FileAction::Write, target)?;
                let written = self.fill(Box::new(stream), fill);
                Ok(written.with_path(FileAction::Write, target)?)
            }
            OutputPlace::File { path, work } => {
                let written = self
                    .write_new(work, Path::new(RESULT), fill)
                    .with_path(FileAction::Write, target)?;
                self.put_in_place(work, path)
                    .with_path(FileAction::Write, target)?;
                Ok(written)
            }
            OutputPlace::Member { set, name } => {
                let written = match &set.place {
                    SetPlace::Disk(work) => self
                        .write_new(work, &SetMembers::new_path(name), fill)
                        .with_path(FileAction::Write, target)?,
                    SetPlace::Objects(waiting) => {
                        let (value, bytes, object) =
                            self.upload(fill).with_path(FileAction::Write, target)?;
                        waiting.add(name, object);
                        (value, bytes)
                    }
                };
                set.add(name);
                Ok(written)
            }
            OutputPlace::Object => {
                let (value, bytes, object) =
                    self.upload(fill).with_path(FileAction::Write, target)?;
                // a signal ends the program either before or after the commit
                let _changes = Changes::begin();
                let put = object
                    .begin_commit(self.overwrite)
                    .and_then(|put| put.wait());
                put.map_err(|error| commit_error(error, target))?;
                Ok((value, bytes))
            }
        }
    }

    /// Writes a file in a work folder, and syncs it to the disk.
    fn write_new<T>(
        &self,
        work: &WorkFolder,
        name: &Path,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> std::io::Result<T>,
    ) -> std::io::Result<(T, u64)> {
        let mut file = work.create(name)?;
        let written = self.fill(Box::new(&mut file), fill)?;
        // after a crash, a name on the disk without its content would be an incomplete file
        file.sync_all()?;
        Ok(written)
    }

    /// Uploads the content of an object that is not visible yet.
    fn upload<T>(
        &self,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> std::io::Result<T>,
    ) -> std::io::Result<(T, u64, UploadedObject)> {
        let mut object = ObjectWriter::new(&self.path)?;
        let (value, bytes) = self.fill(Box::new(&mut object), fill)?;
        Ok((value, bytes, object.finish()?))
    }

    fn put_in_place(&self, work: &WorkFolder, path: &Path) -> std::io::Result<()> {
        let _changes = Changes::begin();
        disk::put(&work.path().join(RESULT), path, self.overwrite)?;
        disk::sync_folder(folder_of(path))
    }

    fn fill<'w, T>(
        &self,
        sink: Box<dyn Write + Send + 'w>,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> std::io::Result<T>,
    ) -> std::io::Result<(T, u64)> {
        let mut counted = CountedSink { sink, bytes: 0 };
        let value = self.packing.write(&mut counted, fill)?;
        counted.sink.flush()?;
        Ok((value, counted.bytes))
    }
}

/// Refuses to overwrite an input, so that a recording is not lost to its own result.
///
/// # Errors
/// Fails if `output` is one of the inputs.
pub fn refuse_input<'a>(
    output: &Path,
    inputs: impl Iterator<Item = &'a PathBuf>,
) -> Result<(), RunError> {
    if is_url(output) {
        let mut inputs = inputs;
        return match inputs.find(|input| input.as_os_str() == output.as_os_str()) {
            Some(path) => Err(is_input(path)),
            None => Ok(()),
        };
    }
    // a missing file is not an input
    let Ok(output) = output.canonicalize() else {
        return Ok(());
    };
    for input in inputs {
        let stored = storage::stored_path(input);
        if output.is_file() && stored.canonicalize().is_ok_and(|input| input == output) {
            return Err(is_input(input));
        }
    }
    Ok(())
}

/// Refuses an output folder that contains inputs.
///
/// # Errors
/// Fails if an input is in the folder or below it.
pub fn refuse_input_folder<'a>(
    folder: &Path,
    mut inputs: impl Iterator<Item = &'a PathBuf>,
) -> Result<(), RunError> {
    let resolved = |path: &Path| {
        if is_url(path) {
            Some(path.to_owned())
        } else {
            storage::stored_path(path).canonicalize().ok()
        }
    };
    // a missing folder contains nothing
    let Some(output) = resolved(folder) else {
        return Ok(());
    };
    let is_inside = |input: &Path| resolved(input).is_some_and(|input| input.starts_with(&output));
    match inputs.find(|input| is_inside(input)) {
        Some(input) => {
            let what = format!(": the output folder contains the input {}", input.display());
            let holds = Failure::about(folder.display(), what);
            Err(holds.advise("give the output a folder of its own").into())
        }
        None => Ok(()),
    }
}

/// Refuses a file name without one of the endings of its content. Pipes and standard output have
/// any name.
fn check_ending(
    path: &Path,
    content: &str,
    endings: &[&str],
    remedy: &str,
) -> Result<(), RunError> {
    let place = place::PathKind::find(path);
    let is_file = matches!(place, place::PathKind::File(_) | place::PathKind::Object);
    let name = lower_name(path);
    if !is_file || endings.iter().any(|ending| name.ends_with(ending)) {
        return Ok(());
    }
    let what = format!(": the file name does not fit {content}");
    Err(Failure::about(path.display(), what).advise(remedy).into())
}

/// Refuses a URL that cannot be written, before hours of work.
fn check_object(path: &Path, overwrite: bool) -> Result<(), RunError> {
    upload::check_writable(path).with_path(FileAction::Write, path)?;
    refuse_existing(path, path, overwrite)
}

/// Creates the error for an output that is an input.
pub(crate) fn is_input(path: &Path) -> RunError {
    let input = Failure::about(path.display(), " is also an input");
    input.advise("give the output another name").into()
}

/// Creates the error for a file of another program that would be replaced.
pub(crate) fn not_ours(path: &Path) -> RunError {
    let what = format!(
        " has the name of an output, but etlink did not write it, and {} does not remove it",
        Setting::Overwrite
    );
    Failure::about(path.display(), what)
        .advise("move it away")
        .into()
}

fn exists(path: &Path) -> RunError {
    RunError::Exists {
        path: path.to_owned(),
    }
}

/// Creates the error for a complete object that did not get its name.
fn commit_error(error: std::io::Error, path: &Path) -> RunError {
    if error.kind() == std::io::ErrorKind::AlreadyExists {
        // another program created it meanwhile
        return exists(path);
    }
    FileError {
        action: FileAction::PutInPlace,
        path: path.to_owned(),
        source: error,
    }
    .into()
}

/// Claims a file for this process: `path` is the user's, `file` is without links.
fn claim_file(path: &Path, file: &Path, overwrite: bool) -> Result<WorkFolder, RunError> {
    let folder = folder_of(file);
    if !folder.is_dir() {
        let (path, folder) = (path.display(), folder.display());
        let problem = format!("cannot write {path}: folder {folder} does not exist");
        return Err(Failure::new(problem)
            .of(path)
            .advise("create it first")
            .into());
    }
    refuse_existing(path, file, overwrite)?;
    let name = file.file_name().unwrap_or_default();
    let work = WorkFolder::claim(folder, name, path)?;
    // a process that just held the claim may have written the file
    refuse_existing(path, file, overwrite)?;
    Ok(work)
}

/// Refuses folders, and files that must not be replaced.
fn refuse_existing(path: &Path, file: &Path, overwrite: bool) -> Result<(), RunError> {
    if is_url(file) {
        return refuse_existing_object(file, overwrite);
    }
    if file.is_dir() {
        let folder = Failure::about(path.display(), " is a folder");
        return Err(folder.advise("give a file name").into());
    }
    if file.symlink_metadata().is_ok() && !overwrite {
        return Err(exists(path));
    }
    Ok(())
}

/// Refuses an object that must not be replaced. A store allows objects below another object's name.
fn refuse_existing_object(path: &Path, overwrite: bool) -> Result<(), RunError> {
    if overwrite {
        return Ok(());
    }
    match storage::file_data(path) {
        Ok(data) if data.kind == StoredKind::File => Err(exists(path)),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Ok(Err(error).with_path(FileAction::Write, path)?)
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn lower_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase()
}

fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        // the parent of a bare file name is the empty path, which no call accepts
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

struct CountedSink<'w> {
    sink: Box<dyn Write + Send + 'w>,
    bytes: u64,
}

impl Write for CountedSink<'_> {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        let written = self.sink.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}
