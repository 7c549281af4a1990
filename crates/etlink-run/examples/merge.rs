//! Does the work of `etlink merge FOLDER -o OUTPUT`: writes a Chakra file for each rank of the runs
//! in a folder.
//!
//! `cargo run -p etlink-run --example merge -- FOLDER OUTPUT`
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example has arguments and a terminal"
)]

use etlink_run::merge::{MergeOptions, merge};
use etlink_run::{RunOptions, RunSet, RunSource};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let folder = arguments.next().ok_or("give a folder with traces")?;
    let output = arguments.next().ok_or("give a folder for the output")?;
    let runs = RunSet::open(RunSource::Folder(folder), RunOptions::default())?;
    let report = merge(&runs, &output, &MergeOptions::default())?;
    for rank in &report.ranks {
        match &rank.error {
            Some(error) => println!("{}: {error}", rank.name()),
            None => println!("{}: written", rank.name()),
        }
    }
    Ok(())
}
