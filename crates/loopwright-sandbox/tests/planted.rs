//! What a command plants for a program that the user runs later is not there then. Each case is real: the same lines
//! without a sandbox make the program run what was planted.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command as Program, Stdio};

use loopwright_sandbox::screen::Screen;
use loopwright_sandbox::{Backend, ExitOutcome, SandboxError};
use tokio::runtime::Runtime;

use crate::planted_tools;
use crate::transactions::staged;
use crate::world::{World, sh, until_said};

/// One way to plant something.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What the user has done before, outside of the sandbox.
    pub(crate) before: &'static str,
    /// The agent's commands, each of them applied before the next.
    pub(crate) planted: &'static [&'static str],
    /// What the user does afterwards.
    pub(crate) later: &'static str,
    /// The programs that are needed for it, besides git.
    pub(crate) needs: &'static str,
}

pub(crate) const fn case(
    name: &'static str,
    planted: &'static [&'static str],
    later: &'static str,
) -> Case {
    Case { name, before: "", planted, later, needs: "git" }
}

const NESTED: &str = "git init -q sub && cd sub && git -c user.name=a -c user.email=a commit -q --allow-empty -m x \
                      && git config core.fsmonitor ../run.sh && cd .. && git add sub";
pub(crate) const SUBMODULE: &str = "git init -q ../m && git -C ../m commit -qm x --allow-empty && git -c protocol.file.allow=always submodule --quiet add ../m sub && git commit -qm s";
const EVIL: &str = "git init -q evil && git -C evil config core.fsmonitor $PWD/run.sh";

