//! Protected and hidden files.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use loopwright_sandbox::screen::Screen;
use loopwright_sandbox::transaction::Transaction;
use loopwright_sandbox::{
    Author, Backend, BroadPaths, ExitOutcome, Sandbox as _, SandboxError, SandboxPolicy,
};

use crate::world::{World, sh};

fn repository() -> World {
    let world = World::new();
    world.file(".git/hooks/pre-commit.sample", "sample");
    world.file(".git/config", "[core]\n");
    world
}

#[tokio::test]
async fn hooks_and_settings_of_a_repository_stay_as_they_are() {
    let world = repository();
    let line = "echo evil > .git/hooks/pre-commit; echo evil >> .git/config; rm -r .git/hooks; touch .git/index";
    world.sh(line).await;
    assert_eq!(world.read(".git/config"), "[core]\n");
    assert_eq!(world.read(".git/hooks/pre-commit.sample"), "sample");
    assert!(!world.path(".git/hooks/pre-commit").exists());
    assert!(world.path(".git/index").exists());
}

#[tokio::test]
async fn a_folder_on_the_way_to_a_protected_file_cannot_be_replaced() {
    let world = repository();
    let output =
        world.sh("mv .git old && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit").await;
    assert_eq!(output.outcome, ExitOutcome::Exited(1));
    assert!(!world.path(".git/hooks/pre-commit").exists());
}

#[tokio::test]
async fn a_protected_file_that_appears_is_moved_away_and_reported() {
    let world = World::new();
    let output =
        world.sh("mkdir .vscode && echo evil > .vscode/tasks.json; echo evil > .mcp.json").await;
    assert_eq!(output.notes.len(), 2, "{:?}", output.notes);
    assert!(!world.path(".vscode").exists() && !world.path(".mcp.json").exists());
    assert_eq!(fs::read_dir(world.path(".loopwright-quarantine")).unwrap().count(), 2);
}

#[tokio::test]
async fn moving_away_follows_no_link() {
    let world = World::new();
    fs::create_dir(world.outside("home")).unwrap();
    let line = format!(
        "ln -s {} .loopwright-quarantine; echo evil > .mcp.json",
        world.outside("home").display()
    );
    let output = world.sh(&line).await;
    assert_eq!(output.notes.len(), 1, "{:?}", output.notes);
    assert_eq!(fs::read_dir(world.outside("home")).unwrap().count(), 0);
    assert!(!world.path(".mcp.json").exists());
}

#[tokio::test]
async fn a_protected_link_is_refused_because_it_cannot_be_kept() {
    let world = World::new();
    fs::create_dir(world.outside("shared")).unwrap();
    symlink(world.outside("shared"), world.path(".claude")).unwrap();
    let error = world.try_run(&sh("echo ran > f"), &world.policy()).await.unwrap_err();
    let SandboxError::Policy(reason) = error else { panic!("{error}") };
    let expect =
        format!(".claude is a symbolic link to {}; a command", world.outside("shared").display());
    assert!(reason.contains(&expect), "{reason}");
    assert!(!world.path("f").exists());
}

#[tokio::test]
async fn hidden_files_cannot_be_read_moved_or_covered() {
    let world = World::new();
    world.file(".env", "PASSWORD=x");
    world.file("keys/private.pem", "key");
    let policy = world.policy().hide(".env").hide("keys/private.pem").hide("not-there");
    let line = "cat .env keys/private.pem; mv keys old; mv .env b; ln .env c; echo x > .env; cat c b old/private.pem";
    let output = world.run(&sh(line), &policy).await;
    assert_eq!(output.stdout.to_text(), "");
    assert_eq!(
        (world.read(".env"), world.read("keys/private.pem")),
        ("PASSWORD=x".into(), "key".into())
    );
}

#[tokio::test]
async fn a_hidden_folder_cannot_be_entered() {
    let world = World::new();
    world.file("secrets/a", "hidden");
    let output = world.run(&sh("ls secrets; cat secrets/a"), &world.policy().hide("secrets")).await;
    assert_eq!(output.stdout.to_text(), "");
}

