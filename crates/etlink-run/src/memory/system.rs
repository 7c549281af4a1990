//! Available memory of the system: free memory, within control groups (containers, batch jobs) and
//! limits of the process (`ulimit -v`).

use std::path::Path;

/// A version of control groups: its controller's name in `/proc/self/cgroup`, its root, its files.
struct Kind {
    controller: &'static str,
    root: &'static str,
    limit: &'static str,
    /// Field of `memory.stat` with memory that cannot be reclaimed, unlike cached files.
    used: &'static str,
}

// version 2 of control groups, then version 1, which older clusters still have
const KINDS: [Kind; 2] = [
    Kind {
        controller: "",
        root: "/sys/fs/cgroup",
        limit: "memory.max",
        used: "anon",
    },
    Kind {
        controller: "memory",
        root: "/sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        used: "total_rss",
    },
];

/// Returns the available memory in bytes; `None` if the system does not report it like Linux.
pub(super) fn available_memory() -> Option<u64> {
    // MemAvailable, not MemFree: the file cache is reclaimed when needed
    let free = free_memory(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let left = KINDS
        .iter()
        .flat_map(|kind| group_of(&groups, kind.controller).map(|group| group_left(kind, group)));
    Some(left.flatten().chain(limits_left()).fold(free, u64::min))
}

/// Limits of a process, and the fields of `/proc/self/status` that count towards them.
const LIMITS: [(&str, &str); 2] = [
    ("Max address space", "VmSize:"),
    ("Max data size", "VmData:"),
];

/// Returns the memory left by the limits of this process; `None` without limits.
fn limits_left() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    least_left(&limits, &status)
}

fn least_left(limits: &str, status: &str) -> Option<u64> {
    let left = LIMITS.iter().filter_map(|(name, used)| {
        let mut lines = limits.lines();
        let values = lines.find_map(|line| line.strip_prefix(name))?;
        // the effective soft limit, followed by the hard limit; `unlimited` is not a number
        let limit: u64 = values.split_ascii_whitespace().next()?.parse().ok()?;
        let used = word_value(status, used)?.saturating_mul(1024);
        Some(limit.saturating_sub(used))
    });
    left.min()
}

/// Returns `MemAvailable` from `/proc/meminfo`, in bytes.
fn free_memory(meminfo: &str) -> Option<u64> {
    word_value(meminfo, "MemAvailable:")?.checked_mul(1024)
}

/// Returns the path of this process in the groups of a controller: `4:memory:/job/step`,
/// `0::/job/step`.
fn group_of<'t>(groups: &'t str, controller: &str) -> Option<&'t str> {
    groups.lines().find_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, path) = line.split_once(':')?;
        controllers
            .split(',')
            .any(|one| one == controller)
            .then_some(path)
    })
}

/// Returns the least memory left by a group and its ancestors.
fn group_left(kind: &Kind, group: &str) -> Option<u64> {
    let place = Path::new(kind.root).join(group.trim_start_matches('/'));
    let groups = place
        // batch systems set the limit on the job, whose group contains the step's group
        .ancestors()
        .take_while(|place| place.starts_with(kind.root));
    let left = groups.filter_map(|place| {
        // `max` means unlimited
        let limit: u64 = std::fs::read_to_string(place.join(kind.limit))
            .ok()?
            .trim()
            .parse()
            .ok()?;
        // memory.current includes cached files, and traces that were copied here fill the cache
        let used = std::fs::read_to_string(place.join("memory.stat"))
            .ok()
            .and_then(|stat| word_value(&stat, kind.used));
        Some(limit.saturating_sub(used.unwrap_or(0)))
    });
    left.min()
}

/// Returns the number after a word at the beginning of a line.
pub(super) fn word_value(text: &str, word: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    lines.find_map(|mut line| (line.next() == Some(word)).then(|| line.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_groups_as_linux_writes_them() {
        assert_eq!(
            free_memory("MemTotal:       24683584 kB\nMemAvailable:   23988044 kB\n"),
            Some(24_563_757_056)
        );
        assert_eq!(
            word_value("anon_thp 5\nanon 12288\nfile 7\n", "anon"),
            Some(12_288)
        );
        let groups = "9:name=systemd:/\n5:cpu,memory:/slurm/job_1\n0::/system.slice/a:b\n";
        assert_eq!(group_of(groups, "memory"), Some("/slurm/job_1"));
        assert_eq!(group_of(groups, ""), Some("/system.slice/a:b"));
    }

    #[test]
    fn limits_of_a_process_as_linux_writes_them() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
            Max data size             unlimited            unlimited            bytes\n\
            Max address space         204800000            unlimited            bytes\n";
        let status = "VmPeak:\t 9000 kB\nVmSize:\t 100000 kB\nVmData:\t 500 kB\n";
        assert_eq!(least_left(limits, status), Some(102_400_000));
        assert_eq!(least_left("", status), None);
        let data = limits.replace("size             unlimited", "size             1024000  ");
        assert_eq!(least_left(&data, status), Some(512_000));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_system_has_some() {
        assert!(available_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
