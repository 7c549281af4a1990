//! Reads the JSON of rocprofv3 (`--output-format json`).
//!
//! ```text
//! {"rocprofiler-sdk-tool": [{
//!   "metadata": {"pid": …, "node": {…}}, "agents": [{…}, …],
//!   "strings": {"buffer_records": [{"kind": "HIP_RUNTIME_API", "operations": ["hipFree", …]}, …],
//!               "marker_api": [{"key": 17, "value": "forward"}, …]},
//!   "kernel_symbols": [{…}, …],
//!   "buffer_records": {"kernel_dispatch": [{…}, …], "hip_api": [{…}, …], …}}]}
//! ```
//! The lists are walked element by element, in any order.

use crate::Error;
use crate::rocm::assemble::{assemble, only_process};
use crate::rocm::json_stream::{JsonStream, StreamEnd};
use crate::rocm::record::{
    CallFamily, RecordName, RecordSpan, RocmAgent, RocmCall, RocmCopy, RocmDispatch, RocmProcess,
    record_times,
};
use etlink_json::{JsonScanner, JsonValue};
use etlink_model::{Anomalies, AnomalyKind, Correlation, DeviceTrace, NameId, Names};
use std::io::Read;
use std::sync::Arc;

const TOOL: &[u8] = b"\"rocprofiler-sdk-tool\"";

/// Reads JSON of rocprofv3. O(bytes); memory of the records and of one element's text.
///
/// # Errors
/// The source fails at once, it has no list `rocprofiler-sdk-tool`, or several of its processes
/// have work on devices. A truncated file is not an error: see [`DeviceTrace::anomalies`].
pub fn read_rocprof_json<R: Read>(source: R) -> Result<DeviceTrace, Error> {
    let mut reader = RocprofReader {
        stream: JsonStream::new(source),
        names: Names::default(),
        anomalies: Anomalies::default(),
        processes: vec![],
        text: vec![],
    };
    let end = reader.read_document();
    let bytes = reader.stream.position();
    if let Err(end) = end {
        // The document ended before its first process.
        if reader.processes.is_empty() {
            return Err(end.into_error(bytes));
        }
        reader.note_end(end);
    }
    let process = only_process(reader.processes)?;
    assemble(process, reader.names, reader.anomalies, bytes)
}

struct RocprofReader<R> {
    stream: JsonStream<R>,
    names: Names,
    anomalies: Anomalies,
    processes: Vec<RocmProcess>,
    /// Text of an element; the buffer is reused.
    text: Vec<u8>,
}

/// Lists with elements that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedList {
    Agents,
    KernelSymbols,
    Operations,
    Messages,
    Dispatches,
    Copies,
    Calls(CallFamily),
    /// Unknown list: its elements are counted as not kept.
    Unknown,
}

impl WantedList {
    /// Finds a list by the keys that lead to it, below the tool's own key.
    fn of(outer: &[u8], key: &[u8]) -> Option<WantedList> {
        Some(match (outer, key) {
            (b"", b"\"agents\"") => WantedList::Agents,
            (b"", b"\"kernel_symbols\"") => WantedList::KernelSymbols,
            (b"\"strings\"", b"\"buffer_records\"") => WantedList::Operations,
            (b"\"strings\"", b"\"marker_api\"") => WantedList::Messages,
            (b"\"buffer_records\"", b"\"kernel_dispatch\"") => WantedList::Dispatches,
            (b"\"buffer_records\"", b"\"memory_copy\"") => WantedList::Copies,
            (b"\"buffer_records\"", b"\"hip_api\"" | b"\"hsa_api\"") => {
                WantedList::Calls(CallFamily::Runtime)
            }
            (b"\"buffer_records\"", b"\"marker_api\"") => WantedList::Calls(CallFamily::Marker),
            (b"\"buffer_records\"", b"\"rccl_api\"") => WantedList::Calls(CallFamily::Library),
            (b"\"buffer_records\"", _) => WantedList::Unknown,
            _ => return None,
        })
    }
}

