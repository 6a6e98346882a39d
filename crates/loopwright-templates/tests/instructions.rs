//! What a project tells every agent.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use loopwright_agent::{
    AgentBuilder, AgentDefinition, DefinitionRegistry, UseContextConfig, UseLlmConfig,
};
use loopwright_capabilities::subagents::UseSubagents;
use loopwright_core::AgentState;
use loopwright_templates::{DiagnosticKind, ProjectInstructions, UseProjectInstructions};
use loopwright_testing::{FakeModel, ScenarioStep, block_on};
use serde_json::json;
use tempfile::TempDir;

fn project() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("web/src")).unwrap();
    folder
}

fn put(folder: &TempDir, path: &str, text: &str) {
    fs::write(folder.path().join(path), text).unwrap();
}

fn found(folder: &TempDir, directory: &str) -> ProjectInstructions {
    ProjectInstructions::find(folder.path(), &folder.path().join(directory))
}

fn texts(found: &ProjectInstructions) -> Vec<&str> {
    found.texts.iter().map(|(_, text)| text.as_str()).collect()
}

#[test]
fn the_nearest_file_comes_last_and_each_directory_has_one() {
    let folder = project();
    put(&folder, "AGENTS.md", "\u{feff}root\r\nrules\r\n");
    put(&folder, "web/AGENTS.md", "web");
    put(&folder, "web/AGENTS.override.md", "mine");
    put(&folder, "web/src/AGENTS.md", " \n");
    assert_eq!(texts(&found(&folder, "web/src")), ["root\nrules", "mine"]);
    assert_eq!(texts(&found(&folder, "")), ["root\nrules"]);
    // Nothing above the root is read.
    let within =
        ProjectInstructions::find(&folder.path().join("web"), &folder.path().join("web/src"));
    assert_eq!(texts(&within), ["mine"]);
    assert_eq!(ProjectInstructions::find(Path::new("/x"), Path::new("/y")).to_prompt(), None);
}

#[test]
fn long_instructions_are_cut_between_characters_and_links_that_lead_out_are_omitted() {
    let folder = project();
    put(&folder, "AGENTS.md", &"ä".repeat(20_000));
    put(&folder, "web/AGENTS.md", "nearest");
    let cut = found(&folder, "web");
    assert_eq!(texts(&cut), ["ä".repeat(16_380).as_str(), "nearest"]);
    let kinds = |found: &ProjectInstructions| -> Vec<DiagnosticKind> {
        found.warnings.iter().map(|it| it.problem.kind.clone()).collect()
    };
    assert_eq!(kinds(&cut), [DiagnosticKind::Truncated(32_768)]);
    let other = project();
    symlink(folder.path().join("AGENTS.md"), other.path().join("AGENTS.md")).unwrap();
    let none = found(&other, "");
    let outside = "the link leads outside its directory".to_owned();
    assert_eq!((texts(&none), kinds(&none)), (vec![], vec![DiagnosticKind::Unreadable(outside)]));
}

/// The files from a folder with their texts, and the warnings as they are shown.
fn shown(folder: &TempDir, found: &ProjectInstructions) -> (Vec<(String, String)>, Vec<String>) {
    let below = |path: &Path| path.strip_prefix(folder.path()).unwrap().display().to_string();
    let texts = found.user_texts.iter().chain(&found.texts);
    let texts = texts.map(|(path, text)| (below(path), text.clone()));
    let warnings =
        found.warnings.iter().map(|it| format!("{}: {}", below(&it.path), it.problem)).collect();
    (texts.collect(), warnings)
}

