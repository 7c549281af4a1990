//! What a device trace holds, in one line: what it can answer, and which option of the recorder
//! adds the rest.

use crate::device::capture::launches_graph;
use crate::ranks::RankSteps;
use crate::recorder_advice::{record_ops, without_device_rows};
use crate::trace::LinkedTrace;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_model::{AnomalyKind, DeviceTrace, TraceRecorder};
use serde::Serialize;

/// Content of a recording, of one trace or summed over several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordingContent {
    /// Number of steps.
    pub steps: u64,
    /// Number of CPU ops, without annotations.
    pub ops: u64,
    /// Number of device rows.
    pub device_rows: u64,
    /// Number of launches whose device rows the recorder lost.
    pub lost_rows: u64,
    /// Number of synchronisation rows.
    pub sync_rows: u64,
    /// Number of graph launches.
    pub graph_launches: u64,
    /// True if a trace of the capture of these graphs was given.
    pub has_capture: bool,
    /// True if ops have the shapes of their inputs.
    pub has_shapes: bool,
    /// True if Python stacks were recorded.
    pub has_stacks: bool,
    /// Number of traces.
    pub ranks: u64,
    /// Number of ranks of the run; null if unknown.
    pub world_size: Option<u64>,
    /// Questions that the recording cannot answer, each with the option that would.
    pub unanswered: Vec<String>,
}

impl RecordingContent {
    /// Returns the content of a trace as it was read. O(ops + calls).
    pub fn of_device(trace: &DeviceTrace) -> RecordingContent {
        let ops = &trace.ops;
        let mut is_launch = vec![None; trace.names.count()];
        let mut launches_graph = |name: &etlink_model::NameId| {
            *is_launch[name.index()].get_or_insert_with(|| launches_graph(trace.names.get(*name)))
        };
        let launches = trace.calls.name.iter();
        let graph_launches = launches.filter(|name| launches_graph(name)).count();
        let has_shapes = |shapes: &etlink_model::NameId| !trace.names.get(*shapes).is_empty();
        let lost = trace.anomalies.count(AnomalyKind::LaunchWithoutRow);
        let content = RecordingContent {
            steps: RankSteps::all_of(trace).len() as u64,
            ops: ops.annotation.iter().filter(|is_range| !**is_range).count() as u64,
            device_rows: trace.rows.len() as u64,
            lost_rows: lost,
            sync_rows: trace.syncs.len() as u64,
            graph_launches: graph_launches as u64,
            has_capture: false,
            has_shapes: ops.shapes.iter().any(has_shapes),
            has_stacks: has_stacks(trace),
            ranks: 1,
            world_size: trace
                .header
                .world_size
                .and_then(|size| size.try_into().ok()),
            unanswered: vec![],
        };
        content.with_unanswered(trace)
    }

    /// Returns the content of a linked trace; its host trace has shapes too.
    pub fn of_trace(trace: &LinkedTrace) -> RecordingContent {
        let content = RecordingContent::of_device(&trace.device);
        let content = RecordingContent {
            lost_rows: trace.report.anomalies.count(AnomalyKind::LaunchWithoutRow),
            has_capture: trace.captured.is_some(),
            has_shapes: content.has_shapes || trace.host.is_some(),
            ..content
        };
        content.with_unanswered(&trace.device)
    }

    /// Sums the contents of the ranks of a run: it has what all of them have.
    pub fn of_ranks<'c>(ranks: impl Iterator<Item = &'c RecordingContent>) -> RecordingContent {
        let all = ranks.cloned().reduce(|mut sum, rank| {
            sum.steps = sum.steps.max(rank.steps);
            sum.ops += rank.ops;
            sum.device_rows += rank.device_rows;
            sum.lost_rows += rank.lost_rows;
            sum.sync_rows += rank.sync_rows;
            sum.graph_launches += rank.graph_launches;
            sum.has_capture &= rank.has_capture;
            sum.has_shapes &= rank.has_shapes;
            sum.has_stacks &= rank.has_stacks;
            sum.ranks += rank.ranks;
            sum.world_size = sum.world_size.max(rank.world_size);
            for question in rank.unanswered {
                if !sum.unanswered.contains(&question) {
                    sum.unanswered.push(question);
                }
            }
            sum
        });
        all.unwrap_or_default()
    }

    fn with_unanswered(self, trace: &DeviceTrace) -> RecordingContent {
        let recorder = trace.header.recorder;
        let ends = [AnomalyKind::Truncated, AnomalyKind::SourceEnded];
        let is_truncated = ends.iter().any(|kind| trace.anomalies.count(*kind) > 0);
        let is_kineto = recorder == TraceRecorder::Kineto;
        let has_ops = self.ops > 0;
        let mut unanswered = vec![];
        let mut lacks = |is_lacking: bool, question: &str, remedy: &str| {
            if is_lacking {
                unanswered.push(format!("{question} ({remedy})"));
            }
        };
        lacks(
            self.device_rows == 0,
            "device time",
            if is_truncated {
                "the end of the file is missing, which may be why: copy it again"
            } else {
                without_device_rows(recorder)
            },
        );
        lacks(!has_ops, "ops", record_ops(recorder));
        if is_kineto {
            lacks(
                self.steps == 0,
                "steps",
                "call the profiler's step(), or --steps-by",
            );
            lacks(
                has_ops && !self.has_shapes,
                "work of ops",
                "record_shapes=True",
            );
            lacks(
                has_ops && !self.has_stacks,
                "lines of Python",
                "with_stack=True",
            );
            let has_syncs = self.sync_rows > 0 || self.device_rows == 0;
            lacks(
                !has_syncs,
                "waits for events",
                "enable_cuda_sync_events=True",
            );
        }
        let lacks_capture = self.graph_launches > 0 && !self.has_capture;
        lacks(
            lacks_capture,
            "ops of graph kernels",
            "a trace of the capture: --capture",
        );
        RecordingContent { unanswered, ..self }
    }

    /// Describes the content in one line.
    pub fn sentence(&self) -> String {
        let count = |count: u64, what: &str| match count {
            0 => format!("no {what}s"),
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let has = |has: bool, what: &str| {
            if has {
                what.to_owned()
            } else {
                format!("no {what}")
            }
        };
        let mut parts = vec![
            count(self.steps, "step"),
            count(self.ops, "op"),
            has(self.has_shapes, "shapes"),
            has(self.has_stacks, "stacks"),
            count(self.device_rows, "device row"),
            count(self.sync_rows, "sync row"),
        ];
        if self.graph_launches > 0 {
            let capture = if self.has_capture { "with" } else { "without" };
            let launches = self.graph_launches;
            parts.push(format!("{launches} graph launches {capture} their capture"));
        }
        if self.lost_rows > 0 {
            parts.push(format!("{} lost", count(self.lost_rows, "row")));
        }
        if let Some(world) = self.world_size.filter(|world| *world > 1) {
            parts.push(format!("{} of {}", self.ranks, count(world, "rank")));
        }
        let mut out = parts.join(", ");
        if !self.unanswered.is_empty() {
            out += &format!("; not recorded: {}", self.unanswered.join(", "));
        }
        out
    }
}

/// Returns true if stacks were recorded. O(kinds of events).
pub fn has_stacks(trace: &DeviceTrace) -> bool {
    // The reader also counts events that it skips.
    let mut recorded = trace.events.keys();
    recorded.any(|kind| kind.ends_with(" python_function"))
}
