//! Maps steps to actions, like `torch.profiler.schedule`.

use crate::{Action, Arguments, InvalidArguments, Warning};
use std::ops::Range;

/// A schedule with valid arguments: `skip_first` steps, then `repeat` cycles (0: endless) of
/// `wait`, `warmup` and `active` steps.
///
/// PyTorch divides floats to find the end of the last cycle, which is exact up to 2^53 steps; this
/// implementation is always exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    skip_first: u64,
    wait: u64,
    warmup: u64,
    active: u64,
    repeat: u64,
    skip_first_wait: bool,
}

impl Schedule {
    /// Creates a schedule from the arguments of `torch.profiler.schedule`.
    ///
    /// # Errors
    /// Arguments are below their bounds; the error lists all of them.
    pub fn new(arguments: Arguments) -> Result<Schedule, InvalidArguments> {
        // All faults are reported at once, so that a job on many machines needs only one more
        // start.
        let faults = arguments.faults();
        if !faults.is_empty() {
            return Err(InvalidArguments(faults));
        }
        Ok(Schedule {
            skip_first: arguments.skip_first.unsigned_abs(),
            // No argument is negative here, so this changes no value.
            wait: arguments.wait.unsigned_abs(),
            warmup: arguments.warmup.unsigned_abs(),
            active: arguments.active.unsigned_abs(),
            repeat: arguments.repeat.unsigned_abs(),
            skip_first_wait: arguments.skip_first_wait != 0,
        })
    }

    /// Returns PyTorch's warning about the schedule; `None` if there is none.
    pub fn warning(&self) -> Option<Warning> {
        (self.warmup == 0).then_some(Warning::NoWarmup)
    }

    /// Returns the action of step number `step`, from 0.
    pub fn action(&self, step: u64) -> Action {
        self.stretch_at(step).0
    }

    /// Returns the first step after `step` with another action; `None` if its number exceeds `u64`.
    pub fn next_change(&self, step: u64) -> Option<u64> {
        u64::try_from(self.stretch_at(step).1).ok()
    }

    /// Returns the first recorded step; `None` if there is none.
    pub fn first_recorded(&self) -> Option<u64> {
        self.stretches(u64::MAX)
            .find(|(_, action)| action.records())
            .map(|(range, _)| range.start)
    }

    /// Iterates over the steps from 0 to `steps`, exclusive, as maximal ranges with equal actions.
    /// O(1) per range.
    pub fn stretches(&self, steps: u64) -> impl Iterator<Item = (Range<u64>, Action)> + use<> {
        let schedule = *self;
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = next;
            let (action, end) = (start < steps).then(|| schedule.stretch_at(start))?;
            next = u64::try_from(end).map_or(steps, |end| end.min(steps));
            Some((start..next, action))
        })
    }

    /// Returns the action of a step, and the first later step with another action, or `u128::MAX`.
    fn stretch_at(&self, step: u64) -> (Action, u128) {
        let [skip_first, wait, warmup, active] =
            [self.skip_first, self.wait, self.warmup, self.active].map(u128::from);
        // Products of three 64-bit arguments need 128 bits, so that no schedule overflows.
        let ahead = if self.skip_first_wait { wait } else { 0 };
        let Some(since) = step.checked_sub(self.skip_first) else {
            // The steps after `skip_first` are idle too, unless the first cycle does not wait.
            return (Action::None, skip_first + wait - ahead);
        };
        let position = u128::from(since) + ahead;
        let cycle = wait + warmup + active;
        let over = if self.repeat == 0 {
            u128::MAX
        } else {
            u128::from(self.repeat) * cycle
        };
        if position >= over {
            return (Action::None, u128::MAX);
        }
        let (action, end) = match position % cycle {
            at if at < wait => (Action::None, wait),
            at if at < wait + warmup => (Action::Warmup, wait + warmup),
            at if at < cycle - 1 => (Action::Record, cycle - 1),
            // Cycles of a single step continue without a change, to the end of the last one.
            _ if cycle == 1 => return (Action::RecordAndSave, over.saturating_add(skip_first)),
            _ => (Action::RecordAndSave, cycle),
        };
        (
            action,
            position - position % cycle + end + skip_first - ahead,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Argument, ArgumentFault};
    use proptest::prelude::*;

    fn schedule(arguments: Arguments) -> Schedule {
        Schedule::new(arguments).expect("valid")
    }

    #[test]
    fn all_faults_are_named_with_value_and_bound() {
        let error = Schedule::new(Arguments {
            wait: -1,
            skip_first: i64::MIN,
            skip_first_wait: -1,
            ..Arguments::default()
        })
        .expect_err("invalid");
        assert_eq!(
            error.0[1],
            ArgumentFault {
                argument: Argument::Active,
                got: 0,
                least: 1
            }
        );
        assert_eq!(
            error.to_string(),
            "invalid schedule: wait is -1, needs to be at least 0; \
             active is 0, needs to be at least 1; \
             skip_first is -9223372036854775808, needs to be at least 0"
        );
    }

    #[test]
    fn the_largest_arguments_and_steps_do_not_overflow() {
        let most = i64::MAX;
        let all = Arguments {
            wait: most,
            warmup: most,
            active: most,
            repeat: most,
            skip_first: most,
            skip_first_wait: 1,
        };
        let bound = most.unsigned_abs();
        assert_eq!(schedule(all).action(bound - 1), Action::None);
        assert_eq!(schedule(all).action(bound), Action::Warmup);
        assert_eq!(schedule(all).action(u64::MAX - 2), Action::Warmup);
        assert_eq!(schedule(all).action(u64::MAX - 1), Action::Record);
        assert_eq!(
            schedule(all).stretches(u64::MAX).last(),
            Some((u64::MAX - 1..u64::MAX, Action::Record))
        );
        let ever = schedule(Arguments {
            active: 1,
            ..Arguments::default()
        });
        assert_eq!(ever.action(u64::MAX), Action::RecordAndSave);
        assert_eq!(
            ever.stretches(u64::MAX).collect::<Vec<_>>(),
            [(0..u64::MAX, Action::RecordAndSave)]
        );
    }

    proptest! {
        #[test]
        fn stretches_are_the_steps_and_never_meet_their_like(
            numbers in prop::array::uniform5(0_i64..5),
            skip_first_wait in 0_i64..2,
            steps in 0_u64..80,
        ) {
            let [skip_first, wait, warmup, active, repeat] = numbers;
            let active = active + 1;
            let arguments = Arguments { skip_first, wait, warmup, active, repeat, skip_first_wait };
            let schedule = schedule(arguments);
            let stretches: Vec<_> = schedule.stretches(steps).collect();
            let mut unrolled = vec![];
            for (range, action) in &stretches {
                unrolled.extend(range.clone().map(|step| (step, *action)));
            }
            let expected: Vec<_> = (0..steps).map(|step| (step, schedule.action(step))).collect();
            prop_assert_eq!(unrolled, expected);
            prop_assert!(stretches.windows(2).all(|two| two[0].1 != two[1].1), "{:?}", stretches);
        }
    }
}
