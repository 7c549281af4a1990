//! Writes nodes of a recorder like `ExecutionTraceObserver`, node by node: the only encoder of this
//! format.
//!
//! Layout and white space match PyTorch's, per schema
//! (`torch/csrc/profiler/standalone/execution_trace_observer.cpp`): a node of PyTorch that is read
//! and written again has the same text.

use etlink_json::write as json;
use etlink_model::{HostHeader, HostVersion};
use std::io::{self, Write};

/// Name of the node of a process.
pub const PROCESS_NODE: &str = "[pytorch|profiler|execution_trace|process]";

/// Name of the node of a thread.
pub const THREAD_NODE: &str = "[pytorch|profiler|execution_trace|thread]";

/// A layout of the execution trace, oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostSchema {
    /// PyTorch 2.1: every field is a key of the node.
    V1_0_1,
    /// PyTorch 2.2 and 2.3: arguments are objects, everything else is an attribute.
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
    /// All layouts, oldest first.
    pub const ALL: [HostSchema; 6] = [
        HostSchema::V1_0_1,
        HostSchema::V1_0_2,
        HostSchema::V1_0_3,
        HostSchema::V1_1_0,
        HostSchema::V1_1_1Early,
        HostSchema::V1_1_1,
    ];

    /// Returns the file's `schema` value.
    pub fn text(self) -> &'static str {
        match self {
            HostSchema::V1_0_1 => HostVersion::V1_0_1.schema,
            HostSchema::V1_0_2 => HostVersion::V1_0_2.schema,
            HostSchema::V1_0_3 => HostVersion::V1_0_3.schema,
            HostSchema::V1_1_0 => HostVersion::V1_1_0.schema,
            HostSchema::V1_1_1Early | HostSchema::V1_1_1 => HostVersion::V1_1_1.schema,
        }
    }

    /// Returns the indentation of a node's brace.
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

/// Options of [`HostWriter`].
#[derive(Clone, Copy, Debug, Default)]
pub struct HostWriteOptions {
    /// Layout to write.
    pub schema: HostSchema,
    /// True to leave names and texts unescaped, as PyTorch does: a quote in a name then makes the
    /// file invalid JSON.
    pub verbatim: bool,
}

/// `inputs` or `outputs` of a node: texts of JSON lists, empty if absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArgumentText<'a> {
    /// Tensors (`[id, storage, offset, elements, bytes of one, "device"]`) and scalars.
    pub values: &'a [u8],
    /// Sizes per dimension.
    pub shapes: &'a [u8],
    /// `Tensor(float)`, `Int`, …
    pub types: &'a [u8],
    /// Strides in elements, per dimension.
    pub strides: &'a [u8],
}

/// Attributes of `record_param_comms` (`getCommsNodeAttrs`).
#[derive(Clone, Copy, Debug, Default)]
pub struct CommunicationText<'a> {
    /// `collective_name`.
    pub name: &'a str,
    /// Element type: `Float`.
    pub dtype: &'a str,
    /// Number of elements of the input.
    pub in_elements: u64,
    /// Number of elements of the output.
    pub out_elements: u64,
    /// Split sizes of the input as list text; empty if unknown.
    pub in_split: &'a str,
    /// Split sizes of the output as list text; empty if unknown.
    pub out_split: &'a str,
    /// First global rank of the group; negative if unknown.
    pub rank_start: i64,
    /// Distance between the ranks of the group; negative if unknown.
    pub rank_stride: i64,
    /// `pg_name`; empty if unknown.
    pub group_name: &'a str,
    /// `pg_desc`; empty if unknown.
    pub group_desc: &'a str,
    /// Number of ranks in the group; 0 if unknown.
    pub group_size: u64,
    /// True if the caller continues before the transfer has ended.
    pub asynchronous: bool,
}

/// A node to write.
#[derive(Clone, Copy, Debug)]
pub struct NodeText<'a> {
    /// Id of the node, from the counter that tensors and storages also use.
    pub id: u64,
    /// Name of the node.
    pub name: &'a str,
    /// Id of the enclosing node.
    pub parent: u64,
    /// `RecordFunction` handle; 0 for process and threads.
    pub rf_id: u64,
    /// Id of the node that was open on the forward thread.
    pub fw_parent: u64,
    /// Autograd sequence number; -1 for none.
    pub seq_id: i64,
    /// `at::RecordScope`.
    pub scope: u8,
    /// Number of the thread in the process, from 1.
    pub tid: u64,
    /// Forward thread of a backward op, otherwise 0.
    pub fw_tid: u64,
    /// Schema of the op.
    pub op_schema: &'a str,
    /// `triton`, or empty.
    pub kernel_backend: &'a str,
    /// File of a generated kernel.
    pub kernel_file: &'a str,
    /// Ranges of integer tensors.
    pub tensor_range: &'a str,
    /// Input arguments.
    pub inputs: ArgumentText<'a>,
    /// Output arguments.
    pub outputs: ArgumentText<'a>,
    /// Attributes of a communication; `None` for other nodes.
    pub communication: Option<CommunicationText<'a>>,
    /// Further attributes as JSON objects, comma separated; from 1.0.2.
    pub more_attributes: &'a [u8],
}

impl<'a> NodeText<'a> {
    /// Builds a node with nothing but a name and its place in the tree: process, thread or
    /// annotation.
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

    /// Builds the process node, which PyTorch writes last.
    pub fn process() -> Self {
        NodeText::range(1, 1, PROCESS_NODE, 0)
    }

    /// Builds the node of a thread, which PyTorch writes when it sees the thread's first op.
    pub fn thread(id: u64, tid: u64) -> Self {
        NodeText::range(id, 1, THREAD_NODE, tid)
    }
}

/// Writes an execution trace node by node. Keeps one node in memory.
pub struct HostWriter<W> {
    out: W,
    options: HostWriteOptions,
    node: Vec<u8>,
    is_first: bool,
}

impl<W: Write> HostWriter<W> {
    /// Writes the fields before the nodes. The header's `schema` is ignored in favour of
    /// [`HostWriteOptions::schema`].
    ///
    /// # Errors
    /// Writing to `out` fails.
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
    /// Writing to the output fails.
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

    /// Writes the end of the trace. `finish_ms` is from the steady clock; it is `None` for an
    /// observer that was never unregistered, whose file ends without the field.
    ///
    /// # Errors
    /// Writing to the output fails.
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

    /// Writes the fields in schema 1.0.1.
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

    /// Writes the fields in schema 1.0.2 and later.
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
        // observers before 2.4 write a space after the comma
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

    /// Writes the attributes of `getCommsNodeAttrs`, without those that the record does not state.
    fn write_communication(&mut self, record: &CommunicationText<'_>) -> io::Result<()> {
        // PyTorch declares them as unsigned and omits unknown values.
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
            // PyTorch labels this boolean as a string
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

    /// Writes a line of a node, indented two columns more than its brace.
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

/// Returns the rank; `None` for the negative numbers that mean an unknown one.
fn known_rank(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}
