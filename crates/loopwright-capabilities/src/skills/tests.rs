//! Skills as files, their arguments, commands and rules.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use loopwright_core::{AgentState, Edit, LlmConfig, messages::ReasoningEffort};
use loopwright_permissions::{Call, Mode, Policy};
use loopwright_sandbox::{ExitOutcome, FakeSandbox, Output, TimeoutKind};
use serde_json::{Map, json};
use tokio_util::sync::CancellationToken;

use super::shell::{Piece, pieces};
use super::substitute::{Values, counted_from_zero, substitute};
use super::*;

fn parse(text: &str) -> (Skill, Vec<SkillProblem>) {
    Skill::parse("demo", text).unwrap()
}

fn info(front: &str) -> (SkillInfo, Vec<SkillProblem>) {
    let (skill, problems) = parse(&format!("---\n{front}\n---\nDo it.\n"));
    assert_eq!(skill.body, "Do it.\n");
    (skill.info, problems)
}

fn rules(texts: &[&str]) -> Vec<ToolRule> {
    texts.iter().map(|it| ToolRule::new(it)).collect()
}

fn write(root: &Path, directory: &str, text: &str) {
    fs::create_dir_all(root.join(directory)).unwrap();
    fs::write(root.join(directory).join("SKILL.md"), text).unwrap();
}

fn named(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\nBody of {name}.\n")
}

#[test]
fn front_matter_is_read_whole() {
    let front = "name: demo\ndescription: Demo skill\nlicense: MIT\ncompatibility: needs git\n\
        metadata:\n  version: 1.0\n  author: Ann\nallowed-tools: Read, Grep\n\
        disable-model-invocation: true\nuser-invocable: false\nargument-hint: \"[number]\"\n\
        model: small\ncontext: fork\nagent: Explore\nunknown: 1\ntags: [php, testing]";
    let (info, problems) = info(front);
    let metadata = json!({ "version": 1.0, "author": "Ann", "tags": ["php", "testing"] });
    let expect = SkillInfo {
        license: Some("MIT".into()),
        compatibility: Some("needs git".into()),
        metadata: metadata.as_object().unwrap().clone(),
        allowed_tools: rules(&["Read", "Grep"]),
        model_invocable: false,
        user_invocable: false,
        argument_hint: Some("[number]".into()),
        model: Some("small".into()),
        context: SkillContext::Fork,
        agent: Some("Explore".into()),
        ..SkillInfo::new("demo", "Demo skill")
    };
    assert_eq!((info, problems), (expect, vec![]));
}

#[test]
fn omitted_fields_have_their_defaults() {
    let (info, problems) = info("name: demo\ndescription: Demo skill");
    assert_eq!((info, problems), (SkillInfo::new("demo", "Demo skill"), vec![]));
}

#[test]
fn windows_line_ends_and_byte_order_marks_make_no_difference() {
    let text = "---\nname: demo\ndescription: Demo\n---\n\nDo\nit.\n";
    let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    assert_eq!(parse(&windows), parse(text));
    assert_eq!(parse(text).0.content(), "Do\nit.\n");
}

#[test]
fn allowed_tools_are_parted_by_commas_blanks_or_as_a_list() {
    let expect = rules(&["Bash(git add:*)", "Read"]);
    for list in ["Bash(git add:*), Read", "Bash(git add:*) Read", "[\"Bash(git add:*)\", Read]"] {
        let (info, _) = info(&format!("name: demo\ndescription: d\nallowed-tools: {list}"));
        assert_eq!(info.allowed_tools, expect, "{list}");
    }
}