#[tokio::test]
async fn a_path_below_another_one_does_not_open_it_again() {
    for backend in [Backend::Namespaces, Backend::Bubblewrap] {
        let world = World::in_tier(backend);
        for (name, text) in [("own/a/b/x", "hidden"), ("own/y", "hidden"), ("set/lib/z", "kept")] {
            world.file(name, text);
        }
        let at = |name: &str| world.path("").canonicalize().unwrap().join(name);
        let policy = world.policy().hide("own/a/b").hide("own").protect("set/lib").protect("set");
        let policy = policy.read(at("own/a")).write(at("own/a/b")).write(at("set/lib"));
        let line = "cat own/y own/a/b/x; echo x > set/w; echo x > set/lib/w; mv set/lib set/moved; \
                    rm -r set own; cat set/lib/z";
        let output = world.run(&sh(line), &policy.protect(at("set"))).await;
        assert_eq!(output.stdout.to_text(), "kept", "{backend}: {}", output.stderr.to_text());
        let all = ["own/a/b/x", "own/y", "set/lib/z"].map(|it| world.read(it));
        assert_eq!(all, ["hidden", "hidden", "kept"], "{backend}");
        assert!(!world.path("set/w").exists() && !world.path("set/lib/w").exists(), "{backend}");
    }
}

#[tokio::test]
async fn a_folder_that_a_command_closes_opens_nothing_for_the_next_one() {
    for backend in [Backend::Namespaces, Backend::Bubblewrap] {
        let world = World::in_tier(backend);
        world.file("keys/a/k", "hidden");
        let policy = || world.policy().hide("keys/a");
        world.run(&sh("chmod 0 keys"), &policy()).await;
        let outcome = world.try_run(&sh("chmod 755 keys; cat keys/a/k"), &policy()).await;
        fs::set_permissions(world.path("keys"), fs::Permissions::from_mode(0o755)).unwrap();
        match outcome {
            Err(error) => assert!(error.to_string().contains("chmod u+rwx"), "{error}"),
            Ok(output) => assert_eq!(output.stdout.to_text(), "", "{backend}"),
        }
    }
}

#[tokio::test]
async fn a_link_that_replaces_a_missing_folder_does_not_stop_later_commands() {
    let world = World::new();
    let policy = world.policy().hide("keys/a").protect("set/own");
    let output = world.run(&sh("mkdir evil; ln -s evil set; ln -s evil keys"), &policy).await;
    let is_moved = |it: &String| it.starts_with("set is a link that replaces a folder");
    assert!(output.notes.iter().any(is_moved), "{:?}", output.notes);
    assert!(!world.path("set").exists());
    assert_eq!(world.run(&sh("echo next"), &policy).await.stdout.to_text(), "next\n");
}

#[tokio::test]
async fn a_protected_path_that_leads_out_is_refused() {
    let world = World::new();
    let error = world.try_run(&sh(":"), &world.policy().protect("../x")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the command was not run: ../x is not a path inside a folder; a hidden or protected relative path must name something in the folder, without `.` and `..`"
    );
}

#[tokio::test]
async fn a_folder_that_holds_more_than_a_project_is_refused_unless_it_is_allowed() {
    let world = World::new();
    for folder in ["/", "/etc", "/usr", "/home", "/tmp"] {
        let mut policy = world.policy();
        policy.workdir = folder.into();
        let error = world.try_run(&sh(":"), &policy).await.unwrap_err();
        assert!(error.to_string().contains("contains more than a project"), "{folder}: {error}");
    }
    let policy = world.policy().write("/var").with_broad_paths(BroadPaths::Allowed);
    assert_eq!(world.run(&sh(":"), &policy).await.outcome, ExitOutcome::Exited(0));
}

#[tokio::test]
async fn a_repository_that_appears_brings_neither_hooks_nor_settings() {
    let world = World::new();
    let line = "mkdir -p .git/hooks .git/objects; echo evil > .git/hooks/pre-commit; echo evil > .git/config";
    let output = world.sh(line).await;
    assert_eq!(output.notes.len(), 2, "{:?}", output.notes);
    assert!(!world.path(".git/hooks").exists() && !world.path(".git/config").exists());
    assert!(world.path(".git/objects").exists(), "the rest of it stays");
}

#[tokio::test]
async fn a_repository_that_leads_elsewhere_is_moved_away() {
    for line in [
        "mkdir real; ln -s real .git",
        "echo 'gitdir: real' > .git",
        "mkdir -p real/hooks; ln -s real/hooks .vscode",
    ] {
        let world = World::new();
        let output = world.sh(line).await;
        assert_eq!(output.notes.len(), 1, "{line}: {:?}", output.notes);
        let is_left = [".git", ".vscode"].map(|name| world.path(name).symlink_metadata().is_ok());
        assert_eq!(is_left, [false, false], "{line}");
    }
}

