//! Drafts drawn by tests.

use super::draft::{Draft, SlotIdx};
use super::kinds::NodeKind;
use etlink_model::{ThreadIdx, TimeNs};

/// Draws threads with slices of `kind` that begin at the given times; the last time of each thread
/// is its end. Leaves room for `rows` device rows. Slices have the sources 0, 1, …
pub(super) fn slices(kind: NodeKind, threads: &[&[i64]], rows: usize) -> Draft {
    let sizes = threads.iter().map(|times| times.len() - 1);
    let mut draft = Draft::new(sizes, rows);
    let mut tracks = vec![];
    for ((mut track, times), thread) in draft
        .threads()
        .into_iter()
        .zip(threads)
        .zip((0..).map(ThreadIdx))
    {
        let (end, begins) = times.split_last().expect("an end");
        for (source, begin) in (0..).zip(begins) {
            track.push(kind, source, true, TimeNs(*begin));
        }
        tracks.push(track.close(thread, TimeNs(*end)));
    }
    draft.tracks = tracks;
    draft
}

/// Returns the slot of this number. A thread's first slot is its boundary's, the last one its
/// end's.
pub(super) fn slot(number: usize) -> SlotIdx {
    (0..number).fold(SlotIdx::default(), |slot, _| slot.after())
}
