//! Actions of steps under a schedule of PyTorch's profiler.

use crate::errors::to_exception;
use etlink_schedule::{Arguments, Schedule};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The schedule of `torch.profiler.schedule`. Called with the number of a step, it returns the name
/// of the action.
#[pyclass(frozen, name = "Schedule", module = "etlink._etlink")]
pub(crate) struct StepSchedule {
    schedule: Schedule,
}

#[pymethods]
impl StepSchedule {
    // the library checks the bounds, and names all arguments that break them
    #[new]
    #[pyo3(signature = (wait, warmup, active, repeat, skip_first, skip_first_wait))]
    fn new(
        py: Python<'_>,
        wait: i64,
        warmup: i64,
        active: i64,
        repeat: i64,
        skip_first: i64,
        skip_first_wait: i64,
    ) -> PyResult<StepSchedule> {
        let schedule = Schedule::new(Arguments {
            skip_first,
            wait,
            warmup,
            active,
            repeat,
            skip_first_wait,
        });
        let schedule = schedule.map_err(|error| to_exception(py, &error.into()))?;
        Ok(StepSchedule { schedule })
    }

    /// Returns `NONE`, `WARMUP`, `RECORD` or `RECORD_AND_SAVE`.
    fn __call__(&self, step: i64) -> PyResult<&'static str> {
        // like PyTorch, which asserts that steps are not negative
        let step = u64::try_from(step);
        let step = step.map_err(|_| PyValueError::new_err("steps count from 0"))?;
        Ok(self.schedule.action(step).name())
    }

    /// First recorded step.
    #[getter]
    fn first_recorded(&self) -> Option<u64> {
        self.schedule.first_recorded()
    }
}
