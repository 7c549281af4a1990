//! Fuzzes logs of NCCL's inspector: damaged ones are read or rejected, and their sums hold.

use super::corpus::mutate_text;
use anyhow::{Result, ensure};
use etlink_analysis::communicators::communicator_report;

/// Damages the logs of two generated ranks and sums them up.
pub(super) fn check_logs(random: &mut fastrand::Rng) -> Result<()> {
    let logs: Vec<_> = (0..2)
        .map(|rank| mutate_text(draw_log(rank).as_bytes(), random))
        .filter_map(|text| etlink_formats::nccl_inspector::read(&text[..]).ok())
        .collect();
    let report = communicator_report(&logs);
    let calls: usize = logs.iter().map(|log| log.calls.len()).sum();
    let times: u64 = report.sizes.iter().map(|size| size.times).sum();
    ensure!(
        times <= calls as u64,
        "{times} collectives of {calls} calls"
    );
    for member in &report.members {
        ensure!(
            member.last <= member.collectives && member.waited_ns <= member.total_ns,
            "rank {} waits longer than it works, or is last too often",
            member.rank
        );
    }
    Ok(())
}

/// Generates collectives of two communicators and some messages.
fn draw_log(rank: i64) -> String {
    let mut text = String::new();
    for number in 0..20 {
        let time = 40 + 7 * number + 13 * rank;
        text += &format!(
            concat!(
                r#"{{"header":{{"id":"0x{}","comm_name":"unknown","rank":{},"n_ranks":2,"#,
                r#""nnodes":1}},"metadata":{{"inspector_output_format_version":"v4.0","#,
                r#""dump_timestamp_us":1748030377748202,"hostname":"a","pid":{}}},"#,
                r#""coll_perf":{{"coll":"AllReduce","coll_sn":{},"coll_msg_size_bytes":8192,"#,
                r#""coll_exec_time_us":{},"coll_timing_source":"kernel_gpu"}}}}"#,
                "\n",
                r#"{{"header":{{"id":"0x9","rank":{},"n_ranks":2,"nnodes":1}},"metadata":{{}},"#,
                r#""p2p_perf":{{"p2p":"Send","p2p_sn":{},"p2p_peer":1,"#,
                r#""p2p_msg_size_bytes":4096,"p2p_exec_time_us":{}}}}}"#,
                "\n"
            ),
            number % 2,
            rank,
            4711 + rank,
            number,
            time,
            rank,
            number,
            time
        );
    }
    text
}
