//! Random commands, collected and applied, are the same commands run directly.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use loopwright_sandbox::ExitOutcome;
use loopwright_sandbox::transaction::undo;
use proptest::prelude::*;

use crate::fuzzing::fuzz;
use crate::transactions::staged;
use crate::tree::{Tree, tree};
use crate::world::{World, sh};

/// Names that commands work with: plain ones, ones with spaces and letters of other scripts, one that begins like an
/// option, and some in folders.
const NAMES: [&str; 12] =
    ["a", "b", "c d", "-e", "ü/漢", "d/a", "d/b", "d/e/f", "d/e/g", "h/i/j/k", "l", "m.txt"];

/// One command on names.
fn command() -> impl Strategy<Value = String> {
    let name = || prop::sample::select(&NAMES[..]).prop_map(|name| format!("'./{name}'"));
    let folder = || prop::sample::select(&["d", "d/e", "ü", "h", "h/i", "n"][..]);
    let parent = |name: &str| format!("mkdir -p \"$(dirname {name})\"");
    prop_oneof![
        3 => name().prop_map(move |n| format!("{}; [ -p {n} ] || echo new > {n}", parent(&n))),
        3 => (name(), 0..9).prop_map(|(n, i)| format!("[ -f {n} ] && echo {i} >> {n}")),
        2 => (name(), name()).prop_map(move |(n, m)| format!("{}; mv {n} {m}", parent(&m))),
        2 => name().prop_map(|n| format!("rm {n}")),
        1 => folder().prop_map(|n| format!("rm -r {n}")),
        1 => (folder(), folder()).prop_map(|(n, m)| format!("mv {n} {m}")),
        1 => (folder(), name()).prop_map(|(n, m)| format!("cp -a {n} /tmp/x; rm -rf {m}; mv /tmp/x {m}")),
        1 => (name(), name()).prop_map(|(n, m)| format!("rm -rf {n}; ln -s {m} {n}")),
        1 => (name(), prop::sample::select(&["600", "755", "444", "400"][..]))
            .prop_map(|(n, mode)| format!("[ -f {n} ] && [ ! -L {n} ] && chmod {mode} {n}")),
        1 => (folder(), prop::sample::select(&["700", "755", "750", "1777"][..]))
            .prop_map(|(n, mode)| format!("chmod {mode} {n}")),
        1 => (name(), 1..900_000_000_u32).prop_map(|(n, at)| format!("touch -h -d @{at} {n}")),
        1 => (folder(), 1..900_000_000_u32).prop_map(|(n, at)| format!("touch -d @{at} {n}")),
        1 => name().prop_map(|n| format!("rm -rf {n}; truncate -s 3M {n}; echo end >> {n}")),
        1 => name().prop_map(|n| format!("rm -rf {n}; seq 1 30000 > {n}")),
        1 => name().prop_map(|n| format!("rm -rf {n}; mkfifo {n}")),
        1 => name().prop_map(|n| format!("rm -rf {n}; mkdir {n}; echo in > {n}/x")),
        1 => Just("rm -f l1 l2 l3; echo 1 > l1; ln l1 l2; ln l1 l3".to_owned()),
        1 => Just("mkdir -p $(seq -s / 1 40); echo deep > $(seq -s / 1 40)/file".to_owned()),
        1 => Just("echo odd > \"$(printf 'odd\\377\\nname')\"".to_owned()),
    ]
}

/// A folder without what differs between two runs: the owners of files and times of now.
fn same(tree: Tree) -> BTreeMap<PathBuf, String> {
    tree.into_iter()
        .map(|(path, node)| {
            let mut text = String::new();
            let same_as = node.same_as.display();
            write!(text, "{:o} {same_as} {:?}", node.mode, node.content).unwrap();
            if node.modified.0 < 1_000_000_000 {
                write!(text, " {:?}", node.modified).unwrap();
            }
            (path, text)
        })
        .collect()
}

/// Runs each line in both ways, and undoes every third one, and does it again.
async fn run(lines: &[String]) {
    let (direct, collected) = (World::new(), World::new());
    for world in [&direct, &collected] {
        world.file("d/a", "zero");
        world.file("h/i/j/k", "zero");
    }
    for (number, line) in lines.iter().enumerate() {
        let line = format!("exec 2>/dev/null; {line}; true");
        let output = direct.run(&sh(&line), &direct.policy()).await;
        assert_eq!(output.outcome, ExitOutcome::Exited(0), "{line}");
        let before = tree(&collected.path(""));
        let mut applied = staged(&collected, &line).await.apply();
        if number % 3 == 0
            && let Some(record) = &applied.record
        {
            undo(record).unwrap();
            assert_eq!(tree(&collected.path("")), before, "undone: {line}");
            applied = staged(&collected, &line).await.apply();
        }
        assert_eq!(applied.conflicts, [], "{line}");
        let both = [&direct, &collected].map(|world| same(tree(&world.path(""))));
        assert_eq!(both[0], both[1], "{line}\nafter {:#?}", &lines[..number]);
    }
    // What was kept for the way back can go, whatever rights it has.
    for entry in fs::read_dir(collected.outside("staging/kept")).unwrap().flatten() {
        loopwright_sandbox::transaction::forget(&entry.path());
        assert!(!entry.path().is_dir());
    }
}

#[test]
fn random_commands_that_are_applied_are_the_same_commands_run_directly() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    fuzz((4, 50), &prop::collection::vec(command(), 20), |lines| {
        runtime.block_on(run(&lines));
        Ok(())
    });
}
