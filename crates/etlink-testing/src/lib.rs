//! Draws a program and returns the bytes that PyTorch's two writers would produce for it, using the
//! encoders of `etlink-formats`. For tests only: no tool depends on it.
//!
//! ```text
//! thread   aten::mm ------------        device   stream 7
//!             launch --   . . . . . . . . . . .  kernel ======
//! ```
//! ```
//! use etlink_testing::{DeviceQueue, HostSchema, TraceBuilder};
//! let mut draw = TraceBuilder::default();
//! let main = draw.thread();
//! draw.op(main, "aten::mm", 0, 20_000);
//! draw.launch(main, (5_000, 8_000), DeviceQueue::stream(7), "gemm", (12_000, 30_000));
//! let (device, host) = (draw.kineto(), draw.host(HostSchema::V1_1_1));
//! assert!(device.trim_ascii_start().starts_with(b"{") && host.starts_with(b"{"));
//! ```
//! Times are nanoseconds from the origin; ops of one thread nest by time. Names are written
//! unchanged: neither writer escapes them.

mod comms;
mod graphs;
mod growth;
mod host;
mod kineto;
mod machine;
mod many_ranks;
mod oddities;
mod programs;
mod rows;

pub use comms::ParamComms;
pub use etlink_formats::host::HostSchema;
pub use etlink_model::DeviceQueue;
pub use graphs::GraphKernel;
pub use growth::grows_evenly;
pub use machine::{Machine, MachineChange, MachineInstruction, MachineOptions};
pub use many_ranks::all_reduce_rank;
pub use oddities::{OddTraces, Oddity};
pub use programs::random_program;

use rows::{DrawnCall, DrawnRow, DrawnSync};

/// Back end whose device trace is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KinetoFlavour {
    /// CUPTI, times with three decimals.
    #[default]
    Cuda,
    /// Roctracer: calls have HIP names and the category `cuda_runtime`, rows have no context.
    Rocm,
    /// XPUPTI: a row's queue is its tid.
    Xpu,
    /// MTIA: `mtia_runtime` calls and `mtia_ccp_events` rows.
    Mtia,
    /// CUPTI in 2021 and 2022: whole microseconds since the Unix epoch, `Kernel`, `Runtime`,
    /// `Operator`.
    Cuda2021,
}

/// Form of `Record function id` in the device trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordIds {
    /// The real ids (PyTorch 2.4 and later with an observer).
    #[default]
    Written,
    /// 0 on every op (PyTorch 2.4 and later without an observer).
    Zero,
    /// No such key (PyTorch 2.3 and earlier).
    Absent,
}

/// A drawn thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadRef(usize);

/// A drawn op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpRef(usize);

/// A drawing: threads, ops, calls, rows, and the metadata around them.
#[derive(Clone, Debug)]
pub struct TraceBuilder {
    flavour: KinetoFlavour,
    ids: RecordIds,
    origin_ns: i64,
    pid: i64,
    threads: Vec<DrawnThread>,
    ops: Vec<DrawnOp>,
    events: Vec<DrawnEvent>,
    header: Vec<(String, String)>,
    trailer: Vec<(String, String)>,
    correlation: i64,
}

#[derive(Clone, Copy, Debug)]
struct DrawnThread {
    pid: i64,
    tid: i64,
}

#[derive(Clone, Debug)]
struct DrawnOp {
    thread: usize,
    name: String,
    device_name: Option<String>,
    start: i64,
    end: i64,
    annotation: bool,
    in_host: bool,
    in_device: bool,
    seq: Option<(i64, u32)>,
    args: Vec<(String, String)>,
    comms: Option<ParamComms>,
}

/// An event of the device trace, in drawing order.
#[derive(Clone, Debug)]
enum DrawnEvent {
    Op(usize),
    Call(DrawnCall),
    Row(Box<DrawnRow>),
    Sync(DrawnSync),
    Python {
        thread: usize,
        name: String,
        start: i64,
        end: i64,
    },
    Raw(String),
}

impl Default for TraceBuilder {
    fn default() -> Self {
        TraceBuilder::new(KinetoFlavour::Cuda)
    }
}

impl TraceBuilder {
    /// Creates an empty drawing of process 1000.
    pub fn new(flavour: KinetoFlavour) -> Self {
        TraceBuilder {
            flavour,
            ids: RecordIds::default(),
            origin_ns: 0,
            pid: 1000,
            threads: vec![],
            ops: vec![],
            events: vec![],
            header: vec![],
            trailer: vec![],
            correlation: 1,
        }
    }

    /// Adds `ns` to every time in the device trace.
    pub fn origin(&mut self, ns: i64) -> &mut Self {
        self.origin_ns = ns;
        self
    }

    /// Sets the form of record function ids in the device trace.
    pub fn record_ids(&mut self, ids: RecordIds) -> &mut Self {
        self.ids = ids;
        self
    }

    /// Sets the process of threads drawn from now on. The host trace belongs to the last process.
    pub fn process(&mut self, pid: i64) -> &mut Self {
        self.pid = pid;
        self
    }

    /// Adds metadata before the events; the value is raw JSON text.
    pub fn metadata(&mut self, key: &str, raw: &str) -> &mut Self {
        self.header.push((key.into(), raw.into()));
        self
    }

