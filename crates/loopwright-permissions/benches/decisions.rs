//! What a decision costs.
//!
//! `cargo bench -p loopwright-permissions` prints the time of a decision with 100 rules: about a file, about commands,
//! which are read each time, and about a long command.

#![expect(clippy::expect_used, reason = "a bench may give up")]

use divan::Bencher;
use loopwright_permissions::{Call, Decision, Policy, Source, SourceKind};
use serde_json::{Value, json};

fn main() {
    divan::main();
}

/// A policy of as many rules, of all kinds.
fn policy(rules: usize) -> Policy {
    let mut source = Source::new(SourceKind::Project, "rules", "/work/project");
    for index in 0..rules {
        source = match index % 10 {
            0 => source.deny(format!("Bash(danger{index} *)"), 0),
            1 => source.deny(format!("Read(secret{index}/**)"), 0),
            2 => source.deny(format!("Edit(**/generated{index}/*.rs)"), 0),
            3 => source.ask(format!("Bash(deploy{index} *)"), 0),
            4 => source.ask(format!("WebFetch(domain:host{index}.example)"), 0),
            5 => source.allow(format!("mcp__server{index}"), 0),
            6 => source.allow(format!("Read(//usr/share/doc{index}/**)"), 0),
            7 => source.allow(format!("Bash(* tool{index} --version)"), 0),
            _ => source.allow(format!("Bash(tool{index} run *)"), 0),
        };
    }
    let source = source.allow("Bash(cargo test *)", 0).allow("Bash(git *)", 0);
    Policy::builder("/work/project").home("/home/ann").source(source).build()
}

fn bench(bencher: Bencher<'_, '_>, rules: usize, tool: &str, arguments: &Value, expect: Decision) {
    let policy = policy(rules);
    let decision = policy.decide(&Call::new(tool, arguments)).decision;
    assert_eq!(decision, expect);
    bencher.bench(|| policy.decide(&Call::new(tool, arguments)));
}

#[divan::bench(args = [0, 100, 1_000])]
fn reads_a_file(bencher: Bencher<'_, '_>, rules: usize) {
    bench(bencher, rules, "read_file", &json!({ "path": "src/shell/grammar.rs" }), Decision::Allow);
}

#[divan::bench(args = [100, 1_000])]
fn calls_a_server(bencher: Bencher<'_, '_>, rules: usize) {
    bench(bencher, rules, "mcp__server5__get", &json!({ "id": 1 }), Decision::Allow);
}

#[divan::bench(args = [100, 1_000])]
fn runs_a_command(bencher: Bencher<'_, '_>, rules: usize) {
    bench(bencher, rules, "bash", &json!({ "command": "cargo test --lib" }), Decision::Allow);
}

#[divan::bench(args = [100, 1_000])]
fn runs_five_commands(bencher: Bencher<'_, '_>, rules: usize) {
    let command = "git fetch && git log --oneline | timeout 5 git branch \"$(git rev-parse HEAD)\"; cargo test";
    bench(bencher, rules, "bash", &json!({ "command": command }), Decision::Allow);
}

#[divan::bench(args = [100], sample_count = 20)]
fn runs_a_script_of_64_kilobytes(bencher: Bencher<'_, '_>, rules: usize) {
    let command = "git add 'a b' \"$(git status)\" > /dev/null\n".repeat(400);
    let command = format!("{command}git log <<'X'\n{}\nX\n", "line\n".repeat(9_000));
    assert!(command.len() > 60_000);
    let arguments = json!({ "command": command });
    let verdict = policy(rules).decide(&Call::new("bash", &arguments));
    assert!(verdict.rule().is_some(), "{verdict}");
    verdict.rule().expect("a rule");
    bench(bencher, rules, "bash", &arguments, Decision::Allow);
}
