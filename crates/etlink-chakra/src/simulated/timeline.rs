//! Writes simulated and measured ranks on one time axis, as Chrome's trace events, which Perfetto
//! displays.

use super::comms::{NodeLane, SimulatedRun};
use super::measured::MeasuredRun;
use super::spans::measured_spans;
use indexmap::IndexSet;
use serde_json::json;
use std::io::{self, Write};

/// Writes the kept nodes of all ranks: the measured nodes of each rank, followed by its simulated
/// ones. The measured communications come from the recording. If it is unknown, the times in the
/// graphs are shown at the top, and labelled as such.
///
/// # Errors
/// Fails if the sink fails.
pub fn write_timeline(
    run: &SimulatedRun,
    measured: Option<&MeasuredRun>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut events = EventWriter {
        out,
        is_first: true,
    };
    events.out.write_all(b"{\"traceEvents\": [\n")?;
    // Graphs of one merge share one clock.
    let starts = run.ranks.values().flat_map(|rank| &rank.slices);
    let zero = starts
        .filter_map(|slice| Some(slice.measured_ns?.0))
        .min()
        .unwrap_or(0);
    let source = match measured {
        Some(_) => "measured",
        // A generated graph was never measured.
        None => "times of the graph",
    };
    for (rank, graph) in &run.ranks {
        let [above, below] = [2 * rank, 2 * rank + 1];
        events.process(above, &format!("rank {rank}, {source}"))?;
        events.process(below, &format!("rank {rank}, simulated"))?;
        let mut tracks: IndexSet<&str> = IndexSet::new();
        for slice in &graph.slices {
            let is_comm = slice.lane == NodeLane::Communication;
            if let Some((start, length)) = slice.measured_ns
                && !(is_comm && measured.is_some())
            {
                let (track, is_new) = tracks.insert_full(&slice.track);
                if is_new {
                    events.track(above, track + 1, &slice.track)?;
                }
                let times = (start - zero, start - zero + length);
                events.slice(above, track + 1, &slice.name, times)?;
            }
        }
        events.track(above, 0, "communication")?;
        let spans = measured.map(|measured| measured_spans(measured, *rank));
        for span in spans.into_iter().flatten() {
            events.slice(above, 0, &span.name, (span.start_ns, span.end_ns))?;
        }
        for (lane, number, name) in [
            (NodeLane::Communication, 0, "communication"),
            (NodeLane::Device, 1, "device"),
            (NodeLane::Host, 2, "host"),
        ] {
            let mut of_lane = graph.slices.iter().filter(|slice| slice.lane == lane);
            if of_lane.clone().any(|slice| slice.simulated_ns.is_some()) {
                events.track(below, number, name)?;
            }
            of_lane.try_for_each(|slice| match slice.simulated_ns {
                Some(times) => events.slice(below, number, &slice.name, times),
                None => Ok(()),
            })?;
        }
    }
    events.out.write_all(b"\n], \"displayTimeUnit\": \"ns\"}\n")
}

/// Writer of events, separated by commas.
struct EventWriter<'w> {
    out: &'w mut dyn Write,
    is_first: bool,
}

impl EventWriter<'_> {
    fn event(&mut self, event: &serde_json::Value) -> io::Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut *self.out, event)?;
        Ok(())
    }

    fn process(&mut self, pid: i64, name: &str) -> io::Result<()> {
        self.event(
            &json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}),
        )?;
        self.event(
            &json!({"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}),
        )
    }

    fn track(&mut self, pid: i64, tid: usize, name: &str) -> io::Result<()> {
        let args = json!({"name": name});
        self.event(&json!({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": args}))
    }

    /// Writes an event with start and end in nanoseconds; Chrome counts in microseconds.
    fn slice(&mut self, pid: i64, tid: usize, name: &str, times: (i64, i64)) -> io::Result<()> {
        let micros = |ns: i64| ns as f64 / 1000.0;
        self.event(&json!({
            "ph": "X", "pid": pid, "tid": tid, "name": name,
            "ts": micros(times.0), "dur": micros(times.1 - times.0),
        }))
    }
}
