//! Parses a line of a log.

use crate::nccl_inspector::log::{InspectorCommunicator, InspectorLog, TimingSource};
use etlink_json::{BrokenJson, JsonScanner, JsonValue};
use etlink_model::{DurationNs, NameId, UnixNs};
use rustc_hash::FxHashMap;

/// Nanoseconds in a microsecond.
const US: i64 = 1_000;

/// The log so far, with an index of its communicators.
#[derive(Default)]
pub(crate) struct LineReader {
    pub(crate) log: InspectorLog,
    known: FxHashMap<InspectorCommunicator, u32>,
}

/// Call described by a line.
struct CallFields {
    name: NameId,
    number: u64,
    peer: i64,
    bytes: u64,
    duration: DurationNs,
    timing: TimingSource,
}

impl LineReader {
    /// Parses a line; returns true if it is from the inspector.
    pub(crate) fn read_line(&mut self, text: &[u8]) -> bool {
        matches!(self.try_line(text), Ok(Some(())))
    }

    fn try_line(&mut self, text: &[u8]) -> Result<Option<()>, BrokenJson> {
        let mut line = JsonScanner::new(text);
        line.enter()?;
        let mut communicator = InspectorCommunicator::default();
        let (mut written, mut call) = (UnixNs(0), None);
        let mut has_header = false;
        while let Some(key) = line.key()? {
            let value = line.value()?;
            match key {
                b"header" => {
                    has_header = true;
                    read_header(value, &mut communicator)?;
                }
                b"metadata" => written = read_metadata(value, &mut communicator)?,
                b"coll_perf" | b"p2p_perf" => call = self.read_call(value)?,
                _ => {}
            }
        }
        if !has_header {
            return Ok(None);
        }
        let Some(call) = call else {
            return Ok(None);
        };
        let place = match self.known.get(&communicator) {
            Some(place) => *place,
            None => {
                let all = &mut self.log.communicators;
                let place = u32::try_from(all.len()).unwrap_or(u32::MAX);
                all.push(communicator.clone());
                self.known.insert(communicator, place);
                place
            }
        };
        let calls = &mut self.log.calls;
        calls.communicator.push(place);
        calls.name.push(call.name);
        calls.number.push(call.number);
        calls.peer.push(call.peer);
        calls.bytes.push(call.bytes);
        calls.duration.push(call.duration);
        calls.timing.push(call.timing);
        calls.written.push(written);
        Ok(Some(()))
    }

    /// Reads `coll_perf` or `p2p_perf`; `None` if it lacks the name or the duration.
    fn read_call(&mut self, value: JsonValue<'_>) -> Result<Option<CallFields>, BrokenJson> {
        let mut fields = JsonScanner::new(value.raw());
        fields.enter()?;
        let (mut name, mut duration) = (None, None);
        let (mut number, mut peer, mut bytes) = (0, -1, 0);
        let mut timing = TimingSource::Unknown;
        while let Some(key) = fields.key()? {
            let value = fields.value()?;
            match key {
                b"coll" | b"p2p" => name = Some(self.log.names.intern(&value.text())),
                b"coll_sn" | b"p2p_sn" => number = value.uint().unwrap_or(0),
                b"p2p_peer" => peer = value.int().unwrap_or(-1),
                b"coll_msg_size_bytes" | b"p2p_msg_size_bytes" => {
                    bytes = value.uint().unwrap_or(0);
                }
                b"coll_exec_time_us" | b"p2p_exec_time_us" => duration = value.time_ns(),
                b"coll_timing_source" | b"p2p_timing_source" => {
                    timing = match value.raw() {
                        b"kernel_gpu" => TimingSource::KernelGpu,
                        b"kernel_cpu" => TimingSource::KernelCpu,
                        b"collective_cpu" => TimingSource::CollectiveCpu,
                        _ => TimingSource::Unknown,
                    }
                }
                _ => {}
            }
        }
        let (Some(name), Some(duration)) = (name, duration) else {
            return Ok(None);
        };
        Ok(Some(CallFields {
            name,
            number,
            peer,
            bytes,
            duration: DurationNs(duration.max(0)),
            timing,
        }))
    }
}

fn read_header(
    value: JsonValue<'_>,
    communicator: &mut InspectorCommunicator,
) -> Result<(), BrokenJson> {
    let mut fields = JsonScanner::new(value.raw());
    fields.enter()?;
    while let Some(key) = fields.key()? {
        let value = fields.value()?;
        match key {
            b"id" => communicator.id = value.text().into_owned(),
            // placeholder that the plugin writes for a missing name
            b"comm_name" if value.raw() == b"unknown" => {}
            b"comm_name" => communicator.name = value.text().into_owned(),
            b"rank" => communicator.rank = value.int().unwrap_or(-1),
            b"n_ranks" => communicator.ranks = value.uint().unwrap_or(0),
            b"nnodes" => communicator.nodes = value.uint().unwrap_or(0),
            _ => {}
        }
    }
    Ok(())
}

/// Reads host and process into `communicator`; returns the time at which the line was written.
fn read_metadata(
    value: JsonValue<'_>,
    communicator: &mut InspectorCommunicator,
) -> Result<UnixNs, BrokenJson> {
    let mut fields = JsonScanner::new(value.raw());
    fields.enter()?;
    let mut written = UnixNs(0);
    while let Some(key) = fields.key()? {
        let value = fields.value()?;
        match key {
            b"hostname" => communicator.host = value.text().into_owned(),
            b"pid" => communicator.pid = value.int().unwrap_or(0),
            b"dump_timestamp_us" => {
                written = UnixNs(value.int().unwrap_or(0).saturating_mul(US));
            }
            _ => {}
        }
    }
    Ok(written)
}
