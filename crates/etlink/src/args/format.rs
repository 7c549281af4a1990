//! Names of output formats.

use clap::ValueEnum;

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// Chakra protobuf (`.et`), for simulators
    Chakra,
    /// Merged JSON (ET+, `.json`), for chakra_converter and et_replay
    #[value(name = "etplus")]
    EtPlus,
    /// Chrome JSON with flow arrows and the critical path (`.trace.json`), for ui.perfetto.dev
    Chrome,
    /// As `chrome`, in Perfetto's own, much smaller format (`.pftrace`)
    Perfetto,
}

impl From<FormatName> for etlink_run::output::OutputFormat {
    fn from(format: FormatName) -> Self {
        match format {
            FormatName::Chakra => Self::Chakra,
            FormatName::EtPlus => Self::EtPlus,
            FormatName::Chrome => Self::Chrome,
            FormatName::Perfetto => Self::Perfetto,
        }
    }
}
