//! What commands change is collected, judged, and made real whole.

use std::fs;
use std::path::{Path, PathBuf};

use loopwright_sandbox::screen::Screen;
use loopwright_sandbox::transaction::{
    Applied, ChangeKind, Changes, Conflict, Fate, PathChange, Refused, Transaction, Undone,
    recover, undo,
};
use loopwright_sandbox::{ExitOutcome, Output};

use crate::tree::{Tree, tree};
use crate::world::{World, sh};

/// A command that has run, and what it changed.
pub(crate) struct Ran {
    pub(crate) transaction: Transaction,
    pub(crate) output: Output,
}

impl Ran {
    pub(crate) fn changes(&self) -> Changes {
        self.transaction.changes(&Screen::standard()).unwrap()
    }

    pub(crate) fn apply(self) -> Applied {
        let changes = self.changes();
        self.transaction.apply(changes).unwrap()
    }
}

/// Runs a line whose changes are collected.
pub(crate) async fn staged(world: &World, line: &str) -> Ran {
    let transaction = Transaction::begin(&world.outside("staging"), &world.path("")).unwrap();
    let policy = world.policy().with_transaction(&transaction);
    let output = world.run(&sh(line), &policy).await;
    assert!(output.staged, "{:?}", output.notes);
    Ran { transaction, output }
}

/// Runs a line that succeeds and applies what it changed.
async fn applied(world: &World, line: &str) -> Applied {
    let ran = staged(world, line).await;
    assert_eq!(
        (ran.output.outcome, ran.output.stderr.to_text()),
        (ExitOutcome::Exited(0), String::new()),
        "{line}"
    );
    ran.apply()
}

fn change(path: &str, kind: ChangeKind) -> PathChange {
    PathChange { path: path.into(), kind }
}

/// How many transactions are durable, or under way.
fn held(world: &World) -> usize {
    let count = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter(|it| it.path().join("lock").exists()).count()
    };
    count(world.outside("staging")) + count(world.outside("staging/kept"))
}

fn snapshot(world: &World) -> Tree {
    tree(&world.path(""))
}

#[tokio::test]
async fn nothing_is_real_before_it_is_applied_and_all_of_it_is_then() {
    let world = World::new();
    world.file("kept", "kept");
    world.file("changed", "one");
    world.file("removed/inner", "gone");
    let before = snapshot(&world);
    let ran = staged(
        &world,
        "echo two > changed; rm -r removed; mkdir -p new/deep; echo three > new/deep/file; \
         cat changed new/deep/file",
    )
    .await;
    assert_eq!(ran.output.stdout.to_text(), "two\nthree\n");
    assert_eq!(snapshot(&world), before);
    let applied = ran.apply();
    assert_eq!(
        applied.changed,
        [
            change("changed", ChangeKind::Modified),
            change("new", ChangeKind::Added),
            change("new/deep", ChangeKind::Added),
            change("new/deep/file", ChangeKind::Added),
            change("removed", ChangeKind::Removed),
        ]
    );
    assert_eq!(
        (world.read("kept"), world.read("changed"), world.read("new/deep/file")),
        ("kept".to_owned(), "two\n".to_owned(), "three\n".to_owned())
    );
    assert!(!world.path("removed").exists());
    assert_eq!(undo(&applied.record.unwrap()).unwrap().len(), 3);
    assert_eq!(snapshot(&world), before);
}

#[tokio::test]
async fn a_command_does_not_take_the_owners_rights_to_the_folder_itself() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let mode = || fs::metadata(world.path("")).unwrap().permissions().mode() & 0o777;
    for (line, expected) in [("echo two > file; chmod 000 .", 0o700), ("chmod 550 .", 0o750)] {
        let ran = staged(&world, line).await;
        let changes = ran.changes();
        let paths: Vec<_> = changes.refused().iter().map(|it| it.path.clone()).collect();
        assert_eq!(paths, [Path::new(".")], "{line}");
        ran.transaction.apply(changes).unwrap();
        assert_eq!(mode(), expected, "{line}");
        fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert_eq!(world.read("file"), "two\n");
    let ran = staged(&world, "chmod 700 .").await;
    assert_eq!(ran.changes().refused(), []);
    ran.apply();
    assert_eq!(mode(), 0o700);
}

