//! Random programs: the graph must always be acyclic and forward, contain every row, and lose no
//! time.

use crate::support::{both, checked, device};
use etlink_link::LinkOptions;
use etlink_testing::{DeviceQueue, KinetoFlavour, TraceBuilder};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Drawn {
    thread: usize,
    start: i64,
    length: i64,
    kind: u8,
    stream: i64,
    latency: i64,
    work: i64,
    id: i64,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let host = (0usize..3, 0i64..200_000, 0i64..60_000, 0u8..9);
    let row = (0i64..3, -5_000i64..40_000, 0i64..30_000, 0i64..12);
    (host, row).prop_map(
        |((thread, start, length, kind), (stream, latency, work, id))| Drawn {
            thread,
            start,
            length,
            kind,
            stream,
            latency,
            work,
            id,
        },
    )
}

fn program(flavour: KinetoFlavour, all: &[Drawn]) -> TraceBuilder {
    let mut draw = TraceBuilder::new(flavour);
    let threads: Vec<_> = (0..3).map(|_| draw.thread()).collect();
    for Drawn {
        thread,
        start,
        length,
        kind,
        stream,
        latency,
        work,
        id,
    } in all.iter().cloned()
    {
        let (thread, end, begins) = (threads[thread], start + length, start + latency);
        let queue = DeviceQueue::stream(stream);
        match kind {
            0 | 1 => drop(draw.op(thread, ["aten::mm", "aten::t"][kind as usize], start, end)),
            2 => drop(draw.annotation(thread, "range", start, end)),
            3 => drop(draw.launch(thread, (start, end), queue, "k", (begins, begins + work))),
            4 => drop(draw.graph_launch(
                thread,
                (start, end),
                &[
                    (queue, begins, begins + work),
                    (queue, begins + work, begins + 2 * work),
                ],
            )),
            6 => {
                let copy = draw.next_correlation();
                draw.call(thread, "cudaMemcpyAsync", (start, end), copy);
                draw.memcpy(
                    queue,
                    "Memcpy DtoH (Device -> Pageable)",
                    (begins, begins + work),
                    copy,
                    4,
                );
            }
            7 => draw.call(
                thread,
                [
                    "cudaStreamSynchronize",
                    "cudaDeviceSynchronize",
                    "cudaEventSynchronize",
                ][stream as usize],
                (start, end),
                id,
            ),
            8 => {
                let op = draw.op(thread, "aten::mm", start, end);
                draw.sequence(op, id / 2, (id % 2) as u32);
            }
            _ => draw.kernel(
                queue,
                "lost",
                (begins, begins + work),
                (id > 3).then_some(id),
            ),
        }
    }
    draw
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(400)
    })]

    #[test]
    fn from_the_device_trace_alone(all in prop::collection::vec(drawn(), 1..60)) {
        for flavour in [
            KinetoFlavour::Cuda,
            KinetoFlavour::Rocm,
            KinetoFlavour::Cuda2021,
        ] {
            checked(
                etlink_link::link(
                    None,
                    device(&program(flavour, &all)),
                    LinkOptions::default(),
                )
                .expect("links"),
            );
        }
    }

    #[test]
    fn from_both_traces(all in prop::collection::vec(drawn(), 1..60)) {
        let mut draw = program(KinetoFlavour::Cuda, &all);
        let main = draw.thread();
        draw.op(main, "aten::add", 0, 10_000);
        let trace = both(&draw);
        prop_assert_eq!(
            trace.report.matched.values().sum::<u64>(),
            trace.report.cpu_ops
        );
    }
}
