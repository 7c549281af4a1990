//! What a page says of a simulation of its run.

use serde::Serialize;

/// Spans that are drawn of all ranks.
const SPANS: usize = 4_000;
/// Rows of the table of communications.
const ROWS: usize = 300;

/// A simulation of the run, beside what was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedPart {
    /// The simulator's log.
    pub log: String,
    /// What to know first, a sentence each.
    pub sentences: Vec<String>,
    /// By rank.
    pub ranks: Vec<SimulatedRankRow>,
    /// By kind of communication.
    pub kinds: Vec<SimulatedKindRow>,
    /// Those whose transfers differ most first.
    pub communications: Vec<SimulatedCommRow>,
    /// Communications that are not in the table.
    pub cut: u64,
    /// When ranks communicate: of each what was measured, then what was simulated.
    pub tracks: Vec<SimulatedTrack>,
    /// Spans that are too short to be drawn.
    pub not_drawn: u64,
}

/// A rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedRankRow {
    /// Its number.
    pub rank: i64,
    /// When it finished in the simulation.
    pub simulated_ns: Option<i64>,
    /// When it ended in the recording.
    pub measured_ns: Option<i64>,
    /// The first less the second, by the second.
    pub change_share: Option<f64>,
    /// Time in which it communicates, as simulated.
    pub communication_ns: Option<i64>,
    /// The same, as measured.
    pub measured_communication_ns: Option<i64>,
    /// Time in which it communicates and does not compute, as simulated.
    pub exposed_ns: Option<i64>,
}

/// All transfers of a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedKindRow {
    /// Of collective, or `message`.
    pub kind: String,
    /// How many.
    pub count: u64,
    /// What they took in the simulation; none where nothing is compared.
    pub simulated_ns: Option<i64>,
    /// The same in the recording.
    pub measured_ns: Option<i64>,
    /// The first less the second, by the second.
    pub change_share: Option<f64>,
    /// What they took until the last rank was done.
    pub last_done_ns: Option<i64>,
    /// What ranks waited for the last to come, as simulated.
    pub simulated_wait_ns: i64,
    /// The same, as measured.
    pub measured_wait_ns: i64,
}

/// A collective or message.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedCommRow {
    /// What it is.
    pub kind: String,
    /// Between whom.
    pub between: String,
    /// Its number in the recording.
    pub number: i64,
    /// Its size.
    pub bytes: u64,
    /// What its transfer took in the simulation.
    pub simulated_ns: Option<i64>,
    /// The same in the recording.
    pub measured_ns: Option<i64>,
    /// The first less the second.
    pub longer_ns: Option<i64>,
}

/// When a rank communicates.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedTrack {
    /// Its number.
    pub rank: i64,
    /// Whether it was simulated, and not measured.
    pub simulated: bool,
    /// When it ends, ns from the first begin of a rank.
    pub end_ns: i64,
    /// Its communications.
    pub spans: Vec<SimulatedSpan>,
}

/// A communication.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedSpan {
    /// When it begins, ns from the first begin of a rank.
    pub start_ns: i64,
    /// How long it takes.
    pub duration_ns: i64,
    /// What it is.
    pub name: String,
}

impl SimulatedPart {
    /// Leaves out what a page has no room for: the communications that differ least, and the
    /// shortest spans.
    #[must_use]
    pub fn shortened(mut self) -> SimulatedPart {
        self.cut = self.communications.len().saturating_sub(ROWS) as u64;
        self.communications.truncate(ROWS);
        let spans = self.tracks.iter().flat_map(|track| &track.spans);
        let mut lengths: Vec<i64> = spans.map(|span| span.duration_ns).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(shortest) = lengths.get(SPANS).copied() {
            for track in &mut self.tracks {
                track.spans.retain(|span| span.duration_ns > shortest);
            }
        }
        let drawn: usize = self.tracks.iter().map(|track| track.spans.len()).sum();
        self.not_drawn = (lengths.len() - drawn) as u64;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_spans_are_kept() {
        let span = |duration_ns: i64| SimulatedSpan {
            duration_ns,
            ..SimulatedSpan::default()
        };
        let track = |rank: i64| SimulatedTrack {
            rank,
            spans: (0..3_000).map(span).collect(),
            ..SimulatedTrack::default()
        };
        let part = SimulatedPart {
            tracks: vec![track(0), track(1)],
            communications: vec![SimulatedCommRow::default(); 301],
            ..SimulatedPart::default()
        };
        let part = part.shortened();
        let drawn: usize = part.tracks.iter().map(|track| track.spans.len()).sum();
        assert_eq!((drawn as u64 + part.not_drawn, part.cut), (6_000, 1));
        assert!((3_900..=SPANS).contains(&drawn), "{drawn}");
        let shortest = part.tracks[1]
            .spans
            .iter()
            .map(|span| span.duration_ns)
            .min();
        assert_eq!(shortest, Some(1_000));
    }
}
