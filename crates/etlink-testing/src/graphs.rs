//! Draws CUDA graphs: their capture, which executes nothing, and their launches.

use crate::rows::{DrawnCall, RowWork, SpanNs};
use crate::{DeviceQueue, DrawnEvent, KinetoFlavour, ThreadRef, TraceBuilder};

/// A kernel of a graph launch: queue, name, start and end.
pub type GraphKernel<'a> = (DeviceQueue, &'a str, i64, i64);

impl TraceBuilder {
    /// Draws the two calls that begin and end the capture of a stream's work, each 1 µs long.
    pub fn capture(&mut self, thread: ThreadRef, start_ns: i64, end_ns: i64) {
        self.begin_capture(thread, start_ns);
        // Each call has its own correlation. No row ever has it, because a capture executes
        // nothing.
        let correlation = self.next_correlation();
        self.call(
            thread,
            self.capture_name("End"),
            (end_ns - 1_000, end_ns),
            correlation,
        );
    }

    /// Draws a capture whose end is not recorded.
    pub fn begin_capture(&mut self, thread: ThreadRef, start_ns: i64) {
        let correlation = self.next_correlation();
        self.call(
            thread,
            self.capture_name("Begin"),
            (start_ns, start_ns + 1_000),
            correlation,
        );
    }

    /// Draws a captured launch: a call without a row.
    pub fn captured(&mut self, thread: ThreadRef, call: SpanNs, kernel: &str) {
        let correlation = self.next_correlation();
        self.launch_call(thread, call, kernel, correlation);
    }

    /// Draws a graph launch and the graph's kernels on their queues. Returns the correlation id.
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

    /// Draws a graph launch with named kernels, like [`Self::graph_launch`]. Nodes are numbered in
    /// the given order.
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
                    // Above 32 bits: a reader that truncates the id would confuse the first node
                    // with no node, 0.
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

    /// Draws a call that launches `kernel`; HIP calls name the kernel.
    pub(crate) fn launch_call(
        &mut self,
        thread: ThreadRef,
        span: SpanNs,
        kernel: &str,
        correlation: i64,
    ) {
        // Only roctracer records the launched kernel at the call; CUPTI records it only at the row.
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
