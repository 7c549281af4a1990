//! Assigns sizes of copies that are recorded only at their launch calls: ROCm's calls have a
//! `size`, its rows no `bytes`.

use etlink_model::{Correlation, DeviceRows, RowKind};
use rustc_hash::FxHashMap;

/// Bytes to copy per call, with the call's correlation id.
#[derive(Default)]
pub(crate) struct CopySizes(Vec<(Correlation, u64)>);

impl CopySizes {
    /// Records a call that copies `bytes` bytes.
    pub(crate) fn push(&mut self, id: Correlation, bytes: u64) {
        self.0.push((id, bytes));
    }

    /// Appends the sizes of a chunk.
    pub(crate) fn append(&mut self, other: &mut CopySizes) {
        self.0.append(&mut other.0);
    }

    /// Sets the size of copies that do not state one to the size of their call. If calls with the
    /// same id differ, or a call has several copies, the size stays unknown. O(calls + rows).
    pub(crate) fn give(self, rows: &mut DeviceRows) {
        let mut sizes: FxHashMap<Correlation, u64> = FxHashMap::default();
        for (id, bytes) in self.0 {
            let known = sizes.entry(id).or_insert(bytes);
            // Correlation ids restart with each session and process, so calls may share one by
            // chance.
            *known = if *known == bytes { bytes } else { 0 };
        }
        let copies: Vec<usize> = (0..rows.len())
            .filter(|row| {
                rows.kind[*row] == RowKind::Memcpy && sizes.contains_key(&rows.correlation[*row])
            })
            .collect();
        let mut of: FxHashMap<Correlation, u32> = FxHashMap::default();
        copies
            .iter()
            .for_each(|row| *of.entry(rows.correlation[*row]).or_default() += 1);
        for row in copies {
            let id = rows.correlation[row];
            // The size of a call with several rows covers all of them.
            if rows.bytes[row] == 0 && of[&id] == 1 {
                rows.bytes[row] = sizes[&id];
            }
        }
    }
}