#[test]
fn a_markdown_file_of_a_directory_of_commands_is_a_skill_named_by_the_file() {
    let home = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("Fix_Issue.md", "# Fix an issue\n\nFix issue $ARGUMENTS.\n");
    write("git/push.md", "---\ndescription: Pushes.\nname: other\n---\nPush to $1.\n");
    write("notes.txt", "Not a command.");
    write(".hidden.md", "Not a command.");
    write("a/b/deep.md", "Not a command.");
    let skills = SkillLibrary::default().with_commands(SkillScope::User, home.path());
    assert_eq!(skills.warnings(), []);
    let shown = |audience| {
        let all = skills.list(audience);
        all.iter().map(|it| it.info.to_line()).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(shown(SkillAudience::Users), "- [Fix_Issue]: Fix an issue\n- [git:push]: Pushes.");
    assert_eq!(shown(SkillAudience::Models), "- [git:push]: Pushes.");
    assert_eq!(skills.get("git:push").unwrap().content(), "Push to $ARGUMENTS[0].\n");
    // It is read again when it changes.
    write("git/push.md", "Push now, and hard.");
    assert_eq!(skills.get("git:push").unwrap().content(), "Push now, and hard.");
}

#[test]
fn commands_count_their_arguments_from_one() {
    let check = |text: &str, expect: &str| assert_eq!(counted_from_zero(text), expect);
    check("$1 and $2, not $12 or a$1", "$ARGUMENTS[0] and $ARGUMENTS[1], not $12 or a$1");
    check("$0 and $1", "$0 and $1");
    check("$1$2", "$ARGUMENTS[0]$ARGUMENTS[1]");
    check("$ARGUMENTS, $$ and $", "$ARGUMENTS, $$ and $");
}

#[test]
fn a_file_without_front_matter_is_a_skill_named_by_its_directory() {
    let (skill, problems) = parse("# Just do it\n---\nnot front matter\n---\n");
    assert_eq!(skill.info, SkillInfo::new("demo", ""));
    assert_eq!(skill.content(), "# Just do it\n---\nnot front matter\n---\n");
    assert_eq!(problems, [SkillProblem::NoFrontMatter]);
}

#[test]
fn harmless_deviations_are_warnings() {
    let long = "d".repeat(1025);
    let cases = [
        ("name: Demo\ndescription: d", SkillProblem::BadName("Demo".into())),
        ("name: a--b\ndescription: d", SkillProblem::BadName("a--b".into())),
        (
            "name: other\ndescription: d",
            SkillProblem::NameMismatch { name: "other".into(), directory: "demo".into() },
        ),
        ("name: demo", SkillProblem::NoDescription),
        (
            &format!("name: demo\ndescription: {long}"),
            SkillProblem::TooLong { key: "description", length: 1025, most: 1024 },
        ),
        (
            "name: demo\ndescription: d\nlicense: [MIT]",
            SkillProblem::WrongType { key: "license", expected: "text" },
        ),
        ("name: demo\ndescription: Use when: asked", SkillProblem::Quoted),
    ];
    for (front, problem) in cases {
        assert_eq!(info(front).1, [problem], "{front}");
    }
    assert_eq!(info("name: demo\ndescription: Use when: asked").0.description, "Use when: asked");
}

#[test]
fn a_skill_whose_restrictions_are_not_known_is_left_out() {
    let key = "disable-model-invocation";
    let cases = [
        ("name: [", None),
        ("allowed-tools: {a: b}", Some(("allowed-tools", "a list of tools"))),
        ("allowed-tools: [1]", Some(("allowed-tools", "a list of tools"))),
        ("disable-model-invocation: perhaps", Some((key, "true or false"))),
    ];
    for (front, restriction) in cases {
        let problem = Skill::parse("demo", &format!("---\n{front}\n---\n")).unwrap_err();
        match restriction {
            Some((key, expected)) => {
                assert_eq!(problem, SkillProblem::BadRestriction { key, expected });
            }
            None => assert!(matches!(problem, SkillProblem::BadFrontMatter(_)), "{problem}"),
        }
        assert!(problem.is_fatal());
    }
}

#[test]
fn arguments_are_filled_in_once() {
    let cases = [
        ("fix $ARGUMENTS now", Some("7 fast"), "fix 7 fast now"),
        ("$ARGUMENTS[1]/$0/$5/$ARGUMENTS[9]", Some("a b"), "b/a//"),
        ("cost$1 $10 a$0 ($0)", Some("x y"), "cost$1 $10 a$0 (x)"),
        ("$0$1 $ARGUMENTS$0", Some("a b"), "ab a ba"),
        ("$0 and $ARGUMENTS", Some("$1 $ARGUMENTS"), "$1 and $1 $ARGUMENTS"),
        ("$ARGUMENTS_OLD $HOME", Some(""), "$ARGUMENTS_OLD $HOME"),
        ("No place.\n", Some("a b"), "No place.\n\nARGUMENTS: a b"),
        ("No place.", Some("  "), "No place."),
        ("$0 $ARGUMENTS", None, "$0 $ARGUMENTS"),
        ("é$ARGUMENTS[x] $", Some("ü"), "éü[x] $"),
    ];
    for (text, arguments, expect) in cases {
        let values = Values { arguments, directory: None };
        assert_eq!(substitute(text, values), expect, "{text}");
    }
}

#[test]
fn commands_are_found_between_backticks() {
    use Piece::{Command, Text};
    assert_eq!(pieces("a !`b` c"), [Text("a "), Command("b"), Text(" c")]);
    assert_eq!(pieces("!`a``b`!``"), [Command("a"), Text("`b`!``")]);
    assert_eq!(pieces("what!`no"), [Text("what!`no")]);
}

#[test]
fn a_block_of_commands_is_one_command() {
    use Piece::{Command, Text};
    let text = "a !`b`\n```!\nls\npwd\n```\nc\n```sh\n!`d`\n```";
    let expect = [
        Text("a "),
        Command("b"),
        Text("\n"),
        Command("ls\npwd"),
        Text("\nc\n```sh\n"),
        Command("d"),
        Text("\n```"),
    ];
    assert_eq!(pieces(text), expect);
    for open in ["```!\nls", "```!\n```\n"] {
        assert_eq!(pieces(open), [Text(open)]);
    }
}

#[test]
fn a_caller_replaces_the_commands_of_a_skill() {
    let (skill, _) =
        parse("---\nname: demo\ndescription: D.\n---\nAt !`git log`: $1 of $ARGUMENTS.");
    assert_eq!(skill.commands(), ["git log"]);
    let text = skill.render_with(Some("a b"), ["<$0 !`x`>".to_owned()]);
    let expect = "<skill_content name=\"demo\">\nAt <$0 !`x`>: b of a b.\n</skill_content>";
    assert_eq!(text, expect);
    assert_eq!(parse("No `command`!").0.commands(), Vec::<&str>::new());
}

#[test]
fn the_name_of_a_directory_adds_no_command_and_no_placeholder_to_a_skill() {
    let root = tempfile::tempdir().unwrap();
    let name = "a!`touch x`$0";
    write(root.path(), name, "---\nname: b\ndescription: D.\n---\nAt ${CLAUDE_SKILL_DIR}: $0.");
    let command = "---\nname: c\ndescription: D.\n---\n!`cat ${CLAUDE_SKILL_DIR}/$0`";
    write(root.path(), "c", command);
    let skills = SkillLibrary::new(root.path());
    let (named, running) = (skills.get("b").unwrap(), skills.get("c").unwrap());
    let place = |name: &str| root.path().join(name).display().to_string();
    assert_eq!(named.commands(), Vec::<&str>::new());
    let expect = |body: &str, name: &str| {
        format!("<skill_content name=\"{name}\">\n{body}\n</skill_content>")
    };
    let text = expect(&format!("At {}: one.", place(name)), "b");
    assert_eq!(
        (named.render(Some("one")), named.render_with(Some("one"), [])),
        (text.clone(), text)
    );
    assert_eq!(running.commands(), [format!("cat {}/$0", place("c"))]);
    let text = expect("out\n\nARGUMENTS: one", "c");
    assert_eq!(running.render_with(Some("one"), ["out".to_owned()]), text);
}

#[test]
fn hooks_are_a_warning_unless_the_program_runs_them_and_others_than_a_map_leave_the_skill_out() {
    let root = tempfile::tempdir().unwrap();
    let with = |hooks: &str| format!("---\nname: demo\ndescription: D.\nhooks: {hooks}\n---\nGo.");
    write(root.path(), "demo", &with("{ Stop: [{ hooks: [] }] }"));
    let library = SkillLibrary::new(root.path());
    let problems = |library: &SkillLibrary| -> Vec<SkillProblem> {
        library.warnings().into_iter().map(|it| it.problem).collect()
    };
    assert_eq!(problems(&library), [SkillProblem::Unsupported { key: "hooks" }]);
    let library = library.with_hooks();
    assert_eq!(problems(&library), Vec::new());
    let hooks = json!({ "Stop": [{ "hooks": [] }] });
    assert_eq!(library.get("demo").unwrap().info.hooks, *hooks.as_object().unwrap());
    assert_eq!(library.file("demo"), Some(root.path().join("demo/SKILL.md")));
    let refused = SkillProblem::BadRestriction { key: "hooks", expected: "a map of events" };
    assert!(refused.is_fatal());
    assert_eq!(Skill::parse("demo", &with("echo")), Err(refused));
    assert_eq!(parse(&with("")).0.info.hooks, Map::new());
}

#[test]
fn named_arguments_and_keys_of_other_programs() {
    let front = "name: demo\ndescription: Does it.\nwhen_to_use: Use it late.\narguments: [issue, branch]\n\
        effort: high\npaths: src/**\nshell: bash\n";
    let (skill, problems) =
        parse(&format!("---\n{front}---\n$issue on $branch$issue, not $issues or a$issue."));
    assert_eq!(skill.info.description, "Does it. Use it late.");
    let expect =
        "<skill_content name=\"demo\">\n7 on main7, not $issues or a$issue.\n</skill_content>";
    assert_eq!(skill.render(Some("7 main")), expect);
    assert_eq!(skill.info.effort, Some(ReasoningEffort::High));
    let keys = ["paths", "shell"];
    assert_eq!(problems, keys.map(|key| SkillProblem::Unsupported { key }));
    let restricted = "---\nname: demo\ndescription: D.\ndisallowed-tools: Bash\n---\nGo.";
    let refused = SkillProblem::UnsupportedRestriction { key: "disallowed-tools" };
    assert!(refused.is_fatal());
    assert_eq!(Skill::parse("demo", restricted), Err(refused));
}

#[tokio::test]
async fn commands_run_in_the_sandbox_and_their_output_is_not_searched() {
    let sandbox = FakeSandbox::new()
        .enqueue_any(Output::exited(0, "  $ARGUMENTS $1\n", ""))
        .enqueue_any(Output::exited(3, "", "bad\n"))
        .enqueue_any(Output::ended(ExitOutcome::TimedOut(TimeoutKind::Wall)));
    let sandbox = Arc::new(sandbox);
    let shell = SkillShell::in_dir("/srv").with_sandbox(sandbox.clone());
    let text = "At !`git log $1`: $0 !`make` !`sleep 20` !`none`";
    let told = shell.expand(text, Some("now"), &CancellationToken::new()).await;
    let (known, refused) = told.split_at(told.find("[error: `none`").unwrap());
    assert_eq!(
        known,
        "At $ARGUMENTS $1: now [error: `make` exited with status 3: bad] \
         [error: `sleep 20` ran longer than allowed] "
    );
    assert!(refused.contains("was not run"), "{refused}");
    let commands = sandbox.commands();
    assert_eq!(commands[0], loopwright_sandbox::Command::shell("git log $1"));
    assert_eq!(sandbox.policies()[0].limits.timeout, std::time::Duration::from_secs(10));
}

#[test]
fn names_of_other_hosts_stand_for_our_tools() {
    let cases = [
        ("Read", "read_file", true),
        ("Grep", "grep", true),
        ("Glob", "search_files", true),
        ("Bash", "bash", true),
        ("Bash", "bash_start", true),
        ("Edit", "edit_file", true),
        ("Write", "write_file", true),
        ("Read", "write_file", false),
        ("write_file", "write_file", true),
        ("mcp__github", "mcp__github__search", true),
        ("mcp__git", "mcp__github__search", false),
        ("Read", "grep", true),
        ("Edit", "write_file", true),
        ("Write", "edit_file", false),
        ("*", "anything", true),
        ("", "bash", false),
    ];
    for (rule, tool, expect) in cases {
        assert_eq!(ToolRule::new(rule).names(tool), expect, "{rule} {tool}");
    }
}

#[test]
fn a_pattern_in_parentheses_allows_some_calls_of_a_tool_while_the_skill_is_active() {
    let run = |command: &str| ("bash", json!({ "command": command }));
    let open = |path: &str| ("read_file", json!({ "path": path }));
    let cases = [
        ("Bash(git:*)", run("git status"), true),
        ("Bash(git:*)", run("git"), true),
        ("Bash(git:*)", run("gitk"), false),
        ("Bash(git:*)", run("git status; rm -r ."), false),
        ("Bash(git:*)", run("git log $(rm -r .)"), false),
        ("Bash(git:*)", run("git status\nrm x"), false),
        ("Bash(npm run *)", run("npm run build"), true),
        ("Bash(npm run *)", run("npm install"), false),
        ("Bash(make test)", run("make test"), true),
        ("Bash(make test)", run("make test x"), false),
        ("Read(src/**)", open("src/a/b.rs"), true),
        ("Read(src/**)", open("./src/a.rs"), true),
        ("Read(src/**)", open("src/../secret"), false),
        ("Read(src/**)", open("/etc/passwd"), false),
        ("Read(*.md)", open("docs/a.md"), true),
        ("Read(./*.md)", open("docs/a.md"), false),
        ("Bash(git:*)", run("git log | git shortlog"), true),
        ("Bash(git:*)", run("git log > /etc/passwd"), false),
        ("Grep(x)", ("grep", json!({ "pattern": "x" })), false),
    ];
    for (rule, (tool, arguments), expect) in cases {
        let info = SkillInfo { allowed_tools: rules(&[rule]), ..SkillInfo::new("s", "d") };
        let library = SkillLibrary::default().with(Skill::new(info, ""));
        let grants = SkillGrants::of(&library, "/");
        let policy = Policy::builder("/").mode(Mode::Ask).build();
        let decide = |state: &AgentState| {
            let sources = grants.active(state);
            let policy = sources.iter().fold(policy.clone(), |it, source| it.extended_by(source));
            policy.decide(&Call::new(tool, &arguments)).rule().is_some()
        };
        let invoked = AgentState::new().edit(Edit::Set(INVOKED.slot(), Some("s".into())));
        assert_eq!(decide(&invoked), expect, "{rule} {arguments}");
        assert!(!decide(&AgentState::new()), "{rule} {arguments}");
    }
}

#[test]
fn the_project_comes_before_the_user_and_both_before_packages() {
    let home = tempfile::tempdir().unwrap();
    let at = |scope: &str| home.path().join(scope);
    for scope in ["package", "user", "project"] {
        write(&at(scope), "same", &named("same", scope));
        write(&at(scope), scope, &named(scope, "d"));
    }
    let library = SkillLibrary::default()
        .with_dir(SkillScope::Package, at("package"))
        .with_dir(SkillScope::Project, at("project"))
        .with_dir(SkillScope::User, at("user"))
        .with_dir(SkillScope::User, at("missing"))
        .with(Skill::new(SkillInfo::new("same", "own"), ""));
    assert_eq!(library.names(SkillAudience::All), ["project", "same", "user", "package"]);
    assert_eq!(library.get("same").unwrap().info.description, "project");
    let by = at("project").join("same/SKILL.md");
    let shadowed = |scope: &str| SkillWarning {
        path: at(scope).join("same/SKILL.md"),
        problem: SkillProblem::Shadowed { by: by.clone() },
    };
    assert_eq!(library.warnings(), [shadowed("user"), shadowed("package")]);
}

#[test]
fn lists_are_for_models_or_for_users() {
    let skill = |name: &str, model_invocable, user_invocable| {
        let info = SkillInfo::new(name, "d");
        Skill::new(SkillInfo { model_invocable, user_invocable, ..info }, "")
    };
    let library = SkillLibrary::default()
        .with(skill("both", true, true))
        .with(skill("users", false, true))
        .with(skill("models", true, false));
    assert_eq!(library.names(SkillAudience::Models), ["both", "models"]);
    assert_eq!(library.names(SkillAudience::Users), ["both", "users"]);
    assert!(library.contains("users"), "it can be loaded by name");
    let text = library.to_text(SkillAudience::Users);
    assert_eq!(text, "Available skills:\n- [both]: d\n- [users]: d");
    assert_eq!(SkillLibrary::default().to_text(SkillAudience::Models), "(no skills available)");
}

#[test]
fn changed_files_are_read_again_and_others_are_not() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "a", &named("a", "first"));
    write(home.path(), "b", &named("b", "same"));
    let library = SkillLibrary::new(home.path());
    let (a, b) = (library.get("a").unwrap(), library.get("b").unwrap());
    write(home.path(), "a", &named("a", "second, longer"));
    write(home.path(), "c", &named("c", "new"));
    assert_eq!(library.get("a").unwrap().info.description, "second, longer");
    assert_eq!(library.names(SkillAudience::All), ["a", "b", "c"]);
    assert!(Arc::ptr_eq(&b, &library.get("b").unwrap()));
    assert_eq!(a.info.description, "first");
    fs::remove_file(home.path().join("c/SKILL.md")).unwrap();
    assert!(!library.contains("c"));
}