const CASES: &[Case] = &[
    case("hook", &["cp run.sh .git/hooks/pre-commit"], "git commit -qm x --allow-empty"),
    case(
        "hook under another name, renamed",
        &[
            "cp run.sh .git/hooks/x",
            "mv .git/hooks/x .git/hooks/pre-commit || cp run.sh .git/hooks/pre-commit",
        ],
        "git commit -qm x --allow-empty",
    ),
    case(
        "folder of hooks in place of the other",
        &["mv .git/hooks .git/x; mkdir .git/hooks; cp run.sh .git/hooks/pre-commit"],
        "git commit -qm x --allow-empty",
    ),
    case(
        "link in place of the folder of hooks",
        &["mkdir h; cp run.sh h/pre-commit; rm -r .git/hooks; ln -s ../h .git/hooks"],
        "git commit -qm x --allow-empty",
    ),
    case("fsmonitor", &["git config core.fsmonitor ./run.sh"], "git status"),
    case(
        "hooksPath",
        &["mkdir h; cp run.sh h/pre-commit; git config core.hooksPath h"],
        "git commit -qm x --allow-empty",
    ),
    case("alias", &["git config alias.st '!./run.sh'"], "git st"),
    case(
        "editor",
        &["git config core.editor ./run.sh"],
        "EDITOR=true VISUAL=true git commit --amend --allow-empty",
    ),
    case(
        "signing",
        &["git config gpg.program ./run.sh; git config commit.gpgsign true"],
        "git commit -qm x --allow-empty",
    ),
    case("ssh", &["git config core.sshCommand ./run.sh"], "git fetch ssh://localhost/x"),
    case(
        "filter",
        &["echo '* filter=x' > .gitattributes; git config filter.x.clean ./run.sh"],
        "echo more >> a.txt; git add a.txt",
    ),
    case("diff", &["git config diff.external ./run.sh; echo more >> a.txt"], "git diff"),
    case(
        "textconv",
        &[
            "echo '*.txt diff=x' > .gitattributes; git config diff.x.textconv ./run.sh; echo more >> a.txt",
        ],
        "git diff",
    ),
    case(
        "include",
        &["printf '[core]\\n\\tfsmonitor = ./run.sh\\n' > inc; git config include.path ../inc"],
        "git status",
    ),
    case(
        "settings of a worktree",
        &[
            "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor ./run.sh",
        ],
        "git status",
    ),
    case(
        "settings in one line",
        &["printf '[core] fsmonitor = ./run.sh\\n' >> .git/config"],
        "git status",
    ),
    case(
        "settings in place of others",
        &["cp .git/config c; git config -f c core.fsmonitor ./run.sh; mv c .git/config"],
        "git status",
    ),
    case("nested repository", &[NESTED], "git status"),
    case(
        "nested repository, then its settings",
        &[
            "git init -q sub && cd sub && git -c user.name=a -c user.email=a commit -q --allow-empty -m x && cd .. && git add sub",
            "git -C sub config core.fsmonitor ../run.sh",
        ],
        "git status",
    ),
    case(
        "nested repository with hooks",
        &["git init -q sub; cp run.sh sub/.git/hooks/post-commit"],
        "cd sub && git commit -qm x --allow-empty",
    ),
    case(
        "bare repository",
        &["git init -q --bare b; printf '[alias]\\n\\tst = \"!'$PWD'/run.sh\"\\n' > b/config"],
        "cd b && git st",
    ),
    case(
        "bare repository, its parts in another order",
        &[
            "mkdir -p b/objects; printf '[alias]\\n\\tst = \"!'$PWD'/run.sh\"\\n' > b/config",
            "mkdir -p b/refs",
            "echo 'ref: refs/heads/main' > b/HEAD",
        ],
        "cd b && git st",
    ),
    case(
        "bare repository that is moved to its place",
        &[
            "mkdir -p t/objects t/refs; printf '[alias]\\n\\tst = \"!'$PWD'/run.sh\"\\n' > t/config; echo 'ref: refs/heads/main' > t/h",
            "mv t b; mv b/h b/HEAD",
        ],
        "cd b && git st",
    ),
    case(
        "file in place of the repository",
        &[EVIL, "mv .git real; echo 'gitdir: evil/.git' > .git"],
        "git status",
    ),
    case(
        "link in place of the repository",
        &[EVIL, "mv .git real; ln -s evil/.git .git"],
        "git status",
    ),
    case(
        "another repository in its place",
        &[EVIL, "mv .git real; mv evil/.git .git"],
        "git status",
    ),
    case(
        "file that leads to a repository",
        &[EVIL, "mkdir s; echo 'gitdir: ../evil/.git' > s/.git"],
        "cd s && git status",
    ),
    case("common folder", &[EVIL, "echo ../evil/.git > .git/commondir"], "git status"),
    Case {
        before: "git worktree add -q ../wt",
        ..case(
            "common folder of a worktree",
            &[EVIL, "echo $PWD/evil/.git > .git/worktrees/wt/commondir"],
            "cd ../wt && git status",
        )
    },
    Case {
        before: "git commit -qm 2 --allow-empty; git commit -qm 3 --allow-empty; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi HEAD~2",
        ..case(
            "rebase under way",
            &["echo 'exec ./run.sh' >> .git/rebase-merge/git-rebase-todo"],
            "GIT_EDITOR=true git rebase --continue",
        )
    },
    Case {
        before: SUBMODULE,
        ..case(
            "settings of a submodule",
            &["git config -f .git/modules/sub/config core.fsmonitor $PWD/run.sh"],
            "git status",
        )
    },
    Case {
        before: SUBMODULE,
        ..case(
            "hook of a submodule",
            &["mkdir -p .git/modules/sub/hooks; cp run.sh .git/modules/sub/hooks/pre-commit"],
            "cd sub && git commit -qm x --allow-empty",
        )
    },
    Case {
        before: SUBMODULE,
        ..case(
            "common folder of a submodule",
            &[EVIL, "echo $PWD/evil/.git > .git/modules/sub/commondir"],
            "cd sub && git status",
        )
    },
    Case {
        before: "git worktree add -q ../wt; git config extensions.worktreeConfig true",
        ..case(
            "settings of another worktree",
            &["git config -f .git/worktrees/wt/config.worktree core.fsmonitor $PWD/run.sh"],
            "cd ../wt && git status",
        )
    },
    Case {
        before: "git config core.hooksPath tools/hooks; mkdir -p tools/hooks",
        ..case(
            "hooks of the project",
            &["cp run.sh tools/hooks/pre-commit"],
            "git commit -qm x --allow-empty",
        )
    },
    Case {
        before: "cp a.txt tool; chmod +x tool; git config core.fsmonitor ./tool",
        ..case("program that the settings name", &["cp run.sh tool"], "git status")
    },
    Case {
        before: "git config core.fsmonitor ./tool",
        ..case(
            "program that the settings name and that is not there yet",
            &["cp run.sh tool"],
            "git status",
        )
    },
    Case {
        before: "mkdir t; echo cat > t/clean.sh; echo '* filter=x' > .gitattributes; git config filter.x.clean 'sh t/clean.sh'",
        ..case(
            "filter that the settings name",
            &["cp run.sh t/clean.sh"],
            "echo more >> a.txt; git add a.txt",
        )
    },
    Case {
        before: "git config core.sshCommand 'sh tool'; touch tool",
        ..case(
            "way to another machine that the settings name",
            &["cp run.sh tool"],
            "git fetch ssh://localhost/x",
        )
    },
    Case {
        before: "git config diff.external ./t/diff; mkdir t; cp a.txt t/diff",
        ..case(
            "folder around a program that the settings name",
            &["mv t u; mkdir t; cp run.sh t/diff; echo more >> a.txt"],
            "git diff",
        )
    },
    Case {
        before: "mkdir t; touch t/check; chmod +x t/check; ln -s ../../t/check .git/hooks/pre-commit",
        ..case("hook that is a link", &["cp run.sh t/check"], "git commit -qm x --allow-empty")
    },
    Case {
        before: "mkdir t; rm -r .git/hooks; ln -s ../t .git/hooks",
        ..case(
            "hooks that are a link",
            &["cp run.sh t/pre-commit"],
            "git commit -qm x --allow-empty",
        )
    },
    Case {
        before: "git config core.hooksPath .husky; mkdir .husky",
        ..case("husky", &["cp run.sh .husky/pre-commit"], "git commit -qm x --allow-empty")
    },
    case(
        "after the folder's rights were taken",
        &["chmod 555 .; cp run.sh .git/hooks/pre-commit"],
        "git commit -qm x --allow-empty",
    ),
    Case {
        needs: "npm",
        before: "echo '{\"name\":\"x\",\"scripts\":{\"test\":\"true\"}}' > package.json",
        ..case("npm's shell", &["echo script-shell=./run.sh > .npmrc"], "npm test")
    },
    Case {
        needs: "npm",
        before: "echo '{\"name\":\"x\",\"scripts\":{\"test\":\"node -e 0\"}}' > package.json",
        ..case(
            "node's options",
            &[
                "echo \"node-options=--require $PWD/x.js\" > .npmrc; echo 'require(\"child_process\").execSync(\"./run.sh\")' > x.js",
            ],
            "npm test",
        )
    },
    Case {
        needs: "python3",
        ..case(
            "python's start",
            &["echo 'import os; os.system(\"./run.sh\")' > sitecustomize.py"],
            "PYTHONPATH=. python3 -c pass",
        )
    },
    Case {
        needs: "cargo",
        before: "mkdir src; echo 'fn main() {}' > src/main.rs; printf '[package]\\nname = \"x\"\\nedition = \"2021\"\\n' > Cargo.toml",
        ..case(
            "cargo's compiler",
            &[
                "mkdir -p .cargo; printf '[build]\\nrustc-wrapper = \"./run.sh\"\\n' > .cargo/config.toml",
            ],
            "cargo check --offline -q",
        )
    },
    Case {
        needs: "rustup",
        ..case(
            "rust's toolchain",
            &[
                "mkdir -p t/bin; cp run.sh t/bin/cargo; cp run.sh t/bin/rustc; printf '[toolchain]\\npath = \"'$PWD'/t\"\\n' > rust-toolchain.toml",
            ],
            "cargo --version",
        )
    },
];

