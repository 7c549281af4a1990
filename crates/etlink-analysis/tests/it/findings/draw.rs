//! Draws the trace that PyTorch's profiler would have written of a program's run.

use crate::findings::program::{Meeting, RanCall, RanRank, RanRow};
use etlink_testing::{DeviceQueue, GraphKernel, ParamComms, ThreadRef, TraceBuilder};

/// Number of multiprocessors of the device.
pub(crate) const MULTIPROCESSORS: u32 = 108;

/// Draws the device trace of a rank. `sync_rows`: with rows as for `enable_cuda_sync_events`.
pub(crate) fn draw_rank(ran: &RanRank, rank: usize, ranks: usize, sync_rows: bool) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    if ranks > 1 {
        draw.distributed(rank as i64, ranks as i64);
    }
    let main = draw.thread();
    for range in &ran.ranges {
        let (start, end) = range.span;
        match &range.meeting {
            Some((meeting, number)) => {
                let comms = comms(meeting, *number, rank, ranks);
                draw.collective(main, &comms, start, end);
            }
            None if range.annotation => {
                draw.annotation(main, &range.name, start, end);
            }
            None => {
                draw.op(main, &range.name, start, end);
            }
        }
    }
    if let Some((name, (start, end))) = &ran.marked_elsewhere {
        let other = draw.thread();
        draw.annotation(other, name, *start, *end);
    }
    let mut correlations = vec![0; ran.calls.len()];
    for (index, call) in ran.calls.iter().enumerate() {
        correlations[index] = draw_call(&mut draw, main, ran, call, (rank, ranks));
        if sync_rows {
            draw_sync(&mut draw, call, correlations[index], &correlations);
        }
    }
    for (start, end) in &ran.overhead {
        // CUPTI's own work, which Kineto writes on a separate track.
        let (ts, dur) = (*start as f64 / 1e3, (end - start) as f64 / 1e3);
        draw.raw(&format!(
            "{{\"ph\": \"X\", \"cat\": \"overhead\", \"name\": \"Activity Buffer Request\", \
             \"pid\": -1, \"tid\": 0, \"ts\": {ts:.3}, \"dur\": {dur:.3}}}"
        ));
    }
    draw
}

fn comms(meeting: &Meeting, number: usize, rank: usize, ranks: usize) -> ParamComms {
    let spelled = match meeting.name {
        "AllReduce" => "allreduce",
        _ => "_allgather_base",
    };
    ParamComms {
        in_elements: meeting.elements,
        out_elements: meeting.elements,
        ..ParamComms::new(spelled, 0..ranks as u64, rank as i64, number as i64)
    }
}

fn queue(row: &RanRow) -> DeviceQueue {
    DeviceQueue::stream(row.work.stream)
}

fn draw_call(
    draw: &mut TraceBuilder,
    main: ThreadRef,
    ran: &RanRank,
    call: &RanCall,
    (rank, ranks): (usize, usize),
) -> i64 {
    let rows: Vec<&RanRow> = call.rows.iter().map(|row| &ran.rows[*row]).collect();
    if rows.first().is_some_and(|row| row.graph) {
        let kernels: Vec<GraphKernel<'_>> = rows
            .iter()
            .map(|row| {
                let (start, end) = row.span.expect("it ran");
                (queue(row), &row.work.name[..], start, end)
            })
            .collect();
        return draw.graph_launch_of(main, call.span, &kernels);
    }
    let correlation = draw.next_correlation();
    draw.call(main, &call.name, call.span, correlation);
    for row in rows {
        let span = row.span.expect("it ran");
        let name = &row.work.name;
        match &row.meeting {
            Some((meeting, number)) => {
                let comms = comms(meeting, *number, rank, ranks);
                draw.collective_kernel(queue(row), name, span, correlation, &comms);
            }
            None if name.starts_with("Memcpy") => {
                draw.memcpy(queue(row), name, span, correlation, 1 << 20);
            }
            None => {
                let blocks = (row.work.blocks, MULTIPROCESSORS);
                draw.kernel_of_blocks(queue(row), name, span, correlation, blocks);
            }
        }
    }
    correlation
}

/// Draws the synchronization rows that CUPTI writes on request.
fn draw_sync(draw: &mut TraceBuilder, call: &RanCall, correlation: i64, correlations: &[i64]) {
    if let Some((stream, from, record)) = call.fence {
        let at = (call.span.0, call.span.0);
        let wait = Some((from, correlations[record]));
        draw.sync(
            "Stream Wait Event",
            DeviceQueue::stream(stream),
            at,
            correlation,
            wait,
        );
    }
    match call.waits {
        Some(None) => {
            let none = DeviceQueue::stream(-1);
            draw.sync("Context Sync", none, call.span, correlation, None);
        }
        Some(Some(stream)) => {
            debug_assert!(stream >= 0, "copies end their own waits");
            let queue = DeviceQueue::stream(stream);
            draw.sync("Stream Sync", queue, call.span, correlation, None);
        }
        None => {}
    }
}
