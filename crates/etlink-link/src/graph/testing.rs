//! Drafts as tests draw them.

use super::draft::{Draft, SlotIdx};
use super::kinds::NodeKind;
use etlink_model::{ThreadIdx, TimeNs};

/// Threads with slices of a kind that begin at these times, and the time at which each thread ends;
/// room for `rows` device rows. Slices have the sources 0, 1, …
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

/// The slot of this number. Of a thread the first is its boundary's, the last its end's.
pub(super) fn slot(number: usize) -> SlotIdx {
    (0..number).fold(SlotIdx::default(), |slot, _| slot.after())
}
