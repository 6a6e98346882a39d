use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;
use crate::policy::SandboxPolicy;
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
            (".env".to_owned(), Covered::Hidden),
            (".git".to_owned(), Covered::Pinned),
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
fn broad_folders_are_refused_and_what_is_named_inside_a_system_or_hidden_folder_is_not() {
    let home = Path::new("/srv/people/me");
    // The folder, and whether it is refused as the working folder and as a path that was named.
    let cases = [
        ("/", true, true),
        ("/usr", true, true),
        ("/var", true, true),
        ("/home", true, true),
        ("/srv/people", true, true),
        ("/srv/people/me", true, true),
        ("/etc/cron.d", true, false),
        ("/srv/people/me/.config/app", true, false),
        ("/srv/people/me/project", false, false),
        ("/var/lib/project", false, false),
    ];
    for (path, as_workdir, as_named) in cases {
        let path = Path::new(path);
        let refused = [path, Path::new("/srv/project")]
            .map(|workdir| not_broad(path, workdir, Some(home)).is_err());
        assert_eq!(refused, [as_workdir, as_named], "{}", path.display());
    }
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
            ("a".to_owned(), Covered::Pinned),
            ("set".to_owned(), Covered::Pinned),
            ("a/key".to_owned(), Covered::Hidden),
            ("set/own".to_owned(), Covered::Protected),
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
    let expect = [("a/key".to_owned(), Covered::Hidden), ("web/out".to_owned(), Covered::Direct)];
    assert_eq!(parts(&view), expect);
}

