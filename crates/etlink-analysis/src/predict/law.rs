//! Durations from recorded durations and the work before and after a change.
//!
//! ```text
//! recorded   c + rest              rest: operations or bytes, whichever bounds the op
//! predicted  c + rest · new / old
//! ```
//! The recorded duration is the anchor, so that only the ratio of the work is predicted. `c` is the
//! part that no size changes. It is the same for all kernels of a kind, and was chosen by the
//! recordings of an H200 in `testdata/gpu` and others of the same programs (see "Runs
//! of other sizes" in the reference of the documentation).

use etlink_link::roofline::{RooflineFormula, RooflineWork};
use etlink_model::DurationNs;

/// Operations per byte at which computing takes as long as moving the data, for devices whose data
/// sheet is not known.
pub const USUAL_BALANCE: f64 = 200.0;

/// Largest part of a duration that counts as fixed: some part always grows.
const MOST_FIXED: f64 = 0.9;

/// Returns the part of a kernel's duration that no size changes.
fn fixed_part(formula: RooflineFormula) -> DurationNs {
    match formula {
        RooflineFormula::Matmul
        | RooflineFormula::Experts
        | RooflineFormula::Convolution
        | RooflineFormula::ConvolutionBackward => DurationNs(3_000),
        RooflineFormula::Attention
        | RooflineFormula::AttentionBackward
        | RooflineFormula::CausalAttention
        | RooflineFormula::CausalAttentionBackward => DurationNs(5_000),
        _ => DurationNs(2_000),
    }
}

/// Returns the part of the duration of an op with a formula of this name that no size changes, ns.
pub(crate) fn fixed_ns(formula: &str) -> f64 {
    let ns = match formula {
        "matmul" | "experts" | "convolution" | "convolution_backward" => {
            fixed_part(RooflineFormula::Matmul)
        }
        _ if formula.contains("attention") => fixed_part(RooflineFormula::Attention),
        _ => fixed_part(RooflineFormula::Elementwise),
    };
    ns.0 as f64
}

/// Work of an op in the recorded and in the predicted run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangedWork {
    /// Work in the recorded run.
    pub old: RooflineWork,
    /// Work in the predicted run.
    pub new: RooflineWork,
}

impl ChangedWork {
    /// Returns true if the change leaves the work as it is.
    pub fn is_unchanged(&self) -> bool {
        self.old == self.new
    }

    /// Returns the factor on the duration of one of the op's kernels. `balance`: operations per
    /// byte at which computing takes as long as moving the data.
    pub fn kernel_factor(&self, duration: DurationNs, balance: f64) -> f64 {
        let whole = duration.0 as f64;
        let (old, new) = (bound(&self.old, balance), bound(&self.new, balance));
        if self.is_unchanged() || whole <= 0.0 || old <= 0.0 {
            return 1.0;
        }
        let fixed = (fixed_part(self.old.formula).0 as f64).min(whole * MOST_FIXED);
        (fixed + (whole - fixed) * new / old) / whole
    }
}

/// Work as bytes that take as long.
fn bound(work: &RooflineWork, balance: f64) -> f64 {
    (work.operations as f64 / balance).max(work.bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_part_stays_and_the_rest_grows_with_what_bounds_it() {
        let work = |operations, bytes| RooflineWork {
            operations,
            bytes,
            formula: RooflineFormula::Matmul,
        };
        let changed = ChangedWork {
            old: work(1_000_000, 1_000),
            new: work(4_000_000, 2_000),
        };
        // bound by operations: 10 us of 13 grow fourfold
        assert_eq!(
            changed.kernel_factor(DurationNs(13_000), 100.0),
            43.0 / 13.0
        );
        // bound by bytes: they double
        assert_eq!(
            changed.kernel_factor(DurationNs(13_000), 10_000.0),
            23.0 / 13.0
        );
        // of a short kernel a tenth grows
        let short = changed.kernel_factor(DurationNs(1_000), 100.0);
        assert!((short - 1.3).abs() < 1e-9, "{short}");
        assert_eq!(
            ChangedWork::default().kernel_factor(DurationNs(5), 1.0),
            1.0
        );
    }
}
