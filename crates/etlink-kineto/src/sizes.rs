//! Sizes of copies that only their launch calls have: those of ROCm have a `size`, the rows no
//! `bytes`.

use etlink_model::{Correlation, DeviceRows, RowKind};
use rustc_hash::FxHashMap;

/// By correlation id, the bytes that a call was to copy.
#[derive(Default)]
pub(crate) struct CopySizes(Vec<(Correlation, u64)>);

impl CopySizes {
    /// A call that copies, and how much.
    pub(crate) fn push(&mut self, id: Correlation, bytes: u64) {
        self.0.push((id, bytes));
    }

    /// Takes over those of a chunk.
    pub(crate) fn append(&mut self, other: &mut CopySizes) {
        self.0.append(&mut other.0);
    }

    /// Gives copies that do not say their size that of their call. Where calls with one id differ,
    /// or a call has several copies, none is known. O(calls + rows).
    pub(crate) fn give(self, rows: &mut DeviceRows) {
        let mut sizes: FxHashMap<Correlation, u64> = FxHashMap::default();
        for (id, bytes) in self.0 {
            let known = sizes.entry(id).or_insert(bytes);
            // Correlation ids start again with each session
            // and process: calls may share one by chance.
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
            // The size of a call with several rows is that of all of them.
            if rows.bytes[row] == 0 && of[&id] == 1 {
                rows.bytes[row] = sizes[&id];
            }
        }
    }
}
