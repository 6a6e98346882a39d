//! Sources, trust, modes, limits of definitions, shadow rules and explanations.

use loopwright_permissions::Decision::{Allow, Ask, Deny};
use loopwright_permissions::{
    Access, Call, Decision, Mode, PathCase, Policy, PolicyBuilder, Reason, Shell, Source,
    SourceKind, Table,
};
use serde_json::json;

use crate::support::{PROJECT, decide, policy};

fn source(kind: SourceKind, file: &str) -> Source {
    Source::new(kind, file, PROJECT)
}

fn from(sources: impl IntoIterator<Item = Source>) -> Policy {
    sources
        .into_iter()
        .fold(Policy::builder(PROJECT).home("/home/ann"), PolicyBuilder::source)
        .build()
}

fn warnings(policy: &Policy) -> Vec<String> {
    policy.warnings().iter().map(ToString::to_string).collect()
}

#[test]
fn rules_of_all_sources_apply_and_the_strongest_source_is_named() {
    let policy = from([
        source(SourceKind::User, "user").allow("Bash(git *)", 1).deny("Bash(git push *)", 2),
        source(SourceKind::Flags, "flags").allow("Bash(git push *)", 0),
        source(SourceKind::Local, "local").allow("Bash(git status *)", 7).ask("Bash(git tag *)", 8),
        source(SourceKind::Managed, "managed").deny("Bash(git push *)", 3),
    ]);
    let verdict = |command: &str| {
        let arguments = json!({ "command": command });
        policy.decide(&Call::new("bash", &arguments))
    };
    let push = verdict("git push");
    assert_eq!(push.decision, Decision::Deny);
    assert_eq!(push.rule().unwrap().place(), "managed:3");
    let others: Vec<String> = push.others.iter().map(|rule| rule.place()).collect();
    assert_eq!(others, ["user:2"]);
    let status = verdict("git status -s");
    assert_eq!(status.rule().unwrap().to_string(), "allow Bash(git status *) (local:7)");
    assert_eq!(status.others.len(), 1);
    assert_eq!(verdict("git tag x").decision, Decision::Ask);
}

#[test]
fn a_path_in_a_copy_is_decided_about_as_that_of_the_original() {
    let rules = source(SourceKind::User, "user").deny("Edit(src/**)", 1).deny("Read(./.env)", 2);
    let rules = rules.deny("Edit(.claude/**)", 3).ask("Bash(./deploy)", 4);
    let copies = format!("{PROJECT}/.claude/worktrees");
    let builder = Policy::builder(PROJECT).mode(Mode::Auto).source(rules);
    let policy = builder.copies(copies.as_str(), PROJECT).build();
    let copy = format!("{copies}/one");
    let edit = |path: &str| {
        let arguments = json!({ "path": path });
        policy.decide(&Call::new("write_file", &arguments).writing([path])).decision
    };
    assert_eq!(edit(&format!("{copy}/a.txt")), Allow);
    assert_eq!(edit(&format!("{copy}/src/a.txt")), Deny);
    assert_eq!(edit(&format!("{copy}/x/../src/a.txt")), Deny);
    assert_eq!(edit(&format!("{copy}/.claude/a.txt")), Deny);
    assert_eq!(edit(&format!("{copies}/../worktrees/two/src/a.txt")), Deny);
    assert_eq!(edit(&format!("{PROJECT}/.claude/settings.json")), Deny);
    let run = |command: &str| {
        let arguments = json!({ "command": command });
        policy.decide(&Call::new("bash", &arguments).confined()).decision
    };
    assert_eq!(run(&format!("cat {copy}/.env")), Deny);
    assert_eq!(run(&format!("cat {copy}/a.txt")), Allow);
    assert_eq!(run(&format!("cd {copy} && cat .env")), Deny);
    assert_eq!(run(&format!("{copy}/deploy")), Ask);
    let denied =
        |path: String| policy.denies_file(Access::Write, None, &path).map(|it| it.text.clone());
    assert_eq!(denied(format!("{copy}/src/a.txt")).as_deref(), Some("Edit(src/**)"));
    assert_eq!(denied(format!("{copy}/a.txt")), None);
    assert_eq!(policy.original_path(&format!("{copy}/src")), format!("{PROJECT}/src"));
}

