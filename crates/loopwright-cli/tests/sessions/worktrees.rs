//! Sub-agents with `isolation: worktree`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::Place;
use crate::server::{Reply, streamed, streamed_call, streamed_tool};
use crate::world::{World, mark, until_asleep};

const LEAD: &str =
    "name: lead\ndescription: Leads.\ncapabilities: [use_subagents]\nsystemPrompt: Lead.\n";
const CHILD: &str = "---\nname: child\ndescription: Works.\n\
    tools: [bash, write_file, edit_file, read_file]\nisolation: worktree\n---\nWork.\n";

/// Runs git in the project, with the environment of the machine.
fn git(world: &World, arguments: &[&str]) -> String {
    git_in(&world.path("project"), arguments)
}

fn git_in(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]).args(arguments);
    let done = git.current_dir(folder).env("HOME", folder.parent().unwrap()).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// A repository with a commit, and an agent that delegates to another one with a worktree.
fn repository() -> World {
    let world = World::new()
        .file("project/.loopwright/agents/lead.yaml", LEAD)
        .file("project/.claude/agents/child.md", CHILD)
        .file("project/src/b.txt", "source\n");
    fs::remove_dir(world.path("project/.git")).unwrap();
    git(&world, &["init", "--quiet", "--initial-branch", "main"]);
    git(&world, &["add", "."]);
    git(&world, &["commit", "--quiet", "-m", "sown in May"]);
    world
}

fn spawn() -> Reply {
    streamed_tool("", "spawn_subagent", &json!({ "subagent": "child", "prompt": "Work." }))
}

fn write(path: &str) -> Reply {
    streamed_tool("", "write_file", &json!({ "path": path, "content": "new\n" }))
}

/// Lets the sub-agent make these calls, and returns the place and all that models were told.
fn delegated(world: World, calls: impl IntoIterator<Item = Reply>) -> (Place, String) {
    let calls = [spawn()].into_iter().chain(calls);
    let place =
        Place::within(world, calls.chain([streamed("Inner.", "stop"), streamed("Outer.", "stop")]));
    let done = place.run(&["--agent", "lead", "Go."]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Outer.\n"), "{}", done.stderr);
    let heard = heard(&place);
    (place, heard)
}

fn heard(place: &Place) -> String {
    std::iter::from_fn(|| place.server.taken()).map(|it| it.to_string()).collect()
}

/// The worktrees that are there.
fn worktrees(world: &World) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.path("project/.claude/worktrees")).into_iter().flatten();
    entries.flatten().map(|it| it.path()).filter(|it| it.is_dir()).collect()
}

