//! Builds tables of nodes: per chunk first, then appended in file order.

use crate::host::node::{ArgumentLists, ExtraAttr, NodeFields};
use crate::host::{comms, groups};
use etlink_json::{JsonValue, unescape};
use etlink_model::{
    AnomalyKind, HostNode, HostNodes, HostTrace, KeptNodes, NameId, ProcessGroup, RawNameCache,
    RfId, TextSpan, ValueList,
};

/// Placeholder for `[]` in a chunk: all empty lists share the first bytes of [`HostTrace::text`].
const EMPTY_LIST: TextSpan = TextSpan {
    start: u64::MAX,
    bytes: 2,
};

/// Tables of one chunk, with their own numbering of names and rows. Rows are cleared once appended;
/// names remain for later chunks that reuse the tables.
#[derive(Default)]
pub(crate) struct NodeChunk {
    trace: HostTrace,
    groups: Vec<groups::GroupInit>,
    /// Cache of raw strings from the file.
    texts: RawNameCache,
    /// Cache of raw lists from the file.
    lists: RawNameCache,
    /// Number of each name in the whole trace.
    renamed: Vec<NameId>,
}

impl NodeChunk {
    /// Adds a node.
    pub(crate) fn push(&mut self, node: &NodeFields<'_>, kept: Option<&KeptNodes>) {
        // Without an id nothing can refer to the node, and its position in the order is unknown.
        let Some(id) = node.id else {
            self.trace.anomalies.note(AnomalyKind::NoNodeId, || {
                format!("{:?}", unescape(node.name))
            });
            return;
        };
        if node.name == groups::NODE {
            groups::read(node.inputs.values, &mut self.groups);
        }
        let attrs = &node.attrs;
        let (text, records) = (self.trace.text.len(), self.trace.collectives.len());
        let row = HostNode {
            inputs: self.intern_list(&node.inputs),
            outputs: self.intern_list(&node.outputs),
            id,
            parent: node.parent,
            name: self.intern_name(node.name),
            rf_id: RfId(uint_or_zero(attrs.rf_id)),
            fw_parent: uint_or_zero(attrs.fw_parent),
            // 0 is a valid autograd number, so absent is -1, as PyTorch writes it.
            seq_id: attrs.seq_id.and_then(JsonValue::int).unwrap_or(-1),
            scope: u8::try_from(uint_or_zero(attrs.scope)).unwrap_or(0),
            tid: u32::try_from(uint_or_zero(attrs.tid)).unwrap_or(0),
            fw_tid: u32::try_from(uint_or_zero(attrs.fw_tid)).unwrap_or(0),
            op_schema: self.intern_text(attrs.op_schema),
            kernel_backend: self.intern_text(attrs.kernel_backend),
            kernel_file: self.intern_text(attrs.kernel_file),
            tensor_range: self.intern_text(attrs.tensor_range),
            extra_attrs: self.extra_attrs(&node.unknown),
            collective: self.push_collective(node),
        };
        // Names are numbered even if the node is not kept.
        if kept.is_none_or(|kept| kept.has(row.rf_id)) {
            self.trace.nodes.push(row);
            return;
        }
        self.trace.text.truncate(text);
        self.trace.collectives.truncate(records);
    }

    fn intern_list(&mut self, lists: &ArgumentLists<'_>) -> ValueList {
        ValueList {
            values: self.push_span(lists.values),
            shapes: self.list_name(lists.shapes),
            types: self.list_name(lists.types),
            strides: if lists.strides.is_empty() {
                NameId::EMPTY
            } else {
                self.list_name(lists.strides)
            },
        }
    }

    fn push_span(&mut self, list: &[u8]) -> TextSpan {
        if list.is_empty() || list == b"[]" {
            return EMPTY_LIST;
        }
        let start = self.trace.text.len();
        self.trace.text.extend_from_slice(list);
        self.span_from(start)
    }

