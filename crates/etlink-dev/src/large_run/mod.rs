//! `cargo dev large-run`: runs of hundreds of ranks of realistic size, by phases.
//!
//! ```text
//! recorded pair -> repeated to 200 MB -> a few packed texts -> store on this machine <-> etlink
//! ```
//! No rank is stored: [`Store`] puts each object together when it is read, and counts the bytes.

mod http;
mod store;

use crate::bench::measure::{self, ProcessUsage};
use crate::support::{etlink_path, read_trace_text, repository_root};
use anyhow::{Result, bail};
use clap::Args;
use etlink_dev::generate::ranks::{RankTemplate, ScenarioSettings, SharedObject};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use store::Store;

/// The bucket, and what names of traces and of results begin with.
const BUCKET: &str = "run";
const TRACES: &str = "traces";
/// Ranks that differ in when they come to a collective: rank 5 has the text of rank 1, by its own
/// clock and with its own number.
const DISTINCT: usize = 4;
/// Clocks are up to so far from rank 0's, ns.
const SKEW_NS: i64 = 5_000_000;

/// `cargo dev large-run`.
#[derive(Debug, Args)]
pub struct LargeRunOptions {
    /// Numbers of ranks, one run each
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [64])]
    ranks: Vec<usize>,
    /// Size of both traces of a rank, unpacked
    #[arg(long, value_name = "MB", default_value_t = 200)]
    megabytes: u64,
    /// Shards of the phases of `merge`
    #[arg(long, value_name = "N", default_value_t = 8)]
    shards: u32,
    /// How many shards are summarized [default: all, which the join needs]
    #[arg(long, value_name = "N")]
    summarized_shards: Option<u32>,
    /// How many shards are written; the others are alike [default: all]
    #[arg(long, value_name = "N")]
    written_shards: Option<u32>,
    /// Only these: ranks, summaries, join, write, merge, ray
    #[arg(long, value_name = "STEP,...", value_delimiter = ',')]
    only: Vec<String>,
    /// A Python that has the wheel of etlink, Ray and psutil: merges on a cluster of two workers, too
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// Memory of each process
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    memory: String,
    /// Threads of each process
    #[arg(short = 'j', long, value_name = "N", default_value_t = 2)]
    threads: u32,
    /// Measure nothing: say where the store is, and what went through it at each line of input
    #[arg(long)]
    serve: bool,
}

/// Makes the runs and measures them.
pub fn measure_large_runs(options: &LargeRunOptions) -> Result<()> {
    let etlink = etlink_path()?;
    println!(
        "| ranks | step | wall s | CPU s | CPU s a rank | peak MB | read MB | read, unpacked MB | \
         requests | written MB | objects |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for &ranks in &options.ranks {
        let run = LargeRun::make(options, ranks)?;
        if options.serve {
            run.wait()?;
        } else {
            run.measure(options, etlink.as_ref())?;
        }
    }
    Ok(())
}

/// A run in a store.
struct LargeRun {
    ranks: usize,
    /// Of each rank, bytes.
    unpacked: Vec<u64>,
    store: Arc<Store>,
    address: SocketAddr,
}

