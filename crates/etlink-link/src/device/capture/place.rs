//! Aligns the rows of a graph launch with the launches of a capture.
//!
//! Names repeat from layer to layer, and a row can be missing. So the rows of a stream are aligned
//! twice: from the front, each with the first remaining launch of its name, and from the back
//! likewise. If both ways agree on a row, its place is unique. If they differ, several launches are
//! possible.
//!
//! ```text
//! capture      a b c a b b c
//! from front   a b c a b . c         rows a b c a b c, a `b` is missing:
//! from back    a b c a . b c         the second b may be either, all others have one place
//! ```
//! Streams of one launch run in parallel, so time orders rows only within a stream. Each stream is
//! aligned with the launches of names that occur only on it; rows with names of several streams
//! stay open.

use crate::limits::LEFT_OVER;

/// A row of a graph launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GraphRow {
    /// Number of what the row runs.
    pub(super) token: u32,
    /// Stream of the row; rows of one lane are ordered.
    pub(super) lane: u32,
}

/// Place of a row in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CapturePlace {
    /// The capture has no such launch.
    Nowhere,
    /// Several launches of the capture are possible.
    Several,
    /// Only this launch of the capture is possible.
    At(u32),
}

/// True if the order of all rows is known.
pub(super) fn single_lane(steps: &[GraphRow]) -> bool {
    steps.windows(2).all(|pair| pair[0].lane == pair[1].lane)
}

/// Returns the place of each row in `capture`; `None` if the two do not fit. O(n log n).
pub(super) fn place(steps: &[GraphRow], capture: &[u32]) -> Option<Vec<CapturePlace>> {
    // most captures are of other graphs: their number of launches shows it
    if !nearly(
        steps.len().min(capture.len()),
        steps.len().max(capture.len()),
    ) {
        return None;
    }
    let mut known = capture.to_vec();
    known.sort_unstable();
    known.dedup();
    let owners = owners(steps);
    let mut rows: Vec<(u32, u32)> = vec![];
    let mut places = vec![CapturePlace::Nowhere; steps.len()];
    let mut fitting = 0;
    for (step, row) in steps.iter().zip(0u32..) {
        if known.binary_search(&step.token).is_err() {
            continue;
        }
        fitting += 1;
        match owner(&owners, step.token) {
            Some(lane) => rows.push((lane, row)),
            None => places[row as usize] = CapturePlace::Several,
        }
    }
    if fitting > capture.len() || !nearly(fitting, steps.len()) || !nearly(fitting, capture.len()) {
        return None;
    }
    let mut launches: Vec<(u32, u32)> = capture
        .iter()
        .zip(0..)
        .filter_map(|(token, at)| Some((owner(&owners, *token)?, at)))
        .collect();
    // stable: keeps the order within a lane
    rows.sort_by_key(|&(lane, _)| lane);
    launches.sort_by_key(|&(lane, _)| lane);
    // Both lists are sorted by lane, so one pass over `launches` serves all lanes.
    let mut rest = &launches[..];
    for rows in rows.chunk_by(|a, b| a.0 == b.0) {
        let lane = rows.first()?.0;
        rest = &rest[rest.partition_point(|&(other, _)| other < lane)..];
        let own = &rest[..rest.partition_point(|&(other, _)| other == lane)];
        lay(steps, rows, capture, own, &mut places)?;
    }
    Some(places)
}

/// True if `part` is all of `whole`, except what may be left over.
fn nearly(part: usize, whole: usize) -> bool {
    (whole - part) * LEFT_OVER <= whole
}

/// Returns each token with the only lane on which it occurs, or `u32::MAX` for several; by token.
fn owners(steps: &[GraphRow]) -> Vec<(u32, u32)> {
    let mut owners: Vec<(u32, u32)> = steps.iter().map(|step| (step.token, step.lane)).collect();
    owners.sort_unstable();
    owners.dedup();
    // A name that two lanes run does not show to which lane a captured launch belongs.
    owners.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = u32::MAX;
        }
        same
    });
    owners
}

