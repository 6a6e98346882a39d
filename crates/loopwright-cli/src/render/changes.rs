//! File changes of tools, as a few lines of a diff for each file.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use loopwright_capabilities::files::{FileError, WorkspaceRoot};
use loopwright_core::{
    ChangedFile, FileChangeKind, ToolOutcome, ToolSet, Writes, messages::ToolCall,
};
use serde_json::Value;
use similar::DiffTag;
use similar::algorithms::{Capture, Replace, myers};

use super::words::{count, sanitize_terminal, truncate};

const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();
const FAINT: Style = Style::new().dimmed();

/// The largest file that is compared.
const LARGEST: u64 = 1 << 19;

/// How many lines of a diff are shown.
const SHOWN: usize = 20;

/// How many lines are shown around what changed.
const AROUND: usize = 2;

/// How long may be looked for the shortest diff.
const PATIENCE: Duration = Duration::from_millis(200);

/// What files hold, by their paths.
type Contents = BTreeMap<String, String>;

/// Remembers what files held while tools are at work on them.
#[derive(Debug)]
pub(super) struct FileDiffTracker {
    /// What the model names is read as tools read it: nothing leads out of the directory.
    directory: WorkspaceRoot,
    /// The files that a call may write, by the arguments of the call and their paths.
    before: Mutex<BTreeMap<Arc<str>, Contents>>,
}

/// How a file changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff {
    /// What the file held before.
    pub(crate) before: Arc<str>,
    /// What it holds now.
    pub(crate) after: Arc<str>,
    rows: Vec<Row>,
    /// Rows that are left out.
    rest: usize,
    added: usize,
    removed: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    tag: Tag,
    /// The number of the line; `None` where lines are left out.
    number: Option<usize>,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Kept,
    Removed,
    Added,
}

impl Row {
    fn new(tag: Tag, at: usize, text: &str) -> Self {
        Self { tag, number: Some(at + 1), text: text.replace('\t', "    ") }
    }
}

impl FileDiffTracker {
    pub(super) fn new(directory: impl Into<WorkspaceRoot>) -> Self {
        Self { directory: directory.into(), before: Mutex::default() }
    }

    /// Reads the files that a call declares to write, before it runs.
    pub(super) fn begin(&self, call: &ToolCall, tools: &ToolSet) {
        let Writes::Paths(paths) = tools.writes(call) else { return };
        let read = |path: &String| Some((self.plain(path), self.content(path)?));
        let files: Contents = paths.iter().filter_map(read).collect();
        if !files.is_empty() {
            self.with_before(|before| before.insert(Arc::clone(&call.arguments), files));
        }
    }

    /// Compares the files that a call has changed with what they were.
    pub(super) fn end(&self, call: &ToolCall, outcome: &ToolOutcome) -> Vec<(String, FileDiff)> {
        let Some(before) = self.with_before(|before| before.remove(&call.arguments)) else {
            return Vec::new();
        };
        let files = outcome.output().map(|output| output.files.known()).unwrap_or_default();
        let diff = |file: &ChangedFile| Some((file.path.clone(), self.diff(&before, file)?));
        files.iter().filter_map(diff).collect()
    }

    fn diff(&self, before: &Contents, file: &ChangedFile) -> Option<FileDiff> {
        let was = match &file.kind {
            FileChangeKind::Moved { from } => from,
            _ => &file.path,
        };
        FileDiff::of(before.get(&self.plain(was))?, &self.content(&file.path)?)
    }

    /// Returns a path as tools report it. Directories that do not exist yet hold no links.
    fn plain(&self, path: &str) -> String {
        self.directory.resolve(path).unwrap_or_else(|_| {
            let path = Path::new(path);
            let below = path.strip_prefix(self.directory.path()).unwrap_or(path);
            let plain = below.components().filter(|part| *part != Component::CurDir);
            plain.collect::<PathBuf>().display().to_string()
        })
    }

    /// Reads a file: empty if it does not exist, `None` if it is no short text.
    fn content(&self, path: &str) -> Option<String> {
        match self.directory.read_text(path, LARGEST) {
            Ok(text) => text,
            Err(FileError::Missing(_)) => Some(String::new()),
            Err(_) => None,
        }
    }

