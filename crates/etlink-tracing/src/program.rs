//! The spans of a program, and the two recorders that write them.

use crate::spans::{Collector, SpanFilter, SpanLayer, WindowSnapshot, lock};
use crate::traces::{SpanWindow, write_device, write_host};
use crate::{
    FinishedTrace, ProfilerActivity, RecordedCycle, Recorder, RecorderError, TraceKind, TraceOutput,
};
use std::sync::{Arc, Mutex};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::registry::LookupSpan;

/// Program facts written to traces in addition to the spans.
#[derive(Clone, Debug, Default)]
pub struct ProgramInfo {
    /// Rank, for `distributedInfo` and file names.
    pub rank: Option<u32>,
    /// Number of ranks.
    pub world_size: Option<u32>,
    /// Communication backend, such as `nccl`; may be empty.
    pub backend: String,
    /// Names of devices in the order of their numbers.
    pub devices: Vec<String>,
}

/// Spans of this program: recorded by [`layer`](ProgramSpans::layer), written by
/// [`recorders`](ProgramSpans::recorders).
///
/// One [`RecordingSession`](crate::RecordingSession) drives the recorders of one `ProgramSpans`.
/// Both write from one window, which opens with the first recorder started and closes with the last
/// one stopped, so every op is in both traces.
#[derive(Clone)]
pub struct ProgramSpans(Arc<SharedSpans>);

struct SharedSpans {
    collector: Arc<Collector>,
    program: ProgramInfo,
    state: Mutex<RecordingState>,
}

struct RecordingState {
    /// Number of running recorders.
    running: usize,
    last: LastWindow,
    /// Next `Record function id`; ids continue across windows, as in PyTorch.
    next_id: u64,
}

/// Last closed window.
enum LastWindow {
    None,
    Closed(WindowSnapshot),
    Read(Arc<SpanWindow>),
}

impl ProgramSpans {
    /// Creates the spans of a program, not recording yet.
    pub fn new(program: ProgramInfo) -> ProgramSpans {
        let state = RecordingState {
            running: 0,
            last: LastWindow::None,
            next_id: 1,
        };
        ProgramSpans(Arc::new(SharedSpans {
            collector: Arc::new(Collector::new()),
            program,
            state: Mutex::new(state),
        }))
    }

    /// Returns a layer for a `tracing` subscriber. While nothing is recorded it enables no spans,
    /// and a span that no other layer enables costs about a nanosecond. To exclude targets or
    /// levels, wrap it in a filter.
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(
        &self,
    ) -> Filtered<SpanLayer, SpanFilter, S> {
        SpanLayer(Arc::clone(&self.0.collector))
            .with_filter(SpanFilter(Arc::clone(&self.0.collector)))
    }

    /// Returns an [`ExecutionTraceRecorder`] and a [`KinetoRecorder`] with one output, which
    /// receives the host trace of a cycle first.
    pub fn recorders(&self, output: impl TraceOutput + 'static) -> Vec<Box<dyn Recorder>> {
        let output: Arc<Mutex<dyn TraceOutput>> = Arc::new(Mutex::new(output));
        let host = ExecutionTraceRecorder(SpanFeed {
            spans: self.clone(),
            output: Arc::clone(&output),
        });
        vec![
            Box::new(host),
            Box::new(KinetoRecorder(SpanFeed {
                spans: self.clone(),
                output,
            })),
        ]
    }

    fn start(&self) {
        let mut state = lock(&self.0.state);
        state.running += 1;
        if state.running == 1 {
            self.0.collector.open();
        }
    }

    fn stop(&self) {
        let mut state = lock(&self.0.state);
        state.running = state.running.saturating_sub(1);
        if state.running == 0 {
            state.last = LastWindow::Closed(self.0.collector.close());
        }
    }

    fn forget(&self) {
        if let LastWindow::Closed(snapshot) =
            std::mem::replace(&mut lock(&self.0.state).last, LastWindow::None)
        {
            snapshot
                .buffers
                .into_iter()
                .for_each(|buffer| buffer.drop_into(self.0.collector.pool()));
        }
        self.0.collector.warm_up();
    }

    /// Returns the last window, read once for all recorders.
    fn window(&self) -> Option<Arc<SpanWindow>> {
        let mut state = lock(&self.0.state);
        if let LastWindow::Closed(_) = &state.last
            && let LastWindow::Closed(snapshot) =
                std::mem::replace(&mut state.last, LastWindow::None)
        {
            let window = SpanWindow::read(&self.0.collector, snapshot, state.next_id);
            state.next_id = window.last_id().map_or(state.next_id, |id| id + 1);
            state.last = LastWindow::Read(Arc::new(window));
        }
        match &state.last {
            LastWindow::Read(window) => Some(Arc::clone(window)),
            _ => None,
        }
    }
}

/// Spans and output of a recorder.
struct SpanFeed {
    spans: ProgramSpans,
    output: Arc<Mutex<dyn TraceOutput>>,
}

impl SpanFeed {
    fn save(&self, kind: TraceKind, cycle: &RecordedCycle) -> Result<(), RecorderError> {
        let window = self
            .spans
            .window()
            .ok_or("no window was recorded, or another recorder of these spans still runs")?;
        let program = &self.spans.0.program;
        let write = |out: &mut dyn std::io::Write| match kind {
            TraceKind::Host => write_host(&window, out),
            TraceKind::Device => write_device(&window, program, "trace.json", out),
        };
        lock(&self.output).take(&FinishedTrace {
            kind,
            cycle,
            rank: program.rank,
            write: &write,
        })
    }
}

macro_rules! recorder {
    ($(#[$doc:meta])* $recorder:ident, $name:literal, $kind:expr) => {
        $(#[$doc])*
        pub struct $recorder(SpanFeed);

        impl $recorder {
            /// Creates a recorder that passes its traces to `output`. Recorders of the same spans
            /// must be in the same session.
            pub fn new(spans: &ProgramSpans, output: impl TraceOutput + 'static) -> $recorder {
                $recorder(SpanFeed { spans: spans.clone(), output: Arc::new(Mutex::new(output)) })
            }
        }

        impl Recorder for $recorder {
            fn name(&self) -> &str {
                $name
            }

            fn prepare(&mut self) -> Result<(), RecorderError> {
                self.0.spans.forget();
                Ok(())
            }

            fn start(&mut self) -> Result<(), RecorderError> {
                self.0.spans.start();
                Ok(())
            }

            fn stop(&mut self) -> Result<(), RecorderError> {
                self.0.spans.stop();
                Ok(())
            }

            fn save(&mut self, cycle: &RecordedCycle) -> Result<(), RecorderError> {
                self.0.save($kind, cycle)
            }

            fn toggle(
                &mut self,
                activity: ProfilerActivity,
                on: bool,
            ) -> Result<(), RecorderError> {
                self.0.spans.0.collector.toggle(activity, on);
                Ok(())
            }

            fn enter_step(&mut self, step: u64) {
                self.0.spans.0.collector.enter_step(step);
            }

            fn exit_step(&mut self) {
                self.0.spans.0.collector.exit_step();
            }
        }
    };
}

recorder! {
    /// Writes the host trace: PyTorch's execution trace JSON, schema `1.1.1-chakra.0.0.4`, one file
    /// per cycle.
    ExecutionTraceRecorder, "execution trace", TraceKind::Host
}

recorder! {
    /// Writes the device trace: Kineto's Chrome JSON, whose `Record function id`s are the `rf_id`s
    /// of the host trace.
    KinetoRecorder, "kineto", TraceKind::Device
}