fn only_worktree(world: &World) -> PathBuf {
    let trees = worktrees(world);
    assert_eq!(trees.len(), 1, "{trees:?}");
    trees[0].clone()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn files_and_commands_of_a_sub_agent_are_those_of_its_worktree() {
    let edit = json!({ "path": "src/b.txt", "old_string": "source", "new_string": "changed" });
    let calls = [
        streamed_tool("", "edit_file", &edit),
        streamed_call("", "cat src/b.txt; rm a.txt; echo made > made.txt; git status --short; pwd"),
    ];
    let (place, heard) = delegated(repository(), calls);
    let (world, tree) = (&place.world, only_worktree(&place.world));
    assert_eq!(read(world.path("project/src/b.txt")), "source\n");
    assert_eq!(read(world.path("project/a.txt")), "one\ntwo\n");
    assert!(!world.path("project/made.txt").exists());
    assert_eq!(
        (read(tree.join("src/b.txt")), read(tree.join("made.txt"))),
        ("changed\n".into(), "made\n".into())
    );
    assert!(!tree.join("a.txt").exists());
    let name = tree.file_name().unwrap().to_str().unwrap();
    let told = format!(
        "The sub-agent's changes are in the git worktree {}, on the branch worktree-{name}: 0 commits, 3 changed files not committed",
        tree.display()
    );
    assert!(heard.contains(&told), "{heard}");
    assert!(heard.contains(&format!("You work in {}", tree.display())), "{heard}");
    assert!(heard.contains(" D a.txt") && heard.contains("?? made.txt"), "{heard}");
    // For git, nothing was changed in the project.
    assert_eq!(git(world, &["status", "--porcelain"]), "");
    assert_eq!(
        git(world, &["branch", "--list", "--format=%(refname:short)"]),
        format!("main\nworktree-{name}\n")
    );
}

#[test]
fn a_rewind_and_diff_name_what_a_command_changed_in_a_worktree_with_its_path() {
    let calls = [streamed_call("", "rm a.txt; echo made > made.txt")];
    let (place, _) = delegated(repository(), calls);
    let tree = only_worktree(&place.world);
    let listed = place.json(&["list"]);
    let id = listed["sessions"][0]["id"].as_str().unwrap();
    let chat = ["chat", "-m", "openai-compatible/test", "--base-url", &place.server.url];
    let compared = place.world.run_with(&[&chat[..], &["--resume", id]].concat(), "/diff\n");
    for changed in ["a.txt: removed", "made.txt: added"] {
        let changed = format!("{}/{changed}", tree.file_name().unwrap().to_str().unwrap());
        assert!(compared.stderr.contains(&changed), "{changed}: {}", compared.stderr);
    }
    let done = place.sessions(&["rewind", "--files", id, "0"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let is_told = |line: &&str| line.ends_with(" restored") || line.ends_with(" removed");
    let mut told: Vec<&str> = done.stderr.lines().filter(is_told).collect();
    told.sort_unstable();
    let shown = tree.strip_prefix(place.world.path("")).unwrap();
    let line = |name: &str, came: &str| format!("/{} {came}", shown.join(name).display());
    assert_eq!(told, [line("a.txt", "restored"), line("made.txt", "removed")]);
    assert_eq!(read(tree.join("a.txt")), "one\ntwo\n");
}

#[test]
fn a_worktree_in_which_nothing_was_changed_is_removed_with_its_branch() {
    let (place, heard) = delegated(repository(), [streamed_call("", "cat a.txt; ls -a")]);
    assert_eq!(worktrees(&place.world), Vec::<PathBuf>::new());
    assert_eq!(git(&place.world, &["branch", "--list", "--format=%(refname:short)"]), "main\n");
    assert_eq!(git(&place.world, &["worktree", "list"]).lines().count(), 1);
    assert!(!heard.contains("changes are in the git worktree"), "{heard}");
}

#[test]
fn a_sub_agent_works_in_the_folder_of_its_worktree_that_is_its_parents() {
    let place = Place::within(
        repository(),
        [spawn(), write("c.txt"), streamed("Inner.", "stop"), streamed("Outer.", "stop")],
    );
    let done = place.run(&["-C", "src", "--agent", "lead", "Go."]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(read(only_worktree(&place.world).join("src/c.txt")), "new\n");
}

#[test]
fn hooks_and_filters_of_a_repository_do_not_run_when_a_worktree_is_made_and_removed() {
    let world = repository().file("project/.gitattributes", "*.txt filter=evil\n");
    git(&world, &["add", ".gitattributes"]);
    git(&world, &["commit", "--quiet", "-m", "attributes"]);
    let marker = world.path("ran");
    let program = format!("#!/bin/sh\necho \"$0\" >> {}\ncat\n", marker.display());
    let hooks = ["post-checkout", "post-index-change", "reference-transaction", "post-commit"];
    let mut world = world.file("evil", &program);
    for hook in hooks {
        world = world.file(&format!("project/.git/hooks/{hook}"), &program);
        executable(&world, &format!("project/.git/hooks/{hook}"));
    }
    executable(&world, "evil");
    let evil = world.path("evil");
    for key in ["filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "core.fsmonitor"]
    {
        git(&world, &["config", key, evil.to_str().unwrap()]);
    }
    git(&world, &["config", "filter.evil.required", "true"]);
    // They do run for the user.
    Command::new("git")
        .args(["checkout", "--quiet", "-b", "x"])
        .current_dir(world.path("project"))
        .status()
        .unwrap();
    assert!(marker.exists());
    fs::remove_file(&marker).unwrap();
    let (place, _) = delegated(world, [write("new.txt")]);
    let tree = only_worktree(&place.world);
    assert_eq!(
        (read(tree.join("new.txt")), read(tree.join("a.txt"))),
        ("new\n".into(), "one\ntwo\n".into())
    );
    assert!(!marker.exists(), "{}", read(&marker));
    let (place, heard) = delegated(place.world, []);
    assert_eq!(worktrees(&place.world).len(), 1, "{heard}");
    assert!(!marker.exists(), "{}", read(&marker));
}

fn executable(world: &World, name: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn deny_rules_hold_in_a_worktree_for_files_and_commands_by_every_name() {
    let settings =
        r#"{ "permissions": { "deny": ["Edit(src/**)", "Read(./.env)", "Edit(.claude/**)"] } }"#;
    let world = repository()
        .file("project/.env", "KEY=sesame\n")
        .file("project/.claude/settings.json", settings);
    git(&world, &["add", "--force", ".env"]);
    git(&world, &["commit", "--quiet", "-m", "secret"]);
    let script = "cat .env $PWD/.env; echo more >> src/b.txt; echo more >> $PWD/src/b.txt; echo ran > out.txt";
    let world = world.file("project/x.sh", script);
    git(&world, &["add", "x.sh"]);
    git(&world, &["commit", "--quiet", "-m", "script"]);
    let calls = [write("src/c.txt"), write("./src/../src/c.txt"), streamed_call("", "sh x.sh")];
    let (place, body) = delegated(world, calls);
    let tree = only_worktree(&place.world);
    assert_eq!(read(tree.join("src/b.txt")), "source\n");
    assert!(!tree.join("src/c.txt").exists());
    assert_eq!(read(tree.join("out.txt")), "ran\n");
    assert!(!body.contains("sesame"), "{body}");
    // For its parent, too, by the whole path.
    let absolute = tree.join("src/c.txt");
    let parent = Place::within(
        place.world,
        [
            streamed_tool("", "write_file", &json!({ "path": absolute, "content": "new" })),
            streamed_call("", &format!("cat {}", tree.join(".env").display())),
            streamed("Done.", "stop"),
        ],
    );
    // Its last calls were denied.
    assert_eq!(parent.run(&["Go."]).status, 8);
    let told = heard(&parent);
    assert!(told.contains("rule `Edit(src/**)`") && !told.contains("sesame"), "{told}");
    assert!(!absolute.exists());
}

#[test]
fn hidden_paths_hold_in_a_worktree_for_files_and_commands_however_they_are_written() {
    for form in ["secret.txt", "./secret.txt", "{project}/secret.txt", "~/project/secret.txt"] {
        let world = repository().file("project/secret.txt", "sesame\n");
        git(&world, &["add", "secret.txt"]);
        git(&world, &["commit", "--quiet", "-m", "secret"]);
        let project = world.path("project");
        let hidden = form.replace("{project}", project.to_str().unwrap());
        let config = format!("[sandbox]\nhide = [\"{hidden}\"]\n");
        let world = world.file(".config/loopwright/config.toml", &config);
        let calls = [
            streamed_tool("", "read_file", &json!({ "path": "secret.txt" })),
            streamed_call("", "cat secret.txt $PWD/secret.txt a.txt > seen.txt"),
        ];
        let (place, told) = delegated(world, calls);
        assert!(!told.contains("sesame"), "{form}: {told}");
        assert!(
            told.contains("`sandbox.hide` in the configuration includes this path"),
            "{form}: {told}"
        );
        assert_eq!(read(only_worktree(&place.world).join("seen.txt")), "one\ntwo\n", "{form}");
        // Its parent does not read the copy either.
        let copy = only_worktree(&place.world).join("secret.txt");
        assert_eq!(read(&copy), "sesame\n");
        let calls =
            [streamed_tool("", "read_file", &json!({ "path": copy })), streamed("Done.", "stop")];
        let parent = Place::within(place.world, calls);
        parent.run(&["Go."]);
        let told = heard(&parent);
        assert!(!told.contains("sesame"), "{form}: {told}");
    }
}

#[test]
fn commands_in_a_worktree_do_not_read_the_settings_of_its_repository() {
    let world = repository();
    git(&world, &["remote", "add", "origin", "https://ann:sesame@example.org/x"]);
    let config = world.path("project/.git/config");
    let script = format!("cat {}; git log --format=%s; git remote -v", config.display());
    let (_place, told) = delegated(world, [streamed_call("", &script)]);
    assert!(told.contains("sown in May") && !told.contains("sesame"), "{told}");
}

#[test]
fn a_folder_whose_repository_is_elsewhere_has_no_worktrees() {
    let world = repository().file("private/key.txt", "sesame\n");
    let (project, private) = (world.path("project"), world.path("private"));
    fs::rename(project.join(".git"), private.join(".git")).unwrap();
    git_in(&private, &["add", "key.txt"]);
    git_in(&private, &["commit", "--quiet", "-m", "key"]);
    let world = world.file("project/.git", &format!("gitdir: {}/.git\n", private.display()));
    let replies = [spawn(), streamed("Outer.", "stop")];
    let place = Place::within(world, replies);
    assert_eq!(place.run(&["--agent", "lead", "Go."]).status, 0);
    let told = heard(&place);
    assert!(
        told.contains("`child` cannot start")
            && told.contains("does not list")
            && told.contains("`git worktree add`"),
        "{told}"
    );
    assert_eq!(worktrees(&place.world), Vec::<PathBuf>::new());
    assert!(!private.join(".git/worktrees").exists());
}

#[test]
fn hooks_of_the_user_hold_in_a_worktree() {
    let hooks = json!({ "hooks": { "PreToolUse": [{ "matcher": "Write", "hooks": [
        { "type": "command", "command": "echo keep it >&2; exit 2" }
    ] }] } });
    let world = repository().file(".config/loopwright/hooks.json", &hooks.to_string());
    let (place, heard) = delegated(world, [write("new.txt")]);
    assert!(heard.contains("blocked by a hook: keep it"), "{heard}");
    assert_eq!(worktrees(&place.world), Vec::<PathBuf>::new());
}

#[test]
fn without_a_repository_or_a_commit_the_error_names_the_remedy() {
    let world = World::new()
        .file("project/.loopwright/agents/lead.yaml", LEAD)
        .file("project/.claude/agents/child.md", CHILD);
    let replies = || [spawn(), streamed("Outer.", "stop")];
    let place = Place::within(world, replies());
    assert_eq!(place.run(&["--agent", "lead", "Go."]).status, 0);
    let told = heard(&place);
    assert!(
        told.contains("`child` cannot start")
            && told.contains(
                "is not in a git repository; do the task yourself, or tell the user to run `git init`"
            ),
        "{told}"
    );
    let world = place.world;
    fs::remove_dir(world.path("project/.git")).unwrap();
    git(&world, &["init", "--quiet"]);
    let place = Place::within(world, replies());
    assert_eq!(place.run(&["--agent", "lead", "Go."]).status, 0);
    let told = heard(&place);
    assert!(
        told.contains("has no commit; do the task yourself, or tell the user to commit first"),
        "{told}"
    );
}

#[test]
fn a_rewind_undoes_what_a_sub_agent_did_in_its_worktree() {
    let edit = json!({ "path": "src/b.txt", "old_string": "source", "new_string": "changed" });
    let place = Place::within(
        repository(),
        [
            spawn(),
            streamed_tool("", "edit_file", &edit),
            streamed_call("", "rm a.txt; echo made > made.txt"),
            streamed("Inner.", "stop"),
            streamed("Outer.", "stop"),
        ],
    );
    let id = place.ran(&["--agent", "lead", "Go."]);
    let tree = only_worktree(&place.world);
    assert_eq!(read(tree.join("src/b.txt")), "changed\n");
    let done = place.sessions(&["rewind", "--files", &id, "0"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(read(tree.join("src/b.txt")), "source\n", "{}{}", done.stdout, done.stderr);
    assert_eq!(read(tree.join("a.txt")), "one\ntwo\n");
    assert!(!tree.join("made.txt").exists());
    assert_eq!(read(place.world.path("project/src/b.txt")), "source\n");
}

#[test]
fn a_sub_agent_whose_program_was_killed_goes_on_in_the_same_worktree() {
    let mark = mark();
    let command = format!("cat made.txt; [ -e flag ] || sleep {mark}");
    let place = Place::within(
        repository(),
        [
            spawn(),
            write("made.txt"),
            streamed_call("", &command),
            streamed("Inner.", "stop"),
            streamed("Outer.", "stop"),
        ],
    );
    let mut child = place.world.start(&place.line(&["--agent", "lead", "Go."]));
    until_asleep(&mark);
    let tree = only_worktree(&place.world);
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(tree.join("flag"), "").unwrap();
    let done = place.run(&["--continue"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Outer.\n"), "{}", done.stderr);
    assert_eq!(only_worktree(&place.world), tree);
    let told = heard(&place);
    assert!(told.contains(&format!("git worktree {}", tree.display())), "{told}");
    assert_eq!(read(tree.join("made.txt")), "new\n");
}

#[test]
fn a_continued_run_delegates_to_another_worktree() {
    let place = Place::within(
        repository(),
        [
            spawn(),
            write("one.txt"),
            streamed("Inner.", "stop"),
            streamed("Outer.", "stop"),
            spawn(),
            write("two.txt"),
            streamed("Inner.", "stop"),
            streamed("Outer.", "stop"),
        ],
    );
    for line in [&["--agent", "lead", "Go."][..], &["--continue", "Again."]] {
        let done = place.run(line);
        assert_eq!(done.status, 0, "{}", done.stderr);
    }
    let trees = worktrees(&place.world);
    let has = |name: &str| trees.iter().filter(|it| it.join(name).exists()).count();
    assert_eq!((trees.len(), has("one.txt"), has("two.txt")), (2, 1, 1));
}

#[test]
fn an_agent_with_a_worktree_is_not_run_without_another_one() {
    let place = Place::within(repository(), []);
    let done = place.run(&["--agent", "child", "Go."]);
    assert_eq!((done.status, done.stdout.as_str()), (3, ""), "{}", done.stderr);
    assert!(
        done.stderr.contains("`worktree` requires another agent that delegates to this one"),
        "{}",
        done.stderr
    );
    assert_eq!(place.world.run(&["agents", "validate"]).status, 0);
}
