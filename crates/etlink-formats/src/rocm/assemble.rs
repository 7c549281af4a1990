//! Assembles a device trace from the records of a process.

use crate::Error;
use crate::rocm::operations::{blocks, copy_name};
use crate::rocm::record::{CallFamily, RecordSpan, RocmAgent, RocmCall, RocmProcess};
use etlink_model::{
    Anomalies, AnomalyKind, Correlation, CpuOp, DeviceQueue, DeviceRow, DeviceTrace,
    DeviceTraceAssembler, GlobalRank, HostThread, NameId, Names, QueueIdx, RowKind, RuntimeCall,
    ThreadIdx, TraceRecorder, TrackLabel,
};

/// Marks a name without a row in the table of collectives.
const NO_RECORD: u32 = u32::MAX;

/// Returns the only process with work on devices; the first process if none has any.
///
/// # Errors
/// Several processes have work on devices.
pub(crate) fn only_process(mut processes: Vec<RocmProcess>) -> Result<RocmProcess, Error> {
    let working: Vec<usize> = (0..processes.len())
        .filter(|place| processes[*place].has_device_work())
        .collect();
    if working.len() > 1 {
        let pids = working.iter().map(|place| processes[*place].pid);
        return Err(Error::SeveralProcesses {
            pids: pids.collect(),
            remedy: "give one file per process (%pid% in the output name of rocprofv3), or give the \
                     folder of the database to `etlink merge`",
        });
    }
    let chosen = working.first().copied().unwrap_or(0);
    if chosen < processes.len() {
        Ok(processes.swap_remove(chosen))
    } else {
        Ok(RocmProcess::default())
    }
}

/// Builds the device trace of a process. O(n log n) for the final sort, otherwise linear.
pub(crate) fn assemble(
    process: RocmProcess,
    names: Names,
    anomalies: Anomalies,
    bytes: u64,
) -> Result<DeviceTrace, Error> {
    let mut assembler = DeviceTraceAssembler::default();
    assembler.trace.names = names;
    assembler.trace.anomalies = anomalies;
    assembler.trace.bytes = bytes;
    let header = &mut assembler.trace.header;
    header.recorder = TraceRecorder::Rocprof;
    header.host_name = process.host_name.clone();
    header.rank = process.rank.map(GlobalRank);
    header.world_size = process.world_size;
    let mut builder = ProcessBuilder {
        has_streams: has_streams(&process),
        process,
        assembler,
    };
    builder.push_agents();
    builder.push_dispatches();
    builder.push_copies();
    builder.push_calls();
    builder.name_threads();
    builder.assembler.finish().ok_or(Error::TooManyRows)
}

/// Returns true if HIP streams were recorded. Before ROCm 7 all are 0, and only queues are known.
fn has_streams(process: &RocmProcess) -> bool {
    let mut dispatches = process.dispatches.iter();
    let mut copies = process.copies.iter();
    dispatches.any(|dispatch| dispatch.stream != 0) || copies.any(|copy| copy.stream != 0)
}

struct ProcessBuilder {
    process: RocmProcess,
    has_streams: bool,
    assembler: DeviceTraceAssembler,
}

impl ProcessBuilder {
    /// Adds the devices' names and compute units, in order of their numbers.
    fn push_agents(&mut self) {
        let agents = self.process.agents.values();
        let mut devices: Vec<&RocmAgent> = agents.filter(|agent| agent.is_device).collect();
        devices.sort_by_key(|agent| agent.number);
        let trace = &mut self.assembler.trace;
        for (place, agent) in devices.iter().enumerate() {
            // A misplaced name would be another device's.
            if i64::try_from(place) == Ok(agent.number) {
                trace.header.devices.push(agent.name.clone());
            }
            // A count of 0 means unknown, and coverage would divide by it.
            if agent.compute_units > 0 {
                trace.note_multiprocessors(agent.number, agent.compute_units);
            }
        }
    }

    /// Returns the device number of an agent; an unlisted agent's id stands in for it.
    fn device(&self, agent: i64) -> i64 {
        let known = self.process.agents.get(&agent);
        known.map_or(agent, |agent| agent.number)
    }

    fn queue(&mut self, device: i64, stream: i64) -> QueueIdx {
        self.assembler.queue_index(DeviceQueue {
            device,
            context: 0,
            stream,
        })
    }

    fn push_dispatches(&mut self) {
        let category = self.assembler.intern("kernel");
        let unknown = self.assembler.intern("unknown_kernel");
        for dispatch in std::mem::take(&mut self.process.dispatches) {
            let name = self.process.kernels.get(&dispatch.kernel).copied();
            let name = name.filter(|name| *name != NameId::EMPTY);
            if name.is_none() {
                let anomalies = &mut self.assembler.trace.anomalies;
                anomalies.note(AnomalyKind::NamelessKernel, || {
                    format!("kernel {}", dispatch.kernel)
                });
            }
            let stream = if self.has_streams {
                dispatch.stream
            } else {
                dispatch.queue
            };
            let queue = self.queue(self.device(dispatch.agent), stream);
            self.assembler.trace.rows.push(DeviceRow {
                grid: blocks(dispatch.grid, dispatch.workgroup),
                block: dispatch.workgroup,
                ..device_row(
                    (RowKind::Kernel, category, name.unwrap_or(unknown)),
                    queue,
                    dispatch.span,
                )
            });
            self.assembler.count_events("X kernel", 1);
        }
    }