#[tokio::test]
async fn a_dropped_transaction_changes_nothing() {
    let world = World::new();
    world.file("file", "one");
    let before = snapshot(&world);
    let ran = staged(&world, "echo two > file; chmod 000 .; mkdir x; rm file").await;
    drop(ran);
    assert_eq!(snapshot(&world), before);
    while held(&world) != 0 {
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_command_undone_leaves_five_hundred_files_byte_for_byte() {
    let world = World::new();
    for number in 0..500 {
        world.file(&format!("f/{}/{number}", number % 7), &format!("content {number}"));
    }
    world.file("untouched/file", "same");
    let before = snapshot(&world);
    let line = "cd f; for i in $(seq 0 499); do p=$((i % 7))/$i; case $((i % 3)) in \
                0) rm $p;; 1) echo more >> $p;; 2) chmod 600 $p; mv $p $p.new;; esac; done; \
                rm -r 3; mkdir -p made/deep; cp -r 1 made/deep";
    let applied = applied(&world, line).await;
    assert_eq!(applied.conflicts, []);
    assert_ne!(snapshot(&world), before);
    let undone = undo(&applied.record.unwrap()).unwrap();
    let is_undone = |it: &Undone| matches!(it, Undone::Restored(_) | Undone::Removed(_));
    assert!(undone.iter().all(is_undone), "{undone:?}");
    assert_eq!(snapshot(&world), before);
    assert_eq!(held(&world), 0);
}

#[tokio::test]
async fn undoing_leaves_what_was_changed_since() {
    let world = World::new();
    world.file("edited", "one");
    world.file("removed", "one");
    world.file("other", "one");
    let applied =
        applied(&world, "for f in edited other added; do echo two > $f; done; rm removed").await;
    world.file("edited", "three");
    world.file("added", "three");
    world.file("removed", "three");
    let undone = undo(&applied.record.unwrap()).unwrap();
    assert_eq!(
        undone,
        [
            Undone::Conflict("added".into()),
            Undone::Conflict("edited".into()),
            Undone::Restored("other".into()),
            Undone::Conflict("removed".into()),
        ]
    );
    let now = ["added", "edited", "other", "removed"].map(|name| world.read(name));
    assert_eq!(now, ["three", "three", "one", "three"]);
}

#[tokio::test]
async fn what_already_is_as_before_is_unchanged_when_it_is_undone() {
    let world = World::new();
    world.file("edited", "one");
    world.file("removed", "one");
    std::os::unix::fs::symlink("edited", world.path("link")).unwrap();
    let applied =
        applied(&world, "for f in edited added; do echo two > $f; done; rm removed link").await;
    world.file("edited", "one");
    world.file("removed", "one");
    std::os::unix::fs::symlink("edited", world.path("link")).unwrap();
    fs::remove_file(world.path("added")).unwrap();
    // The folder itself gets back the times that it had.
    let entries = |mut tree: Tree| {
        tree.remove(Path::new(""));
        tree
    };
    let before = entries(snapshot(&world));
    let undone = undo(&applied.record.unwrap()).unwrap();
    let unchanged = ["added", "edited", "link", "removed"];
    assert_eq!(undone, unchanged.map(|it| Undone::Unchanged(it.into())));
    assert_eq!(entries(snapshot(&world)), before);
}

#[tokio::test]
async fn what_a_command_added_is_removed_and_the_mode_of_a_folder_is_restored() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    world.file("s/file", "one");
    fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let before = snapshot(&world);
    let applied = applied(&world, "chmod 700 . s; echo two > added; mkdir -p new/deep").await;
    let undone = undo(&applied.record.unwrap()).unwrap();
    let expected = [
        Undone::Restored("s".into()),
        Undone::Removed("added".into()),
        Undone::Removed("new".into()),
    ];
    assert_eq!(undone, expected);
    assert_eq!(snapshot(&world), before);
}

#[tokio::test]
async fn a_folder_is_moved_by_mv_and_undone_but_not_by_a_rename_of_git() {
    let world = World::new();
    world.file("old/deep/file", "one");
    let before = snapshot(&world);
    let applied = applied(&world, "mv old new").await;
    assert_eq!((world.read("new/deep/file"), world.path("old").exists()), ("one".into(), false));
    undo(&applied.record.unwrap()).unwrap();
    assert_eq!(snapshot(&world), before);
    let ran = staged(&world, "git init -q && git add old && git mv old new").await;
    let told = "fatal: renaming 'old' failed: Invalid cross-device link\n";
    assert_eq!(ran.output.stderr.to_text(), told);
    let ran = staged(
        &world,
        "git init -q && git add old && mv old new && git add -A old new && git ls-files",
    )
    .await;
    let told = (ran.output.stdout.to_text(), ran.output.stderr.to_text());
    assert_eq!(told, ("new/deep/file\n".to_owned(), String::new()));
}

#[tokio::test]
async fn two_commands_at_once_lose_no_writes_of_each_other() {
    let world = World::new();
    world.file("both", "zero");
    world.file("gone", "zero");
    world.file("folder/inner", "zero");
    let first =
        staged(&world, "echo first > both; echo first > new; echo first >> folder/inner").await;
    let second = staged(
        &world,
        "cat both; echo second > both; echo second > new; rm -r folder; echo second > own",
    )
    .await;
    assert_eq!(second.output.stdout.to_text(), "zero");
    assert_eq!(first.changes().conflicts(), []);
    first.apply();
    let changes = second.changes();
    let conflict = |path: &str| Conflict { path: path.into() };
    assert_eq!(changes.conflicts(), ["both", "folder", "new"].map(conflict));
    second.apply();
    let now = ["both", "new", "own", "folder/inner"].map(|name| world.read(name));
    assert_eq!(now, ["first\n", "first\n", "second\n", "zerofirst\n"]);
}

#[tokio::test]
async fn commands_in_sequence_do_not_conflict() {
    let world = World::new();
    for number in 0..20 {
        let applied =
            applied(&world, &format!("echo {number} >> file; echo {number} > f{number}")).await;
        assert_eq!((applied.conflicts, applied.changed.len()), (vec![], 2));
    }
    assert_eq!(world.read("file").lines().count(), 20);
}

#[tokio::test]
async fn one_of_several_names_of_a_file_that_is_written_to_becomes_a_file_of_its_own() {
    let world = World::new();
    world.file("one", "text");
    fs::hard_link(world.path("one"), world.path("two")).unwrap();
    let before = snapshot(&world);
    let applied = applied(&world, "echo more >> one; ln one three").await;
    let now = ["one", "two", "three"].map(|name| world.read(name));
    assert_eq!(now, ["textmore\n", "text", "textmore\n"]);
    undo(&applied.record.unwrap()).unwrap();
    assert_eq!(snapshot(&world), before);
}

#[tokio::test]
async fn a_half_applied_transaction_is_finished_and_one_without_a_plan_is_removed() {
    let world = World::new();
    world.file("file", "one");
    let ran = staged(&world, "echo two > file").await;
    let folder = ran.transaction.folder().to_path_buf();
    let lost = world.outside("staging").join("lost");
    fs::create_dir_all(lost.join("upper")).unwrap();
    fs::write(lost.join("lock"), "").unwrap();
    // While its process lives, nobody takes it up.
    assert_eq!(recover(&world.outside("staging")).unwrap(), Vec::<PathBuf>::new());
    assert!(folder.exists() && !lost.exists());
    let record = ran.apply().record.unwrap();
    // As if the process had ended before it was done: the file is what it is to be, and the record is not put away.
    fs::rename(&record, &folder).unwrap();
    let root = fs::canonicalize(world.path("")).unwrap();
    assert_eq!(recover(&world.outside("staging")).unwrap(), [root]);
    assert_eq!((world.read("file"), record.exists()), ("two\n".to_owned(), true));
}

/// Writes a file when the clock of the file system has moved on.
fn write_later(path: &Path) {
    let modified = || fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, "first").unwrap();
    let first = modified();
    while modified() == first {
        fs::write(path, "later").unwrap();
    }
}

