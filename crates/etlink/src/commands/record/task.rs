//! The job that this launcher is a task of, if several launchers record into one folder: `srun
//! etlink record -o traces -- python train.py`, or on each node `etlink record -o traces --
//! torchrun --nnodes 2 …`.

use etlink_torch::Task;

/// Job and task according to the environment and the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTask {
    /// Name of the job: its id and step, or the address at which its nodes meet.
    pub job: String,
    /// Number of this task, if known.
    pub number: Option<u32>,
    /// Minimum number of tasks.
    pub tasks: u32,
    /// Maximum number of tasks.
    pub most: u32,
    /// Number of earlier restarts of the job.
    pub attempt: u32,
    /// True if no other job has this name at the same time, and this job has no other name. Nodes
    /// may know their meeting point by several names.
    pub is_sure: bool,
}

impl JobTask {
    /// Reads the launchers' variables and the command; `None` if there is only one task.
    pub fn find(variable: impl Fn(&str) -> Option<String>, command: &[String]) -> Option<JobTask> {
        let variables = Variables(&variable);
        // `srun -n 1` sets these variables too: a single task has the folder for itself, unless its
        // command names several nodes
        let several = |task: &JobTask| task.most > 1;
        // torchrun within a SLURM step: the workers are the tasks
        let of_variables = variables
            .torchrun_task()
            .filter(several)
            .or_else(|| variables.slurm_task().filter(several))
            .or_else(|| variables.open_mpi_task().filter(several));
        if of_variables.is_some() {
            return of_variables;
        }
        // otherwise a command that starts no ranks itself, or a script that does
        node_task(command, &variable)
            .or_else(|| variables.node_task())
            .or_else(|| variables.rank_task())
            .filter(several)
    }

    /// Returns a task whose job may have other names, or share its name with another job.
    fn unsure(job: String, number: Option<u32>, (tasks, most): (u32, u32)) -> JobTask {
        JobTask {
            job,
            number,
            tasks,
            most,
            attempt: 0,
            is_sure: false,
        }
    }

    fn sure(job: String, number: u32, tasks: u32, attempt: Option<u32>) -> JobTask {
        JobTask {
            attempt: attempt.unwrap_or(0),
            is_sure: true,
            ..JobTask::unsure(job, Some(number), (tasks, tasks))
        }
    }

    /// Returns true if this task is among the launchers that have ended, so that it runs again.
    pub fn has_recorded(&self, ended: &[Task]) -> bool {
        match self.number {
            Some(number) => ended
                .iter()
                .any(|task| (task.task, task.attempt) == (number, self.attempt)),
            None => ended.len() >= self.most as usize,
        }
    }
}

/// Variables that launchers set for their tasks.
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
            "none" => {
                let parent = parent_on_one_machine(local_world, world);
                format!(
                    "none {}:{}{}",
                    self.text("MASTER_ADDR")?,
                    self.text("MASTER_PORT")?,
                    parent.map_or_else(String::new, |parent| format!(" {parent}"))
                )
            }
            _ => id,
        };
        Some(JobTask::sure(
            format!("torchrun {id}"),
            self.number("RANK")?,
            world?,
            self.number("TORCHELASTIC_RESTART_COUNT"),
        ))
    }

    fn slurm_task(&self) -> Option<JobTask> {
        let (job, step) = (self.text("SLURM_JOB_ID")?, self.text("SLURM_STEP_ID")?);
        Some(JobTask::sure(
            format!("slurm {job}.{step}"),
            self.number("SLURM_PROCID")?,
            self.number("SLURM_STEP_NUM_TASKS")?,
            self.number("SLURM_RESTART_COUNT"),
        ))
    }

    fn open_mpi_task(&self) -> Option<JobTask> {
        Some(JobTask::sure(
            format!("mpi {}", self.text("PMIX_NAMESPACE")?),
            self.number("OMPI_COMM_WORLD_RANK")?,
            self.number("OMPI_COMM_WORLD_SIZE")?,
            None,
        ))
    }

    /// Reads the variables that scripts pass to the launcher of each node.
    fn node_task(&self) -> Option<JobTask> {
        let nodes = self.number("NNODES").or_else(|| self.number("NUM_NODES"))?;
        self.meeting_task("nodes", self.number("NODE_RANK")?, nodes)
    }

    /// Reads the variables of ranks that are started one by one, as for PyTorch's `env://`.
    fn rank_task(&self) -> Option<JobTask> {
        self.meeting_task("ranks", self.number("RANK")?, self.number("WORLD_SIZE")?)
    }

    fn meeting_task(&self, kind: &str, number: u32, tasks: u32) -> Option<JobTask> {
        let (address, port) = (self.text("MASTER_ADDR")?, self.text("MASTER_PORT"));
        let job = format!("{kind} {address}:{}", port.unwrap_or_default());
        Some(JobTask::unsure(job, Some(number), (tasks, tasks)))
    }
}

