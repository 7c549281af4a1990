//! A training program with possible faults. Each fault is planted into the program, so that the
//! program can also run without it.

use crate::findings::program::{Act, COMPUTE, MS, Meeting, NCCL, US, Work};
use crate::findings::random::Random;
use etlink_analysis::findings::CauseKind;

/// The planted faults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planted {
    /// Faults; those in `mended` are fixed.
    pub(crate) faults: [Option<CauseKind>; 2],
    pub(crate) mended: [Option<CauseKind>; 2],
}

impl Planted {
    fn has(&self, kind: CauseKind) -> bool {
        self.faults.contains(&Some(kind)) && !self.mended.contains(&Some(kind))
    }

    /// Returns true for a fixed fault: the program does the same work without the fault.
    fn is_mended(&self, kind: CauseKind) -> bool {
        self.mended.contains(&Some(kind))
    }

    fn concerns(&self, kind: CauseKind) -> bool {
        self.faults.contains(&Some(kind))
    }
}

/// Returns true for kinds that only several ranks have.
pub(crate) fn needs_ranks(kind: CauseKind) -> bool {
    matches!(
        kind,
        CauseKind::LateRank | CauseKind::RankImbalance | CauseKind::ExposedCommunication
    )
}

/// All parameters of a program.
pub(crate) struct Recipe {
    pub(crate) seed: u64,
    pub(crate) ranks: usize,
    pub(crate) planted: Planted,
}

/// Numbers of layers and steps, and the host's time per op.
struct Shape {
    layers: usize,
    steps: usize,
    host_ns: i64,
}

/// Builds the programs of all ranks.
pub(crate) fn build_programs(recipe: &Recipe) -> Vec<Vec<Act>> {
    let mut random = Random(recipe.seed);
    let shape = Shape {
        layers: 4 + random.below(3) as usize,
        // One burst is enough, and a first step unlike the others would be a fault of its own.
        steps: if recipe.planted.concerns(CauseKind::QueueFull) {
            1
        } else {
            3 + random.below(2) as usize
        },
        host_ns: (8 + random.below(8) as i64) * US,
    };
    let ranks = 0..recipe.ranks;
    ranks
        .map(|rank| {
            // Ranks run the same program, each with its own noise. Noise depends only on seed and
            // rank, so that fixing a fault changes little else.
            let mut random = Random(recipe.seed ^ ((rank as u64 + 1) << 32));
            let mut writer = Writer {
                recipe,
                shape: &shape,
                rank,
                random: &mut random,
                step: 0,
            };
            (0..shape.steps)
                .map(|step| {
                    writer.step = step;
                    let acts = writer.step_acts();
                    Act::Annotation(format!("ProfilerStep#{}", step + 2), acts)
                })
                .collect()
        })
        .collect()
}

struct Writer<'w> {
    recipe: &'w Recipe,
    shape: &'w Shape,
    rank: usize,
    random: &'w mut Random,
    step: usize,
}

pub(crate) fn work(name: &str, stream: i64, ns: i64) -> Work {
    Work {
        name: name.to_owned(),
        stream,
        ns,
        blocks: 432,
    }
}

pub(crate) fn op(name: &str, acts: Vec<Act>) -> Act {
    Act::Op(name.to_owned(), acts)
}

fn annotation(name: &str, acts: Vec<Act>) -> Act {
    Act::Annotation(name.to_owned(), acts)
}

pub(crate) const ELEMENTWISE: &str = "void at::native::vectorized_elementwise_kernel<4, add>";
const SMALL: &str = "void at::native::reduce_kernel<512, 1>";