#[tokio::test]
async fn a_transaction_that_is_finished_later_removes_no_folder_that_was_changed_meanwhile() {
    for is_changed in [false, true] {
        let world = World::new();
        world.file("old/sub/file", "one");
        let ran = staged(&world, "rm -r old; echo 1 > new").await;
        let (folder, kept) = (ran.transaction.folder().to_path_buf(), ran.transaction.record());
        ran.apply();
        // As if the process had been killed before the first step.
        fs::rename(&kept, &folder).unwrap();
        fs::rename(folder.join("old/1"), world.path("old")).unwrap();
        fs::rename(world.path("new"), folder.join("upper/new")).unwrap();
        if is_changed {
            write_later(&world.path("old/sub/mine"));
        }
        let root = fs::canonicalize(world.path("")).unwrap();
        assert_eq!(recover(&world.outside("staging")).unwrap(), [root]);
        let left = ["old/sub/file", "old/sub/mine", "new"].map(|it| world.path(it).exists());
        assert_eq!(left, [is_changed, is_changed, true]);
    }
}

/// Lets a copy take the place of the working folder, as when it is restored from a snapshot.
fn replace_folder(world: &World) {
    let (folder, old, new) = (world.path(""), world.outside("old"), world.outside("new"));
    fs::create_dir(&new).unwrap();
    fs::rename(&folder, &old).unwrap();
    fs::rename(&new, &folder).unwrap();
}

