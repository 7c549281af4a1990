//! The spans of a program, and the two recorders that they feed.

use crate::spans::{Cuts, SpanFilter, SpanLayer, Tap, lock};
use crate::traces::{Window, write_device, write_host};
use crate::{Activity, Cycle, Output, Recorder, RecorderError, Trace, TraceKind};
use std::sync::{Arc, Mutex};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::registry::LookupSpan;

/// What traces say of the program beside its spans.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its rank, for `distributedInfo` and the names of files.
    pub rank: Option<u32>,
    /// How many ranks there are.
    pub world_size: Option<u32>,
    /// By what its ranks communicate, such as `nccl`; may be empty.
    pub backend: String,
    /// Names of its devices in the order of their numbers.
    pub devices: Vec<String>,
}

/// The spans of this program: taken up by [`layer`](Spans::layer), written by [`recorders`](Spans::recorders).
///
/// One [`Session`](crate::Session) drives the recorders of one `Spans`. Both write from one window, which opens with the first that starts
/// and closes with the last that stops, so that every op is in both traces.
#[derive(Clone)]
pub struct Spans(Arc<Shared>);

struct Shared {
    tap: Arc<Tap>,
    program: Program,
    state: Mutex<State>,
}

struct State {
    /// Recorders that run.
    running: usize,
    last: Last,
    /// `Record function id`s go on from window to window, as PyTorch's do.
    next_id: u64,
}

/// The last window that closed.
enum Last {
    None,
    Cuts(Cuts),
    Read(Arc<Window>),
}

impl Spans {
    /// Spans of a program that is not recorded yet.
    pub fn new(program: Program) -> Spans {
        let state = State {
            running: 0,
            last: Last::None,
            next_id: 1,
        };
        Spans(Arc::new(Shared {
            tap: Arc::new(Tap::new()),
            program,
            state: Mutex::new(state),
        }))
    }

    /// What a subscriber is stacked with. While nothing is recorded it wants no spans, and a span that no other layer wants either costs
    /// about a nanosecond. To leave out some targets or levels, put a filter around it.
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(
        &self,
    ) -> Filtered<SpanLayer, SpanFilter, S> {
        SpanLayer(Arc::clone(&self.0.tap)).with_filter(SpanFilter(Arc::clone(&self.0.tap)))
    }

    /// An [`ExecutionTraceRecorder`] and a [`KinetoRecorder`] with one output, which gets the host trace of a cycle first.
    pub fn recorders(&self, output: impl Output + 'static) -> Vec<Box<dyn Recorder>> {
        let output: Arc<Mutex<dyn Output>> = Arc::new(Mutex::new(output));
        let host = ExecutionTraceRecorder(Feed {
            spans: self.clone(),
            output: Arc::clone(&output),
        });
        vec![
            Box::new(host),
            Box::new(KinetoRecorder(Feed {
                spans: self.clone(),
                output,
            })),
        ]
    }

    fn start(&self) {
        let mut state = lock(&self.0.state);
        state.running += 1;
        if state.running == 1 {
            self.0.tap.open();
        }
    }

    fn stop(&self) {
        let mut state = lock(&self.0.state);
        state.running = state.running.saturating_sub(1);
        if state.running == 0 {
            state.last = Last::Cuts(self.0.tap.close());
        }
    }

    fn forget(&self) {
        if let Last::Cuts(cuts) = std::mem::replace(&mut lock(&self.0.state).last, Last::None) {
            cuts.cuts
                .into_iter()
                .for_each(|cut| cut.drop_into(self.0.tap.pool()));
        }
        self.0.tap.warm_up();
    }

    /// The last window; read once, for all recorders.
    fn window(&self) -> Option<Arc<Window>> {
        let mut state = lock(&self.0.state);
        if let Last::Cuts(_) = &state.last
            && let Last::Cuts(cuts) = std::mem::replace(&mut state.last, Last::None)
        {
            let window = Window::read(&self.0.tap, cuts, state.next_id);
            state.next_id = window.last_id().map_or(state.next_id, |id| id + 1);
            state.last = Last::Read(Arc::new(window));
        }
        match &state.last {
            Last::Read(window) => Some(Arc::clone(window)),
            _ => None,
        }
    }
}

/// What a recorder has of its spans.
struct Feed {
    spans: Spans,
    output: Arc<Mutex<dyn Output>>,
}

impl Feed {
    fn save(&self, kind: TraceKind, cycle: &Cycle) -> Result<(), RecorderError> {
        let window = self
            .spans
            .window()
            .ok_or("no window was recorded, or another recorder of these spans still runs")?;
        let program = &self.spans.0.program;
        let write = |out: &mut dyn std::io::Write| match kind {
            TraceKind::Host => write_host(&window, out),
            TraceKind::Device => write_device(&window, program, "trace.json", out),
        };
        lock(&self.output).take(&Trace {
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
        pub struct $recorder(Feed);

        impl $recorder {
            /// A recorder that gives its traces to `output`. Recorders of the same spans must be in the same session.
            pub fn new(spans: &Spans, output: impl Output + 'static) -> $recorder {
                $recorder(Feed { spans: spans.clone(), output: Arc::new(Mutex::new(output)) })
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

            fn save(&mut self, cycle: &Cycle) -> Result<(), RecorderError> {
                self.0.save($kind, cycle)
            }

            fn toggle(&mut self, activity: Activity, on: bool) -> Result<(), RecorderError> {
                self.0.spans.0.tap.toggle(activity, on);
                Ok(())
            }

            fn enter_step(&mut self, step: u64) {
                self.0.spans.0.tap.enter_step(step);
            }

            fn exit_step(&mut self) {
                self.0.spans.0.tap.exit_step();
            }
        }
    };
}

recorder! {
    /// Writes the host trace: PyTorch's execution trace JSON, schema `1.1.1-chakra.0.0.4`, one file per cycle.
    ExecutionTraceRecorder, "execution trace", TraceKind::Host
}

recorder! {
    /// Writes the device trace: Kineto's Chrome JSON, whose `Record function id`s are the `rf_id`s of the host trace.
    KinetoRecorder, "kineto", TraceKind::Device
}
