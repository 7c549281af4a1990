//! The job that this launcher is a task of, where several of them record into one folder:
//! `srun etlink record -o traces -- python train.py`.

/// What the environment says of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTask {
    /// The job and its step: no other job has this.
    pub job: String,
    /// Number of this task.
    pub task: u32,
    /// Number of tasks.
    pub tasks: u32,
    /// How often the job was started again before.
    pub attempt: u32,
}

impl JobTask {
    /// From the variables of SLURM, torchrun and Open MPI; none where there is one task.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Option<JobTask> {
        let variables = Variables(&variable);
        // torchrun inside of a SLURM step: its workers are the tasks
        let task = variables
            .torchrun_task()
            .or_else(|| variables.slurm_task())
            .or_else(|| variables.open_mpi_task())?;
        // `srun -n 1` sets the same variables: one task has the folder for itself
        (task.tasks > 1).then_some(task)
    }
}

/// The variables that launchers set for their tasks.
struct Variables<'v>(&'v dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    fn text(&self, name: &str) -> Option<String> {
        self.0(name)
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.text(name)?.parse().ok()
    }

    fn torchrun_task(&self) -> Option<JobTask> {
        let id = self.text("TORCHELASTIC_RUN_ID")?;
        let (local_world, world) = (self.number("LOCAL_WORLD_SIZE"), self.number("WORLD_SIZE"));
        // without --rdzv-id all jobs are called "none"
        let id = match id.as_str() {
            "none" => format!(
                "none {}:{} {}",
                self.text("MASTER_ADDR")?,
                self.text("MASTER_PORT")?,
                parent_on_one_machine(local_world, world)?
            ),
            _ => id,
        };
        Some(JobTask {
            job: format!("torchrun {id}"),
            task: self.number("RANK")?,
            tasks: world?,
            attempt: self.number("TORCHELASTIC_RESTART_COUNT").unwrap_or(0),
        })
    }

    fn slurm_task(&self) -> Option<JobTask> {
        let (job, step) = (self.text("SLURM_JOB_ID")?, self.text("SLURM_STEP_ID")?);
        Some(JobTask {
            job: format!("slurm {job}.{step}"),
            task: self.number("SLURM_PROCID")?,
            tasks: self.number("SLURM_STEP_NUM_TASKS")?,
            attempt: self.number("SLURM_RESTART_COUNT").unwrap_or(0),
        })
    }

    fn open_mpi_task(&self) -> Option<JobTask> {
        Some(JobTask {
            job: format!("mpi {}", self.text("PMIX_NAMESPACE")?),
            task: self.number("OMPI_COMM_WORLD_RANK")?,
            tasks: self.number("OMPI_COMM_WORLD_SIZE")?,
            attempt: 0,
        })
    }
}

/// The process id of torchrun, which tells its jobs apart on one machine; on several there is no
/// such number.
fn parent_on_one_machine(local_world: Option<u32>, world: Option<u32>) -> Option<u32> {
    #[cfg(unix)]
    let parent = std::os::unix::process::parent_id();
    #[cfg(not(unix))]
    let parent = 0;
    (local_world.is_some() && local_world == world).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn job(variables: &[(&str, &str)]) -> Option<JobTask> {
        let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
        JobTask::from_variables(|name| variables.get(name).map(|text| (*text).to_owned()))
    }

    #[test]
    fn a_step_of_slurm_with_several_tasks_is_a_job() {
        let step = [
            ("SLURM_JOB_ID", "4711"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_PROCID", "3"),
        ];
        let four = [&step[..], &[("SLURM_STEP_NUM_TASKS", "4")]].concat();
        let expected = JobTask {
            job: "slurm 4711.0".to_owned(),
            task: 3,
            tasks: 4,
            attempt: 0,
        };
        assert_eq!(job(&four), Some(expected));
        let one = [&step[..], &[("SLURM_STEP_NUM_TASKS", "1")]].concat();
        assert_eq!(job(&one), None);
        // a batch script: `etlink record -- srun python train.py`
        assert_eq!(
            job(&[("SLURM_JOB_ID", "4711"), ("SLURM_PROCID", "0")]),
            None
        );
    }

    #[test]
    fn processes_of_mpirun_are_a_job() {
        let rank = [
            ("PMIX_NAMESPACE", "prterun-host-1@1"),
            ("OMPI_COMM_WORLD_RANK", "2"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
        ];
        let expected = JobTask {
            job: "mpi prterun-host-1@1".to_owned(),
            task: 2,
            tasks: 4,
            attempt: 0,
        };
        assert_eq!(job(&rank), Some(expected));
        // two jobs of a version before PMIx could not be told apart
        assert_eq!(job(&rank[1..]), None);
    }

    #[test]
    fn jobs_of_torchrun_without_an_id_are_known_on_one_machine() {
        let common = [
            ("TORCHELASTIC_RUN_ID", "none"),
            ("MASTER_ADDR", "127.0.0.1"),
            ("MASTER_PORT", "29500"),
            ("RANK", "1"),
            ("WORLD_SIZE", "4"),
        ];
        let one = [&common[..], &[("LOCAL_WORLD_SIZE", "4")]].concat();
        assert!(job(&one).is_some_and(|job| job.job.starts_with("torchrun none 127.0.0.1:29500 ")));
        let two = [&common[..], &[("LOCAL_WORLD_SIZE", "2")]].concat();
        assert_eq!(job(&two), None);
    }
}
