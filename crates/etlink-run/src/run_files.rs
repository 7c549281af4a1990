//! The files of a run and of its ranks, as they were found.

use crate::file_error::FileError;
use crate::graphs::GraphSet;
use crate::measurements::MeasurementFile;
use crate::rank_rule::{FolderLayout, RankRule};
use crate::text;
use crate::text::file_name;
use etlink_torch::Rank;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The traces of one rank, as far as they are there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankFiles {
    /// Rank, if any name or file tells.
    pub rank: Option<i64>,
    /// What names the output: the rank, or the file's own name where ranks do not tell files apart.
    pub label: String,
    /// By what that is known.
    pub told_by: RankRule,
    /// Host trace.
    pub host: Option<PathBuf>,
    /// Device trace.
    pub device: Option<PathBuf>,
    /// Which of the processes in the file of the device trace it is, as the file calls it; `None`:
    /// the only one.
    pub process: Option<i64>,
    /// Device trace of the time when its graphs were captured, where one was named.
    pub capture: Option<PathBuf>,
    /// Dump of the rank's flight recorder, which says what its collectives are.
    pub flight: Option<PathBuf>,
    /// Metrics of its kernels.
    pub metrics: Option<PathBuf>,
    /// Several device traces claim the rank, so that it has none: a note of the run names them.
    pub is_device_unsure: bool,
    /// Its written graph, which stands for traces that are not there.
    pub graph: Option<PathBuf>,
    /// What the manifest of the recording says of it.
    pub manifest: ManifestEntry,
}

/// How notes end of what cannot be read.
const LEFT_OUT: &str = ": what is in it is left out";

/// The note of a folder or file that cannot be read.
pub(crate) fn unreadable_note(error: &FileError) -> String {
    text::error_chain(error) + LEFT_OUT
}

/// Whether a note is of a folder or file that cannot be read, and so of no run.
pub fn is_of_no_run(note: &str) -> bool {
    note.starts_with("cannot ") && note.ends_with(LEFT_OUT)
}

/// The traces of one folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunFiles {
    /// The folder, relative to where the search began.
    pub folder: PathBuf,
    /// By rank, then by name.
    pub ranks: Vec<RankFiles>,
    /// Which folders it was put together from, where there are several.
    pub layout: Option<FolderLayout>,
    /// What the user should know about names and ranks.
    pub notes: Vec<String>,
    /// Files that are no traces, and what they are.
    pub unused: Vec<String>,
    /// What was measured beside its traces, but metrics of kernels, which are of a rank.
    pub measurements: Vec<MeasurementFile>,
    /// What the names of its files begin with, where they were written of traces.
    pub prefix: Option<PathBuf>,
    /// Whether its ranks recorded other iterations, by the manifest of the recording.
    pub are_apart: bool,
    /// What it is of a job that several launchers recorded, if it is.
    pub part: Option<JobPart>,
    /// Whether folders or files cannot be read that lie in the folder that was searched, of this run or
    /// of no run: the first run of the folder has it, and their notes.
    pub has_unreadable: bool,
}

impl RunFiles {
    /// The first rank that several device traces claim, none of them by a name that counts, and these.
    pub(crate) fn rivals(&self) -> Option<(i64, Vec<&Path>)> {
        let claimed = |ranks: &RankFiles| ranks.rank.filter(|rank| ranks.label != rank.to_string());
        let mut claims: BTreeMap<i64, Vec<&Path>> = BTreeMap::new();
        for ranks in &self.ranks {
            if let (Some(rank), Some(device)) = (claimed(ranks), &ranks.device) {
                claims.entry(rank).or_default().push(device);
            }
        }
        claims.into_iter().find(|(_, files)| files.len() > 1)
    }

    /// A run of a folder in which nothing was found yet.
    pub(crate) fn empty(folder: PathBuf) -> RunFiles {
        RunFiles {
            folder,
            ranks: vec![],
            layout: None,
            notes: vec![],
            unused: vec![],
            measurements: vec![],
            prefix: None,
            are_apart: false,
            part: None,
            has_unreadable: false,
        }
    }

    /// A run of one rank, which is called by the name of its device trace.
    pub fn one_rank(host: Option<&Path>, device: &Path, capture: Option<&Path>) -> RunFiles {
        // a number of a descriptor would pass for that of a rank
        let is_descriptor = ["/dev/fd", "/proc/self/fd"]
            .iter()
            .any(|folder| device.starts_with(folder));
        let label = match file_name(device) {
            // of `..` or `/`, which are refused when they are opened
            name if name.is_empty() || is_descriptor => "-".to_owned(),
            name => name,
        };
        let rank = RankFiles {
            label,
            host: host.map(Path::to_owned),
            device: Some(device.to_owned()),
            capture: capture.map(Path::to_owned),
            manifest: ManifestEntry::of_trace(device),
            ..RankFiles::default()
        };
        RunFiles {
            folder: PathBuf::new(),
            ranks: vec![rank],
            layout: None,
            notes: vec![],
            unused: vec![],
            measurements: vec![],
            prefix: None,
            are_apart: false,
            part: None,
            has_unreadable: false,
        }
    }

