//! What commands change is collected, judged, and made real whole.

use std::fs;
use std::path::Path;

use loopwright_sandbox::screen::Screen;
use loopwright_sandbox::transaction::{
    Applied, Change, ChangeKind, Changes, Conflict, Refused, Transaction, Undone, recover, undo,
};
use loopwright_sandbox::{Outcome, Output};

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
    let policy = world.policy().staged(&transaction);
    let output = world.run(&sh(line), &policy).await;
    assert!(output.staged, "{:?}", output.notes);
    Ran { transaction, output }
}

/// Runs a line that succeeds and applies what it changed.
async fn applied(world: &World, line: &str) -> Applied {
    let ran = staged(world, line).await;
    assert_eq!(
        (ran.output.outcome, ran.output.stderr.to_text()),
        (Outcome::Exited(0), String::new()),
        "{line}"
    );
    ran.apply()
}

fn change(path: &str, kind: ChangeKind) -> Change {
    Change { path: path.into(), kind }
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
