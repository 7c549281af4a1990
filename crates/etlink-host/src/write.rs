//! Writes host traces as `ExecutionTraceObserver` does: the one encoder of this format.
//!
//! ```text
//! HostTrace ─ write ────────────┐
//! nodes of a recorder, a test ──┴─ HostWriter ─> JSON text, node by node
//! ```
//! Layout and white space are those of PyTorch, per schema
//! (`torch/csrc/profiler/standalone/execution_trace_observer.cpp`): a file that PyTorch wrote has
//! the same text for each of its nodes when it was read and is written again. What differs is
//! the order of nodes of several threads, which a [`HostTrace`] does not keep.

use etlink_json::write as json;
use etlink_model::{Collective, HostHeader, HostTrace, HostVersion, NameId, ValueList};
use std::io::{self, Write};

/// Name of the node of a process.
pub const PROCESS_NODE: &str = "[pytorch|profiler|execution_trace|process]";

/// Name of the node of a thread.
pub const THREAD_NODE: &str = "[pytorch|profiler|execution_trace|thread]";

/// A layout of the execution trace, oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostSchema {
    /// PyTorch 2.1: everything is a key of the node.
    V1_0_1,
    /// PyTorch 2.2 and 2.3: arguments are objects, the rest are attributes.
    V1_0_2,
    /// PyTorch 2.4 before its release: a group is a pair of name and description.
    V1_0_3,
    /// PyTorch 2.4: communication attributes, kernel backend and file.
    V1_1_0,
    /// PyTorch 2.5: strides.
    V1_1_1Early,
    /// PyTorch 2.7 to 2.15: tensor ranges, `is_asynchronized_op`, two more columns of indentation.
    #[default]
    V1_1_1,
}

impl HostSchema {
    /// All of them, oldest first.
    pub const ALL: [HostSchema; 6] = [
        HostSchema::V1_0_1,
        HostSchema::V1_0_2,
        HostSchema::V1_0_3,
        HostSchema::V1_1_0,
        HostSchema::V1_1_1Early,
        HostSchema::V1_1_1,
    ];

    /// The `schema` of the file.
    pub fn text(self) -> &'static str {
        match self {
            HostSchema::V1_0_1 => HostVersion::V1_0_1.schema,
            HostSchema::V1_0_2 => HostVersion::V1_0_2.schema,
            HostSchema::V1_0_3 => HostVersion::V1_0_3.schema,
            HostSchema::V1_1_0 => HostVersion::V1_1_0.schema,
            HostSchema::V1_1_1Early | HostSchema::V1_1_1 => HostVersion::V1_1_1.schema,
        }
    }

    /// The layout of a file with this `schema`. PyTorch 2.5 and 2.15 write the same one; the
    /// later layout is taken.
    pub fn from_text(schema: &str) -> Option<HostSchema> {
        // From the newest: it has all attributes that the older layout with this text has.
        let mut layouts = HostSchema::ALL.into_iter().rev();
        layouts.find(|layout| layout.text() == schema)
    }

    /// What stands before the brace of a node.
    fn indent(self) -> &'static str {
        if self == HostSchema::V1_1_1 {
            "      "
        } else {
            "    "
        }
    }

    fn has_strides(self) -> bool {
        self >= HostSchema::V1_1_1Early
    }

    fn has_kernels(self) -> bool {
        self >= HostSchema::V1_1_0
    }
}

/// How to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostWriteOptions {
    /// The layout.
    pub schema: HostSchema,
    /// Leaves names and texts as they are, as PyTorch does: a quote in a name then makes a
    /// file that is no JSON. Otherwise they are escaped.
    pub verbatim: bool,
}

/// `inputs` or `outputs` of a node: texts of JSON lists, empty where there is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArgumentText<'a> {
    /// Tensors (`[id, storage, offset, elements, bytes of one, "device"]`) and scalars.
    pub values: &'a [u8],
    /// Sizes per dimension.
    pub shapes: &'a [u8],
    /// `Tensor(float)`, `Int`, …
    pub types: &'a [u8],
    /// Elements from one index to the next, per dimension.
    pub strides: &'a [u8],
}

