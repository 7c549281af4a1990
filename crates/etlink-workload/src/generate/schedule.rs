//! Order of a pipeline stage's work.
//!
//! With F, B and W for the forward pass, the gradients of inputs and those of weights of a whole
//! stage, m micro-batches and p stages, and messages that take no time, a step takes
//!
//! | schedule | time | source |
//! |---|---|---|
//! | GPipe, 1F1B | (m + p - 1)(F + B + W) | Huang et al. 2018; Narayanan et al. 2019 |
//! | 1F1B, interleaved over v chunks | (m + (p - 1) / v)(F + B + W) | Narayanan et al. 2021 |
//! | zero bubble (ZB-H1), m at least p | m (F + B + W) + (p - 1)(F + B - W) | Qi et al. 2023 |

/// Order in which the stages of a pipeline work on micro-batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PipelineSchedule {
    /// All micro-batches forward, then all backward.
    #[default]
    GPipe,
    /// One forward, one backward; with several chunks per stage, interleaved.
    OneFOneB,
    /// One forward, one backward, with the gradients of weights in what would be idle time.
    ZeroBubble,
}

/// Kind of work on a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Forward,
    /// Gradients of inputs and weights.
    Backward,
    InputGradients,
    WeightGradients,
}

impl Pass {
    /// Returns the ratio of its work to that of a forward pass.
    pub(super) fn times(self) -> u128 {
        if self == Pass::Backward { 2 } else { 1 }
    }

    pub(super) fn has_weight_gradients(self) -> bool {
        matches!(self, Pass::Backward | Pass::WeightGradients)
    }
}

/// Work of a stage on a micro-batch in one of its chunks of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) pass: Pass,
    pub(super) chunk: u32,
    pub(super) batch: u32,
}

impl PipelineSchedule {
    /// Returns the tasks of stage `stage` of `stages`, which holds `chunks` chunks of layers.
    pub(super) fn tasks(self, stage: u32, stages: u32, chunks: u32, batches: u32) -> Vec<Task> {
        let all = batches * chunks;
        // Of each chunk, as many micro-batches as there are stages, then the same of the next one.
        let task = |pass: Pass, at: u32| {
            let turn = at / stages % chunks;
            let chunk = match pass {
                _ if chunks == 1 => 0,
                Pass::Forward => turn,
                _ => chunks - 1 - turn,
            };
            let batch = match chunks {
                1 => at,
                _ => at / (stages * chunks) * stages + at % stages,
            };
            Task { pass, chunk, batch }
        };
        let ahead = match self {
            PipelineSchedule::GPipe => all,
            _ if chunks > 1 => 2 * (stages - stage - 1) + (chunks - 1) * stages,
            _ => stages - stage - 1,
        };
        let is_split = self == PipelineSchedule::ZeroBubble;
        let backward = if is_split {
            Pass::InputGradients
        } else {
            Pass::Backward
        };
        let ahead = ahead.min(all);
        let mut tasks: Vec<Task> = (0..ahead).map(|at| task(Pass::Forward, at)).collect();
        for at in 0..all {
            if ahead + at < all {
                tasks.push(task(Pass::Forward, ahead + at));
            }
            tasks.push(task(backward, at));
            // Stage s has s gradients of weights left for the time in which it would be idle.
            if is_split && at >= stage {
                tasks.push(task(Pass::WeightGradients, at - stage));
            }
        }
        if is_split {
            let rest = all.saturating_sub(stage)..all;
            tasks.extend(rest.map(|at| task(Pass::WeightGradients, at)));
        }
        tasks
    }
}
