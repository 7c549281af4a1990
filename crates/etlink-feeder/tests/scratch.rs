//! Compares a graph with its index in a scratch file to one in memory: same nodes, order and
//! errors.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "tests, which read testdata"
)]

mod graphs;

use etlink_feeder::{Feeder, FeederError, IssueOrder};
use graphs::{DIAMOND, draw_graph, drawn_file, file, issue_all};
use std::io::{Cursor, Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Budgets in bytes: a single page; a few sets of frames with little room to sort; everything.
const BUDGETS: [usize; 3] = [0, 60 << 10, 1 << 20];
const ORDERS: [IssueOrder; 2] = [IssueOrder::Stock, IssueOrder::ById];

fn scratch() -> Cursor<Vec<u8>> {
    Cursor::new(vec![])
}

/// Describes a feeder's behaviour: the issued ids, their nodes, the ready nodes at each time, or
/// the error.
fn fed(feeder: Result<Feeder<Cursor<&[u8]>>, FeederError>, limit: usize) -> String {
    let mut feeder = match feeder {
        Ok(feeder) => feeder,
        Err(error) => return format!("{error:?}"),
    };
    let mut said = format!("{:?} {}", feeder.metadata(), feeder.nodes());
    let mut under_way = std::collections::VecDeque::new();
    let mut turn = 0;
    loop {
        let first = feeder.first_ready().expect("the scratch is whole");
        said += &format!("\n{first:?} of {}", feeder.ready());
        match first {
            Some(id) if under_way.len() < limit => {
                // every fourth node is taken back once, by its id
                turn += 1;
                if turn % 4 == 0 {
                    feeder.issue(id).expect("it may be issued");
                    feeder.push_back(id).expect("it was issued");
                }
                let issued = feeder.issue_next().expect("the scratch is whole");
                said += &format!(" {issued:?} {:?}", feeder.node(id));
                under_way.extend(issued);
                said += &format!(" {:?}", feeder.issue(id));
            }
            _ => {
                let Some(id) = under_way.pop_front() else {
                    return said + &format!("\n{} {}", feeder.issued(), feeder.ended());
                };
                feeder.end(id).expect("it was issued");
                said += &format!(
                    " {:?} {:?}",
                    feeder.end(id),
                    feeder.push_back(id + 1_000_000)
                );
            }
        }
    }
}

fn assert_same(bytes: &[u8], limit: usize, budgets: &[usize], name: &str) {
    for order in ORDERS {
        let in_memory = fed(Feeder::new(Cursor::new(bytes), order), limit);
        for budget in budgets {
            let feeder = Feeder::with_scratch(Cursor::new(bytes), order, scratch(), *budget);
            let paged = fed(feeder, limit);
            assert!(
                paged == in_memory,
                "{name}, {order:?}, {budget} bytes:\n{paged}\nin memory:\n{in_memory}"
            );
        }
    }
}

#[test]
fn drawn_graphs_are_fed_alike() {
    let mut draw = fastrand::Rng::with_seed(21);
    for round in 0..40 {
        let bytes = drawn_file(&draw_graph(&mut draw, 150));
        assert_same(
            &bytes,
            draw.usize(1..9),
            &BUDGETS,
            &format!("graph {round}"),
        );
    }
}

/// Columns of many pages are sorted by merging in several passes.
#[test]
fn large_graphs_are_fed_alike() {
    let mut draw = fastrand::Rng::with_seed(22);
    for round in 0..3 {
        let mut graph = vec![];
        while graph.len() < 3_000 {
            graph = draw_graph(&mut draw, 5_000);
        }
        let bytes = drawn_file(&graph);
        for order in ORDERS {
            let in_memory = Feeder::new(Cursor::new(&bytes), order);
            let in_memory = issue_all(&mut in_memory.expect("a graph"), 5);
            for budget in [60 << 10, 200 << 10] {
                let paged = Feeder::with_scratch(Cursor::new(&bytes), order, scratch(), budget);
                let paged = issue_all(&mut paged.expect("a graph"), 5);
                assert!(
                    paged == in_memory,
                    "graph {round}, {order:?}, {budget} bytes"
                );
            }
        }
    }
}

#[test]
fn what_is_no_graph_is_refused_alike() {
    let mut draw = fastrand::Rng::with_seed(23);
    let mut refused = 0;
    for round in 0..400 {
        let mut graph = draw_graph(&mut draw, 40);
        let (one, other) = (draw.usize(0..graph.len()), draw.usize(0..graph.len()));
        let id = graph[other].0;
        match round % 5 {
            // a cycle, if the other node waits for this one
            0 => graph[one].1.push(id),
            // waits for itself
            1 => {
                let own = graph[one].0;
                graph[one].2.push(own);
            }
            // a missing node
            2 => graph[one].1.push(2),
            // a duplicate id
            3 => graph[one].0 = id,
            _ => {}
        }
        let mut bytes = drawn_file(&graph);
        if round % 5 == 4 {
            bytes.truncate(draw.usize(0..bytes.len()));
        }
        refused += usize::from(Feeder::new(Cursor::new(&bytes), IssueOrder::Stock).is_err());
        assert_same(&bytes, 3, &[0, 60 << 10], &format!("graph {round}"));
    }
    assert!(refused > 200, "{refused}");
}

#[test]
fn damaged_files_are_read_alike() {
    let bytes = file(&DIAMOND);
    let mut draw = fastrand::Rng::with_seed(24);
    for round in 0..2_000 {
        let mut damaged = bytes.clone();
        for _ in 0..draw.usize(1..4) {
            let place = draw.usize(0..damaged.len());
            damaged[place] = draw.u8(..);
        }
        assert_same(&damaged, 2, &[0], &format!("file {round}"));
    }
}

/// Written graphs with and without faults.
#[test]
fn graphs_of_testdata_are_fed_alike() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/check");
    let mut folders = vec![folder];
    let (mut graphs, mut whole) = (0, 0);
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "et") {
                let bytes = std::fs::read(&path).expect("a file");
                assert_same(&bytes, 3, &BUDGETS, &path.display().to_string());
                graphs += 1;
                let feeder = Feeder::new(Cursor::new(&bytes), IssueOrder::Stock);
                whole += usize::from(feeder.is_ok());
            }
        }
    }
    assert!(graphs > 30 && whole > 10, "{whole} of {graphs}");
}