/// Returns the process id of torchrun, which distinguishes jobs on one machine; `None` if the job
/// spans several machines.
fn parent_on_one_machine(local_world: Option<u32>, world: Option<u32>) -> Option<u32> {
    (local_world.is_some() && local_world == world).then(std::os::unix::process::parent_id)
}

/// Reads the task of a command that starts the ranks of one node of several: `torchrun --nnodes 2 …`,
/// `python -m torch.distributed.run …`, `accelerate launch --num_machines 2 …`. torchrun also takes
/// an option from the variable `PET_…`. Returns `None` if the number of nodes is unknown.
fn node_task(command: &[String], variable: &dyn Fn(&str) -> Option<String>) -> Option<JobTask> {
    // `sh -c 'torchrun …'` holds the whole command in one word
    let words: Vec<&str> = command
        .iter()
        .flat_map(|word| word.split_whitespace())
        .collect();
    let launched = launcher_options(&words);
    let options = launched.unwrap_or_default();
    let value = |names: &[&str]| {
        let set = names
            .first()
            .and_then(|name| variable(&format!("PET_{}", name.replace('-', "_").to_uppercase())));
        option(options, names).map(str::to_owned).or(set)
    };
    let nodes = value(&["nnodes", "num-machines"]);
    let Some(nodes) = nodes.as_deref().and_then(node_range) else {
        // torchrun defaults to one node; accelerate's default is in its configuration file
        let is_told = launched.is_some() && !words.contains(&"launch");
        return is_told.then(|| JobTask::unsure(String::new(), None, (1, 1)));
    };
    let id = value(&["rdzv-id"]).filter(|id| id != "none");
    let name = id.unwrap_or_else(|| {
        let address = value(&["master-addr", "main-process-ip"]).map(|address| {
            let port = value(&["master-port", "main-process-port"]);
            format!("{address}:{}", port.unwrap_or_default())
        });
        let place = value(&["rdzv-endpoint"]).or(address);
        format!("none {}", place.unwrap_or_default())
    });
    let number = value(&["node-rank", "machine-rank"]).and_then(|number| number.parse().ok());
    let job = format!("torchrun {}", name.trim_end());
    Some(JobTask::unsure(job, number, nodes))
}

/// Returns the words between such a launcher and the script that it starts.
fn launcher_options<'w, 'a>(words: &'w [&'a str]) -> Option<&'w [&'a str]> {
    let is_launcher = |place: usize| {
        let name = words[place].rsplit('/').next().unwrap_or_default();
        let before = place.checked_sub(1).map(|before| words[before]);
        match name {
            "torchrun" => true,
            "torch.distributed.run" | "torch.distributed.launch" => before == Some("-m"),
            "launch" => before.is_some_and(|before| before.ends_with("accelerate")),
            _ => false,
        }
    };
    let place = (0..words.len()).find(|place| is_launcher(*place))?;
    let options = &words[place + 1..];
    // words after the script belong to the script
    let ends = |word: &&str| word.ends_with(".py") || ["-m", "--module"].contains(word);
    let end = options.iter().position(ends).unwrap_or(options.len());
    Some(&options[..end])
}

/// Returns the value of an option that has one of these names, written with `-` or `_`.
fn option<'a>(words: &[&'a str], names: &[&str]) -> Option<&'a str> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(word) = word.strip_prefix('-') else {
            continue;
        };
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let name = name.trim_start_matches('-').replace('_', "-");
        if names.contains(&name.as_str()) {
            return value.or_else(|| words.next().copied());
        }
    }
    None
}

