//! Errors of opening an input.

use crate::file_error::FileError;
use crate::input::InputKind;
use crate::missing_feature::MissingFeature;
use etlink_model::advice;
use etlink_perfetto::PerfettoOrigin;
use std::io;

/// Error of a file that is not a valid input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The file cannot be opened, read or unpacked.
    #[error(transparent)]
    File(#[from] FileError),
    /// The input is a folder.
    #[error("{name} is a folder, not a trace file{}", advice(self.remedy()))]
    IsFolder {
        /// Path of the folder.
        name: String,
    },
    /// The input is a folder of Nsight Systems tables.
    #[error(
        "{name} has tables exported by Nsight Systems, which etlink does not read{}",
        advice(self.remedy())
    )]
    NsysTables {
        /// Path of the folder.
        name: String,
    },
    /// The file is empty.
    #[error("{name} is empty{}", advice(self.remedy()))]
    Empty {
        /// Name of the file.
        name: String,
    },
    /// The file is of another kind than the wanted one.
    #[error("{}{}", wanted.refuse(name, *kind), wanted.advice(name, *kind))]
    WrongKind {
        /// Name of the file.
        name: String,
        /// Detected kind.
        kind: InputKind,
        /// Wanted kind.
        wanted: WantedTrace,
    },
    /// The file is a view that etlink wrote.
    #[error(
        "{name} is a view that etlink wrote for Perfetto, not a recording{}",
        advice(self.remedy())
    )]
    View {
        /// Name of the file.
        name: String,
    },
    /// The file is a Perfetto trace that cannot be converted back to a recording.
    #[error("{name} {}{}", perfetto_reason(*origin), advice(self.remedy()))]
    Perfetto {
        /// Name of the file.
        name: String,
        /// Writer of the trace.
        origin: PerfettoOrigin,
    },
    /// This build has no reader for the file.
    #[error("{name}: {missing}")]
    MissingFeature {
        /// Name of the file.
        name: String,
        /// Missing feature of the reader.
        missing: MissingFeature,
    },
    /// The file is a host trace, which has no times.
    #[error(
        "{name} is a host trace, which has no times; {}",
        self.remedy().unwrap_or_default()
    )]
    HostAlone {
        /// Name of the file.
        name: String,
    },
}

impl InputError {
    /// Returns the remedy.
    pub fn remedy(&self) -> Option<String> {
        let remedy = match self {
            InputError::File(_) => return None,
            InputError::IsFolder { .. } => "use `etlink merge` to link all ranks in a folder",
            InputError::NsysTables { .. } => {
                "export the report with `nsys export --type sqlite`, and give the .sqlite file"
            }
            InputError::MissingFeature { missing, .. } => return Some(missing.remedy()),
            InputError::Empty { .. } => "record the trace again",
            InputError::WrongKind { name, kind, wanted } => return wanted.remedy(name, *kind),
            InputError::View { .. } => {
                "give the trace it was made from, or a .pftrace view of a Kineto trace"
            }
            InputError::Perfetto { origin, .. } => perfetto_remedy(*origin),
            InputError::HostAlone { .. } => {
                "give it as --host together with the device trace of the same rank"
            }
        };
        Some(remedy.to_owned())
    }

    /// Returns the failed system call; `None` if the file is empty, damaged or of the wrong kind.
    pub(crate) fn into_failed_call(self) -> Option<FileError> {
        match self {
            InputError::File(error) if is_failed_call(&error.source) => Some(error),
            _ => None,
        }
    }

    /// Returns the name of the file or folder.
    pub(crate) fn file(&self) -> Option<String> {
        match self {
            InputError::File(error) => Some(error.path.display().to_string()),
            InputError::IsFolder { name }
            | InputError::NsysTables { name }
            | InputError::Empty { name }
            | InputError::MissingFeature { name, .. }
            | InputError::WrongKind { name, .. }
            | InputError::View { name }
            | InputError::Perfetto { name, .. }
            | InputError::HostAlone { name } => Some(name.clone()),
        }
    }
}

/// Returns true if the system refused a call, of etlink or of SQLite.
fn is_failed_call(error: &io::Error) -> bool {
    let inner = error.get_ref();
    error.raw_os_error().is_some() || inner.is_some_and(is_sqlite_failure)
}

/// Returns true if SQLite reported an error, because the system refused its call.
#[cfg(feature = "sqlite")]
fn is_sqlite_failure(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.is::<etlink_sqlite::Error>()
}

/// Returns false: a build without databases never calls SQLite.
#[cfg(not(feature = "sqlite"))]
fn is_sqlite_failure(_: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    false
}

fn perfetto_reason(origin: PerfettoOrigin) -> &'static str {
    match origin {
        PerfettoOrigin::SeveralRanks => {
            "is a timeline of several ranks on one common clock, which cannot be read back"
        }
        PerfettoOrigin::ViewAlone => {
            "is a view that etlink wrote for Perfetto, from a replay or a recording other than a \
             Kineto trace, so it cannot be read back"
        }
        PerfettoOrigin::Recorded | PerfettoOrigin::OtherLayout => {
            "was written for Perfetto by another version of etlink, without the recorded details \
             of its events"
        }
        PerfettoOrigin::Foreign | PerfettoOrigin::Torch => {
            "is a Perfetto trace of another program: it has no correlation ids, streams or launch \
             calls"
        }
    }
}

fn perfetto_remedy(origin: PerfettoOrigin) -> &'static str {
    match origin {
        PerfettoOrigin::SeveralRanks => "give the folder of their traces, or the trace of one rank",
        PerfettoOrigin::Recorded | PerfettoOrigin::OtherLayout | PerfettoOrigin::ViewAlone => {
            "give the trace it was made from"
        }
        PerfettoOrigin::Foreign | PerfettoOrigin::Torch => {
            "give the Kineto trace (.json) of PyTorch's profiler"
        }
    }
}

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
    /// Returns the message for a file of another kind.
    fn refuse(self, name: &str, kind: InputKind) -> String {
        let is = kind.describe();
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

    /// Returns the remedy as the end of the message.
    fn advice(self, name: &str, kind: InputKind) -> String {
        let is_linked = matches!(kind, InputKind::ChakraEt | InputKind::ChakraJson);
        let remedy = self.remedy(name, kind);
        if self.pair().is_some() && is_linked {
            return format!("; {}", remedy.unwrap_or_default());
        }
        advice(remedy)
    }

    /// Returns the remedy for a file of another kind.
    fn remedy(self, name: &str, kind: InputKind) -> Option<String> {
        if kind == InputKind::NsysReport {
            return Some(format!(
                "export it with `nsys export --type sqlite {name}`, and give the .sqlite file"
            ));
        }
        if kind == InputKind::ParquetTable {
            return Some(
                "export a report of Nsight Systems with `nsys export --type sqlite` instead".into(),
            );
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
            return Some(remedy.to_owned());
        };
        Some(match kind {
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
        })
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
