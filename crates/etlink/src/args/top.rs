//! Arguments of `etlink top`.

use super::names::{self, one_of};
use super::{JsonOrCsvArgs, NameArgs, RankArgs, ReadingArgs, RowArgs, StepArgs};
use crate::op_tables::OpTableConfig;
use clap::{Args, ValueEnum};
use etlink_analysis::top::{TopGroup, TopOrder};
use etlink_run::{RunOptions, RunSource};
use std::path::PathBuf;

/// `etlink top`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        etlink top kineto_trace_0.json.gz -n 20\n  \
        etlink top kineto_trace_0.json.gz --tree --depth 3\n\n\
        Exit codes: 0 done; 1 a trace was left out: unreadable, or damaged under --strict; 2 no \
        trace could be read.")]
pub struct TopArgs {
    /// Device trace, or folder (a table per trace in it); `-` is standard input
    #[arg(value_name = "TRACE|DIR")]
    pub trace: PathBuf,
    /// Host trace of a single trace, for shapes that it lacks; found automatically in folders
    #[arg(long, value_name = "ET")]
    pub host: Option<PathBuf>,
    /// Sort key; `self` times exclude children [default: self-device, else self-host]
    #[arg(
        long,
        value_parser = one_of(names::TOP_ORDERS),
        hide_possible_values = true,
        value_name = "self-device|device|self-host|host|count"
    )]
    pub by: Option<TopOrder>,
    /// Show Python frames as rows too
    #[arg(long)]
    pub python: bool,
    /// Show the call tree of modules, ops and annotations instead of the table
    ///
    /// Times are on the host, and of the work launched on the device. Sorted by device time, or by
    /// host time if there is none. With --python, frames are nodes too.
    #[arg(long, conflicts_with_all = ["host", "csv", "rows"])]
    pub tree: bool,
    /// Print the tree as folded stacks with self times in ns, for flame graphs
    ///
    /// speedscope, flamegraph.pl and inferno read them. Values: `device`, `host`.
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "device|host",
        requires = "tree",
        conflicts_with_all = ["depth", "min_share", "json"]
    )]
    pub folded: Option<FoldedTime>,
    /// Show a node of the tree per module, instead of one per class
    #[arg(long, requires = "tree")]
    pub each_module: bool,
    /// Depth of the tree to show; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 0, requires = "tree")]
    pub depth: u32,
    /// Hide nodes with a smaller share of host time and of device time, percent
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

/// Options of the profiler's tables in `top` and `diff`.
#[derive(Debug, Args)]
pub struct TableArgs {
    /// A row per name, per name and input shapes, or per name and Python stack
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "name|shape|stack"
    )]
    pub group: TopGrouping,
    /// Number of innermost stack frames that distinguish rows of `--group stack`
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

/// Time of folded stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FoldedTime {
    /// Time of the device rows that a node launches.
    Device,
    /// Time on the host.
    Host,
}

/// Key of a row.
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
    /// Returns the source and the form of the tables; starts the threads.
    ///
    /// # Errors
    /// The threads cannot be started, or the trace is a folder and has a host trace.
    pub fn op_table_config(&self) -> anyhow::Result<OpTableConfig<'static>> {
        Ok(OpTableConfig {
            order: self.by,
            group: self.tables.top_group(),
            python: self.python,
            tree: self.tree,
            each_module: self.each_module,
            ..OpTableConfig::by_name(
                RunSource::from_path_and_files(&self.trace, [self.host.as_deref(), None], &[])?,
                self.tables.run_options()?,
            )
        })
    }
}

impl TableArgs {
    /// Returns the options for reading traces; starts the threads.
    ///
    /// # Errors
    /// The threads cannot be started, or times are asked for that tables of ops do not have.
    pub fn run_options(&self) -> anyhow::Result<RunOptions> {
        self.reading.refuse_overhead()?;
        Ok(RunOptions {
            steps_by: self.steps.steps_by.clone(),
            progress: crate::progress::progress_bar(),
            ..self.reading.run_options(Some(&self.choice))?
        })
    }

    /// Returns the key of a row.
    pub fn top_group(&self) -> TopGroup {
        match self.group {
            TopGrouping::Name => TopGroup::Name,
            TopGrouping::Shape => TopGroup::Shape,
            TopGrouping::Stack => TopGroup::Stack(usize::from(self.frames)),
        }
    }
}