#[tokio::test]
async fn what_was_applied_to_a_folder_that_was_replaced_since_counts_as_not_applied() {
    let world = World::new();
    let ran = staged(&world, "echo 1 > file").await;
    ran.transaction.name("call").unwrap();
    let changes = ran.changes();
    ran.transaction.apply_with(changes, b"result").unwrap();
    let fate = || Fate::of(&world.outside("staging"), "call").unwrap();
    assert_eq!(fate(), Fate::Applied(b"result".to_vec()));
    replace_folder(&world);
    assert_eq!(fate(), Fate::NotApplied);
}

#[tokio::test]
async fn a_plan_is_not_carried_out_in_a_folder_that_took_the_place_of_its_own() {
    let world = World::new();
    let ran = staged(&world, "echo 1 > file").await;
    ran.transaction.name("call").unwrap();
    let (folder, kept) = (ran.transaction.folder().to_path_buf(), ran.transaction.record());
    ran.apply();
    // As if the process had been killed before the first step.
    fs::rename(&kept, &folder).unwrap();
    fs::rename(world.path("file"), folder.join("upper/file")).unwrap();
    let half = fs::read(folder.join("plan")).unwrap();
    replace_folder(&world);
    let fate = Fate::of(&world.outside("staging"), "call").unwrap();
    assert_eq!((fate, folder.exists()), (Fate::NotApplied, false));
    assert!(!world.path("file").exists());
    // The same for a process that starts another transaction.
    fs::create_dir_all(folder.join("upper")).unwrap();
    fs::write(folder.join("upper/file"), "1").unwrap();
    fs::write(folder.join("plan"), half).unwrap();
    fs::write(folder.join("lock"), "").unwrap();
    assert_eq!(recover(&world.outside("staging")).unwrap(), Vec::<PathBuf>::new());
    assert_eq!((folder.exists(), world.path("file").exists()), (false, false));
}

#[tokio::test]
async fn a_folder_named_as_direct_is_written_at_once() {
    let world = World::new();
    world.file("target/old", "old");
    let transaction = Transaction::begin(&world.outside("staging"), &world.path("")).unwrap();
    let policy = world
        .policy()
        .with_transaction(&transaction)
        .with_direct_path("target")
        .with_direct_path("missing");
    let output = world.run(&sh("echo new > target/new; echo new > collected"), &policy).await;
    assert_eq!((output.outcome, output.staged), (ExitOutcome::Exited(0), true));
    assert_eq!(world.read("target/new"), "new\n");
    assert!(!world.path("collected").exists());
    let changes = transaction.changes(&Screen::standard()).unwrap();
    assert_eq!(changes.made(), [change("collected", ChangeKind::Added)]);
}