impl LargeRun {
    fn make(options: &LargeRunOptions, ranks: usize) -> Result<LargeRun> {
        let folder = repository_root()?.join("testdata/pairs/ddp2-2.15.0");
        let (host, device) = (
            folder.join("torch_et_0.json.gz"),
            folder.join("kineto_trace_0.json.gz"),
        );
        let once = read_trace_text(&host)?.len() + read_trace_text(&device)?.len();
        let times = (options.megabytes * 1_000_000).div_ceil(once as u64);
        let times = u32::try_from(times)?;
        let template = RankTemplate::open(&host, &device, times)?;
        let wishes = ScenarioSettings {
            ranks: DISTINCT,
            // clocks are those of the served ranks: see below
            skew_ns: 0,
            drift_ppb: 0,
            jitter_ns: 20_000,
            late: None,
            seed: 1,
        };
        let scenario = template.scenario(&wishes)?.of_world(ranks);
        let (mut hosts, mut devices) = (vec![], vec![]);
        for rank in 0..DISTINCT {
            hosts.push(Arc::new(template.packed_host(&scenario, rank)?));
            devices.push(Arc::new(template.packed_device(&scenario, rank)?));
        }
        drop(template);
        let mut random = fastrand::Rng::with_seed(1);
        let (mut objects, mut unpacked) = (vec![], vec![]);
        for rank in 0..ranks {
            let ahead_ns = match rank {
                0 => 0,
                _ => random.i64(-SKEW_NS..=SKEW_NS),
            };
            let host = SharedObject::new(&hosts[rank % DISTINCT], rank, ahead_ns);
            let device = SharedObject::new(&devices[rank % DISTINCT], rank, ahead_ns);
            unpacked.push(host.unpacked + device.unpacked);
            let name = |kind: &str| format!("{BUCKET}/{TRACES}/{kind}_{rank}.json.gz");
            objects.push((name("torch_et"), host));
            objects.push((name("kineto_trace"), device));
        }
        let store = Arc::new(Store::new(objects));
        let address = store.serve()?;
        Ok(LargeRun {
            ranks,
            unpacked,
            store,
            address,
        })
    }

    /// What clients of S3 take the place of the store from.
    fn environment(&self) -> Vec<String> {
        vec![
            format!("AWS_ENDPOINT_URL=http://{}", self.address),
            "AWS_ALLOW_HTTP=true".to_owned(),
            "AWS_REGION=us-east-1".to_owned(),
            "AWS_ACCESS_KEY_ID=any".to_owned(),
            "AWS_SECRET_ACCESS_KEY=any".to_owned(),
            "AWS_EC2_METADATA_DISABLED=true".to_owned(),
        ]
    }

    /// Serves it until its input ends.
    fn wait(&self) -> Result<()> {
        println!("export {}", self.environment().join(" "));
        println!("{} ranks in s3://{BUCKET}/{TRACES}", self.ranks);
        for line in std::io::stdin().lines() {
            let counts = self.store.take_counts();
            println!("{}: {counts:?}", line?);
        }
        Ok(())
    }

    fn measure(&self, options: &LargeRunOptions, etlink: &Path) -> Result<()> {
        let source = format!("s3://{BUCKET}/{TRACES}");
        let shards = options.shards;
        let summarized = options.summarized_shards.unwrap_or(shards).min(shards);
        let written = options.written_shards.unwrap_or(shards).min(shards);
        let is_wanted =
            |step: &str| options.only.is_empty() || options.only.iter().any(|one| one == step);
        let merge = |output: &str| {
            format!("merge {source} -o s3://{BUCKET}/{output} --attrs minimal --overwrite")
        };
        let measure = |step: &str, words: &str, part: &[u64]| {
            self.measure_step(options, etlink, step, words, part)
        };
        let of_shard = |shard: u32| -> Vec<u64> {
            let own = self.unpacked.iter().skip(shard as usize);
            own.step_by(shards as usize).copied().collect()
        };
        if is_wanted("ranks") {
            measure("`ranks`", &format!("ranks {source} --json"), &self.unpacked)?;
        }
        let words = merge("phases");
        if is_wanted("summaries") {
            let mut sum = StepSum::default();
            for shard in 0..summarized {
                let words = format!("{words} --phase summaries --shard {shard}/{shards}");
                sum.add(self.run(options, etlink, &words)?, &of_shard(shard));
            }
            self.print(&format!("summaries, {summarized} of {shards} shards"), &sum);
        }
        if is_wanted("join") {
            measure("join", &format!("{words} --phase join"), &[])?;
        }
        if is_wanted("write") {
            let mut sum = StepSum::default();
            for shard in 0..written {
                let words = format!("{words} --phase write --shard {shard}/{shards}");
                sum.add(self.run(options, etlink, &words)?, &of_shard(shard));
            }
            self.print(&format!("write, {written} of {shards} shards"), &sum);
        }
        if is_wanted("merge") {
            measure("`merge`", &merge("whole"), &self.unpacked)?;
        }
        if let (true, Some(python)) = (is_wanted("ray"), &options.python) {
            self.measure_ray(options, python)?;
        }
        Ok(())
    }