    fn push_copies(&mut self) {
        let category = self.assembler.intern("gpu_memcpy");
        for copy in std::mem::take(&mut self.process.copies) {
            let operation = self.process.record_name(copy.name);
            let operation = operation.map(|name| self.assembler.trace.names.get(name).to_owned());
            let name = operation.as_deref().map_or("Memcpy", copy_name);
            let name = self.assembler.intern(name);
            // A copy between host and device is the device's work.
            let is_device =
                |agent: &i64| self.process.agents.get(agent).is_some_and(|a| a.is_device);
            let ends = [copy.to, copy.from];
            let agent = ends.iter().find(|end| is_device(end)).unwrap_or(&copy.to);
            let queue = self.queue(self.device(*agent), copy.stream);
            self.assembler.trace.rows.push(DeviceRow {
                bytes: copy.bytes,
                ..device_row((RowKind::Memcpy, category, name), queue, copy.span)
            });
            self.assembler.count_events("X gpu_memcpy", 1);
        }
    }

    fn push_calls(&mut self) {
        for call in std::mem::take(&mut self.process.calls) {
            match call.family {
                CallFamily::Runtime => self.push_runtime_call(call),
                CallFamily::Library => self.push_op(call, "X cpu_op", false),
                CallFamily::Marker => self.push_marker(call),
                CallFamily::Other => self.assembler.count_events("X rocm_other", 1),
            }
        }
    }

    fn thread(&mut self, span: RecordSpan) -> ThreadIdx {
        self.assembler.thread_index(self.process.pid, span.thread)
    }

    /// Returns the name of a call; `None`, counted, if the file lacks it.
    fn call_name(&mut self, call: RocmCall) -> Option<NameId> {
        let name = self.process.record_name(call.name);
        if name.is_none() {
            let anomalies = &mut self.assembler.trace.anomalies;
            anomalies.note(AnomalyKind::NamelessEvent, || format!("{:?}", call.name));
        }
        name
    }

    fn push_runtime_call(&mut self, call: RocmCall) {
        let Some(name) = self.call_name(call) else {
            return;
        };
        let thread = self.thread(call.span);
        self.assembler.trace.calls.push(RuntimeCall {
            name,
            thread,
            start: call.span.start,
            duration: call.span.duration,
            correlation: call.span.correlation,
            external_id: -1,
            kernel: NameId::EMPTY,
        });
        self.assembler.count_events("X cuda_runtime", 1);
    }

    /// Adds a ROCTx range, which has a message. Marks, and calls that end ranges, have no duration.
    fn push_marker(&mut self, call: RocmCall) {
        let listed = self.process.messages.get(&call.span.correlation.0);
        match call.message.or(listed.copied()) {
            Some(message) if call.span.duration.0 > 0 => {
                let name = crate::rocm::record::RecordName::Known(message);
                let range = RocmCall { name, ..call };
                self.push_op(range, "X user_annotation", true);
            }
            Some(_) | None => self.assembler.count_events("i roctx", 1),
        }
    }

    fn push_op(&mut self, call: RocmCall, event: &str, annotation: bool) {
        let Some(name) = self.call_name(call) else {
            return;
        };
        let thread = self.thread(call.span);
        self.assembler.trace.ops.push(CpuOp {
            name,
            thread,
            start: call.span.start,
            duration: call.span.duration,
            external_id: -1,
            seq_id: -1,
            annotation,
            collective: NO_RECORD,
            ..CpuOp::default()
        });
        self.assembler.count_events(event, 1);
    }

    fn name_threads(&mut self) {
        let pid = TrackLabel::Int(self.process.pid);
        for (tid, name) in &self.process.thread_names {
            let tid = TrackLabel::Int(*tid);
            let names = &mut self.assembler.trace.thread_names;
            names.insert(HostThread { pid, tid }, *name);
        }
    }
}

/// Builds a row from kind, category and name, without sizes.
fn device_row(
    (kind, category, name): (RowKind, NameId, NameId),
    queue: QueueIdx,
    span: RecordSpan,
) -> DeviceRow {
    DeviceRow {
        kind,
        category,
        name,
        queue,
        start: span.start,
        duration: span.duration,
        // 0 means that no recorded call launched the work.
        correlation: match span.correlation {
            Correlation(0) => Correlation::NONE,
            known => known,
        },
        external_id: -1,
        gb_per_s: -1.0,
        collective: NO_RECORD,
        ..DeviceRow::default()
    }
}