/// What the attributes of `record_param_comms` say (`getCommsNodeAttrs`).
#[derive(Clone, Copy, Debug, Default)]
pub struct CommunicationText<'a> {
    /// `collective_name`.
    pub name: &'a str,
    /// Element type: `Float`.
    pub dtype: &'a str,
    /// Elements of the input.
    pub in_elements: u64,
    /// Elements of the output.
    pub out_elements: u64,
    /// List text; empty = not said.
    pub in_split: &'a str,
    /// List text; empty = not said.
    pub out_split: &'a str,
    /// First global rank of the group, negative = not said.
    pub rank_start: i64,
    /// Distance between the ranks of the group, negative = not said.
    pub rank_stride: i64,
    /// `pg_name`; empty = not said.
    pub group_name: &'a str,
    /// `pg_desc`; empty = not said.
    pub group_desc: &'a str,
    /// Ranks in the group, 0 = not said.
    pub group_size: u64,
    /// Whether the caller goes on before the transfer has ended.
    pub asynchronous: bool,
}

/// A node to be written.
#[derive(Clone, Copy, Debug)]
pub struct NodeText<'a> {
    /// Id, from the counter that tensors and storages also use.
    pub id: u64,
    /// Name.
    pub name: &'a str,
    /// Id of the node around it.
    pub parent: u64,
    /// `RecordFunction` handle, 0 for process and threads.
    pub rf_id: u64,
    /// Id of what was open on the forward thread.
    pub fw_parent: u64,
    /// Autograd sequence number, -1 = none.
    pub seq_id: i64,
    /// `at::RecordScope`.
    pub scope: u8,
    /// Number of the thread in the process, from 1.
    pub tid: u64,
    /// The forward thread of a backward op, else 0.
    pub fw_tid: u64,
    /// Schema of the op.
    pub op_schema: &'a str,
    /// `triton` or empty.
    pub kernel_backend: &'a str,
    /// File of a generated kernel.
    pub kernel_file: &'a str,
    /// Ranges of integer tensors.
    pub tensor_range: &'a str,
    /// What goes in.
    pub inputs: ArgumentText<'a>,
    /// What comes out.
    pub outputs: ArgumentText<'a>,
    /// Of a communication.
    pub communication: Option<CommunicationText<'a>>,
    /// Attributes as JSON objects, comma separated; from 1.0.2 on.
    pub more_attributes: &'a [u8],
}

impl<'a> NodeText<'a> {
    /// A node of a user's range that says nothing else: process, thread and annotation.
    pub fn range(id: u64, parent: u64, name: &'a str, tid: u64) -> Self {
        NodeText {
            id,
            name,
            parent,
            rf_id: 0,
            fw_parent: 0,
            seq_id: -1,
            scope: 7,
            tid,
            fw_tid: 0,
            op_schema: "",
            kernel_backend: "",
            kernel_file: "",
            tensor_range: "",
            inputs: ArgumentText::default(),
            outputs: ArgumentText::default(),
            communication: None,
            more_attributes: b"",
        }
    }

    /// The node of the process, which PyTorch writes last.
    pub fn process() -> Self {
        NodeText::range(1, 1, PROCESS_NODE, 0)
    }

    /// The node of a thread, which PyTorch writes when it sees the thread's first op.
    pub fn thread(id: u64, tid: u64) -> Self {
        NodeText::range(id, 1, THREAD_NODE, tid)
    }
}

/// Writes an execution trace node by node. Memory is that of one node.
pub struct HostWriter<W> {
    out: W,
    options: HostWriteOptions,
    node: Vec<u8>,
    is_first: bool,
}