    fn span_from(&self, start: usize) -> TextSpan {
        TextSpan {
            start: start as u64,
            // No element exceeds 64 MiB (`MAX_ELEMENT_BYTES`), so this always fits.
            bytes: u32::try_from(self.trace.text.len() - start).unwrap_or(0),
        }
    }

    /// Stores unknown attributes as their original objects, without parts that are not attributes.
    fn extra_attrs(&mut self, unknown: &[ExtraAttr<'_>]) -> TextSpan {
        let start = self.trace.text.len();
        let text = &mut self.trace.text;
        for (index, attr) in unknown.iter().enumerate() {
            text.extend_from_slice(if index == 0 {
                b"{\"name\": \""
            } else {
                b",{\"name\": \""
            });
            text.extend_from_slice(attr.name);
            text.push(b'"');
            for (key, value) in [
                (&b", \"type\": "[..], attr.kind),
                (b", \"value\": ", attr.value),
            ] {
                let Some(value) = value else { continue };
                let quote: &[u8] = if matches!(value, JsonValue::Text(_)) {
                    b"\""
                } else {
                    b""
                };
                for part in [key, quote, value.raw(), quote] {
                    text.extend_from_slice(part);
                }
            }
            text.push(b'}');
        }
        if unknown.is_empty() {
            TextSpan::default()
        } else {
            self.span_from(start)
        }
    }

    /// Adds the node's communication record, and returns its row; `u32::MAX` for none.
    fn push_collective(&mut self, node: &NodeFields<'_>) -> u32 {
        if !comms::is_record(node) {
            return u32::MAX;
        }
        let HostTrace {
            names, collectives, ..
        } = &mut self.trace;
        // The record gets a row even if it is empty, so that the node still counts as
        // communication.
        collectives.push(comms::record(node, names));
        u32::try_from(collectives.len() - 1).unwrap_or(u32::MAX)
    }

    fn intern_text(&mut self, value: Option<JsonValue<'_>>) -> NameId {
        value.map_or(NameId::EMPTY, |value| self.intern_name(value.raw()))
    }

    fn intern_name(&mut self, raw: &[u8]) -> NameId {
        let names = &mut self.trace.names;
        if raw.is_empty() {
            NameId::EMPTY
        } else {
            self.texts.name(raw, || names.intern(&unescape(raw)))
        }
    }

    /// Interns a list, which keeps its escapes because it is JSON.
    fn list_name(&mut self, list: &[u8]) -> NameId {
        let list = if list.is_empty() { b"[]" } else { list };
        let names = &mut self.trace.names;
        self.lists
            .name(list, || names.intern(&String::from_utf8_lossy(list)))
    }
}

fn uint_or_zero(value: Option<JsonValue<'_>>) -> u64 {
    value.and_then(JsonValue::uint).unwrap_or(0)
}

/// Combines the tables of chunks.
pub(crate) struct HostTraceBuilder {
    trace: HostTrace,
    groups: Vec<groups::GroupInit>,
    full: bool,
}

impl Default for HostTraceBuilder {
    fn default() -> Self {
        HostTraceBuilder {
            trace: HostTrace {
                text: b"[]".to_vec(),
                ..HostTrace::default()
            },
            groups: vec![],
            full: false,
        }
    }
}

impl HostTraceBuilder {
    /// Appends the next chunk in file order, and empties it.
    pub(crate) fn append(&mut self, chunk: &mut NodeChunk) {
        let NodeChunk {
            trace: part,
            groups,
            renamed,
            ..
        } = chunk;
        let all = &mut self.trace;
        // Row numbers have 32 bits, and the last one means "none". Too long a trace is read to its
        // end, then rejected.
        self.full |= all.nodes.len() + part.nodes.len() >= u32::MAX as usize;
        if self.full {
            *chunk = NodeChunk::default();
            return;
        }
        all.names.absorb(&part.names, renamed);
        // Names and rows are renumbered before the columns are joined: afterwards they are
        // indistinguishable.
        renumber_names(part, renamed);
        shift_rows(&mut part.nodes, all);
        all.nodes.append(&mut part.nodes);
        all.collectives.append(&mut part.collectives);
        all.text.append(&mut part.text);
        all.anomalies.merge(std::mem::take(&mut part.anomalies));
        self.groups.append(groups);
        // the names of a trace that always brings new ones would grow with it
        if part.names.is_large() {
            *chunk = NodeChunk::default();
        }
    }

