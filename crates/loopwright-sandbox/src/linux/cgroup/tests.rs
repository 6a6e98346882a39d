//! Where groups are found, and what is none.

use std::path::Path;

use super::{Groups, Hierarchy, hierarchy, set};
use crate::policy::Limits;

const MOUNTS: &str = "\
30 1 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 30 0:27 /outer /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids
33 30 0:28 / /sys/fs/cgroup/unified rw shared:3 - cgroup2 cgroup2 rw
";
const MEMBERSHIP: &str = "8:pids:/outer/a\n4:cpu,memory:/b/c\n0::/d\n";

#[test]
fn the_group_of_this_process_is_found_in_each_hierarchy() {
    let found = |controller| hierarchy(MOUNTS, MEMBERSHIP, controller);
    let at = |root: &str, own: &str| Some(Hierarchy { root: root.into(), own: own.into() });
    assert_eq!(found(Some("memory")), at("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/b/c"));
    assert_eq!(found(Some("pids")), at("/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids/a"));
    assert_eq!(found(None), at("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/d"));
    assert_eq!(found(Some("rdma")), None);
}

#[test]
fn a_group_that_is_not_below_what_is_mounted_is_not_found() {
    assert_eq!(hierarchy(MOUNTS, "8:pids:/other\n", Some("pids")), None);
}

#[test]
fn an_ordinary_folder_is_no_group() {
    let folder = tempfile::tempdir().unwrap();
    let hierarchy = Hierarchy { root: folder.path().into(), own: folder.path().into() };
    let groups = Groups::unified(&hierarchy, "loopwright-0-0", &Limits::default());
    assert!(groups.is_none(), "{groups:?}");
    assert!(set(folder.path(), "memory.max", 1).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(!Path::new("/sys/fs/cgroup/loopwright-0-0").exists());
}
