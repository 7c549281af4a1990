//! A program, its recorders and its files, without a disk.

use etlink_tracing::{ProfilerActivity, RecordedCycle, Recorder, RecorderError, RecorderRequest};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State shared by a test and its recorders.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<Inner>>);

#[derive(Default)]
pub(crate) struct Inner {
    calls: Vec<String>,
    running: BTreeMap<&'static str, Tape>,
    files: BTreeMap<String, Vec<String>>,
    faults: Vec<(&'static str, RecorderRequest, Fault)>,
}

/// Recording of a running recorder.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tape {
    ops: Vec<String>,
    muted: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Fault {
    Error,
    Panic,
}

impl World {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn recorders(&self, names: &[&'static str]) -> Vec<Box<dyn Recorder>> {
        names
            .iter()
            .map(|&name| {
                Box::new(Mock {
                    name,
                    world: self.clone(),
                    recorded: vec![],
                }) as Box<dyn Recorder>
            })
            .collect()
    }

    /// Performs an op, which enters the trace of every running recorder.
    pub(crate) fn op(&self, name: &str) {
        self.inner()
            .running
            .values_mut()
            .filter(|tape| !tape.muted)
            .for_each(|tape| tape.ops.push(name.to_owned()));
    }

    /// Makes the next such request to this recorder fail.
    pub(crate) fn fail(&self, name: &'static str, request: RecorderRequest, fault: Fault) {
        self.inner().faults.push((name, request, fault));
    }

    /// Returns the calls since the last time.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.inner().calls)
    }

    pub(crate) fn files(&self) -> Vec<String> {
        self.inner()
            .files
            .iter()
            .map(|(path, ops)| format!("{path}: {}", ops.join(" ")))
            .collect()
    }

    pub(crate) fn running(&self) -> Vec<&'static str> {
        self.inner().running.keys().copied().collect()
    }
}

struct Mock {
    name: &'static str,
    world: World,
    recorded: Vec<String>,
}

impl Mock {
    fn told(&self, request: RecorderRequest, more: &str) -> Result<(), RecorderError> {
        let mut inner = self.world.inner();
        inner.calls.push(format!("{} {request}{more}", self.name));
        let at = inner
            .faults
            .iter()
            .position(|(name, on, _)| *name == self.name && *on == request);
        match at.map(|at| inner.faults.remove(at).2) {
            None => Ok(()),
            Some(Fault::Error) => Err("out of luck".into()),
            Some(Fault::Panic) => panic!("{} was to panic", self.name),
        }
    }
}

impl Recorder for Mock {
    fn name(&self) -> &str {
        self.name
    }

    fn prepare(&mut self) -> Result<(), RecorderError> {
        self.told(RecorderRequest::Prepare, "")
    }

    fn start(&mut self) -> Result<(), RecorderError> {
        self.told(RecorderRequest::Start, "")?;
        let twice = self
            .world
            .inner()
            .running
            .insert(self.name, Tape::default());
        assert_eq!(twice, None, "started while it ran");
        Ok(())
    }

    fn stop(&mut self) -> Result<(), RecorderError> {
        let tape = self.world.inner().running.remove(self.name);
        self.recorded = tape.expect("stopped while it did not run").ops;
        self.told(RecorderRequest::Stop, "")
    }

    fn save(&mut self, cycle: &RecordedCycle) -> Result<(), RecorderError> {
        self.told(
            RecorderRequest::Save,
            &format!(" {:?}{}", cycle.steps, if cycle.cut { " cut" } else { "" }),
        )?;
        let path = cycle
            .path(format!("{}.json", self.name))
            .display()
            .to_string();
        let overwritten = self
            .world
            .inner()
            .files
            .insert(path, std::mem::take(&mut self.recorded));
        assert_eq!(overwritten, None, "a file of another cycle");
        Ok(())
    }

    fn toggle(&mut self, activity: ProfilerActivity, on: bool) -> Result<(), RecorderError> {
        self.told(RecorderRequest::Toggle, &format!(" {activity:?} {on}"))?;
        self.world
            .inner()
            .running
            .get_mut(self.name)
            .expect("toggled while it did not run")
            .muted = !on;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), RecorderError> {
        self.told(RecorderRequest::Finish, "")
    }
}