/// A path below another, and what is mounted of both where commands write directly and where changes are collected.
#[test]
fn a_path_below_another_never_opens_it_again() {
    type Parts<'a> = &'a [(&'a str, Covered)];

    let folder = folder(&["a/b/c/x", "a/d"]);
    let staging = self::folder(&[]);
    let root = fs::canonicalize(folder.path()).unwrap();
    let at = |name: &str| root.join(name);
    let policy = || SandboxPolicy::in_dir(folder.path());
    let staged = |policy| SandboxPolicy { staging: Some(staging.path().into()), ..policy };
    let (h, p, d) = (Covered::Hidden, Covered::Protected, Covered::Direct);
    let pin = Covered::Pinned;
    let cases: [(&str, SandboxPolicy, Parts<'_>); 14] = [
        ("hidden in hidden", policy().hide("a/b").hide("a"), &[("a", h)]),
        ("the same twice", policy().hide("a").protect("a").hide(at("a")), &[("a", h)]),
        ("protected in hidden", policy().protect("a/b").hide("a"), &[("a", h)]),
        ("hidden in protected", policy().hide("a/b/c").protect("a"), &[("a", p), ("a/b/c", h)]),
        (
            "protected in protected",
            policy().protect("a/b/c").protect("a/b"),
            &[("a", pin), ("a/b", p)],
        ),
        ("exact in name", policy().protect(at("a/b/c")).protect("a"), &[("a", p)]),
        (
            "written in a name",
            policy().protect("a").write(at("a/b")).protect("c"),
            &[("a", p), ("a/b/c", p)],
        ),
        ("staged hidden", staged(policy().hide("a/b").hide("a/b/c")), &[("a/b", h)]),
        ("staged name", staged(policy().protect("a/b")), &[]),
        (
            "staged exact",
            staged(policy().protect(at("a/b")).hide("a/b/c")),
            &[("a/b", p), ("a/b/c", h)],
        ),
        ("direct in a name", staged(policy().protect("a").with_direct_path("a/b")), &[]),
        ("direct name", staged(policy().protect("a/b").with_direct_path("a/b")), &[]),
        ("direct in exact", staged(policy().protect(at("a")).with_direct_path("a/b")), &[("a", p)]),
        (
            "protected in direct",
            staged(policy().protect("a/b/c/x").with_direct_path("a")),
            &[("a", d), ("a/b", pin), ("a/b/c", pin), ("a/b/c/x", p)],
        ),
    ];
    for (case, policy, expect) in cases {
        let found = parts(&View::of(&job(policy)).unwrap());
        let found: Vec<_> = found.iter().map(|(at, covered)| (at.as_str(), *covered)).collect();
        assert_eq!(found, expect, "{case}");
    }
}

#[test]
fn hidden_and_protected_paths_win_over_paths_that_are_read_and_written() {
    let (folder, other) = (folder(&["x"]), folder(&["own/a/x", "set/a/x"]));
    let real = fs::canonicalize(other.path()).unwrap();
    let at = |name: &str| real.join(name);
    let kept = |policy: SandboxPolicy| policy.hide(at("own")).protect(at("set"));
    let seen = |policy| {
        let view = View::of(&job(policy)).unwrap();
        let below = view.entries.into_iter().filter_map(|it| {
            Some((it.at.strip_prefix(&real).ok()?.display().to_string(), it.seen))
        });
        (below.collect::<Vec<_>>(), view.writable.len())
    };
    let readable = |name: &str| (name.to_owned(), Seen::Readable(Shape::Folder));
    let policy = || SandboxPolicy::in_dir(folder.path());
    let added = |policy: SandboxPolicy| {
        let policy = policy.read(at("own")).read(at("own/a")).write(at("own/a"));
        policy.write(at("set")).write(at("set/a"))
    };
    // Whichever is added first.
    let expect = (vec![readable("set"), readable("set/a")], 1);
    assert_eq!(seen(added(kept(policy()))), expect);
    assert_eq!(seen(kept(added(policy()))), expect);
    // The working folder itself.
    let inside = |name: &str| kept(SandboxPolicy::in_dir(at(name)));
    assert_eq!(seen(inside("set/a")), (vec![readable("set/a")], 0));
    let Err(Refusal::Policy(reason)) = View::of(&job(inside("own/a"))) else { panic!() };
    assert!(reason.contains("is hidden from them"), "{reason}");
}

#[test]
fn a_path_that_is_shown_as_a_whole_is_hidden_as_a_whole() {
    let (folder, other) = (folder(&["x"]), folder(&["y"]));
    let real = fs::canonicalize(other.path()).unwrap();
    let hosts = Path::new("/etc/hosts");
    let policy = SandboxPolicy::in_dir(folder.path()).read(&real).hide(hosts).hide(&real);
    let view = View::of(&job(policy)).unwrap();
    let seen = |path: &Path| view.entries.iter().rfind(|it| it.at == path);
    let hidden = |it: &Entry| matches!(it.seen, Seen::Part { covered: Covered::Hidden, .. });
    assert!(seen(hosts).is_some_and(hidden), "{:?}", seen(hosts));
    assert!(seen(&real).is_none_or(hidden), "{:?}", seen(&real));
}

#[test]
fn a_hidden_link_hides_what_it_leads_to() {
    let folder = folder(&["real/key"]);
    symlink("real", folder.path().join("link")).unwrap();
    let view = View::of(&job(SandboxPolicy::in_dir(folder.path()).hide("link/key"))).unwrap();
    let expect = [("real".to_owned(), Covered::Pinned), ("real/key".to_owned(), Covered::Hidden)];
    assert_eq!(parts(&view), expect);
}

#[test]
fn a_protected_path_that_has_become_a_link_protects_what_it_leads_to() {
    let (folder, other) = (folder(&[]), folder(&["real/a"]));
    let real = fs::canonicalize(other.path()).unwrap();
    symlink("real", real.join("set")).unwrap();
    let policy = SandboxPolicy::in_dir(folder.path()).write(real.join("real"));
    let view = View::of(&job(policy.protect(real.join("set/a")))).unwrap();
    let covered = view.entries.iter().find(|it| it.at == real.join("real/a")).map(|it| &it.seen);
    let protected = |it: &Seen| matches!(it, Seen::Part { covered: Covered::Protected, .. });
    assert!(covered.is_some_and(protected), "{covered:?}");
}

#[test]
fn the_whole_file_system_cannot_be_shown() {
    let folder = folder(&[]);
    let job = job(SandboxPolicy::in_dir(folder.path()).read("/"));
    let Err(Refusal::Policy(reason)) = View::of(&job) else { panic!() };
    assert!(reason.contains("cannot have read access to `/`"), "{reason}");
    View::of(&LaunchRequest { backend: Backend::Landlock, ..job }).unwrap();
}

/// What a command can do with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Nothing,
    Read,
    Collected,
    Write,
}

/// The access that the documentation of [`SandboxPolicy`] promises for a path in its folder.
fn promised(policy: &SandboxPolicy, path: &Path) -> Access {
    let is_in = |it: &PathBuf| path.starts_with(policy.workdir.join(it));
    if policy.hidden.iter().any(is_in) {
        return Access::Nothing;
    }
    let (exact, names): (Vec<_>, Vec<_>) = policy.protected.iter().partition(|it| it.is_absolute());
    let is_exact = |path: &Path| exact.iter().any(|it| path.starts_with(it));
    if is_exact(path) {
        return Access::Read;
    }
    let depth = |it: &&PathBuf| it.components().count();
    let read = policy.read_paths.iter().filter(|it| path.starts_with(it)).max_by_key(depth);
    let written = || policy.write_paths.iter().chain([&policy.workdir]);
    let Some(root) = written().filter(|it| path.starts_with(it)).max_by_key(depth) else {
        panic!()
    };
    if read.is_some_and(|it| depth(&it) > depth(&root)) {
        return Access::Read;
    }
    let writable = written().filter(|it| {
        !is_exact(it) && !policy.hidden.iter().any(|h| it.starts_with(policy.workdir.join(h)))
    });
    let protected: Vec<PathBuf> =
        writable.flat_map(|it| names.iter().map(|name| it.join(name))).collect();
    let is_protected = protected.iter().any(|it| path.starts_with(it) && it.starts_with(root));
    if policy.staging.is_none() || *root != policy.workdir {
        return if is_protected { Access::Read } else { Access::Write };
    }
    let screened = |it: &Path| protected.iter().any(|protected| it.starts_with(protected));
    let direct = policy
        .direct
        .iter()
        .map(|it| root.join(it))
        .find(|it| path.starts_with(it) && !screened(it));
    match direct {
        Some(_) if is_protected => Access::Read,
        Some(_) => Access::Write,
        None => Access::Collected,
    }
}

/// The access that the mounts of a view give: that of the innermost one.
fn given(view: &View, path: &Path) -> Access {
    let holding = view.entries.iter().filter(|it| it.shape().is_some() && path.starts_with(&it.at));
    let innermost = holding.max_by_key(|it| it.at.components().count()).unwrap();
    match &innermost.seen {
        Seen::Part { covered: Covered::Hidden, .. } => Access::Nothing,
        Seen::Writable(_)
            if innermost.at == view.workdir && view.entries[0].seen == Seen::Staging =>
        {
            Access::Collected
        }
        _ if innermost.read_only() => Access::Read,
        _ => Access::Write,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn each_path_has_the_access_that_the_strictest_field_gives_it(
        is_staged: bool,
        fields in proptest::collection::vec((0..7_u8, "[ab](/[ab]){0,2}"), 0..6),
    ) {
        let (folder, staging) = (folder(&[]), folder(&[]));
        let root = fs::canonicalize(folder.path()).unwrap();
        let paths = ["a/a/a", "a/a/b", "a/b/a", "a/b/b", "b/a/a", "b/a/b", "b/b/a", "b/b/b"].map(Path::new);
        for path in paths {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        let mut policy = SandboxPolicy { protected: Vec::new(), ..SandboxPolicy::in_dir(&root) };
        policy.staging = is_staged.then(|| staging.path().to_path_buf());
        for (field, path) in &fields {
            let exact = root.join(path);
            policy = match field {
                0 => policy.hide(path),
                1 => policy.hide(exact),
                2 => policy.protect(path),
                3 => policy.protect(exact),
                4 => policy.read(exact),
                5 => policy.write(exact),
                _ => policy.with_direct_path(path),
            };
        }
        let view = View::of(&job(policy.clone())).unwrap();
        for path in paths.into_iter().flat_map(Path::ancestors) {
            let path = root.join(path);
            prop_assert_eq!(given(&view, &path), promised(&policy, &path), "{:?} of {:?}", path, view);
        }
        // Where the innermost folder is hidden, nothing is mounted.
        for entry in &view.entries {
            let around = view.entries.iter().filter(|it| entry.at != it.at && entry.at.starts_with(&it.at));
            let hidden = |it: &Seen| matches!(it, Seen::Part { covered: Covered::Hidden, .. });
            prop_assert!(around.into_iter().all(|it| !hidden(&it.seen)), "{:?}", view);
        }
    }
}