#[tokio::test]
async fn a_repository_cannot_be_led_to_other_settings() {
    let world = repository();
    let output =
        world.sh("mkdir alt; echo ../alt > .git/commondir; echo x > .git/config.worktree").await;
    assert_eq!(output.notes.len(), 2, "{:?}", output.notes);
    assert!(!world.path(".git/commondir").exists() && !world.path(".git/config.worktree").exists());
}

#[tokio::test]
async fn a_cache_is_written_to_and_what_appears_there_stays() {
    for backend in [Backend::Namespaces, Backend::Bubblewrap, Backend::Landlock] {
        let world = World::in_tier(backend);
        if world.driver().probe().await.is_err() {
            println!("left out: {backend} does not work here");
            continue;
        }
        let cache = world.outside("cache");
        fs::create_dir(&cache).unwrap();
        let line = "cd $XDG_CACHE_HOME && echo kept > a && mkdir .vscode && echo b > .vscode/b";
        let output = world.run(&sh(line), &world.policy().with_cache(&cache)).await;
        assert_eq!(output.outcome, ExitOutcome::Exited(0), "{backend}");
        assert_eq!(output.notes, Vec::<String>::new(), "{backend}");
        assert_eq!(fs::read_to_string(cache.join("a")).unwrap(), "kept\n");
        assert_eq!(fs::read_to_string(cache.join(".vscode/b")).unwrap(), "b\n");
    }
}

#[tokio::test]
async fn a_home_that_the_caller_names_gets_no_settings_and_commits_have_an_author() {
    let world = World::new();
    let author = Author { name: Some("A".to_owned()), email: Some("a@b".to_owned()) };
    let home = world.path("").display().to_string();
    let policy = world.policy().with_author(author).with_env("HOME", home);
    let output =
        world.run(&sh("printf '%s <%s>' \"$GIT_AUTHOR_NAME\" $GIT_AUTHOR_EMAIL"), &policy).await;
    assert_eq!(output.stdout.to_text(), "A <a@b>");
    assert!(!world.path(".gitconfig").exists());
}

#[tokio::test]
async fn a_home_is_no_cache() {
    let world = World::new();
    let refused = world.try_run(&sh(":"), &world.policy().with_cache("/home")).await;
    assert!(matches!(refused, Err(SandboxError::Policy(_))), "{refused:?}");
}

#[tokio::test]
async fn a_harmless_command_leaves_the_git_file_of_a_worktree_and_of_a_submodule() {
    let world = World::new();
    let git = |line: &str| {
        let user = "git -c user.name=u -c user.email=u@localhost -c protocol.file.allow=always";
        let line = format!("git() {{ command {user} \"$@\"; }}; set -e; {line}");
        let mut shell = std::process::Command::new("bash");
        let done = shell.args(["-c", &line]).current_dir(world.path("")).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    if std::process::Command::new("git").arg("--version").output().is_err() {
        println!("left out, because there is no `git` here");
        return;
    }
    git("git init -q ../main; git -C ../main commit -q --allow-empty -m x");
    git("git init -q; git commit -q --allow-empty -m x; git submodule --quiet add ../main sub");
    git("git -C ../main worktree add -q \"$PWD/tree\"");
    for folder in ["", "sub", "tree"] {
        let policy = SandboxPolicy::in_dir(world.path(folder)).with_backend(world.backend);
        let files = || ["sub/.git", "tree/.git"].map(|it| world.read(it));
        let before = files();
        assert!(before.iter().all(|it| it.starts_with("gitdir: ")), "{before:?}");
        let output = world.run(&sh("true"), &policy).await;
        assert_eq!(
            (output.outcome, output.notes),
            (ExitOutcome::Exited(0), Vec::new()),
            "{folder}"
        );
        let staging = world.outside("staging");
        let transaction = Transaction::begin(&staging, &world.path(folder)).unwrap();
        let output = world.run(&sh("true"), &policy.with_transaction(&transaction)).await;
        assert_eq!((output.outcome, output.staged), (ExitOutcome::Exited(0), true), "{folder}");
        assert!(transaction.changes(&Screen::standard()).unwrap().is_empty(), "{folder}");
        assert_eq!(files(), before, "{folder}");
    }
}
