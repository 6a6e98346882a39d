//! Limits that suit the machine.

use std::fs;

use crate::policy::Limits;

const MIB: u64 = 1 << 20;

/// Where the kernel says how much memory there is, and how much of it a container may use.
const MACHINE: &str = "/proc/meminfo";
const CONTAINERS: [&str; 2] =
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

impl Limits {
    /// Returns limits for work on projects on this machine; see [`Limits::for_memory`].
    pub fn of_machine() -> Self {
        let read = |path: &str| fs::read_to_string(path).ok();
        let machine = read(MACHINE).and_then(|text| total(&text));
        let containers = CONTAINERS.iter().filter_map(|path| read(path)?.trim().parse().ok());
        Self::for_memory(machine.into_iter().chain(containers).min().unwrap_or_default())
    }

    /// Returns limits for work on projects on a machine with this many bytes of memory: half of the
    /// memory, at least 512 MiB; an eighth of that for scratch space, at least 64 MiB; 512
    /// processes, and files of 1 GiB.
    pub fn for_memory(total: u64) -> Self {
        let memory = (total / 2).max(512 * MIB);
        Self {
            memory,
            processes: 512,
            file_size: 1024 * MIB,
            scratch: (memory / 8).max(64 * MIB),
            open_files: 4096,
            ..Self::default()
        }
    }
}

fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_machine_has_limits_that_builds_need() {
        let expect = Limits {
            memory: 512 * MIB,
            processes: 512,
            file_size: 1024 * MIB,
            scratch: 64 * MIB,
            open_files: 4096,
            ..Limits::default()
        };
        assert_eq!(Limits::for_memory(0), expect);
        assert_eq!(Limits::for_memory(1024 * MIB), expect);
    }

    #[test]
    fn commands_have_half_of_the_memory() {
        let limits = Limits::for_memory(32 * 1024 * MIB);
        assert_eq!((limits.memory, limits.scratch), (16 * 1024 * MIB, 2 * 1024 * MIB));
    }

    #[test]
    fn the_kernel_counts_in_kibibytes() {
        assert_eq!(total("MemTotal:       24684512 kB\nMemFree: 1 kB\n"), Some(24_684_512 * 1024));
        assert_eq!(total("MemFree: 1 kB\n"), None);
    }
}
