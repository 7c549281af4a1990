//! Tables as Arrow batches.

use super::FindingsReport;
use crate::record_tables::records_table;
use anyhow::Result;
use arrow_array::RecordBatch;
use etlink_findings::{CauseEvidence, KINDS, RunFinding};

impl FindingsReport {
    /// Returns a table with a row per finding.
    ///
    /// # Errors
    /// Never fails because of the content.
    pub fn table(&self) -> Result<RecordBatch> {
        let blank = RunFinding {
            // any kind: the blank record only provides the names and types of columns
            kind: KINDS[0].kind,
            subject: String::new(),
            ranks: vec![],
            inferred: false,
            gain_ns: 0,
            gain_share: 0.0,
            cause: String::new(),
            figures: CauseEvidence::default(),
            title: String::new(),
            evidence: String::new(),
            remedy: "".into(),
        };
        records_table(Some(&blank), &self.found.findings)
    }
}