#[test]
fn the_mode_of_the_strongest_source_applies() {
    let user = || source(SourceKind::User, "user").with_mode(Mode::AcceptEdits);
    let project = || source(SourceKind::Project, "project").with_mode(Mode::Auto);
    assert_eq!(from([]).mode(), Mode::Ask);
    assert_eq!(from([user()]).mode(), Mode::AcceptEdits);
    assert_eq!(from([user(), project()]).mode(), Mode::Auto);
    assert_eq!(
        from([project(), user(), source(SourceKind::Flags, "f").with_mode(Mode::Plan)]).mode(),
        Mode::Plan
    );
}

#[test]
fn a_source_that_is_not_trusted_only_tightens() {
    let project = source(SourceKind::Project, "project")
        .allow("Bash(make *)", 2)
        .ask("Bash(git tag *)", 3)
        .deny("Bash(git push *)", 4)
        .with_folder("/etc")
        .with_mode(Mode::Unconfined)
        .untrusted();
    let user = source(SourceKind::User, "user").allow("Bash(git *)", 1);
    let policy = from([project, user]);
    assert_eq!(policy.mode(), Mode::Ask);
    let decisions =
        ["make", "git status", "git tag x", "git push"].map(|command| decide(&policy, command));
    assert_eq!(decisions, [Decision::Ask, Decision::Allow, Decision::Ask, Decision::Deny]);
    assert_eq!(
        warnings(&policy),
        [
            "project: the folder `/etc` is ignored: the project is not trusted",
            "project:2: the allow rule `Bash(make *)` is ignored: the project is not trusted",
            "project: the mode `unconfined` is ignored: the project is not trusted",
        ]
    );
    let strict = |wanted, of_user| {
        let project = source(SourceKind::Project, "p").with_mode(wanted).untrusted();
        from([project, source(SourceKind::User, "u").with_mode(of_user)]).mode()
    };
    assert_eq!(strict(Mode::Plan, Mode::Auto), Mode::Plan);
    assert_eq!(strict(Mode::Deny, Mode::Ask), Mode::Deny);
    assert_eq!(strict(Mode::Ask, Mode::AcceptEdits), Mode::Ask);
    assert_eq!(strict(Mode::Auto, Mode::AcceptEdits), Mode::AcceptEdits);
    assert_eq!(strict(Mode::Deny, Mode::Plan), Mode::Plan);
}

#[test]
fn a_definition_denies_what_it_does_not_list_and_allows_nothing() {
    let definition = source(SourceKind::Definition, "agent.md")
        .with_tools("Bash(git log:*), Read(src/**) Edit mcp__db Agent(explorer)", 3)
        .without_tools("Edit(src/gen/**)", 4);
    let policy =
        from([definition, source(SourceKind::User, "u").allow("Bash(git *)", 1).allow("Edit", 2)]);
    let decisions = [
        "git log",
        "git log | git log -1",
        "git push",
        "git log; ls",
        "cd src && git log",
        "$(",
        "eval x",
    ]
    .map(|command| decide(&policy, command));
    assert_eq!(decisions, [Allow, Allow, Deny, Deny, Allow, Deny, Deny]);
    let tool = |tool: &str, arguments: serde_json::Value| {
        policy.decide(&Call::new(tool, &arguments)).decision
    };
    assert_eq!(tool("read_file", json!({ "path": "src/a" })), Allow);
    assert_eq!(tool("read_file", json!({ "path": "a" })), Deny);
    assert_eq!(tool("write_file", json!({ "path": "a" })), Allow);
    assert_eq!(tool("write_file", json!({ "path": "src/gen/a" })), Deny);
    assert_eq!(tool("mcp__db__get", json!({})), Ask);
    assert_eq!(tool("mcp__git__get", json!({})), Deny);
    assert_eq!(tool("spawn_subagent", json!({ "subagent": "explorer" })), Allow);
    assert_eq!(tool("spawn_subagent", json!({ "subagent": "other" })), Deny);
    assert_eq!(tool("todo_write", json!({})), Deny);
    assert_eq!(tool("bash_read", json!({})), Allow);
    let arguments = json!({ "command": "git push" });
    let reason = policy.decide(&Call::new("bash", &arguments)).reason;
    assert_eq!(reason, Reason::NotListed { place: "agent.md:3".to_owned() });
}

