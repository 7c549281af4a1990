//! Programs with one mechanism each, which delayed the recorded run, or will delay the changed one.

use MachineInstruction::{DeviceSync, EventSync, Graph, Host, Op, Poll, Record, StreamSync};
use etlink_testing::{MachineChange, MachineInstruction, MachineOptions};

/// A program in which one cause decides, and a change of that cause.
#[derive(Clone, Debug)]
pub(crate) struct Mechanism {
    /// Description of the deciding cause.
    pub(crate) name: &'static str,
    /// Instructions; the last are a kernel and a synchronization of the device.
    pub(crate) program: Vec<MachineInstruction>,
    /// Options of the machine that runs the program.
    pub(crate) options: MachineOptions,
    /// Difference in the second run.
    pub(crate) change: MachineChange,
}

/// Returns all mechanisms, each without and with `cuda_sync` rows.
pub(crate) fn mechanisms() -> Vec<Mechanism> {
    let groups = [
        host_waits(),
        event_waits(),
        streams(),
        graphs(),
        polling(),
        launch_queues(),
        latencies(),
    ];
    let mut all = vec![];
    for mut mechanism in groups.into_iter().flatten() {
        let end = [launch(7, "last", 30), Host(5), DeviceSync];
        mechanism.program.extend(end);
        for sync_rows in [false, true] {
            let mut recorded = mechanism.clone();
            recorded.options.sync_rows = sync_rows;
            all.push(recorded);
        }
    }
    all
}

fn launch(stream: i64, kernel: &'static str, us: i64) -> MachineInstruction {
    let launch = MachineInstruction::Launch { stream, kernel, us };
    Op("aten::op", vec![Host(2), launch, Host(1)])
}

fn record(event: u32, stream: i64) -> MachineInstruction {
    Record { event, stream }
}

fn wait(stream: i64, event: u32) -> MachineInstruction {
    MachineInstruction::StreamWait { stream, event }
}

/// Creates a mechanism whose kernel `A` takes `factor` times as long.
fn grown(name: &'static str, program: Vec<MachineInstruction>, factor: f64) -> Mechanism {
    Mechanism {
        name,
        program,
        options: MachineOptions::default(),
        change: MachineChange::Kernel("A", factor),
    }
}

fn host_waits() -> Vec<Mechanism> {
    let sync = |us, wait: MachineInstruction| vec![launch(7, "A", us), Host(60), wait, Host(50)];
    let event = |us| {
        let before = [launch(7, "A", us), record(1, 7), Host(60), EventSync(1)];
        [&before[..], &[Host(50)]].concat()
    };
    let other = vec![
        launch(20, "A", 5),
        launch(7, "B", 5),
        Host(60),
        StreamSync(20),
        Host(50),
    ];
    // Each step pays the time that a call takes to return after the device is done.
    let steps = (0..40).map(|_| vec![launch(7, "A", 60), StreamSync(7)]);
    let returns = Mechanism {
        change: MachineChange::Host(4.0),
        ..grown(
            "returns of synchronisations",
            steps.flatten().collect(),
            1.0,
        )
    };
    vec![
        returns,
        grown("stream sync that delays", sync(200, StreamSync(7)), 3.0),
        grown("stream sync that did not", sync(5, StreamSync(7)), 40.0),
        grown("device sync that did not", sync(5, DeviceSync), 40.0),
        grown("event sync that delays", event(200), 3.0),
        grown("event sync that did not", event(5), 40.0),
        grown("sync of another stream, did not", other, 40.0),
    ]
}

fn event_waits() -> Vec<Mechanism> {
    let in_op = |us, pause| {
        let body = vec![record(1, 7), wait(20, 1), launch(20, "B", 150)];
        vec![
            launch(7, "A", us),
            Host(pause),
            Op("c10d::allreduce_", body),
        ]
    };
    let in_user_code = |us, pause| {
        let before = [launch(20, "A", us), launch(7, "B", 10), Host(pause)];
        let after = [record(1, 20), wait(7, 1), Host(2), launch(7, "C", 150)];
        [&before[..], &after].concat()
    };
    vec![
        grown("event wait in an op, delays", in_op(200, 1), 3.0),
        grown("event wait in an op, did not", in_op(5, 60), 60.0),
        grown(
            "event wait of user code, delays",
            in_user_code(200, 10),
            3.0,
        ),
        grown(
            "event wait of user code, did not",
            in_user_code(5, 60),
            60.0,
        ),
    ]
}

