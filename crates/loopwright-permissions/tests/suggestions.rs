//! Rules to save for "always".

use loopwright_permissions::{Call, Decision, Mode, SuggestedRule};
use serde_json::{Value, json};

use crate::support::policy;

fn suggested(rules: &[&str], tool: &str, arguments: &Value) -> Vec<SuggestedRule> {
    policy(Mode::Ask, rules).suggest(&Call::new(tool, arguments))
}

fn texts(rules: &[&str], tool: &str, arguments: &Value) -> Vec<String> {
    suggested(rules, tool, arguments).into_iter().map(|rule| rule.rule).collect()
}

#[test]
fn a_command_gets_a_rule_for_each_part_that_is_not_allowed() {
    let check = |command: &str, expect: &[&str]| {
        let found = texts(
            &["allow Bash(ls *)", "ask Bash(git push *)", "deny Bash(rm *)"],
            "bash",
            &json!({ "command": command }),
        );
        assert_eq!(found, expect, "{command}");
    };
    check("make all", &["Bash(make all)"]);
    check("ls", &[]);
    check("ls | sort -u && make", &["Bash(sort -u)", "Bash(make)"]);
    check("make; make", &["Bash(make)"]);
    check("timeout 5 make", &["Bash(make)"]);
    check("A=1 make", &["Bash(A=1 make)"]);
    check("A='b c' B= make x", &["Bash(A='b c' B='' make x)"]);
    check("env A=1 make", &["Bash(env A=1 make)"]);
    check("A=1 timeout 5 make", &["Bash(A=1 timeout 5 make)"]);
    check("A=$X make", &[]);
    check("./x 'a b'", &["Bash(./x 'a b')"]);
    check("cd sub && ./x", &["Bash(./sub/x)"]);
    check("cd sub && ../x a", &["Bash(./x a)"]);
    check("cd sub && A=1 ./x", &["Bash(A=1 ./sub/x)"]);
    check("cd sub; ./x", &[]);
    check("cd $X && ./x", &[]);
    check("cd /opt && ./x", &["Bash(cd /opt)", "Bash(/opt/x)"]);
    check("./a/../x", &["Bash(./x)"]);
    check("~/bin/x", &["Bash(~/bin/x)"]);
    check("'~/bin/x'", &["Bash(./~/bin/x)"]);
    check("echo 'a b' \"c*\"", &["Bash(echo 'a b' 'c*')"]);
    check("echo it\\'s", &[r"Bash(echo 'it'\''s')"]);
    check("echo ''", &["Bash(echo '')"]);
    check("echo ')' '('", &["Bash(echo ')' '(')"]);
    check("make > out", &["Bash(make)", "Edit(./out)"]);
    check("make > /tmp/a*b", &[]);
    check("make > '/tmp/a*b'", &["Bash(make)", r"Edit(//tmp/a\*b)"]);
    check("ls > out", &["Edit(./out)"]);
    check("cd sub && make", &["Bash(make)"]);
    check("cd / && make", &["Bash(cd /)", "Bash(make)"]);
    check("sudo make", &["Bash(sudo make)"]);
    check("find . -delete", &["Bash(find . -delete)"]);
    check("git -c a=b status", &["Bash(git -c a=b status)"]);
    check("find . -name '*.rs'", &["Bash(find . -name '*.rs')"]);
    // Nothing for what a rule asks about or denies, or what cannot be read.
    for command in [
        "git push",
        "make && git push",
        "rm x",
        "make; rm x",
        "eval make",
        "sh -c make",
        "make $X",
        "$X",
        "make *.c",
        "make $(ls)",
        "PATH=/x make",
        "make > $F",
        "source x",
        "xargs make",
        "make; (((",
        "make 'a\nb'",
        "make() { ls; }; make",
        "bash x.sh",
        "cat <<X\na\nX",
        "cat <<< a",
        "echo 1 | python3",
        "env -S 'make'",
    ] {
        check(command, &[]);
    }
}

#[test]
fn a_command_that_only_builds_or_shows_gets_a_wider_rule_as_well() {
    let check = |command: &str, expect: Option<&str>| {
        let found = suggested(&[], "bash", &json!({ "command": command }));
        assert_eq!(found[0].wider.as_deref(), expect, "{command}");
    };
    check("cargo test --lib x", Some("Bash(cargo test *)"));
    check("git diff HEAD", Some("Bash(git diff *)"));
    check("npm run build -- x", Some("Bash(npm run build *)"));
    check("go vet ./...", Some("Bash(go vet *)"));
    check("git push -f", None);
    check("cargo publish", None);
    check("make all", None);
    check("npm run", None);
}

#[test]
fn other_calls_get_the_rule_that_names_them() {
    let check = |tool: &str, arguments: Value, expect: &[&str]| {
        let found = texts(&["allow Read(//etc/hosts)", "ask mcp__db__set"], tool, &arguments);
        assert_eq!(found, expect, "{tool} {arguments}");
    };
    check("write_file", json!({ "path": "src/a[1].rs" }), &[r"Edit(./src/a\[1].rs)"]);
    check("Edit", json!({ "file_path": "/work/project/x/../a" }), &["Edit(./a)"]);
    check("read_file", json!({ "path": "/etc/passwd" }), &["Read(//etc/passwd)"]);
    check("read_file", json!({ "path": "/etc/hosts" }), &[]);
    check("read_file", json!({ "path": "src/a" }), &[]);
    check("WebFetch", json!({ "url": "https://a.example/x?y" }), &["WebFetch(domain:a.example)"]);
    check("WebFetch", json!({ "url": "https://a.example\\x" }), &[]);
    check("network", json!({ "domain": "A.example:443" }), &["Network(domain:a.example)"]);
    check("mcp__db__get", json!({ "id": 1 }), &["mcp__db__get"]);
    check("mcp__db__set", json!({ "id": 1 }), &[]);
    check("load_skill", json!({ "skill_name": "pdf" }), &["Skill(pdf)"]);
    check("load_skill", json!({ "skill_name": "p*" }), &[]);
    check("my_tool", json!({}), &["my_tool"]);
    check("write_file", json!({}), &[]);
}

#[test]
fn a_suggested_rule_allows_the_call_and_only_what_it_names() {
    let commands = [
        "make all",
        "echo 'a b'",
        "ls -la | sort",
        "cd x && make",
        "printf '%s\\n' a",
        "echo a:b",
        "echo 'x *'",
        "A=1 ./run 'b'",
        "timeout 3 nice make -j4",
        "echo a > 'b c'",
        "echo \\*",
        "echo 'a:*'",
        "grep -r 'x;y' src",
    ];
    for command in commands {
        let rules = texts(&[], "bash", &json!({ "command": command }));
        assert!(!rules.is_empty(), "{command}");
        let rules: Vec<String> = rules.iter().map(|rule| format!("allow {rule}")).collect();
        let saved = policy(Mode::Ask, &rules);
        let decide = |command: &str| crate::support::decide(&saved, command);
        assert_eq!(decide(command), Decision::Allow, "{command} {rules:?}");
        for other in
            [format!("{command} extra"), format!("extra; {command}"), format!("extra {command}")]
        {
            assert_eq!(decide(&other), Decision::Ask, "{other} {rules:?}");
        }
    }
}
