//! What is random, for as long as it is wanted, and the screen held against git itself.
//!
//! `LOOPWRIGHT_FUZZ_SECONDS` is how long each test continues; without it there are a few rounds, more of them with
//! `LOOPWRIGHT_LONG`. `LOOPWRIGHT_FUZZ_SEED` is where it begins, and is printed.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use loopwright_sandbox::screen::{EntryKind, FolderView, Screen};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};

use crate::planted;
use crate::transactions::staged;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Tries what a strategy makes: for a duration, or a number of rounds, of which there are more in the long form.
#[expect(clippy::print_stdout, reason = "a test that calls it prints where it began")]
pub(crate) fn fuzz<S: Strategy>(
    (rounds, long): (u64, u64),
    strategy: &S,
    test: impl Fn(S::Value) -> TestCaseResult,
) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let seed = number("LOOPWRIGHT_FUZZ_SEED").unwrap_or_else(now);
    let duration = number("LOOPWRIGHT_FUZZ_SECONDS").map(Duration::from_secs);
    let rounds = if env::var_os("LOOPWRIGHT_LONG").is_some() { long } else { rounds };
    let started = Instant::now();
    println!("LOOPWRIGHT_FUZZ_SEED={seed}");
    let mut round = 0;
    while duration.map_or(round < rounds, |duration| started.elapsed() < duration) {
        let config = Config {
            cases: 1,
            max_shrink_iters: 60,
            failure_persistence: None,
            ..Config::default()
        };
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(seed + round).to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        if let Err(error) = TestRunner::new_with_rng(config, rng).run(strategy, &test) {
            panic!("LOOPWRIGHT_FUZZ_SEED={}: {error}", seed + round);
        }
        round += 1;
    }
    println!("{round} rounds");
}

/// The settings of a repository, as they are and as they will be.
struct Settings {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl FolderView for Settings {
    fn what(&self, path: &Path) -> Option<EntryKind> {
        match path.to_str()? {
            "" | ".git" => Some(EntryKind::Folder),
            ".git/config" => Some(EntryKind::File),
            _ => None,
        }
    }

    fn before(&self, path: &Path) -> Option<EntryKind> {
        self.what(path)
    }

    fn content(&self, path: &Path) -> Option<Vec<u8>> {
        (path == Path::new(".git/config")).then(|| self.after.clone())
    }

    fn content_before(&self, path: &Path) -> Option<Vec<u8>> {
        (path == Path::new(".git/config")).then(|| self.before.clone())
    }

