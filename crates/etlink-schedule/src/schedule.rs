//! Step -> action: `torch.profiler.schedule`.

use crate::{Action, Arguments, InvalidArguments, Warning};
use std::ops::Range;

/// A schedule with arguments that hold: `skip_first` steps, then `repeat` cycles (0: without end)
/// of `wait`, `warmup` and `active` steps.
///
/// PyTorch divides floats to see whether the last cycle is over, which is exact to 2^53 steps; here
/// it is exact throughout.
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
    /// A schedule as `torch.profiler.schedule` takes it.
    ///
    /// # Errors
    /// Arguments below their bounds, all of them.
    pub fn new(arguments: Arguments) -> Result<Schedule, InvalidArguments> {
        // All of them are named at once: who starts a job on many machines wants to start it once.
        let faults = arguments.faults();
        if !faults.is_empty() {
            return Err(InvalidArguments(faults));
        }
        Ok(Schedule {
            skip_first: arguments.skip_first.unsigned_abs(),
            // None is negative here, so that this changes no value.
            wait: arguments.wait.unsigned_abs(),
            warmup: arguments.warmup.unsigned_abs(),
            active: arguments.active.unsigned_abs(),
            repeat: arguments.repeat.unsigned_abs(),
            skip_first_wait: arguments.skip_first_wait != 0,
        })
    }

    /// What PyTorch warns of when the schedule is made.
    pub fn warning(&self) -> Option<Warning> {
        (self.warmup == 0).then_some(Warning::NoWarmup)
    }

    /// What happens in step number `step`, from 0.
    pub fn action(&self, step: u64) -> Action {
        self.stretch_at(step).0
    }

    /// The first step after `step` that has another action; `None` if that is further than steps
    /// can be counted.
    pub fn next_change(&self, step: u64) -> Option<u64> {
        u64::try_from(self.stretch_at(step).1).ok()
    }

    /// The first step that is recorded.
    pub fn first_recorded(&self) -> Option<u64> {
        self.stretches(u64::MAX)
            .find(|(_, action)| action.records())
            .map(|(range, _)| range.start)
    }

    /// The actions of the steps from 0 to `steps`, exclusive, as stretches of equal ones that are
    /// as long as can be. O(1) per stretch.
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

    /// The action of a step and the first step after it that has another one, or `u128::MAX`.
    fn stretch_at(&self, step: u64) -> (Action, u128) {
        let [skip_first, wait, warmup, active] =
            [self.skip_first, self.wait, self.warmup, self.active].map(u128::from);
        // Products of three 64-bit arguments need 128 bits, so that no schedule overflows.
        let ahead = if self.skip_first_wait { wait } else { 0 };
        let Some(since) = step.checked_sub(self.skip_first) else {
            // What follows `skip_first` is idle too, but for a first cycle that does not wait.
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
            // Cycles of one step follow each other without a change, to the end of the last one.
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
