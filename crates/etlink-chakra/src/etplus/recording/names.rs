//! Numbers the names in a recording.

use etlink_model::{NameId, Names};

/// Names that the recording uses, numbered in order of first use.
pub(super) struct NameNumbers<'n> {
    names: &'n Names,
    used: Vec<NameId>,
    /// Number of each name in the recording.
    numbers: Vec<u32>,
}

impl<'n> NameNumbers<'n> {
    pub(super) fn new(names: &'n Names) -> Self {
        let mut numbers = NameNumbers {
            names,
            used: vec![],
            numbers: vec![u32::MAX; names.count()],
        };
        // The empty name is number 0 everywhere.
        numbers.number(NameId::EMPTY);
        numbers
    }

    /// Returns the number of a name of the device trace.
    pub(super) fn number(&mut self, name: NameId) -> i64 {
        let Some(number) = self.numbers.get_mut(name.index()) else {
            return 0;
        };
        if *number == u32::MAX {
            *number = u32::try_from(self.used.len()).unwrap_or(0);
            self.used.push(name);
        }
        i64::from(*number)
    }

    pub(super) fn texts(&self) -> Vec<&'n str> {
        let used = self.used.iter();
        used.map(|name| self.names.get(*name)).collect()
    }
}
