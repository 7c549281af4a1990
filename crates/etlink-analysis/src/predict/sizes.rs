//! Sizes that a prediction changes, and how they are asked for.

use std::fmt;
use std::str::FromStr;

/// Role of a size in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SizeRole {
    /// Number of samples in a step: the first dimension of the input.
    Batch,
    /// Number of tokens in a sample.
    Sequence,
    /// Number of features of a layer; heads and inner layers grow with it.
    Width,
    /// Number of equal blocks.
    Layers,
}

impl SizeRole {
    const ALL: [SizeRole; 4] = [
        SizeRole::Batch,
        SizeRole::Sequence,
        SizeRole::Width,
        SizeRole::Layers,
    ];

    /// Name of the role, as typed.
    pub fn name(self) -> &'static str {
        match self {
            SizeRole::Batch => "batch",
            SizeRole::Sequence => "seq",
            SizeRole::Width => "width",
            SizeRole::Layers => "layers",
        }
    }
}

/// A size in the recorded and in the predicted run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Size in the recorded run.
    pub old: u64,
    /// Size in the predicted run.
    pub new: u64,
}

/// Sizes by role; `None` for roles that the program does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Samples in a step.
    pub batch: Option<Size>,
    /// Tokens in a sample.
    pub sequence: Option<Size>,
    /// Features of a layer; `None` unless it changes.
    pub width: Option<Size>,
    /// Equal blocks; `None` unless their number changes.
    pub layers: Option<Size>,
}

impl Sizes {
    pub(crate) fn of(&self, role: SizeRole) -> Option<Size> {
        match role {
            SizeRole::Batch => self.batch,
            SizeRole::Sequence => self.sequence,
            SizeRole::Width => self.width,
            SizeRole::Layers => self.layers,
        }
    }

    pub(crate) fn of_mut(&mut self, role: SizeRole) -> &mut Option<Size> {
        match role {
            SizeRole::Batch => &mut self.batch,
            SizeRole::Sequence => &mut self.sequence,
            SizeRole::Width => &mut self.width,
            SizeRole::Layers => &mut self.layers,
        }
    }

    /// Returns the sizes that change.
    pub fn changes(&self) -> impl Iterator<Item = (SizeRole, Size)> {
        let sizes = SizeRole::ALL.map(|role| (role, self.of(role)));
        sizes.into_iter().filter_map(|(role, size)| {
            let size = size.filter(|size| size.old != size.new)?;
            Some((role, size))
        })
    }

    pub(crate) fn old(&self, role: SizeRole) -> Option<u64> {
        self.of(role).map(|size| size.old)
    }
}

/// New size of a role.
#[derive(Clone, Copy, Debug, PartialEq)]
enum NewSize {
    To(u64),
    Times(f64),
}

impl NewSize {
    fn apply_to(self, old: u64) -> u64 {
        match self {
            NewSize::To(new) => new,
            NewSize::Times(factor) => ((old as f64 * factor).round() as u64).max(1),
        }
    }
}

impl FromStr for NewSize {
    type Err = SizeRequestError;

    fn from_str(text: &str) -> Result<NewSize, SizeRequestError> {
        let bad = || SizeRequestError(text.to_owned());
        let new = if let Some(factor) = text.strip_suffix('x') {
            NewSize::Times(factor.parse().map_err(|_| bad())?)
        } else {
            NewSize::To(text.parse().map_err(|_| bad())?)
        };
        match new {
            NewSize::To(size) if size > 0 => Ok(new),
            NewSize::Times(factor) if factor.is_finite() && factor > 0.0 => Ok(new),
            _ => Err(bad()),
        }
    }
}

/// Change of one size, as asked for: `batch=16`, `seq=2x` or, with the old size, `batch=8:16`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SizeChange {
    role: SizeRole,
    /// Old size, if stated.
    old: Option<u64>,
    new: NewSize,
}

/// Changes of sizes, as asked for: `batch=16,seq=2x`.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeRequest {
    text: String,
    changes: Vec<SizeChange>,
}

