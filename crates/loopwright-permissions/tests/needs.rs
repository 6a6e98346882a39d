//! What commands ask for beyond the sandbox.

use loopwright_permissions::Decision::{Allow, Ask, Deny};
use loopwright_permissions::{Call, Decision, Mode, Policy, Source, SourceKind};
use serde_json::{Value, json};

fn policy(mode: Mode, rules: &[(Decision, &str)]) -> Policy {
    let source = Source::new(SourceKind::User, "config.toml", "/home/ann");
    let lines = rules.iter().zip(1..);
    let source = lines
        .fold(source, |source, ((decision, rule), line)| source.with_rule(*decision, *rule, line));
    Policy::builder("/project").home("/home/ann").mode(mode).source(source).build()
}

/// Decides about a command that the sandbox confines.
fn decide(mode: Mode, rules: &[(Decision, &str)], needs: &Value) -> (Decision, String) {
    let mut arguments = json!({ "command": "cargo fetch" });
    arguments.as_object_mut().unwrap().extend(needs.as_object().unwrap().clone());
    let verdict = policy(mode, rules).decide(&Call::new("bash", &arguments).confined());
    (verdict.decision, verdict.reason.to_string())
}

fn decision(rules: &[(Decision, &str)], needs: &Value) -> Decision {
    decide(Mode::Auto, rules, needs).0
}

#[test]
fn a_host_is_asked_about_although_the_command_is_confined() {
    let needs = json!({ "network": ["crates.io"] });
    let asked = (Ask, "network access to `crates.io`: no rule matches, mode `auto`".to_owned());
    assert_eq!(decide(Mode::Auto, &[], &needs), asked);
    assert_eq!(decide(Mode::Auto, &[], &json!({})).0, Allow);
    let decisions = [Mode::Plan, Mode::Ask, Mode::AcceptEdits, Mode::Deny, Mode::Unconfined];
    let decisions = decisions.map(|mode| decide(mode, &[], &needs).0);
    assert_eq!(decisions, [Ask, Ask, Ask, Deny, Allow]);
}

#[test]
fn each_host_has_to_be_allowed() {
    let rules = [(Allow, "Network(domain:crates.io)"), (Allow, "Network(domain:*.crates.io)")];
    assert_eq!(decision(&rules, &json!({ "network": ["crates.io", "a.crates.io"] })), Allow);
    assert_eq!(decision(&rules, &json!({ "network": ["crates.io", "other.io"] })), Ask);
    assert_eq!(decision(&rules, &json!({ "network": ["crates.io:8443"] })), Allow);
    assert_eq!(decision(&[(Allow, "Bash")], &json!({ "network": ["crates.io"] })), Ask);
    assert_eq!(decision(&[(Allow, "WebFetch")], &json!({ "network": ["crates.io"] })), Ask);
}

#[test]
fn a_rule_that_denies_one_of_them_denies_the_command() {
    let rules = [(Allow, "Network"), (Deny, "Network(domain:*.evil.example)")];
    let needs = json!({ "network": ["crates.io", "a.evil.example"] });
    let reason = "network access to `a.evil.example`: rule `Network(domain:*.evil.example)` of config.toml:2";
    assert_eq!(decide(Mode::Unconfined, &rules, &needs), (Deny, reason.to_owned()));
    assert_eq!(decision(&[(Deny, "Bash(cargo *)"), (Allow, "Network")], &needs), Deny);
}

#[test]
fn paths_are_decided_about_as_files_that_are_read_and_written() {
    let rules = [(Allow, "Read(~/.cargo/registry)"), (Allow, "Edit(//srv/out)")];
    assert_eq!(
        decision(&rules, &json!({ "read": ["~/.cargo/registry"], "write": ["/srv/out"] })),
        Allow
    );
    assert_eq!(decision(&rules, &json!({ "read": ["/home/ann/.cargo/registry/cache"] })), Allow);
    assert_eq!(decision(&rules, &json!({ "read": ["~/.cargo"] })), Ask);
    assert_eq!(decision(&rules, &json!({ "write": ["~/.cargo/registry"] })), Ask);
    assert_eq!(decision(&[(Deny, "Read(~/.ssh)")], &json!({ "read": ["~/.ssh/id"] })), Deny);
}

#[test]
fn a_folder_is_not_allowed_when_a_rule_is_about_something_in_it() {
    let rules = [(Allow, "Read(//**)"), (Deny, "Read(~/.ssh/**)")];
    assert_eq!(decision(&rules, &json!({ "read": ["/srv"] })), Allow);
    for folder in ["~/.ssh", "/home/ann", "/"] {
        assert_ne!(decision(&rules, &json!({ "read": [folder] })), Allow, "{folder}");
    }
    let rules = [(Allow, "Read(//**)"), (Ask, "Read(//srv/*/secrets)")];
    for (folder, expected) in
        [("/srv", Ask), ("/srv/web", Ask), ("/srv/web/public", Allow), ("/opt", Allow)]
    {
        assert_eq!(decision(&rules, &json!({ "read": [folder] })), expected, "{folder}");
    }
}

#[test]
fn always_saves_a_rule_for_each_of_them() {
    let arguments = json!({
        "command": "cargo fetch", "network": ["crates.io", "a.crates.io"], "read": ["/opt/data"],
    });
    let suggest = |mode, is_confined: bool| {
        let call = Call::new("bash", &arguments);
        let call = if is_confined { call.confined() } else { call };
        let rules = policy(mode, &[]).suggest(&call);
        rules.into_iter().map(|rule| rule.rule).collect::<Vec<_>>()
    };
    let needs = ["Network(domain:crates.io)", "Network(domain:a.crates.io)", "Read(//opt/data)"];
    assert_eq!(suggest(Mode::Auto, true), needs);
    assert_eq!(suggest(Mode::Ask, true), [&["Bash(cargo fetch)"], needs.as_slice()].concat());
}