impl<W: Write> HostWriter<W> {
    /// Writes what stands before the nodes. `schema` of the header is not looked at:
    /// [`HostWriteOptions::schema`] counts.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W, header: &HostHeader, options: HostWriteOptions) -> io::Result<Self> {
        let mut head = vec![];
        write!(head, "{{\n  \"schema\": \"{}\"", options.schema.text())?;
        if let Some(pid) = header.pid {
            write!(head, ", \"pid\": {pid}")?;
        }
        if !header.time.is_empty() {
            head.extend_from_slice(b", \"time\": ");
            json::text(&mut head, &header.time)?;
        }
        if let Some(start) = header.start_ms {
            write!(head, ", \"start_ts\": {start}")?;
        }
        head.extend_from_slice(b",\n  \"nodes\": [");
        out.write_all(&head)?;
        Ok(HostWriter {
            out,
            options,
            node: vec![],
            is_first: true,
        })
    }

    /// Writes one node.
    ///
    /// # Errors
    /// Those of the output.
    pub fn node(&mut self, node: &NodeText<'_>) -> io::Result<()> {
        self.node.clear();
        let separator = if self.is_first { "\n" } else { ",\n" };
        self.is_first = false;
        self.node.extend_from_slice(separator.as_bytes());
        let text = NodeEncoder {
            out: &mut self.node,
            options: self.options,
        };
        text.node(node)?;
        self.out.write_all(&self.node)
    }

    /// Writes the end. `finish_ms` is the steady clock's, and absent of an observer that was
    /// never unregistered, whose file ends without it.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self, finish_ms: Option<i64>) -> io::Result<W> {
        self.out.write_all(b"\n  ]")?;
        if let Some(finish) = finish_ms {
            write!(self.out, ",\n  \"finish_ts\": {finish}")?;
        }
        self.out.write_all(b"\n}")?;
        Ok(self.out)
    }
}

/// Encodes one node.
struct NodeEncoder<'o> {
    out: &'o mut Vec<u8>,
    options: HostWriteOptions,
}