#[test]
fn a_definition_that_lists_commands_lists_no_files_that_they_are_redirected_to() {
    let definition = |tools| {
        let definition = source(SourceKind::Definition, "agent.md").with_tools(tools, 1);
        Policy::builder(PROJECT).mode(Mode::Unconfined).source(definition).build()
    };
    let commands =
        ["git log > out/a", "git log > b", ": > b", "git log > \"$X\"", "git log > /dev/null"];
    let decided = |tools| commands.map(|command| decide(&definition(tools), command));
    assert_eq!(decided("Bash(git *)"), [Deny, Deny, Deny, Deny, Allow]);
    assert_eq!(decided("Bash(git *) Edit(out/**)"), [Allow, Deny, Deny, Deny, Allow]);
    assert_eq!(decided("Bash(git *) Edit"), [Allow; 5]);
    assert_eq!(decided("Bash"), [Allow; 5]);
}

#[test]
fn unreadable_rules_are_read_in_the_stricter_way() {
    let check = |rule: &str, tool: &str, expect: Decision| {
        let arguments = json!({ "command": "ls", "path": "/etc/a", "url": "https://a.example" });
        let policy = policy(Mode::Ask, &[rule]);
        assert_eq!(policy.decide(&Call::new(tool, &arguments)).decision, expect, "{rule}: {tool}");
        assert_eq!(policy.warnings().len(), 1, "{rule}");
    };
    check("deny Bash(rm", "bash", Decision::Deny);
    check("deny Bash(rm", "read_file", Decision::Ask);
    check("allow Bash(ls", "bash", Decision::Ask);
    check("deny Bash(rm *) x", "bash", Decision::Deny);
    check("deny Ba sh(rm", "bash", Decision::Deny);
    check("deny (x)", "mcp__a__b", Decision::Deny);
    check("deny my_tool(x)", "my_tool", Decision::Deny);
    check("allow my_tool(x)", "my_tool", Decision::Ask);
    check("deny Read([a)", "read_file", Decision::Deny);
    check("allow Read([a)", "read_file", Decision::Ask);
    check("deny WebFetch(https://a.example/)", "WebFetch", Decision::Deny);
    check("deny WebFetch(domain:a.example/x)", "WebFetch", Decision::Deny);
    check("deny mcp__a__b(x)", "mcp__a__b", Decision::Deny);
    check("allow mcp__a__b(x)", "mcp__a__b", Decision::Ask);
    // The names of tools never contain such names of servers.
    check("deny mcp__größe", "mcp__gr_e_d353a267__echo", Decision::Deny);
    check("deny mcp__größe", "mcp__gray__echo", Decision::Ask);
    check("deny mcp__größe__ec*", "mcp__gr_e_d353a267__echo", Decision::Deny);
    check("deny mcp__größe__get", "mcp__gr_e_d353a267__echo", Decision::Ask);
    check("ask mcp__a.b.c", "mcp__a_b_c_0123abcd__x", Decision::Ask);
    check("allow mcp__größe", "mcp__gr_e_d353a267__echo", Decision::Ask);
    // Dead in other programs, and so here.
    check("deny Write(//etc/**)", "write_file", Decision::Ask);
    check("deny MultiEdit(//etc/**)", "MultiEdit", Decision::Ask);
}

