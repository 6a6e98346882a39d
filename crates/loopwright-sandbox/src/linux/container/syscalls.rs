//! The system calls that a container of Podman may not make.
//!
//! Podman's own profile allows what containers in containers need: user namespaces, in which most of the kernel can be
//! reached, and looking into other processes. A command needs neither. Docker's profile is part of its daemon, and refuses
//! namespaces by itself.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

/// Where Podman finds its profile, the administrator's first.
const PROFILES: [&str; 2] = ["/etc/containers/seccomp.json", "/usr/share/containers/seccomp.json"];

/// Where an administrator or a user may name another profile, which counts then.
const CONFIGURATIONS: [&str; 2] = ["/etc/containers/containers.conf", "containers/containers.conf"];

/// Refused whatever the arguments are.
const REFUSED: [&str; 27] = [
    "add_key",
    "bpf",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "kcmp",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "request_key",
    "setns",
    "umount",
    "umount2",
    "userfaultfd",
];

/// Make user namespaces, by a flag in their first argument.
const BY_FLAG: [&str; 2] = ["clone", "unshare"];

/// Has its flags in memory, where a filter cannot see them. Without it, programs use `clone`.
const CLONE3: &str = "clone3";

const CLONE_NEWUSER: u64 = 0x1000_0000;
const EPERM: i32 = 1;
const ENOSYS: i32 = 38;

/// Writes the profile of a command to a file. `None` means that Podman's is not there, or that another was chosen.
pub(super) fn write_profile(
    home: Option<&Path>,
    configuration: Option<&Path>,
    path: &Path,
) -> io::Result<Option<()>> {
    let own = configuration.map(Path::to_owned).or_else(|| Some(home?.join(".config")));
    let own = own.map(|folder| folder.join(CONFIGURATIONS[1]));
    let mut configurations = own.into_iter().chain([PathBuf::from(CONFIGURATIONS[0])]);
    if configurations.any(|path| fs::read_to_string(path).is_ok_and(|text| names_profile(&text))) {
        return Ok(None);
    }
    let Some(text) = PROFILES.iter().find_map(|path| fs::read(path).ok()) else { return Ok(None) };
    let Some(profile) = serde_json::from_slice(&text).ok().and_then(tightened) else {
        return Ok(None);
    };
    fs::write(path, profile.to_string()).map(Some)
}

/// Returns `true` if a configuration of containers names a profile.
fn names_profile(configuration: &str) -> bool {
    configuration.lines().any(|line| line.trim_start().starts_with("seccomp_profile"))
}

/// Takes calls from a profile. `None` means that it is none.
fn tightened(mut profile: Value) -> Option<Value> {
    let is_refused =
        |name: &str| REFUSED.contains(&name) || BY_FLAG.contains(&name) || name == CLONE3;
    let rules = profile.get_mut("syscalls")?.as_array_mut()?;
    for rule in rules.iter_mut() {
        let names = rule.get_mut("names")?.as_array_mut()?;
        names.retain(|name| !name.as_str().is_some_and(is_refused));
    }
    rules.retain(|rule| rule["names"].as_array().is_some_and(|names| !names.is_empty()));
    let by_flag = |action: &str, value: u64| {
        let args = [json!({
            "index": 0, "value": CLONE_NEWUSER, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ",
        })];
        json!({ "names": BY_FLAG, "action": action, "errnoRet": EPERM, "args": args })
    };
    let mut allowed = by_flag("SCMP_ACT_ALLOW", 0);
    allowed.as_object_mut()?.remove("errnoRet");
    rules.extend([
        json!({ "names": REFUSED, "action": "SCMP_ACT_ERRNO", "errnoRet": EPERM }),
        json!({ "names": [CLONE3], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS }),
        allowed,
        by_flag("SCMP_ACT_ERRNO", CLONE_NEWUSER),
    ]);
    Some(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_loses_what_looks_into_processes_and_makes_user_namespaces() {
        let profile = json!({
            "defaultAction": "SCMP_ACT_ERRNO",
            "syscalls": [
                { "names": ["read", "ptrace", "clone", "clone3", "unshare"], "action": "SCMP_ACT_ALLOW" },
                { "names": ["setns", "bpf"], "action": "SCMP_ACT_ALLOW", "includes": { "caps": ["CAP_SYS_ADMIN"] } },
                { "names": ["setns"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1 },
            ],
        });
        let profile = tightened(profile).unwrap();
        let rules = profile["syscalls"].as_array().unwrap();
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
        assert_eq!(rules[0]["names"], json!(["read"]));
        assert_eq!(rules.len(), 5);
        let allowed: Vec<_> = rules.iter().filter(|it| it["action"] == "SCMP_ACT_ALLOW").collect();
        assert_eq!(allowed.len(), 2);
        assert_eq!(allowed[1]["names"], json!(["clone", "unshare"]));
        let arg = &allowed[1]["args"][0];
        assert_eq!((&arg["value"], &arg["valueTwo"]), (&json!(CLONE_NEWUSER), &json!(0)));
    }

    #[test]
    fn a_file_that_is_no_seccomp_profile_is_left_alone() {
        for text in ["{}", "[]", r#"{"syscalls":[{}]}"#, r#"{"syscalls":{}}"#] {
            assert_eq!(tightened(serde_json::from_str(text).unwrap()), None, "{text}");
        }
    }

    #[test]
    fn a_profile_that_was_chosen_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("containers/containers.conf");
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, "[containers]\n  seccomp_profile = \"/a\"\n").unwrap();
        let out = folder.path().join("out");
        assert_eq!(write_profile(None, Some(folder.path()), &out).unwrap(), None);
        assert!(!out.exists());
        assert!(!names_profile("# seccomp_profile = \"/a\"\n"));
    }
}
