//! Rules for files, applied by the tools that find files by themselves.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use loopwright_core::{AgentState, Edit};
use loopwright_permissions::{Decision, Mode, Policy, Source, SourceKind};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{calling, execute, using};
use crate::bash::DIRECTORY;
use crate::files::{
    EditFile, EditFileArgs, Grep, GrepArgs, ListDir, ListDirArgs, ReadFile, ReadFileArgs,
    SearchFiles, SearchFilesArgs, WorkspaceRoot,
};
use crate::permissions::Permissions;

#[test]
fn a_command_is_decided_for_the_folder_in_which_the_previous_one_ended() {
    let rules = [(Decision::Deny, "Edit(src/**)")];
    let told = |directory: Option<&str>| {
        let arguments = json!({ "command": "rm a" });
        let (agent, bash) = calling("bash", arguments, using(Mode::Unconfined, &rules));
        let state = AgentState::new().with_user_message("go");
        let directory = directory.map(|directory| json!(directory));
        let state = state.edit(Edit::Set(DIRECTORY.slot(), directory));
        let state = execute(&agent, state);
        let result = state.tool_calls().next().map(|(_, result)| result.to_text());
        (result.unwrap_or_default(), bash.calls().len())
    };
    assert_eq!(told(None), ("returned".to_owned(), 1));
    assert_eq!(told(Some("/project/out")), ("returned".to_owned(), 1));
    assert_eq!(
        told(Some("/project/src")),
        (
            "Blocked: not permitted (rule `Edit(src/**)` of config.toml:1); continue without it"
                .to_owned(),
            0
        )
    );
}

/// A folder with a secret in a file, in a folder and behind links, and its root under the rules.
fn root(rules: &[&str]) -> (TempDir, WorkspaceRoot) {
    let home = TempDir::new().unwrap();
    let path = |name: &str| home.path().join(name);
    fs::create_dir_all(path("keys/old")).unwrap();
    for name in [".env", "keys/a.pem", "keys/old/b.pem", "main.rs"] {
        fs::write(path(name), "secret = 1\n").unwrap();
    }
    symlink(".env", path("link")).unwrap();
    symlink("keys", path("way")).unwrap();
    let source = Source::new(SourceKind::User, "config.toml", "/");
    let source =
        rules.iter().zip(1..).fold(source, |source, (rule, line)| source.deny(*rule, line));
    let policy = Policy::builder(home.path().to_str().unwrap()).source(source).build();
    let root = WorkspaceRoot::new(home.path()).with_access(Arc::new(Permissions::new(policy)));
    (home, root)
}

const RULES: [&str; 2] = ["Read(.env)", "Read(keys/**)"];

fn grep(root: &WorkspaceRoot, path: Option<&str>) -> String {
    let path = path.map(str::to_owned);
    let args = GrepArgs {
        pattern: "secret".to_owned(),
        path,
        include_ignored: Some(true),
        ..GrepArgs::default()
    };
    let found = Grep::in_dir(root.clone()).grep(&args, &CancellationToken::new());
    found.unwrap_or_else(|error| error.to_string())
}

fn search(root: &WorkspaceRoot, pattern: &str) -> String {
    let args = SearchFilesArgs { pattern: Some(pattern.to_owned()), ..SearchFilesArgs::default() };
    SearchFiles::in_dir(root.clone()).search(&args, &CancellationToken::new()).unwrap()
}

fn list(root: &WorkspaceRoot, path: &str) -> String {
    let args = ListDirArgs { path: Some(path.to_owned()), offset: None };
    let listed = ListDir::in_dir(root.clone()).list(&args, &CancellationToken::new());
    listed.unwrap_or_else(|error| error.to_string())
}