fn streams() -> Vec<Mechanism> {
    let order = vec![launch(7, "A", 50), launch(7, "B", 50)];
    let slack = vec![launch(7, "A", 5), Host(60), launch(7, "B", 50)];
    let blocked = vec![launch(13, "A", 200), launch(7, "B", 20)];
    let legacy = MachineOptions {
        legacy: true,
        ..MachineOptions::default()
    };
    vec![
        grown("stream order", order, 3.0),
        grown("stream order that did not delay", slack, 60.0),
        Mechanism {
            options: legacy,
            ..grown("legacy default stream", blocked, 3.0)
        },
    ]
}

fn graphs() -> Vec<Mechanism> {
    let branches = |side: i64, main: i64| {
        let rows = vec![
            (7, "root", 20, vec![]),
            (13, "A", side, vec![0]),
            (7, "B", main, vec![0]),
            (7, "join", 40, vec![1, 2]),
        ];
        vec![
            Op("replay", vec![Host(2), Graph(rows)]),
            Host(5),
            DeviceSync,
        ]
    };
    vec![
        grown("branch that did not delay", branches(20, 60), 8.0),
        grown("branch that delays grows", branches(150, 20), 3.0),
        grown("branch that delays shrinks", branches(150, 20), 0.2),
    ]
}

fn polling() -> Vec<Mechanism> {
    let poll = |us| {
        vec![
            launch(7, "A", us),
            record(1, 7),
            Poll(1),
            Host(50),
            launch(7, "B", 20),
        ]
    };
    vec![
        grown("polled kernel shrinks", poll(300), 0.3),
        grown("polled kernel grows", poll(100), 3.0),
    ]
}

fn launch_queues() -> Vec<Mechanism> {
    let holding = |depth| MachineOptions {
        depth: Some(depth),
        ..MachineOptions::default()
    };
    let program: Vec<MachineInstruction> = (0..300).map(|_| launch(7, "A", 20)).collect();
    // Waiting calls take less than twice as long as calls that find room.
    let short = (0..400).map(|at| launch(7, "A", [7, 8, 9][at % 3]));
    let short: Vec<MachineInstruction> = short.collect();
    // Few calls are delayed, each by a kernel of a different length.
    let mut few: Vec<MachineInstruction> = (0..36).map(|at| launch(7, "A", 90 + 7 * at)).collect();
    few.push(launch(7, "A", 20));
    let slow = |name, program| Mechanism {
        change: MachineChange::Host(1.5),
        ..grown(name, program, 1.0)
    };
    let all = [
        (
            64,
            grown("full queue, kernels quicker", program.clone(), 0.25),
        ),
        (64, slow("full queue, host slower", program)),
        (
            32,
            grown("full queue, short kernels quicker", short.clone(), 0.25),
        ),
        (32, slow("full queue, short kernels, host slower", short)),
        (32, grown("full queue for few calls", few, 0.1)),
    ];
    let mut mechanisms = vec![];
    for (depth, mechanism) in all {
        for depth_varies in [0, 4] {
            let mut held_up = mechanism.clone();
            held_up.options = MachineOptions {
                depth_varies,
                ..holding(depth)
            };
            mechanisms.push(held_up);
        }
    }
    mechanisms
}

/// Returns mechanisms in which a cause other than the recorded one decides, with a latency of its
/// own.
fn latencies() -> Vec<Mechanism> {
    let program = |us| {
        let steps = (0..100).map(|_| vec![launch(7, "A", us), Host(8)]);
        steps.flatten().collect::<Vec<_>>()
    };
    vec![
        grown("kernels grow past launches", program(3), 10.0),
        Mechanism {
            change: MachineChange::Host(0.2),
            ..grown("host quicker", program(5), 1.0)
        },
    ]
}