impl NodeEncoder<'_> {
    fn node(mut self, node: &NodeText<'_>) -> io::Result<()> {
        let indent = self.options.schema.indent();
        self.push_plain(indent);
        self.push_plain("{\n");
        self.push_indented("");
        if self.options.schema == HostSchema::V1_0_1 {
            self.write_flat(node)?;
        } else {
            self.write_attributed(node)?;
        }
        self.push_plain("\n");
        self.push_plain(indent);
        self.push_plain("}");
        Ok(())
    }

    /// Schema 1.0.1.
    fn write_flat(&mut self, node: &NodeText<'_>) -> io::Result<()> {
        self.push_plain("\"name\": ");
        self.text(node.name)?;
        let NodeText {
            id,
            rf_id,
            parent,
            fw_parent,
            seq_id,
            scope,
            tid,
            fw_tid,
            ..
        } = node;
        write!(
            self.out,
            ", \"id\": {id}, \"rf_id\": {rf_id}, \"parent\": {parent}, \
             \"fw_parent\": {fw_parent}, \"seq_id\": {seq_id}, \"scope\": {scope}, \
             \"tid\": {tid}, \"fw_tid\": {fw_tid}, \"op_schema\": "
        )?;
        self.text(node.op_schema)?;
        for (lists, kind) in [(&node.inputs, "input"), (&node.outputs, "output")] {
            self.push_plain(",\n");
            self.push_indented("");
            for (key, list) in [
                ("s\": ", lists.values),
                ("_shapes\": ", lists.shapes),
                ("_types\": ", lists.types),
            ] {
                let separator = if key == "s\": " { "\"" } else { ", \"" };
                self.push_plain(separator);
                self.push_plain(kind);
                self.push_plain(key);
                self.push_list(list);
            }
        }
        Ok(())
    }

    /// Schema 1.0.2 and later.
    fn write_attributed(&mut self, node: &NodeText<'_>) -> io::Result<()> {
        write!(self.out, "\"id\": {}, \"name\": ", node.id)?;
        self.text(node.name)?;
        writeln!(self.out, ", \"ctrl_deps\": {},", node.parent)?;
        self.push_indented("\"inputs\": ");
        self.write_lists(&node.inputs);
        self.push_plain(",\n");
        self.push_indented("\"outputs\": ");
        self.write_lists(&node.outputs);
        self.push_plain(",\n");
        self.push_indented("\"attrs\": [");
        self.write_attributes(node)?;
        self.push_plain("]");
        Ok(())
    }

    fn write_lists(&mut self, lists: &ArgumentText<'_>) {
        self.push_plain("{\"values\": ");
        self.push_list(lists.values);
        self.push_plain(", \"shapes\": ");
        self.push_list(lists.shapes);
        self.push_plain(", \"types\": ");
        self.push_list(lists.types);
        if self.options.schema.has_strides() {
            self.push_plain(", \"strides\": ");
            self.push_list(lists.strides);
        }
        self.push_plain("}");
    }

    fn write_attributes(&mut self, node: &NodeText<'_>) -> io::Result<()> {
        let numbers = [
            ("rf_id", "uint64", i128::from(node.rf_id)),
            ("fw_parent", "uint64", i128::from(node.fw_parent)),
            ("seq_id", "int64", i128::from(node.seq_id)),
            ("scope", "uint64", i128::from(node.scope)),
            ("tid", "uint64", i128::from(node.tid)),
            ("fw_tid", "uint64", i128::from(node.fw_tid)),
        ];
        // the observers before 2.4 put a space behind the comma
        let separator = if self.options.schema.has_kernels() {
            ","
        } else {
            ", "
        };
        for (name, kind, value) in numbers {
            write!(
                self.out,
                "{{\"name\": \"{name}\", \"type\": \"{kind}\", \"value\": {value}}}{separator}"
            )?;
        }
        self.text_attribute("op_schema", node.op_schema)?;
        if self.options.schema.has_kernels() {
            self.push_plain(separator);
            self.text_attribute("kernel_backend", node.kernel_backend)?;
            self.push_plain(separator);
            self.text_attribute("kernel_file", node.kernel_file)?;
            if self.options.schema == HostSchema::V1_1_1 {
                self.push_plain(separator);
                self.text_attribute("tensor_range", node.tensor_range)?;
            }
            // Layouts before 1.1.0 have no communication attributes.
            if let Some(communication) = &node.communication {
                self.write_communication(communication)?;
            }
        }
        if !node.more_attributes.is_empty() {
            self.push_plain(separator);
            self.out.extend_from_slice(node.more_attributes);
        }
        Ok(())
    }

    /// `getCommsNodeAttrs`: what the record does not say has no attribute.
    fn write_communication(&mut self, record: &CommunicationText<'_>) -> io::Result<()> {
        // PyTorch declares them as unsigned and leaves out what its record does not know.
        let size = Some(record.group_size).filter(|size| *size > 0);
        self.comm_text("collective_name", record.name)?;
        self.comm_text("dtype", record.dtype)?;
        self.comm_number("in_msg_nelems", Some(record.in_elements))?;
        self.comm_number("out_msg_nelems", Some(record.out_elements))?;
        self.comm_text("in_split_size", record.in_split)?;
        self.comm_text("out_split_size", record.out_split)?;
        self.comm_number("global_rank_start", known_rank(record.rank_start))?;
        self.comm_number("global_rank_stride", known_rank(record.rank_stride))?;
        self.comm_text("pg_name", record.group_name)?;
        self.comm_text("pg_desc", record.group_desc)?;
        self.comm_number("pg_size", size)?;
        if self.options.schema == HostSchema::V1_1_1 {
            // PyTorch calls the type of this boolean a string
            let value = record.asynchronous;
            write!(
                self.out,
                ", \n  {{\"name\": \"is_asynchronized_op\", \"type\": \"string\", \
                 \"value\": {value}}}"
            )?;
        }
        Ok(())
    }

    fn comm_text(&mut self, name: &str, value: &str) -> io::Result<()> {
        if value.is_empty() {
            return Ok(());
        }
        self.push_plain(", \n  ");
        self.text_attribute(name, value)
    }

    fn comm_number(&mut self, name: &str, value: Option<u64>) -> io::Result<()> {
        let Some(value) = value else { return Ok(()) };
        write!(
            self.out,
            ", \n  {{\"name\": \"{name}\", \"type\": \"uint64\", \"value\": {value}}}"
        )
    }

    fn text_attribute(&mut self, name: &str, value: &str) -> io::Result<()> {
        write!(
            self.out,
            "{{\"name\": \"{name}\", \"type\": \"string\", \"value\": "
        )?;
        self.text(value)?;
        self.push_plain("}");
        Ok(())
    }

    fn push_plain(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// A line of a node begins two columns further in than its brace.
    fn push_indented(&mut self, text: &str) {
        self.push_plain(self.options.schema.indent());
        self.push_plain("  ");
        self.push_plain(text);
    }

    fn push_list(&mut self, list: &[u8]) {
        let list = if list.is_empty() { b"[]" } else { list };
        self.out.extend_from_slice(list);
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        if self.options.verbatim {
            self.push_plain("\"");
            self.push_plain(text);
            self.push_plain("\"");
            Ok(())
        } else {
            json::text(self.out, text)
        }
    }
}

