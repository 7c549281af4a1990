//! Graphs: their capture, which runs nothing, and their launches.

use crate::rows::{DrawnCall, RowWork, SpanNs};
use crate::{DeviceQueue, DrawnEvent, KinetoFlavour, ThreadRef, TraceBuilder};

/// A kernel of a graph launch: queue, name, start and end.
pub type GraphKernel<'a> = (DeviceQueue, &'a str, i64, i64);

impl TraceBuilder {
    /// The two calls between which a stream's work is captured, each 1 us long.
    pub fn capture(&mut self, thread: ThreadRef, start_ns: i64, end_ns: i64) {
        self.begin_capture(thread, start_ns);
        // Each call has a correlation of its own; no row ever bears it, since a capture runs
        // nothing.
        let correlation = self.next_correlation();
        self.call(
            thread,
            self.capture_name("End"),
            (end_ns - 1_000, end_ns),
            correlation,
        );
    }

    /// A capture whose end is not recorded.
    pub fn begin_capture(&mut self, thread: ThreadRef, start_ns: i64) {
        let correlation = self.next_correlation();
        self.call(
            thread,
            self.capture_name("Begin"),
            (start_ns, start_ns + 1_000),
            correlation,
        );
    }

    /// A launch that is captured: a call and no row.
    pub fn captured(&mut self, thread: ThreadRef, call: SpanNs, kernel: &str) {
        let correlation = self.next_correlation();
        self.launch_call(thread, call, kernel, correlation);
    }

    /// A graph launch and the kernels of the graph, on their queues.
    pub fn graph_launch(
        &mut self,
        thread: ThreadRef,
        call: SpanNs,
        kernels: &[(DeviceQueue, i64, i64)],
    ) -> i64 {
        let names: Vec<String> = (1..=kernels.len())
            .map(|node| format!("graph_kernel_{node}"))
            .collect();
        let named: Vec<_> = kernels
            .iter()
            .zip(&names)
            .map(|(&(queue, start, end), name)| (queue, &name[..], start, end))
            .collect();
        self.graph_launch_of(thread, call, &named)
    }

    /// The same with names. Nodes are numbered in the order given.
    pub fn graph_launch_of(
        &mut self,
        thread: ThreadRef,
        call: SpanNs,
        kernels: &[GraphKernel<'_>],
    ) -> i64 {
        let correlation = self.next_correlation();
        let launch = if self.flavour == KinetoFlavour::Rocm {
            "hipGraphLaunch"
        } else {
            "cudaGraphLaunch"
        };
        self.call(thread, launch, call, correlation);
        for (&(queue, name, start, end), node) in kernels.iter().zip(1..) {
            self.row(
                RowWork::Kernel {
                    // Above 32 bits: a reader that cuts the id would mix the node up with none at
                    // all, 0.
                    graph_node: 4_294_967_296 + node,
                    blocks: None,
                },
                queue,
                name,
                (start, end),
                Some(correlation),
                None,
            );
        }
        correlation
    }

    /// A call that launches `kernel`, which HIP calls name.
    pub(crate) fn launch_call(
        &mut self,
        thread: ThreadRef,
        span: SpanNs,
        kernel: &str,
        correlation: i64,
    ) {
        // Only roctracer says at the call which kernel it launches; CUPTI says it at the row alone.
        let kernel = (self.flavour == KinetoFlavour::Rocm).then(|| kernel.to_owned());
        let name = self.flavour.launch_name().to_owned();
        self.events.push(DrawnEvent::Call(DrawnCall {
            thread: thread.0,
            name,
            driver: false,
            start: span.0,
            end: span.1,
            correlation: Some(correlation),
            kernel,
        }));
    }

    fn capture_name(&self, which: &str) -> &'static str {
        match (self.flavour == KinetoFlavour::Rocm, which) {
            (true, "Begin") => "hipStreamBeginCapture",
            (true, _) => "hipStreamEndCapture",
            (false, "Begin") => "cudaStreamBeginCapture",
            (false, _) => "cudaStreamEndCapture",
        }
    }
}
