//! Writes the host trace of an odd kind.

use super::{Oddity, is_tensor_write};
use etlink_formats::host::{ArgumentText, HostSchema, HostWriteOptions, HostWriter, NodeText};
use etlink_model::HostHeader;
use std::io;

/// Id of the process node; ids of threads follow, then ids of ops.
const PROCESS_NODE: u64 = 1;

/// Elements in one piece of the tensor.
const PIECE: usize = 8;

pub(super) fn draw_host(oddity: Oddity, steps: usize) -> Vec<u8> {
    let text = write_host(oddity, steps);
    text.unwrap_or_else(|error| unreachable!("memory has no errors: {error}"))
}

fn write_host(oddity: Oddity, steps: usize) -> io::Result<Vec<u8>> {
    let header = HostHeader {
        pid: Some(1_000),
        ..HostHeader::default()
    };
    let options = HostWriteOptions {
        schema: HostSchema::V1_1_1,
        verbatim: true,
    };
    let mut writer = HostWriter::new(vec![], &header, options)?;
    let threads = (0..steps).map(|step| oddity.thread(step, steps));
    let threads = threads.max().unwrap_or(0) + 1;
    for thread in 0..threads {
        let tid = thread as u64 + 1;
        writer.node(&NodeText::thread(PROCESS_NODE + tid, tid))?;
    }
    for step in 0..steps {
        write_op(&mut writer, oddity, (step, steps), threads as u64)?;
    }
    writer.node(&NodeText::process())?;
    writer.finish(Some(2))
}

fn write_op(
    writer: &mut HostWriter<Vec<u8>>,
    oddity: Oddity,
    (step, steps): (usize, usize),
    threads: u64,
) -> io::Result<()> {
    let name = match oddity {
        Oddity::StrangeNames => format!("aten::host{}", step % 29),
        _ => format!("aten::op{}", step % 20),
    };
    let tid = oddity.thread(step, steps) as u64 + 1;
    let rf_id = match oddity {
        // Threads and ops are then compared by their names.
        Oddity::PairedThreads | Oddity::StrangeNames => 0,
        _ => step as u64 + 1,
    };
    let (offset, elements, is_write) = match oddity {
        Oddity::Tensors | Oddity::TensorThreads if is_tensor_write(step, steps) => {
            (PIECE * step, PIECE, true)
        }
        Oddity::Tensors | Oddity::TensorThreads => (0, PIECE * steps, false),
        _ => (0, PIECE, false),
    };
    let values = format!(r#"[[5,6,{offset},{elements},4,"cuda:0"]]"#);
    let shapes = format!("[[{elements}]]");
    let tensor = ArgumentText {
        values: values.as_bytes(),
        shapes: shapes.as_bytes(),
        types: br#"["Tensor(float)"]"#,
        strides: b"",
    };
    let id = PROCESS_NODE + threads + 1 + step as u64;
    let mut node = NodeText {
        rf_id,
        ..NodeText::range(id, PROCESS_NODE + tid, &name, tid)
    };
    if is_write {
        node.outputs = tensor
    } else {
        node.inputs = tensor
    }
    writer.node(&node)
}