#[test]
fn a_shadow_rule_counts_and_decides_nothing() {
    let rules = source(SourceKind::User, "user")
        .allow("Bash(git *)", 1)
        .with_shadow_rule(Decision::Deny, "Bash(git push *)", 2)
        .with_shadow_rule(Decision::Allow, "Bash(ls *)", 3)
        .with_shadow_rule(Decision::Ask, "Read(.env)", 4);
    let policy = from([rules]);
    let copy = policy.clone();
    let decisions = ["git push", "git status", "ls", "ls; git push", "ls; id"]
        .map(|command| decide(&copy, command));
    assert_eq!(decisions, [Allow, Allow, Ask, Ask, Ask]);
    let counts: Vec<(u32, u64, u64)> = policy
        .shadow_counts()
        .iter()
        .map(|count| (count.rule.line, count.matched, count.changed))
        .collect();
    assert_eq!(counts, [(2, 2, 2), (3, 3, 2), (4, 0, 0)]);
    assert_eq!(policy.rules().count(), 1);
}

#[test]
fn an_explanation_has_each_command_with_its_rule() {
    let policy =
        policy(Mode::Ask, &["allow Bash(git *)", "deny Bash(rm *)", "ask Bash(git push *)"]);
    let arguments = json!({ "command": "git log | tee x && git push; sh -c 'rm y'" });
    let explanation = policy.explain(&Call::new("bash", &arguments));
    assert_eq!(
        explanation.to_string(),
        "deny: rule `Bash(rm *)` of rules:2
  allow  git log
         rule `Bash(git *)` of rules:1
  ask    tee x
         no rule matches, mode `ask`
  ask    git push
         rule `Bash(git push *)` of rules:3
  ask    sh -c 'rm y'
         a shell can run any string or file
         a shell can run any string or file
    deny   rm y
           rule `Bash(rm *)` of rules:2
  also matches: allow Bash(git *) (rules:1)
  also matches: ask Bash(git push *) (rules:3)"
    );
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["verdict"]["reason"]["rule"]["line"], 2);
    assert_eq!(json["commands"][0]["command"], "git log");
}

#[test]
fn a_bare_deny_rule_removes_the_tool() {
    let policy = policy(
        Mode::Ask,
        &["deny Bash(rm *)", "deny Edit", "deny mcp__db", "deny WebFetch(domain:a.example)"],
    );
    let removed = |tool: &str| policy.removes(tool).map(|rule| rule.line);
    assert_eq!(removed("bash"), None);
    assert_eq!(removed("write_file"), Some(2));
    assert_eq!(removed("Edit"), Some(2));
    assert_eq!(removed("mcp__db__get"), Some(3));
    assert_eq!(removed("mcp__dbx__get"), None);
    assert_eq!(removed("WebFetch"), None);
}

#[test]
fn a_search_can_ask_about_each_file() {
    let policy = policy(Mode::Ask, &["deny Read(.env)", "deny Edit(gen/**)", "ask Read(x)"]);
    let denied = |access, path: &str| policy.denies_file(access, None, path).map(|rule| rule.line);
    assert_eq!(denied(Access::Read, "a/.env"), Some(1));
    assert_eq!(denied(Access::Write, "a/.env"), None);
    assert_eq!(denied(Access::Write, "gen/a"), Some(2));
    assert_eq!(denied(Access::Read, "x"), None);
}

#[test]
fn the_paths_that_a_sandbox_can_keep_commands_from_are_those_without_wildcards() {
    let rules = [
        "deny Edit(src/**)",
        "deny Edit(./gen)",
        "deny Edit(//etc/hosts)",
        "deny Edit(a/*/b)",
        "deny Edit(.lock)",
        "deny Read(./.env)",
        "ask Edit(docs/**)",
        "allow Edit(x/y)",
        "deny Grep(./only)",
    ];
    let policy = policy(Mode::Auto, &rules);
    let paths = |paths: &[&str]| paths.iter().map(ToString::to_string).collect();
    let [src, made, env] = ["src", "gen", ".env"].map(|it| format!("{PROJECT}/{it}"));
    assert_eq!(policy.denied_paths(Access::Write), paths(&["/etc/hosts", &made, &src]));
    assert_eq!(policy.denied_paths(Access::Read), paths(&[&env]));
}

