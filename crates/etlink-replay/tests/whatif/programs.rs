//! Random programs: layers, copies on a side stream, communication on another, synchronisations.

use super::machine::{Change, Instruction, MachineOptions};
use super::{Outcome, predict};
use Instruction::{DeviceSync, Host, Op};

/// Programs that a run of the test draws. `PROGRAMS=1000` draws more.
const PROGRAMS: u64 = 60;

/// The streams of compute, copies and communication.
const COMPUTE: i64 = 7;
const COPY: i64 = 24;
const COMMUNICATION: i64 = 20;

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn choose<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// About `mean`, from a quarter to twice of it.
    fn around(&mut self, mean: i64) -> i64 {
        (mean / 4 + self.below(7 * mean as u64 / 4 + 1) as i64).max(1)
    }
}

struct Author {
    random: Random,
    kernel_us: i64,
    host_us: i64,
    event: u32,
}

impl Author {
    fn kernel(&mut self, stream: i64, kernel: &'static str, us: i64) -> Instruction {
        let us = self.random.around(us);
        let host = self.random.around(self.host_us);
        Op(
            "aten::op",
            vec![
                Host(host),
                Instruction::Launch { stream, kernel, us },
                Host(1),
            ],
        )
    }

    /// What `stream` runs next waits for what `of` was given before.
    fn wait(&mut self, stream: i64, of: i64) -> [Instruction; 2] {
        self.event += 1;
        let event = self.event;
        [
            Instruction::Record { event, stream: of },
            Instruction::StreamWait { stream, event },
        ]
    }

    /// A training step: input, layers forward and back, buckets of gradients, the optimizer.
    fn step(&mut self, layers: usize, copies: bool, reduces: bool) -> Vec<Instruction> {
        let input = Host(self.random.around(2 * self.host_us));
        let mut step = vec![Op("input", vec![input])];
        if copies {
            step.extend(self.wait(COMPUTE, COPY));
            step.push(self.kernel(COPY, "copy", 6 * self.kernel_us));
        }
        for layer in 0..2 * layers {
            let name = self.random.choose(&["gemm", "norm", "relu", "attention"]);
            step.push(self.kernel(COMPUTE, name, self.kernel_us));
            if reduces && layer >= layers && layer % 4 == 3 {
                let mut body = self.wait(COMMUNICATION, COMPUTE).to_vec();
                body.push(self.kernel(COMMUNICATION, "reduce", 3 * self.kernel_us));
                step.push(Op("c10d::allreduce_", body));
            }
        }
        if reduces {
            step.push(Op("wait", self.wait(COMPUTE, COMMUNICATION).to_vec()));
        }
        step.push(self.kernel(COMPUTE, "optimizer", 2 * self.kernel_us));
        if self.random.below(2) == 0 {
            step.push(Op(
                "aten::item",
                vec![Host(1), Instruction::StreamSync(COMPUTE)],
            ));
        }
        step
    }
}

fn program(seed: u64) -> (Vec<Instruction>, MachineOptions, Change) {
    let mut random = Random(seed);
    let options = MachineOptions {
        depth: random.choose(&[None, None, Some(48)]),
        legacy: false,
        sync_rows: random.below(2) == 0,
    };
    let factor = random.choose(&[0.1, 0.3, 0.5, 2.0, 4.0]);
    let change = match random.below(3) {
        0 => Change::Kernel(
            random.choose(&["gemm", "copy", "reduce", "optimizer"]),
            factor,
        ),
        1 => Change::Kernels(factor),
        _ => Change::Host(factor),
    };
    let layers = random.choose(&[6, 12, 20]);
    let (copies, reduces) = (random.below(2) == 0, random.below(2) == 0);
    let mut author = Author {
        kernel_us: random.choose(&[5, 20, 60]),
        host_us: random.choose(&[2, 5, 12]),
        random,
        event: 0,
    };
    let mut program = vec![];
    for _ in 0..3 {
        program.extend(author.step(layers, copies, reduces));
    }
    program.push(DeviceSync);
    (program, options, change)
}

/// The bars: half of the predictions within 0.2 % of the new time, 95 of 100 within 3 %.
#[test]
fn random_programs_are_predicted() {
    let programs = std::env::var("PROGRAMS").map_or(Ok(PROGRAMS), |text| text.parse());
    let mut outcomes: Vec<(f64, u64, Outcome)> = vec![];
    for seed in 0..programs.expect("PROGRAMS is a number") {
        let (program, options, change) = program(seed);
        let outcome = predict(&program, options, change);
        let error = outcome.error_of_time();
        if error > 0.03 {
            println!(
                "seed {seed}: {change:?}, {options:?}: {outcome:?}, {:.1} %",
                100.0 * error
            );
        }
        outcomes.push((error, seed, outcome));
    }
    outcomes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let error_at = |share: usize| outcomes[outcomes.len() * share / 100].0;
    let (median, p95) = (error_at(50), error_at(95));
    println!(
        "{} programs: median {:.3} %, p95 {:.2} %",
        outcomes.len(),
        100.0 * median,
        100.0 * p95
    );
    assert!(median <= 0.002, "median {median}");
    assert!(p95 <= 0.03, "p95 {p95}");
}
