//! Prints the ids of a graph's nodes in issue order, and the elapsed time on standard error.
//!
//! ```sh
//! cargo run --release -p etlink-feeder --example order -- run.0.et 4 [by-id] [FOLDER MIB]
//! ```
//! Up to 4 nodes are in flight at once, and end in issue order. With 0, no node is issued: the
//! graph is only read. With a folder, the index of the graph is kept in a file there, with this
//! many MiB in memory; the file is deleted at the end.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    reason = "a program: it reads a file, looks at the clock and prints"
)]

use etlink_feeder::{Feeder, IssueOrder};
use std::collections::VecDeque;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = words
        .next()
        .ok_or("order FILE NODES [by-id] [FOLDER MIB]")?;
    let limit: usize = words.next().ok_or("how many nodes at once?")?.parse()?;
    let mut words = words.peekable();
    let order = match words.next_if(|word| word == "by-id") {
        None => IssueOrder::Stock,
        Some(_) => IssueOrder::ById,
    };
    let begun = Instant::now();
    let graph = File::open(path)?;
    let mut feeder = match words.next() {
        None => Feeder::new(graph, order)?,
        Some(folder) => {
            let scratch = tempfile::tempfile_in(folder)?;
            let mib: usize = words.next().ok_or("how many MiB?")?.parse()?;
            Feeder::with_scratch(graph, order, scratch, mib << 20)?
        }
    };
    eprintln!("read {:.3} s", begun.elapsed().as_secs_f64());
    if limit == 0 {
        return Ok(());
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut under_way = VecDeque::new();
    loop {
        while under_way.len() < limit
            && let Some(id) = feeder.issue_next()?
        {
            // a simulator would look at the node
            feeder.node(id)?;
            under_way.push_back(id);
            writeln!(out, "{id}")?;
        }
        let Some(id) = under_way.pop_front() else {
            break;
        };
        feeder.end(id)?;
    }
    out.flush()?;
    eprintln!("all {:.3} s", begun.elapsed().as_secs_f64());
    Ok(())
}
