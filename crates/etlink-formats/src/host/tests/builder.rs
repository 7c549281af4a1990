//! Builders of test traces, and invariants of every trace.

use crate::host::HostReadOptions;
use etlink_model::{HostTrace, TextSpan};
use std::fmt::Write;

/// A node of schema 1.0.1, written like PyTorch's: the name is not escaped.
pub(crate) struct Node {
    id: u64,
    parent: u64,
    name: String,
    rf_id: u64,
    tid: u32,
    lists: String,
}

impl Node {
    pub(crate) fn new(id: u64, parent: u64, name: &str) -> Self {
        Node {
            id,
            parent,
            name: name.to_owned(),
            rf_id: 0,
            tid: 1,
            lists: String::new(),
        }
    }

    pub(crate) fn rf_id(mut self, rf_id: u64) -> Self {
        self.rf_id = rf_id;
        self
    }

    pub(crate) fn tid(mut self, tid: u32) -> Self {
        self.tid = tid;
        self
    }

    pub(crate) fn inputs(mut self, values: &str, types: &str) -> Self {
        write!(
            self.lists,
            r#", "inputs": {values}, "input_shapes": [], "input_types": {types}"#
        )
        .expect("writes");
        self
    }

    pub(crate) fn outputs(mut self, values: &str, types: &str) -> Self {
        write!(
            self.lists,
            r#", "outputs": {values}, "output_shapes": [], "output_types": {types}"#
        )
        .expect("writes");
        self
    }

    pub(crate) fn text(&self) -> String {
        let Node {
            id,
            parent,
            name,
            rf_id,
            tid,
            lists,
        } = self;
        format!(
            concat!(
                r#"{{"name": "{name}", "id": {id}, "rf_id": {rf_id}, "parent": {parent}, "#,
                r#""seq_id": -1, "scope": 0, "tid": {tid}{lists}}}"#,
            ),
            name = name,
            id = id,
            rf_id = rf_id,
            parent = parent,
            tid = tid,
            lists = lists
        )
    }
}

/// Builds a document of these nodes.
pub(crate) fn document(nodes: &[String]) -> String {
    format!(
        "{{\n  \"schema\": \"1.0.1\", \"pid\": 7, \"start_ts\": 5,\n  \"nodes\": [\n{}\n  ],\n  \
            \"finish_ts\": 9\n}}",
        nodes.join(",\n")
    )
}

/// Reads a trace and checks its invariants.
pub(crate) fn read(text: &str) -> HostTrace {
    let trace = crate::host::read(text.as_bytes(), HostReadOptions::default()).expect("reads");
    check(&trace);
    trace
}

/// Returns the text of a span.
pub(crate) fn text(trace: &HostTrace, span: TextSpan) -> &str {
    std::str::from_utf8(trace.span(span)).expect("utf8")
}

/// Asserts the invariants of a host trace.
pub(crate) fn check(trace: &HostTrace) {
    let nodes = &trace.nodes;
    let uses = crate::host::tensor_uses(trace);
    assert!(
        nodes
            .len()
            .checked_sub(1)
            .is_none_or(|last| uses.outputs(last).end == uses.refs.len()),
        "every use belongs to a node"
    );
    assert!(
        nodes.id.windows(2).all(|pair| pair[0] < pair[1]),
        "ids ascend"
    );
    for row in 0..nodes.len() {
        let node = nodes.row(row);
        for list in [node.inputs, node.outputs] {
            assert_eq!(
                trace.span(list.values).len(),
                list.values.bytes as usize,
                "a span is inside the text"
            );
            assert!(
                trace.span(list.values).starts_with(b"["),
                "values are a list"
            );
            assert!(
                list.shapes.index() < trace.names.count()
                    && list.types.index() < trace.names.count(),
                "names are known"
            );
        }
        assert!(
            node.collective == u32::MAX || (node.collective as usize) < trace.collectives.len(),
            "collectives are rows"
        );
        let (mut parent, mut steps) = (node.parent, 0);
        while parent != 0
            && let Some(up) = trace.find(parent)
        {
            parent = nodes.parent[up];
            steps += 1;
            assert!(steps <= nodes.len(), "parents end");
        }
        assert!(parent <= 1, "only the process root may be missing");
    }
}
