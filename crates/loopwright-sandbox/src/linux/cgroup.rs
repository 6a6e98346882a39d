//! Control groups: kernel limits on memory and processes, if this user can create groups.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;

use crate::beneath::random;
use crate::job::LaunchRequest;
use crate::policy::{self, Limits};

/// The prefix of the names of groups; the process ID of the helper follows.
const PREFIX: &str = "loopwright-";

/// Processes and threads of the sandbox itself: its first process, that process's control thread, and its parent.
const OWN_PROCESSES: u64 = 4;

/// The groups of one command. Dropping them removes them.
#[derive(Debug)]
pub(crate) struct Groups {
    folders: Vec<Group>,
    /// The file in which the kernel counts the processes that it killed because memory ran out. `None` without a
    /// memory limit.
    memory: Option<PathBuf>,
    processes: bool,
}

#[derive(Debug)]
struct Group {
    folder: PathBuf,
    /// The original group of the helper.
    former: PathBuf,
}

/// A hierarchy of groups, as this process sees it.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    root: PathBuf,
    /// The group that this process is in.
    own: PathBuf,
}

/// Creates groups if the policy asks for them. Returns `None` if no group that limits memory can be created.
pub(crate) fn make(job: &LaunchRequest) -> Option<Groups> {
    match job.policy.cgroup {
        policy::Cgroup::Off => None,
        policy::Cgroup::IfWritable => {
            let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
            let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
            let name = format!("{PREFIX}{}-{:016x}", std::process::id(), random());
            let limits = &job.policy.limits;
            let unified = hierarchy(&mounts, &membership, None)
                .and_then(|hierarchy| Groups::unified(&hierarchy, &name, limits));
            unified.or_else(|| Groups::separate(&mounts, &membership, &name, limits))
        }
    }
}

/// Returns the hierarchy of a controller of version 1, or of version 2 if `controller` is `None`.
fn hierarchy(mounts: &str, membership: &str, controller: Option<&str>) -> Option<Hierarchy> {
    let own = membership.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let found = match controller {
            Some(wanted) => controllers.split(',').any(|one| one == wanted),
            None => controllers.is_empty(),
        };
        found.then_some(path)
    })?;
    mounts.lines().find_map(|line| {
        let (place, file_system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (shown, root) = (place.next()?, Path::new(place.next()?));
        let mut file_system = file_system.split(' ');
        let (kind, options) = (file_system.next()?, file_system.nth(1)?);
        let found = match controller {
            Some(wanted) => kind == "cgroup" && options.split(',').any(|one| one == wanted),
            None => kind == "cgroup2",
        };
        let below = Path::new(own).strip_prefix(shown).ok()?;
        found.then(|| Hierarchy { root: root.into(), own: root.join(below) })
    })
}

/// Runs `work` in new groups, if the policy asks for groups and they can be created.
pub(crate) fn around<T>(job: &LaunchRequest, work: impl FnOnce() -> T) -> (T, Option<Groups>) {
    let own = rustix::process::getpid();
    let groups = make(job).filter(|groups| groups.add(own).is_ok());
    let done = work();
    for group in groups.iter().flat_map(|groups| &groups.folders) {
        join(&group.former, own).ok();
    }
    (done, groups)
}

impl Groups {
    /// Creates one group with all controllers. It is a sibling of this process's group, because a group that
    /// contains processes passes no controllers on. It is below that group only if that is the root.
    fn unified(hierarchy: &Hierarchy, name: &str, limits: &Limits) -> Option<Self> {
        let beside = hierarchy.own.parent().filter(|parent| parent.starts_with(&hierarchy.root));
        let mut groups = Self { folders: Vec::new(), memory: None, processes: false };
        let folder = groups.add_folder(beside.unwrap_or(&hierarchy.root), name, &hierarchy.own)?;
        set(&folder, "memory.max", limits.memory).ok()?;
        set(&folder, "memory.swap.max", 0).ok();
        set(&folder, "memory.oom.group", 1).ok();
        groups.processes = set(&folder, "pids.max", with_own(limits)).is_ok();
        groups.memory = Some(folder.join("memory.events"));
        Some(groups)
    }

    /// Creates a group for each controller, below the group of this process.
    fn separate(mounts: &str, membership: &str, name: &str, limits: &Limits) -> Option<Self> {
        let mut groups = Self { folders: Vec::new(), memory: None, processes: false };
        let memory = hierarchy(mounts, membership, Some("memory"))?;
        let folder = groups.add_folder(&memory.own, name, &memory.own)?;
        set(&folder, "memory.limit_in_bytes", limits.memory).ok()?;
        set(&folder, "memory.memsw.limit_in_bytes", limits.memory).ok();
        set(&folder, "memory.kmem.tcp.limit_in_bytes", limits.memory).ok();
        groups.memory = Some(folder.join("memory.oom_control"));
        if let Some(pids) = hierarchy(mounts, membership, Some("pids"))
            && let Some(folder) = groups.add_folder(&pids.own, name, &pids.own)
        {
            groups.processes = set(&folder, "pids.max", with_own(limits)).is_ok();
        }
        Some(groups)
    }

    fn add_folder(&mut self, parent: &Path, name: &str, former: &Path) -> Option<PathBuf> {
        sweep(parent);
        let folder = parent.join(name);
        fs::create_dir(&folder).ok()?;
        self.folders.push(Group { folder: folder.clone(), former: former.into() });
        Some(folder)
    }

    /// Adds a process to the groups. The process must not have started others.
    pub(crate) fn add(&self, pid: Pid) -> io::Result<()> {
        self.folders.iter().try_for_each(|group| join(&group.folder, pid))
    }

    /// Returns `true` if the number of processes is limited as well as the memory.
    pub(crate) fn limit_processes(&self) -> bool {
        self.processes
    }

    /// Returns `true` if the kernel has killed a process because memory ran out.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let text =
            self.memory.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        text.lines()
            .any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
    }
}

fn with_own(limits: &Limits) -> u64 {
    limits.processes.saturating_add(OWN_PROCESSES)
}

/// Writes to a file that the kernel has created. A folder without this file is not a group.
fn set(folder: &Path, file: &str, value: u64) -> io::Result<()> {
    let mut file = File::options().write(true).open(folder.join(file))?;
    file.write_all(value.to_string().as_bytes())
}

fn join(folder: &Path, pid: Pid) -> io::Result<()> {
    set(folder, "cgroup.procs", u64::from(pid.as_raw_nonzero().get().unsigned_abs()))
}

impl Drop for Groups {
    fn drop(&mut self) {
        for group in &self.folders {
            // A group stays busy for a moment after its last process ends.
            for _ in 0..100 {
                match fs::remove_dir(&group.folder) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Removes groups whose helpers were killed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let helper = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if helper.is_some_and(|helper| !Path::new("/proc").join(helper).exists()) {
            fs::remove_dir(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests;