fn pairs(texts: &[(&str, &str)]) -> Vec<(String, String)> {
    texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn files_of_other_programs_and_their_imports_are_read_in_order_each_once() {
    let folder = project();
    fs::create_dir_all(folder.path().join("docs/deep")).unwrap();
    fs::create_dir_all(folder.path().join("web/.claude")).unwrap();
    put(&folder, "AGENTS.md", "agents, see @docs/style.md.");
    put(&folder, "CLAUDE.md", "@AGENTS.md\n@docs/style.md\n");
    put(&folder, "CLAUDE.local.md", "local\n@docs/deep/one.md and `@docs/code.md`");
    put(&folder, "docs/style.md", "style");
    put(&folder, "docs/code.md", "not imported");
    put(&folder, "docs/deep/one.md", "one\n@two.md @ann @types/node");
    put(&folder, "docs/deep/two.md", "two\n@one.md\n@../../CLAUDE.local.md");
    put(&folder, "web/.claude/CLAUDE.md", "web\n@../../docs/code.md");
    let expect = pairs(&[
        ("docs/style.md", "style"),
        ("AGENTS.md", "agents, see @docs/style.md."),
        ("docs/deep/two.md", "two\n@one.md\n@../../CLAUDE.local.md"),
        ("docs/deep/one.md", "one\n@two.md @ann @types/node"),
        ("CLAUDE.local.md", "local\n@docs/deep/one.md and `@docs/code.md`"),
        ("docs/code.md", "not imported"),
        ("web/.claude/CLAUDE.md", "web\n@../../docs/code.md"),
    ]);
    let (texts, warnings) = shown(&folder, &found(&folder, "web"));
    let texts: Vec<(String, String)> =
        texts.into_iter().map(|(path, text)| (path.replace("deep/../../", ""), text)).collect();
    let texts: Vec<(String, String)> = texts
        .into_iter()
        .map(|(path, text)| (path.replace("web/.claude/../../", ""), text))
        .collect();
    assert_eq!((texts, warnings), (expect, vec![]));
}

#[test]
fn a_project_imports_only_its_own_files_and_warnings_name_line_and_import() {
    let outer = TempDir::new().unwrap();
    let folder = outer.path().join("p");
    fs::create_dir_all(folder.join("a")).unwrap();
    fs::write(outer.path().join("secret.txt"), "secret").unwrap();
    symlink("../secret.txt", folder.join("link")).unwrap();
    fs::write(folder.join("logo.png"), [0x89, 0xff]).unwrap();
    let depth = 7;
    for at in 1..=depth {
        fs::write(folder.join(format!("a/{at}.md")), format!("{at} @{}.md", at + 1)).unwrap();
    }
    let text =
        "@../secret.txt\n@link\n@~/.claude/own.md\n@logo.png\n@gone.md, @a @nobody @@x\n@a/1.md";
    fs::write(folder.join("CLAUDE.md"), text).unwrap();
    let found = ProjectInstructions::find(&folder, &folder);
    let shown: Vec<String> = found.warnings.iter().rev().map(|it| it.problem.to_string()).collect();
    let outside = "is not imported: a project file can import only files in the project";
    assert_eq!(
        shown,
        [
            &*format!("line 1: `@../secret.txt` {outside}"),
            &*format!("line 2: `@link` {outside}"),
            &*format!("line 3: `@~/.claude/own.md` {outside}"),
            "line 4: `@logo.png` is not imported: not UTF-8",
            "line 5: `@gone.md` is not imported: the file does not exist",
            "line 1: `@6.md` is not imported: imports are nested more than 5 deep",
        ]
    );
    let files = found.paths().map(|it| it.file_name().unwrap().to_str().unwrap());
    let expect = ["5.md", "4.md", "3.md", "2.md", "1.md", "CLAUDE.md"];
    assert_eq!(files.collect::<Vec<_>>(), expect);
}

#[test]
fn rules_say_which_files_they_are_about() {
    let folder = project();
    fs::create_dir_all(folder.path().join(".claude/rules/api")).unwrap();
    put(&folder, "CLAUDE.md", "main");
    put(&folder, "CLAUDE.local.md", "local");
    put(&folder, ".claude/rules/a.md", "Use tabs.");
    put(
        &folder,
        ".claude/rules/api/b.md",
        "---\npaths:\n  - src/api/**/*.ts\n  - \"*.sql\"\n---\n\nCheck input.\n",
    );
    put(&folder, ".claude/rules/c.md", "---\npaths: src/**/*.{ts,tsx}, lib/**\n---\nNo any.");
    put(&folder, ".claude/rules/d.md", "---\npaths: [\n---\nStays.");
    put(&folder, ".claude/rules/notes.txt", "not a rule");
    let (texts, warnings) = shown(&folder, &found(&folder, ""));
    let expect = pairs(&[
        ("CLAUDE.md", "main"),
        (".claude/rules/a.md", "Use tabs."),
        (
            ".claude/rules/api/b.md",
            "Only for files that match `src/api/**/*.ts`, `*.sql`:\nCheck input.",
        ),
        (".claude/rules/c.md", "Only for files that match `src/**/*.{ts,tsx}`, `lib/**`:\nNo any."),
        (".claude/rules/d.md", "Stays."),
        ("CLAUDE.local.md", "local"),
    ]);
    assert_eq!(texts, expect);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with(".claude/rules/d.md: invalid YAML: "), "{warnings:?}");
}