/// Returns the only lane with `token`.
fn owner(owners: &[(u32, u32)], token: u32) -> Option<u32> {
    let at = owners
        .binary_search_by_key(&token, |&(token, _)| token)
        .ok()?;
    Some(owners[at].1).filter(|lane| *lane != u32::MAX)
}

/// Aligns the rows of one lane with its launches, from the front and from the back. `None` if they
/// do not fit.
fn lay(
    steps: &[GraphRow],
    rows: &[(u32, u32)],
    capture: &[u32],
    launches: &[(u32, u32)],
    places: &mut [CapturePlace],
) -> Option<()> {
    // The greedy walk from the front finds the earliest place of each row, the one from the back
    // the latest. A row's place is unique if both agree.
    let mut free = launches.iter();
    for &(_, row) in rows {
        let token = steps[row as usize].token;
        let &(_, at) = free.find(|&&(_, at)| capture[at as usize] == token)?;
        places[row as usize] = CapturePlace::At(at);
    }
    let mut free = launches.iter().rev();
    for &(_, row) in rows.iter().rev() {
        let token = steps[row as usize].token;
        let &(_, at) = free.find(|&&(_, at)| capture[at as usize] == token)?;
        if places[row as usize] != CapturePlace::At(at) {
            places[row as usize] = CapturePlace::Several;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Aligns rows, written as `name` or `name/stream` with one letter each, with the letters of
    /// `capture`.
    fn laid(rows: &str, capture: &str) -> Option<String> {
        let step = |row: &str| {
            let (name, lane) = row.split_once('/').unwrap_or((row, "0"));
            GraphRow {
                token: u32::from(name.as_bytes()[0]),
                lane: lane.parse().expect("a stream"),
            }
        };
        let steps: Vec<GraphRow> = rows.split(' ').map(step).collect();
        let capture: Vec<u32> = capture.bytes().map(u32::from).collect();
        let text = |place: &CapturePlace| match place {
            CapturePlace::Nowhere => "-".to_owned(),
            CapturePlace::Several => "?".to_owned(),
            CapturePlace::At(at) => at.to_string(),
        };
        Some(
            place(&steps, &capture)?
                .iter()
                .map(text)
                .collect::<Vec<_>>()
                .join(" "),
        )
    }

    #[test]
    fn a_missing_row_leaves_open_only_what_it_could_be() {
        assert_eq!(
            laid("a b c d e f g h i k", "abcdefghik").as_deref(),
            Some("0 1 2 3 4 5 6 7 8 9")
        );
        assert_eq!(
            laid("a b c a b c a b c a", "abcabcabca").as_deref(),
            Some("0 1 2 3 4 5 6 7 8 9")
        );
        assert_eq!(
            laid("a b c a b a b c a", "abcabcabca").as_deref(),
            Some("0 1 2 3 4 6 7 8 9")
        );
        assert_eq!(
            laid("a b c a b c a b c", "abcabbcabc").as_deref(),
            Some("0 1 2 3 ? 6 7 8 9")
        );
    }

    #[test]
    fn a_row_that_was_not_captured_is_set_aside() {
        assert_eq!(
            laid("a b c a b x c a b c", "abcabcabc").as_deref(),
            Some("0 1 2 3 4 - 5 6 7 8")
        );
    }

    #[test]
    fn what_differs_by_more_than_a_tenth_does_not_fit() {
        assert_eq!(laid("a b c a", "abcab"), None);
        assert_eq!(laid("a b c x", "abc"), None);
        assert_eq!(laid("a c b", "abc"), None, "another order");
        assert_eq!(laid("a a", "a"), None, "more than were captured");
    }

    #[test]
    fn streams_are_laid_by_themselves() {
        // in parallel in time, in sequence at capture
        assert_eq!(
            laid("a x/1 b y/1 a x/1", "abaxyx").as_deref(),
            Some("0 3 1 4 2 5")
        );
        // `a` runs on both streams, so its place is open
        assert_eq!(
            laid("a x/1 b a/1 y/1", "abaxy").as_deref(),
            Some("? 3 1 ? 4")
        );
    }
}
