//! Random programs: layers, copies on a side stream, communication on another, synchronizations.

use crate::machine::{MachineChange, MachineInstruction, MachineOptions};
use MachineInstruction::{DeviceSync, Host, Op};

/// Streams of compute, copies and communication.
const COMPUTE: i64 = 7;
const COPY: i64 = 24;
const COMMUNICATION: i64 = 20;

/// The generator SplitMix64 (Steele, Lea and Flood, 2014).
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

    /// Returns a random value around `mean`, from a quarter of it to twice as much.
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
    fn kernel(&mut self, stream: i64, kernel: &'static str, us: i64) -> MachineInstruction {
        let us = self.random.around(us);
        let host = self.random.around(self.host_us);
        Op(
            "aten::op",
            vec![
                Host(host),
                MachineInstruction::Launch { stream, kernel, us },
                Host(1),
            ],
        )
    }

    /// Makes the next work of `stream` wait for the earlier work of `of`.
    fn wait(&mut self, stream: i64, of: i64) -> [MachineInstruction; 2] {
        self.event += 1;
        let event = self.event;
        [
            MachineInstruction::Record { event, stream: of },
            MachineInstruction::StreamWait { stream, event },
        ]
    }

    /// Returns a training step: input, layers forward and backward, buckets of gradients, the
    /// optimizer.
    fn step(&mut self, layers: usize, copies: bool, reduces: bool) -> Vec<MachineInstruction> {
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
                vec![Host(1), MachineInstruction::StreamSync(COMPUTE)],
            ));
        }
        step
    }
}

/// Returns a training loop of three steps, its machine, and a change. The same seed gives the same
/// result.
pub fn random_program(seed: u64) -> (Vec<MachineInstruction>, MachineOptions, MachineChange) {
    let mut random = Random(seed);
    let options = MachineOptions {
        depth: random.choose(&[None, None, Some(48)]),
        legacy: false,
        sync_rows: random.below(2) == 0,
        ..MachineOptions::default()
    };
    let factor = random.choose(&[0.1, 0.3, 0.5, 2.0, 4.0]);
    let change = match random.below(3) {
        0 => MachineChange::Kernel(
            random.choose(&["gemm", "copy", "reduce", "optimizer"]),
            factor,
        ),
        1 => MachineChange::Kernels(factor),
        _ => MachineChange::Host(factor),
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