impl<R: Read> RocprofReader<R> {
    /// Counts the reason why the rest was not read.
    fn note_end(&mut self, end: StreamEnd) {
        let place = || format!("byte {}", self.stream.position());
        match end {
            StreamEnd::Cut => self.anomalies.note(AnomalyKind::Truncated, place),
            StreamEnd::Broken | StreamEnd::TooLarge => {
                self.anomalies.note(AnomalyKind::HeaderDamaged, place);
                self.anomalies.note(AnomalyKind::Truncated, place);
            }
            StreamEnd::Failed(source) => {
                let anomalies = &mut self.anomalies;
                anomalies.note(AnomalyKind::SourceEnded, || source.to_string());
            }
        }
    }

    fn read_document(&mut self) -> Result<(), StreamEnd> {
        // Byte order mark, which some editors add.
        for byte in *b"\xEF\xBB\xBF" {
            self.stream.eat(byte)?;
        }
        if !self.stream.eat(b'{')? {
            return Err(StreamEnd::Broken);
        }
        let mut key = vec![];
        while self.stream.key(&mut key)?.is_some() {
            if key == TOOL && self.stream.eat(b'[')? {
                while self.stream.has_item()? {
                    self.read_process()?;
                }
            } else {
                self.stream.value(None)?;
            }
        }
        Ok(())
    }

    fn read_process(&mut self) -> Result<(), StreamEnd> {
        if !self.stream.eat(b'{')? {
            return self.stream.value(None);
        }
        self.processes.push(RocmProcess::default());
        self.read_lists(b"")
    }

    /// Reads the lists of the object at the stream's position.
    fn read_lists(&mut self, outer: &[u8]) -> Result<(), StreamEnd> {
        let mut key = vec![];
        while self.stream.key(&mut key)?.is_some() {
            let is_inner = matches!(&key[..], b"\"strings\"" | b"\"buffer_records\"");
            // Only one level, so that no document can make the recursion deeper.
            if outer.is_empty() && is_inner && self.stream.eat(b'{')? {
                self.read_lists(&key)?;
            } else if outer.is_empty() && key == b"\"metadata\"" {
                self.read_element(Self::push_metadata)?;
            } else if let Some(list) = WantedList::of(outer, &key) {
                self.read_list(list)?;
            } else {
                self.stream.value(None)?;
            }
        }
        Ok(())
    }

    fn read_list(&mut self, list: WantedList) -> Result<(), StreamEnd> {
        if !self.stream.eat(b'[')? {
            return self.stream.value(None);
        }
        while self.stream.has_item()? {
            match list {
                WantedList::Agents => self.read_element(Self::push_agent)?,
                WantedList::KernelSymbols => self.read_element(Self::push_kernel)?,
                WantedList::Operations => self.read_element(Self::push_operations)?,
                WantedList::Messages => self.read_element(Self::push_message)?,
                WantedList::Dispatches => self.read_element(Self::push_dispatch)?,
                WantedList::Copies => self.read_element(Self::push_copy)?,
                WantedList::Calls(family) => {
                    self.read_element(|reader, text| reader.push_call(family, text))?;
                }
                WantedList::Unknown => self.stream.value(None)?,
            }
        }
        Ok(())
    }

    /// Passes on the text of the next value.
    fn read_element(
        &mut self,
        push: impl FnOnce(&mut Self, &[u8]) -> Option<()>,
    ) -> Result<(), StreamEnd> {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let begin = self.stream.position();
        self.stream.value(Some(&mut text))?;
        if push(self, &text).is_none() {
            self.anomalies
                .note(AnomalyKind::Skipped, || format!("byte {begin}"));
        }
        self.text = text;
        Ok(())
    }

    fn process(&mut self) -> Option<&mut RocmProcess> {
        self.processes.last_mut()
    }

