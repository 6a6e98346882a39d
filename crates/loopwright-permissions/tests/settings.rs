//! Settings files of Claude Code.

use loopwright_permissions::Mode::{AcceptEdits, Ask, Auto, Deny, Plan, Unconfined};
use loopwright_permissions::{Call, Decision, Mode, Policy, Source, SourceKind, claude_settings};
use serde_json::{Value, json};

use crate::support::PROJECT;

const FILE: &str = ".claude/settings.json";

fn source(text: &str) -> Source {
    claude_settings(SourceKind::Project, FILE, PROJECT, text)
}

/// The policy of a settings file, and everything that is said about it, without the name of the file.
fn read(text: &str) -> (Policy, Vec<String>) {
    let policy = Policy::builder(PROJECT).home("/home/ann").source(source(text)).build();
    let warnings = policy.warnings().iter().map(|warning| {
        assert_eq!(&*warning.file, FILE);
        format!("{}: {}", warning.line, warning.message)
    });
    let warnings = warnings.collect();
    (policy, warnings)
}

fn rules(policy: &Policy) -> Vec<String> {
    policy.rules().map(|rule| format!("{} {} {}", rule.line, rule.decision, rule.text)).collect()
}

fn decide(policy: &Policy, tool: &str, arguments: &Value) -> Decision {
    policy.decide(&Call::new(tool, arguments)).decision
}

#[test]
fn the_usual_file_is_read_with_its_lines() {
    let (policy, warnings) = read(
        r#"{
  "$schema": "https://json.schemastore.org/claude-code-settings.json",
  "permissions": {
    "allow": [
      "Bash(npm run lint)",
      "Bash(npm run test:*)", "Read(~/.zshrc)"
    ],
    "ask": ["Bash(git push:*)"],
    "deny": [
      "Bash(curl *)",
      "Read(./.env)",
      "Read(/secrets/**)"
    ],
    "defaultMode": "acceptEdits",
    "additionalDirectories": ["../docs/", "~/notes"]
  }
}"#,
    );
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(policy.mode(), Mode::AcceptEdits);
    assert_eq!(
        rules(&policy),
        [
            "10 deny Bash(curl *)",
            "11 deny Read(./.env)",
            "12 deny Read(/secrets/**)",
            "8 ask Bash(git push:*)",
            "5 allow Bash(npm run lint)",
            "6 allow Bash(npm run test:*)",
            "6 allow Read(~/.zshrc)",
        ]
    );
    let command = |text: &str| decide(&policy, "Bash", &json!({ "command": text }));
    assert_eq!(command("npm run lint"), Decision::Allow);
    assert_eq!(command("npm run lint --fix"), Decision::Ask);
    assert_eq!(command("npm run test"), Decision::Allow);
    assert_eq!(command("npm run test --watch && npm run lint"), Decision::Allow);
    assert_eq!(command("npm run test:unit"), Decision::Ask);
    assert_eq!(command("git push --force"), Decision::Ask);
    assert_eq!(command("npm run lint; curl x"), Decision::Deny);
    let path = |tool: &str, path: &str| decide(&policy, tool, &json!({ "file_path": path }));
    assert_eq!(path("Read", ".env"), Decision::Deny);
    assert_eq!(path("Read", "sub/.env"), Decision::Allow);
    assert_eq!(path("Read", "secrets/a/b"), Decision::Deny);
    assert_eq!(path("Read", "/home/ann/.zshrc"), Decision::Allow);
    assert_eq!(path("Read", "/home/ann/.bashrc"), Decision::Ask);
    assert_eq!(path("Edit", "/work/docs/a"), Decision::Allow);
    assert_eq!(path("Write", "/home/ann/notes/a"), Decision::Allow);
    assert_eq!(path("Write", "/home/ann/a"), Decision::Ask);
}