    /// The written graphs of a run, found in `root`. One of several runs in a folder is called by
    /// the prefix of its files too.
    pub fn written(root: &Path, set: &GraphSet, is_one_of_several: bool) -> RunFiles {
        let name = set.prefix.strip_prefix(root).unwrap_or(&set.prefix);
        // outputs and reports of two runs in one folder would bear one name else
        let folder = if is_one_of_several {
            name
        } else {
            name.parent().unwrap_or(Path::new(""))
        };
        let mut ranks = vec![];
        for (rank, path) in &set.ranks {
            ranks.push(RankFiles {
                rank: Some(*rank),
                label: rank.to_string(),
                graph: Some(path.clone()),
                ..RankFiles::default()
            });
        }
        RunFiles {
            folder: folder.to_owned(),
            ranks,
            layout: None,
            notes: vec![],
            unused: vec![],
            measurements: vec![],
            prefix: Some(set.prefix.clone()),
            are_apart: false,
            part: None,
            has_unreadable: false,
        }
    }

    /// The same, of merged JSON: its files can have the traces that they were made from.
    pub(crate) fn into_traces(mut self) -> RunFiles {
        for rank in &mut self.ranks {
            rank.device = rank.graph.take();
        }
        self
    }

    /// Whether its files are written graphs, not traces.
    pub fn is_written(&self) -> bool {
        self.ranks.iter().any(|rank| rank.graph.is_some())
    }

    /// Which files are whose, and by what that is known; nothing of written graphs.
    pub fn pairing_notes(&self) -> Vec<String> {
        let mut notes = vec![];
        for rank in self.ranks.iter().filter(|rank| rank.graph.is_none()) {
            let files = [
                ("host trace", &rank.host),
                ("device trace", &rank.device),
                ("flight recorder's dump", &rank.flight),
            ];
            let files = files.into_iter().filter_map(|(what, path)| {
                let path = path.as_ref()?;
                Some(format!("{what} {}", path.display()))
            });
            let files: Vec<String> = files.collect();
            let layout = self.layout.map(FolderLayout::describe);
            let layout = layout.map_or(String::new(), |layout| format!("; {layout}"));
            notes.push(format!(
                "{}: {}, by {}{layout}",
                text::rank(&rank.label),
                files.join(" and "),
                rank.told_by.describe()
            ));
        }
        notes
    }

    /// What is to be known of it, after its name where it has one.
    pub fn named_notes(&self) -> impl Iterator<Item = String> {
        let name = if self.folder.as_os_str().is_empty() {
            String::new()
        } else {
            format!("{}: ", self.folder.display())
        };
        self.notes.iter().map(move |note| {
            if is_of_no_run(note) {
                note.clone()
            } else {
                format!("{name}{note}")
            }
        })
    }
}

/// A folder of a job that several launchers recorded, each perhaps into a folder of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobPart {
    /// The job, as its launcher says it.
    pub job: String,
    /// The folder of the traces, relative to the manifest: that of a cycle, or empty.
    pub within: PathBuf,
    /// Its ranks, by the manifest.
    pub ranks: Vec<Rank>,
}

/// A dump in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlightFile {
    /// Rank, if its name tells: dumps do not say it.
    pub rank: Option<i64>,
    /// The file.
    pub path: PathBuf,
}

/// The dumps of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlightFolder {
    /// The folder, relative to where the search began.
    pub folder: PathBuf,
    /// By rank, then by name.
    pub dumps: Vec<FlightFile>,
    /// The folders in it, one for each node of a job, that the dumps lie in; empty: in `folder`.
    pub nodes: Vec<PathBuf>,
}

impl FlightFolder {
    /// The folders of the nodes: `node0 and node1`.
    pub(crate) fn node_names(&self) -> String {
        let names = self.nodes.iter().map(|node| {
            if node.as_os_str().is_empty() {
                "the folder itself".to_owned()
            } else {
                node.display().to_string()
            }
        });
        let names: Vec<String> = names.collect();
        match &names[..] {
            [] => String::new(),
            [one] => one.clone(),
            [first, last] => format!("{first} and {last}"),
            [first, .., last] => format!("{first} to {last}"),
        }
    }

    /// What to say of how its dumps were put together.
    pub fn joined_note(&self) -> Option<String> {
        if self.nodes.is_empty() {
            return None;
        }
        Some(format!(
            "the dumps in {} are taken for those of one job: no rank is in two of these folders, \
             and the groups in them have the others' ranks",
            self.node_names()
        ))
    }
}

/// What the manifest of a recording says of a rank that a trace need not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// Number of ranks.
    pub world_size: Option<i64>,
    /// The same for ranks whose times are by one clock.
    pub machine: Option<String>,
    /// The host trace is of other steps than the device trace: `etlink record --interleave`.
    pub is_interleaved: bool,
    /// What recording did to the times; of a trace that is given by itself, where nothing else
    /// says it.
    pub cost: Option<String>,
}
