//! The host trace's text, as `execution_trace_observer.cpp` prints it.

use super::{Op, TraceBuilder};

/// Schema of a host trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostSchema {
    /// PyTorch 2.1: flat nodes.
    V1_0_1,
    /// PyTorch 2.2 and 2.3: inputs, outputs, attrs.
    V1_0_2,
    /// PyTorch 2.4: communication attributes, kernel file.
    V1_1_0,
    /// PyTorch 2.5 on: strides.
    V1_1_1,
}

impl HostSchema {
    /// All of them, oldest first.
    pub const ALL: [HostSchema; 4] = [
        HostSchema::V1_0_1,
        HostSchema::V1_0_2,
        HostSchema::V1_1_0,
        HostSchema::V1_1_1,
    ];

    fn text(self) -> &'static str {
        match self {
            HostSchema::V1_0_1 => "1.0.1",
            HostSchema::V1_0_2 => "1.0.2-chakra.0.0.4",
            HostSchema::V1_1_0 => "1.1.0-chakra.0.0.4",
            HostSchema::V1_1_1 => "1.1.1-chakra.0.0.4",
        }
    }
}

struct Node {
    id: u64,
    parent: u64,
    name: String,
    rf_id: u64,
    seq: i64,
    scope: u8,
    tid: usize,
    fw_tid: u32,
    /// Values, shapes, types.
    inputs: [String; 3],
    comms: String,
    /// Place in the file: (end, later start first, later drawn first).
    place: (i64, std::cmp::Reverse<(i64, usize)>),
}

impl TraceBuilder {
    /// The host trace of the process that was set last.
    pub fn host(&self, schema: HostSchema) -> Vec<u8> {
        let separator = if schema == HostSchema::V1_0_1 {
            ",\n    {"
        } else {
            ",\n      {"
        };
        let mut nodes = self.host_nodes();
        nodes.sort_by_key(|node| node.place);
        let texts: Vec<String> = nodes.iter().map(|node| node.text(schema)).collect();
        let text = format!(
            "{{\n  \"schema\": \"{}\", \"pid\": {}, \"time\": \"2026-11-21 03:06:26\", \"start_ts\": 758635,\n  \"nodes\": [\n    {{{}\n  ],\n  \"finish_ts\": 758671\n}}",
            schema.text(),
            self.pid,
            texts.join(separator)
        );
        text.into_bytes()
    }

    /// The process root, thread roots, and ops with their parents. Ids as PyTorch counts them: every op's
    /// is followed by one of a tensor.
    fn host_nodes(&self) -> Vec<Node> {
        let rf_ids = self.rf_ids();
        let visible = |op: &usize| {
            self.ops[*op].in_host && self.threads[self.ops[*op].thread].pid == self.pid
        };
        let mut order: Vec<usize> = (0..self.ops.len()).filter(visible).collect();
        order.sort_by_key(|&op| rf_ids[op]);
        let mut nodes = vec![Node::root(
            "process",
            1,
            0,
            (i64::MAX, std::cmp::Reverse((0, 0))),
        )];
        let mut id = 2;
        let mut stacks: Vec<Vec<(u64, i64)>> = vec![vec![]; self.threads.len()];
        for op in order {
            let drawn = &self.ops[op];
            let stack = &mut stacks[drawn.thread];
            if stack.is_empty() {
                nodes.push(Node::root(
                    "thread",
                    id,
                    drawn.thread + 1,
                    (i64::MIN, std::cmp::Reverse((0, drawn.thread))),
                ));
                stack.push((id, i64::MAX));
                id += 1;
            }
            stack.retain(|(_, end)| *end > drawn.start);
            let parent = stack.last().map_or(1, |(id, _)| *id);
            stack.push((id, drawn.end));
            nodes.push(Node::of(drawn, op, id, parent, rf_ids[op]));
            id += 2;
        }
        nodes
    }
}

impl Node {
    fn root(
        kind: &str,
        id: u64,
        tid: usize,
        place: (i64, std::cmp::Reverse<(i64, usize)>),
    ) -> Node {
        Node {
            id,
            parent: 1,
            name: format!("[pytorch|profiler|execution_trace|{kind}]"),
            rf_id: 0,
            seq: -1,
            scope: 7,
            tid,
            fw_tid: 0,
            inputs: Default::default(),
            comms: String::new(),
            place,
        }
    }

    fn of(op: &Op, index: usize, id: u64, parent: u64, rf_id: u64) -> Node {
        let (seq, fw_tid) = op.seq.unwrap_or((-1, 0));
        let scope = if op.annotation {
            7
        } else {
            u8::from(fw_tid != 0)
        };
        Node {
            id,
            parent,
            name: op.name.clone(),
            rf_id,
            seq,
            scope,
            tid: op.thread + 1,
            fw_tid,
            inputs: op
                .comms
                .as_ref()
                .map_or_else(Default::default, |comms| comms.host_inputs()),
            comms: op
                .comms
                .as_ref()
                .map_or_else(String::new, |comms| comms.host_attrs()),
            place: (op.end, std::cmp::Reverse((op.start, index))),
        }
    }

    fn text(&self, schema: HostSchema) -> String {
        let input = |at: usize| {
            if self.inputs[at].is_empty() {
                "[]"
            } else {
                &self.inputs[at]
            }
        };
        let Node {
            id,
            parent,
            name,
            rf_id,
            seq,
            scope,
            tid,
            fw_tid,
            ..
        } = self;
        let (values, shapes, types) = (input(0), input(1), input(2));
        if schema == HostSchema::V1_0_1 {
            return format!(
                "\n      \"name\": \"{name}\", \"id\": {id}, \"rf_id\": {rf_id}, \"parent\": {parent}, \"fw_parent\": 0, \"seq_id\": {seq}, \"scope\": {scope}, \"tid\": {tid}, \"fw_tid\": {fw_tid}, \"op_schema\": \"\",\n      \"inputs\": {values}, \"input_shapes\": {shapes}, \"input_types\": {types},\n      \"outputs\": [], \"output_shapes\": [], \"output_types\": []\n    }}"
            );
        }
        let strides = if schema == HostSchema::V1_1_1 {
            ", \"strides\": []"
        } else {
            ""
        };
        format!(
            "\n        \"id\": {id}, \"name\": \"{name}\", \"ctrl_deps\": {parent},\n        \"inputs\": {{\"values\": {values}, \"shapes\": {shapes}, \"types\": {types}{strides}}},\n        \"outputs\": {{\"values\": [], \"shapes\": [], \"types\": []{strides}}},\n        \"attrs\": [{}]\n      }}",
            self.attrs(schema)
        )
    }

    fn attrs(&self, schema: HostSchema) -> String {
        let attr = |name: &str, kind: &str, value: String| {
            format!("{{\"name\": \"{name}\", \"type\": \"{kind}\", \"value\": {value}}}")
        };
        let mut attrs = vec![
            attr("rf_id", "uint64", self.rf_id.to_string()),
            attr("fw_parent", "uint64", "0".to_owned()),
            attr("seq_id", "int64", self.seq.to_string()),
            attr("scope", "uint64", self.scope.to_string()),
            attr("tid", "uint64", self.tid.to_string()),
            attr("fw_tid", "uint64", self.fw_tid.to_string()),
            attr("op_schema", "string", "\"\"".to_owned()),
        ];
        if schema < HostSchema::V1_1_0 {
            return attrs.join(", ");
        }
        attrs.push(attr("kernel_backend", "string", "\"\"".to_owned()));
        attrs.push(attr("kernel_file", "string", "\"\"".to_owned()));
        attrs.join(",") + &self.comms
    }
}
