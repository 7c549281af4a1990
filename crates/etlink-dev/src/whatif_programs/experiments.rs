//! Programs that are recorded unchanged and changed.

/// Durations of a program's parts, ms. `WORK_1` is for rank 1 alone.
pub(super) type Parts = &'static [(&'static str, f64)];

/// A what-if question about the unchanged program.
#[derive(Clone, Copy)]
pub(super) enum Question {
    /// Scales the duration of an op, on all ranks or on one.
    Scale {
        op: &'static str,
        factor: f64,
        rank: Option<u32>,
    },
    /// `--what-if straggler=RANK`, with the op and factor that it should be equivalent to.
    Straggler {
        rank: u32,
        op: &'static str,
        factor: f64,
    },
}

impl Question {
    /// Returns the arguments for `etlink replay`.
    pub(super) fn arguments(self) -> [String; 2] {
        match self {
            Question::Scale { op, factor, rank } => {
                let rank = rank.map_or(String::new(), |rank| format!("rank={rank}/"));
                ["--scale".to_owned(), format!("{rank}{op}={factor}")]
            }
            Question::Straggler { rank, .. } => {
                ["--what-if".to_owned(), format!("straggler={rank}")]
            }
        }
    }

    /// Returns the input of naive predictors: the changed op, its factor and its rank.
    pub(super) fn changed_op(self) -> (&'static str, f64, Option<u32>) {
        match self {
            Question::Scale { op, factor, rank } => (op, factor, rank),
            Question::Straggler { rank, op, factor } => (op, factor, Some(rank)),
        }
    }
}

/// A program and a change to it.
pub(super) struct Experiment {
    pub(super) name: &'static str,
    /// Function in `recipes/whatif/program.py`.
    pub(super) way: &'static str,
    /// Number of processes.
    pub(super) ranks: u32,
    pub(super) before: Parts,
    pub(super) after: Parts,
    pub(super) question: Question,
}