/// `None` for the negative numbers that stand for an absent rank.
fn known_rank(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

/// Writes a trace that was read, or made. O(n log n) for n nodes.
///
/// A node is written when it ends, as PyTorch does: behind those in it, the process last.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(trace: &HostTrace, out: W, options: HostWriteOptions) -> io::Result<W> {
    let mut writer = HostWriter::new(out, &trace.header, options)?;
    for row in rows_by_end(trace) {
        writer.node(&node_text(trace, row))?;
    }
    writer.finish(trace.header.finish_ms)
}

/// Rows in the order in which the nodes end, as far as ids and parents tell.
fn rows_by_end(trace: &HostTrace) -> Vec<usize> {
    let nodes = &trace.nodes;
    let mut order = Vec::with_capacity(nodes.len());
    let mut process = vec![];
    // what is open on each thread, outermost first
    let mut threads: Vec<(u32, Vec<usize>)> = vec![];
    let mut is_open = vec![false; nodes.len()];
    for row in 0..nodes.len() {
        match trace.names.get(nodes.name[row]) {
            PROCESS_NODE => {
                process.push(row);
                continue;
            }
            THREAD_NODE => {
                order.push(row);
                continue;
            }
            _ => {}
        }
        let tid = nodes.tid[row];
        let known = threads.iter().position(|(known, _)| *known == tid);
        let place = known.unwrap_or_else(|| {
            threads.push((tid, vec![]));
            threads.len() - 1
        });
        let open = &mut threads[place].1;
        // A parent that has ended, or is on another thread, cannot close anything here.
        let parent = trace
            .find(nodes.parent[row])
            .filter(|parent| is_open[*parent]);
        // What lies above the parent on the stack has ended before this node began.
        while let Some(top) = open.pop_if(|top| Some(*top) != parent) {
            is_open[top] = false;
            order.push(top);
        }
        is_open[row] = true;
        open.push(row);
    }
    // What is still open ends with the trace, the innermost first.
    let open = threads
        .into_iter()
        .flat_map(|(_, open)| open.into_iter().rev());
    order.extend(open);
    order.extend(process);
    order
}

fn node_text(trace: &HostTrace, row: usize) -> NodeText<'_> {
    let node = trace.nodes.row(row);
    let name = |id: NameId| trace.names.get(id);
    let lists = |lists: ValueList| ArgumentText {
        values: trace.span(lists.values),
        shapes: name(lists.shapes).as_bytes(),
        types: name(lists.types).as_bytes(),
        strides: name(lists.strides).as_bytes(),
    };
    let record = usize::try_from(node.collective)
        .ok()
        .filter(|record| *record < trace.collectives.len())
        .map(|record| trace.collectives.row(record));
    // the process is its own parent in the file; readers make that none
    let is_process = name(node.name) == PROCESS_NODE;
    NodeText {
        id: node.id,
        name: name(node.name),
        parent: if is_process { node.id } else { node.parent },
        rf_id: node.rf_id.0,
        fw_parent: node.fw_parent,
        seq_id: node.seq_id,
        scope: node.scope,
        tid: u64::from(node.tid),
        fw_tid: u64::from(node.fw_tid),
        op_schema: name(node.op_schema),
        kernel_backend: name(node.kernel_backend),
        kernel_file: name(node.kernel_file),
        tensor_range: name(node.tensor_range),
        inputs: lists(node.inputs),
        outputs: lists(node.outputs),
        communication: record
            .filter(|record| record.name != NameId::EMPTY)
            .map(|record| communication_text(trace, &record)),
        more_attributes: trace.span(node.extra_attrs),
    }
}

fn communication_text<'a>(trace: &'a HostTrace, record: &Collective) -> CommunicationText<'a> {
    CommunicationText {
        name: trace.names.get(record.name),
        dtype: trace.names.get(record.dtype),
        in_elements: record.in_elements,
        out_elements: record.out_elements,
        in_split: trace.names.get(record.in_split),
        out_split: trace.names.get(record.out_split),
        rank_start: record.rank_start,
        rank_stride: record.rank_stride,
        group_name: trace.names.get(record.group_name),
        group_desc: trace.names.get(record.group_desc),
        group_size: record.group_size,
        asynchronous: record.asynchronous,
    }
}