#[test]
fn every_mode_has_its_counterpart() {
    let modes = ["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"];
    let read = modes.map(|mode| {
        let (policy, warnings) = read(&format!(r#"{{"permissions":{{"defaultMode":"{mode}"}}}}"#));
        assert_eq!(warnings, Vec::<String>::new());
        policy.mode()
    });
    assert_eq!(read, [Ask, AcceptEdits, Plan, Auto, Deny, Unconfined]);
}

#[test]
fn an_unknown_mode_only_tightens() {
    let text = "{\n\"permissions\": {\n\"defaultMode\": \"turbo\"}}";
    let (policy, warnings) = read(text);
    assert_eq!(policy.mode(), Mode::Ask);
    assert_eq!(warnings, ["3: unknown mode \"turbo\"; a mode at least as strict as `ask` applies"]);
    let mode = |mode| Policy::builder(PROJECT).mode(mode).source(source(text)).build().mode();
    assert_eq!(mode(Mode::Unconfined), Mode::Ask);
    assert_eq!(mode(Mode::Plan), Mode::Plan);
}

#[test]
fn unknown_permission_entries_are_warnings() {
    let (policy, warnings) = read(
        "{ \"theme\": \"x\",\n \"hooks\": {},\n \"permissions\": { \"allow\": [\"Read\"],\n\"allowed\": [\"Bash\"] },\n \"outputStyle\": {},\n \"env\": {}, \"model\": \"x\", \"statusLine\": {} }",
    );
    assert_eq!(
        warnings,
        [
            "1: `theme` is ignored: not supported",
            "4: `permissions.allowed` is unknown and ignored",
            "5: `outputStyle` is ignored: not supported",
        ]
    );
    assert_eq!(rules(&policy), ["3 allow Read"]);
}

#[test]
fn a_file_without_permissions_has_no_rules() {
    for text in [
        "{}",
        "{ \"permissions\": {} }",
        "{ \"permissions\": null }",
        "\u{feff}{}",
        "{\"permissions\":{\"allow\":null,\"deny\":[]}}",
    ] {
        let (policy, warnings) = read(text);
        assert_eq!((rules(&policy), warnings), (Vec::new(), Vec::new()), "{text}");
    }
}

#[test]
fn a_file_that_cannot_be_read_asks_about_every_call() {
    for text in [
        "",
        "{",
        "[]",
        "{ \"permissions\": { \"deny\": [\"Bash\"] }",
        "{} x",
        "// x\n{}",
        "{ 'a': 1 }",
    ] {
        let (policy, warnings) = read(text);
        assert_eq!(warnings.len(), 1, "{text}");
        assert!(
            warnings[0].contains("the file cannot be read, so every call needs approval"),
            "{warnings:?}"
        );
        assert_eq!(decide(&policy, "Read", &json!({ "path": "a" })), Decision::Ask, "{text}");
    }
}

#[test]
fn values_of_the_wrong_type_are_read_in_the_stricter_way() {
    let check = |text: &str, expect: &[&str], warning: &str| {
        let (policy, warnings) = read(&format!("{{ \"permissions\": {text} }}"));
        assert_eq!(rules(&policy), expect, "{text}");
        assert_eq!(warnings, [warning], "{text}");
    };
    check(
        r#"{ "deny": "Read(.env)" }"#,
        &["1 deny Read(.env)"],
        "1: `permissions.deny` is a string instead of a list",
    );
    check(r#"{ "allow": "Bash" }"#, &[], "1: `permissions.allow` is a string instead of a list");
    check(
        r#"{ "deny": { "Bash": true } }"#,
        &["1 ask *"],
        "1: `permissions.deny` is not a list, so every call needs approval",
    );
    check(
        r#"{ "allow": { "Bash": true } }"#,
        &[],
        "1: `permissions.allow` is not a list; it allows nothing",
    );
    check(
        r#"{ "ask": ["Bash", 1] }"#,
        &["1 ask Bash", "1 ask *"],
        "1: an entry of `permissions.ask` is not a string, so every call needs approval",
    );
    check(
        r#"{ "allow": ["Read", null] }"#,
        &["1 allow Read"],
        "1: an entry of `permissions.allow` is not a string; it allows nothing",
    );
    check("[]", &["1 ask *"], "1: `permissions` is not an object, so every call needs approval");
    check(
        r#"{ "additionalDirectories": "/" }"#,
        &[],
        "1: `permissions.additionalDirectories` is not a list and is ignored",
    );
    check(
        r#"{ "additionalDirectories": [7] }"#,
        &[],
        "1: an entry of `permissions.additionalDirectories` is not a path and is ignored",
    );
    check(
        r#"{ "defaultMode": 1 }"#,
        &[],
        "1: unknown mode 1; a mode at least as strict as `ask` applies",
    );
}

#[test]
fn the_first_of_two_equal_keys_only_tightens() {
    let (policy, warnings) = read(
        "{ \"permissions\": { \"allow\": [\"Bash\"], \"deny\": [\"Read(.env)\"], \"defaultMode\": \"auto\" },\n\
         \"permissions\": { \"allow\": [\"Edit\"],\n \"allow\": [\"Read\"],\n \"deny\": [\"Grep\"] } }",
    );
    assert_eq!(rules(&policy), ["1 deny Read(.env)", "4 deny Grep", "3 allow Read"]);
    assert_eq!(policy.mode(), Mode::Ask);
    assert_eq!(
        warnings,
        [
            "1: `permissions` is repeated below, so only the deny and ask rules here apply",
            "2: `allow` is repeated below, so its value here can only restrict",
        ]
    );
}

#[test]
fn a_deny_entry_that_is_no_rule_denies_every_tool_that_it_names() {
    let name = "the name of the tool is missing or contains characters other than letters, digits, `_`, `-`, `.`, `:` and `*`";
    let list = |entry: &str, named: &str| {
        format!(
            "2: rule `{entry}`: an entry must be one rule; write {named} as separate entries; each rule applies"
        )
    };
    let malformed = |entry: &str, problem: &str, effect: &str| {
        format!("2: rule `{entry}`: {problem}; the rule applies `deny` to every call{effect}")
    };
    let whole = " of the tool";
    // The decisions about a command, a read and a change, and about `git log`.
    let cases: [(&str, [u8; 4], String); 12] = [
        ("Bash,Edit", [1, 0, 1, 1], list("Bash,Edit", "`Bash`, `Edit`")),
        ("Bash, Edit", [1, 0, 1, 1], list("Bash, Edit", "`Bash`, `Edit`")),
        ("Bash|Edit", [1, 0, 1, 1], list("Bash|Edit", "`Bash`, `Edit`")),
        ("Bash Edit", [1, 0, 1, 1], list("Bash Edit", "`Bash`, `Edit`")),
        (
            "Bash(git log:*),Edit",
            [0, 0, 1, 1],
            list("Bash(git log:*),Edit", "`Bash(git log:*)`, `Edit`"),
        ),
        ("Read(a),Edit(b)", [0, 1, 1, 0], list("Read(a),Edit(b)", "`Read(a)`, `Edit(b)`")),
        ("Bash[echo]", [1, 0, 0, 1], malformed("Bash[echo]", name, whole)),
        ("!Bash", [1, 1, 1, 1], malformed("!Bash", name, "")),
        ("Bash;Edit", [1, 1, 1, 1], malformed("Bash;Edit", name, "")),
        ("Bash(ls) Edit", [0, 0, 1, 0], list("Bash(ls) Edit", "`Bash(ls)`, `Edit`")),
        ("Bash(rm) x", [1, 0, 0, 1], malformed("Bash(rm) x", "text follows the specifier", whole)),
        ("my tool", [1, 1, 1, 1], malformed("my tool", name, "")),
    ];
    for (entry, denied, warning) in cases {
        let text = format!(
            "{{ \"permissions\": {{ \"defaultMode\": \"bypassPermissions\",\n\"deny\": [\"{entry}\"] }} }}"
        );
        let (policy, warnings) = read(&text);
        let is_denied = |tool: &str, arguments: Value| {
            u8::from(decide(&policy, tool, &arguments) == Decision::Deny)
        };
        let decided = [
            is_denied("bash", json!({ "command": "make" })),
            is_denied("read_file", json!({ "path": "a" })),
            is_denied("edit_file", json!({ "path": "b" })),
            is_denied("bash", json!({ "command": "git log" })),
        ];
        assert_eq!((decided, warnings), (denied, vec![warning]), "{entry}");
    }
}

#[test]
fn a_deny_entry_that_is_no_rule_and_names_a_server_denies_its_tools() {
    let (policy, warnings) = read(r#"{"permissions":{"deny":["mcp__git x"],"allow":["*"]}}"#);
    assert_eq!(decide(&policy, "mcp__git__push", &json!({})), Decision::Deny);
    assert_eq!(decide(&policy, "mcp__other__push", &json!({})), Decision::Allow);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn an_allow_entry_that_is_no_rule_allows_nothing() {
    for entry in ["Bash,Edit", "Bash|Edit", "Bash[echo]", "!Bash", "Read(a),Edit(b)"] {
        let (policy, warnings) = read(&format!(r#"{{"permissions":{{"allow":["{entry}"]}}}}"#));
        assert_eq!(decide(&policy, "bash", &json!({ "command": "x" })), Decision::Ask, "{entry}");
        assert_eq!(decide(&policy, "edit_file", &json!({ "path": "b" })), Decision::Ask, "{entry}");
        let told = format!("1: rule `{entry}`: ");
        assert!(
            matches!(&warnings[..], [it] if it.starts_with(&told) && it.ends_with("; the rule matches nothing")),
            "{warnings:?}"
        );
    }
}

#[test]
fn a_deny_or_ask_rule_for_a_tool_that_does_not_exist_is_reported_with_its_line() {
    let (policy, warnings) = read(
        "{\"permissions\": {\n\"deny\": [\"Bashh\",\n\"PowerShell\", \"run_shell_command\", \"mcp__git\", \"refund\"],\n\
         \"ask\": [\"Raed\"], \"allow\": [\"Other\"] } }",
    );
    assert_eq!(warnings, Vec::<String>::new());
    let unknown = policy.unknown_tools(|name| name == "refund");
    let unknown: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    assert_eq!(
        unknown,
        [
            ".claude/settings.json:2: rule `Bashh`: unknown tool `Bashh`; write `Bash`",
            ".claude/settings.json:3: rule `PowerShell`: unknown tool `PowerShell`",
            ".claude/settings.json:4: rule `Raed`: unknown tool `Raed`; write `Read`",
        ]
    );
    let arguments = json!({ "command": "ls" });
    assert_eq!(decide(&policy, "bash", &arguments), Decision::Deny);
}

#[test]
fn settings_of_a_user_are_read_for_what_restricts() {
    let text = r#"{ "model": "x", "disableAllHooks": true, "disableFoo": 1, "env": {},
        "permissions": { "allow": ["Bash"], "deny": ["Read"], "defaultMode": "bypassPermissions", "additionalDirectories": ["/x"], "disableAutoMode": "disable" } }"#;
    let source = claude_settings(SourceKind::User, "user", "/home/ann", text);
    let source = source.with_restrictions_only("`permissions.claude` is not set");
    let policy = Policy::builder(PROJECT).source(source).build();
    let warnings: Vec<String> = policy.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "user:1: `disableFoo` is ignored: not supported",
            "user:2: the folder `/x` is ignored: `permissions.claude` is not set",
            "user:2: the allow rule `Bash` is ignored: `permissions.claude` is not set",
            "user:2: the mode `unconfined` is ignored: `permissions.claude` is not set",
        ]
    );
    assert_eq!(policy.mode(), Mode::Ask);
    assert!(policy.with_mode(Mode::Auto).is_none());
    assert_eq!(decide(&policy, "read_file", &json!({ "path": "a" })), Decision::Deny);
}

#[test]
fn write_with_a_path_never_matches() {
    let (policy, warnings) =
        read(r#"{ "permissions": { "allow": ["Write(src/**)"], "deny": ["MultiEdit(x)"] } }"#);
    assert_eq!(decide(&policy, "Write", &json!({ "file_path": "src/a" })), Decision::Ask);
    assert_eq!(decide(&policy, "MultiEdit", &json!({ "file_path": "x" })), Decision::Ask);
    assert_eq!(
        warnings,
        [
            "1: rule `MultiEdit(x)`: `MultiEdit(path)` never matches; write `Edit(x)`, which covers all tools that write; the rule matches nothing",
            "1: rule `Write(src/**)`: `Write(path)` never matches; write `Edit(src/**)`, which covers all tools that write; the rule matches nothing",
        ]
        .map(ToOwned::to_owned)
        .into_iter()
        .rev()
        .collect::<Vec<_>>()
    );
}

#[test]
fn deny_comes_before_ask_and_ask_before_allow_whatever_is_more_specific() {
    let (policy, _) = read(
        r#"{ "permissions": { "allow": ["Bash(git push origin main)", "Bash(npm *)"], "ask": ["Bash(git *)"], "deny": ["Bash(npm publish:*)"] } }"#,
    );
    let command = |text: &str| decide(&policy, "Bash", &json!({ "command": text }));
    assert_eq!(command("git push origin main"), Decision::Ask);
    assert_eq!(command("npm publish"), Decision::Deny);
    assert_eq!(command("npm ci"), Decision::Allow);
}

#[test]
fn lists_of_all_files_are_merged() {
    let user = claude_settings(
        SourceKind::User,
        "user",
        "/home/ann",
        r#"{ "permissions": { "allow": ["Bash(a *)", "Edit(/notes/**)"], "defaultMode": "plan" } }"#,
    );
    let project =
        source(r#"{ "permissions": { "deny": ["Bash(a b)"], "defaultMode": "default" } }"#);
    let local = claude_settings(
        SourceKind::Local,
        "local",
        PROJECT,
        r#"{ "permissions": { "allow": ["Bash(c *)"] } }"#,
    );
    let policy = Policy::builder(PROJECT).source(user).source(project).source(local).build();
    assert_eq!(policy.mode(), Mode::Ask);
    let command = |text: &str| decide(&policy, "Bash", &json!({ "command": text }));
    assert_eq!(
        [command("a"), command("a b"), command("c"), command("d")],
        [Decision::Allow, Decision::Deny, Decision::Allow, Decision::Ask]
    );
    assert_eq!(
        decide(&policy, "Write", &json!({ "file_path": "/home/ann/notes/a" })),
        Decision::Allow
    );
}

#[test]
fn servers_agents_skills_and_domains_are_named_as_there() {
    let (policy, warnings) = read(
        r#"{ "permissions": {
            "allow": ["mcp__github", "mcp__db__query", "WebFetch(domain:docs.rs)", "Skill(pdf)", "WebSearch"],
            "deny": ["mcp__github__delete_repo", "Agent(danger)", "Task(other)", "NotebookEdit"] } }"#,
    );
    assert_eq!(warnings, Vec::<String>::new());
    let tool = |tool: &str, arguments: Value| decide(&policy, tool, &arguments);
    assert_eq!(tool("mcp__github__get", json!({})), Decision::Allow);
    assert_eq!(tool("mcp__github__delete_repo", json!({})), Decision::Deny);
    assert_eq!(tool("mcp__db__drop", json!({})), Decision::Ask);
    assert_eq!(tool("WebFetch", json!({ "url": "https://docs.rs/x" })), Decision::Allow);
    assert_eq!(tool("Skill", json!({ "skill": "pdf" })), Decision::Allow);
    assert_eq!(tool("Task", json!({ "subagent_type": "danger" })), Decision::Deny);
    assert_eq!(tool("spawn_subagent", json!({ "subagent": "other" })), Decision::Deny);
    assert_eq!(tool("NotebookEdit", json!({ "notebook_path": "a" })), Decision::Deny);
    assert_eq!(tool("WebSearch", json!({ "query": "x" })), Decision::Allow);
}

#[test]
fn deny_and_ask_lists_count_in_any_case_and_outside_of_the_permissions() {
    let (policy, warnings) = read(
        "{ \"deny\": [\"Bash(rm *)\"],\n\"permissions\": { \"Deny\": [\"Read(./.env)\"],\n\"ASK\": [\"Edit\"] } }",
    );
    assert_eq!(rules(&policy), ["1 deny Bash(rm *)", "2 deny Read(./.env)", "3 ask Edit"]);
    let expect = [
        "1: `deny` is read as `permissions.deny`; move the key there",
        "2: `permissions.Deny` is read as `deny`",
        "3: `permissions.ASK` is read as `ask`",
    ];
    assert_eq!(warnings, expect);
}
