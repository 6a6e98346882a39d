//! A corpus of rule sets with what is wrong in them.

use loopwright_permissions::{LintKind, Mode, Policy, Source, SourceKind};
use serde_json::{Value, json};

use crate::support::policy;

const SETS: &str = include_str!("data/lint.jsonl");

#[test]
fn everything_that_is_wrong_is_found_and_nothing_else() {
    let (mut wrong, mut right, mut failures) = (0, 0, Vec::new());
    for line in SETS.lines() {
        let set: Value = serde_json::from_str(line).unwrap();
        let rules: Vec<String> = serde_json::from_value(set["rules"].clone()).unwrap();
        let findings = policy(Mode::Ask, &rules).lint();
        let found: Vec<Value> =
            findings.iter().map(|finding| json!([finding.rule.line, finding.kind])).collect();
        if json!(found) != set["finds"] {
            let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
            failures.push(format!("{line}\n    {texts:?}"));
        }
        if set["finds"] == json!([]) { right += 1 } else { wrong += 1 }
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n"));
    assert!(wrong >= 100 && right >= 100, "{wrong} {right}");
}

#[test]
fn a_finding_says_what_to_write_instead() {
    let findings =
        policy(Mode::Ask, &["deny Bash(rm -rf *)", "allow Bahs(ls *)", "deny Write(.env)"]).lint();
    let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "rules:1: `Bash(rm -rf *)`: the same options in another order or form are not matched; write `Bash(rm *)`",
            "rules:2: `Bahs(ls *)`: unknown tool `Bahs`; write `Bash`",
            "rules:3: `Write(.env)`: `Write(path)` never matches; write `Edit(.env)`, which covers all tools that write",
        ]
    );
}

#[test]
fn tools_of_the_program_are_known() {
    let source = Source::new(SourceKind::User, "user", "/")
        .allow("my_tool", 1)
        .with_tools("other_tool Raed", 2);
    let lint = |tools: &[&str]| {
        let policy =
            Policy::builder("/").source(source.clone()).tools(tools.iter().copied()).build();
        policy
            .lint()
            .iter()
            .map(|finding| (finding.rule.text.clone(), finding.kind))
            .collect::<Vec<_>>()
    };
    let unknown = |name: &str| (name.to_owned(), LintKind::UnknownTool);
    assert_eq!(lint(&[]), [unknown("my_tool"), unknown("other_tool"), unknown("Raed")]);
    assert_eq!(lint(&["my_tool", "other_tool"]), [unknown("Raed")]);
}
