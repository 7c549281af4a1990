//! Copies of a run's traces without the names that tell whose run it is.
//!
//! Only what is known to describe PyTorch, the device, and shapes is copied: names of ops, kernels,
//! and calls, numbers, types, and known annotations. Every other text is replaced by a kind and a
//! number, the same in all files of the run, or left out with its field. So a text that nobody has
//! thought of does not get through.

mod names;
mod nodes;
mod rows;

use crate::discover::rank_in_name;
use crate::file_error::{FileAction, FileContext};
use crate::input::{self, InputKind};
use crate::one_run::Run;
use crate::progress::Progress;
use crate::run::{RunOptions, RunSource};
use crate::storage;
use crate::text;
use crate::{RunError, file_kind};
use etlink_model::Failure;
use flate2::Compression;
use flate2::write::GzEncoder;
use names::Names;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What was copied.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnonymousCopy {
    /// Folder with the copies.
    pub output: PathBuf,
    /// Names of the copies in the folder.
    pub files: Vec<String>,
    /// Number of different texts that were replaced.
    pub replaced: usize,
    /// Names of the fields that were left out, sorted.
    pub left_out: Vec<String>,
    /// Files that were not copied, some with their kind or the reason.
    pub not_copied: Vec<String>,
    /// True if a trace could not be copied.
    #[serde(skip)]
    pub is_partial: bool,
}

/// Copies the host and device traces of `source`, a trace or the folder of a run, into the new folder
/// `output`, as `torch_et_RANK.json.gz` and `kineto_trace_RANK.json.gz`. Reads each file once, an event
/// at a time.
///
/// # Errors
/// `output` exists, a file cannot be read or written, or no trace is JSON of PyTorch. Then nothing
/// is left behind. A single trace that is not JSON is left out.
pub fn copy_anonymously(source: &Path, output: &Path) -> Result<AnonymousCopy, RunError> {
    if output == Path::new("-") || storage::is_url(output) {
        let failure = Failure::about(output.display().to_string(), " cannot hold the copies");
        return Err(failure
            .advise("give the name of a new folder on a disk")
            .into());
    }
    if file_kind::is_folder(output) || output.exists() {
        let failure = Failure::about(output.display().to_string(), " exists");
        return Err(failure.advise("give the name of a new folder").into());
    }
    let options = RunOptions {
        traces_only: true,
        ..RunOptions::default()
    };
    let run = Run::open(RunSource::with_stated_rank(source), options)?;
    let parent = match output.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let staged = tempfile::Builder::new()
        .prefix(".etlink-")
        .tempdir_in(parent)
        .with_path(FileAction::Write, parent)?;
    let mut names = Names::default();
    let (mut files, mut labels) = (vec![], BTreeSet::new());
    let mut refused = vec![];
    let unused = run.files().unused.iter();
    let mut not_copied: Vec<String> = unused.map(ToString::to_string).collect();
    for (number, rank) in run.ranks().enumerate() {
        let traces = rank.files();
        // a file's own name may tell something, and two files may claim one rank
        let mut stated = traces.rank;
        if !file_kind::is_folder(source) {
            stated = stated.or_else(|| Some(rank_in_name(&text::file_name(source))?.0));
        }
        let label = match stated.map(|rank| rank.to_string()) {
            Some(rank) if labels.insert(rank.clone()) => rank,
            _ => format!("file{number}"),
        };
        let of_rank = [
            &traces.flight,
            &traces.inspector,
            &traces.metrics,
            &traces.graph,
        ];
        let of_rank = of_rank.into_iter().flatten().chain(&traces.captures.paths);
        not_copied.extend(of_rank.map(|path| path.display().to_string()));
        for path in [&traces.host, &traces.device].into_iter().flatten() {
            match copy_trace(path, (staged.path(), &label), &mut names) {
                Ok(name) => files.push(name),
                Err(error @ RunError::Failed(_)) => refused.push(error),
                Err(error) => return Err(error),
            }
        }
    }
    if files.is_empty() && !refused.is_empty() {
        return Err(RunError::no_trace_taken(refused));
    }
    not_copied.extend(refused.iter().map(|error| text::error_chain(error)));
    std::fs::rename(staged.path(), output).with_path(FileAction::Write, output)?;
    // it has another name now, so that there is nothing to remove
    let _ = staged.keep();
    Ok(AnonymousCopy {
        output: output.to_owned(),
        files,
        replaced: names.replaced(),
        left_out: names.left_out(),
        not_copied,
        is_partial: !refused.is_empty(),
    })
}

