//! Failures of a command that the sandbox certainly caused.

use std::path::{Component, Path, PathBuf};

use loopwright_sandbox::{Backend, Output, SandboxPolicy, Withheld, is_system_path};

use crate::bash::printed;

/// Where the sandbox has its own home, scratch space and devices.
const HOME: &str = "/tmp/home";
const OWN: [&str; 4] = ["/tmp", "/dev", "/proc", "/sys"];

/// What the loader says of a library that it does not find.
const NO_LIBRARY: &str = "error while loading shared libraries";

/// What every C library says if a file system cannot rename a path in place.
const NOT_IN_PLACE: &str = "cross-device link";

/// Why that is so in a folder whose changes are collected, and what to run instead.
const RENAME: &str = "the sandbox cannot rename a folder that existed before the command; copy it and remove \
    the original, as `mv A B` does; in a git repository, use `mv A B && git add -A A B`";

/// How many paths are named.
const MAX: usize = 3;

/// What programs say of a path that they cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Missing,
    Denied,
    ReadOnly,
}

/// Names what the sandbox kept a command from: paths of which the command said that they cannot be used, and renaming of
/// folders.
pub(super) fn notes(output: &Output, policy: &SandboxPolicy) -> Vec<String> {
    let mut notes: Vec<String> =
        failed_renames(output, policy).then(|| RENAME.to_owned()).into_iter().collect();
    // The other backends show more than the policy says, or have a root of their own.
    let backend = Backend::named(&output.driver);
    let shows_exactly = matches!(backend, Some(Backend::Namespaces | Backend::Bubblewrap));
    if output.outcome.is_success() || !shows_exactly {
        return notes;
    }
    notes.extend(missing_libraries(output, policy));
    let copies = if output.copied_caches { copies(policy) } else { Vec::new() };
    for text in printed(output) {
        for line in text.lines() {
            let named =
                complaint(line).and_then(|(said, path)| reason(said, &path, policy, &copies));
            if let Some(note) = named.or_else(|| hidden_in_folder(line, policy))
                && !notes.contains(&note)
                && notes.len() < MAX
            {
                notes.push(note);
            }
        }
    }
    notes
}

/// Returns `true` if a command, whatever its exit code, reported a folder that it could not rename because changes are
/// collected. Files in the folder can be renamed.
fn failed_renames(output: &Output, policy: &SandboxPolicy) -> bool {
    let is_elsewhere = |word: &str| {
        let path = Path::new(word.trim_end_matches([':', ',', ';', '.']));
        path.is_absolute() && !path.starts_with(&policy.workdir) && !is_system_path(path)
    };
    let fails = |line: &str| {
        let lower = line.to_ascii_lowercase();
        let is_hard_link = ["hard link", "hardlink"].iter().any(|it| lower.contains(it));
        lower.contains(NOT_IN_PLACE) && !is_hard_link && !words(line).any(is_elsewhere)
    };
    let [head, tail, ..] = printed(output);
    output.staged && [head, tail].iter().any(|it| it.lines().any(fails))
}

/// Names a hidden folder of libraries if a program did not start without it.
fn missing_libraries(output: &Output, policy: &SandboxPolicy) -> Vec<String> {
    let lacks = String::from_utf8_lossy(&output.stderr.head).contains(NO_LIBRARY);
    let hidden = policy.hidden.iter().filter(|it| lacks && is_system_path(it));
    let note = |it: &PathBuf| {
        let it = it.display();
        format!(
            "`{it}` is hidden in the sandbox (`sandbox.hide`); programs may need its libraries to start"
        )
    };
    hidden.take(MAX).map(note).collect()
}

/// What programs say of a path, in lower case.
const PHRASES: [(&str, Said); 3] = [
    ("no such file or directory", Said::Missing),
    ("permission denied", Said::Denied),
    ("read-only file system", Said::ReadOnly),
];

/// Returns a line without the path of the program that writes it, such as `/bin/bash: line 2: `.
fn without_program(line: &str) -> &str {
    let says_it = |text: &str| {
        let text = text.to_ascii_lowercase();
        PHRASES.iter().any(|(phrase, _)| text.starts_with(phrase))
    };
    match line.split_once(": ") {
        Some((path, rest)) if path.starts_with('/') && !says_it(rest) => rest,
        _ => line,
    }
}

/// Reads a line that says something of one path.
fn complaint(line: &str) -> Option<(Said, PathBuf)> {
    let line = without_program(line);
    let lower = line.to_ascii_lowercase();
    let (_, said) = PHRASES.into_iter().find(|(phrase, _)| lower.contains(phrase))?;
    let words = words(line).map(|it| it.trim_end_matches([':', ',', ';', '.']));
    let mut paths = words.filter(|it| it.starts_with('/')).map(Path::new);
    let path = paths.next().filter(|path| paths.all(|other| other == *path))?;
    let is_plain = path.components().all(|it| it != Component::ParentDir);
    is_plain.then(|| (said, path.to_path_buf()))
}