#[tokio::test]
async fn files_that_take_effect_later_are_not_left_behind() {
    let world = World::new();
    world.file("sub/file", "text");
    let ran = staged(
        &world,
        "mkdir -p sub/.vscode web/deep; echo x > sub/.vscode/tasks.json; echo x > web/deep/.envrc; \
         echo x > web/fine; ln -s /etc/passwd out; ln -s ../../.. web/up; ln -s fine web/in",
    )
    .await;
    assert_eq!(ran.output.outcome, ExitOutcome::Exited(0));
    let changes = ran.changes();
    let refused: Vec<_> = changes
        .refused()
        .iter()
        .map(|Refused { path, reason }| (path.to_str().unwrap(), *reason))
        .collect();
    let out = "is a link to a place outside the folder";
    assert_eq!(
        refused,
        [
            ("out", out),
            ("sub/.vscode", "is applied by editors when they open the folder"),
            ("web/deep/.envrc", "runs code when a shell enters the folder"),
            ("web/up", out),
        ]
    );
    ran.transaction.apply(changes).unwrap();
    let left: Vec<_> = snapshot(&world).into_keys().collect();
    assert_eq!(
        left,
        ["", "sub", "sub/file", "web", "web/deep", "web/fine", "web/in"].map(Into::into)
            as [PathBuf; 7]
    );
}

#[tokio::test]
async fn a_file_changed_between_scan_and_apply_is_kept() {
    let world = World::new();
    for name in ["replaced", "removed"] {
        world.file(name, "one");
    }
    let ran = staged(&world, "echo two > replaced; rm removed; echo two > other").await;
    let changes = ran.changes();
    for name in ["replaced", "removed"] {
        world.file(name, "three");
    }
    let applied = ran.transaction.apply(changes).unwrap();
    let conflict = |path: &str| Conflict { path: path.into() };
    assert_eq!(applied.conflicts, ["removed", "replaced"].map(conflict));
    let now = ["replaced", "removed", "other"].map(|name| world.read(name));
    assert_eq!(now, ["three", "three", "two\n"]);
}

#[tokio::test]
async fn folders_without_rights_are_applied_and_undone() {
    let world = World::new();
    world.file("closed/in", "one");
    world.file("gone/in", "one");
    let before = snapshot(&world);
    let applied = applied(
        &world,
        "mkdir -p new/deep; echo two > new/deep/file; chmod 555 new/deep; chmod 000 new; \
         echo two > closed/in; chmod 500 closed; rm -r gone",
    )
    .await;
    assert_eq!(applied.conflicts, []);
    assert_ne!(snapshot(&world), before);
    undo(&applied.record.unwrap()).unwrap();
    assert_eq!(snapshot(&world), before);
}

#[tokio::test]
async fn a_record_of_another_folder_that_cannot_be_finished_is_no_hindrance() {
    let world = World::new();
    let broken = world.outside("staging").join("broken");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join("lock"), "").unwrap();
    fs::write(broken.join("plan"), "{").unwrap();
    assert!(recover(&world.outside("staging")).is_err());
    applied(&world, "echo one > file").await;
    assert!(broken.exists());
}

#[tokio::test]
async fn settings_that_cannot_be_read_are_refused() {
    let world = World::new();
    world.file(".git/config", "[core]\n\tbare = false\n");
    let ran = staged(
        &world,
        "printf '[core]\\n\\tfsmonitor = ./x\\n' > c; chmod 000 c; mv c .git/config; ln -s x rust-toolchain.toml",
    )
    .await;
    let changes = ran.changes();
    let refused: Vec<_> = changes.refused().iter().map(|it| it.path.to_str().unwrap()).collect();
    // The administrator can read it all the same.
    assert_eq!(refused, [".git/config", "rust-toolchain.toml"]);
}

#[tokio::test]
async fn folders_nested_without_end_are_left_out_from_a_depth_and_all_else_is_kept() {
    let world = World::new();
    let nest =
        "i=0; while [ $i -lt 400 ]; do mkdir d; cd -P ./d; i=$((i+1)); done; echo evil > .envrc";
    let ran = staged(&world, &format!("echo one > kept; {nest}")).await;
    assert_eq!(ran.output.outcome, ExitOutcome::Exited(0), "{}", ran.output.stderr.to_text());
    let changes = ran.changes();
    let refused: Vec<_> = changes.refused().iter().map(|it| (&*it.path, it.reason)).collect();
    let deepest: PathBuf = (0..130).map(|_| "d").collect();
    assert_eq!(refused, [(&*deepest, "is nested in more than 128 folders")]);
    let made = changes.made().len();
    assert_eq!((made, changes.made()[129].path.as_path()), (130, Path::new("kept")));
    ran.apply();
    assert_eq!(world.read("kept"), "one\n");
}

