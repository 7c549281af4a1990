//! Converts a written graph (`.et`) to two tables, and back.
//!
//! | table | a row is | columns |
//! |---|---|---|
//! | `nodes` | a node, in the order of the file | `node`, `name`, `type`, `start_us`, `duration_us`, `start_ns`, `duration_ns`, `comm_size`, `rest` |
//! | `edges` | a dependency, in the order of the lists | `from_node`, `to_node`, `to_line` (of the table of nodes, from 0), `kind` (`ctrl` or `data`) |
//!
//! `rest` holds a node's other data as protobuf's JSON: attributes and arguments. `start_ns`,
//! `duration_ns` and `comm_size` repeat attributes for queries; they are not read back. The trace's
//! metadata is in the metadata of the file of nodes, under [`METADATA_KEY`]. So nothing is lost.

use crate::columns::Columns;
use crate::{BATCH, Error, parquet_writer};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt64Type};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use etlink_chakra::messages::{ChakraMessages, exact_times};
use etlink_chakra::proto::attribute_proto::Value;
use etlink_chakra::proto::{Node, NodeType};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::reader::ChunkReader;
use std::borrow::Cow;
use std::io::Write;

/// Metadata key of the file of nodes under which the trace's own metadata is stored.
pub const METADATA_KEY: &str = "chakra_metadata";

/// Writes the table of nodes.
///
/// # Errors
/// `out` fails, or a node has numbers that JSON cannot express.
pub fn write_nodes(graph: &ChakraMessages, out: impl Write + Send) -> Result<(), Error> {
    let metadata = serde_json::to_string(&graph.metadata)?;
    let pairs = vec![(METADATA_KEY, metadata)];
    write_batches(&graph.nodes, pairs, out, nodes_batch)
}

/// Writes the table of edges.
///
/// # Errors
/// Writing to `out` fails.
pub fn write_edges(graph: &ChakraMessages, out: impl Write + Send) -> Result<(), Error> {
    write_batches(&graph.nodes, vec![], out, edges_batch)
}

fn write_batches(
    nodes: &[Node],
    pairs: Vec<(&str, String)>,
    out: impl Write + Send,
    batch_of: fn(&[Node], u64) -> Result<RecordBatch, Error>,
) -> Result<(), Error> {
    // the schema comes from an empty batch, for a graph without nodes
    let schema = batch_of(&[], 0)?.schema();
    let mut writer = parquet_writer(out, schema, pairs)?;
    let mut first = 0;
    for some in nodes.chunks(BATCH) {
        writer.write(&batch_of(some, first)?)?;
        first += some.len() as u64;
    }
    writer.close()?;
    Ok(())
}

fn nodes_batch(nodes: &[Node], _: u64) -> Result<RecordBatch, Error> {
    let mut rows: Vec<(&Node, Cow<'_, str>, String)> = vec![];
    for node in nodes {
        rows.push((node, type_name(node), rest_of(node)?));
    }
    Columns::new(None, &rows)
        .unsigned("node", |(node, ..)| node.id)
        .any_text("name", |(node, ..)| &node.name)
        .any_text("type", |(_, name, _)| name)
        .unsigned("start_us", |(node, ..)| node.start_time_micros)
        .unsigned("duration_us", |(node, ..)| node.duration_micros)
        .signed("start_ns", |(node, ..)| Some(exact_times(node)?.0))
        .signed("duration_ns", |(node, ..)| Some(exact_times(node)?.1))
        .signed("comm_size", |(node, ..)| number(node, "comm_size"))
        .own_text("rest", |(.., rest)| rest)
        .finish()
}

/// Builds the rows of the edges to some nodes, the first of them in row `first` of its table.
fn edges_batch(nodes: &[Node], first: u64) -> Result<RecordBatch, Error> {
    let mut edges: Vec<(u64, &Node, u64, &'static str)> = vec![];
    for (line, node) in (first..).zip(nodes) {
        for (kind, ids) in [("ctrl", &node.ctrl_deps), ("data", &node.data_deps)] {
            edges.extend(ids.iter().map(|from| (*from, node, line, kind)));
        }
    }
    Columns::new(None, &edges)
        .unsigned("from_node", |(from, ..)| *from)
        .unsigned("to_node", |(_, node, ..)| node.id)
        // two nodes of a broken file can share an id
        .unsigned("to_line", |(_, _, line, _)| *line)
        .text("kind", |(.., kind)| *kind)
        .finish()
}

fn type_name(node: &Node) -> Cow<'static, str> {
    match NodeType::try_from(node.r#type) {
        Ok(known) => Cow::Borrowed(known.as_str_name()),
        Err(_) => Cow::Owned(node.r#type.to_string()),
    }
}

/// Returns an integer attribute.
fn number(node: &Node, name: &str) -> Option<i64> {
    let attribute = node.attr.iter().find(|attr| attr.name == name)?;
    match attribute.value.as_ref()? {
        Value::Int64Val(number) => Some(*number),
        Value::Uint64Val(number) => i64::try_from(*number).ok(),
        Value::Int32Val(number) => Some(i64::from(*number)),
        _ => None,
    }
}

/// Formats the parts of a node without a column of their own.
fn rest_of(node: &Node) -> Result<String, serde_json::Error> {
    let rest = Node {
        inputs: node.inputs.clone(),
        outputs: node.outputs.clone(),
        attr: node.attr.clone(),
        ..Node::default()
    };
    serde_json::to_string(&rest)
}

/// Reads both tables back into a graph.
///
/// # Errors
/// A file is not Parquet, has other columns, or its texts are not JSON.
pub fn read_graph(
    nodes: impl ChunkReader + 'static,
    edges: impl ChunkReader + 'static,
) -> Result<ChakraMessages, Error> {
    let mut graph = ChakraMessages::default();
    let reader = ParquetRecordBatchReaderBuilder::try_new(nodes)?;
    let pairs = reader.metadata().file_metadata().key_value_metadata();
    let metadata = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == METADATA_KEY));
    let Some(metadata) = metadata.and_then(|pair| pair.value.as_ref()) else {
        return Err(Error::NotAWrittenGraph);
    };
    graph.metadata = serde_json::from_str(metadata)?;
    for batch in reader.build()? {
        read_nodes(&batch?, &mut graph.nodes)?;
    }
    for batch in ParquetRecordBatchReaderBuilder::try_new(edges)?.build()? {
        read_edges(&batch?, &mut graph.nodes)?;
    }
    Ok(graph)
}

