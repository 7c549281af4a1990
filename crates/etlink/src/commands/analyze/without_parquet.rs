//! Placeholder for builds without the feature `parquet`, which write no tables.

use super::results::{AnalyzedRun, AnalyzedTrace};
use crate::args::AnalyzeArgs;
use anyhow::Result;
use etlink_link::LinkedTrace;
use etlink_run::missing_feature;
use std::path::Path;

/// Output of `--parquet`; has no values.
pub(super) enum TableFiles {}

impl TableFiles {
    /// Rejects `--parquet`.
    pub(super) fn new(args: &AnalyzeArgs) -> Result<Option<TableFiles>> {
        if args.parquet.is_none() {
            return Ok(None);
        }
        Err(missing_feature("--parquet", "parquet").into())
    }

    pub(super) fn refuse_existing<'a>(
        &self,
        _: &Path,
        _: impl IntoIterator<Item = &'a str>,
    ) -> Result<()> {
        match *self {}
    }

    pub(super) fn write_tables(&self, _: &LinkedTrace, _: &AnalyzedTrace<'_>) -> Result<()> {
        match *self {}
    }

    pub(super) fn replace_tables<T>(&self, _: &[AnalyzedRun<T>]) -> Result<()> {
        match *self {}
    }
}