#[tokio::test]
async fn a_folder_that_is_too_deep_to_be_looked_at_is_left_out_and_all_else_is_kept() {
    let world = World::new();
    world.file("old", "");
    let name = "d".repeat(200);
    let line = format!(
        "echo one > kept; mkdir -p new/side; cd new; echo two > beside; \
         i=0; while [ $i -lt 25 ]; do mkdir {name}; cd -P ./{name}; i=$((i+1)); done; echo evil > .envrc"
    );
    let ran = staged(&world, &line).await;
    assert_eq!(ran.output.outcome, ExitOutcome::Exited(0), "{}", ran.output.stderr.to_text());
    let changes = ran.changes();
    let reasons: Vec<&str> = changes.refused().iter().map(|refused| refused.reason).collect();
    assert_eq!(reasons, ["contains a path that is too long"]);
    ran.apply();
    assert_eq!((world.read("kept"), world.read("new/beside")), ("one\n".into(), "two\n".into()));
    assert!(world.path("new/side").is_dir());
    assert!(world.path(&format!("new/{name}/{name}")).is_dir());
}

#[tokio::test]
async fn changes_beside_a_hidden_or_direct_path_are_collected_like_all_others() {
    let world = World::new();
    world.file("keys/secret", "secret");
    world.file("web/out/old", "old");
    let transaction = Transaction::begin(&world.outside("staging"), &world.path("")).unwrap();
    let policy = world.policy().hide("keys/secret").with_direct_path("web/out");
    let policy = policy.with_transaction(&transaction);
    let line = "cat keys/secret; echo x > keys/.envrc; echo x > web/.envrc; echo new > web/out/new";
    let output = world.run(&sh(line), &policy).await;
    assert!(output.staged, "{:?}", output.notes);
    assert_eq!(output.stdout.to_text(), "");
    let is_there = |path: &str| world.path(path).exists();
    assert!(is_there("web/out/new") && !is_there("keys/.envrc") && !is_there("web/.envrc"));
    let ran = Ran { transaction, output };
    ran.apply();
    assert!(!is_there("keys/.envrc") && !is_there("web/.envrc"));
}

#[tokio::test]
async fn an_absolute_path_of_a_screen_is_refused_in_its_place_only() {
    let world = World::new();
    world.file("set/own", "old");
    world.file("other/set/own", "old");
    let ran = staged(&world, "echo new > set/own; echo new > other/set/own").await;
    let screen = Screen::standard().refuse(world.path("").canonicalize().unwrap().join("set/own"));
    let changes = ran.transaction.changes(&screen).unwrap();
    let refused: Vec<_> = changes.refused().iter().map(|it| it.path.clone()).collect();
    assert_eq!(refused, [PathBuf::from("set/own")]);
    ran.transaction.apply(changes).unwrap();
    let text = |path: &str| fs::read_to_string(world.path(path)).unwrap();
    assert_eq!((text("set/own"), text("other/set/own")), ("old".to_owned(), "new\n".to_owned()));
}

#[tokio::test]
async fn a_protected_absolute_path_stays_although_its_folder_is_moved() {
    let world = World::new();
    world.file("set/own", "old");
    let transaction = Transaction::begin(&world.outside("staging"), &world.path("")).unwrap();
    let own = world.path("").canonicalize().unwrap().join("set/own");
    let policy = world.policy().protect(own).with_transaction(&transaction);
    let line = "cat set/own; mv set moved; rm -rf set; mkdir -p set; echo new > set/own";
    let output = world.run(&sh(line), &policy).await;
    assert_eq!((output.staged, output.stdout.to_text().as_str()), (true, "old"));
    let changes = transaction.changes(&policy.screen(Screen::standard())).unwrap();
    transaction.apply(changes).unwrap();
    assert_eq!(fs::read_to_string(world.path("set/own")).unwrap(), "old");
}
