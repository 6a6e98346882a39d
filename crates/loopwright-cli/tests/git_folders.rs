//! Git in worktrees and subfolders in which an agent is started.

use std::path::Path;
use std::process::Command;

use crate::server::{Server, streamed, streamed_call};
use crate::world::{Done, World};

const MODEL: [&str; 4] = ["run", "-m", "openai-compatible/test", "--base-url"];

/// Runs git as the user does, and returns what it prints.
fn git(folder: &Path, line: &[&str]) -> String {
    let mut git = Command::new("git");
    for name in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{name}_NAME"), "u").env(format!("GIT_{name}_EMAIL"), "u@localhost");
    }
    let git = git.args(line).current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = git.output().unwrap();
    assert!(output.status.success(), "{line:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A repository `main` with one commit, and its worktree `tree`.
fn world() -> World {
    let world = World::new().file("main/a.txt", "one\n").file("main/sub/b.txt", "two\n");
    let main = world.path("main");
    git(&main, &["init", "--quiet"]);
    git(&main, &["add", "."]);
    git(&main, &["commit", "--quiet", "-m", "first"]);
    git(&main, &["worktree", "add", "--quiet", "../tree"]);
    world
}

/// Lets an agent run one command in a folder.
fn run(world: &World, folder: &str, options: &[&str], command: &str) -> Done {
    let server = Server::start([streamed_call("", command), streamed("Done.", "stop")]);
    let rest = ["--allow", "Bash", "--permission-mode", "accept-edits", "-C", folder];
    world.run(&[&MODEL[..], &[&server.url], &rest, options, &["Go."]].concat())
}

#[test]
fn commands_in_a_worktree_read_the_repository_and_the_run_says_that_they_cannot_commit() {
    let world = world();
    let command = "git log --format=%s > log; git status --porcelain >> log; echo more >> a.txt; git diff --stat >> log; \
                   git add a.txt && git -c user.name=a -c user.email=a commit -qm second; cat ../main/.git/config > config";
    let done = run(&world, "../tree", &[], command);
    assert_eq!(done.status, 0, "{done:?}");
    let log = std::fs::read_to_string(world.path("tree/log")).unwrap();
    assert!(log.starts_with("first\n?? log\n a.txt | 1 +\n"), "{log}");
    let note = "commands can read the repository of this git worktree, /main/.git, but cannot commit; to allow commits, pass `--add-dir /main`\n";
    assert!(done.stderr.contains(note), "{}", done.stderr);
    assert_eq!(git(&world.path("main"), &["log", "--all", "--format=%s"]), "first\n");
    assert_eq!(std::fs::read_to_string(world.path("tree/config")).unwrap_or_default(), "");
}

#[test]
fn with_the_repository_as_an_added_folder_commits_in_a_worktree_are_kept() {
    let world = world();
    let command =
        "echo more >> a.txt; git add a.txt && git -c user.name=a -c user.email=a commit -qm second";
    let done = run(&world, "../tree", &["--add-dir", "../main"], command);
    assert_eq!(done.status, 0, "{done:?}");
    assert!(!done.stderr.contains("cannot commit"), "{}", done.stderr);
    let tree = world.path("tree");
    assert_eq!(git(&tree, &["log", "--format=%s"]), "second\nfirst\n", "{done:?}");
    assert_eq!(git(&tree, &["status", "--porcelain"]), "", "{done:?}");
    assert!(!world.path("main/.loopwright-quarantine").exists(), "{done:?}");
}

#[test]
fn sandbox_exec_in_a_worktree_commits_if_it_may_write_to_the_repository() {
    let world = world();
    let command =
        "echo more >> a.txt; git add a.txt && git -c user.name=a -c user.email=a commit -qm second";
    let exec = |options: &[&str]| {
        let line = [&["sandbox", "exec", "-C", "../tree"], options, &["--", "sh", "-c", command]];
        world.run(&line.concat())
    };
    let done = exec(&[]);
    assert!(done.status != 0 && done.stderr.contains("Read-only file system"), "{done:?}");
    let done = exec(&["--write", "../main"]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{done:?}");
    let tree = world.path("tree");
    assert_eq!(git(&tree, &["log", "--format=%s"]), "second\nfirst\n");
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
}

#[test]
fn a_file_that_names_the_repository_of_another_folder_shows_nothing_of_it() {
    let world = world().file("other/c.txt", "");
    let link = format!("gitdir: {}\n", world.path("main/.git").display());
    let world = world.file("other/.git", &link);
    let done = run(&world, "../other", &[], "git log; ls ../main > c.txt 2>&1; git log > log 2>&1");
    assert_eq!(done.status, 0, "{done:?}");
    let note = "commands cannot use git: `.git` points to /main/.git";
    assert!(done.stderr.contains(note), "{}", done.stderr);
    let log = std::fs::read_to_string(world.path("other/log")).unwrap();
    assert!(log.contains("not a git repository"), "{log}");
}

#[test]
fn a_run_in_a_subfolder_names_the_root_of_the_repository() {
    let world = world();
    let done = run(&world, "../main/sub", &[], "true");
    assert_eq!(done.status, 0, "{done:?}");
    let note = "warning: the root of the repository is above this folder, so git and the files there are out of reach; to use them, start with `-C /main`\n";
    assert_eq!(done.stderr.matches(note).count(), 1, "{}", done.stderr);
    for folder in ["../main", "../project"] {
        let done = run(&world, folder, &[], "true");
        assert!(
            !done.stderr.contains("so git and the files there are out of reach"),
            "{}",
            done.stderr
        );
    }
}
