//! Files of a run and of its ranks, as discovered.

use crate::captures::CaptureFiles;
use crate::file_error::FileError;
use crate::graphs::GraphSet;
use crate::measurements::MeasurementFile;
use crate::rank_rule::{FolderLayout, RankRule};
use crate::text;
use crate::text::file_name;
use etlink_model::{Diagnostic, DurationNs, diagnostic};
use etlink_torch::Rank;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Traces of one rank; any of them may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankFiles {
    /// Rank, if a name or a file states it.
    pub rank: Option<i64>,
    /// Name of the output: the rank, or the file name if ranks do not distinguish the files.
    pub label: String,
    /// Rule that determined the rank.
    pub told_by: RankRule,
    /// Host trace.
    pub host: Option<PathBuf>,
    /// Device trace.
    pub device: Option<PathBuf>,
    /// Process in the device trace's file, as identified there; `None` for the only one.
    pub process: Option<i64>,
    /// Device traces recorded while graphs were captured.
    pub captures: CaptureFiles,
    /// Dump of the rank's flight recorder, with descriptions of its collectives.
    pub flight: Option<PathBuf>,
    /// Log of NCCL's inspector of the rank's process.
    pub inspector: Option<PathBuf>,
    /// Metrics of the rank's kernels.
    pub metrics: Option<PathBuf>,
    /// True if several device traces claim the rank, so that it has none; a note names them.
    pub is_device_unsure: bool,
    /// Written graph of the rank, used in place of missing traces.
    pub graph: Option<PathBuf>,
    /// Data about the rank from the recording's manifest.
    pub manifest: ManifestEntry,
}

/// Returns the fact that a folder or file cannot be read.
pub fn unreadable_file(error: &FileError) -> Diagnostic {
    let why = text::error_chain(error);
    diagnostic!(FileUnreadable, "{why}: its contents are left out")
}

/// The traces of one folder.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunFiles {
    /// Folder, relative to the root of the search.
    pub folder: PathBuf,
    /// Ranks, sorted by rank, then by name.
    pub ranks: Vec<RankFiles>,
    /// Layout of the folders that were combined; `None` for a single folder.
    pub layout: Option<FolderLayout>,
    /// Facts about names and ranks for the user.
    pub diagnostics: Vec<Diagnostic>,
    /// Names and kinds of files that are not traces.
    pub unused: Vec<Diagnostic>,
    /// Measurements next to the traces, except metrics of kernels, which belong to ranks.
    pub measurements: Vec<MeasurementFile>,
    /// Prefix of the files' names, if they are written graphs.
    pub prefix: Option<PathBuf>,
    /// Part of a job that several launchers recorded; `None` for other runs.
    pub part: Option<JobPart>,
}

impl RankFiles {
    /// Adds the rank, or the file of an unknown rank, to a diagnostic as its subject.
    pub fn subject_of(&self, told: Diagnostic) -> Diagnostic {
        told.of_label(&self.label)
    }
}

impl RunFiles {
    /// Returns the first rank that several device traces claim, none of them with precedence, and
    /// these traces.
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

    /// Returns a run of a folder without any files yet.
    pub(crate) fn empty(folder: PathBuf) -> RunFiles {
        RunFiles {
            folder,
            ..RunFiles::default()
        }
    }

    /// Returns a run of one rank, named after its device trace.
    pub fn one_rank(host: Option<&Path>, device: &Path, captures: CaptureFiles) -> RunFiles {
        // the number of a descriptor would look like a rank
        let is_descriptor = ["/dev/fd", "/proc/self/fd"]
            .iter()
            .any(|folder| device.starts_with(folder));
        let label = match file_name(device) {
            // for `..` or `/`, which are refused when opened
            name if name.is_empty() || is_descriptor => "-".to_owned(),
            name => name,
        };
        let rank = RankFiles {
            label,
            host: host.map(Path::to_owned),
            device: Some(device.to_owned()),
            captures,
            manifest: ManifestEntry::of_trace(device),
            ..RankFiles::default()
        };
        RunFiles {
            ranks: vec![rank],
            ..RunFiles::default()
        }
    }

    /// Returns the written graphs of a run, found in `root`. If the folder has several runs, the
    /// run's name includes the prefix of its files.
    pub fn written(root: &Path, set: &GraphSet, is_one_of_several: bool) -> RunFiles {
        let name = set.prefix.strip_prefix(root).unwrap_or(&set.prefix);
        // otherwise outputs and reports of two runs in one folder would have the same name
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
            prefix: Some(set.prefix.clone()),
            ..RunFiles::default()
        }
    }

    /// Returns true if the files are written graphs, not traces.
    pub fn is_written(&self) -> bool {
        self.ranks.iter().any(|rank| rank.graph.is_some())
    }

    /// Returns each rank's files and the rules that assigned them; none for written graphs.
    pub fn pairings(&self) -> Vec<String> {
        let mut pairings = vec![];
        for rank in self.ranks.iter().filter(|rank| rank.graph.is_none()) {
            let files = [
                ("host trace", &rank.host),
                ("device trace", &rank.device),
                ("flight recorder dump", &rank.flight),
                ("NCCL inspector log", &rank.inspector),
            ];
            let files = files.into_iter().filter_map(|(what, path)| {
                let path = path.as_ref()?;
                Some(format!("{what} {}", path.display()))
            });
            let files: Vec<String> = files.collect();
            let layout = self.layout.map(FolderLayout::describe);
            let layout = layout.map_or(String::new(), |layout| format!("; {layout}"));
            pairings.push(format!(
                "{}: {}, by {}{layout}",
                text::rank(&rank.label),
                files.join(" and "),
                rank.told_by.describe()
            ));
        }
        pairings
    }
}

/// A folder of a job that several launchers recorded, possibly each into its own folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobPart {
    /// Name of the job, as stated by its launcher.
    pub job: String,
    /// Folder of the traces, relative to the manifest: a cycle's folder, or empty.
    pub within: PathBuf,
    /// Ranks of the folder, from the manifest.
    pub ranks: Vec<Rank>,
}

/// A flight recorder dump in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlightFile {
    /// Rank in the file's name, if any; dumps do not contain it.
    pub rank: Option<i64>,
    /// Path of the file.
    pub path: PathBuf,
}

/// Flight recorder dumps of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlightFolder {
    /// Folder, relative to the root of the search.
    pub folder: PathBuf,
    /// Dumps, sorted by rank, then by name.
    pub dumps: Vec<FlightFile>,
    /// Subfolders with the dumps, one per node of a job; empty if they are in `folder`.
    pub nodes: Vec<PathBuf>,
}

impl FlightFolder {
    /// Returns the names of the nodes' folders: `node0 and node1`.
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

    /// Returns a note on how the dumps were combined; `None` for a single folder.
    pub fn joined_note(&self) -> Option<Diagnostic> {
        if self.nodes.is_empty() {
            return None;
        }
        Some(diagnostic!(
            FoldersJoined,
            "the dumps in {} are read as one job: no rank is in two of these folders, \
             and their groups include ranks of the other folders",
            self.node_names()
        ))
    }
}

/// Data about a rank from a recording's manifest that its trace may lack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// Number of ranks.
    pub world_size: Option<i64>,
    /// Name that is equal for ranks with the same clock.
    pub machine: Option<String>,
    /// True if the host trace covers other steps than the device trace: `etlink record
    /// --interleave`.
    pub is_interleaved: bool,
    /// Note on the time of recorded steps relative to others, if recording slowed them down much.
    pub cost: Option<Diagnostic>,
    /// Median length of steps that were not recorded, ns.
    pub plain_step: Option<DurationNs>,
}
