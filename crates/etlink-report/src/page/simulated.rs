//! Simulation results of the run, as shown in the page.

use serde::Serialize;

/// Largest number of spans drawn over all ranks.
const SPANS: usize = 4_000;
/// Number of rows in the table of communications.
const ROWS: usize = 300;

/// Simulation of the run, next to the measured times.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedPart {
    /// Log file of the simulator.
    pub log: String,
    /// Introductory remarks, one sentence each.
    pub sentences: Vec<String>,
    /// Results by rank.
    pub ranks: Vec<SimulatedRankRow>,
    /// Results by kind of communication.
    pub kinds: Vec<SimulatedKindRow>,
    /// Communications, those with the largest difference in transfer time first.
    pub communications: Vec<SimulatedCommRow>,
    /// Number of communications missing from the table.
    pub cut: u64,
    /// Communication tracks: per rank the measured one, then the simulated one.
    pub tracks: Vec<SimulatedTrack>,
    /// Number of spans that are too short to be drawn.
    pub not_drawn: u64,
}

/// Simulated and measured times of a rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedRankRow {
    /// Number of the rank.
    pub rank: i64,
    /// End of the rank in the simulation.
    pub simulated_ns: Option<i64>,
    /// End of the rank in the recording.
    pub measured_ns: Option<i64>,
    /// Simulated minus measured end, relative to the measured end.
    pub change_share: Option<f64>,
    /// Simulated communication time.
    pub communication_ns: Option<i64>,
    /// Measured communication time.
    pub measured_communication_ns: Option<i64>,
    /// Simulated communication time without overlapping computation.
    pub exposed_ns: Option<i64>,
}

/// All transfers of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedKindRow {
    /// Kind of collective, or `message`.
    pub kind: String,
    /// Number of transfers.
    pub count: u64,
    /// Simulated duration; `None` if nothing is compared.
    pub simulated_ns: Option<i64>,
    /// Measured duration.
    pub measured_ns: Option<i64>,
    /// Simulated minus measured duration, relative to the measured one.
    pub change_share: Option<f64>,
    /// Duration until the last rank was done.
    pub last_done_ns: Option<i64>,
    /// Simulated time that ranks waited for the last arrival.
    pub simulated_wait_ns: i64,
    /// Measured time that ranks waited for the last arrival.
    pub measured_wait_ns: i64,
}

/// A collective or message.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedCommRow {
    /// Kind of communication.
    pub kind: String,
    /// Participants.
    pub between: String,
    /// Number in the recording.
    pub number: i64,
    /// Size in bytes.
    pub bytes: u64,
    /// Simulated transfer time.
    pub simulated_ns: Option<i64>,
    /// Measured transfer time.
    pub measured_ns: Option<i64>,
    /// Simulated minus measured transfer time.
    pub longer_ns: Option<i64>,
}

/// Communications of a rank over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedTrack {
    /// Number of the rank.
    pub rank: i64,
    /// True if the track is simulated, false if measured.
    pub simulated: bool,
    /// End of the rank, in ns from the first begin of any rank.
    pub end_ns: i64,
    /// Communications of the rank.
    pub spans: Vec<SimulatedSpan>,
}

/// One communication on a track.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedSpan {
    /// Begin in ns from the first begin of any rank.
    pub start_ns: i64,
    /// Duration in ns.
    pub duration_ns: i64,
    /// Name of the communication.
    pub name: String,
}

impl SimulatedPart {
    /// Removes what does not fit into a page: the communications with the smallest differences, and
    /// the shortest spans.
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
