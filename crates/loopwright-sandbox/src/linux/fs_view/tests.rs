use std::os::unix::fs::symlink;

use super::*;
use crate::policy::{Backend, SandboxPolicy};
use crate::screen::UserSettings;

pub(crate) fn job(policy: SandboxPolicy) -> LaunchRequest {
    LaunchRequest {
        backend: Backend::Namespaces,
        argv: vec!["true".into()],
        env: Vec::new(),
        policy,
        home: Some("/home/somebody".into()),
        settings: UserSettings::default(),
        program: None,
        container: None,
        client_env: Vec::new(),
    }
}

/// A folder to work in, with these files.
pub(crate) fn folder(files: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    folder
}

fn parts(view: &View) -> Vec<(String, Covered)> {
    let part = |entry: &Entry| match &entry.seen {
        Seen::Part { covered, .. } => {
            Some((entry.at.strip_prefix(&view.workdir).unwrap().display().to_string(), *covered))
        }
        _ => None,
    };
    view.entries.iter().filter_map(part).collect()
}

#[test]
fn folders_on_the_way_to_what_is_protected_are_pinned_before_it() {
    let folder = folder(&[".git/hooks/a", ".git/config", ".env"]);
    let view = View::of(&job(SandboxPolicy::in_dir(folder.path()).hide(".env"))).unwrap();
    assert_eq!(
        parts(&view),
        [
            (".git".to_owned(), Covered::Pinned),
            (".env".to_owned(), Covered::Hidden),
            (".git/hooks".to_owned(), Covered::Protected),
            (".git/config".to_owned(), Covered::Protected),
        ]
    );
}

#[test]
fn the_target_of_a_system_link_is_mounted_once() {
    let folder = folder(&["lib/a"]);
    let real = fs::canonicalize(folder.path()).unwrap();
    let (link, lib) = (real.join("link"), real.join("lib"));
    symlink("lib", &link).unwrap();
    let at = |entries: &[Entry]| entries.iter().map(|it| it.at.clone()).collect::<Vec<_>>();
    let seen = |at: &Path, seen| Entry { at: at.into(), seen };
    let mut entries = Vec::new();
    add_system(&mut entries, &link);
    let system = Seen::System(Shape::Folder);
    let expect = [seen(&link, Seen::Link("lib".into())), seen(&lib, system.clone())];
    assert_eq!(entries, expect);
    // A link shows nothing of what it leads to, a folder does.
    let mut entries = vec![seen(&real, Seen::Link("/elsewhere".into()))];
    add_system(&mut entries, &link);
    assert_eq!(at(&entries), [real.clone(), link.clone(), lib]);
    let mut entries = vec![seen(&real, system)];
    add_system(&mut entries, &link);
    assert_eq!(at(&entries), [real, link]);
}

#[test]
fn a_symbolic_link_within_a_path_is_refused() {
    let folder = folder(&[]);
    symlink("/tmp", folder.path().join(".git")).unwrap();
    let Err(Refusal::Policy(reason)) = View::of(&job(SandboxPolicy::in_dir(folder.path()))) else {
        panic!()
    };
    assert!(reason.contains(".git is a symbolic link"), "{reason}");
}

#[test]
fn the_system_is_read_only_and_the_folder_is_not() {
    let folder = folder(&[]);
    let view = View::of(&job(SandboxPolicy::in_dir(folder.path()))).unwrap();
    let at = |path: &Path| view.entries.iter().find(|entry| entry.at == path).unwrap();
    assert_eq!(at(Path::new("/usr")).seen, Seen::System(Shape::Folder));
    assert_eq!(at(&view.workdir).seen, Seen::Writable(Shape::Folder));
    assert!(
        !view
            .entries
            .iter()
            .any(|entry| entry.at.starts_with("/root") || entry.at == Path::new("/etc"))
    );
}

#[test]
fn broad_folders_and_the_home_of_the_agent_are_refused() {
    for path in ["/", "/usr", "/var", "/home"] {
        assert!(not_broad(Path::new(path), None).is_err(), "{path}");
    }
    let home = Some(Path::new("/srv/people/me"));
    for path in ["/srv/people/me", "/srv/people"] {
        assert!(not_broad(Path::new(path), home).is_err(), "{path}");
    }
    not_broad(Path::new("/srv/people/me/project"), home).unwrap();
    not_broad(Path::new("/var/lib/project"), home).unwrap();
}

#[test]
fn absolute_paths_are_covered_in_their_place_only() {
    let (folder, other) = (folder(&["a/key", "b/a/key", "set/own"]), folder(&["own/a"]));
    let at = |of: &tempfile::TempDir, name: &str| fs::canonicalize(of.path()).unwrap().join(name);
    let policy = SandboxPolicy::in_dir(folder.path())
        .hide(at(&folder, "a/key"))
        .protect(at(&folder, "set/own"))
        .hide("/srv/elsewhere");
    let view = View::of(&job(policy)).unwrap();
    assert_eq!(
        parts(&view),
        [
            ("set".to_owned(), Covered::Pinned),
            ("a".to_owned(), Covered::Pinned),
            ("set/own".to_owned(), Covered::Protected),
            ("a/key".to_owned(), Covered::Hidden),
        ]
    );
    // Also in a folder beside the working folder, and in one that is only read.
    for policy in [
        SandboxPolicy::in_dir(folder.path()).write(other.path()),
        SandboxPolicy::in_dir(folder.path()).read(other.path()),
    ] {
        let own = at(&other, "own");
        let view = View::of(&job(policy.hide(&own))).unwrap();
        let covered = view.entries.iter().find(|it| it.at == own).map(|it| &it.seen);
        let hidden = |it: &Seen| matches!(it, Seen::Part { covered: Covered::Hidden, .. });
        assert!(covered.is_some_and(hidden), "{covered:?}");
    }
}

#[test]
fn nothing_is_pinned_in_a_folder_that_is_read_only_or_whose_changes_are_collected() {
    let (folder, staging) = (folder(&["a/key", "web/out/x"]), folder(&[]));
    let policy = || SandboxPolicy::in_dir(folder.path()).hide("a/key");
    let view = View::of(&job(policy().read_only())).unwrap();
    assert_eq!(parts(&view), [("a/key".to_owned(), Covered::Hidden)]);
    let staging = Some(staging.path().to_path_buf());
    let policy = SandboxPolicy { staging, ..policy().with_direct_path("web/out") };
    let view = View::of(&job(policy)).unwrap();
    let expect = [("web/out".to_owned(), Covered::Direct), ("a/key".to_owned(), Covered::Hidden)];
    assert_eq!(parts(&view), expect);
}