    fn with_before<T>(&self, work: impl FnOnce(&mut BTreeMap<Arc<str>, Contents>) -> T) -> T {
        work(&mut self.before.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the lines of the difference that a call of a file tool would make, up to a limit; `None` for other tools, and where
/// nothing would change.
pub(crate) fn file_diff(
    directory: &WorkspaceRoot,
    tool: &str,
    arguments: &Value,
    width: usize,
    most: usize,
) -> Option<Vec<String>> {
    let (path, before, after) = planned_change(directory, tool, arguments)?;
    let mut lines = vec![sanitize_terminal(&path)];
    lines.extend(FileDiff::of_rows(&before, &after, most)?.lines(width.saturating_sub(4)));
    Some(lines)
}

/// Returns the path of the file that a call of a file tool would change, what it holds and what it would hold.
pub(crate) fn planned_change(
    directory: &WorkspaceRoot,
    tool: &str,
    arguments: &Value,
) -> Option<(String, String, String)> {
    let text = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
    let path = text(arguments, "path")?;
    let before = match directory.read_text(&path, LARGEST) {
        Ok(text) => text?,
        Err(FileError::Missing(_)) => String::new(),
        Err(_) => return None,
    };
    let after = match tool {
        "write_file" => text(arguments, "content")?,
        "edit_file" => {
            let listed = arguments.get("edits").and_then(Value::as_array);
            let edits = listed.map_or(std::slice::from_ref(arguments), Vec::as_slice);
            edits.iter().try_fold(before.clone(), |content, edit| {
                let (old, new) = (text(edit, "old_string")?, text(edit, "new_string")?);
                let is_all = edit.get("replace_all").is_some_and(|it| *it == Value::Bool(true));
                Some(content.replacen(&old, &new, if is_all { usize::MAX } else { 1 }))
            })?
        }
        _ => return None,
    };
    Some((path, before, after))
}

/// Returns the lines of the difference between two texts, up to a limit; none if they have the same
/// lines.
pub(crate) fn content_diff(before: &str, after: &str, width: usize, most: usize) -> Vec<String> {
    FileDiff::of_rows(before, after, most).map(|it| it.lines(width)).unwrap_or_default()
}

impl FileDiff {
    /// Compares two texts. Returns `None` if they have the same lines.
    pub(super) fn of(before: &str, after: &str) -> Option<Self> {
        Self::of_rows(before, after, SHOWN)
    }

    fn of_rows(before: &str, after: &str, most: usize) -> Option<Self> {
        let (old, new): (Vec<&str>, Vec<&str>) =
            (before.lines().collect(), after.lines().collect());
        let mut capture = Replace::new(Capture::new());
        let deadline = Instant::now() + PATIENCE;
        let (whole_old, whole_new) = (0..old.len(), 0..new.len());
        myers::diff_deadline(&mut capture, &old, whole_old, &new, whole_new, Some(deadline))
            .ok()?;
        let mut rows = Vec::new();
        for group in capture.into_inner().into_grouped_ops(AROUND) {
            if !rows.is_empty() {
                rows.push(Row { tag: Tag::Kept, number: None, text: String::new() });
            }
            for op in group {
                let (kind, old_range, new_range) = op.as_tag_tuple();
                if kind == DiffTag::Equal {
                    rows.extend(new_range.map(|at| Row::new(Tag::Kept, at, new[at])));
                } else {
                    rows.extend(old_range.map(|at| Row::new(Tag::Removed, at, old[at])));
                    rows.extend(new_range.map(|at| Row::new(Tag::Added, at, new[at])));
                }
            }
        }
        let of = |tag: Tag| rows.iter().filter(|it| it.tag == tag).count();
        let (added, removed) = (of(Tag::Added), of(Tag::Removed));
        let rest = rows.len().saturating_sub(most);
        rows.truncate(most);
        let (before, after) = (before.into(), after.into());
        (added + removed > 0).then_some(Self { before, after, rows, rest, added, removed })
    }

    /// Returns the shown lines, each of at most this number of columns.
    pub(super) fn lines(&self, width: usize) -> Vec<String> {
        let numbers = self.rows.iter().filter_map(|it| it.number).max().unwrap_or(0);
        let digits = numbers.to_string().len();
        let room = width.saturating_sub(digits + 3);
        let row = |row: &Row| {
            let Some(number) = row.number else {
                return format!("{FAINT}{:>digits$}{FAINT:#}", "…");
            };
            let (mark, style) = match row.tag {
                Tag::Added => ('+', ADDED),
                Tag::Removed => ('-', REMOVED),
                Tag::Kept => (' ', FAINT),
            };
            let text = truncate(&sanitize_terminal(&row.text), room);
            let text = format!("{mark} {text}");
            format!("{FAINT}{number:>digits$}{FAINT:#} {style}{}{style:#}", text.trim_end())
        };
        let mut lines: Vec<String> = self.rows.iter().map(row).collect();
        if self.rest > 0 {
            let (more, added, removed) =
                (count(self.rest as u64, "more line"), self.added, self.removed);
            lines.push(format!("{FAINT}… {more}; +{added} -{removed} in all{FAINT:#}"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use async_trait::async_trait;
    use loopwright_capabilities::files::{EditFile, ReadFile, WriteFile};
    use loopwright_core::{
        AnyTool, FilesChanged, ToolCx, ToolError, ToolHandler, ToolOptions, ToolOutput,
        messages::ToolSpec,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::files::tests::writing_tools;

    /// The tools for files, and one of a third party.
    fn tools(directory: &Path) -> ToolSet {
        let spec = ToolSpec {
            name: "swap".into(),
            description: "Swaps the contents of two files.".into(),
            parameters: Arc::new(json!({ "type": "object" })),
        };
        ToolSet::new()
            .with(ReadFile::in_dir(directory))
            .with(WriteFile::in_dir(directory))
            .with(EditFile::in_dir(directory))
            .with(AnyTool::dynamic(spec, ToolOptions::default(), Arc::new(Swap)))
    }

    struct Swap;

    #[async_trait]
    impl ToolHandler for Swap {
        async fn call(&self, _: Value, _: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
            Ok(ToolOutput::text("swapped"))
        }

        fn writes(&self, arguments: &Value, _options: &ToolOptions) -> Writes {
            let paths = arguments.as_array().into_iter().flatten();
            Writes::Paths(paths.filter_map(Value::as_str).map(str::to_owned).collect())
        }
    }

    fn returned(files: impl IntoIterator<Item = ChangedFile>) -> ToolOutcome {
        let files: FilesChanged = files.into_iter().collect();
        ToolOutcome::Returned(ToolOutput::text("done").with_changed_files(files))
    }

    fn diff(path: &str, before: &str, after: &str) -> (String, FileDiff) {
        (path.to_owned(), FileDiff::of(before, after).unwrap())
    }

    fn shown(before: &str, after: &str) -> String {
        let diff = FileDiff::of(before, after);
        let lines = diff.map(|it| it.lines(30)).unwrap_or_default().join("\n");
        anstream::adapter::strip_str(&lines).to_string()
    }

    #[test]
    fn changes_are_shown_with_lines_of_context() {
        let before = "a\nb\nc\nd\ne\n1\n2\n3\n4\n5\n6\n";
        let after = before.replace("c\n", "x\ny\n").replace('6', "six");
        assert_eq!(
            shown(before, &after),
            " 1   a\n 2   b\n 3 - c\n 3 + x\n 4 + y\n 5   d\n 6   e\n …\n10   4\n11   5\n11 - 6\n12 + six"
        );
        assert_eq!(shown(before, before), "");
    }

    #[test]
    fn a_long_diff_is_cut_and_counted() {
        let text = (0..50).map(|it| format!("line {it}")).collect::<Vec<_>>().join("\n");
        let shown = shown("", &text);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[19]), (21, " 1 + line 0", "20 + line 19"));
        assert_eq!(lines[20], "… 30 more lines; +50 -0 in all");
    }

    #[test]
    fn a_line_is_cut_and_cannot_steer_a_terminal() {
        let long = format!("\u{1b}[2J{}", "x".repeat(60));
        assert_eq!(shown("", &long), format!("1 + \u{fffd}[2J{}…", "x".repeat(21)));
    }

    #[test]
    fn nothing_outside_of_the_directory_is_looked_at() {
        let home = tempfile::tempdir().unwrap();
        let inside = home.path().join("project");
        fs::create_dir(&inside).unwrap();
        let outside = home.path().join("outside");
        symlink(&outside, inside.join("link")).unwrap();
        symlink("/proc/self/pagemap", inside.join("endless")).unwrap();
        let watch = FileDiffTracker::new(&inside);
        let tools = tools(&inside);
        let paths = [
            "../outside",
            "link",
            outside.to_str().unwrap(),
            "a/../../outside",
            "endless",
            "/proc/self/pagemap",
        ];
        for path in paths {
            fs::write(&outside, "one\n").unwrap();
            let arguments = serde_json::json!({ "path": path }).to_string();
            let call = ToolCall::new("1", "edit_file", arguments);
            watch.begin(&call, &tools);
            fs::write(&outside, "two\n").unwrap();
            let returned = returned([ChangedFile::modified(path)]);
            assert_eq!((path, watch.end(&call, &returned)), (path, Vec::new()));
        }
    }

    #[test]
    fn a_file_is_compared_with_what_it_was_before_the_call() {
        let home = tempfile::tempdir().unwrap();
        let (watch, tools) = (FileDiffTracker::new(home.path()), tools(home.path()));
        let write = |name: &str, text: &str| fs::write(home.path().join(name), text).unwrap();
        let call = |tool: &'static str, path: &str| {
            let arguments = match tool {
                "write_file" => json!({ "path": path, "content": "" }),
                _ => json!({ "path": path }),
            };
            ToolCall::new("1", tool, arguments.to_string())
        };
        let new = call("write_file", "./new.txt");
        watch.begin(&new, &tools);
        write("new.txt", "one\n");
        let created = returned([ChangedFile::created("new.txt")]);
        assert_eq!(watch.end(&new, &created), [diff("new.txt", "", "one\n")]);
        symlink("new.txt", home.path().join("link")).unwrap();
        let edit = call("edit_file", "link");
        let modified = returned([ChangedFile::modified("new.txt")]);
        watch.begin(&edit, &tools);
        write("new.txt", "two\n");
        assert_eq!(watch.end(&edit, &modified), [diff("new.txt", "one\n", "two\n")]);
        // Nobody looked at it before.
        assert_eq!(watch.end(&edit, &modified), []);
        let read = call("read_file", "new.txt");
        watch.begin(&read, &tools);
        assert_eq!(watch.end(&read, &modified), []);
        fs::write(home.path().join("image"), b"\xff\0").unwrap();
        let binary = call("write_file", "image");
        watch.begin(&binary, &tools);
        write("image", "text");
        assert_eq!(watch.end(&binary, &returned([ChangedFile::modified("image")])), []);
    }

    #[test]
    fn each_tool_that_writes_files_has_a_diff_before_the_call() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("f"), "one\n").unwrap();
        let root = WorkspaceRoot::new(home.path());
        // The arguments of all these tools at once.
        let arguments = json!({
            "path": "f", "content": "two\n", "old_string": "one", "new_string": "two",
        });
        let names = writing_tools(home.path());
        assert!(names.len() > 1, "{names:?}");
        for name in names {
            let planned = planned_change(&root, &name, &arguments);
            let (path, before, after) =
                planned.unwrap_or_else(|| panic!("`planned_change` does not know `{name}`"));
            assert_eq!((path.as_str(), before.as_str()), ("f", "one\n"), "{name}");
            assert!(after.contains("two"), "{name}: {after}");
        }
        assert_eq!(planned_change(&root, "swap", &arguments), None);
    }

    #[test]
    fn each_file_that_a_third_partys_tool_reports_has_a_diff() {
        let home = tempfile::tempdir().unwrap();
        let (watch, tools) = (FileDiffTracker::new(home.path()), tools(home.path()));
        let write = |name: &str, text: &str| fs::write(home.path().join(name), text).unwrap();
        for name in ["a", "b", "c", "d"] {
            write(name, &format!("{name}\n"));
        }
        let call = ToolCall::new("1", "swap", r#"["a","b","c","d","e"]"#);
        watch.begin(&call, &tools);
        write("a", "b\n");
        write("b", "a\n");
        fs::remove_file(home.path().join("c")).unwrap();
        fs::rename(home.path().join("d"), home.path().join("e")).unwrap();
        let outcome = returned([
            ChangedFile::modified("a"),
            ChangedFile::modified("b"),
            ChangedFile::deleted("c"),
            ChangedFile::moved("d", "e"),
            ChangedFile::modified("undeclared"),
        ]);
        let expected = [diff("a", "a\n", "b\n"), diff("b", "b\n", "a\n"), diff("c", "c\n", "")];
        assert_eq!(watch.end(&call, &outcome), expected);
        // A call that failed reports nothing.
        watch.begin(&call, &tools);
        assert_eq!(watch.end(&call, &ToolOutcome::Unknown), []);
    }
}