    /// Returns the trace in file order; `None` if a table is too long for its row numbers.
    pub(crate) fn finish(self) -> Option<HostTrace> {
        let HostTraceBuilder {
            mut trace,
            groups,
            full,
        } = self;
        resolve_backend_ids(&mut trace, &groups);
        trace.groups = unique_groups(groups.into_iter().map(|init| init.group).collect());
        (!full).then_some(trace)
    }
}

/// Replaces the chunk's name numbers by the trace's.
fn renumber_names(part: &mut HostTrace, names: &[NameId]) {
    let HostTrace {
        nodes: n,
        collectives: c,
        ..
    } = part;
    let columns = [
        &mut n.name,
        &mut n.op_schema,
        &mut n.kernel_backend,
        &mut n.kernel_file,
        &mut n.tensor_range,
        &mut c.name,
        &mut c.dtype,
        &mut c.in_split,
        &mut c.out_split,
        &mut c.group_name,
        &mut c.group_desc,
    ];
    let lists = n
        .inputs
        .iter_mut()
        .chain(&mut n.outputs)
        .flat_map(|list| [&mut list.shapes, &mut list.types, &mut list.strides]);
    for name in columns.into_iter().flatten().chain(lists) {
        *name = names[name.index()];
    }
}

/// Replaces the chunk's rows and text positions by their values in the trace.
fn shift_rows(nodes: &mut HostNodes, all: &HostTrace) {
    let (collectives, text) = (all.collectives.len() as u32, all.text.len() as u64);
    for list in nodes.inputs.iter_mut().chain(&mut nodes.outputs) {
        list.values.start = if list.values == EMPTY_LIST {
            0
        } else {
            list.values.start + text
        };
    }
    nodes
        .collective
        .iter_mut()
        .filter(|row| **row != u32::MAX)
        .for_each(|row| *row += collectives);
    nodes
        .extra_attrs
        .iter_mut()
        .filter(|span| span.bytes > 0)
        .for_each(|span| span.start += text);
}

/// Returns the first group for each pair of name and ranks, in file order. Each cycle lists the
/// groups again.
fn unique_groups(groups: Vec<ProcessGroup>) -> Vec<ProcessGroup> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by(|a, b| group_key(&groups[*a]).cmp(&group_key(&groups[*b])));
    order.dedup_by(|later, first| group_key(&groups[*later]) == group_key(&groups[*first]));
    // The groups were sorted to find equal ones; the remaining ones return to file order.
    order.sort_unstable();
    let mut keep = order.into_iter().peekable();
    groups
        .into_iter()
        .enumerate()
        .filter_map(|(index, group)| keep.next_if_eq(&index).map(|_| group))
        .collect()
}

/// Returns the identity of a listed group: on a mesh, several groups share a name.
fn group_key(group: &ProcessGroup) -> (&str, &[u64]) {
    (&group.name, &group.ranks)
}

