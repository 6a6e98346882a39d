//! Failures of a command that the sandbox certainly caused.

use std::path::{Component, Path, PathBuf};

use loopwright_sandbox::{Backend, Output, SandboxPolicy};

/// Where the sandbox has its own home, scratch space and devices.
const HOME: &str = "/tmp/home";
const OWN: [&str; 4] = ["/tmp", "/dev", "/proc", "/sys"];

/// Folders of the system; of `/etc` a command sees parts, and which of them is not said here.
const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/etc"];

/// How many paths are named.
const MAX: usize = 3;

/// What programs say of a path that they cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Missing,
    Denied,
    ReadOnly,
}

/// Names paths of which a command said that they cannot be used, and that the policy keeps from it.
pub(super) fn notes(output: &Output, policy: &SandboxPolicy) -> Vec<String> {
    // The other backends show more than the policy says, or have a root of their own.
    let shows_exactly = [Backend::Namespaces, Backend::Bubblewrap];
    if output.outcome.is_success() || !shows_exactly.iter().any(|it| it.name() == output.driver) {
        return Vec::new();
    }
    let mut notes = Vec::new();
    for bytes in [&output.stderr.head, &output.stderr.tail, &output.stdout.head] {
        for line in String::from_utf8_lossy(bytes).lines() {
            let Some((said, path)) = complaint(line) else { continue };
            if let Some(note) = reason(said, &path, policy)
                && !notes.contains(&note)
                && notes.len() < MAX
            {
                notes.push(note);
            }
        }
    }
    notes
}

/// Reads a line that says something of one path.
fn complaint(line: &str) -> Option<(Said, PathBuf)> {
    let lower = line.to_ascii_lowercase();
    let phrases = [
        ("no such file or directory", Said::Missing),
        ("permission denied", Said::Denied),
        ("read-only file system", Said::ReadOnly),
    ];
    let (_, said) = phrases.into_iter().find(|(phrase, _)| lower.contains(phrase))?;
    let words = line.split(|it: char| it.is_whitespace() || "'\"`‘’()".contains(it));
    let words = words.map(|it| it.trim_end_matches([':', ',', ';', '.']));
    let mut paths = words.filter(|it| it.starts_with('/')).map(Path::new);
    let path = paths.next().filter(|path| paths.all(|other| other == *path))?;
    let is_plain = path.components().all(|it| it != Component::ParentDir);
    is_plain.then(|| (said, path.to_path_buf()))
}

/// Says what keeps a command from a path. `None` means that it may be something else.
fn reason(said: Said, path: &Path, policy: &SandboxPolicy) -> Option<String> {
    let is_in = |folder: &PathBuf| path.starts_with(folder);
    let may_write = policy.write_paths.iter().chain(&policy.cache).any(is_in);
    let may_read = policy.read_paths.iter().any(is_in);
    let hidden = policy.hidden.iter().any(|it| it.is_absolute() && path.starts_with(it));
    if hidden && said != Said::ReadOnly {
        return Some(format!("`{}` is hidden in the sandbox", path.display()));
    }
    if let Ok(below) = path.strip_prefix(&policy.workdir) {
        let is_hidden = policy.hidden.iter().any(|hidden| below.starts_with(hidden));
        let note = || format!("`{}` is hidden in the sandbox", below.display());
        return (is_hidden && said == Said::Denied).then(note);
    }
    if may_write {
        return None;
    }
    let is_system = SYSTEM.iter().any(|system| path.starts_with(system));
    if may_read || is_system {
        let note = || format!("`{}` is read-only in the sandbox", path.display());
        return (said == Said::ReadOnly).then(note);
    }
    let not_visible = |shown: String| Some(format!("`{shown}` is not visible in the sandbox"));
    if let Ok(below) = path.strip_prefix(HOME) {
        let is_below = below.components().next().is_some() && said == Said::Missing;
        return if is_below { not_visible(format!("~/{}", below.display())) } else { None };
    }
    let all = policy.read_paths.iter().chain(&policy.write_paths).chain(&policy.cache);
    let is_around = all.chain([&policy.workdir]).any(|shown| shown.starts_with(path));
    let is_own = OWN.iter().any(|own| path.starts_with(own));
    if is_around || is_own || said == Said::ReadOnly {
        return None;
    }
    not_visible(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stderr: &'static str, expect: &[&str]) {
        let policy = SandboxPolicy::in_dir("/srv/web").hide("keys").read("/home/me/.cargo/bin");
        let policy = policy.write("/srv/out").with_cache("/home/me/caches");
        let output = Output { driver: "namespaces".to_owned(), ..Output::exited(1, "", stderr) };
        assert_eq!(notes(&output, &policy), expect, "{stderr}");
    }

    #[test]
    fn a_denied_path_is_named_after_the_output() {
        let note = ["`/home/me/.aws/config` is not visible in the sandbox"];
        check("cat: /home/me/.aws/config: No such file or directory", &note);
        check("E: [Errno 2] No such file or directory: '/home/me/.aws/config'", &note);
        check("ENOENT: no such file or directory, open '/home/me/.aws/config'", &note);
        check(
            "cat: /tmp/home/.ssh/id: No such file or directory",
            &["`~/.ssh/id` is not visible in the sandbox"],
        );
        check("cat: /srv/web/keys/a: Permission denied", &["`keys/a` is hidden in the sandbox"]);
        check(
            "touch: cannot touch '/usr/a': Read-only file system",
            &["`/usr/a` is read-only in the sandbox"],
        );
        check(
            "touch: cannot touch '/home/me/.cargo/bin/a': Read-only file system",
            &["`/home/me/.cargo/bin/a` is read-only in the sandbox"],
        );
    }

    #[test]
    fn a_failure_with_another_possible_cause_names_no_denied_path() {
        check("cat: /srv/web/a: No such file or directory", &[]);
        check("cat: /srv/out/a: Permission denied", &[]);
        check("cat: /home/me/caches/a: No such file or directory", &[]);
        check("cat: /home/me/.cargo/bin/a: No such file or directory", &[]);
        check("cat: /usr/lib/a: No such file or directory", &[]);
        check("cat: /etc/a: No such file or directory", &[]);
        check("cat: /tmp/a: No such file or directory", &[]);
        check("cat: a: No such file or directory", &[]);
        check("ls: /home/me: Permission denied", &[]);
        check("cp: cannot copy '/a/b' to '/c/d': No such file or directory", &[]);
        check("cat: /srv/web/../../root/a: No such file or directory", &[]);
        check("nothing of /home/me/.aws", &[]);
    }

    #[test]
    fn no_denied_path_is_named_if_commands_see_more_than_the_policy_says() {
        let stderr = "cat: /home/me/.aws/config: No such file or directory";
        for driver in ["landlock", "docker", "host"] {
            let output = Output { driver: driver.to_owned(), ..Output::exited(1, "", stderr) };
            assert_eq!(
                notes(&output, &SandboxPolicy::in_dir("/srv")),
                Vec::<String>::new(),
                "{driver}"
            );
        }
    }
}