/// Returns the words of a line without the quotes around them.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|it: char| it.is_whitespace() || "'\"`‘’()".contains(it))
}

/// Reads a line of the form `PROGRAM: PATH: Permission denied` whose path is relative, and hidden in the folder.
fn hidden_in_folder(line: &str, policy: &SandboxPolicy) -> Option<String> {
    const DENIED: &str = ": permission denied";
    let end = line.len().checked_sub(DENIED.len())?;
    let (before, told) = line.split_at_checked(end)?;
    if !told.eq_ignore_ascii_case(DENIED) {
        return None;
    }
    let path = Path::new(before.rsplit(": ").next()?);
    let path = path.strip_prefix(".").unwrap_or(path);
    let is_plain = path.components().all(|it| matches!(it, Component::Normal(_)));
    let is_hidden = || policy.withheld(&policy.workdir.join(path)) == Some(Withheld::Hidden);
    (is_plain && is_hidden()).then(|| format!("`{}` is hidden in the sandbox", path.display()))
}

/// Returns the paths at which a command can change copies of caches, and the locks beside them.
fn copies(policy: &SandboxPolicy) -> Vec<PathBuf> {
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let paths = policy.copied_caches.iter().flat_map(|it| [&it.folder].into_iter().chain(&it.lock));
    paths.flat_map(|path| [path.clone(), real(path)]).collect()
}

