//! Builds tables on demand: a notebook uses only a few of them.

use super::making::Making;
use super::rows::{HtaTrace, KeptRows, NamePatterns, rank_of};
use super::{HtaDetails, HtaOptions, HtaTables, PatternError};
use etlink_link::LinkedTrace;
use std::sync::OnceLock;

/// A trace whose HTA tables are built on demand. Keeps the trace.
#[derive(Debug)]
pub struct HtaOnDemand {
    trace: LinkedTrace,
    settings: HtaOptions,
    rows: OnceLock<KeptRows>,
}

impl HtaOnDemand {
    /// Takes the trace without computing anything.
    pub fn new(trace: LinkedTrace, settings: HtaOptions) -> HtaOnDemand {
        HtaOnDemand {
            trace,
            settings,
            rows: OnceLock::new(),
        }
    }

    /// Returns HTA's rank of the trace.
    pub fn rank(&self) -> i64 {
        rank_of(&self.trace, self.settings)
    }

    /// Builds only the tables with these names; all others stay empty.
    ///
    /// # Errors
    /// Never fails: HTA's patterns are valid.
    pub fn tables(&self, names: &[&str]) -> Result<(HtaTables, HtaDetails), PatternError> {
        let rows = match self.rows.get() {
            Some(rows) => rows,
            None => {
                let patterns = NamePatterns::new()?;
                let loaded = HtaTrace::new(&self.trace, &patterns, self.settings);
                // If two threads arrive here, the work of one is wasted.
                self.rows.get_or_init(|| loaded.into_kept())
            }
        };
        let loaded = HtaTrace::from_kept(&self.trace, self.settings, rows);
        let making = Making::new(&loaded);
        let is_wanted = |name: &str| names.contains(&name);
        let tables = HtaTables::make(&making, is_wanted);
        Ok((tables, HtaDetails::make(&making, is_wanted)))
    }
}
