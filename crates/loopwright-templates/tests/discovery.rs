//! Definitions that are found.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use loopwright_agent::{AgentDefinition, Definitions as _};
use loopwright_templates::{
    AgentDefinitionRegistry, DefinitionLoader, DefinitionParser, DefinitionPaths, DefinitionScope,
    DefinitionSource, Depth, Diagnostic, DiagnosticKind, Document,
};
use serde_json::Map;
use tempfile::TempDir;

fn put(folder: &TempDir, path: &str, text: &str) {
    let path = folder.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn agent(name: &str, prompt: &str) -> String {
    format!("---\nname: {name}\ndescription: Works.\n---\n{prompt}\n")
}

fn prompts(agents: &AgentDefinitionRegistry) -> Vec<(String, String)> {
    agents.all().iter().map(|it| (it.name.clone(), it.system_prompt.clone())).collect()
}

fn pair(name: &str, prompt: &str) -> (String, String) {
    (name.to_owned(), prompt.to_owned())
}

#[test]
fn the_user_counts_before_the_project_and_both_before_packages() {
    let folder = TempDir::new().unwrap();
    put(&folder, "package/a.md", &agent("a", "package"));
    put(&folder, "package/b.md", &agent("b", "package"));
    put(&folder, "package/c.md", &agent("c", "package"));
    put(&folder, "user/b.md", &agent("b", "user"));
    put(&folder, "user/c.md", &agent("c", "user"));
    put(&folder, "user/d.md", &agent("d", "user"));
    put(&folder, "project/.claude/agents/c.md", &agent("c", "claude"));
    put(&folder, "project/.claude/agents/d.md", &agent("d", "claude"));
    put(&folder, "project/.loopwright/agents/d.yaml", "name: d\ndescription: W\nsystemPrompt: own");
    let at = |name: &str| folder.path().join(name);
    let agents = AgentDefinitionRegistry::new();
    // The order in which places are named makes no difference.
    let places = DefinitionPaths::new().with_project(at("project")).with_user_dir(at("user"));
    agents.auto_discover(&places.with_package_dir(at("package")).with_user_dir(at("not there")));
    let expect = [pair("a", "package"), pair("b", "user"), pair("c", "user"), pair("d", "user")];
    assert_eq!(prompts(&agents), expect);
    assert_eq!(agents.errors().len(), 0);
    let shown = |path: &Path| path.strip_prefix(folder.path()).unwrap().display().to_string();
    let shadowed: Vec<(String, String)> = agents
        .warnings()
        .into_iter()
        .map(|it| match it.problem.kind {
            DiagnosticKind::Shadowed { by } => (shown(&it.path), shown(&by)),
            other => panic!("{other}"),
        })
        .collect();
    let lost = [
        pair("package/c.md", "project/.claude/agents/c.md"),
        pair("project/.claude/agents/d.md", "project/.loopwright/agents/d.yaml"),
        pair("package/b.md", "user/b.md"),
        pair("project/.claude/agents/c.md", "user/c.md"),
        pair("project/.loopwright/agents/d.yaml", "user/d.md"),
    ];
    assert_eq!(shadowed, lost);
    let source =
        DefinitionSource { path: Some(at("user/c.md")), scope: Some(DefinitionScope::User) };
    assert_eq!(agents.source("c"), Some(source));
}

#[test]
fn the_error_of_the_file_that_would_count_is_found_by_its_agents_name() {
    let folder = TempDir::new().unwrap();
    let guarded =
        |name: &str| format!("---\nname: {name}\ndescription: W\nisolation: worktree\n---\nplan\n");
    put(&folder, "user/a.md", &agent("a", "user"));
    put(&folder, "user/b.md", &guarded("b"));
    put(&folder, "project/.claude/agents/first.md", &guarded("a"));
    put(&folder, "project/.claude/agents/b.md", &agent("b", "project"));
    let agents = AgentDefinitionRegistry::new();
    let at = |name: &str| folder.path().join(name);
    let places = DefinitionPaths::new().with_project(at("project")).with_user_dir(at("user"));
    agents.auto_discover(&places);
    // The user's counts, and the project's takes its place in no case.
    assert_eq!(agents.refused("a"), None);
    assert_eq!(prompts(&agents), [pair("a", "user")]);
    let refused = agents.refused("b").map(|it| it.path);
    assert_eq!(refused, Some(at("user/b.md")));
    put(&folder, "user/b.md", &agent("b", "user"));
    agents.auto_discover(&places);
    assert_eq!(agents.refused("b"), None);
    assert_eq!(prompts(&agents), [pair("a", "user"), pair("b", "user")]);
}

#[test]
fn a_bad_file_hides_no_other_and_what_is_wrong_is_told_by_file_line_and_key() {
    let folder = TempDir::new().unwrap();
    put(&folder, "a.md", &agent("a", "fine"));
    put(&folder, "b.yaml", "name: b\ndescription: B\ntools: 7\nsystemPrompt: no\n");
    put(&folder, "c.json", "{ no");
    put(&folder, "d.md", &agent("d", "fine"));
    put(&folder, "notes.txt", "is not looked at");
    let agents = AgentDefinitionRegistry::new();
    agents.load_from_directory(folder.path(), Depth::Flat);
    assert_eq!(agents.names(), ["a", "d"]);
    let errors: Vec<String> = agents.errors().values().map(ToString::to_string).collect();
    let at = folder.path().display();
    let expect = [
        format!(
            "{at}/b.yaml: line 3: `tools` must be a list of names, or names separated by commas; `[]` means none"
        ),
        format!("{at}/c.json: line 1: invalid JSON: key must be a string"),
    ];
    assert_eq!(errors, expect);
    // Errors gather over directories, and go when a file is mended.
    agents.load_from_directory(folder.path().join("none"), Depth::Recursive);
    assert_eq!(agents.errors().len(), 2);
    put(&folder, "c.json", r#"{"name": "c", "description": "C", "systemPrompt": "fine"}"#);
    agents.load_from_file(folder.path().join("c.json")).unwrap();
    assert_eq!(
        (agents.errors().len(), agents.names()),
        (1, vec!["a".into(), "c".into(), "d".into()])
    );
}

#[test]
fn the_last_path_of_equal_names_in_a_directory_counts() {
    let folder = TempDir::new().unwrap();
    put(&folder, "z.md", &agent("same", "last"));
    put(&folder, "a.md", &agent("same", "first"));
    let agents = AgentDefinitionRegistry::new();
    agents.load_from_directory(folder.path(), Depth::Flat);
    assert_eq!(prompts(&agents), [pair("same", "last")]);
}

#[test]
fn directories_are_looked_into_without_following_links() {
    let folder = TempDir::new().unwrap();
    put(&folder, "agents/a.md", &agent("a", "top"));
    put(&folder, "agents/sub/b.md", &agent("b", "below"));
    put(&folder, "agents/.git/c.md", &agent("c", "never"));
    put(&folder, "agents/1/2/3/4/5/6/d.md", &agent("d", "deep"));
    put(&folder, "agents/1/2/3/4/5/6/7/e.md", &agent("e", "too deep"));
    put(&folder, "elsewhere/f.md", &agent("f", "outside"));
    let at = |name: &str| folder.path().join(name);
    symlink(at("agents"), at("agents/loop")).unwrap();
    symlink(at("elsewhere"), at("agents/out")).unwrap();
    symlink(at("elsewhere/f.md"), at("agents/f.md")).unwrap();
    symlink(at("agents/a.md"), at("agents/sub/again.md")).unwrap();
    let found = |depth| {
        let agents = AgentDefinitionRegistry::new();
        agents.load_from_directory(at("agents"), depth);
        agents
    };
    assert_eq!(found(Depth::Flat).names(), ["a"]);
    let agents = found(Depth::Recursive);
    assert_eq!(agents.names(), ["a", "b", "d"]);
    let errors: Vec<_> = agents.errors().into_keys().collect();
    assert_eq!(errors, [at("agents/f.md")]);
    let kinds: Vec<DiagnosticKind> = agents
        .warnings()
        .into_iter()
        .map(|it| it.problem.kind)
        .filter(|it| !matches!(it, DiagnosticKind::Shadowed { .. }))
        .collect();
    assert_eq!(kinds, [DiagnosticKind::TooDeep(6), DiagnosticKind::Link, DiagnosticKind::Link]);
}

#[test]
fn an_unreadable_directory_is_reported_once_until_it_is_readable() {
    let folder = TempDir::new().unwrap();
    put(&folder, "agents/a.md", &agent("a", "top"));
    put(&folder, "agents/gone.md", "no front matter");
    put(&folder, "agents/1/2/3/4/5/6/7/e.md", &agent("e", "too deep"));
    put(&folder, "elsewhere/f.md", "no front matter");
    let at = |name: &str| folder.path().join(name);
    symlink(at("elsewhere"), at("agents/out")).unwrap();
    // A file is a directory that cannot be read.
    fs::write(at("later"), "").unwrap();
    let agents = AgentDefinitionRegistry::new();
    let read = || {
        for name in ["agents", "later"] {
            agents.load_from_directory(at(name), Depth::Recursive);
        }
        agents.load_from_directory(at("elsewhere"), Depth::Flat);
        let errors: Vec<_> = agents.errors().into_keys().collect();
        let warnings: Vec<_> = agents.warnings().into_iter().map(|it| it.path).collect();
        (errors, warnings)
    };
    let errors = vec![at("agents/gone.md"), at("elsewhere/f.md"), at("later")];
    let warnings = vec![at("agents/1/2/3/4/5/6/7"), at("agents/out")];
    assert_eq!(read(), (errors.clone(), warnings.clone()));
    assert_eq!(read(), (errors, warnings));
    for name in ["agents/gone.md", "agents/out", "later"] {
        fs::remove_file(at(name)).unwrap();
    }
    put(&folder, "later/b.md", &agent("b", "came"));
    assert_eq!(read(), (vec![at("elsewhere/f.md")], vec![at("agents/1/2/3/4/5/6/7")]));
    assert_eq!(agents.names(), ["a", "b"]);
}

#[test]
fn a_file_that_cannot_be_loaded_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let agents = AgentDefinitionRegistry::new();
    agents.register(AgentDefinition::new("a", "A", "kept"));
    put(&folder, "long.md", &agent("a", &"x".repeat(2 << 20)));
    for name in ["long.md", "none.md", "none.txt"] {
        assert!(agents.load_from_file(folder.path().join(name)).is_err(), "{name}");
    }
    assert_eq!(prompts(&agents), [pair("a", "kept")]);
    let error = agents.load_from_file(Path::new("a.txt")).unwrap_err();
    let known = "a.txt: unknown file name extension; available: .json, .md, .yaml, .yml";
    assert_eq!(error.to_string(), known);
}

#[test]
fn names_are_found_and_those_that_are_not_are_told_with_those_that_are() {
    let agents = AgentDefinitionRegistry::new();
    agents.register_many([AgentDefinition::new("b", "", ""), AgentDefinition::new("a", "", "")]);
    assert_eq!((agents.count(), agents.contains("a"), agents.contains("c")), (2, true, false));
    let error = agents.get("c").unwrap_err().to_string();
    assert_eq!(error, "unknown agent `c`; available: a, b");
    let source = DefinitionSource { path: None, scope: None };
    assert_eq!(agents.source("a"), Some(source));
    // A clone is the same registry.
    agents.clone().register(AgentDefinition::new("c", "", ""));
    assert!(agents.contains("c"));
}

/// A format in which each line is a key and a value.
struct Lines;

impl DefinitionParser for Lines {
    fn parse(&self, text: &str) -> Result<Document, Diagnostic> {
        let pair = |line: &str| {
            let (key, value) = line.split_once('=')?;
            Some((key.to_owned(), value.into()))
        };
        let values = text.lines().map(pair).collect::<Option<Map<_, _>>>();
        let values = values.ok_or_else(|| DiagnosticKind::NoFrontMatter.of_file())?;
        Ok(Document { values, ..Document::default() })
    }
}

#[test]
fn other_formats_can_be_read_too() {
    let folder = TempDir::new().unwrap();
    put(&folder, "a.LINES", "name=a\ndescription=A\nsystemPrompt=Go.");
    put(&folder, "b.lines", "nothing");
    let loader = DefinitionLoader::new().with_parser("Lines", Lines);
    let agents = AgentDefinitionRegistry::with_loader(loader);
    agents.load_from_directory(folder.path(), Depth::Flat);
    assert_eq!((prompts(&agents), agents.errors().len()), (vec![pair("a", "Go.")], 1));
}

#[test]
fn a_project_sets_no_headers_and_no_fields_that_could_do_harm() {
    let folder = TempDir::new().unwrap();
    let options = "{headers: {Host: x}, extra: {tools: [], top_k: 3}, temperature: 0.5}";
    let deep = format!("capabilities:\n  - use_critique: {{llm: {{options: {options}}}}}\n");
    let text = |name: &str, what: &str| {
        format!("name: {name}\ndescription: D.\n{what}systemPrompt: Go.\n")
    };
    let own = format!("llm:\n  options: {options}\n");
    let good = "llm:\n  options: {extra: {top_k: 3}, temperature: 0.5}\n";
    for place in ["project/.loopwright/agents", "user"] {
        put(&folder, &format!("{place}/a.yaml"), &text(&format!("{}a", &place[..1]), &own));
        put(&folder, &format!("{place}/b.yaml"), &text(&format!("{}b", &place[..1]), &deep));
        put(&folder, &format!("{place}/c.yaml"), &text(&format!("{}c", &place[..1]), good));
    }
    let at = |name: &str| folder.path().join(name);
    let agents = AgentDefinitionRegistry::new();
    agents.auto_discover(
        &DefinitionPaths::new().with_project(at("project")).with_user_dir(at("user")),
    );
    assert_eq!(agents.names(), ["pc", "ua", "ub", "uc"]);
    let users = DiagnosticKind::UsersOnly.to_string();
    let told: Vec<String> = agents.errors().values().map(ToString::to_string).collect();
    let file =
        |name: &str| at(&format!("project/.loopwright/agents/{name}.yaml")).display().to_string();
    let expect = [
        format!(
            "{}: line 4: `llm.options.headers.Host` {users}; line 4: `llm.options.extra.tools` {users}",
            file("a")
        ),
        format!(
            "{}: line 3: `capabilities.use_critique.llm.options.headers.Host` {users}; line 3: \
             `capabilities.use_critique.llm.options.extra.tools` {users}",
            file("b")
        ),
    ];
    assert_eq!(told, expect);
    // What the user's own files set is granted.
    let granted: Vec<usize> =
        agents.granted_settings().iter().map(|it| it.privileged().len()).collect();
    assert_eq!(granted, [2, 2, 0]);
    let typed = DefinitionLoader::new();
    assert!(typed.load(&at("project/.loopwright/agents/a.yaml")).is_ok());
    assert!(typed.load_of_project(&at("project/.loopwright/agents/a.yaml")).is_err());
}
