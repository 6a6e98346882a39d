//! Limits on resources that a user shares among all programs, such as watched files. The kernel
//! keeps these limits for each user namespace, and only a process with capabilities in it can set
//! them.

use std::fs;
use std::io;
use std::path::Path;

use super::filter::Kernel;

/// Instances and watches of inotify: a quarter of the user's, so that three commands leave some to other programs,
/// and at most these. A program that watches files needs one instance, and a watch for each folder.
const WATCHES: [(&str, &str, u64); 2] = [
    ("user/max_inotify_instances", "fs/inotify/max_user_instances", 64),
    ("user/max_inotify_watches", "fs/inotify/max_user_watches", 65_536),
];

/// Namespaces that a command could create. The system call filter refuses them as well. Mount namespaces are
/// excluded, because the root is not finished yet, and building its mounts uses some.
const NAMESPACES: [&str; 7] = ["user", "pid", "net", "ipc", "uts", "cgroup", "time"];

/// Sets the limits of this process's user namespace through `/proc/sys`. If that fails, the filter must refuse
/// these calls.
pub(crate) fn limit(settings: &Path) -> Kernel {
    for name in NAMESPACES {
        fs::write(settings.join(format!("user/max_{name}_namespaces")), "0").ok();
    }
    let set = |(own, users, most): (&str, &str, u64)| -> io::Result<()> {
        let all = fs::read_to_string(settings.join(users)).ok();
        let all = all.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(most);
        fs::write(settings.join(own), (all / 4).clamp(1, most).to_string())
    };
    match WATCHES.into_iter().try_for_each(set) {
        Ok(()) => Kernel::Own,
        Err(_) => Kernel::Users,
    }
}
