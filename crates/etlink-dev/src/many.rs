//! `cargo dev ranks`: the arguments of [`etlink_dev::generate::ranks`].

use anyhow::{Context, Result};
use clap::Args;
use etlink_dev::generate::ranks::{self, LateRank, ScenarioSettings};
use etlink_testing::all_reduce_rank;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct RanksOptions {
    /// Number of ranks
    #[arg(long, value_name = "N")]
    ranks: usize,
    /// Empty folder for the traces and `truth.json`
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Generate small ranks instead: device traces with three all-reduces over groups of all ranks
    #[arg(long)]
    small: bool,
    /// Host trace of the recorded rank
    #[arg(
        long,
        value_name = "ET",
        default_value = "testdata/pairs/ddp2-2.15.0/torch_et_0.json.gz"
    )]
    host: PathBuf,
    /// Device trace of the recorded rank
    #[arg(
        long,
        value_name = "KINETO",
        default_value = "testdata/pairs/ddp2-2.15.0/kineto_trace_0.json.gz"
    )]
    device: PathBuf,
    /// Number of repetitions of the recorded window
    #[arg(long, value_name = "N", default_value_t = 1)]
    times: u32,
    /// Maximum offset of clocks from rank 0's, us
    #[arg(long, value_name = "US", default_value_t = 5_000)]
    skew_us: u32,
    /// Maximum drift of clocks against rank 0's, ppm
    #[arg(long, value_name = "PPM", default_value_t = 0)]
    drift_ppm: u32,
    /// Maximum spread of arrivals at a collective, us
    #[arg(long, value_name = "US", default_value_t = 20)]
    jitter_us: u32,
    /// Rank that arrives late at all collectives
    #[arg(long, value_name = "RANK")]
    late: Option<usize>,
    /// Additional delay of the late rank, us
    #[arg(long, value_name = "US", default_value_t = 200)]
    late_us: u32,
    /// Seed of random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn write_small_ranks(ranks: usize, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for rank in 0..ranks as u64 {
        let path = folder.join(format!("kineto_trace_{rank}.json"));
        let text = all_reduce_rank(rank, ranks as u64, 0);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    println!("{ranks} files in {}", folder.display());
    Ok(())
}

fn ns_from_us(us: u32) -> i64 {
    1_000 * i64::from(us)
}

pub fn generate_ranks(options: &RanksOptions) -> Result<()> {
    if options.small {
        return write_small_ranks(options.ranks, &options.output);
    }
    let wishes = ScenarioSettings {
        ranks: options.ranks,
        skew_ns: ns_from_us(options.skew_us),
        // A ppm is a thousand ppb, like a microsecond is a thousand nanoseconds.
        drift_ppb: ns_from_us(options.drift_ppm),
        jitter_ns: ns_from_us(options.jitter_us),
        late: options.late.map(|rank| LateRank {
            rank,
            by_ns: ns_from_us(options.late_us),
        }),
        seed: options.seed,
    };
    let files = ranks::write_run(
        &options.host,
        &options.device,
        options.times,
        &wishes,
        &options.output,
    )?;
    println!("{} files in {}", files.len(), options.output.display());
    Ok(())
}