/// Sets the group name of collectives that refer to their group by its `backend_id`.
fn resolve_backend_ids(trace: &mut HostTrace, groups: &[groups::GroupInit]) {
    let HostTrace {
        names, collectives, ..
    } = trace;
    // An id that no collective uses was never interned, so `find` drops most groups here.
    let mut by_id: Vec<(NameId, &ProcessGroup)> = groups
        .iter()
        .filter_map(|init| Some((names.find(&init.backend_id)?, &init.group)))
        .filter(|(id, _)| *id != NameId::EMPTY)
        .collect();
    by_id.sort_by_key(|(id, _)| *id);
    // The first group with an id takes precedence; the sort is stable.
    by_id.dedup_by_key(|(id, _)| *id);
    for (name, desc) in collectives
        .group_name
        .iter_mut()
        .zip(&mut collectives.group_desc)
    {
        let found = by_id.binary_search_by_key(name, |(id, _)| *id);
        if let Ok(at) = found {
            let group = by_id[at].1;
            (*name, *desc) = (names.intern(&group.name), names.intern(&group.desc));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::host::tests::{Node, document, read, text};

    #[test]
    fn ids_of_tensors_come_back() {
        let float = r#"["Tensor(float)"]"#;
        let nodes = [
            Node::new(2, 1, "a").outputs(r#"[[8,9,0,64,4,"cpu"]]"#, float),
            Node::new(3, 1, "b")
                .inputs("[]", "[]")
                .outputs(r#"[[8,9,0,16,2,"cuda:0"]]"#, r#"["Tensor(c10::Half)"]"#),
        ];
        let trace = read(&document(&nodes.map(|node| node.text())));
        let uses = crate::host::tensor_uses(&trace);
        assert_eq!(
            (&uses.refs.storage[..], &uses.refs.end[..]),
            (&[9, 9][..], &[4 * 64, 2 * 16][..])
        );
        assert_eq!(
            (uses.outputs(0), uses.inputs(1), uses.outputs(1)),
            (0..1, 1..1, 1..2)
        );
        assert_eq!(
            trace.text,
            br#"[][[8,9,0,64,4,"cpu"]][[8,9,0,16,2,"cuda:0"]]"#
        );
        assert_eq!(text(&trace, trace.nodes.inputs[1].values), "[]");
    }

    fn init(id: u64, groups: &str) -> String {
        Node::new(id, 1, "## process_group:init ##")
            .inputs(
                &format!("[\"{}\"]", groups.replace('"', "\\\"")),
                r#"["String"]"#,
            )
            .text()
    }

    #[test]
    fn groups_are_listed_once() {
        let two = concat!(
            r#"[{"pg_name": "0", "ranks": [], "group_size": 4}, "#,
            r#"{"pg_name": "1", "ranks": [0, 2], "group_size": 2}]"#
        );
        let other = r#"[{"pg_name": "1", "ranks": [1, 3], "group_size": 2}]"#;
        let trace = read(&document(&[init(2, two), init(3, two), init(4, other)]));
        let groups: Vec<_> = trace
            .groups
            .iter()
            .map(|group| (group.name.as_str(), &group.ranks[..], group.size))
            .collect();
        assert_eq!(
            groups,
            [("0", &[][..], 4), ("1", &[0, 2], 2), ("1", &[1, 3], 2)]
        );
    }

    #[test]
    fn a_backend_id_stands_for_its_group() {
        let group = init(
            2,
            r#"[{"pg_name": "0", "pg_desc": "default_pg", "backend_id": 8214}]"#,
        );
        let comm = |id, group| {
            Node::new(id, 1, "record_param_comms")
                .inputs(&format!(r#"[12,{group},0,"barrier",[],[],2]"#), "[]")
                .text()
        };
        let trace = read(&document(&[group, comm(3, 8214), comm(4, 99)]));
        let names = trace
            .collectives
            .group_name
            .iter()
            .chain(&trace.collectives.group_desc)
            .map(|name| trace.names.get(*name));
        assert_eq!(names.collect::<Vec<_>>(), ["0", "99", "default_pg", ""]);
    }

    #[test]
    fn a_record_without_group_is_in_no_group_that_has_no_backend_id() {
        let group = init(2, r#"[{"pg_name": "0", "pg_desc": "default_pg"}]"#);
        let comm = Node::new(3, 1, "record_param_comms")
            .inputs(r#"[12,0,0,"barrier",[],[],2]"#, "[]")
            .text();
        let trace = read(&document(&[group, comm]));
        let record = trace.collectives.row(0);
        let names = [record.group_name, record.group_desc];
        assert_eq!(names.map(|name| trace.names.get(name)), ["", ""]);
    }
}
