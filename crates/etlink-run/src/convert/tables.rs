//! Graphs as Parquet: a folder with two tables.

use super::format::NODES;
use crate::RunError;
use crate::file_error::{FileAction, FileContext};
use crate::file_kind::may_be_file;
use crate::made_run::write_set;
use crate::output::{FileSet, OutputFormat, not_ours};
use crate::storage;
use etlink_chakra::messages::ChakraMessages;
use etlink_tables::{has_mark, written_graph};
use std::path::Path;

/// File name of the edge table.
const EDGES: &str = "edges.parquet";

pub(super) fn read(folder: &Path) -> Result<ChakraMessages, RunError> {
    let open = |name: &str| {
        let path = folder.join(name);
        storage::open_to_seek(&path).with_path(FileAction::Open, &path)
    };
    let tables = written_graph::read_graph(open(NODES)?, open(EDGES)?);
    tables.map_err(|cause| RunError::unreadable(folder.display(), cause))
}

/// Writes both tables. Returns their size, bytes.
pub(super) fn write(
    graph: &ChakraMessages,
    folder: &Path,
    overwrite: bool,
) -> Result<u64, RunError> {
    write_set(folder, overwrite, |set| {
        refuse_foreign(folder, overwrite)?;
        Ok((write_files(graph, set)?, vec![]))
    })
}

/// Refuses to replace tables that etlink did not write.
fn refuse_foreign(folder: &Path, overwrite: bool) -> Result<(), RunError> {
    for name in [NODES, EDGES] {
        let path = folder.join(name);
        let is_ours = || storage::open_to_seek(&path).is_ok_and(has_mark);
        if overwrite && may_be_file(&path) && !is_ours() {
            return Err(not_ours(&path));
        }
    }
    Ok(())
}

fn write_files(graph: &ChakraMessages, set: &FileSet) -> Result<u64, RunError> {
    let mut bytes = 0;
    // the format is irrelevant: the table's writer encodes the file
    let nodes = set.target(NODES, OutputFormat::EtPlus)?;
    bytes += nodes
        .write(|out| Ok(written_graph::write_nodes(graph, out)?))?
        .1;
    let edges = set.target(EDGES, OutputFormat::EtPlus)?;
    bytes += edges
        .write(|out| Ok(written_graph::write_edges(graph, out)?))?
        .1;
    Ok(bytes)
}