    /// Adds metadata after the events; the value is raw JSON text.
    pub fn trailing_metadata(&mut self, key: &str, raw: &str) -> &mut Self {
        self.trailer.push((key.into(), raw.into()));
        self
    }

    /// Adds the `distributedInfo` of a job with one group of all ranks.
    pub fn distributed(&mut self, rank: i64, world_size: i64) -> &mut Self {
        let ranks: Vec<String> = (0..world_size).map(|rank| rank.to_string()).collect();
        let group = format!(
            concat!(
                r#"{{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "#,
                r#""pg_size": {world_size}, "ranks": [{ranks}]}}"#
            ),
            world_size = world_size,
            ranks = ranks.join(", ")
        );
        let info = format!(
            concat!(
                r#"{{"backend": "nccl", "rank": {rank}, "world_size": {world_size}, "#,
                r#""pg_count": 1, "pg_config": [{group}], "nccl_version": "2.27.5"}}"#
            ),
            rank = rank,
            world_size = world_size,
            group = group
        );
        self.metadata("distributedInfo", &info)
    }

    /// Adds a thread; the first one is the process's main thread.
    pub fn thread(&mut self) -> ThreadRef {
        let of_process = self
            .threads
            .iter()
            .filter(|thread| thread.pid == self.pid)
            .count();
        self.threads.push(DrawnThread {
            pid: self.pid,
            // On Linux, the main thread has the id of its process, and later threads have higher
            // ids.
            tid: self.pid + of_process as i64,
        });
        ThreadRef(self.threads.len() - 1)
    }

    /// Draws a `cpu_op`.
    pub fn op(&mut self, thread: ThreadRef, name: &str, start_ns: i64, end_ns: i64) -> OpRef {
        self.ops.push(DrawnOp {
            thread: thread.0,
            name: name.into(),
            device_name: None,
            start: start_ns,
            end: end_ns,
            annotation: false,
            in_host: true,
            in_device: true,
            seq: None,
            args: vec![],
            comms: None,
        });
        self.events.push(DrawnEvent::Op(self.ops.len() - 1));
        OpRef(self.ops.len() - 1)
    }

    /// Draws a `user_annotation`.
    pub fn annotation(
        &mut self,
        thread: ThreadRef,
        name: &str,
        start_ns: i64,
        end_ns: i64,
    ) -> OpRef {
        let op = self.op(thread, name, start_ns, end_ns);
        self.edit(op, |op| op.annotation = true);
        op
    }

    /// Draws a `record_param_comms` op that describes the collective.
    pub fn collective(
        &mut self,
        thread: ThreadRef,
        comms: &ParamComms,
        start_ns: i64,
        end_ns: i64,
    ) -> OpRef {
        let op = self.op(thread, "record_param_comms", start_ns, end_ns);
        self.edit(op, |op| op.comms = Some(comms.clone()));
        op
    }

    /// Draws a frame of the Python stack.
    pub fn python(&mut self, thread: ThreadRef, name: &str, start_ns: i64, end_ns: i64) {
        self.events.push(DrawnEvent::Python {
            thread: thread.0,
            name: name.into(),
            start: start_ns,
            end: end_ns,
        });
    }

    /// Adds an argument to an op in the device trace; the value is raw JSON text.
    pub fn arg(&mut self, op: OpRef, key: &str, raw: &str) {
        self.edit(op, |op| op.args.push((key.into(), raw.into())));
    }

    /// Sets the autograd sequence number and the forward thread's number (0 for a forward op).
    pub fn sequence(&mut self, op: OpRef, number: i64, forward_thread: u32) {
        self.edit(op, |op| op.seq = Some((number, forward_thread)));
    }

    /// Gives the op a different name in the device trace.
    pub fn device_name(&mut self, op: OpRef, name: &str) {
        self.edit(op, |op| op.device_name = Some(name.into()));
    }

    /// Omits the op from the host trace.
    pub fn not_in_host(&mut self, op: OpRef) {
        self.edit(op, |op| op.in_host = false);
    }

    /// Omits the op from the device trace.
    pub fn not_in_device(&mut self, op: OpRef) {
        self.edit(op, |op| op.in_device = false);
    }

    /// Adds an event as text, without a trailing comma.
    pub fn raw(&mut self, text: &str) {
        self.events.push(DrawnEvent::Raw(text.into()));
    }

    fn edit(&mut self, op: OpRef, change: impl FnOnce(&mut DrawnOp)) {
        // An `OpRef` of another drawing has no op here, and changes nothing.
        if let Some(op) = self.ops.get_mut(op.0) {
            change(op);
        }
    }

    /// Returns a new correlation id.
    pub fn next_correlation(&mut self) -> i64 {
        self.correlation += 1;
        self.correlation
    }

    /// Returns the record function id of each op, numbered 1, 2, … by start.
    fn rf_ids(&self) -> Vec<u64> {
        let mut order: Vec<usize> = (0..self.ops.len()).collect();
        // Ops are numbered as they begin; of two that begin together, the outer, longer one began
        // first.
        order.sort_by_key(|&op| (self.ops[op].start, std::cmp::Reverse(self.ops[op].end)));
        let mut ids = vec![0; order.len()];
        order.iter().zip(1..).for_each(|(&op, id)| ids[op] = id);
        ids
    }
}