impl Writer<'_> {
    fn has(&self, kind: CauseKind) -> bool {
        self.recipe.planted.has(kind)
    }

    fn mended(&self, kind: CauseKind) -> bool {
        self.recipe.planted.is_mended(kind)
    }

    /// Makes a host op with a kernel.
    fn kernel_op(&mut self, name: &str, kernel: &str, ns: i64) -> Act {
        let host = self.random.near(self.shape.host_ns);
        let ns = self.random.near(ns);
        op(
            name,
            vec![
                Act::Host(host),
                Act::Launch(work(kernel, COMPUTE, ns)),
                Act::Host(US),
            ],
        )
    }

    /// Returns the factor on this rank's time for a kernel of a layer.
    fn rank_factor(&self, layer: usize) -> f64 {
        let planted = &self.recipe.planted;
        // Rank 1 rather than 0: nothing must depend on the order of ranks.
        let is_late = self.rank == 1 && planted.has(CauseKind::LateRank);
        let late = if is_late { 1.6 } else { 1.0 };
        if !planted.concerns(CauseKind::RankImbalance) {
            return late;
        }
        // A different rank in each layer and step, but the same one as in the run with the fault
        // fixed.
        let mut dice = Random(self.recipe.seed + (97 * self.step + layer) as u64);
        let turn = dice.below(self.recipe.ranks as u64) as usize;
        let ranks = self.recipe.ranks as f64;
        let uneven = match planted.has(CauseKind::RankImbalance) {
            true if turn == self.rank => 2.2,
            true => 1.0,
            false => (ranks + 1.2) / ranks,
        };
        late * uneven
    }

    fn step_acts(&mut self) -> Vec<Act> {
        let mut acts = self.input_acts();
        acts.extend(self.first_step_acts());
        acts.extend(self.forward_acts());
        acts.extend(self.backward_acts());
        acts.extend(self.optimizer_acts());
        acts.extend(self.end_acts());
        acts
    }

    fn input_acts(&mut self) -> Vec<Act> {
        let loads = if self.has(CauseKind::InputPipeline) {
            6 * MS
        } else {
            40 * US
        };
        let loads = self.random.near(loads);
        let loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
        let mut acts = vec![annotation(loader, vec![Act::Host(loads)])];
        let copy = work(
            "Memcpy HtoD (Pinned -> Device)",
            COMPUTE,
            self.random.near(15 * US),
        );
        acts.push(op(
            "aten::copy_",
            vec![Act::Host(5 * US), Act::Copy(copy, false)],
        ));
        if self.recipe.planted.concerns(CauseKind::ExposedCopies) {
            acts.extend(self.large_copies());
        }
        acts
    }

    /// Copies weights from the host in each step: beside computation, or before it.
    fn large_copies(&mut self) -> Vec<Act> {
        let ns = self.random.near(2 * MS);
        let stream = if self.has(CauseKind::ExposedCopies) {
            COMPUTE
        } else {
            14
        };
        let copy = work("Memcpy HtoD (Pinned -> Device)", stream, ns);
        vec![op(
            "aten::copy_",
            vec![Act::Host(5 * US), Act::Copy(copy, false)],
        )]
    }

    /// Makes autotuning: slow host work and kernels that no later step has.
    fn first_step_acts(&mut self) -> Vec<Act> {
        if !self.has(CauseKind::FirstStep) || self.step > 0 {
            return vec![];
        }
        let mut tries = vec![Act::Host(9 * MS)];
        for _ in 0..20 {
            tries.push(Act::Launch(work("cudnn_try_algorithm", COMPUTE, 150 * US)));
            tries.push(Act::Host(10 * US));
        }
        tries.push(Act::Sync("cudaDeviceSynchronize", None));
        vec![op("aten::cudnn_convolution", tries)]
    }

    fn forward_acts(&mut self) -> Vec<Act> {
        let mut acts = vec![];
        for layer in 0..self.shape.layers {
            acts.push(Act::Host(self.random.near(6 * US)));
            acts.extend(self.gather_acts(layer));
            acts.extend(self.layer_acts(layer));
            acts.extend(self.fault_acts(layer));
        }
        acts
    }

    /// Makes attention and two linear layers.
    fn layer_acts(&mut self, layer: usize) -> Vec<Act> {
        let factor = self.rank_factor(layer);
        let longer = |ns: i64| (ns as f64 * factor) as i64;
        vec![
            self.kernel_op("aten::layer_norm", "layer_norm_kernel", 30 * US),
            self.kernel_op(
                "aten::linear",
                "ampere_bf16_s16816gemm_128x64_tn",
                longer(120 * US),
            ),
            self.kernel_op(
                "aten::scaled_dot_product_attention",
                "flash_fwd_kernel",
                90 * US,
            ),
            self.kernel_op(
                "aten::linear",
                "ampere_bf16_s16816gemm_256x128_tn",
                longer(150 * US),
            ),
            self.kernel_op("aten::gelu", ELEMENTWISE, 25 * US),
        ]
    }

    /// Makes the faults of a layer.
    fn fault_acts(&mut self, layer: usize) -> Vec<Act> {
        let mut acts = vec![];
        if self.has(CauseKind::ScalarRead) {
            let read = work("Memcpy DtoH (Device -> Pageable)", COMPUTE, 2 * US);
            let inner = op(
                "aten::_local_scalar_dense",
                vec![
                    Act::Host(4 * US),
                    Act::Copy(read, false),
                    Act::Sync("cudaStreamSynchronize", Some(COMPUTE)),
                ],
            );
            acts.push(op("aten::item", vec![Act::Host(2 * US), inner]));
            // The program uses the number while the device is idle.
            acts.push(Act::Host(60 * US));
        } else if self.mended(CauseKind::ScalarRead) {
            acts.push(Act::Host(60 * US));
        }
        if self.recipe.planted.concerns(CauseKind::DynamicShape) {
            acts.push(self.nonzero());
            acts.push(Act::Host(60 * US));
        }
        if self.recipe.planted.concerns(CauseKind::PageableCopy) {
            let is_fault = self.has(CauseKind::PageableCopy);
            let name = if is_fault {
                "Memcpy HtoD (Pageable -> Device)"
            } else {
                "Memcpy HtoD (Pinned -> Device)"
            };
            let copy = work(name, COMPUTE, 20 * US);
            acts.push(op(
                "aten::copy_",
                vec![Act::Host(5 * US), Act::Copy(copy, is_fault)],
            ));
            acts.push(Act::Host(50 * US));
        }
        if self.has(CauseKind::ExplicitSync) {
            acts.push(Act::Sync("cudaDeviceSynchronize", None));
        }
        if self.recipe.planted.concerns(CauseKind::ExplicitSync) {
            acts.push(Act::Host(70 * US));
        }
        if self.has(CauseKind::AllocatorCalls) {
            acts.push(op(
                "aten::empty",
                vec![
                    Act::Host(3 * US),
                    Act::Call("cudaMalloc", 900 * US),
                    Act::Host(2 * US),
                ],
            ));
        }
        if self.recipe.planted.concerns(CauseKind::FirstCall) {
            acts.push(self.first_call(layer));
        }
        if self.recipe.planted.concerns(CauseKind::DominantKernel) {
            let ns = if self.has(CauseKind::DominantKernel) {
                1_400 * US
            } else {
                700 * US
            };
            acts.push(self.kernel_op("aten::conv2d", "implicit_convolve_sgemm", ns));
        }
        if self.recipe.planted.concerns(CauseKind::LowCoverage) {
            acts.push(self.narrow_kernel());
        }
        if self.recipe.planted.concerns(CauseKind::FusibleChain) {
            let count = if self.has(CauseKind::FusibleChain) {
                7
            } else {
                1
            };
            for _ in 0..count {
                acts.push(self.kernel_op("aten::mul", ELEMENTWISE, 60 * US));
            }
            // A kernel of another kind ends the chain.
            acts.push(self.kernel_op("aten::layer_norm", "layer_norm_kernel", 30 * US));
        }
        if self.has(CauseKind::TensorCopies) {
            let copy = "void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda>";
            for _ in 0..2 {
                let inner = self.kernel_op("aten::copy_", copy, 80 * US);
                acts.push(op("aten::contiguous", vec![Act::Host(3 * US), inner]));
                acts.push(self.kernel_op("aten::layer_norm", "layer_norm_kernel", 30 * US));
            }
        } else if self.mended(CauseKind::TensorCopies) {
            for _ in 0..2 {
                acts.push(self.kernel_op("aten::layer_norm", "layer_norm_kernel", 30 * US));
            }
        }
        if self.recipe.planted.concerns(CauseKind::SmallKernels) {
            acts.extend(self.small_kernels());
        }
        if self.recipe.planted.concerns(CauseKind::StreamTurns) {
            acts.extend(self.stream_turns());
        }
        if self.has(CauseKind::ProfilerOverhead) {
            acts.push(Act::Overhead(self.random.near(1_200 * US)));
        }
        acts
    }

    /// Makes a convolution; the very first one loads its library.
    fn first_call(&mut self, layer: usize) -> Act {
        let mut inner = vec![Act::Host(10 * US)];
        if self.has(CauseKind::FirstCall) && self.step == 0 && layer == 0 {
            inner.push(Act::Call("cudaFree", 14 * MS));
        }
        inner.push(Act::Launch(work(
            "implicit_convolve_sgemm",
            COMPUTE,
            80 * US,
        )));
        op("aten::cudnn_convolution", inner)
    }

    fn nonzero(&mut self) -> Act {
        let mut inner = vec![
            Act::Host(6 * US),
            Act::Launch(work("cub::DeviceReduceKernel", COMPUTE, 10 * US)),
        ];
        if self.has(CauseKind::DynamicShape) {
            let read = work("Memcpy DtoH (Device -> Pageable)", COMPUTE, 2 * US);
            inner.push(Act::Copy(read, false));
            inner.push(Act::Sync("cudaStreamSynchronize", Some(COMPUTE)));
        }
        inner.push(Act::Host(4 * US));
        inner.push(Act::Launch(work(
            "cub::DeviceSelectSweepKernel",
            COMPUTE,
            15 * US,
        )));
        op("aten::nonzero", inner)
    }

    fn narrow_kernel(&mut self) -> Act {
        let ns = self.random.near(1_200 * US);
        let is_fault = self.has(CauseKind::LowCoverage);
        let (blocks, ns) = if is_fault {
            (12, ns)
        } else {
            (108, ns * 12 / 108)
        };
        let kernel = Work {
            blocks,
            ..work("splitk_reduce_rows", COMPUTE, ns)
        };
        let host = self.random.near(self.shape.host_ns);
        op(
            "aten::sum",
            vec![Act::Host(host), Act::Launch(kernel), Act::Host(US)],
        )
    }

    /// Makes kernels that are shorter than their launches, or the same kernels as one graph.
    fn small_kernels(&mut self) -> Vec<Act> {
        let works: Vec<Work> = (0..60)
            .map(|_| work(SMALL, COMPUTE, self.random.near(3 * US)))
            .collect();
        if self.mended(CauseKind::SmallKernels) {
            return vec![Act::Graph(works)];
        }
        works
            .into_iter()
            .map(|work| {
                let host = self.random.near(12 * US);
                op(
                    "aten::sum",
                    vec![Act::Host(host), Act::Launch(work), Act::Host(2 * US)],
                )
            })
            .collect()
    }

    /// Makes two streams with independent work, which wait for each other or do not.
    fn stream_turns(&mut self) -> Vec<Act> {
        let mut acts = vec![];
        let is_fault = self.has(CauseKind::StreamTurns);
        for _ in 0..2 {
            if is_fault {
                acts.push(Act::Fence(COMPUTE, 14));
            }
            let ns = self.random.near(150 * US);
            let side = work("gatherTopK", 14, ns);
            acts.push(op("aten::topk", vec![Act::Host(8 * US), Act::Launch(side)]));
            if is_fault {
                acts.push(Act::Fence(14, COMPUTE));
            }
            acts.push(self.kernel_op("aten::bmm", "ampere_bf16_bmm_64x64", 160 * US));
        }
        acts
    }

    fn backward_acts(&mut self) -> Vec<Act> {
        let mut acts = vec![];
        let (ranks, layers) = (self.recipe.ranks, self.shape.layers);
        let meeting = Meeting::new("AllReduce", 40 * US);
        let goes_on = self.step + 1 < self.shape.steps;
        let gathers_ahead = self.mended(CauseKind::ExposedCommunication) && goes_on;
        for layer in (0..layers).rev() {
            if layer == 0 && gathers_ahead {
                // For the first layer of the next step.
                acts.push(Act::Meet(Meeting::new("AllGather", 350 * US)));
            }
            if self.has(CauseKind::Recomputation) {
                let again = self.layer_acts(layer);
                let backward = self.backward_layer(layer);
                let mut inner = again;
                inner.push(Act::Host(4 * US));
                inner.extend(backward);
                acts.push(op(
                    "autograd::engine::evaluate_function: CheckpointFunctionBackward",
                    vec![op("CheckpointFunctionBackward", inner)],
                ));
            } else {
                acts.extend(self.backward_layer(layer));
            }
            if ranks > 1 {
                acts.push(Act::Meet(meeting.clone()));
            }
        }
        if ranks > 1 {
            acts.push(Act::Fence(NCCL, COMPUTE));
        }
        acts
    }

    /// Gathers the weights of a layer: just before the layer, or while the previous one computes.
    fn gather_acts(&self, layer: usize) -> Vec<Act> {
        let gather = Act::Meet(Meeting::new("AllGather", 350 * US));
        let wait = Act::Fence(NCCL, COMPUTE);
        if self.has(CauseKind::ExposedCommunication) {
            return vec![gather, wait];
        }
        if !self.mended(CauseKind::ExposedCommunication) {
            return vec![];
        }
        let is_last = layer + 1 == self.shape.layers;
        match (self.step, layer) {
            // Nothing can hide the very first gather.
            (0, 0) => vec![gather.clone(), wait, gather],
            _ if is_last => vec![wait],
            _ => vec![wait, gather],
        }
    }

    fn backward_layer(&mut self, layer: usize) -> Vec<Act> {
        let factor = self.rank_factor(layer);
        let longer = |ns: i64| (ns as f64 * factor) as i64;
        let kernels = [
            (
                "AddmmBackward0",
                "ampere_bf16_s16816gemm_128x128_nn",
                longer(140 * US),
            ),
            ("AttentionBackward0", "flash_bwd_kernel", 160 * US),
            (
                "AddmmBackward0",
                "ampere_bf16_s16816gemm_256x64_nt",
                longer(170 * US),
            ),
            (
                "NativeLayerNormBackward0",
                "layer_norm_grad_kernel",
                45 * US,
            ),
        ];
        let mut acts = vec![];
        for (name, kernel, ns) in kernels {
            let inner = self.kernel_op("aten::mm", kernel, ns);
            acts.push(op(
                &format!("autograd::engine::evaluate_function: {name}"),
                vec![Act::Host(2 * US), op(name, vec![inner])],
            ));
        }
        acts
    }

    fn optimizer_acts(&mut self) -> Vec<Act> {
        let mut inner = vec![Act::Host(20 * US)];
        let small = "void at::native::multi_tensor_apply_kernel<adam>";
        if self.has(CauseKind::OptimizerLaunches) {
            for _ in 0..350 {
                let ns = self.random.near(4 * US);
                inner.push(op(
                    "aten::addcdiv_",
                    vec![
                        Act::Host(14 * US),
                        Act::Launch(work(small, COMPUTE, ns)),
                        Act::Host(2 * US),
                    ],
                ));
            }
        } else {
            let ns = if self.mended(CauseKind::OptimizerLaunches) {
                350 * 4 * US
            } else {
                80 * US
            };
            inner.push(self.kernel_op("aten::_fused_adamw_", small, ns));
        }
        vec![annotation("Optimizer.step#AdamW.step", inner)]
    }

    fn end_acts(&mut self) -> Vec<Act> {
        let mut acts = vec![Act::Host(self.random.near(30 * US))];
        if self.has(CauseKind::HostWork) {
            acts.push(annotation("log_metrics", vec![Act::Host(5 * MS)]));
        }
        if self.recipe.planted.concerns(CauseKind::QueueFull) {
            acts.extend(self.burst());
        }
        acts
    }

    /// Makes more short kernels than a queue holds, then long work for another stream.
    fn burst(&mut self) -> Vec<Act> {
        let mut acts = vec![];
        for _ in 0..1_700 {
            acts.push(Act::Launch(work(SMALL, COMPUTE, 16 * US)));
            acts.push(Act::Host(US));
        }
        acts.push(op(
            "aten::fft",
            vec![
                Act::Launch(work("regular_fft_4096", 14, 20 * MS)),
                Act::Launch(work("regular_fft_8192", 14, 20 * MS)),
            ],
        ));
        acts
    }
}