    fn push_metadata(&mut self, text: &[u8]) -> Option<()> {
        let [pid, node] = fields(text, ["pid", "node"])?;
        let host = match node {
            Some(node) => fields(node.raw(), ["hostname"])?[0],
            None => None,
        };
        let process = self.process()?;
        process.pid = pid.and_then(JsonValue::int).unwrap_or(0);
        process.host_name = host.map(JsonValue::text).unwrap_or_default().into_owned();
        Some(())
    }

    fn push_agent(&mut self, text: &[u8]) -> Option<()> {
        let [id, kind, number, product, name, units] = fields(
            text,
            [
                "id",
                "type",
                "logical_node_type_id",
                "product_name",
                "name",
                "cu_count",
            ],
        )?;
        let product = product.map(JsonValue::text).filter(|text| !text.is_empty());
        let name = product.or(name.map(JsonValue::text)).unwrap_or_default();
        let agent = RocmAgent {
            // `ROCPROFILER_AGENT_TYPE_GPU`
            is_device: kind.and_then(JsonValue::int) == Some(2),
            number: number.and_then(JsonValue::int).unwrap_or(0),
            name: name.into_owned(),
            compute_units: small(units),
        };
        let id = handle(id)?;
        Arc::make_mut(&mut self.process()?.agents).insert(id, agent);
        Some(())
    }

    fn push_kernel(&mut self, text: &[u8]) -> Option<()> {
        let [id, formatted, demangled, mangled] = fields(
            text,
            [
                "kernel_id",
                "formatted_kernel_name",
                "demangled_kernel_name",
                "kernel_name",
            ],
        )?;
        let texts = [formatted, demangled, mangled].into_iter().flatten();
        let mut texts = texts.map(JsonValue::text).filter(|text| !text.is_empty());
        let name = self.names.intern(&texts.next().unwrap_or_default());
        let id = id.and_then(JsonValue::int)?;
        Arc::make_mut(&mut self.process()?.kernels).insert(id, name);
        Some(())
    }

    fn push_operations(&mut self, text: &[u8]) -> Option<()> {
        let [operations] = fields(text, ["operations"])?;
        let mut names: Vec<NameId> = vec![];
        if let Some(list) = operations {
            let mut scanner = JsonScanner::new(list.raw());
            scanner.eat(b'[').then_some(())?;
            while let Some(name) = scanner.item().ok()? {
                names.push(self.names.intern(&name.text()));
            }
        }
        // The position in the list is the kind's number, so unknown kinds are pushed too.
        self.process()?.operations.push(names);
        Some(())
    }

    fn push_message(&mut self, text: &[u8]) -> Option<()> {
        let [key, value] = fields(text, ["key", "value"])?;
        let message = self.names.intern(&value?.text());
        let key = key.and_then(JsonValue::int)?;
        self.process()?.messages.insert(key, message);
        Some(())
    }

