//! Going back takes with it what tools did to files.

use std::{fs, path::Path, sync::Arc};

use loopwright_agent::{AgentBuilder, UseLlmConfig, UseTools};
use loopwright_capabilities::files::{OriginalFile, UndoOutcome, UseFileTools, WorkspaceRoot};
use loopwright_core::{AgentLoop, FilesChanged, ToolOutput};
use loopwright_sessions::{
    MemoryStore, NewSession, SendMessage, SessionError, SessionFiles, SessionHeader, SessionId,
    SessionLog, SessionRuntime, SessionStore as _, UnknownChanges, snapshot_owner,
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::support::{Same, id, session};

fn write(path: &str, content: &str) -> ScenarioStep {
    let arguments = json!({ "path": path, "content": content, "overwrite": true });
    ScenarioStep::tool_call("write_file", arguments)
}

/// An agent that writes `a` twice and `b` once, each in a step of its own, and a last time `a`.
#[expect(clippy::unwrap_used, reason = "the lint spares tests, but not what they share")]
fn writing(root: &WorkspaceRoot) -> AgentLoop {
    let script =
        [write("a", "1"), write("a", "2"), write("b", "1"), write("a", "3"), "done".into()];
    AgentBuilder::base()
        .with_capability(UseFileTools::in_dir(root.clone()))
        .with_capability(UseLlmConfig::model(FakeModel::script(script)))
        .build()
        .unwrap()
}

#[expect(clippy::unwrap_used, reason = "the lint spares tests, but not what they share")]
async fn written(directory: &Path) -> (SessionRuntime, WorkspaceRoot) {
    let store = Arc::new(MemoryStore::new());
    let files = SessionFiles::new(store.clone(), id("a")).with_folder(directory);
    let root = WorkspaceRoot::new(directory).with_journal(Arc::new(files));
    let runtime = SessionRuntime::new(store, Same(writing(&root)));
    runtime.create(session("a")).await.unwrap();
    runtime.execute(&id("a"), &SendMessage::text("write")).await.unwrap();
    (runtime, root)
}

fn read(directory: &Path, name: &str) -> Option<String> {
    fs::read_to_string(directory.join(name)).ok()
}

#[tokio::test]
async fn a_rewind_undoes_what_came_after_the_step() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (runtime, root) = written(at).await;
    assert_eq!((read(at, "a"), read(at, "b")), (Some("3".into()), Some("1".into())));
    let (session, undone) = runtime.rewind_files(&id("a"), 2, &root).await.unwrap();
    assert_eq!(session.state().total_steps(), 2);
    let told: Vec<_> = undone.iter().map(|(path, came)| (&**path, came)).collect();
    assert_eq!(told, [("a", &UndoOutcome::Restored), ("b", &UndoOutcome::Removed)]);
    assert_eq!((read(at, "a"), read(at, "b")), (Some("2".into()), None));
    // What was undone is undone once.
    let (_, undone) = runtime.rewind_files(&id("a"), 0, &root).await.unwrap();
    assert_eq!(undone.len(), 2);
    assert_eq!(read(at, "a"), None);
}

#[tokio::test]
async fn files_are_undone_while_the_conversation_stays() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (runtime, root) = written(at).await;
    let before = runtime.session(&id("a")).await.unwrap().state().total_steps();
    let undone = runtime.undo_files(&id("a"), 2, &root).await.unwrap();
    let told: Vec<_> = undone.iter().map(|(path, came)| (&**path, came)).collect();
    assert_eq!(told, [("a", &UndoOutcome::Restored), ("b", &UndoOutcome::Removed)]);
    assert_eq!((read(at, "a"), read(at, "b")), (Some("2".into()), None));
    let session = runtime.session(&id("a")).await.unwrap();
    assert_eq!(session.state().total_steps(), before);
    // What is undone is no change any more, and every call is still known to have been recorded.
    assert_eq!(runtime.recorded_files(&id("a"), 0).await.unwrap(), ["a", "a"]);
    assert_eq!(runtime.original_files(&id("a"), 2, 9).await.unwrap(), [].into());
    assert_eq!(runtime.unrecorded_files(&id("a"), 0).await.unwrap(), []);
    // A later rewind undoes the rest.
    let (_, undone) = runtime.rewind_files(&id("a"), 0, &root).await.unwrap();
    let came: Vec<_> = undone.iter().map(|(_, came)| came).collect();
    assert_eq!(came, [&UndoOutcome::Restored, &UndoOutcome::Removed]);
    assert_eq!(read(at, "a"), None);
}

