use super::super::fs_view::tests::{folder, job};
use super::*;
use crate::policy::SandboxPolicy;

fn text(policy: SandboxPolicy) -> Vec<String> {
    let job = job(policy);
    let view = View::of(&job).unwrap();
    let arguments = arguments(&job, &view, Path::new("/opt/helper"));
    arguments.into_iter().map(|argument| argument.into_string().unwrap()).collect()
}

fn position(arguments: &[String], wanted: &[&str]) -> usize {
    let found = arguments.windows(wanted.len()).position(|window| window == wanted);
    found.unwrap_or_else(|| panic!("{wanted:?} is not among {arguments:?}"))
}

#[test]
fn a_mount_that_covers_another_follows_it() {
    let folder = folder(&[".git/hooks/a", ".env"]);
    let work = fs::canonicalize(folder.path()).unwrap().display().to_string();
    let (git, hooks, env) =
        (format!("{work}/.git"), format!("{work}/.git/hooks"), format!("{work}/.env"));
    let arguments = text(SandboxPolicy::in_dir(folder.path()).hide(".env"));
    let order = [
        position(&arguments, &["--tmpfs", "/tmp"]),
        position(&arguments, &["--proc", "/proc"]),
        position(&arguments, &["--ro-bind", "/proc/sys", "/proc/sys"]),
        position(&arguments, &["--bind", &work, &work]),
        position(&arguments, &["--bind", &git, &git]),
        position(&arguments, &["--ro-bind", &hooks, &hooks]),
        position(&arguments, &["--remount-ro", "/"]),
        position(&arguments, &["--", "/loopwright-sandbox-helper", "stage"]),
    ];
    assert!(order.is_sorted(), "{order:?}");
    assert!(position(&arguments, &["--ro-bind", "/dev/null", &env]) > order[3]);
}

#[test]
fn neither_the_root_of_the_host_nor_its_processes_are_shown() {
    let folder = folder(&[]);
    let arguments = text(SandboxPolicy::in_dir(folder.path()));
    assert!(!arguments.windows(2).any(|pair| pair == ["/", "/"]));
    for option in
        ["--unshare-user", "--unshare-pid", "--unshare-net", "--new-session", "--die-with-parent"]
    {
        position(&arguments, &[option]);
    }
    position(&arguments, &["--cap-drop", "ALL"]);
}

#[test]
fn the_network_is_shared_only_on_request_and_no_variable_is_an_argument() {
    let folder = folder(&[]);
    let policy = SandboxPolicy::in_dir(folder.path())
        .with_network(Network::Host)
        .with_env("TOKEN", "secret");
    let arguments = text(policy);
    assert!(
        !arguments
            .iter()
            .any(|argument| argument == "--unshare-net" || argument.contains("secret"))
    );
}

#[test]
fn more_paths_than_bubblewrap_takes_are_refused_with_their_number() {
    let folder = folder(&[]);
    let job = job(SandboxPolicy::in_dir(folder.path()));
    let mut view = View::of(&job).unwrap();
    let own = Path::new("/opt/helper");
    assert_eq!(within_limit(&arguments(&job, &view, own), &view), Ok(()));
    let part = |number: usize| Entry {
        at: view.workdir.join(number.to_string()),
        seen: Seen::Part {
            root: view.workdir.clone(),
            shape: Shape::File,
            covered: Covered::Hidden,
        },
    };
    let parts: Vec<Entry> = (0..3000).map(part).collect();
    view.entries = parts;
    let refused = within_limit(&arguments(&job, &view, own), &view);
    let Err(Refusal::Policy(reason)) = refused else { panic!("{refused:?}") };
    let start = "bubblewrap takes at most 9000 arguments, and the 3000 paths of this command need ";
    assert!(reason.starts_with(start), "{reason}");
}
