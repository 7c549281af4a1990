//! Why a file is no input.

use crate::file_error::FileError;
use crate::text::describe_kind;
use etlink_chakra::read::FileKind;
use etlink_perfetto::PerfettoOrigin;

/// Why a file is no input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// It cannot be opened, read or unpacked.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is a folder.
    #[error("{name} is a folder, not a trace file; to link all ranks in it use `etlink merge`")]
    IsFolder {
        /// The folder.
        name: String,
    },
    /// It has no content.
    #[error("{name} is empty; record the trace again")]
    Empty {
        /// The file.
        name: String,
    },
    /// It is another kind of file.
    #[error("{}", wanted.refuse(name, *kind))]
    WrongKind {
        /// The file.
        name: String,
        /// What it is.
        kind: FileKind,
        /// What it should be.
        wanted: WantedTrace,
    },
    /// It is a view that etlink wrote.
    #[error(
        "{name} is a view that etlink wrote for Perfetto, not a recording; give the trace that it \
         was made from, or the view as .pftrace"
    )]
    View {
        /// The file.
        name: String,
    },
    /// It is a Perfetto trace that cannot be read back.
    #[error("{name} {}", perfetto_reason(*origin))]
    Perfetto {
        /// The file.
        name: String,
        /// Who wrote it.
        origin: PerfettoOrigin,
    },
    /// It is a host trace, which has no times.
    #[error(
        "{name} is a host trace, which has no times: give it as --host beside the device trace of \
         the same rank"
    )]
    HostAlone {
        /// The file.
        name: String,
    },
}

impl InputError {
    /// The file.
    pub(crate) fn file(&self) -> Option<String> {
        match self {
            InputError::File(error) => Some(error.path.display().to_string()),
            InputError::IsFolder { name }
            | InputError::Empty { name }
            | InputError::WrongKind { name, .. }
            | InputError::View { name }
            | InputError::Perfetto { name, .. }
            | InputError::HostAlone { name } => Some(name.clone()),
        }
    }
}

fn perfetto_reason(origin: PerfettoOrigin) -> &'static str {
    match origin {
        PerfettoOrigin::SeveralRanks => {
            "is a timeline of several ranks, whose times are by one clock; give the folder of \
             their traces, or the trace of one rank"
        }
        PerfettoOrigin::Recorded | PerfettoOrigin::OtherLayout => {
            "was written for Perfetto by another version of etlink, without what the recording \
             says of its events; give the trace that it was made from"
        }
        PerfettoOrigin::Foreign => {
            "is a Perfetto trace of another program: it has no correlation ids, streams and launch \
             calls; give the Kineto trace (.json) of PyTorch's profiler"
        }
    }
}

/// What a file should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedTrace {
    /// A host trace.
    Host,
    /// A device trace.
    Device,
    /// The device trace of the time when graphs were captured.
    Capture,
    /// A device trace for the profiler's table.
    Table,
    /// A device trace or a written graph.
    Times,
}

impl WantedTrace {
    /// What to say of a file of another kind.
    fn refuse(self, name: &str, kind: FileKind) -> String {
        let is = describe_kind(kind);
        let (option, what, other) = match self {
            WantedTrace::Host => ("--host", "PyTorch execution trace", "--device"),
            WantedTrace::Device => ("--device", "Kineto trace", "--host"),
            WantedTrace::Capture => {
                return format!(
                    "{name} is {is}, but --capture wants the Kineto trace of the capture of the \
                     graphs; see `etlink inspect`"
                );
            }
            WantedTrace::Times if name.ends_with(".et") => {
                return format!(
                    "{name} is no Chakra trace: it does not begin like one; see `etlink check`"
                );
            }
            WantedTrace::Times => {
                return format!("{name} is {is}; give a Kineto trace or a Chakra trace (.et)");
            }
            WantedTrace::Table => {
                return format!(
                    "{name} is {is}; give the Kineto trace, which has all times that the table \
                     needs"
                );
            }
        };
        match kind {
            FileKind::HostTrace | FileKind::EtPlus | FileKind::KinetoTrace => {
                format!(
                    "{name} is {is}, but {option} wants a {what}; give that, and this one as {other}"
                )
            }
            FileKind::ChakraEt | FileKind::ChakraJson => {
                format!(
                    "{name} is {is}, which is linked already; {option} wants a {what}: give one of \
                     those that it was made from"
                )
            }
            FileKind::Unknown => {
                format!("{name} is no {what}: it does not begin like one; see `etlink inspect`")
            }
        }
    }
}