#[test]
fn letters_of_paths_are_compared_as_the_policy_says() {
    let decide = |case| {
        let rules = source(SourceKind::User, "u").deny("Read(Secret/*.TXT)", 1);
        let policy = Policy::builder(PROJECT).path_case(case).source(rules).build();
        let arguments = json!({ "path": "SECRET/a.txt" });
        policy.decide(&Call::new("read_file", &arguments)).decision
    };
    assert_eq!(decide(PathCase::Sensitive), Decision::Allow);
    assert_eq!(decide(PathCase::Insensitive), Decision::Deny);
}

#[test]
fn a_mode_can_be_forbidden() {
    let text = r#"{ "permissions": { "disableBypassPermissionsMode": "disable" } }"#;
    let managed = loopwright_permissions::claude_settings(SourceKind::Managed, "m", "/", text);
    let policy = from([managed, source(SourceKind::Flags, "f").with_mode(Mode::Unconfined)]);
    assert_eq!(policy.mode(), Mode::Ask);
    assert!(policy.with_mode(Mode::Unconfined).is_none());
    assert_eq!(policy.with_mode(Mode::Plan).map(|policy| policy.mode()), Some(Mode::Plan));
}

#[test]
fn a_call_has_what_its_tool_declares() {
    let policy = policy(
        Mode::Ask,
        &[
            "deny Read(.env)",
            "deny Edit(gen)",
            "allow my_tool",
            "deny Bash(rm *)",
            "deny Network(domain:a.example)",
        ],
    );
    let arguments = json!({});
    let call = || Call::new("my_tool", &arguments);
    let decide = |call: Call<'_>| policy.decide(&call).decision;
    assert_eq!(decide(call()), Decision::Allow);
    assert_eq!(decide(call().reading(["a", ".env"])), Decision::Deny);
    assert_eq!(decide(call().reading([".env"]).in_dir("/work/project/x")), Decision::Deny);
    assert_eq!(decide(call().reading(["../.env"]).in_dir(PROJECT)), Decision::Allow);
    assert_eq!(decide(call().writing(["gen/x"])), Decision::Deny);
    assert_eq!(
        decide(call().running("rm x")),
        Decision::Deny,
        "a rule for commands is about every tool that runs one"
    );
    assert_eq!(decide(call().requesting("https://a.example/")), Decision::Deny);
    assert_eq!(
        policy.with_mode(Mode::Plan).unwrap().decide(&call().writing(["x"])).decision,
        Decision::Deny
    );
}

#[test]
fn a_policy_can_be_shared_between_threads() {
    fn is_shared<T: Send + Sync + Clone + 'static>() {}
    is_shared::<Policy>();
}

#[test]
fn a_table_names_the_line_that_fails() {
    let policy = policy(Mode::Ask, &["allow Bash(ls *)"]);
    let table = Table::parse("# x\n{\"command\":\"ls\",\"expect\":\"deny\"}\n\n{\"command\":\"ls\",\"expect\":\"allow\"}").unwrap();
    let failures: Vec<String> = table.failures(&policy).iter().map(ToString::to_string).collect();
    assert_eq!(failures, ["line 2: `ls`: expected deny, got allow: rule `Bash(ls *)` of rules:1"]);
    assert_eq!(Table::parse("\n{}").unwrap_err().line, 2);
}