/// Error of a request: a part that is not `batch=16`, `seq=2x` or `width=512:1024`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected sizes as in `batch=16`, `seq=2x` or `width=512:1024`, found {0:?}")]
pub struct SizeRequestError(String);

impl SizeRequest {
    /// Returns true if the text begins with the name of a size.
    pub fn is_request(text: &str) -> bool {
        let name = text.split_once('=').map(|(name, _)| name);
        SizeRole::ALL.iter().any(|role| Some(role.name()) == name)
    }

    /// Returns true if the request changes a size of this role.
    pub(crate) fn changes(&self, role: SizeRole) -> bool {
        self.changes.iter().any(|change| change.role == role)
    }

    /// Returns the old size, if the request states it.
    pub(crate) fn stated(&self, role: SizeRole) -> Option<u64> {
        let change = self.changes.iter().find(|change| change.role == role)?;
        change.old
    }

    /// Returns the old sizes that the request states.
    pub(crate) fn all_stated(&self) -> impl Iterator<Item = (SizeRole, u64)> {
        let changes = self.changes.iter();
        changes.filter_map(|change| Some((change.role, change.old?)))
    }

    /// Sets the new sizes.
    ///
    /// # Errors
    /// The role whose old size is unknown.
    pub(crate) fn apply_to(&self, sizes: &mut Sizes) -> Result<(), SizeRole> {
        for change in &self.changes {
            let size = sizes.of_mut(change.role).as_mut().ok_or(change.role)?;
            size.new = change.new.apply_to(size.old);
        }
        Ok(())
    }
}

impl FromStr for SizeRequest {
    type Err = SizeRequestError;

    fn from_str(text: &str) -> Result<SizeRequest, SizeRequestError> {
        let mut changes: Vec<SizeChange> = vec![];
        for part in text.split(',') {
            let bad = || SizeRequestError(part.to_owned());
            let (name, value) = part.split_once('=').ok_or_else(bad)?;
            let role = SizeRole::ALL.into_iter().find(|role| role.name() == name);
            let role = role.ok_or_else(bad)?;
            let (old, new) = match value.split_once(':') {
                Some((old, new)) => (Some(old.parse().map_err(|_| bad())?), new),
                None => (None, value),
            };
            if old == Some(0) || changes.iter().any(|change| change.role == role) {
                return Err(bad());
            }
            let new = new.parse().map_err(|_| bad())?;
            changes.push(SizeChange { role, old, new });
        }
        Ok(SizeRequest {
            text: text.to_owned(),
            changes,
        })
    }
}

/// Writes the request as it was typed.
impl fmt::Display for SizeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_state_new_sizes_and_old_ones() {
        let request: SizeRequest = "batch=16,seq=512:2x,width=1.5x".parse().expect("a request");
        assert_eq!(request.stated(SizeRole::Sequence), Some(512));
        let mut sizes = Sizes {
            batch: Some(Size { old: 8, new: 8 }),
            sequence: Some(Size { old: 512, new: 512 }),
            width: Some(Size { old: 768, new: 768 }),
            layers: None,
        };
        request.apply_to(&mut sizes).expect("all are known");
        let new: Vec<u64> = sizes.changes().map(|(_, size)| size.new).collect();
        assert_eq!(new, [16, 1024, 1152]);
        let mut none = Sizes::default();
        assert_eq!(request.apply_to(&mut none), Err(SizeRole::Batch));
    }

    #[test]
    fn bad_requests_name_the_part() {
        for (text, part) in [
            ("batch=0", "batch=0"),
            ("batch=8,seq", "seq"),
            ("batch=8,batch=9", "batch=9"),
            ("depth=3", "depth=3"),
            ("seq=-2x", "seq=-2x"),
            ("seq=0:4", "seq=0:4"),
            ("width=infx", "width=infx"),
        ] {
            let error = text.parse::<SizeRequest>().expect_err(text);
            assert_eq!(error, SizeRequestError(part.to_owned()));
        }
    }
}