/// A repository with one commit, and a program that leaves a mark.
pub(crate) fn world() -> World {
    let world = World::new();
    fs::create_dir(world.outside("home")).unwrap();
    let git = "[user]\n\tname = u\n\temail = u@localhost\n[init]\n\tdefaultBranch = main\n";
    fs::write(world.outside("home/.gitconfig"), git).unwrap();
    let mark = world.outside("mark");
    world.file(
        "run.sh",
        &format!("#!/bin/sh\ntouch {}\ncat >/dev/null 2>&1 </dev/null\n", mark.display()),
    );
    world.file("a.txt", "text\n");
    user(&world, "chmod +x run.sh; git init -q; git add a.txt; git commit -qm x");
    world
}

/// Does something as the user, in the folder.
pub(crate) fn user(world: &World, line: &str) {
    let home = world.outside("home");
    let rust = |name: &str, folder: &str| {
        let home = std::env::var_os("HOME").unwrap_or_default();
        std::env::var_os(name).unwrap_or_else(|| Path::new(&home).join(folder).into_os_string())
    };
    Program::new("timeout")
        .args(["60", "sh", "-c", line])
        .current_dir(world.path(""))
        .env("HOME", home)
        .env("CARGO_HOME", rust("CARGO_HOME", ".cargo"))
        .env("RUSTUP_HOME", rust("RUSTUP_HOME", ".rustup"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTC_WRAPPER")
        .stdin(Stdio::null())
        // Nothing waits for what continues in the background.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
}

/// Returns `true` if all of these programs are there. `whoami` has to work, too: it fails for a user without a name.
fn has(programs: &str) -> bool {
    let is_there = |program: &str| {
        let line = match program {
            "whoami" => program.to_owned(),
            _ => format!("command -v {program}"),
        };
        let found = Program::new("sh").args(["-c", &line]).output();
        found.is_ok_and(|output| output.status.success())
    };
    programs.split(' ').all(is_there)
}

/// How an agent's commands change the folder.
#[derive(Clone, Copy)]
enum Way {
    /// Their changes are collected, and applied when they have ended.
    Collected,
    /// They are made at once.
    Direct,
    /// There is no sandbox.
    Unconfined,
}

/// Returns `true` if what was planted ran. `None` means that the machine has not what the case needs.
fn ran(case: &Case, way: Way, runtime: &Runtime) -> Option<bool> {
    if !has(case.needs) {
        return None;
    }
    let world = world();
    user(&world, case.before);
    for planted in case.planted {
        match way {
            Way::Collected => drop(runtime.block_on(staged(&world, planted)).apply()),
            Way::Direct => match runtime.block_on(world.try_run(&sh(planted), &world.policy())) {
                // A folder that cannot be protected is not worked in.
                Ok(_) | Err(SandboxError::Policy(_)) => {}
                Err(error) => panic!("{}: {error}", case.name),
            },
            Way::Unconfined => user(&world, planted),
        }
    }
    user(&world, case.later);
    Some(world.outside("mark").exists())
}

/// Returns the cases of which what was planted ran, or did not, and prints how many were run.
#[expect(clippy::print_stdout, reason = "a test that calls it prints what it leaves out")]
fn those_that(cases: &'static [Case], way: Way, expect: bool) -> Vec<&'static str> {
    let runtime = Runtime::new().unwrap();
    let outcomes = cases.iter().map(|case| (case, ran(case, way, &runtime)));
    let outcomes: Vec<_> = outcomes.collect();
    let left_out = outcomes.iter().filter(|(_, ran)| ran.is_none()).map(|(case, _)| case.needs);
    let programs: BTreeSet<&str> = left_out.clone().collect();
    let (total, left_out) = (cases.len(), left_out.count());
    let run = total - left_out;
    println!(
        "{run} of {total} run, {left_out} left out because these programs are missing: {programs:?}"
    );
    let listed = outcomes.iter().filter(|(_, ran)| *ran == Some(expect));
    listed.map(|(case, _)| case.name).collect()
}

const NONE: [&str; 0] = [];

#[test]
fn files_planted_for_git_do_not_run_later() {
    assert_eq!(those_that(CASES, Way::Collected, true), NONE);
}

#[test]
fn files_planted_for_other_programs_do_not_run_later() {
    assert_eq!(those_that(planted_tools::CASES, Way::Collected, true), NONE);
}

#[test]
fn nor_does_it_for_git_where_changes_are_made_at_once() {
    assert_eq!(those_that(CASES, Way::Direct, true), NONE);
}

#[test]
fn nor_does_it_for_other_programs_where_changes_are_made_at_once() {
    assert_eq!(those_that(planted_tools::CASES, Way::Direct, true), NONE);
}

#[test]
fn without_a_sandbox_all_of_it_runs_in_git() {
    assert_eq!(those_that(CASES, Way::Unconfined, false), NONE);
}

#[test]
fn without_a_sandbox_all_of_it_runs_in_other_programs() {
    assert_eq!(those_that(planted_tools::CASES, Way::Unconfined, false), NONE);
}

#[tokio::test]
async fn no_name_that_is_obeyed_is_left_behind_at_any_depth() {
    let world = World::new();
    world.file("deep/er/file", "text");
    let mut line = String::new();
    for (name, _) in Screen::OBEYED {
        for folder in [".", "deep/er", "new/est"] {
            write!(line, "mkdir -p \"$(dirname {folder}/{name})\"; echo x > {folder}/{name}; ")
                .unwrap();
        }
    }
    let ran = staged(&world, &line).await;
    let changes = ran.changes();
    let refused = changes.refused().len();
    ran.transaction.apply(changes).unwrap();
    assert!(refused >= Screen::OBEYED.len(), "{refused}");
    let left: Vec<_> = Screen::OBEYED
        .iter()
        .flat_map(|(name, _)| ["", "deep/er", "new/est"].map(|it| world.path(it).join(name)))
        .filter(|path| fs::symlink_metadata(path).is_ok())
        .collect();
    assert_eq!(left, <[std::path::PathBuf; 0]>::default());
}

#[tokio::test]
async fn configuration_that_is_code_and_runs_only_with_the_projects_own_tools_is_applied() {
    let names = [
        ".eslintrc.cjs",
        ".eslintrc.js",
        ".prettierrc.js",
        ".prettierrc.mjs",
        ".windsurfrules",
        "AGENTS.md",
        "Makefile",
        "build.rs",
        "eslint.config.js",
        "eslint.config.mjs",
        "eslint.config.ts",
        "package.json",
        "prettier.config.js",
        "vite.config.ts",
    ];
    let world = World::new();
    let ran =
        staged(&world, &format!("for name in {}; do echo x > $name; done", names.join(" "))).await;
    let changes = ran.changes();
    let made: BTreeSet<_> = changes.made().iter().filter_map(|it| it.path.to_str()).collect();
    assert_eq!((changes.refused(), made), (&[][..], names.into()));
}

#[tokio::test]
async fn work_with_the_folders_own_repository_is_kept() {
    let world = world();
    let line = "git config user.name agent; git config user.email agent@localhost; \
                git checkout -q -b topic; echo more >> a.txt; git commit -qam two; \
                git remote add origin https://localhost/x; git tag v1; git stash list; git gc -q";
    let ran = staged(&world, line).await;
    assert_eq!(ran.output.stderr.to_text(), "");
    let changes = ran.changes();
    assert_eq!(changes.refused(), []);
    ran.transaction.apply(changes).unwrap();
    user(
        &world,
        "git log --format=%s > ../log; git status --porcelain -b >> ../log; git fsck >> ../log 2>&1",
    );
    let log = fs::read_to_string(world.outside("log")).unwrap();
    assert_eq!(log, "two\nx\n## topic\n?? run.sh\n");
}

#[tokio::test]
async fn work_with_a_repository_that_has_hooks_is_kept_where_changes_are_made_at_once() {
    if !has("git") {
        return;
    }
    let world = World::new();
    let set_up = "git init -q && git -c user.name=a -c user.email=a commit -q --allow-empty -m x && git branch b && \
                  printf '#!/bin/sh\n' > .git/hooks/pre-push && git config alias.x status";
    let done =
        Program::new("sh").args(["-c", set_up]).current_dir(world.path("")).status().unwrap();
    assert!(done.success());
    let line = "git checkout -q b && git checkout -q -b c && git gc -q && git pack-refs --all && \
                git repack -adq && git init -q sub && git -C sub status --porcelain";
    let output = world.sh(line).await;
    assert_eq!((output.notes, output.stderr.to_text()), (Vec::new(), String::new()));
    assert_eq!(world.read(".git/HEAD"), "ref: refs/heads/c\n");
    let is_there = |path: &str| world.path(path).exists();
    assert!(
        is_there(".git/objects") && is_there(".git/hooks/pre-push") && is_there("sub/.git/config")
    );
}

#[tokio::test]
async fn a_protected_file_that_another_program_replaces_ends_the_command_and_holds_nothing_of_it() {
    if !has("git") {
        return;
    }
    for backend in [Backend::Namespaces, Backend::Bubblewrap] {
        let world = World::in_tier(backend);
        user(&world, "git init -q && git config user.name before");
        let line = "echo ready; while :; do echo '[core] fsmonitor = ./run.sh' >> .git/config; done 2> /dev/null";
        let mut child = world.spawn(line, &world.policy()).await;
        until_said(&mut child, "ready\n").await;
        user(&world, "git config user.name after");
        let output = child.wait().await;
        assert_eq!(output.outcome, ExitOutcome::Cancelled, "{backend}");
        let text = output.notes.join("\n");
        assert!(text.contains(".git/config, which was then"), "{backend}: {text}");
        let config = world.read(".git/config");
        assert!(!config.contains("fsmonitor"), "{backend}: {config}\n{text}");
    }
}

#[tokio::test]
async fn two_commands_together_cannot_make_a_repository_with_settings() {
    let world = world();
    let first = staged(&world, "mkdir -p d/objects d/refs").await;
    let second = staged(
        &world,
        "mkdir -p d; printf '[alias]\\n\\tst = !./run.sh\\n' > d/config; echo 'ref: x' > d/HEAD",
    )
    .await;
    first.apply();
    second.apply();
    user(&world, "cd d && cp ../run.sh . && git st");
    assert!(!world.outside("mark").exists());
}
