//! Names of output formats.

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error, ValueEnum, error::ErrorKind};
use std::ffi::OsStr;

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
    /// The same in Perfetto's own format (`.pftrace`), much smaller
    Perfetto,
}

/// Names of before, and those of today. `perfetto` was Chrome JSON once; it is a name still.
const OLD_NAMES: [(&str, &str); 3] = [
    ("et", "chakra"),
    ("json", "etplus"),
    ("pftrace", "perfetto"),
];

/// Reads a name; of an old one the new name is given.
#[derive(Clone)]
pub struct FormatParser;

impl TypedValueParser for FormatParser {
    type Value = FormatName;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<FormatName, Error> {
        let renamed = OLD_NAMES.iter().find(|(old, _)| value == *old);
        if let Some((old, new)) = renamed {
            let message = format!("--format {old} is now --format {new}\n");
            return Err(Error::raw(ErrorKind::InvalidValue, message).with_cmd(command));
        }
        EnumValueParser::<FormatName>::new().parse_ref(command, argument, value)
    }

    // clap asks for these to write --help and completions
    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = FormatName::value_variants().iter();
        Some(Box::new(values.filter_map(ValueEnum::to_possible_value)))
    }
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