/// Parses `2`, or `1:4` for a job whose number of nodes may change.
fn node_range(text: &str) -> Option<(u32, u32)> {
    let (least, most) = text.split_once(':').unwrap_or((text, text));
    Some((least.parse().ok()?, most.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn job(variables: &[(&str, &str)]) -> Option<JobTask> {
        let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
        JobTask::find(
            |name| variables.get(name).map(|text| (*text).to_owned()),
            &[],
        )
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
            number: Some(3),
            tasks: 4,
            most: 4,
            attempt: 0,
            is_sure: true,
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
            number: Some(2),
            tasks: 4,
            most: 4,
            attempt: 0,
            is_sure: true,
        };
        assert_eq!(job(&rank), Some(expected));
        // without PMIx, older versions cannot distinguish two jobs
        assert_eq!(job(&rank[1..]), None);
    }

    #[test]
    fn jobs_of_torchrun_without_an_id_are_known_by_where_they_meet() {
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
        // on several machines the meeting point alone counts: a refused node would keep the others
        // waiting
        assert!(job(&two).is_some_and(|job| job.job == "torchrun none 127.0.0.1:29500"));
    }

    #[test]
    fn nodes_that_variables_name_are_a_job() {
        let node = [
            ("NNODES", "2"),
            ("NODE_RANK", "1"),
            ("MASTER_ADDR", "node0"),
            ("MASTER_PORT", "29500"),
        ];
        let found = job(&node).expect("two nodes");
        assert_eq!(
            (found.job.as_str(), found.number, found.tasks),
            ("nodes node0:29500", Some(1), 2)
        );
        let one = [&[("NNODES", "1")], &node[1..]].concat();
        assert_eq!(job(&one), None);
        let rank = [&[("RANK", "3"), ("WORLD_SIZE", "4")], &node[2..]].concat();
        let found = job(&rank).expect("four ranks");
        assert_eq!(
            (found.job.as_str(), found.number, found.tasks),
            ("ranks node0:29500", Some(3), 4)
        );
    }

    fn task(command: &str, variables: &[(&str, &str)]) -> Option<JobTask> {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let variable = |name: &str| {
            let found = variables.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        JobTask::find(variable, &words)
    }

    #[test]
    fn nodes_of_launchers_are_known() {
        for (command, job, number, tasks) in [
            (
                "torchrun --nnodes 2 --node-rank 1 --rdzv-id 77 train.py --nnodes 9",
                "torchrun 77",
                Some(1),
                (2, 2),
            ),
            (
                "/opt/bin/torchrun --nnodes=1:4 --rdzv_id=x --rdzv_endpoint=node0:29400 train.py",
                "torchrun x",
                None,
                (1, 4),
            ),
            (
                "python -m torch.distributed.run --nnodes=2 --node_rank=0 --master_addr node0 \
                 --master_port=29501 -m pkg.train",
                "torchrun none node0:29501",
                Some(0),
                (2, 2),
            ),
            (
                "torchrun --nnodes 2 --rdzv-endpoint node0:29400 train.py",
                "torchrun none node0:29400",
                None,
                (2, 2),
            ),
            (
                "accelerate launch --num_machines 2 --machine_rank 1 --main_process_ip node0 \
                 --main_process_port 5 train.py",
                "torchrun none node0:5",
                Some(1),
                (2, 2),
            ),
        ] {
            let found = task(command, &[]).expect(command);
            assert_eq!(
                (found.job.as_str(), found.number, (found.tasks, found.most)),
                (job, number, tasks)
            );
        }
        let variables = [
            ("PET_NNODES", "2"),
            ("PET_NODE_RANK", "1"),
            ("PET_RDZV_ID", "77"),
        ];
        for command in ["torchrun train.py", "bash train.sh"] {
            let found = task(command, &variables).expect("two nodes");
            assert_eq!((found.job.as_str(), found.number), ("torchrun 77", Some(1)));
        }
    }

    #[test]
    fn one_node_is_no_job_whatever_variables_say() {
        let variables = [("NNODES", "2"), ("NODE_RANK", "0"), ("MASTER_ADDR", "a")];
        assert!(task("bash train.sh", &variables).is_some());
        for command in [
            "torchrun --nnodes 1 --nproc-per-node 4 train.py",
            "torchrun --nnodes=1:1 train.py",
            "torchrun --nproc-per-node 4 train.py --nnodes 2",
        ] {
            assert_eq!(task(command, &variables), None);
        }
        assert_eq!(task("python train.py --nnodes 2", &[]), None);
    }
}
