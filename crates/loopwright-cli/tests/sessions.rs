//! Runs that are kept, and what can be done with them.

mod commands;
mod damaged;
mod following;
mod killed;
mod moving;
mod nested;
mod resuming;
mod running;
mod undoing;
mod worktrees;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_tool};
use crate::world::{Done, World};

/// A home with a provider, and what is typed to reach it.
struct Place {
    world: World,
    server: Server,
}

impl Place {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::within(World::new(), replies)
    }

    fn within(world: World, replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { world, server: Server::start(replies) }
    }

    fn line<'a>(&'a self, options: &[&'a str]) -> Vec<&'a str> {
        let model = ["-m", "openai-compatible/test", "--base-url", &self.server.url];
        [&["run"], &model[..], options].concat()
    }

    fn run(&self, options: &[&str]) -> Done {
        self.world.run(&self.line(options))
    }

    /// Runs, and returns the session.
    fn ran(&self, options: &[&str]) -> String {
        let line = [&["--output-format", "json"], options].concat();
        let done = self.run(&line);
        assert_eq!(done.status, 0, "{}", done.stderr);
        let report: Value = serde_json::from_str(&done.stdout).unwrap();
        report["session_id"].as_str().unwrap().to_owned()
    }

    fn sessions(&self, options: &[&str]) -> Done {
        self.world.run(&[&["sessions"], options].concat())
    }

    /// Asks for JSON.
    fn json(&self, options: &[&str]) -> Value {
        let done = self.sessions(&[options, &["--json"]].concat());
        serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
    }

    fn shown(&self, id: &str) -> Value {
        self.json(&["show", id])
    }

    /// What the provider was asked last.
    fn asked(&self) -> Vec<Value> {
        let messages = self.server.request()["messages"].as_array().unwrap().clone();
        messages.into_iter().skip(1).map(|it| it["content"].clone()).collect()
    }
}

