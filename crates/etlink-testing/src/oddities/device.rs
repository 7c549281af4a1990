//! Writes the device trace of an odd kind as text.

use super::{Oddity, STEP_US, STEPS_OF_EACH, each};
use std::fmt::Write;

/// Process and thread, or device and stream.
type Track = (usize, usize);

/// An event with a duration; times are in microseconds.
pub(super) struct OddEvent<'e> {
    pub(super) category: &'e str,
    pub(super) name: &'e str,
    pub(super) track: Track,
    pub(super) begin: usize,
    pub(super) length: usize,
    /// Keys and values as JSON.
    pub(super) args: &'e str,
}

/// Text of a device trace under construction.
pub(super) struct DeviceText {
    text: String,
}

impl DeviceText {
    /// Starts a trace. `header` is the text before the events, each line with a trailing comma.
    pub(super) fn new(header: &str, events: usize) -> DeviceText {
        // An event takes about 200 bytes.
        let mut text = String::with_capacity(events * 220 + header.len());
        text.push_str(r#"{"schemaVersion": 1, "deviceProperties": [],"#);
        text.push_str(header);
        text.push_str(r#""traceEvents": ["#);
        DeviceText { text }
    }

    pub(super) fn push_event(&mut self, event: &OddEvent<'_>) {
        let OddEvent {
            category,
            name,
            track: (pid, tid),
            begin,
            length,
            args,
        } = event;
        self.push_comma();
        let _ = write!(
            self.text,
            r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {pid}, "tid": {tid}, "#
        );
        let _ = write!(
            self.text,
            r#""ts": {begin}.000, "dur": {length}.000, "args": {{{args}}}}}"#
        );
    }

    fn push_thread_name(&mut self, (pid, tid): Track) {
        self.push_comma();
        let _ = write!(
            self.text,
            r#"{{"ph": "M", "name": "thread_name", "pid": {pid}, "tid": {tid}, "ts": 0.000, "#
        );
        let _ = write!(
            self.text,
            r#""args": {{"name": "thread {tid} (python)"}}}}"#
        );
        self.push_comma();
        let _ = write!(
            self.text,
            r#"{{"ph": "M", "name": "process_name", "pid": {pid}, "tid": 0, "ts": 0.000, "#
        );
        self.text.push_str(r#""args": {"name": "python"}}"#);
    }

    /// Draws an allocation of 512 bytes on the device.
    fn push_allocation(&mut self, (pid, tid): Track, begin: usize, number: usize) {
        self.push_comma();
        let total = 512 * (number + 1);
        let _ = write!(
            self.text,
            r#"{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "#
        );
        let _ = write!(
            self.text,
            r#""pid": {pid}, "tid": {tid}, "ts": {begin}.000, "#
        );
        let _ = write!(
            self.text,
            r#""args": {{"Bytes": 512, "Addr": {}, "#,
            1_000_000 + total
        );
        let _ = write!(
            self.text,
            r#""Device Type": 1, "Device Id": 0, "Total Allocated": {total}, "#
        );
        let _ = write!(self.text, r#""Total Reserved": {total}}}}}"#);
    }

    fn push_comma(&mut self) {
        let comma = if self.text.ends_with('[') { "" } else { ",\n" };
        self.text.push_str(comma);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.text.push_str("]}");
        self.text.into_bytes()
    }
}

/// Returns a Kineto trace.
pub(super) fn draw_device(oddity: Oddity, steps: usize) -> Vec<u8> {
    let header = match oddity {
        Oddity::ListedGroups => listed_groups(steps),
        _ => String::new(),
    };
    let mut text = DeviceText::new(&header, 4 * steps);
    for number in 0..steps {
        let step = OddStep::new(oddity, number, steps);
        push_frame(&mut text, &step);
        push_op(&mut text, &step);
        match oddity {
            Oddity::GlooGroups => push_gloo(&mut text, &step),
            _ => push_launch(&mut text, &step),
        }
    }
    text.finish()
}

/// Returns a header that lists one group of two ranks per step.
fn listed_groups(steps: usize) -> String {
    let mut info = format!(
        r#""distributedInfo": {{"backend": "nccl", "rank": 0, "world_size": {}, "#,
        steps + 1
    );
    let _ = write!(info, r#""pg_count": {steps}, "pg_config": ["#);
    for group in 0..steps {
        let comma = if group == 0 { "" } else { ", " };
        let _ = write!(
            info,
            r#"{comma}{{"pg_name": "{group}", "pg_size": 2, "ranks": [0, {}]}}"#,
            group + 1
        );
    }
    info.push_str("]},");
    info
}

/// Common data of an op, its launch and its kernel.
struct OddStep {
    oddity: Oddity,
    number: usize,
    steps: usize,
    /// Number of the step's thread, stream, group, …
    each: usize,
    /// Process and thread.
    track: Track,
    begin: usize,
    length: usize,
}

impl OddStep {
    fn new(oddity: Oddity, number: usize, steps: usize) -> OddStep {
        let each = each(number, steps);
        let process = match oddity {
            Oddity::Processes | Oddity::SharedDevice => each,
            _ => 0,
        };
        let thread = oddity.thread(number, steps);
        let (begin, length) = match oddity {
            // Begins 1 µs after the enclosing op and ends 1 µs before that op's end.
            Oddity::Depth => (number, 4 * steps - 2 * number),
            Oddity::Overlaps => (number * STEP_US, steps * STEP_US),
            Oddity::EqualTimes => (0, 6),
            _ => (number * STEP_US, 6),
        };
        OddStep {
            oddity,
            number,
            steps,
            each,
            // Thread ids are unique on a machine, regardless of the process.
            track: (1_000 + process, 5_000 + 100_000 * process + thread),
            begin,
            length,
        }
    }

    /// Returns how often this step's thread, stream, group, … occurred before.
    fn turn(&self) -> usize {
        self.number / (self.steps / STEPS_OF_EACH).max(1)
    }

    fn correlation(&self) -> usize {
        match self.oddity {
            // Each process counts its own ids, so that rows of one device share them.
            Oddity::SharedDevice => 1 + self.turn(),
            Oddity::Correlations => 1,
            _ => 1 + self.number,
        }
    }

    /// Returns device, context and stream of the kernel.
    fn queue(&self) -> (usize, usize, usize) {
        match self.oddity {
            Oddity::Streams | Oddity::Syncs | Oddity::EventWaits => (0, 1, self.each),
            Oddity::Contexts => (0, 1 + self.each, 7),
            Oddity::Devices => (self.each, 1, self.each),
            // Two streams, so that the ordinary trace has more than one queue to distinguish.
            _ => (0, 1, self.number % 2),
        }
    }

    fn op_name(&self) -> String {
        match self.oddity {
            Oddity::EngineThreads => "autograd::engine::evaluate_function: MmBackward0".to_owned(),
            Oddity::Groups | Oddity::ListedGroups | Oddity::GlooGroups => {
                "record_param_comms".to_owned()
            }
            Oddity::Names => format!("aten::op{}", self.number),
            Oddity::StrangeNames => format!("aten::device{}", self.number % 23),
            _ => format!("aten::op{}", self.number % 20),
        }
    }

    fn op_args(&self) -> String {
        // Ids of the host trace begin after the ids of its threads.
        let id = self.number + 1;
        let mut args = format!(r#""External id": {id}"#);
        match self.oddity {
            Oddity::OrdinaryPair | Oddity::Tensors | Oddity::TensorThreads => {
                let _ = write!(args, r#", "Record function id": {id}"#);
            }
            Oddity::Shapes => {
                let _ = write!(
                    args,
                    r#", "Input Dims": [[{id}, 8], [8, 8]], "Input type": ["float", "float"]"#
                );
            }
            Oddity::Sequences => {
                let thread = self.number % 2;
                let _ = write!(args, r#", "Sequence number": 5, "Fwd thread id": {thread}"#);
            }
            Oddity::Groups | Oddity::ListedGroups | Oddity::GlooGroups => {
                let (group, number) = match self.oddity {
                    Oddity::ListedGroups => (self.number, 0),
                    _ => (self.each, self.turn()),
                };
                let _ = write!(
                    args,
                    r#", "Process Group Name": "{group}", "Seq": {number}, "Group size": 2, "#
                );
                args.push_str(r#""Collective name": "allreduce", "dtype": "Float", "#);
                args.push_str(r#""In msg nelems": 8, "Out msg nelems": 8"#);
            }
            _ => {}
        }
        args
    }
}

fn push_op(text: &mut DeviceText, step: &OddStep) {
    let is_new = step.number < step.steps / STEPS_OF_EACH;
    let is_named = matches!(
        step.oddity,
        Oddity::Threads | Oddity::Processes | Oddity::SharedDevice
    );
    if is_new && is_named {
        text.push_thread_name(step.track);
    }
    text.push_event(&OddEvent {
        category: "cpu_op",
        name: &step.op_name(),
        track: step.track,
        begin: step.begin,
        length: step.length,
        args: &step.op_args(),
    });
    if step.oddity == Oddity::Allocations {
        text.push_allocation(step.track, step.begin + 1, step.number);
    }
}

/// Draws the frame of the Python stack, or the annotation, around the op.
fn push_frame(text: &mut DeviceText, step: &OddStep) {
    let number = step.number;
    let own_category = format!("odd{number}");
    let (category, name, length) = match step.oddity {
        Oddity::FrameDepth => {
            let length = STEP_US * (2 * step.steps - 2 * number);
            (
                "python_function",
                format!("train.py({}): step", number % 20),
                length,
            )
        }
        Oddity::FrameNames => (
            "python_function",
            format!("train.py({number}): step{number}"),
            8,
        ),
        Oddity::Annotations => ("user_annotation", format!("part {number}"), 8),
        Oddity::NumberedAnnotations => ("user_annotation", numbered_name(number), 8),
        Oddity::Categories => (&own_category[..], String::from("odd"), 8),
        Oddity::Steps if number.is_multiple_of(STEPS_OF_EACH) => {
            let name = format!("ProfilerStep#{}", number / STEPS_OF_EACH);
            ("user_annotation", name, STEPS_OF_EACH * STEP_US - 1)
        }
        _ => return,
    };
    let args = match category {
        "python_function" => format!(
            r#""Python id": {}, "Python parent id": {number}"#,
            number + 1
        ),
        _ => String::new(),
    };
    text.push_event(&OddEvent {
        category,
        name: &name,
        // All frames nest on one thread.
        track: (1_000, 5_000),
        begin: step.begin,
        length,
        args: &args,
    });
}

/// Returns the annotation of a step: half of them are numbers of one name, and every other name has
/// two.
// That name sorts first, so that every other name is compared with it.
fn numbered_name(step: usize) -> String {
    match step % 2 {
        0 => format!("all {step}"),
        _ => format!("loop{}: {step}", step / 4),
    }
}

/// Draws the Gloo worker that carries out the op's request.
fn push_gloo(text: &mut DeviceText, step: &OddStep) {
    text.push_event(&OddEvent {
        category: "user_annotation",
        name: "gloo:all_reduce",
        track: (step.track.0, 1_000_000 + step.each),
        begin: step.begin + 1,
        length: 3,
        args: "",
    });
}

/// Draws the launch, its kernel, and the calls that wait for it.
fn push_launch(text: &mut DeviceText, step: &OddStep) {
    let (begin, length) = match step.oddity {
        Oddity::Depth => (step.begin, 0),
        Oddity::EqualTimes => (step.begin, step.length),
        _ => (step.begin + 1, 2),
    };
    let correlation = format!(r#""correlation": {}"#, step.correlation());
    let call = OddEvent {
        category: "cuda_runtime",
        name: "cudaLaunchKernel",
        track: step.track,
        begin,
        length,
        args: &correlation,
    };
    text.push_event(&call);
    let (device, context, stream) = step.queue();
    let (begin, length) = match step.oddity {
        Oddity::EqualTimes => (step.begin, 2),
        Oddity::Overlaps => (step.begin + 3, step.length),
        _ => (step.begin + 3, 2),
    };
    let name = match step.oddity {
        Oddity::KernelNames => format!("gemm_{}", step.number),
        _ => String::from("gemm"),
    };
    let args =
        format!(r#""device": {device}, "context": {context}, "stream": {stream}, {correlation}"#);
    text.push_event(&OddEvent {
        category: "kernel",
        name: &name,
        track: (device, stream),
        begin,
        length,
        args: &args,
    });
    let wait_call = |name, begin, length| OddEvent {
        name,
        begin,
        length,
        args: "",
        ..call
    };
    match step.oddity {
        Oddity::Syncs => {
            text.push_event(&wait_call("cudaDeviceSynchronize", step.begin + 6, 3));
        }
        Oddity::EventWaits => {
            text.push_event(&wait_call("cudaEventRecord", step.begin + 4, 1));
            text.push_event(&wait_call("cudaStreamWaitEvent", step.begin + 5, 1));
        }
        _ => {}
    }
}