#[tokio::test]
async fn a_file_that_has_changed_since_is_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (runtime, root) = written(at).await;
    fs::write(at.join("a"), "mine").unwrap();
    let (_, undone) = runtime.rewind_files(&id("a"), 2, &root).await.unwrap();
    let came: Vec<_> = undone.iter().map(|(_, came)| came).collect();
    assert_eq!(came, [&UndoOutcome::Conflict, &UndoOutcome::Removed]);
    assert_eq!((read(at, "a"), read(at, "b")), (Some("mine".into()), None));
}

#[tokio::test]
async fn a_change_that_could_not_be_undone_is_undone_by_a_later_rewind() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (runtime, root) = written(at).await;
    fs::write(at.join("a"), "mine").unwrap();
    runtime.rewind_files(&id("a"), 2, &root).await.unwrap();
    assert_eq!(runtime.recorded_files(&id("a"), 2).await.unwrap(), ["a"]);
    fs::write(at.join("a"), "3").unwrap();
    let (_, undone) = runtime.rewind_files(&id("a"), 2, &root).await.unwrap();
    assert_eq!(undone, [("a".to_owned(), UndoOutcome::Restored)]);
    assert_eq!(read(at, "a"), Some("2".into()));
    assert_eq!(runtime.recorded_files(&id("a"), 2).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_that_already_is_as_before_all_changes_is_no_conflict() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (runtime, root) = written(at).await;
    fs::remove_file(at.join("a")).unwrap();
    let (_, undone) = runtime.rewind_files(&id("a"), 0, &root).await.unwrap();
    let expected = [
        ("a".to_owned(), UndoOutcome::Unchanged),
        ("b".to_owned(), UndoOutcome::Removed),
        ("a".to_owned(), UndoOutcome::Unchanged),
        ("a".to_owned(), UndoOutcome::Unchanged),
    ];
    assert_eq!(undone, expected);
    assert_eq!(runtime.recorded_files(&id("a"), 0).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn changes_that_a_rewind_left_in_the_files_are_undone_by_a_later_one() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (runtime, root) = written(at).await;
    runtime.rewind(&id("a"), 1).await.unwrap();
    assert_eq!((read(at, "a"), read(at, "b")), (Some("3".into()), Some("1".into())));
    assert_eq!(runtime.recorded_files(&id("a"), 1).await.unwrap(), ["a", "b", "a"]);
    let undone = runtime.undo_files(&id("a"), 1, &root).await.unwrap();
    let came: Vec<_> = undone.iter().map(|(_, came)| came).collect();
    let (restored, removed) = (&UndoOutcome::Restored, &UndoOutcome::Removed);
    assert_eq!(came, [restored, removed, restored]);
    assert_eq!((read(at, "a"), read(at, "b")), (Some("1".into()), None));
}

#[tokio::test]
async fn changes_that_a_rewind_left_in_the_files_belong_to_the_past_of_what_follows() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (runtime, root) = written(at).await;
    runtime.rewind(&id("a"), 1).await.unwrap();
    // The script continues with its answer, so this turn has one step more and changes no file.
    runtime.execute(&id("a"), &SendMessage::text("again")).await.unwrap();
    let later = runtime.session(&id("a")).await.unwrap().state().total_steps();
    for step in [1, later] {
        assert_eq!(runtime.recorded_files(&id("a"), step).await.unwrap(), Vec::<String>::new());
    }
    assert_eq!(runtime.rewind_files(&id("a"), later, &root).await.unwrap().1, []);
    let (_, undone) = runtime.rewind_files(&id("a"), 0, &root).await.unwrap();
    assert_eq!(undone.len(), 4);
    assert_eq!((read(at, "a"), read(at, "b")), (None, None));
    // What was undone is undone once.
    assert_eq!(runtime.recorded_files(&id("a"), 0).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_path_that_is_no_file_any_more_is_left_and_the_rest_is_undone() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (runtime, root) = written(at).await;
    fs::remove_file(at.join("a")).unwrap();
    fs::create_dir(at.join("a")).unwrap();
    let (session, undone) = runtime.rewind_files(&id("a"), 2, &root).await.unwrap();
    let came: Vec<_> = undone.iter().map(|(_, came)| came).collect();
    assert_eq!(came, [&UndoOutcome::Conflict, &UndoOutcome::Removed]);
    assert_eq!((session.state().total_steps(), read(at, "b")), (2, None));
}

#[tokio::test]
async fn the_changes_of_files_after_a_step_are_listed_oldest_first() {
    let directory = tempfile::tempdir().unwrap();
    let (runtime, _) = written(directory.path()).await;
    let listed = runtime.recorded_files(&id("a"), 2).await.unwrap();
    let paths: Vec<_> = listed.iter().map(|it| &**it).collect();
    assert_eq!(paths, ["b", "a"]);
    assert_eq!(runtime.recorded_files(&id("a"), 4).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn original_files_returns_the_content_before_the_first_change_after_a_step() {
    let directory = tempfile::tempdir().unwrap();
    let (runtime, _) = written(directory.path()).await;
    let session = id("a");
    let originals = |step, largest| runtime.original_files(&session, step, largest);
    let expect = |a| [("a".to_owned(), a), ("b".to_owned(), OriginalFile::Absent)].into();
    assert_eq!(originals(0, 9).await.unwrap(), expect(OriginalFile::Absent));
    assert_eq!(originals(2, 9).await.unwrap(), expect(OriginalFile::Content(b"2".to_vec())));
    assert_eq!(originals(2, 0).await.unwrap(), expect(OriginalFile::Unknown));
    assert_eq!(originals(4, 9).await.unwrap(), [].into());
    runtime.rewind(&id("a"), 3).await.unwrap();
    assert_eq!(originals(2, 9).await.unwrap(), expect(OriginalFile::Content(b"2".to_vec())));
}

#[tokio::test]
async fn a_rewind_while_another_folder_is_at_the_path_leaves_the_changes_to_a_later_one() {
    let world = tempfile::tempdir().unwrap();
    let (at, away) = (world.path().join("project"), world.path().join("away"));
    fs::create_dir(&at).unwrap();
    let (runtime, _) = written(&at).await;
    fs::rename(&at, &away).unwrap();
    fs::create_dir(&at).unwrap();
    fs::write(at.join("a"), "other").unwrap();
    let rewind = async || {
        let root = WorkspaceRoot::new(&at);
        runtime.rewind_files(&id("a"), 0, &root).await.unwrap().1
    };
    let left = ["a", "b", "a", "a"].map(|path| (path.to_owned(), UndoOutcome::OtherFolder));
    assert_eq!(rewind().await, left);
    assert_eq!((read(&at, "a"), read(&at, "b")), (Some("other".into()), None));
    fs::remove_dir_all(&at).unwrap();
    fs::rename(&away, &at).unwrap();
    let undone = rewind().await;
    let came: Vec<_> = undone.iter().map(|(path, came)| (&**path, came)).collect();
    let [restored, removed] = [&UndoOutcome::Restored, &UndoOutcome::Removed];
    assert_eq!(came, [("a", restored), ("b", removed), ("a", restored), ("a", removed)]);
    assert_eq!((read(&at, "a"), read(&at, "b")), (None, None));
}

#[tokio::test]
async fn calls_that_may_have_changed_any_file_are_named_from_their_step_on() {
    let unknown = MockTool::with_cx("bash_start", "Starts a command.", |_, _| {
        Box::pin(async {
            Ok(ToolOutput::text("started").with_changed_files(FilesChanged::Unknown))
        })
    });
    let known = MockTool::returning("look", "Looks.", "seen");
    let script = [
        ScenarioStep::tool_call("bash_start", json!({ "command": "make watch" })),
        ScenarioStep::tool_call("look", json!({})),
        ScenarioStep::tool_call("bash_start", json!({})),
        "done".into(),
    ];
    let agent = AgentBuilder::base()
        .with_capability(UseTools::new().with_tool(unknown).with_tool(known))
        .with_capability(UseLlmConfig::model(FakeModel::script(script)))
        .build()
        .unwrap();
    let runtime = SessionRuntime::new(Arc::new(MemoryStore::new()), Same(agent));
    runtime.create(session("a")).await.unwrap();
    runtime.execute(&id("a"), &SendMessage::text("start")).await.unwrap();
    let call = |command: Option<&str>| UnknownChanges {
        tool: "bash_start".to_owned(),
        command: command.map(str::to_owned),
    };
    let from = async |step: u64| runtime.unknown_changes(&id("a"), step).await.unwrap();
    assert_eq!(from(0).await, [call(Some("make watch")), call(None)]);
    assert_eq!(from(1).await, [call(None)]);
    assert_eq!(from(3).await, []);
}

#[tokio::test]
async fn only_unrecorded_changes_are_reported_as_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (runtime, _) = written(directory.path()).await;
    assert_eq!(runtime.unrecorded_files(&id("a"), 0).await.unwrap(), []);
    // A fork has none of the notes of the session that it began with.
    let fork = runtime.fork(&id("a"), None, None).await.unwrap();
    let calls = runtime.unrecorded_files(&fork.id, 2).await.unwrap();
    let calls: Vec<_> = calls.iter().map(|it| (&*it.tool, &*it.path)).collect();
    assert_eq!(calls, [("write_file", "b"), ("write_file", "a")]);
}

/// An agent with a tool of a third party, which moves `a` to `b` and deletes `c`.
#[expect(clippy::unwrap_used, reason = "the lint spares tests, but not what they share")]
fn tidying(root: &WorkspaceRoot) -> AgentLoop {
    let files = root.clone();
    let tidy = MockTool::with_cx("tidy", "Tidies up.", move |_, _| {
        let files = files.clone();
        Box::pin(async move {
            let work = spawn_blocking(move || [files.rename("a", "b"), files.remove("c")]);
            let changed = work.await.unwrap().map(|change| change.unwrap().changed_file());
            let changed: FilesChanged = changed.into_iter().collect();
            Ok(ToolOutput::text("tidied").with_changed_files(changed))
        })
    });
    let script = [ScenarioStep::tool_call("tidy", json!({})), "done".into()];
    AgentBuilder::base()
        .with_capability(UseTools::new().with_tool(tidy))
        .with_capability(UseLlmConfig::model(FakeModel::script(script)))
        .build()
        .unwrap()
}

#[tokio::test]
async fn the_changes_of_a_third_partys_tool_are_undone_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    fs::write(at.join("a"), "moved").unwrap();
    fs::write(at.join("c"), "deleted").unwrap();
    let store = Arc::new(MemoryStore::new());
    let files = SessionFiles::new(store.clone(), id("a"));
    let root = WorkspaceRoot::new(at).with_journal(Arc::new(files));
    let runtime = SessionRuntime::new(store, Same(tidying(&root)));
    runtime.create(session("a")).await.unwrap();
    runtime.execute(&id("a"), &SendMessage::text("tidy up")).await.unwrap();
    assert_eq!((read(at, "a"), read(at, "b"), read(at, "c")), (None, Some("moved".into()), None));

    assert_eq!(runtime.unrecorded_files(&id("a"), 0).await.unwrap(), []);
    let fork = runtime.fork(&id("a"), None, None).await.unwrap();
    let calls = runtime.unrecorded_files(&fork.id, 0).await.unwrap();
    let calls: Vec<_> = calls.iter().map(|it| (&*it.tool, &*it.path)).collect();
    assert_eq!(calls, [("tidy", "b"), ("tidy", "c")]);

    let (_, undone) = runtime.rewind_files(&id("a"), 0, &root).await.unwrap();
    let expected = ["c", "b"].map(|path| (path.to_owned(), UndoOutcome::Restored));
    assert_eq!(undone, expected);
    let held = (read(at, "a"), read(at, "b"), read(at, "c"));
    assert_eq!(held, (Some("moved".into()), None, Some("deleted".into())));
}

/// Keeps a session that has a parent, for which it works if it was started by a call.
#[expect(clippy::unwrap_used, reason = "the lint spares tests, but not what they share")]
async fn keep(store: &MemoryStore, name: &str, parent: &str, call: Option<&str>) -> SessionHeader {
    let kept = session(name);
    let (parent, call) = (Some(id(parent)), call.map(Into::into));
    let header = SessionHeader { parent, call, ..kept.header().clone() };
    let new = NewSession { header: &header, definition: kept.definition(), changes: &[] };
    store.create(new).await.unwrap()
}

#[tokio::test]
async fn the_sub_agents_of_a_session_with_snapshots_work_in_its_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (root, store) = (WorkspaceRoot::new(directory.path()), Arc::new(MemoryStore::new()));
    let runtime = SessionRuntime::new(store.clone(), Same(writing(&root)));
    runtime.create(session("a")).await.unwrap();
    let below = keep(&store, "b", "a", Some("call")).await;
    let last = keep(&store, "c", "b", Some("call")).await;
    let fork = keep(&store, "d", "a", None).await;
    let owner = async |header| snapshot_owner(&*store, header).await.unwrap();
    assert_eq!(owner(&last).await, None);
    let entry = [b"{}".as_slice().into()];
    store.append_log(&id("a"), SessionLog::Folder, &entry, None).await.unwrap();
    let first = store.header(&id("a")).await.unwrap().unwrap();
    let owners = [&first, &below, &last, &fork].map(owner);
    let owners = futures::future::join_all(owners).await;
    assert_eq!(owners, [Some(id("a")), Some(id("a")), Some(id("a")), None]);
    let is_of_first =
        |error| matches!(error, SessionError::HasSnapshots(owner) if owner == id("a"));
    for name in ["a", "b", "c"].map(id) {
        let forked = runtime.fork(&name, None, None).await.map(drop);
        let rewound = runtime.rewind_files(&name, 0, &root).await.map(drop);
        let undone = runtime.undo_files(&name, 0, &root).await.map(drop);
        for refused in [forked, rewound, undone] {
            assert!(refused.is_err_and(is_of_first), "{name}");
        }
    }
}

#[tokio::test]
async fn imported_sessions_that_name_each_other_as_parents_have_no_snapshots() {
    let store = MemoryStore::new();
    let header = keep(&store, "a", "b", Some("call")).await;
    keep(&store, "b", "a", Some("call")).await;
    assert_eq!(snapshot_owner(&store, &header).await.unwrap(), None::<SessionId>);
}
