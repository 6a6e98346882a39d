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