#[test]
fn files_of_the_user_come_first_and_import_from_the_home_directory() {
    let home = project();
    for folder in [".claude/rules", ".config/own", "project"] {
        fs::create_dir_all(home.path().join(folder)).unwrap();
    }
    let other = TempDir::new().unwrap();
    put(&other, "secret.txt", "secret");
    put(&other, "linked.md", "own");
    put(&home, "notes.md", "notes");
    symlink(other.path().join("linked.md"), home.path().join(".config/own/AGENTS.md")).unwrap();
    let secret = other.path().join("secret.txt");
    put(&home, ".claude/CLAUDE.md", &format!("user @~/notes.md\n@{}", secret.display()));
    put(&home, ".claude/rules/a.md", "rule");
    put(&home, "project/CLAUDE.md", "project");
    let root = home.path().join("project");
    let found = ProjectInstructions::find(&root, &root);
    let dirs = [".config/own", ".claude"].map(|it| home.path().join(it));
    let found = found.with_user_dirs(home.path(), &dirs);
    let (texts, warnings) = shown(&home, &found);
    let user = format!("user @~/notes.md\n@{}", secret.display());
    let expect = pairs(&[
        (".config/own/AGENTS.md", "own"),
        ("notes.md", "notes"),
        (".claude/CLAUDE.md", &user),
        (".claude/rules/a.md", "rule"),
        ("project/CLAUDE.md", "project"),
    ]);
    assert_eq!(texts, expect);
    let refused = "is not imported: only files in your home directory are imported";
    let expect = format!(".claude/CLAUDE.md: line 2: `@{}` {refused}", secret.display());
    assert_eq!(warnings, [expect]);
    let prompt = found.to_prompt().unwrap();
    let (user, project) = prompt.split_once("\n\nThe project gives agents").unwrap();
    assert!(user.starts_with("The user gives all agents the following"), "{user}");
    assert!(project.ends_with("project/CLAUDE.md:\nproject"), "{project}");
    // A file of both is the user's.
    let found = ProjectInstructions::find(home.path(), home.path());
    let found = found.with_user_dirs(home.path(), &dirs[1..]);
    let (user, project) = (found.user_texts.len(), found.texts.len());
    assert_eq!((user, project, found.warnings.len()), (3, 0, 1), "{found:?}");
}

#[test]
fn an_agent_is_told_after_its_own_instructions() {
    let folder = project();
    put(&folder, "AGENTS.md", "Run `just check`.");
    let model = FakeModel::script(["done"]);
    let agent = AgentBuilder::base()
        .with_capability(UseProjectInstructions::find(folder.path(), folder.path()))
        .with_capability(UseContextConfig::new("You are Ada."))
        .with_capability(UseLlmConfig::model(model.clone()))
        .build()
        .unwrap();
    drop(block_on(agent.execute(AgentState::new().with_user_message("go"))));
    let told = model.requests()[0].system.clone().unwrap();
    let path = folder.path().join("AGENTS.md").display().to_string();
    assert!(told.starts_with("You are Ada.\n\nThe project gives agents"), "{told}");
    assert!(told.ends_with(&format!("From {path}:\nRun `just check`.")), "{told}");
}

#[test]
fn a_spawned_agent_is_told_what_the_project_tells() {
    let folder = project();
    put(&folder, "AGENTS.md", "Run `just check`.");
    let ask = json!({ "subagent": "helper", "prompt": "Help." });
    let steps = [ScenarioStep::tool_call("spawn_subagent", ask), "ok".into(), "done".into()];
    let model = FakeModel::script(steps);
    let mut agents = DefinitionRegistry::new();
    agents.register(AgentDefinition::new("helper", "Helps.", "You help."));
    let agent = AgentBuilder::base()
        .with_capability(UseProjectInstructions::find(folder.path(), folder.path()))
        .with_capability(UseSubagents::new(agents))
        .with_capability(UseLlmConfig::model(model.clone()))
        .build()
        .unwrap();
    drop(block_on(agent.execute(AgentState::new().with_user_message("go"))));
    let told = model.requests()[1].system.clone().unwrap();
    assert!(told.starts_with("You help.\n\nThe project gives agents"), "{told}");
    assert!(told.ends_with("Run `just check`."), "{told}");
}