    /// The same by `etlink.ray`, whose workers are no children of the process that asks for them:
    /// the recipe says what they took.
    fn measure_ray(&self, options: &LargeRunOptions, python: &Path) -> Result<()> {
        let recipe = repository_root()?.join("crates/etlink-dev/recipes/large_ray.py");
        for command in ["merge", "ranks"] {
            let mut run = Command::new(python);
            run.arg(&recipe)
                .args([command, &format!("s3://{BUCKET}/{TRACES}")])
                .arg(format!("s3://{BUCKET}/ray"))
                .args([&options.shards.to_string(), &options.memory])
                .env("RAY_USAGE_STATS_ENABLED", "0")
                .stderr(Stdio::inherit());
            for setting in self.environment() {
                if let Some((name, value)) = setting.split_once('=') {
                    run.env(name, value);
                }
            }
            let output = run.output()?;
            if !output.status.success() {
                bail!("etlink.ray.{command}: {}", output.status);
            }
            let usage: ProcessUsage = serde_json::from_slice(&output.stdout)?;
            let mut sum = StepSum::default();
            sum.add(usage, &self.unpacked);
            self.print(
                &format!("`etlink.ray.{command}`, {} shards", options.shards),
                &sum,
            );
        }
        Ok(())
    }

    fn measure_step(
        &self,
        options: &LargeRunOptions,
        etlink: &Path,
        step: &str,
        words: &str,
        unpacked: &[u64],
    ) -> Result<()> {
        let mut sum = StepSum::default();
        sum.add(self.run(options, etlink, words)?, unpacked);
        self.print(step, &sum);
        Ok(())
    }

    fn run(&self, options: &LargeRunOptions, etlink: &Path, words: &str) -> Result<ProcessUsage> {
        let mut command: Vec<OsString> = vec!["env".into()];
        command.extend(self.environment().into_iter().map(OsString::from));
        command.push(etlink.into());
        command.extend(words.split(' ').map(OsString::from));
        let more = [
            "-j",
            &options.threads.to_string(),
            "--memory",
            &options.memory,
        ]
        .map(OsString::from);
        // the join reads no trace
        if !words.contains("--phase join") {
            command.extend(more);
        }
        let usage = measure::measure_command(&command)?;
        if let Some(failed) = &usage.failed {
            bail!("etlink {words}: {failed}");
        }
        Ok(usage)
    }

    fn print(&self, step: &str, sum: &StepSum) {
        let counts = self.store.take_counts();
        let mega = |bytes: u64| bytes as f64 / 1e6;
        let mut row = format!(
            "| {} | {step} | {:.1} | {:.1} | ",
            self.ranks, sum.wall, sum.cpu
        );
        let per_rank = match sum.ranks {
            0 => self.ranks,
            ranks => ranks,
        };
        let _ = write!(
            row,
            "{:.3} | {:.0} | {:.0} | {:.0} | {} | {:.0} | {} |",
            sum.cpu / per_rank as f64,
            mega(sum.peak_bytes),
            mega(counts.read),
            mega(sum.unpacked),
            counts.requests,
            mega(counts.written),
            counts.objects,
        );
        println!("{row}");
    }
}

/// What the processes of a step took, one after another.
#[derive(Default)]
struct StepSum {
    wall: f64,
    cpu: f64,
    peak_bytes: u64,
    ranks: usize,
    unpacked: u64,
}

impl StepSum {
    fn add(&mut self, usage: ProcessUsage, unpacked: &[u64]) {
        self.wall += usage.wall;
        self.cpu += usage.cpu;
        self.peak_bytes = self.peak_bytes.max(usage.peak_bytes);
        self.ranks += unpacked.len();
        self.unpacked += unpacked.iter().sum::<u64>();
    }
}
