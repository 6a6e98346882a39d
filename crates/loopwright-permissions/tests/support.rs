//! Policies for tests.

use loopwright_permissions::{Call, Decision, Mode, Policy, Source, SourceKind};
use serde_json::json;

pub(crate) const PROJECT: &str = "/work/project";

/// A policy of rules such as `deny Bash(rm *)`, each on its own line.
pub(crate) fn policy(mode: Mode, rules: &[impl AsRef<str>]) -> Policy {
    let source = Source::new(SourceKind::Project, "rules", PROJECT);
    let source = rules.iter().zip(1..).fold(source, |source, (rule, line)| {
        let (decision, rule) = rule.as_ref().split_once(' ').unwrap();
        let decision: Decision = serde_json::from_value(json!(decision)).unwrap();
        source.with_rule(decision, rule, line)
    });
    Policy::builder(PROJECT).home("/home/ann").mode(mode).source(source).build()
}

pub(crate) fn decide(policy: &Policy, command: &str) -> Decision {
    policy.decide(&Call::new("bash", &json!({ "command": command }))).decision
}