/// Says what keeps a command from a path, which can change the files in `copies`. `None` means that it may be something else.
fn reason(said: Said, path: &Path, policy: &SandboxPolicy, copies: &[PathBuf]) -> Option<String> {
    let is_in = |folder: &PathBuf| path.starts_with(folder);
    let may_write = policy.write_paths.iter().chain(&policy.cache).chain(copies).any(is_in);
    let may_read = policy.read_paths.iter().any(is_in);
    let in_folder = path.strip_prefix(&policy.workdir).ok();
    // Of the folder, a command sees that a hidden path exists; elsewhere it may not.
    let may_be_hidden = said == Said::Denied || (said == Said::Missing && in_folder.is_none());
    if may_be_hidden && policy.withheld(path) == Some(Withheld::Hidden) {
        return Some(format!("`{}` is hidden in the sandbox", in_folder.unwrap_or(path).display()));
    }
    if in_folder.is_some() || may_write {
        return None;
    }
    if may_read || is_system_path(path) {
        let note = || format!("`{}` is read-only in the sandbox", path.display());
        return (said == Said::ReadOnly).then(note);
    }
    let not_visible = |shown: String| Some(format!("`{shown}` is not visible in the sandbox"));
    if let Ok(below) = path.strip_prefix(HOME) {
        let is_below = below.components().next().is_some() && said == Said::Missing;
        return if is_below { not_visible(format!("~/{}", below.display())) } else { None };
    }
    let all = policy.read_paths.iter().chain(&policy.write_paths).chain(&policy.cache);
    let all = all.chain(copies);
    let is_around = all.chain([&policy.workdir]).any(|shown| shown.starts_with(path));
    let is_own = OWN.iter().any(|own| path.starts_with(own));
    if is_around || is_own || said == Said::ReadOnly {
        return None;
    }
    not_visible(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use loopwright_sandbox::CopiedCache;

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
        for relative in [
            "cat: keys/a: Permission denied",
            "/bin/bash: line 1: ./keys/a: Permission denied",
            "cat: keys: Permission denied",
        ] {
            let path = if relative.contains("/a:") { "keys/a" } else { "keys" };
            check(relative, &[&format!("`{path}` is hidden in the sandbox")]);
        }
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
    fn the_program_that_complains_is_not_the_path_that_it_complains_about() {
        let note = ["`/usr/a` is read-only in the sandbox"];
        check("/bin/bash: line 2: /usr/a: Read-only file system", &note);
        check("/bin/sh: 1: cannot create /usr/a: Read-only file system", &note);
        check("/usr/bin/touch: cannot touch '/usr/a': Read-only file system", &note);
        check("/usr/a: Read-only file system", &note);
        check("/bin/bash: line 2: p.txt: Read-only file system", &[]);
        check("/usr/bin/touch: cannot touch 'p.txt': Read-only file system", &[]);
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
        check("cat: a: Permission denied", &[]);
        check("cat: keys/a: No such file or directory", &[]);
        check("cat: ../keys/a: Permission denied", &[]);
        check("ls: /home/me: Permission denied", &[]);
        check("cp: cannot copy '/a/b' to '/c/d': No such file or directory", &[]);
        check("cat: /srv/web/../../root/a: No such file or directory", &[]);
        check("nothing of /home/me/.aws", &[]);
    }

    #[test]
    fn a_failed_rename_of_a_folder_is_explained_where_changes_are_collected() {
        let policy = SandboxPolicy::in_dir("/srv/web");
        let explained = |code, stderr: &'static str, staged| {
            let output = Output { staged, ..Output::exited(code, "", stderr) };
            let notes = notes(&output, &policy);
            assert!(notes.is_empty() || notes == [RENAME], "{notes:?}");
            !notes.is_empty()
        };
        let renames = [
            "fatal: renaming 'inv' failed: Invalid cross-device link",
            "OSError: [Errno 18] Invalid cross-device link: 'docs' -> 'docs2'",
            "Error: EXDEV: cross-device link not permitted, rename '/srv/web/a' -> '/srv/web/b'",
            "rename a b: invalid cross-device link",
            "/usr/bin/rename: a: rename to b failed: Invalid cross-device link",
        ];
        for line in renames {
            assert_eq!([1, 0].map(|code| explained(code, line, true)), [true; 2], "{line}");
            assert!(!explained(1, line, false), "{line}");
        }
        let others = [
            "OSError: [Errno 18] Invalid cross-device link: '/tmp/docs' -> 'docs2'",
            "ln: failed to create hard link 'b' => 'a': Invalid cross-device link",
            "fatal: renaming 'inv' failed: No such file or directory",
        ];
        assert_eq!(others.map(|line| explained(1, line, true)), [false; 3]);
    }

    #[test]
    fn a_hidden_folder_of_libraries_is_named_if_a_program_lacks_one() {
        let stderr =
            "cat: error while loading shared libraries: libc.so.6: cannot open shared object file";
        let output = Output { driver: "namespaces".to_owned(), ..Output::exited(127, "", stderr) };
        let policy = SandboxPolicy::in_dir("/srv/web").hide("keys");
        assert_eq!(notes(&output, &policy), Vec::<String>::new());
        let note = "`/usr/lib` is hidden in the sandbox (`sandbox.hide`); programs may need its libraries to start";
        assert_eq!(notes(&output, &policy.hide("/usr/lib")), [note]);
    }

    #[test]
    fn a_hidden_path_is_named_relative_to_the_folder_if_it_is_in_it() {
        let policy = SandboxPolicy::in_dir("/srv/web").hide("/srv/web/keys").hide("/opt/keys");
        let reason = |said, path: &str| reason(said, Path::new(path), &policy, &[]);
        let hidden = |path: &str| Some(format!("`{path}` is hidden in the sandbox"));
        assert_eq!(reason(Said::Denied, "/srv/web/keys/a"), hidden("keys/a"));
        assert_eq!(reason(Said::Missing, "/srv/web/keys/a"), None);
        assert_eq!(reason(Said::Missing, "/opt/keys/a"), hidden("/opt/keys/a"));
        assert_eq!(reason(Said::ReadOnly, "/opt/keys/a"), None);
    }

    #[test]
    fn a_cache_that_the_command_can_change_is_not_said_to_be_denied() {
        let cache = CopiedCache {
            lock: Some("/home/me/.cargo/.package-cache".into()),
            ..CopiedCache::new("/home/me/.cargo/registry", "/layer")
        };
        let policy = SandboxPolicy::in_dir("/srv/web").read("/home/me/.cargo/registry");
        let policy = policy.with_copied_cache(cache);
        let told = |copied_caches, stderr: &'static str| {
            let output = Output::exited(1, "", stderr);
            let output = Output { driver: "namespaces".to_owned(), copied_caches, ..output };
            notes(&output, &policy)
        };
        let lines = [
            "touch: cannot touch '/home/me/.cargo/registry/a': Read-only file system",
            "cat: /home/me/.cargo/.package-cache: No such file or directory",
            "ls: /home/me/.cargo: No such file or directory",
        ];
        assert_eq!(lines.map(|it| told(true, it)), [const { Vec::<String>::new() }; 3]);
        let note = "`/home/me/.cargo/registry/a` is read-only in the sandbox";
        assert_eq!(told(false, lines[0]), [note]);
        let note = "`/home/me/.cargo/.package-cache` is not visible in the sandbox";
        assert_eq!(told(false, lines[1]), [note]);
        let hidden = policy.clone().hide("/home/me/.cargo/registry/a");
        let output = Output::exited(1, "", "cat: /home/me/.cargo/registry/a: Permission denied");
        let output = Output { driver: "namespaces".to_owned(), copied_caches: true, ..output };
        assert_eq!(
            notes(&output, &hidden),
            ["`/home/me/.cargo/registry/a` is hidden in the sandbox"]
        );
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