    fn names(&self, path: &Path) -> Vec<OsString> {
        if path == Path::new(".git") { vec!["config".into()] } else { Vec::new() }
    }
}

/// The settings that git reads in a text, in their order. `None` means that git refuses it.
fn read_by_git(text: &[u8]) -> Option<Vec<String>> {
    let mut child = Program::new("git")
        .args(["config", "-z", "--no-includes", "-f", "-", "--list"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text).unwrap();
    let output = child.wait_with_output().unwrap();
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = listed.split('\0').filter(|entry| !entry.is_empty()).map(str::to_owned);
    output.status.success().then(|| all.collect())
}

/// Returns `true` if a setting can make git run, read or reach nothing that it would not otherwise.
fn is_harmless(entry: &str) -> bool {
    let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
    let parts: Vec<&str> = key.split('.').collect();
    let is_address = |value: &str| !value.contains("::") && !value.starts_with('-');
    match (parts.first().copied(), parts.last().copied()) {
        (Some("remote"), Some("url")) | (Some("branch"), Some("remote")) => is_address(value),
        (Some("remote"), Some("fetch" | "tagopt" | "prune"))
        | (Some("branch"), Some("merge" | "rebase")) => parts.len() > 2,
        (Some("user"), Some("name" | "email"))
        | (Some("core"), Some("bare" | "filemode" | "eol")) => parts.len() == 2,
        _ => false,
    }
}

/// Pieces of settings: whole lines, and what can tear them apart.
const PIECES: [&str; 44] = [
    "[core]\n",
    "[Core]",
    "[core",
    "]",
    "[remote \"o\"]\n",
    "[remote \"o\\\"\"]\n",
    "[remote.o]\n",
    "[branch \"b\"]\n",
    "[alias]\n",
    "[include]\n",
    "[includeIf \"gitdir:/\"]\n",
    "[filter \"x\"]\n",
    "[user]\n",
    "[core \"\"]\n",
    "[core . x]\n",
    "\n",
    "\n\t",
    "\r\n",
    "\r",
    " ",
    "\t",
    "\u{b}",
    "\u{c}",
    "\0",
    "\u{feff}",
    "\u{85}",
    "=",
    " = ",
    "bare = false\n",
    "fsmonitor = ./x\n",
    "path = x\n",
    "st = !x\n",
    "clean = x\n",
    "name = a\n",
    "url = x\n",
    "url = ext::x\n",
    "remote = x\n",
    "uploadpack = x\n",
    "!x",
    "\\\n",
    "\\",
    "\"",
    "#",
    ";",
];

#[test]
fn settings_that_the_screen_lets_change_are_harmless_as_git_reads_them() {
    if read_by_git(b"").is_none() {
        println!("left out, because there is no `git` here");
        return;
    }
    let text = || prop::collection::vec(prop::sample::select(&PIECES[..]), 0..16);
    let strategy =
        (text(), text(), 0..20_usize, prop::option::weighted(0.2, (any::<u8>(), any::<u8>())));
    fuzz((300, 20_000), &strategy, |(before, new, kept, odd)| {
        // Some of what was there stays.
        let mut after = before[..kept.min(before.len())].concat().into_bytes();
        after.extend(new.concat().bytes());
        if let Some((at, byte)) = odd {
            let at = usize::from(at).min(after.len());
            after.insert(at, byte);
        }
        let settings = Settings { before: before.concat().into_bytes(), after };
        let path = Path::new(".git/config");
        if Screen::standard().judge(path, Path::new("/srv/project"), &settings).is_some() {
            return Ok(());
        }
        let obeyed = |text: &[u8]| {
            let read = read_by_git(text);
            read.map(|all| all.into_iter().filter(|it| !is_harmless(it)).collect::<Vec<_>>())
        };
        // Where git refused the settings as a whole, those in it were the user's all the same.
        let (Some(before), after) = (obeyed(&settings.before), obeyed(&settings.after)) else {
            return Ok(());
        };
        // What git refuses to read, it does not obey.
        let is_same = after.as_ref().is_none_or(|after| after.is_empty() || *after == before);
        let texts =
            [&settings.before, &settings.after].map(|it| String::from_utf8_lossy(it).into_owned());
        prop_assert!(is_same, "{texts:?} is {before:?}, then {after:?}");
        Ok(())
    });
}

/// What repositories are made of, with names that some file systems do not tell apart, and odd ones.
const PARTS: [&str; 36] = [
    ".git",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/hooks",
    ".git/hooks/post-index-change",
    ".git/hooks/pre-auto-gc",
    ".git/info/attributes",
    ".git/objects/info/alternates",
    ".git/worktrees/b",
    ".git/worktrees/b/commondir",
    ".git/modules/b/config",
    ".GIT/config",
    ".git ",
    "b",
    "b/HEAD",
    "b/Head",
    "b/config",
    "b/objects",
    "b/refs",
    "b/commondir",
    "b/gitdir",
    "b/hooks/post-checkout",
    "b/.git",
    "b/.git/config",
    "b/.git/HEAD",
    "b/.git/objects",
    "b/.git/refs",
    "b/c/.git",
    "b\u{fc}\n",
    "b\u{fc}\n/HEAD",
    "b\u{fc}\n/config",
    "b\u{fc}\n/objects",
    "b\u{fc}\n/refs",
    "h/post-checkout",
    "h",
];

/// One thing that a command does to a repository.
fn deed() -> impl Strategy<Value = String> {
    let part = || prop::sample::select(&PARTS[..]).prop_map(|part| format!("'./{part}'"));
    let parent = |name: &str| format!("mkdir -p \"$(dirname {name})\"");
    let settings = "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = %s\\n[alias]\\n\\tst = \"!%s\"\\n' $PWD/run.sh $PWD/run.sh";
    let place = || prop::sample::select(&["b", "b/c", "b\u{fc}\n", ".git/worktrees/b"][..]);
    prop_oneof![
        3 => place().prop_map(|n| format!("mkdir -p '{n}/objects' '{n}/refs'")),
        3 => place().prop_map(|n| format!("mkdir -p '{n}'; echo 'ref: refs/heads/main' > '{n}/HEAD'")),
        3 => place().prop_map(move |n| format!("mkdir -p '{n}'; {settings} > '{n}/config'")),
        2 => part().prop_map(|n| format!("mkdir -p {n}")),
        4 => part().prop_map(move |n| format!("{}; {settings} > {n}", parent(&n))),
        2 => part().prop_map(move |n| format!("{}; {settings} >> {n}", parent(&n))),
        3 => part().prop_map(move |n| format!("{}; echo 'ref: refs/heads/main' > {n}", parent(&n))),
        2 => (part(), part()).prop_map(move |(n, m)| format!("{}; echo gitdir: $PWD/{m} > {n}", parent(&n))),
        2 => (part(), part()).prop_map(move |(n, m)| format!("{}; echo $PWD/{m} > {n}", parent(&n))),
        3 => (part(), part()).prop_map(move |(n, m)| format!("{}; mv {n} {m}", parent(&m))),
        2 => (part(), part()).prop_map(move |(n, m)| format!("{}; cp -r {n} {m}", parent(&m))),
        2 => (part(), part()).prop_map(move |(n, m)| format!("{}; ln -s $PWD/{m} {n}", parent(&n))),
        2 => part().prop_map(move |n| format!("{}; cp run.sh {n}", parent(&n))),
        1 => part().prop_map(|n| format!("rm -rf {n}")),
        1 => part().prop_map(|n| format!("git init -q {n}")),
        1 => part().prop_map(|n| format!("git init -q --bare {n}")),
        1 => part().prop_map(|n| format!("git -C {n} config core.fsmonitor $PWD/run.sh")),
        1 => part().prop_map(|n| format!("git config core.hooksPath $PWD/{n}")),
        1 => part().prop_map(|n| format!("git add -f {n}")),
        1 => part().prop_map(|n| format!("chmod 500 {n}")),
    ]
}

/// All folders below one, and itself.
fn folders(folder: &Path, found: &mut Vec<PathBuf>) {
    found.push(folder.to_path_buf());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_git = ["objects", "refs"].iter().any(|name| entry.file_name() == *name);
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !is_git {
            folders(&entry.path(), found);
        }
    }
}

/// What the user does in each folder.
const LATER: &str = "git status; git st; git checkout -q -b new; git add .; timeout 9 git fetch .; git commit -qm x";

#[test]
fn git_runs_nothing_in_any_folder_of_a_random_tree() {
    if read_by_git(b"").is_none() {
        println!("left out, because there is no `git` here");
        return;
    }
    let lines = prop::collection::vec(prop::collection::vec(deed(), 1..7), 1..4);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    fuzz((6, 100), &lines, |lines| {
        let world = planted::world();
        runtime.block_on(async {
            for line in &lines {
                staged(&world, &format!("exec 2>/dev/null; {}; true", line.join("; ")))
                    .await
                    .apply();
            }
        });
        let mut all = Vec::new();
        folders(&world.path(""), &mut all);
        for folder in all {
            let quoted = folder.display().to_string().replace('\'', "'\\''");
            planted::user(&world, &format!("cd '{quoted}' && {{ {LATER}; }}"));
            prop_assert!(!world.outside("mark").exists(), "in {folder:?}: {lines:#?}");
        }
        Ok(())
    });
}