/// A file in memory whose calls fail after a number of them.
struct Failing {
    bytes: Cursor<Vec<u8>>,
    left: Arc<Mutex<usize>>,
}

impl Failing {
    fn call(&self) -> Result<(), Error> {
        let mut left = self.left.lock().expect("one thread");
        match left.checked_sub(1) {
            Some(less) => {
                *left = less;
                Ok(())
            }
            None => Err(Error::new(ErrorKind::StorageFull, "no space left")),
        }
    }
}

impl Read for Failing {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Error> {
        self.call()?;
        self.bytes.read(bytes)
    }
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        self.call()?;
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl Seek for Failing {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, Error> {
        self.bytes.seek(to)
    }
}

/// Returns the nodes issued before the scratch file failed, and true if it failed.
fn feed_until_it_fails(bytes: &[u8], calls: usize) -> (Vec<u64>, bool) {
    let left = Arc::new(Mutex::new(calls));
    let file = Failing {
        bytes: scratch(),
        left: Arc::clone(&left),
    };
    let feeder = Feeder::with_scratch(Cursor::new(bytes), IssueOrder::Stock, file, 0);
    let mut issued = vec![];
    let failed = |error: FeederError| assert!(matches!(error, FeederError::Scratch(_)), "{error}");
    let mut feeder = match feeder {
        Ok(feeder) => feeder,
        Err(error) => {
            failed(error);
            return (issued, true);
        }
    };
    let error = loop {
        let id = match feeder.issue_next() {
            Ok(Some(id)) => id,
            Ok(None) => return (issued, false),
            Err(error) => break error,
        };
        issued.push(id);
        if let Err(error) = feeder.end(id) {
            break error;
        }
    };
    failed(error);
    // there is room again, but part of the failed operation is missing
    *left.lock().expect("one thread") = usize::MAX;
    failed(feeder.issue_next().expect_err("it failed"));
    failed(feeder.first_ready().expect_err("it failed"));
    failed(feeder.issue(1).expect_err("it failed"));
    failed(feeder.end(1).expect_err("it failed"));
    failed(feeder.node(1).expect_err("it failed"));
    (issued, true)
}

#[test]
fn a_scratch_that_fails_is_an_error_wherever_it_does() {
    let mut draw = fastrand::Rng::with_seed(25);
    let graph = drawn_file(&draw_graph(&mut draw, 16));
    let (all, _) = feed_until_it_fails(&graph, usize::MAX);
    let mut calls = 0;
    loop {
        let (issued, has_failed) = feed_until_it_fails(&graph, calls);
        assert!(all.starts_with(&issued));
        if !has_failed {
            break;
        }
        calls += 1;
    }
    assert!(calls > 100, "{}", calls);
}

#[test]
fn a_scratch_that_fails_says_why() {
    let bytes = file(&DIAMOND);
    let full = Failing {
        bytes: scratch(),
        left: Arc::new(Mutex::new(3)),
    };
    let feeder = Feeder::with_scratch(Cursor::new(&bytes), IssueOrder::Stock, full, 0);
    let error = feeder.expect_err("it is full");
    assert_eq!(error.to_string(), "cannot use the scratch file");
    let cause = std::error::Error::source(&error).expect("a cause");
    assert_eq!(cause.to_string(), "no space left");
}
