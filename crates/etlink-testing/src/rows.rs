//! Draws calls and device rows.

use crate::{DeviceQueue, DrawnEvent, ParamComms, ThreadRef, TraceBuilder};

#[derive(Clone, Debug)]
pub(crate) struct DrawnCall {
    pub(crate) thread: usize,
    pub(crate) name: String,
    pub(crate) driver: bool,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) correlation: Option<i64>,
    /// Name of the launched kernel; `None` if the call does not name one.
    pub(crate) kernel: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowWork {
    Kernel {
        graph_node: u64,
        blocks: Option<(u32, u32)>,
    },
    Memcpy {
        bytes: u64,
    },
    Memset {
        bytes: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct DrawnRow {
    pub(crate) what: RowWork,
    pub(crate) name: String,
    pub(crate) queue: DeviceQueue,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) correlation: Option<i64>,
    pub(crate) comms: Option<ParamComms>,
}

#[derive(Clone, Debug)]
pub(crate) struct DrawnSync {
    pub(crate) kind: String,
    pub(crate) queue: DeviceQueue,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) correlation: i64,
    pub(crate) wait: Option<(i64, i64)>,
}

/// Start and end, in nanoseconds.
pub(crate) type SpanNs = (i64, i64);

impl TraceBuilder {
    /// Draws a runtime call.
    pub fn call(
        &mut self,
        thread: ThreadRef,
        name: &str,
        span: SpanNs,
        correlation: impl Into<Option<i64>>,
    ) {
        self.any_call(thread, name, false, span, correlation.into());
    }

    /// Draws a driver call.
    pub fn driver_call(
        &mut self,
        thread: ThreadRef,
        name: &str,
        span: SpanNs,
        correlation: impl Into<Option<i64>>,
    ) {
        // Driver calls differ from runtime calls only in their category.
        self.any_call(thread, name, true, span, correlation.into());
    }

    fn any_call(
        &mut self,
        thread: ThreadRef,
        name: &str,
        driver: bool,
        span: SpanNs,
        correlation: Option<i64>,
    ) {
        let call = DrawnCall {
            thread: thread.0,
            name: name.into(),
            driver,
            start: span.0,
            end: span.1,
            correlation,
            kernel: None,
        };
        self.events.push(DrawnEvent::Call(call));
    }

    /// Draws a kernel.
    pub fn kernel(
        &mut self,
        queue: DeviceQueue,
        name: &str,
        span: SpanNs,
        correlation: impl Into<Option<i64>>,
    ) {
        self.row(
            // CUPTI writes 0 for a kernel that no graph launched.
            RowWork::Kernel {
                graph_node: 0,
                blocks: None,
            },
            queue,
            name,
            span,
            correlation.into(),
            None,
        );
    }

    /// Draws a kernel; `blocks` is its number of blocks and the device's number of multiprocessors.
    pub fn kernel_of_blocks(
        &mut self,
        queue: DeviceQueue,
        name: &str,
        span: SpanNs,
        correlation: impl Into<Option<i64>>,
        blocks: (u32, u32),
    ) {
        let what = RowWork::Kernel {
            graph_node: 0,
            blocks: Some(blocks),
        };
        self.row(what, queue, name, span, correlation.into(), None);
    }

    /// Draws a kernel of a collective, with the arguments that Kineto copies to it.
    pub fn collective_kernel(
        &mut self,
        queue: DeviceQueue,
        name: &str,
        span: SpanNs,
        correlation: i64,
        comms: &ParamComms,
    ) {
        self.row(
            RowWork::Kernel {
                graph_node: 0,
                blocks: None,
            },
            queue,
            name,
            span,
            Some(correlation),
            Some(comms.clone()),
        );
    }

    /// Draws a copy.
    pub fn memcpy(
        &mut self,
        queue: DeviceQueue,
        name: &str,
        span: SpanNs,
        correlation: impl Into<Option<i64>>,
        bytes: u64,
    ) {
        self.row(
            RowWork::Memcpy { bytes },
            queue,
            name,
            span,
            correlation.into(),
            None,
        );
    }

    /// Draws a memset.
    pub fn memset(
        &mut self,
        queue: DeviceQueue,
        span: SpanNs,
        correlation: impl Into<Option<i64>>,
        bytes: u64,
    ) {
        self.row(
            RowWork::Memset { bytes },
            queue,
            "Memset (Device)",
            span,
            correlation.into(),
            None,
        );
    }

    pub(crate) fn row(
        &mut self,
        what: RowWork,
        queue: DeviceQueue,
        name: &str,
        span: SpanNs,
        correlation: Option<i64>,
        comms: Option<ParamComms>,
    ) {
        let row = DrawnRow {
            what,
            name: name.into(),
            queue,
            start: span.0,
            end: span.1,
            correlation,
            comms,
        };
        // Boxed: with its collective, a row is several times as large as other events.
        self.events.push(DrawnEvent::Row(Box::new(row)));
    }

    /// Draws a launch call and its kernel; returns the correlation id.
    pub fn launch(
        &mut self,
        thread: ThreadRef,
        call: SpanNs,
        queue: DeviceQueue,
        kernel: &str,
        span: SpanNs,
    ) -> i64 {
        let correlation = self.next_correlation();
        self.launch_call(thread, call, kernel, correlation);
        self.kernel(queue, kernel, span, correlation);
        correlation
    }

    /// Draws a synchronization row. `wait` is the awaited stream and the correlation of the event's
    /// record; -1 means unknown.
    pub fn sync(
        &mut self,
        kind: &str,
        queue: DeviceQueue,
        span: SpanNs,
        correlation: i64,
        wait: Option<(i64, i64)>,
    ) {
        self.events.push(DrawnEvent::Sync(DrawnSync {
            kind: kind.into(),
            queue,
            start: span.0,
            end: span.1,
            correlation,
            wait,
        }));
    }
}
