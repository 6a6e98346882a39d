//! Control groups, for those who ask for them: limits on memory and processes that the kernel keeps. They cost
//! several milliseconds a command, and most users cannot make any.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;

use super::quarantine;
use crate::job::LaunchRequest;
use crate::policy::{self, Limits};

/// How the names of groups begin; the helper's process id follows.
const PREFIX: &str = "loopwright-";
const ROOT: &str = "/sys/fs/cgroup";

/// The groups of one command; dropping them removes them.
#[derive(Debug)]
pub(crate) struct Groups {
    folders: Vec<PathBuf>,
    /// Where the kernel counts what it has ended for want of memory.
    memory: Option<PathBuf>,
}

/// Makes groups if the policy asks for them. Nothing if none can be made that limits memory.
pub(crate) fn make(job: &LaunchRequest) -> Option<Groups> {
    match job.policy.cgroup {
        policy::Cgroup::Off => None,
        policy::Cgroup::IfWritable => {
            let name = format!("{PREFIX}{}-{:016x}", std::process::id(), quarantine::random());
            let groups = Groups::unified(&name, &job.policy.limits);
            groups
                .or_else(|| Groups::separate(&name, &job.policy.limits))
                .filter(|groups| groups.memory.is_some())
        }
    }
}

impl Groups {
    /// One group with every controller, below the one that this process is in or below the root.
    fn unified(name: &str, limits: &Limits) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
        let parent = Path::new(ROOT).join(own).parent().map(Path::to_path_buf);
        for parent in
            parent.into_iter().chain([ROOT.into()]).filter(|parent| parent.starts_with(ROOT))
        {
            let mut groups = Self { folders: Vec::new(), memory: None };
            groups.add_folder(&parent, name)?;
            let folder = parent.join(name);
            let set = |file: &str, value: u64| fs::write(folder.join(file), value.to_string());
            if set("memory.max", limits.memory).is_ok() && set("pids.max", limits.processes).is_ok()
            {
                set("memory.swap.max", 0).ok();
                groups.memory = Some(folder.join("memory.events"));
                return Some(groups);
            }
        }
        None
    }

    /// A group for each controller.
    fn separate(name: &str, limits: &Limits) -> Option<Self> {
        let mut groups = Self { folders: Vec::new(), memory: None };
        for (controller, file, value) in [
            ("pids", "pids.max", limits.processes),
            ("memory", "memory.limit_in_bytes", limits.memory),
        ] {
            let parent = Path::new(ROOT).join(controller);
            groups.add_folder(&parent, name)?;
            fs::write(parent.join(name).join(file), value.to_string()).ok()?;
        }
        groups.memory = Some(Path::new(ROOT).join("memory").join(name).join("memory.oom_control"));
        Some(groups)
    }

    fn add_folder(&mut self, parent: &Path, name: &str) -> Option<()> {
        sweep(parent);
        let folder = parent.join(name);
        fs::create_dir(&folder).ok()?;
        self.folders.push(folder);
        Some(())
    }

    /// Puts a process into the groups, before it starts others.
    pub(crate) fn add(&self, pid: Pid) -> io::Result<()> {
        let number = pid.as_raw_pid().to_string();
        self.folders.iter().try_for_each(|folder| fs::write(folder.join("cgroup.procs"), &number))
    }

    /// Whether the kernel has ended a process for want of memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let text =
            self.memory.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        text.lines()
            .any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in &self.folders {
            // A group is busy for a moment after its last process.
            for _ in 0..100 {
                match fs::remove_dir(folder) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Removes groups whose helpers were ended from outside.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let helper = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if helper.is_some_and(|helper| !Path::new("/proc").join(helper).exists()) {
            fs::remove_dir(entry.path()).ok();
        }
    }
}