fn read(root: &WorkspaceRoot, path: &str) -> String {
    let args = ReadFileArgs { path: path.to_owned(), ..ReadFileArgs::default() };
    match ReadFile::in_dir(root.clone()).read(&args, &CancellationToken::new()) {
        Ok(_) => "read".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_search_neither_reads_nor_lists_a_file_that_is_denied() {
    let (_home, root) = root(&RULES);
    assert_eq!(grep(&root, None), "main.rs:1:secret = 1");
    assert_eq!(search(&root, "**/*.pem"), "No files found for **/*.pem.");
    assert_eq!(search(&root, "./.env"), "No files found for ./.env.");
    assert_eq!(list(&root, "."), "[dir] keys\n[link] link\n[file] main.rs\n[link] way");
}

#[test]
fn no_link_leads_to_a_file_that_is_denied() {
    let (_home, root) = root(&RULES);
    let denied = |path: &str, rule: &str| {
        format!(
            "`{path}` is not permitted (rule `{rule}` of config.toml:{}); continue without it",
            1 + usize::from(rule != RULES[0])
        )
    };
    assert_eq!(read(&root, "link"), denied("link", RULES[0]));
    assert_eq!(read(&root, "way/a.pem"), denied("way/a.pem", RULES[1]));
    assert_eq!(grep(&root, Some("link")), denied("link", RULES[0]));
    assert_eq!(grep(&root, Some("way")), "(no matches)");
    assert_eq!(list(&root, "way"), "(empty directory)");
    assert_eq!(list(&root, "way/old"), denied("way/old", RULES[1]));
    assert_eq!(read(&root, "main.rs"), "read");
}

#[test]
fn a_rule_for_one_tool_binds_that_tool_alone() {
    let (_home, root) = root(&["Grep(main.rs)"]);
    assert!(!grep(&root, None).contains("main.rs"));
    assert!(search(&root, "main.rs").contains("main.rs"));
    assert!(list(&root, ".").contains("main.rs"));
}

#[test]
fn a_link_does_not_lead_around_a_rule_that_denies_writing() {
    let (home, root) = root(&["Edit(keys/**)"]);
    let args = EditFileArgs {
        path: "way/a.pem".to_owned(),
        old_string: Some("1".to_owned()),
        new_string: Some("2".to_owned()),
        ..EditFileArgs::default()
    };
    let error = EditFile::in_dir(root).edit(&args).unwrap_err();
    assert!(error.to_string().contains("rule `Edit(keys/**)`"), "{error}");
    assert_eq!(fs::read_to_string(home.path().join("keys/a.pem")).unwrap(), "secret = 1\n");
}

#[test]
fn a_rule_that_names_a_link_holds_for_the_link_and_for_what_it_leads_to() {
    let home = TempDir::new().unwrap();
    let path = |name: &str| home.path().join(name);
    fs::create_dir_all(path("real/keys")).unwrap();
    for name in ["secret", "real/keys/a.pem", "main.rs", "b.txt"] {
        fs::write(path(name), "secret = 1\n").unwrap();
    }
    let links = [("secret", "link"), ("link", "again"), ("real", "way"), (".", "here")];
    for (target, name) in links.into_iter().chain([("b.txt", "b.key")]) {
        symlink(target, path(name)).unwrap();
    }
    // The root is given through a link, and the rules through another path.
    let given = TempDir::new().unwrap();
    let root_path = given.path().join("project");
    symlink(home.path(), &root_path).unwrap();
    let rules = ["Read(./link)", "Read(./way/keys/**)", "Read(*.key)"];
    let source = Source::new(SourceKind::User, "config.toml", "/");
    let source = rules.iter().fold(source, |source, rule| source.deny(*rule, 1));
    let policy = Policy::builder(root_path.to_str().unwrap()).source(source).build();
    let root = WorkspaceRoot::new(&root_path).with_access(Arc::new(Permissions::new(policy)));
    let denied_by = |path: &str| {
        let told = read(&root, path);
        rules.iter().find(|rule| told.contains(&format!("(rule `{rule}`"))).copied().or_else(|| {
            assert_eq!(told, "read", "{path}");
            None
        })
    };
    let cases = [
        ("link", Some(rules[0])),
        ("secret", Some(rules[0])),
        ("again", Some(rules[0])),
        ("here/link", Some(rules[0])),
        ("way/keys/a.pem", Some(rules[1])),
        ("real/keys/a.pem", Some(rules[1])),
        ("here/real/keys/a.pem", Some(rules[1])),
        ("b.key", Some(rules[2])),
        ("here/b.key", Some(rules[2])),
        // A pattern does not say what all the links lead to that it could name.
        ("b.txt", None),
        ("main.rs", None),
    ];
    for (path, expect) in cases {
        assert_eq!(denied_by(path), expect, "{path}");
    }
    assert_eq!(grep(&root, None), "b.txt:1:secret = 1\nmain.rs:1:secret = 1");
    assert_eq!(search(&root, "./again"), "No files found for ./again.");
}