#[test]
fn files_of_a_skill_are_listed_by_folder_and_name() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "a", &named("a", "d"));
    for path in ["assets/z", "scripts/b.sh", "scripts/a.sh", "references/api.md", "other/x"] {
        let path = home.path().join("a").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    fs::create_dir(home.path().join("a/scripts/deep")).unwrap();
    let skill = SkillLibrary::new(home.path()).get("a").unwrap();
    assert_eq!(skill.resources, ["scripts/a.sh", "scripts/b.sh", "references/api.md", "assets/z"]);
    let expect = format!(
        "<skill_content name=\"a\">\nBody of a.\n\n<skill_resources>\nPaths are relative to {}\n\
         - scripts/a.sh\n- scripts/b.sh\n- references/api.md\n- assets/z\n</skill_resources>\n\
         </skill_content>",
        home.path().join("a").display()
    );
    assert_eq!(skill.render(None), expect);
}

#[test]
fn a_file_that_leads_out_of_its_directory_is_no_skill() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("secret"), "secret").unwrap();
    fs::create_dir_all(home.path().join("skills/a")).unwrap();
    std::os::unix::fs::symlink(home.path().join("secret"), home.path().join("skills/a/SKILL.md"))
        .unwrap();
    let library = SkillLibrary::new(home.path().join("skills"));
    assert!(!library.contains("a"));
    let expect = SkillWarning {
        path: home.path().join("skills/a/SKILL.md"),
        problem: SkillProblem::Unreadable("the link leads outside its directory".into()),
    };
    assert_eq!(library.warnings(), [expect]);
}

#[test]
fn the_effort_of_a_skill_is_laid_over_that_of_the_agent() {
    let skill = |model: Option<&str>, effort| ActiveSkill {
        name: "s".to_owned(),
        allowed_tools: Vec::new(),
        model: model.map(str::to_owned),
        effort,
    };
    let mut own = LlmConfig::named("a/b");
    own.options.reasoning_effort = Some(ReasoningEffort::Low);
    let of = |skill: &ActiveSkill| {
        let llm = super::model::asked(Some(&own), skill)?;
        Some((llm.model?.to_string(), llm.options.reasoning_effort))
    };
    assert_eq!(of(&skill(None, None)), None);
    let high = Some(ReasoningEffort::High);
    assert_eq!(of(&skill(None, high)), Some(("b".to_owned(), high)));
    let low = Some(ReasoningEffort::Low);
    assert_eq!(of(&skill(Some("c"), None)), Some(("c".to_owned(), low)));
}