#[test]
fn bash_syntax_asks_in_another_shell() {
    let rules = source(SourceKind::User, "u").allow("Bash(echo *)", 1).allow("Bash(ls *)", 2);
    let policy = Policy::builder(PROJECT).shell(Shell::Posix).source(rules).build();
    for command in [
        "echo a | ls",
        "echo \"$(ls)\"",
        "echo 'a' > /dev/null",
        "f() { ls; }; f",
        "echo ${x:-y}",
        "ls <<E\n$(ls)\nE",
    ] {
        assert_eq!(decide(&policy, command), Allow, "{command}");
    }
    // In dash, the first one runs `rm`.
    for command in [
        "echo $'\\'; rm x #'",
        "echo a &> /dev/null",
        "[[ a ]] && ls",
        "echo <(ls)",
        "ls <<< a",
        "((1)); ls",
        "x=(a); ls",
        "function f { ls; }; ls",
        "echo a |& ls",
        "echo {a,b}",
        "echo ${x/a/b}",
        "echo $\"a\"",
        "echo {x}> /dev/null",
        "x+=1; ls",
        "time ls",
        "coproc ls",
        "case x in x) ls ;& esac",
        "for ((;;)); do ls; done",
        "echo >& /dev/null",
    ] {
        assert_eq!(decide(&policy, command), Ask, "{command}");
    }
}

#[test]
fn a_rule_that_allows_or_asks_offers_the_tool_it_names() {
    let policy = policy(
        Mode::Ask,
        &["allow WebFetch(domain:a.example)", "ask Edit", "deny mcp__db", "deny Read(.env)"],
    );
    let offered = |tool: &str| policy.offers(tool);
    assert!(offered("web_fetch") && offered("WebFetch") && offered("edit_file"));
    assert!(!offered("mcp__db") && !offered("read_file") && !offered("web_search"));
}

#[test]
fn an_explanation_names_the_argument_that_no_rule_covers() {
    let policy = policy(Mode::Ask, &["allow Bash(find *)", "allow Bash(make *)"]);
    let explain = |command: &str| {
        policy.explain(&Call::new("bash", &json!({ "command": command }))).to_string()
    };
    assert_eq!(
        explain("find . -name x -delete"),
        "ask: the argument makes the program run or write something else, and no allow rule names \
         this argument: `-delete`\n  ask    find . -name x -delete\n         the argument makes the program run or write \
         something else, and no allow rule names this argument: `-delete`"
    );
    assert_eq!(
        policy.decide(&Call::new("bash", &json!({ "command": "make -C /opt/x" }))).to_string(),
        "ask: the argument makes the program work outside the agent's folders, and no allow rule names \
         this argument: `-C`"
    );
}

#[test]
fn a_command_that_starts_where_the_last_one_ended_is_decided_for_that_folder_and_the_working_directory()
 {
    let rules = ["allow Bash", "deny Edit(src/**)", "deny Edit(keep)"];
    let decide = |command: &str, last: Option<&str>| {
        let arguments = json!({ "command": command });
        let call = Call::new("bash", &arguments);
        let call = match last {
            Some(last) => call.with_last_dir(last),
            None => call.with_unknown_dir(),
        };
        policy(Mode::Ask, &rules).decide(&call).decision
    };
    let (src, out) = (Some("/work/project/src"), Some("/work/project/out"));
    assert_eq!(decide("rm a", src), Decision::Deny);
    assert_eq!(decide("rm a", out), Decision::Allow);
    // The folder may be gone.
    assert_eq!(decide("rm keep", out), Decision::Deny);
    assert_eq!(decide("cd .. && rm src/a", out), Decision::Deny);
    assert_eq!(decide("rm a", None), Decision::Ask);
    assert_eq!(decide("rm /tmp/a", None), Decision::Allow);

    let run = |last: Option<&str>| {
        let arguments = json!({ "command": "./x" });
        let call = Call::new("bash", &arguments);
        let call = last.map_or_else(|| call.clone(), |last| call.clone().with_last_dir(last));
        let policy = policy(Mode::Ask, &["allow Bash(./x)"]);
        (policy.decide(&call).decision, policy.suggest(&call).len())
    };
    assert_eq!(run(None), (Decision::Allow, 0));
    assert_eq!(run(Some("/work/project")), (Decision::Allow, 0));
    assert_eq!(run(Some("/work/project/sub")), (Decision::Ask, 0));
}

