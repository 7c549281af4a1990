//! `--parquet DIR`: the trace as tables.

use super::load::Of;
use crate::output::Target;
use anyhow::{Context, Result, bail};
use etlink_link::LinkedTrace;
use etlink_tables::Table;
use std::path::Path;

/// Writes `dir/<run>/<table>/<label>.parquet`: a folder per table, which readers take as one table.
pub(super) fn write(dir: &Path, trace: &LinkedTrace, of: &Of<'_>, force: bool) -> Result<()> {
    if of.written {
        bail!("--parquet is for recorded traces: a written graph has no events");
    }
    for table in Table::ALL {
        let folder = dir.join(of.run).join(table.name());
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make folder {}", folder.display()))?;
        let target = Target::fixed(&folder.join(format!("{}.parquet", of.label)), force)?;
        target.write(|out| Ok(table.write(trace, of.rank, out)?))?;
    }
    Ok(())
}
