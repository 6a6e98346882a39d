//! One style of setters in the public interface: `with_…` on values, bare names on a `…Builder`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::WORKSPACE;

/// Methods that return a changed value and are not setters: verbs for what they do, calculations, and descriptions that
/// read as a sentence.
const OTHERS: &[(&str, &[&str])] = &[
    ("AgentContractRegistry", &["register"]),
    ("AgentState", &["decide", "decide_at", "edit", "replay"]),
    ("Bash", &["allow", "allow_needs", "confine", "protect"]),
    // The same, by a macro.
    ("", &["allow", "allow_needs", "confine"]),
    (
        "Call",
        &[
            "in_dir",
            "preloading_skills",
            "reading",
            "requesting",
            "running",
            "starting_agent",
            "writing",
        ],
    ),
    ("ChildAgent", &["cap", "keep_tools"]),
    // As in `std::process`.
    ("Command", &["args", "stdin"]),
    ("ContinuationCriteria", &["when"]),
    ("ContractAgent", &["on_event", "wiretap"]),
    ("Cost", &["saturating_sub", "times"]),
    ("Environment", &["inherit", "set"]),
    ("ExtractionOptions", &["or"]),
    ("FakeSandbox", &["enqueue", "enqueue_any", "otherwise"]),
    ("ForkSession", &["at"]),
    ("Guarantees", &["without"]),
    ("ModelInfo", &["or"]),
    ("SandboxPolicy", &["allow_weaker", "hide", "protect", "read", "write"]),
    ("Screen", &["allow", "reach", "refuse"]),
    ("Selection", &["for_execution"]),
    ("SessionStatus", &["transition_to"]),
    ("Source", &["allow", "ask", "deny"]),
    ("StoredBatch", &["until"]),
    ("Timestamp", &["plus"]),
    ("UseExecutionRetrospective", &["on_rewind"]),
    ("UseRecording", &["redact"]),
    ("UseSystemPrompt", &["append"]),
    ("WorkspaceRoot", &["allow", "hide", "protect"]),
];

#[test]
fn a_method_that_sets_a_part_of_a_value_begins_with_with() {
    let mut bare = Vec::new();
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        for (owner, name) in setters(&text) {
            let is_other = OTHERS.iter().any(|it| it.0 == owner && it.1.contains(&name.as_str()));
            if !is_other && !is_in_style(&owner, &name) {
                bare.push(format!("{owner}::{name}"));
            }
        }
    }
    bare.sort();
    assert_eq!(bare, Vec::<String>::new());
}

#[test]
fn every_method_that_may_be_bare_exists() {
    let mut found = Vec::new();
    for path in sources() {
        found.extend(setters(&fs::read_to_string(path).unwrap()));
    }
    let gone: Vec<String> = OTHERS
        .iter()
        .flat_map(|(owner, names)| {
            names.iter().map(|name| ((*owner).to_owned(), (*name).to_owned()))
        })
        .filter(|it| !found.contains(it))
        .map(|(owner, name)| format!("{owner}::{name}"))
        .collect();
    assert_eq!(gone, Vec::<String>::new());
}

#[test]
fn a_setter_takes_a_value_and_something_to_set() {
    let text = "impl<'a> Call<'a> {\n    pub fn named(\n        mut self,\n        name: &str,\n    ) -> Self {\n    pub fn on(mut self) -> Self {\n    \
                pub fn read(&self, at: u64) -> Self {\n    fn own(self, it: u8) -> Self {\n    pub fn end(self, it: u8) -> u8 {\n}\n\
                impl From<X> for Other {\n    pub const fn tried<T>(self, it: T) -> Result<Self, E> {\n";
    let found = setters(text);
    let expect = [("Call", "named"), ("Other", "tried")];
    assert_eq!(found, expect.map(|(owner, name)| (owner.to_owned(), name.to_owned())));
    assert!(is_in_style("Call", "with_name") && is_in_style("CallBuilder", "name"));
    assert!(!is_in_style("Call", "name") && !is_in_style("Call", "within"));
}

fn is_in_style(owner: &str, name: &str) -> bool {
    // A collection takes one kind of element, which its `with` need not name.
    owner.ends_with("Builder")
        || name == "with"
        || name.starts_with("with_")
        || name.starts_with("without_")
}

/// Returns the public methods of a source that take a value and something else, and return the value, with the
/// types that have them.
fn setters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut owner = "";
    for (at, line) in lines(text) {
        if line.starts_with("impl") {
            owner = owner_of(line);
        }
        let Some(name) = ["pub fn ", "pub const fn "]
            .iter()
            .find_map(|start| line.trim_start().strip_prefix(start))
            .and_then(|rest| rest.split(['(', '<']).next())
        else {
            continue;
        };
        // A macro names it where it is used.
        if name.starts_with('$') {
            continue;
        }
        let signature = text[at..].split(['{', ';']).next().unwrap();
        let signature = signature.split_whitespace().collect::<Vec<_>>().join(" ");
        let takes = ["(self, ", "(mut self, ", "( self, ", "( mut self, "];
        let gives = ["-> Self", "-> Result<Self"];
        if takes.iter().any(|it| signature.contains(it))
            && gives.iter().any(|it| signature.contains(it))
        {
            found.push((owner.to_owned(), name.to_owned()));
        }
    }
    found
}

/// Returns the lines of a text with their positions.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |next, line| {
        let at = *next;
        *next += line.len();
        Some((at, line))
    })
}

/// Returns the name of the type that an `impl` is about.
fn owner_of(line: &str) -> &str {
    let line = line.split_once(" for ").map_or(line, |(_, rest)| rest);
    let line = line.strip_prefix("impl").unwrap_or(line);
    let line = if line.starts_with('<') {
        line.split_once("> ").map_or(line, |(_, rest)| rest)
    } else {
        line
    };
    let end = |it: char| !it.is_alphanumeric() && it != '_';
    line.trim_start().split(end).next().unwrap_or_default()
}

/// The sources of the library. The program's package has no interface for others.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(Path::new(WORKSPACE).join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.ends_with("loopwright-cli") {
            files(&folder.join("src"), &mut found);
        }
    }
    assert!(found.len() > 400, "{}", found.len());
    found
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_test = path.file_stem().is_some_and(|it| it == "tests");
        if path.is_dir() && !is_test {
            files(&path, found);
        } else if !is_test && path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}