    /// Reads the parts that all records share; the inner option is `None`, counted, if there is no
    /// time.
    fn span(&mut self, values: [Option<JsonValue<'_>>; 4]) -> Option<Option<RecordSpan>> {
        let [thread, correlation, start, end] = values;
        let internal = match correlation {
            Some(ids) => fields(ids.raw(), ["internal"])?[0],
            None => None,
        };
        let number = |value: Option<JsonValue<'_>>| value.and_then(JsonValue::uint);
        let place = || format!("byte {}", self.stream.position());
        let times = record_times(number(start), number(end), &mut self.anomalies, place);
        Some(times.map(|(start, duration)| {
            RecordSpan {
                thread: thread.and_then(JsonValue::int).unwrap_or(0),
                correlation: internal
                    .and_then(JsonValue::int)
                    .map_or(Correlation::NONE, Correlation),
                start,
                duration,
            }
        }))
    }

    fn push_dispatch(&mut self, text: &[u8]) -> Option<()> {
        let [thread, ids, start, end, info, stream] = fields(
            text,
            [
                "thread_id",
                "correlation_id",
                "start_timestamp",
                "end_timestamp",
                "dispatch_info",
                "stream_id",
            ],
        )?;
        let [agent, queue, kernel, workgroup, grid] = fields(
            info?.raw(),
            [
                "agent_id",
                "queue_id",
                "kernel_id",
                "workgroup_size",
                "grid_size",
            ],
        )?;
        let Some(span) = self.span([thread, ids, start, end])? else {
            return Some(());
        };
        let dispatch = RocmDispatch {
            span,
            agent: handle(agent).unwrap_or(0),
            queue: handle(queue).unwrap_or(0),
            stream: handle(stream).unwrap_or(0),
            kernel: kernel.and_then(JsonValue::int).unwrap_or(0),
            grid: sizes(grid),
            workgroup: sizes(workgroup),
        };
        self.process()?.dispatches.push(dispatch);
        Some(())
    }

    fn push_copy(&mut self, text: &[u8]) -> Option<()> {
        let [
            thread,
            ids,
            start,
            end,
            kind,
            operation,
            from,
            to,
            bytes,
            stream,
        ] = fields(
            text,
            [
                "thread_id",
                "correlation_id",
                "start_timestamp",
                "end_timestamp",
                "kind",
                "operation",
                "src_agent_id",
                "dst_agent_id",
                "bytes",
                "stream_id",
            ],
        )?;
        let Some(span) = self.span([thread, ids, start, end])? else {
            return Some(());
        };
        let copy = RocmCopy {
            span,
            name: record_name(kind, operation),
            from: handle(from).unwrap_or(-1),
            to: handle(to).unwrap_or(-1),
            stream: handle(stream).unwrap_or(0),
            bytes: bytes.and_then(JsonValue::uint).unwrap_or(0),
        };
        self.process()?.copies.push(copy);
        Some(())
    }

    fn push_call(&mut self, family: CallFamily, text: &[u8]) -> Option<()> {
        let [thread, ids, start, end, kind, operation] = fields(
            text,
            [
                "thread_id",
                "correlation_id",
                "start_timestamp",
                "end_timestamp",
                "kind",
                "operation",
            ],
        )?;
        let Some(span) = self.span([thread, ids, start, end])? else {
            return Some(());
        };
        let call = RocmCall {
            span,
            family,
            name: record_name(kind, operation),
            message: None,
        };
        self.process()?.calls.push(call);
        Some(())
    }
}

/// Returns the values of some keys of an object; `None` if its text is not an object.
fn fields<'a, const N: usize>(
    text: &'a [u8],
    keys: [&str; N],
) -> Option<[Option<JsonValue<'a>>; N]> {
    let mut found = [None; N];
    let mut scanner = JsonScanner::new(text);
    scanner.enter().ok()?;
    while let Some(key) = scanner.key().ok()? {
        let value = scanner.value().ok()?;
        if let Some(place) = keys.iter().position(|wanted| wanted.as_bytes() == key) {
            found[place] = Some(value);
        }
    }
    Some(found)
}

/// Reads a handle: `{"handle": 17}`, or the bare number.
fn handle(value: Option<JsonValue<'_>>) -> Option<i64> {
    let value = value?;
    match value {
        JsonValue::Nested(text) => fields(text, ["handle"])?[0]?.int(),
        JsonValue::Word(_) | JsonValue::Text(_) => value.int(),
    }
}

/// Reads `{"x": 512, "y": 1, "z": 1}`; anything absent or not a number is 0.
fn sizes(value: Option<JsonValue<'_>>) -> [u32; 3] {
    let found = value.and_then(|value| fields(value.raw(), ["x", "y", "z"]));
    found.unwrap_or_default().map(small)
}

fn small(value: Option<JsonValue<'_>>) -> u32 {
    let number = value.and_then(JsonValue::uint);
    number
        .and_then(|number| u32::try_from(number).ok())
        .unwrap_or(0)
}

fn record_name(kind: Option<JsonValue<'_>>, operation: Option<JsonValue<'_>>) -> RecordName {
    let number = |value: Option<JsonValue<'_>>| value.and_then(JsonValue::int).unwrap_or(-1);
    RecordName::Numbered {
        kind: number(kind),
        operation: number(operation),
    }
}
