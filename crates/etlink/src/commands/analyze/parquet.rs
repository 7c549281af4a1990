//! `--parquet DIR`: the trace as tables, `DIR/<run>/<table>/<label>.parquet`: a folder per table, which readers take as one table.

use super::load::Of;
use super::told::Told;
use anyhow::{Context, Result, bail};
use etlink_link::LinkedTrace;
use etlink_run::output::Target;
use etlink_tables::Table;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Refuses files that are there already, before any work is done.
pub(super) fn check<'a>(
    dir: &Path,
    run: &Path,
    labels: impl IntoIterator<Item = &'a str>,
    force: bool,
) -> Result<()> {
    for label in labels {
        for table in Table::ALL {
            file(dir, run, table, label, force)?;
        }
    }
    Ok(())
}

/// Writes the tables of a trace.
pub(super) fn write(dir: &Path, trace: &LinkedTrace, of: &Of<'_>, force: bool) -> Result<()> {
    if of.written {
        bail!("--parquet is for recorded traces: a written graph has no events");
    }
    let targets = Table::ALL.map(|table| Ok((table, file(dir, of.run, table, of.label, force)?)));
    for (table, target) in targets.into_iter().collect::<Result<Vec<_>>>()? {
        target.write(|out| Ok(table.write(trace, of.rank, out)?))?;
    }
    Ok(())
}

fn folder(dir: &Path, run: &Path, table: Table) -> PathBuf {
    dir.join(run).join(table.name())
}

fn file(dir: &Path, run: &Path, table: Table, label: &str, force: bool) -> Result<Target> {
    let folder = folder(dir, run, table);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make folder {}", folder.display()))?;
    Target::fixed(&folder.join(format!("{label}.parquet")), force)
}

/// Takes away the tables of traces that turned out not to be of the run, and with `force`, which replaces a run as a whole, those that an earlier
/// run left.
pub(super) fn clean<T>(dir: &Path, told: &Told<T>, force: bool) -> Result<()> {
    let name = |label: &str| format!("{label}.parquet");
    let kept: BTreeSet<String> = told.ranks.iter().map(|rank| name(&rank.label)).collect();
    let left_out: BTreeSet<String> = told
        .left_out
        .iter()
        .map(|stray| name(&stray.label))
        .collect();
    for table in Table::ALL {
        let folder = folder(dir, Path::new(&told.run), table);
        for entry in std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read folder {}", folder.display()))?
        {
            let path = entry?.path();
            let Some(name) = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
            else {
                continue;
            };
            if left_out.contains(&name)
                || force && name.ends_with(".parquet") && !kept.contains(&name)
            {
                std::fs::remove_file(&path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
    }
    Ok(())
}