/// What was said in a session, by people and models.
fn said(shown: &Value) -> Vec<String> {
    let entries = shown["entries"].as_array().unwrap().iter();
    let words = entries.filter(|it| matches!(it["type"].as_str(), Some("said" | "answered")));
    words.map(|it| it["text"].as_str().unwrap().to_owned()).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn answers<const N: usize>(words: [&str; N]) -> [Reply; N] {
    words.map(|it| streamed(it, "stop"))
}

#[test]
fn a_run_is_listed_shown_and_goes_on() {
    let place = Place::new(answers(["Hello.", "Again."]));
    let id = place.ran(&["Who   are\nyou?"]);
    place.asked();
    let list = place.sessions(&["list"]);
    let row: Vec<&str> = list.stdout.split_whitespace().collect();
    assert_eq!(row[0], &id[..8]);
    assert!(list.stdout.ends_with("completed   Who are you?\n"), "{}", list.stdout);
    let listed = place.json(&["list"]);
    let header = &listed["sessions"][0];
    assert_eq!((&header["id"], &header["title"]), (&id.as_str().into(), &"Who are you?".into()));
    assert_eq!(header["workdir"], "/project");
    assert_eq!(header["agent_name"], "loopwright");

    let done = place.run(&["--resume", &id[..6], "And now?"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Again.\n"), "{}", done.stderr);
    assert_eq!(place.asked(), ["Who   are\nyou?", "Hello.", "And now?"]);
    let shown = place.shown(&id);
    assert_eq!(said(&shown), ["Who   are\nyou?", "Hello.", "And now?", "Again."]);
    assert_eq!((&shown["steps"], &shown["usage"]["total"]), (&2.into(), &120.into()));
    assert_eq!(shown["model"], "openai-compatible/test");
    let text = place.sessions(&["show", &id]).stdout;
    let expect = "\n> And now?\n\nAgain.\n  — step 2 · 60 tokens · ";
    assert!(text.contains(expect), "{text}");
}

#[test]
fn the_printed_resume_command_works_as_it_is() {
    let place = Place::new(answers(["Hello.", "Again."]));
    let done = place.run(&["x"]);
    let hint = done.stderr.lines().last().unwrap().strip_prefix("resume with: loopwright ");
    let mut words: Vec<&str> = hint.unwrap().split(' ').collect();
    assert_eq!((words[0], words[1], words[2].len()), ("run", "--resume", 8));
    words.push("y");
    let done = place.world.run(&words);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Again.\n"), "{}", done.stderr);
    assert!(!place.run(&["-q", "x"]).stderr.contains("resume"));
}

#[test]
fn the_latest_session_of_the_directory_is_continued() {
    let place = Place::new(answers(["one", "two", "three"]));
    place.ran(&["1?"]);
    let id = place.ran(&["-c", "2?"]);
    assert_eq!(said(&place.shown(&id)), ["1?", "one", "2?", "two"]);
    fs::create_dir(place.world.path("other")).unwrap();
    let done = place.run(&["-c", "-C", "../other", "3?"]);
    assert_eq!(done.status, 2);
    assert!(done.stderr.contains("no session to resume in /other"), "{}", done.stderr);
    let done = place.run(&["-c", "-C", "../other", "--json", "3?"]);
    let last: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["stop_reason"]), (&"result".into(), &"usage".into()));
}

#[test]
fn a_session_works_in_its_directory_unless_another_one_is_said() {
    let place = Place::new(answers(["one", "two", "three", "four", "five"]));
    let other = place.world.path("other");
    fs::create_dir(&other).unwrap();
    let id = place.ran(&["-C", "../other", "1?"]);
    let done = place.run(&["-r", &id, "--json", "2?"]);
    let first: Value = serde_json::from_str(done.stdout.lines().next().unwrap()).unwrap();
    assert_eq!((&first["workdir"], &first["session_id"]), (&"/other".into(), &id.as_str().into()));
    let done = place.run(&["-r", &id, "-C", ".", "--json", "3?"]);
    let first: Value = serde_json::from_str(done.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["workdir"], "/project");
    let hint =
        |done: &crate::world::Done| done.stderr.lines().last().unwrap_or_default().to_owned();
    let here = place.run(&["-r", &id, "-C", ".", "4?"]);
    assert!(hint(&here).ends_with(" -C /project"), "{}", here.stderr);
    let there = place.run(&["-r", &id, "5?"]);
    assert!(!hint(&there).contains(" -C "), "{}", there.stderr);
    fs::remove_dir(&other).unwrap();
    let done = place.run(&["-r", &id, "6?"]);
    assert_eq!(done.status, 2);
    assert!(done.stderr.contains("cannot be used; choose another directory with `-C`"));
}

#[test]
fn the_model_and_the_instructions_of_a_session_stay_until_others_are_said() {
    let place = Place::new(answers(["one", "two", "three"]));
    let id = place.ran(&["--system-prompt", "Speak like a pirate.", "1?"]);
    let system = |request: &Value| request["messages"][0]["content"].to_string();
    assert!(system(&place.server.request()).contains("pirate"));
    let url = place.server.url.as_str();
    let done = place.world.run(&["run", "-r", &id, "--base-url", url, "2?"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let request = place.server.request();
    assert_eq!(request["model"], "test");
    assert!(system(&request).contains("pirate"));
    let other = [
        "run",
        "-r",
        &id,
        "--base-url",
        url,
        "-m",
        "openai-compatible/m",
        "--system-prompt",
        "Be brief.",
        "3?",
    ];
    assert_eq!(place.world.run(&other).status, 0);
    let request = place.server.request();
    assert_eq!(request["model"], "m");
    assert!(system(&request).contains("Be brief.") && !system(&request).contains("pirate"));
}

#[test]
fn nothing_is_kept_without_a_session() {
    let place = Place::new(answers(["one"]));
    let done = place.run(&["--no-session", "--output-format", "json", "1?"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(report.get("session_id"), None);
    assert!(!done.stderr.contains("resume with"), "{}", done.stderr);
    assert!(!place.world.path(".local").exists());
    let done = place.run(&["--no-session", "-c", "1?"]);
    assert_eq!(done.status, 2);
}

#[test]
fn session_files_are_readable_by_the_user_only() {
    let place = Place::new(answers(["one", "two"]));
    place.ran(&["1?"]);
    let state = place.world.path(".local/state/loopwright");
    assert_eq!((mode(&state), mode(&state.join("sessions.db"))), (0o700, 0o600));
    let files = format!("files:{}", place.world.path("kept").display());
    place.ran(&["--store", &files, "2?"]);
    assert_eq!(mode(&place.world.path("kept")), 0o700);
}

#[test]
fn sessions_are_kept_where_it_is_said() {
    let url = |world: &World, kind: &str| format!("{kind}:{}", world.path("kept").display());
    for kind in ["files", "sqlite"] {
        let place = Place::new(answers(["one", "two", "three"]));
        let url = url(&place.world, kind);
        let id = place.ran(&["--store", &url, "1?"]);
        let done = place.run(&["--store", &url, "-r", &id, "2?"]);
        assert_eq!(done.status, 0, "{kind}: {}", done.stderr);
        let config = format!("[store]\nurl = '{url}'\n");
        let world = place.world.file(".config/loopwright/config.toml", &config);
        let place = Place { world: world.env("KEPT", &url), server: place.server };
        assert_eq!(said(&place.shown(&id)), ["1?", "one", "2?", "two"], "{kind}");
        let text = place.world.run(&["sessions", "--store", "env:KEPT", "list"]).stdout;
        assert!(text.starts_with(&id[..8]), "{kind}: {text}");
        assert!(!place.world.path(".local").exists());
    }
    let place = Place::new([]);
    for (url, status) in [("mysql://x", 3), ("env:NOTHING", 3), ("sqlite:/proc/none/a.db", 1)] {
        let done = place.sessions(&["list", "--store", url]);
        assert_eq!(done.status, status, "{}", done.stderr);
    }
    let done = place.sessions(&["list", "--store", "postgres://me:hidden@db/x"]);
    assert_eq!(done.status, 2);
    assert!(!done.stderr.contains("hidden"), "{}", done.stderr);
}

#[test]
fn a_name_that_is_none_or_more_than_one_is_refused_with_what_there_is() {
    let place = Place::new(answers(["one", "two"]));
    place.ran(&["1?"]);
    for line in [&["show", "x"][..], &["fork", "x"], &["rewind", "x", "1"], &["export", "x"]] {
        let done = place.sessions(line);
        assert_eq!(done.status, 2, "{line:?}");
        assert!(done.stderr.contains(
            "no session matches `x`; list sessions with `loopwright sessions list --all`"
        ));
    }
    let export =
        place.sessions(&["export", place.json(&["list"])["sessions"][0]["id"].as_str().unwrap()]);
    for name in ["talk-1", "talk-2"] {
        let done = place.world.run_with(&["sessions", "import", "-", "--id", name], &export.stdout);
        assert_eq!((done.status, done.stdout), (0, format!("{name}\n")), "{}", done.stderr);
    }
    let done = place.sessions(&["show", "talk-"]);
    assert_eq!(done.status, 2);
    assert!(
        done.stderr.contains("talk-1 1?") && done.stderr.contains("talk-2 1?"),
        "{}",
        done.stderr
    );
    assert_eq!(place.sessions(&["show", "talk-1"]).status, 0);
}

#[test]
fn a_fork_goes_its_own_way_from_a_step_on() {
    let place = Place::new(answers(["one", "two", "three", "four"]));
    let id = place.ran(&["1?"]);
    place.ran(&["-r", &id, "2?"]);
    let at_one = format!("{id}@1");
    let fork = place.ran(&["--fork", &at_one, "3?"]);
    assert_ne!(fork, id);
    assert_eq!(said(&place.shown(&fork)), ["1?", "one", "3?", "three"]);
    assert_eq!(said(&place.shown(&id)), ["1?", "one", "2?", "two"]);
    let done = place.sessions(&["fork", &id]);
    let other = done.stdout.trim();
    assert_eq!(said(&place.shown(other)), ["1?", "one", "2?", "two"]);
    assert_eq!(place.shown(other)["session"]["parent"], id.as_str());
    let done = place.sessions(&["fork", &format!("{id}@7")]);
    assert_eq!(done.status, 2);
    assert!(done.stderr.contains("unknown step 7 of session"), "{}", done.stderr);
    let listed = place.json(&["list"]);
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 3);
}

#[test]
fn a_session_is_rewound_and_goes_on_from_there() {
    let place = Place::new(answers(["one", "two", "three"]));
    let id = place.ran(&["1?"]);
    place.ran(&["-r", &id, "2?"]);
    let done = place.sessions(&["rewind", &id, "1"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(said(&place.shown(&id)), ["1?", "one"]);
    place.ran(&["-r", &id, "3?"]);
    assert_eq!(said(&place.shown(&id)), ["1?", "one", "3?", "three"]);
    assert_eq!(place.sessions(&["rewind", &id, "9"]).status, 2);
}

#[test]
fn rewinding_undoes_file_changes_unless_the_file_changed_since() {
    let write = |path: &str, content: &str| {
        let arguments = json!({"path": path, "content": content, "overwrite": true});
        streamed_tool("", "write_file", &arguments)
    };
    let done = || streamed("Done.", "stop");
    for kind in ["sqlite", "files"] {
        let replies =
            [write("a.txt", "1"), write("b.txt", "2"), done(), write("a.txt", "3"), done()];
        let place = Place::new(replies);
        let store = format!("{kind}:{}", place.world.path("kept").display());
        let id = place.ran(&["--store", &store, "Write."]);
        place.ran(&["--store", &store, "-r", &id, "Again."]);
        let read = |name: &str| fs::read_to_string(place.world.path("project").join(name)).ok();
        let rewind =
            |step: &str| place.sessions(&["rewind", "--store", &store, "--files", &id, step]);
        assert_eq!(read("a.txt").as_deref(), Some("3"));
        let done = rewind("3");
        assert_eq!(done.status, 0, "{kind}: {}", done.stderr);
        assert_eq!((read("a.txt").as_deref(), read("b.txt").as_deref()), (Some("1"), Some("2")));
        fs::write(place.world.path("project/b.txt"), "mine").unwrap();
        let done = rewind("0");
        assert_eq!(done.status, 0, "{kind}: {}", done.stderr);
        assert_eq!(read("a.txt").as_deref(), Some("one\ntwo\n"));
        assert_eq!(read("b.txt").as_deref(), Some("mine"));
        assert!(done.stderr.contains("b.txt was not restored"), "{kind}: {}", done.stderr);
    }
}

#[test]
fn a_deleted_session_is_gone_and_its_fork_stays() {
    let place = Place::new(answers(["one", "two"]));
    let id = place.ran(&["1?"]);
    let fork = place.ran(&["--fork", &id, "2?"]);
    let done = place.sessions(&["delete", &id[..8]]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let done = place.run(&["-r", &id, "3?"]);
    assert_eq!(done.status, 2);
    assert!(done.stderr.contains("was deleted"), "{}", done.stderr);
    assert_eq!(said(&place.shown(&fork)), ["1?", "one", "2?", "two"]);
    let deleted = place.json(&["list", "--status", "deleted"]);
    assert_eq!(deleted["sessions"][0]["id"], id.as_str());
}

#[test]
fn a_suspended_session_takes_no_message_until_it_is_resumed() {
    let place = Place::new(answers(["one", "two"]));
    let id = place.ran(&["1?"]);
    assert_eq!(place.sessions(&["suspend", &id]).status, 0);
    let done = place.run(&["-r", &id, "2?"]);
    assert_eq!(done.status, 2);
    let remedy = format!("resume it with `loopwright sessions resume {}`", &id[..8]);
    assert!(done.stderr.contains(&remedy), "{}", done.stderr);
    assert_eq!(place.sessions(&["resume", &id]).status, 0);
    assert_eq!(place.run(&["-r", &id, "2?"]).status, 0);
    let done = place.sessions(&["stop", &id, "x"]);
    assert_eq!(done.status, 2);
    assert!(done.stderr.contains("is not running"), "{}", done.stderr);
}

#[test]
fn session_lists_continue_with_the_next_page() {
    let place = Place::new(answers(["one", "two", "three"]));
    let ids = ["1?", "2?", "3?"].map(|it| place.ran(&[it]));
    let first = place.json(&["list", "-n", "2"]);
    let cursor = first["next"].as_str().unwrap();
    let second = place.json(&["list", "-n", "2", "--cursor", cursor]);
    let pages = [&first, &second].map(|it| it["sessions"].as_array().unwrap().clone());
    let listed: Vec<Value> = pages.concat().iter().map(|it| it["id"].clone()).collect();
    assert_eq!(listed, [&ids[2], &ids[1], &ids[0]].map(|it| Value::from(it.as_str())));
    assert_eq!(second["next"], Value::Null);
    let printed = place.sessions(&["list", "-n", "2"]);
    assert_eq!(printed.stdout.lines().count(), 2);
    let more = format!("more with: loopwright sessions list --limit 2 --cursor {cursor}\n");
    assert_eq!(printed.stderr, more);
    assert_eq!(place.sessions(&["list", "--cursor", "x"]).status, 2);
    let none = place.json(&["list", "--agent", "nobody"]);
    assert_eq!(none["sessions"], Value::Array(Vec::new()));
}

#[test]
fn the_doctor_reads_every_session() {
    let place = Place::new(answers(["one", "two"]));
    let done = place.sessions(&["check"]);
    assert_eq!((done.status, done.stderr.as_str()), (0, "0 sessions can be read\n"));
    place.ran(&["1?"]);
    place.ran(&["2?"]);
    let found = place.json(&["check"]);
    assert_eq!((&found["sessions"], &found["readable"]), (&2.into(), &2.into()));
    assert_eq!(found["findings"], Value::Array(Vec::new()));
}

#[test]
fn the_doctor_finds_a_session_that_makes_no_sense() {
    let place = Place::new(answers(["one", "two"]));
    let kept = place.world.path("kept");
    let store = format!("files:{}", kept.display());
    let whole = place.ran(&["--store", &store, "1?"]);
    let broken = place.ran(&["--store", &store, "2?"]);
    // Bytes in the middle of what is kept of it.
    for file in files_of(&kept.join("sessions"), &broken) {
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..].fill(b'x');
        fs::write(&file, bytes).unwrap();
    }
    let done = place.sessions(&["check", "--store", &store]);
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(done.stderr.contains(&broken[..8]), "{}", done.stderr);
    assert_eq!(place.sessions(&["show", "--store", &store, &whole]).status, 0);
}

#[test]
fn a_session_that_is_damaged_is_listed_and_what_helps_is_told() {
    let place = Place::new(answers(["one"]));
    let kept = place.world.path("kept");
    let store = format!("files:{}", kept.display());
    let broken = place.ran(&["--store", &store, "1?"]);
    fs::write(kept.join("sessions").join(&broken).join("log"), "x").unwrap();
    let listed = place.json(&["list", "--store", &store]);
    assert_eq!(listed["unreadable"], json!([broken]));
    let list = place.sessions(&["list", "--store", &store]);
    let expect = format!(
        "warning: session {} is damaged and cannot be read\nrun `loopwright sessions check --store \
         files:/kept` for the cause and the remedy\nno sessions in this directory; --all lists the sessions of all directories\n",
        &broken[..8]
    );
    assert_eq!((list.status, list.stderr), (0, expect));
    let shown = place.sessions(&["show", "--store", &store, &broken[..8]]);
    assert_eq!(shown.status, 1, "{}", shown.stderr);
    assert!(shown.stderr.contains("`loopwright sessions check --repair`"), "{}", shown.stderr);
    assert_eq!(place.sessions(&["check", "--repair", "--store", &store]).status, 0);
    assert_eq!(place.json(&["list", "--store", &store])["unreadable"], json!([]));
}

#[test]
fn a_database_that_is_damaged_is_salvaged_by_the_doctor() {
    let place = Place::new(answers(["one"]));
    let id = place.ran(&["1?"]);
    // What was written last is in a file beside it until then.
    assert_eq!(place.sessions(&["prune", "--older-than", "30d"]).status, 0);
    let path = place.world.path(".local/state/loopwright/sessions.db");
    let mut bytes = fs::read(&path).unwrap();
    bytes[..100].fill(0);
    fs::write(&path, &bytes).unwrap();
    let done = place.sessions(&["show", &id]);
    assert_eq!(done.status, 1, "{}", done.stderr);
    let remedy = "`loopwright sessions check --repair --store \
                  sqlite:/.local/state/loopwright/sessions.db`";
    assert!(done.stderr.contains(remedy), "{}", done.stderr);
    let done = place.sessions(&["check", "--repair"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let kept = "repaired: saved 1 of the database's sessions to a new file; the damaged file is kept as \
                `/.local/state/loopwright/sessions.db.damaged-1`";
    assert!(done.stderr.contains(kept), "{}", done.stderr);
    assert_eq!(said(&place.shown(&id)), ["1?", "one"]);
    let aside = place.world.path(".local/state/loopwright/sessions.db.damaged-1");
    assert_eq!(fs::read(&aside).unwrap(), bytes);
}

#[test]
fn a_world_writable_directory_is_refused() {
    let place = Place::new(answers(["one"]));
    let folder = place.world.path("open");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    for store in ["sqlite:/open/a.db", "files:/open"] {
        let store = store.replace("/open", folder.to_str().unwrap());
        let done = place.sessions(&["list", "--store", &store]);
        assert_eq!(done.status, 3, "{}", done.stderr);
        assert!(done.stderr.contains("`chmod go-w /open`"), "{}", done.stderr);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}

#[test]
fn changes_that_a_fork_or_an_import_cannot_undo_are_reported() {
    let write = json!({ "path": "b.txt", "content": "1" });
    let [done] = answers(["done"]);
    let place = Place::new([streamed_tool("", "write_file", &write), done]);
    let id = place.ran(&["write it"]);
    let fork = place.sessions(&["fork", &id]).stdout.trim().to_owned();
    let export = place.sessions(&["export", &id]).stdout;
    place.world.run_with(&["sessions", "import", "-", "--id", "b"], &export);
    for (name, reason) in [
        (
            fork.as_str(),
            format!("the earlier content of the files belongs to session {}", &id[..8]),
        ),
        ("b", "no record of the earlier content of these files: it was imported".to_owned()),
    ] {
        let done = place.sessions(&["rewind", name, "0", "--files"]);
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert!(done.stderr.contains("warning: b.txt was not changed\n"), "{}", done.stderr);
        assert!(done.stderr.contains(&reason), "{}", done.stderr);
        assert!(place.world.path("project/b.txt").exists());
    }
    let done = place.sessions(&["rewind", &id, "0", "--files"]);
    assert!(!done.stderr.contains("was not changed"), "{}", done.stderr);
    assert!(!place.world.path("project/b.txt").exists());
}

/// The files whose path holds a name.
fn files_of(folder: &Path, name: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_of(&path, name));
        } else if path.to_str().unwrap().contains(name) {
            found.push(path);
        }
    }
    found
}

#[test]
fn old_sessions_are_pruned() {
    let place = Place::new(answers(["one", "two"]));
    let id = place.ran(&["1?"]);
    let done = place.json(&["prune", "--older-than", "1d"]);
    assert_eq!(done["sessions"], Value::Array(Vec::new()));
    std::thread::sleep(Duration::from_millis(5));
    let done = place.json(&["prune", "--older-than", "1ms", "--dry-run"]);
    assert_eq!((&done["sessions"][0], &done["reclaimed"]), (&id.as_str().into(), &Value::Null));
    assert_eq!(place.sessions(&["show", &id]).status, 0);
    let done = place.json(&["prune", "--older-than", "1ms", "--unreachable"]);
    assert_eq!(done["sessions"][0], id.as_str());
    assert!(done["reclaimed"]["batches"].as_u64().unwrap() > 0, "{done}");
    assert_eq!(place.sessions(&["show", &id]).status, 2);
    assert_eq!(place.sessions(&["check"]).status, 0);
    assert_eq!(place.sessions(&["prune"]).status, 2);
}

#[test]
fn an_agent_does_not_reach_the_store_it_is_kept_in() {
    let spoil = json!({ "path": "kept/sessions.db", "content": "x", "overwrite": true });
    let place = Place::new([
        streamed_tool("", "write_file", &spoil),
        streamed_tool("", "bash", &json!({ "command": "rm -f kept/sessions.db" })),
        streamed("done", "stop"),
    ]);
    let store = ["--store", "sqlite:kept/sessions.db"];
    let id = place.ran(&[&store[..], &["spoil it"]].concat());
    let shown = place.json(&[&["show", &id][..], &store].concat());
    assert_eq!((&shown["session"]["id"], &shown["steps"]), (&json!(id), &json!(3)), "{shown}");
}