fn read_nodes(batch: &RecordBatch, nodes: &mut Vec<Node>) -> Result<(), Error> {
    let (ids, starts) = (numbers(batch, "node")?, numbers(batch, "start_us")?);
    let durations = numbers(batch, "duration_us")?;
    let (names, types) = (texts(batch, "name")?, texts(batch, "type")?);
    let rests = texts(batch, "rest")?;
    for line in 0..batch.num_rows() {
        let mut node: Node = serde_json::from_str(rests.value(line))?;
        node.id = ids[line];
        node.name = names.value(line).to_owned();
        let known = NodeType::from_str_name(types.value(line)).map(|known| known as i32);
        let number = known.or_else(|| types.value(line).parse().ok());
        node.r#type = number.ok_or(Error::NotAWrittenGraph)?;
        node.start_time_micros = starts[line];
        node.duration_micros = durations[line];
        nodes.push(node);
    }
    Ok(())
}

fn read_edges(batch: &RecordBatch, nodes: &mut [Node]) -> Result<(), Error> {
    let (from, to) = (numbers(batch, "from_node")?, numbers(batch, "to_line")?);
    let kinds = texts(batch, "kind")?;
    for line in 0..batch.num_rows() {
        let node = usize::try_from(to[line])
            .ok()
            .and_then(|to| nodes.get_mut(to));
        let Some(node) = node else {
            return Err(Error::NotAWrittenGraph);
        };
        match kinds.value(line) {
            "ctrl" => node.ctrl_deps.push(from[line]),
            _ => node.data_deps.push(from[line]),
        }
    }
    Ok(())
}

/// Texts of a column, which may be a dictionary.
struct TextColumn {
    texts: StringArray,
    keys: Option<Vec<usize>>,
}

impl TextColumn {
    fn value(&self, line: usize) -> &str {
        match &self.keys {
            Some(keys) => self.texts.value(keys[line]),
            None => self.texts.value(line),
        }
    }
}

fn texts(batch: &RecordBatch, name: &str) -> Result<TextColumn, Error> {
    let column = column(batch, name)?;
    if let Some(texts) = column.as_string_opt::<i32>() {
        return Ok(TextColumn {
            texts: texts.clone(),
            keys: None,
        });
    }
    let dictionary = column.as_dictionary_opt::<Int32Type>();
    let dictionary = dictionary.ok_or(Error::NotAWrittenGraph)?;
    let texts = dictionary.values().as_string_opt::<i32>();
    Ok(TextColumn {
        texts: texts.ok_or(Error::NotAWrittenGraph)?.clone(),
        keys: Some(
            dictionary
                .keys()
                .values()
                .iter()
                .map(|key| usize::try_from(*key).unwrap_or_default())
                .collect(),
        ),
    })
}

fn numbers(batch: &RecordBatch, name: &str) -> Result<Vec<u64>, Error> {
    let column = column(batch, name)?.as_primitive_opt::<UInt64Type>();
    Ok(column.ok_or(Error::NotAWrittenGraph)?.values().to_vec())
}

/// Returns a column; an error unless it has a value in each row.
fn column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b ArrayRef, Error> {
    let column = batch.column_by_name(name);
    column
        .filter(|column| column.null_count() == 0)
        .ok_or(Error::NotAWrittenGraph)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use etlink_chakra::proto::{AttributeProto, IoInfo};

    fn odd_graph() -> ChakraMessages {
        let mut graph = ChakraMessages::default();
        graph.metadata.version = "0.0.4".to_owned();
        for (id, kind) in [(3, 4), (3, 7), (u64::MAX, 99)] {
            graph.nodes.push(Node {
                id,
                name: format!("é \"{id}\""),
                r#type: kind,
                ctrl_deps: vec![3, 1],
                data_deps: vec![u64::MAX],
                duration_micros: 5,
                inputs: Some(IoInfo::default()),
                attr: vec![AttributeProto {
                    name: "comm_size".to_owned(),
                    doc_string: String::new(),
                    value: Some(Value::Int64Val(0)),
                }],
                ..Node::default()
            });
        }
        graph
    }

    #[test]
    fn a_graph_comes_back_from_its_tables() {
        for graph in [odd_graph(), ChakraMessages::default()] {
            let (mut nodes, mut edges) = (vec![], vec![]);
            write_nodes(&graph, &mut nodes).expect("writes");
            write_edges(&graph, &mut edges).expect("writes");
            let back = read_graph(Bytes::from(nodes), Bytes::from(edges)).expect("reads");
            assert_eq!(back, graph);
        }
    }

    #[test]
    fn other_tables_are_refused() {
        let mut edges = vec![];
        write_edges(&odd_graph(), &mut edges).expect("writes");
        let edges = Bytes::from(edges);
        let read = read_graph(edges.clone(), edges);
        assert!(matches!(read, Err(Error::NotAWrittenGraph)), "{read:?}");
    }
}
