//! Tables as Arrow batches.

use super::FindingsReport;
use crate::record_tables::records_table;
use anyhow::Result;
use arrow_array::RecordBatch;
use etlink_findings::{CauseEvidence, KINDS, RunFinding};

impl FindingsReport {
    /// A line for each finding.
    ///
    /// # Errors
    /// Not by anything in it.
    pub fn table(&self) -> Result<RecordBatch> {
        let blank = RunFinding {
            // any kind: of the blank record only the names and types of columns are taken
            kind: KINDS[0].kind,
            subject: String::new(),
            ranks: vec![],
            inferred: false,
            gain_ns: 0,
            gain_share: 0.0,
            evidence: CauseEvidence::default(),
            remedy: "".into(),
            sentence: String::new(),
        };
        records_table(Some(&blank), &self.found.findings)
    }
}