const fn experiment(
    name: &'static str,
    way: &'static str,
    (before, after): (Parts, Parts),
    (op, factor): (&'static str, f64),
) -> Experiment {
    Experiment {
        name,
        way,
        ranks: 1,
        before,
        after,
        question: Question::Scale {
            op,
            factor,
            rank: None,
        },
    }
}

const fn ranks_experiment(
    name: &'static str,
    way: &'static str,
    (before, after): (Parts, Parts),
    question: Question,
) -> Experiment {
    Experiment {
        name,
        way,
        ranks: 2,
        before,
        after,
        question,
    }
}

/// Returns a change on rank 1 alone.
const fn of_rank_1(op: &'static str, factor: f64) -> Question {
    Question::Scale {
        op,
        factor,
        rank: Some(1),
    }
}

const FETCH: &str = "etlink::DataLoader.fetch";

#[rustfmt::skip]
pub(super) const EXPERIMENTS: [Experiment; 21] = [
    experiment("forward op x3", "ops",
        (&[("FORWARD", 80.0), ("SECOND", 80.0)], &[("FORWARD", 240.0), ("SECOND", 80.0)]),
        ("First", 3.0)),
    experiment("backward op x4", "ops",
        (&[("BACKWARD", 50.0), ("SECOND", 80.0)], &[("BACKWARD", 200.0), ("SECOND", 80.0)]),
        ("FirstBackward", 4.0)),
    experiment("hook that sleeps x3", "hooked",
        (&[("HOOK", 60.0), ("WORK", 80.0)], &[("HOOK", 180.0), ("WORK", 80.0)]),
        ("hook", 3.0)),
    experiment("hidden producer x4 becomes bound", "producer",
        (&[("MAKE", 80.0), ("USE", 160.0)], &[("MAKE", 320.0), ("USE", 160.0)]),
        ("Make", 4.0)),
    experiment("bound producer x1/3", "producer",
        (&[("MAKE", 240.0), ("USE", 80.0)], &[("MAKE", 80.0), ("USE", 80.0)]),
        ("Make", 1.0 / 3.0)),
    experiment("consumer x2.5 behind a bound producer", "producer",
        (&[("MAKE", 240.0), ("USE", 80.0)], &[("MAKE", 240.0), ("USE", 200.0)]),
        ("Use", 2.5)),
    experiment("hidden future x4", "future",
        (&[("ASIDE", 80.0), ("OWN", 160.0)], &[("ASIDE", 320.0), ("OWN", 160.0)]),
        ("Aside", 4.0)),
    experiment("exposed future x1/4", "future",
        (&[("ASIDE", 320.0), ("OWN", 160.0)], &[("ASIDE", 80.0), ("OWN", 160.0)]),
        ("Aside", 0.25)),
    experiment("lock of two threads, held x2", "lock",
        (&[("LOCKED", 80.0), ("FREE", 80.0)], &[("LOCKED", 160.0), ("FREE", 80.0)]),
        ("Locked", 2.0)),
    experiment("use x2.5 behind a bound loader", "loader",
        (&[("FETCH", 400.0), ("USE", 60.0)], &[("FETCH", 400.0), ("USE", 150.0)]),
        ("Use", 2.5)),
    experiment("hidden loader x4 becomes bound", "loader",
        (&[("FETCH", 160.0), ("USE", 160.0)], &[("FETCH", 640.0), ("USE", 160.0)]),
        (FETCH, 4.0)),
    experiment("bound loader x1/4", "loader",
        (&[("FETCH", 640.0), ("USE", 160.0)], &[("FETCH", 160.0), ("USE", 160.0)]),
        (FETCH, 0.25)),
    experiment("middle stage of a pipeline x3", "stages",
        (&[("FIRST", 120.0), ("SECOND", 80.0), ("LAST", 120.0)],
         &[("FIRST", 120.0), ("SECOND", 240.0), ("LAST", 120.0)]),
        ("Second", 3.0)),
    experiment("bound stage of a pipeline x1/3", "stages",
        (&[("FIRST", 300.0), ("SECOND", 80.0), ("LAST", 120.0)],
         &[("FIRST", 100.0), ("SECOND", 80.0), ("LAST", 120.0)]),
        ("First", 1.0 / 3.0)),
    experiment("last stage x2 behind a bound one", "stages",
        (&[("FIRST", 240.0), ("SECOND", 80.0), ("LAST", 80.0)],
         &[("FIRST", 240.0), ("SECOND", 80.0), ("LAST", 160.0)]),
        ("Last", 2.0)),
    ranks_experiment("DDP: forward of a rank x3", "ddp",
        (&[("FORWARD", 100.0), ("BACKWARD", 50.0), ("MORE", 50.0)],
         &[("FORWARD", 100.0), ("FORWARD_1", 300.0), ("BACKWARD", 50.0), ("MORE", 50.0)]),
        of_rank_1("Work", 3.0)),
    ranks_experiment("DDP: slow rank x1/3", "ddp",
        (&[("FORWARD", 100.0), ("FORWARD_1", 300.0), ("BACKWARD", 50.0), ("MORE", 50.0)],
         &[("FORWARD", 100.0), ("BACKWARD", 50.0), ("MORE", 50.0)]),
        of_rank_1("Work", 1.0 / 3.0)),
    ranks_experiment("DDP: slow rank as the other, by name", "ddp",
        (&[("FORWARD", 100.0), ("FORWARD_1", 300.0), ("BACKWARD", 50.0), ("MORE", 50.0)],
         &[("FORWARD", 100.0), ("BACKWARD", 50.0), ("MORE", 50.0)]),
        Question::Straggler { rank: 1, op: "Work", factor: 1.0 / 3.0 }),
    ranks_experiment("DDP: backward of a rank x3", "ddp",
        (&[("FORWARD", 100.0), ("BACKWARD", 50.0), ("MORE", 50.0)],
         &[("FORWARD", 100.0), ("BACKWARD", 50.0), ("BACKWARD_1", 150.0), ("MORE", 50.0)]),
        of_rank_1("WorkBackward", 3.0)),
    ranks_experiment("tensor parallel: op of a rank x3", "tensor_parallel",
        (&[("FORWARD", 100.0), ("SECOND", 100.0)],
         &[("FORWARD", 100.0), ("FORWARD_1", 300.0), ("SECOND", 100.0)]),
        of_rank_1("Work", 3.0)),
    ranks_experiment("stages on two ranks: the second x3", "pipeline",
        (&[("FORWARD", 60.0)], &[("FORWARD", 60.0), ("FORWARD_1", 180.0)]),
        of_rank_1("Work", 3.0)),
];
