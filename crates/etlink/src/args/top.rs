//! What can be typed about the profiler's table.

use super::{JsonOrCsvArgs, NameArgs, RankArgs, ReadingArgs, RowArgs, StepArgs};
use crate::op_tables::OpTableConfig;
use clap::{Args, ValueEnum};
use etlink_analyze::top::{TopGroup, TopOrder};
use etlink_run::{RunOptions, RunSource};
use std::path::PathBuf;

/// `etlink top`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done; 1 done, but a trace was left out: it could not be read, or \
        is damaged under --strict; 2 no trace could be read."
)]
pub struct TopArgs {
    /// Kineto trace (`-`: standard input), or a folder: a table for each trace in it and its
    /// subfolders
    #[arg(value_name = "TRACE|DIR")]
    pub trace: PathBuf,
    /// Host trace of a single trace: input shapes, where that was recorded without; in a folder
    /// they are found
    #[arg(long, value_name = "ET")]
    pub host: Option<PathBuf>,
    /// Sort by own time on the device, time there with that of children, the same on the host, or
    /// number of calls [default: self-device, else self-host]
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "self-device|device|self-host|host|count"
    )]
    pub by: Option<TopBy>,
    /// Frames of the Python stack as rows too
    #[arg(long)]
    pub python: bool,
    /// Show what called what instead: ops, annotations and modules (with --python frames too) with
    /// the time of what they launched on the device. Sorted by device, else host
    #[arg(long, conflicts_with_all = ["host", "csv", "rows"])]
    pub tree: bool,
    /// A node of the tree for each module, not one for those of a class
    #[arg(long, requires = "tree")]
    pub each_module: bool,
    /// How deep the tree is shown; 0: all of it
    #[arg(long, value_name = "N", default_value_t = 0, requires = "tree")]
    pub depth: u32,
    /// Leave out of the tree what has less of the host's time and of the device's, percent
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 1.0,
        requires = "tree",
        value_parser = parse_percent
    )]
    pub min_share: f64,
    #[command(flatten)]
    pub tables: TableArgs,
}

fn parse_percent(text: &str) -> Result<f64, &'static str> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=100.0).contains(share))
        .ok_or("a share is a number from 0 to 100")
}

/// What `top` and `diff` say of the profiler's tables.
#[derive(Debug, Args)]
pub struct TableArgs {
    /// What makes a row of its own: a name, a name with input shapes, or a name with where it was
    /// called from (recorded with stacks)
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "name|shape|stack"
    )]
    pub group: TopGrouping,
    /// How many frames of the stack tell where from
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub frames: u16,
    #[command(flatten)]
    pub rows: RowArgs<20>,
    #[command(flatten)]
    pub names: NameArgs,
    #[command(flatten)]
    pub steps: StepArgs,
    #[command(flatten)]
    pub choice: RankArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub print: JsonOrCsvArgs,
}

/// What to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopBy {
    /// Own time on the device.
    SelfDevice,
    /// Time on the device.
    Device,
    /// Own time on the host.
    SelfHost,
    /// Time on the host.
    Host,
    /// Number of calls.
    Count,
}

/// What makes a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TopGrouping {
    /// A name.
    #[default]
    Name,
    /// A name with input shapes.
    Shape,
    /// A name with a stack.
    Stack,
}

impl TopArgs {
    /// Of what tables are made, and which; starts the threads.
    ///
    /// # Errors
    /// The threads cannot be started, or the trace is a folder and has a host trace.
    pub fn op_table_config(&self) -> anyhow::Result<OpTableConfig<'static>> {
        Ok(OpTableConfig {
            order: self.by.map(TopBy::order),
            group: self.tables.top_group(),
            python: self.python,
            tree: self.tree,
            each_module: self.each_module,
            ..OpTableConfig::by_name(
                RunSource::from_path_and_files(&self.trace, self.host.as_deref(), &[])?,
                self.tables.run_options()?,
            )
        })
    }
}

impl TableArgs {
    /// How traces are read; starts the threads.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn run_options(&self) -> anyhow::Result<RunOptions> {
        Ok(RunOptions {
            steps_by: self.steps.steps_by.clone(),
            progress: crate::progress::progress_bar(),
            ..self.reading.run_options(Some(&self.choice))?
        })
    }

    /// What makes a row of its own.
    pub fn top_group(&self) -> TopGroup {
        match self.group {
            TopGrouping::Name => TopGroup::Name,
            TopGrouping::Shape => TopGroup::Shape,
            TopGrouping::Stack => TopGroup::Stack(usize::from(self.frames)),
        }
    }
}

impl TopBy {
    fn order(self) -> TopOrder {
        match self {
            TopBy::SelfDevice => TopOrder::SelfDevice,
            TopBy::Device => TopOrder::Device,
            TopBy::SelfHost => TopOrder::SelfHost,
            TopBy::Host => TopOrder::Host,
            TopBy::Count => TopOrder::Count,
        }
    }
}
