//! Kinds of traces that callers want, and the error of another kind.

use crate::error::RunError;
use crate::input::{InputKind, foreign};
use etlink_model::Failure;

/// Kind of file that an option or command wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedTrace {
    /// A host trace.
    Host,
    /// A device trace.
    Device,
    /// A device trace recorded while graphs were captured.
    Capture,
    /// A device trace for the profiler's table.
    Table,
    /// A device trace or a written graph.
    Times,
}

impl WantedTrace {
    /// Creates the error of a file of another kind.
    pub fn refuse(self, name: &str, kind: InputKind) -> RunError {
        let failure = Failure::new(self.problem(name, kind)).of(name);
        failure.advise(self.remedy(name, kind)).into()
    }

    /// Returns the message for a file of another kind.
    fn problem(self, name: &str, kind: InputKind) -> String {
        let is = kind.describe();
        if foreign::remedy(kind).is_some() {
            return format!("{name} is {is}");
        }
        let (option, what, _) = match self.pair() {
            Some(pair) => pair,
            None if self == WantedTrace::Capture => {
                return format!(
                    "{name} is {is}, but --capture needs the Kineto trace recorded during graph \
                     capture"
                );
            }
            None if self.is_graph(name) => {
                return format!("{name} is not a Chakra trace: it does not start like one");
            }
            None => return format!("{name} is {is}"),
        };
        match kind {
            InputKind::NsysReport | InputKind::ParquetTable | InputKind::OtherSqlite => {
                format!("{name} is {is}")
            }
            InputKind::ChakraEt | InputKind::ChakraJson => {
                if self == WantedTrace::Device {
                    format!(
                        "{name} is {is}, which is already linked; a device trace (Kineto) is needed"
                    )
                } else {
                    format!("{name} is {is}, which is already linked; {option} needs a {what}")
                }
            }
            InputKind::FlightRecorder | InputKind::NcclInspector => {
                format!("{name} is {is}; {option} needs a {what}")
            }
            InputKind::Unknown => format!("{name} is not a {what}: it does not start like one"),
            // commands take a device trace with or without an option
            InputKind::HostTrace if self == WantedTrace::Device => {
                format!("{name} is {is}, but a device trace (Kineto) is needed")
            }
            _ => format!("{name} is {is}, but {option} needs a {what}"),
        }
    }

    /// Returns the remedy for a file of another kind.
    fn remedy(self, name: &str, kind: InputKind) -> String {
        if let Some(remedy) = foreign::remedy(kind) {
            return remedy.to_owned();
        }
        if kind == InputKind::NsysReport {
            return format!(
                "export it with `nsys export --type sqlite {name}`, and give the .sqlite file"
            );
        }
        if kind == InputKind::ParquetTable {
            return "export a report of Nsight Systems with `nsys export --type sqlite` instead"
                .to_owned();
        }
        let Some((_, _, other)) = self.pair() else {
            let remedy = match self {
                WantedTrace::Times if kind == InputKind::FlightRecorder => {
                    "give the folder of all dumps to `etlink ranks`, or put it next to the traces"
                }
                WantedTrace::Times if kind == InputKind::NcclInspector => {
                    "give its folder to `etlink ranks`"
                }
                WantedTrace::Times if kind == InputKind::AstraLog => {
                    "give it to `etlink simulated`"
                }
                WantedTrace::Times if kind == InputKind::TextWorkload => {
                    "convert it to graphs with `etlink convert`"
                }
                WantedTrace::Times if kind.is_measurement() => {
                    "give a trace of the same run, and this file as --metrics"
                }
                WantedTrace::Times if self.is_graph(name) => "see `etlink check`",
                WantedTrace::Times => "give a Kineto trace or a Chakra trace (.et)",
                WantedTrace::Table => {
                    "give the Kineto trace, which has the times that the table needs"
                }
                _ => "see `etlink inspect`",
            };
            return remedy.to_owned();
        };
        match kind {
            InputKind::HostTrace
            | InputKind::EtPlus
            | InputKind::KinetoTrace
            | InputKind::NsysSqlite
            | InputKind::XlaSpace
            | InputKind::XlaJson
            | InputKind::RocprofJson
            | InputKind::RocpdSqlite => {
                format!("give that trace, and this one as {other}")
            }
            kind if kind.is_measurement() => {
                "give that trace, and this file as --metrics".to_owned()
            }
            InputKind::ChakraEt | InputKind::ChakraJson => {
                "give one of the traces it was made from".to_owned()
            }
            InputKind::FlightRecorder => {
                "put it next to the traces, or give the folder of all dumps to `etlink ranks`"
                    .to_owned()
            }
            InputKind::NcclInspector => "give its folder to `etlink ranks`".to_owned(),
            _ => "see `etlink inspect`".to_owned(),
        }
    }

    /// Returns the option for one of a rank's two traces, its file type, and the option for the
    /// other trace.
    fn pair(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            WantedTrace::Host => Some(("--host", "PyTorch execution trace", "--device")),
            WantedTrace::Device => Some(("--device", "Kineto trace", "--host")),
            WantedTrace::Capture | WantedTrace::Table | WantedTrace::Times => None,
        }
    }

    /// Returns true if the file is named like a written graph.
    fn is_graph(self, name: &str) -> bool {
        self == WantedTrace::Times && name.ends_with(".et")
    }
}
