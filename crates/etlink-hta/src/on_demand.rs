//! Tables that are made when they are asked for: a notebook wants few of them.

use super::making::Making;
use super::rows::{HtaTrace, KeptRows, NamePatterns, rank_of};
use super::{HtaDetails, HtaOptions, HtaTables, PatternError};
use etlink_link::LinkedTrace;
use std::sync::OnceLock;

/// A trace, and HTA's tables of it on demand. Keeps the trace.
#[derive(Debug)]
pub struct HtaOnDemand {
    trace: LinkedTrace,
    settings: HtaOptions,
    rows: OnceLock<KeptRows>,
}

impl HtaOnDemand {
    /// Takes the trace; nothing is computed.
    pub fn new(trace: LinkedTrace, settings: HtaOptions) -> HtaOnDemand {
        HtaOnDemand {
            trace,
            settings,
            rows: OnceLock::new(),
        }
    }

    /// HTA's rank of it.
    pub fn rank(&self) -> i64 {
        rank_of(&self.trace, self.settings)
    }

    /// The tables of these names alone; all others are empty.
    ///
    /// # Errors
    /// None: HTA's patterns are right.
    pub fn tables(&self, names: &[&str]) -> Result<(HtaTables, HtaDetails), PatternError> {
        let rows = match self.rows.get() {
            Some(rows) => rows,
            None => {
                let patterns = NamePatterns::new()?;
                let loaded = HtaTrace::new(&self.trace, &patterns, self.settings);
                // of two threads that come here one is for nothing
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
