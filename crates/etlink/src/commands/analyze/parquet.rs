//! `--parquet DIR`: the trace as tables, `DIR/<run>/<table>/<label>.parquet`: a folder per table,
//! which readers treat as one table.

use super::results::{AnalyzedRun, AnalyzedTrace};
use crate::args::AnalyzeArgs;
use crate::trace_tables::graph_times;
use anyhow::{Context, Result, bail};
use etlink_link::LinkedTrace;
use etlink_run::output::{FileSet, OutputFormat};
use etlink_run::storage;
use etlink_tables::{TraceTable, has_mark};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Output files of `--parquet`: a set per run.
pub(super) struct TableFiles {
    dir: PathBuf,
    overwrite: bool,
    /// True to replace all files of an earlier run, including ranks that this run does not have.
    whole: bool,
    /// Tables of each run, by the run's folder.
    runs: Mutex<BTreeMap<PathBuf, Arc<ParquetRun>>>,
}

/// The tables of one run.
struct ParquetRun {
    set: FileSet,
    /// Names of all files of an earlier run that this run replaces.
    earlier: Vec<String>,
}

impl TableFiles {
    /// Makes the output files; `None` without `--parquet`.
    pub(super) fn new(args: &AnalyzeArgs) -> Result<Option<TableFiles>> {
        let Some(dir) = args.parquet.clone() else {
            return Ok(None);
        };
        Ok(Some(TableFiles {
            dir,
            overwrite: args.overwrite.overwrite,
            // if only some ranks are analyzed, the tables of the others are not stale
            whole: args.overwrite.overwrite
                && storage::is_folder(&args.path)
                && args.choice.ranks.is_none(),
            runs: Mutex::new(BTreeMap::new()),
        }))
    }

    /// Rejects files that already exist, before any work is done.
    pub(super) fn refuse_existing<'a>(
        &self,
        run: &Path,
        labels: impl IntoIterator<Item = &'a str>,
    ) -> Result<()> {
        let files = self.run_files(run)?;
        for label in labels {
            for table in TraceTable::ALL {
                files
                    .set
                    // the format does not matter: the table's writer fills the file
                    .target(&file_name(table, label), OutputFormat::EtPlus)?;
            }
        }
        Ok(())
    }

    /// Writes the tables of a trace under temporary names, until all are [put in
    /// place](TableFiles::replace_tables).
    pub(super) fn write_tables(&self, trace: &LinkedTrace, of: &AnalyzedTrace<'_>) -> Result<()> {
        if of.written {
            bail!("--parquet needs recorded traces: a written graph has no events");
        }
        let files = self.run_files(of.run)?;
        let times = graph_times(trace)?;
        for table in TraceTable::ALL {
            let target = files
                .set
                .target(&file_name(table, of.label), OutputFormat::EtPlus)?;
            target.write(|out| Ok(table.write(trace, of.rank, &times, out)?))?;
        }
        Ok(())
    }

    /// Puts the tables of the runs in place, without tables of excluded traces, and removes the
    /// tables of an earlier run. Changes nothing if traces are excluded and tables of an earlier
    /// run would be lost.
    pub(super) fn replace_tables<T>(&self, runs: &[AnalyzedRun<T>]) -> Result<()> {
        for run in runs {
            let files = self.run_files(Path::new(&run.run))?;
            for excluded in &run.excluded {
                for table in TraceTable::ALL {
                    files.set.discard(&file_name(table, &excluded.label));
                }
            }
            let stale = files.earlier.iter().filter(|name| !files.set.has(name));
            let stale: Vec<String> = stale.cloned().collect();
            if let (Some(first), false) = (stale.first(), run.excluded.is_empty()) {
                bail!(
                    "{}: no table was replaced: {first} of an earlier run would be lost (traces left \
                    out: {}). Fix the errors above, write to another folder, or remove the \
                     file",
                    files.set.folder().display(),
                    run.excluded.len()
                );
            }
            files.set.replace(stale)?;
        }
        Ok(())
    }

    fn run_files(&self, run: &Path) -> Result<Arc<ParquetRun>> {
        // the map is always consistent: a panic on another rank's thread does no harm
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(files) = runs.get(run) {
            // a set holds the lock of its folder: a second set in this process would be refused
            return Ok(Arc::clone(files));
        }
        let set = FileSet::new(&self.dir.join(run), self.overwrite)?;
        let earlier = if self.whole {
            earlier_tables(set.folder())?
        } else {
            vec![]
        };
        let files = Arc::new(ParquetRun { set, earlier });
        runs.insert(run.to_owned(), Arc::clone(&files));
        Ok(files)
    }
}

fn file_name(table: TraceTable, label: &str) -> String {
    format!("{}/{label}.parquet", table.name())
}

/// Returns the names of the tables that an earlier run wrote.
///
/// # Errors
/// The folder has other tables: readers would treat them as part of the table.
fn earlier_tables(folder: &Path) -> Result<Vec<String>> {
    let mut names = vec![];
    for table in TraceTable::ALL {
        let folder = folder.join(table.name());
        let failed = || format!("cannot read folder {}", folder.display());
        let entries = match storage::list(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.with_context(failed)?,
        };
        for entry in entries {
            let is_file = entry.may_be_file();
            let path = entry.path;
            // readers take `*.parquet` of a folder: other files do no harm
            if path.extension().is_none_or(|ending| ending != "parquet") {
                continue;
            }
            let name = path.file_name().and_then(|name| name.to_str());
            let (Some(name), true) = (name, is_file && is_ours(&path)) else {
                bail!(
                    "{} was not written by etlink, so --overwrite does not remove it; move it \
                     away or use another \
                     folder",
                    path.display()
                );
            };
            names.push(format!("{}/{name}", table.name()));
        }
    }
    // folders are listed in any order, and messages name the first file
    names.sort();
    Ok(names)
}

fn is_ours(path: &Path) -> bool {
    storage::open_to_seek(path).is_ok_and(has_mark)
}