#[test]
fn rules_for_agents_and_skills_decide_about_the_agent_that_another_tool_starts() {
    let arguments = json!({ "skill_name": "ship" });
    let decide = |source: Source, mode: Mode| {
        let policy = Policy::builder(PROJECT).mode(mode).source(source).build();
        let call = Call::new("load_skill", &arguments).read_only();
        let verdict =
            policy.decide(&call.starting_agent("deployer").preloading_skills(["keys", "log"]));
        (verdict.decision, verdict.reason.to_string())
    };
    let user = || source(SourceKind::User, "user");
    let of = |rule: &str, part: &str| format!("the {part}: rule `{rule}` of user:3");
    let cases = [
        (user().deny("Agent(deployer)", 3), Deny, of("Agent(deployer)", "agent `deployer`")),
        (user().ask("Agent(deploy*)", 3), Ask, of("Agent(deploy*)", "agent `deployer`")),
        (user().deny("Agent", 3), Deny, of("Agent", "agent `deployer`")),
        (user().deny("Skill(log)", 3), Deny, of("Skill(log)", "skill `log`")),
        (user().ask("Skill(keys)", 3), Ask, of("Skill(keys)", "skill `keys`")),
        (user().deny("Skill(ship)", 3), Deny, "rule `Skill(ship)` of user:3".to_owned()),
        (user().deny("Agent(reader)", 3), Allow, "no rule matches, mode `ask`".to_owned()),
        (user().allow("Skill(ship)", 3), Allow, "rule `Skill(ship)` of user:3".to_owned()),
    ];
    for (source, decision, reason) in cases {
        assert_eq!(decide(source, Mode::Ask), (decision, reason));
    }
    // The mode decides about the call as a whole.
    assert_eq!(decide(user().allow("Skill(ship)", 3), Mode::Deny).0, Allow);
    assert_eq!(decide(user().allow("Agent(deployer)", 3), Mode::Deny).0, Deny);
    assert_eq!(decide(user().ask("Agent(deployer)", 3), Mode::Deny).0, Deny);
}

#[test]
fn a_list_of_tools_that_names_agents_binds_tools_that_start_them() {
    let arguments = json!({ "skill_name": "ship" });
    let decide = |tools: &[&str]| {
        let definition = source(SourceKind::Definition, "agent `a`");
        let definition = tools.iter().fold(definition, |it, tool| it.with_tools(tool, 0));
        let policy = Policy::builder(PROJECT).source(definition).build();
        let call = Call::new("load_skill", &arguments).read_only().starting_agent("deployer");
        policy.decide(&call).decision
    };
    assert_eq!(decide(&["Skill", "Agent(reader)"]), Deny);
    assert_eq!(decide(&["Agent(deployer)"]), Deny, "the list does not name skills");
    assert_eq!(decide(&["Skill", "Agent(deployer)"]), Allow);
    assert_eq!(decide(&["Skill", "Agent"]), Allow);
    assert_eq!(decide(&["Skill"]), Allow, "the list says nothing about agents");
}

#[test]
fn a_skill_is_denied_by_its_name_by_all_skills_or_by_everything() {
    let denied = |rule: &str| {
        let policy = from([source(SourceKind::User, "user").deny(rule, 3)]);
        ["ship", "review"].map(|name| policy.denies_skill(name).is_some())
    };
    assert_eq!(denied("Skill(ship)"), [true, false]);
    assert_eq!(denied("Skill(sh*)"), [true, false]);
    assert_eq!(denied("Skill"), [true, true]);
    assert_eq!(denied("*"), [true, true]);
    assert_eq!(denied("Agent(ship)"), [false, false]);
}

#[test]
fn a_source_that_is_confined_keeps_every_mode_but_unconfined() {
    for mode in Mode::ALL {
        let policy = from([source(SourceKind::Project, "project").with_mode(mode).confined()]);
        let is_ignored = mode == Mode::Unconfined;
        let expect = if is_ignored { Mode::Ask } else { mode };
        assert_eq!((policy.mode(), warnings(&policy).len()), (expect, usize::from(is_ignored)));
    }
}