/// Copies a trace into a folder, and returns the name of the copy: its kind, as the content shows
/// it, and the label of the rank.
fn copy_trace(
    path: &Path,
    (folder, label): (&Path, &str),
    names: &mut Names,
) -> Result<String, RunError> {
    let input = input::open(path, &Progress::hidden())?;
    let (kind, list) = match input.kind {
        InputKind::KinetoTrace => ("kineto_trace", "traceEvents"),
        InputKind::HostTrace => ("torch_et", "nodes"),
        kind => {
            let what = format!(
                " is {}, which cannot be copied anonymously",
                kind.describe()
            );
            let failure = Failure::about(input.name, what);
            return Err(failure
                .advise("give traces of PyTorch: execution traces and Kineto traces")
                .into());
        }
    };
    let name = format!("{kind}_{label}.json.gz");
    let copy = &folder.join(&name);
    let file = File::create_new(copy).with_path(FileAction::Write, copy)?;
    let packed = GzEncoder::new(BufWriter::new(file), Compression::default());
    let mut trace = TraceCopy {
        out: BufWriter::new(packed),
        list,
        names,
    };
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(input.content));
    let copied = json
        .deserialize_map(&mut trace)
        .and_then(|()| json.end())
        .map_err(|error| {
            let failure = Failure::about(input.name, format!(" cannot be copied: {error}"));
            RunError::from(failure.advise("pass a whole trace in valid JSON"))
        });
    if let Err(error) = copied {
        // the copy of a trace that ends early
        let _ = std::fs::remove_file(copy);
        return Err(error);
    }
    finish(trace.out).with_path(FileAction::Write, copy)?;
    Ok(name)
}

fn finish(out: BufWriter<GzEncoder<BufWriter<File>>>) -> io::Result<()> {
    let packed = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let mut file = packed.finish()?;
    file.flush()?;
    file.get_ref().sync_all()
}

/// Writer of a copy, fed by the parser.
struct TraceCopy<'n, W> {
    out: W,
    /// Name of the list of events or nodes.
    list: &'static str,
    names: &'n mut Names,
}

impl<W: Write> TraceCopy<'_, W> {
    /// Writes an event or a node. Its times are copied digit by digit: they have more digits than a
    /// floating-point number.
    fn write_item(
        &mut self,
        separator: &str,
        raw: BTreeMap<String, Box<RawValue>>,
    ) -> io::Result<()> {
        let mut item = Map::new();
        let mut times = vec![];
        for (key, value) in raw {
            let text = value.get();
            let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
            if is_number && ["ts", "dur"].contains(&&key[..]) {
                times.push(format!("\"{key}\":{text}"));
            } else {
                item.insert(key, serde_json::from_str(text)?);
            }
        }
        match self.list {
            "nodes" => nodes::replace_names(&mut item, self.names),
            _ => rows::replace_names(&mut item, self.names),
        }
        let mut written = Value::Object(item).to_string();
        if !times.is_empty() {
            // before the closing brace; an event with times has more fields
            written.pop();
            written += &format!(",{}}}", times.join(","));
        }
        write!(self.out, "{separator}{written}")
    }

    fn write_field(&mut self, is_first: &mut bool, key: &str) -> io::Result<()> {
        let comma = if *is_first { "" } else { "," };
        *is_first = false;
        write!(self.out, "{comma}\n{}: ", Value::from(key))
    }
}

impl<'de, W: Write> Visitor<'de> for &mut TraceCopy<'_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut is_first = true;
        write!(self.out, "{{").map_err(A::Error::custom)?;
        while let Some(key) = map.next_key::<String>()? {
            if key == self.list {
                self.write_field(&mut is_first, &key)
                    .map_err(A::Error::custom)?;
                map.next_value_seed(ListCopy(self))?;
                continue;
            }
            let value = map.next_value()?;
            let value = match self.list {
                "nodes" => nodes::header_field(&key, value, self.names),
                _ => rows::header_field(&key, value, self.names),
            };
            let Some(value) = value else {
                self.names.leave_out(&key);
                continue;
            };
            self.write_field(&mut is_first, &key)
                .and_then(|()| write!(self.out, "{value}"))
                .map_err(A::Error::custom)?;
        }
        write!(self.out, "\n}}\n").map_err(A::Error::custom)
    }
}

/// Copies the list of events or nodes.
struct ListCopy<'c, 'n, W>(&'c mut TraceCopy<'n, W>);

impl<'de, W: Write> DeserializeSeed<'de> for ListCopy<'_, '_, W> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, W: Write> Visitor<'de> for ListCopy<'_, '_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}", self.0.list)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let copy = self.0;
        let mut separator = "[\n";
        while let Some(raw) = list.next_element::<BTreeMap<String, Box<RawValue>>>()? {
            copy.write_item(separator, raw).map_err(A::Error::custom)?;
            separator = ",\n";
        }
        let open = if separator == "[\n" { "[" } else { "" };
        write!(copy.out, "{open}\n]").map_err(A::Error::custom)
    }
}

/// Parses text that holds JSON, such as the process groups in an execution trace.
fn nested_json(text: &str) -> Option<Value> {
    Value::deserialize(&mut serde_json::Deserializer::from_str(text)).ok()
}
