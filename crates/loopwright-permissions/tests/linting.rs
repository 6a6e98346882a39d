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

#[test]
fn an_agent_or_a_skill_of_another_name_is_found_and_one_of_another_project_is_not() {
    let lint = |kind: SourceKind, rule: &str| {
        let source = Source::new(kind, "rules", "/").deny(rule, 3);
        let policy = Policy::builder("/").source(source).build();
        let findings = policy.lint_names(&["helper", "deploy-all"], &["review", "git:push"]);
        findings.first().map(ToString::to_string)
    };
    let told = |rule: &str, message: &str| Some(format!("rules:3: `{rule}`: {message}"));
    let (user, project) = (SourceKind::User, SourceKind::Project);
    let cases = [
        (
            user,
            "Agent(Helper)",
            told("Agent(Helper)", "unknown agent `Helper`; write `Agent(helper)`"),
        ),
        (
            user,
            "Agent(helpr)",
            told("Agent(helpr)", "unknown agent `helpr`; write `Agent(helper)`"),
        ),
        (
            user,
            "Skill(Review)",
            told("Skill(Review)", "unknown skill `Review`; write `Skill(review)`"),
        ),
        (user, "Agent(other)", None),
        (user, "Skill(other)", None),
        (project, "Agent(other)", told("Agent(other)", "unknown agent `other`")),
        (project, "Skill(other:*)", told("Skill(other:*)", "unknown skill `other*`")),
        (project, "Agent(review)", told("Agent(review)", "unknown agent `review`")),
        (project, "Agent(deploy*)", None),
        (project, "Skill(git:*)", None),
        (project, "Agent(helper)", None),
        (project, "Agent", None),
        (project, "Bash(helper *)", None),
    ];
    for (kind, rule, expect) in cases {
        assert_eq!(lint(kind, rule), expect, "{kind:?} {rule}");
    }
}
