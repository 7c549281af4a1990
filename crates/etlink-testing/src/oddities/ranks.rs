//! Writes the traces of many ranks that communicate in groups of all and of eight.

use super::device::{DeviceText, OddEvent};
use super::{OddTraces, STEP_US};
use std::fmt::Write;
use std::ops::Range;

/// Ranks per smaller group.
const NEIGHBOURS: usize = 8;
/// Interval of collectives over all ranks, in steps; each of these is as large as the world.
const STEPS_OF_WORLD: usize = 20;

/// Returns the traces of one of `world` ranks.
pub(super) fn draw_rank(events: usize, rank: usize, world: usize) -> OddTraces {
    let steps = (events / 3).max(1);
    let mut text = DeviceText::new(&distributed_info(rank, world), events);
    for step in 0..steps {
        push_collective(&mut text, step, (rank, world));
    }
    OddTraces {
        device: text.finish(),
        host: None,
    }
}

fn distributed_info(rank: usize, world: usize) -> String {
    let mut groups = String::new();
    let _ = write!(groups, "{}", group_info("0", 0..world));
    let neighbours = neighbours(rank, world);
    let name = neighbour_group(&neighbours);
    let _ = write!(groups, ", {}", group_info(&name, neighbours));
    let mut info = String::new();
    let _ = write!(
        info,
        r#""distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {world}, "#
    );
    let _ = write!(info, r#""pg_count": 2, "pg_config": [{groups}]}},"#);
    info
}

fn group_info(name: &str, ranks: Range<usize>) -> String {
    let (size, ranks) = (ranks.len(), list(ranks));
    format!(r#"{{"pg_name": "{name}", "pg_desc": "group", "pg_size": {size}, "ranks": [{ranks}]}}"#)
}

fn neighbours(rank: usize, world: usize) -> Range<usize> {
    // Neighbours as on one machine, which is the layout of tensor-parallel groups.
    let first = rank / NEIGHBOURS * NEIGHBOURS;
    first..(first + NEIGHBOURS).min(world)
}

fn neighbour_group(ranks: &Range<usize>) -> String {
    (1 + ranks.start / NEIGHBOURS).to_string()
}

fn list(ranks: Range<usize>) -> String {
    let ranks: Vec<String> = ranks.map(|rank| rank.to_string()).collect();
    ranks.join(", ")
}

fn push_collective(text: &mut DeviceText, step: usize, (rank, world): (usize, usize)) {
    let (group, ranks) = match step % STEPS_OF_WORLD {
        0 => ("0".to_owned(), 0..world),
        _ => {
            let ranks = neighbours(rank, world);
            (neighbour_group(&ranks), ranks)
        }
    };
    // Few ranks arrive at the same time.
    let begin = step * STEP_US + rank % 3;
    let size = ranks.len();
    let args = format!(
        concat!(
            r#""External id": {}, "Collective name": "allreduce", "dtype": "Float", "#,
            r#""In msg nelems": 8, "Out msg nelems": 8, "Group size": {}, "Seq": {}, "#,
            r#""Process Group Name": "{}", "Process Group Ranks": "[{}]""#
        ),
        step + 1,
        size,
        step,
        group,
        // PyTorch truncates the list after 30 ranks.
        if size <= 30 {
            list(ranks)
        } else {
            String::from("0, 1, ...")
        },
    );
    let track = (1_000 + rank, 5_000 + rank);
    text.push_event(&OddEvent {
        category: "cpu_op",
        name: "record_param_comms",
        track,
        begin,
        length: 4,
        args: &args,
    });
    let correlation = format!(r#""correlation": {}"#, step + 1);
    text.push_event(&OddEvent {
        category: "cuda_runtime",
        name: "cudaLaunchKernel",
        track,
        begin: begin + 1,
        length: 2,
        args: &correlation,
    });
    text.push_event(&OddEvent {
        category: "kernel",
        name: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        track: (0, 7),
        begin: begin + 3,
        // The transfer ends on all ranks at the same time.
        length: 6 - rank % 3,
        args: &format!(r#""device": 0, "context": 1, "stream": 7, {correlation}, {args}"#),
    });
}
