//! Runs that end in the middle of a sub-agent: however they are taken up again, no finished call of it is made again.

use std::fs;
use std::process::{Child, Command};

use serde_json::Value;

use super::Place;
use super::commands::{delegating, delegating_in, spawn};
use crate::server::{Reply, streamed, streamed_call};
use crate::world::{Done, World};

/// A run whose sub-agent has made a call and waits for its model.
struct Delegated {
    place: Place,
    run: Child,
    id: String,
}

impl Delegated {
    /// Runs until the sub-agent waits. Later requests are answered so.
    fn new(answers: &[&str]) -> Self {
        let made = streamed_call("", "echo made >> made");
        let first = [spawn(), made, Reply::Nothing];
        let answers = answers.iter().map(|it| streamed(it, "stop"));
        let place = delegating(first.into_iter().chain(answers));
        let run = place.world.start(&place.line(&["--agent", "lead", "go"]));
        (0..3).for_each(|_| drop(place.server.request()));
        let id = place.json(&["list"])["sessions"][0]["id"].as_str().unwrap().to_owned();
        Self { place, run, id }
    }

    fn kill(&mut self) {
        Command::new("kill").args(["-KILL", &self.run.id().to_string()]).status().unwrap();
        self.run.wait().unwrap();
    }

    /// Returns the session of the sub-agent.
    fn child(&self) -> String {
        let exported = self.exported();
        let head = exported.lines().filter(|it| it.starts_with(r#"{"type":"session""#)).nth(1);
        let head: Value = serde_json::from_str(head.unwrap()).unwrap();
        head["header"]["id"].as_str().unwrap().to_owned()
    }

    fn exported(&self) -> String {
        self.place.sessions(&["export", &self.id]).stdout
    }

    fn made(&self) -> String {
        fs::read_to_string(self.place.world.path("project/made")).unwrap()
    }

    /// Takes a file in under a name, allows its run, and resumes it.
    fn imported(&self, file: &str, name: &str) -> Done {
        fs::write(self.place.world.path("project/talk"), file).unwrap();
        let imported = self.place.sessions(&["import", "talk", "--id", name]);
        assert_eq!(imported.status, 0, "{}", imported.stderr);
        assert_eq!(self.place.sessions(&["resume", name]).status, 0);
        self.place.run(&["--resume", name])
    }

    /// Returns what the model of the parent was told of the call, in the last request.
    fn told(&self) -> String {
        let last = std::iter::from_fn(|| self.place.server.taken()).last().unwrap();
        last["messages"].as_array().unwrap().last().unwrap()["content"].to_string()
    }
}

#[test]
fn a_fork_of_a_run_that_was_killed_in_a_sub_agent_continues_the_sub_agent() {
    let mut run = Delegated::new(&["Inner.", "Outer.", "Inner.", "Outer."]);
    run.kill();
    let forked = run.place.run(&["--fork", &run.id]);
    assert_eq!((forked.status, forked.stdout.as_str()), (0, "Outer.\n"), "{}", forked.stderr);
    assert!(run.told().contains("Inner."));
    let resumed = run.place.run(&["--resume", &run.id]);
    assert_eq!((resumed.status, resumed.stdout.as_str()), (0, "Outer.\n"), "{}", resumed.stderr);
    assert_eq!(run.made(), "made\n");
}

#[test]
fn an_import_of_a_run_that_was_killed_in_a_sub_agent_continues_the_sub_agent() {
    let mut run = Delegated::new(&["Inner.", "Outer."]);
    run.kill();
    let done = run.imported(&run.exported(), "taken");
    assert_eq!((done.status, done.stdout.as_str()), (0, "Outer.\n"), "{}", done.stderr);
    assert!(run.told().contains("Inner."));
    assert_eq!(run.made(), "made\n");
}

#[test]
fn the_outcome_of_a_sub_agent_missing_in_a_file_is_unknown() {
    let mut run = Delegated::new(&["Outer."]);
    run.kill();
    let exported = run.exported();
    let head: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    let own = 1 + usize::try_from(head["header"]["length"].as_u64().unwrap()).unwrap();
    let lines: Vec<&str> = exported.lines().take(own).collect();
    let file = lines.join("\n").replacen(r#""subagents":1,"#, "", 1) + "\n";
    let done = run.imported(&file, "taken");
    assert_eq!((done.status, done.stdout.as_str()), (0, "Outer.\n"), "{}", done.stderr);
    let told = run.told();
    assert!(told.contains("may have taken effect"), "{told}");
    assert_eq!(run.made(), "made\n");
}

#[test]
fn the_session_of_a_sub_agent_is_refused_with_the_session_to_wait_for_while_a_run_drives_it() {
    let mut run = Delegated::new(&["Inner."]);
    let (child, parent) = (run.child(), &run.id[..8]);
    let told = format!(
        "session {} is a sub-agent of session {parent}, which is in use by process ",
        &child[..8]
    );
    for line in [&["--resume", &child, "and?"][..], &["--resume", &child, "--steer", "and?"]] {
        let refused = run.place.run(line);
        assert_eq!((refused.status, refused.stdout.as_str()), (7, ""), "{}", refused.stderr);
        assert!(refused.stderr.contains(&told), "{}", refused.stderr);
    }
    let stop = run.place.sessions(&["stop", &child]);
    assert_eq!(stop.status, 7, "{}", stop.stderr);
    assert!(stop.stderr.contains(&format!("loopwright sessions stop {parent}")), "{}", stop.stderr);
    // The process is gone, and the session is free.
    run.kill();
    let done = run.place.run(&["--resume", &child]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Inner.\n"), "{}", done.stderr);
    assert_eq!(run.made(), "made\n");
}

#[test]
fn the_answer_of_a_sub_agents_session_that_is_continued_by_itself_is_printed() {
    let mut run = Delegated::new(&["Inner.", "More.", "Other.", "Outer."]);
    run.kill();
    let child = run.child();
    let answer = |line: &[&str], expect: &str| {
        let done = run.place.run(line);
        assert_eq!((done.status, done.stdout.as_str()), (0, expect), "{}", done.stderr);
    };
    answer(&["--resume", &child], "Inner.\n");
    answer(&["--resume", &child, "and now?"], "More.\n");
    answer(&["-q", "--fork", &child, "otherwise?"], "Other.\n");
    // Its parent takes what it answered last.
    answer(&["--resume", &run.id], "Outer.\n");
    assert!(run.told().contains("More."), "{}", run.told());
    let shown = run.place.sessions(&["show", &child]).stdout;
    assert!(shown.contains(&format!("sub-agent of {}", run.id)), "{shown}");
}

#[test]
fn a_message_to_an_interrupted_step_is_shown_after_it() {
    let mut run = Delegated::new(&["Inner.", "Outer."]);
    run.kill();
    let done = run.place.run(&["--resume", &run.id, "and now?"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Outer.\n"), "{}", done.stderr);
    let shown = run.place.sessions(&["show", &run.id]).stdout;
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text} in {shown}"));
    assert!(at("> go") < at("Inner.") && at("Inner.") < at("— step 1"), "{shown}");
    assert!(at("— step 1") < at("> and now?") && at("> and now?") < at("Outer."), "{shown}");
}

/// A run that was killed in a command which may have done anything.
fn killed_in_command(place: &Place, options: &[&str]) -> String {
    let mut child = place.world.start(&place.line(options));
    let begun = place.world.path("project/begun");
    while !begun.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Command::new("kill").args(["-KILL", &child.id().to_string()]).status().unwrap();
    child.wait().unwrap();
    place.json(&["list"])["sessions"][0]["id"].as_str().unwrap().to_owned()
}

fn without_sandbox() -> World {
    World::new().file(
        ".config/loopwright/config.toml",
        "[sandbox]\nbackend = \"host\"\n[permissions]\nmode = \"unconfined\"\n",
    )
}

#[test]
fn an_interrupted_call_of_a_sub_agent_is_decided_about_by_its_address() {
    let slow = streamed_call("", "touch begun; sleep 1000");
    let answers = ["Inner.", "Outer."].map(|it| streamed(it, "stop"));
    let place = delegating_in(without_sandbox(), [spawn(), slow].into_iter().chain(answers));
    let id = killed_in_command(&place, &["--agent", "lead", "go"]);
    let paused = place.run(&["--continue", "--on-interrupted", "require-decision"]);
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let needed = "decision needed: bash touch begun; sleep 1000 of child: the call was interrupted";
    assert!(paused.stderr.contains(needed), "{}", paused.stderr);
    let waits = &place.shown(&id)["pending"][0];
    assert_eq!((&waits["address"], &waits["tool"]), (&"0.0".into(), &"bash".into()));
    let shown = place.sessions(&["show", &id]).stdout;
    assert!(shown.contains(" 0.0 retry|done [RESULT]|skip|stop"), "{shown}");
    let decide = |line: &[&str]| place.sessions(&[&["decide", &id], line].concat());
    let wrong = decide(&["0.0", "approve", r#"{"command":7}"#]);
    assert_eq!(wrong.status, 2, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("do not match the schema of `bash`"), "{}", wrong.stderr);
    assert_eq!(decide(&["0.1", "deny"]).status, 2);
    assert_eq!(decide(&["0.0", "reply", "yes"]).status, 2);
    let decided = decide(&["0.0", "approve", r#"{"command":"echo other > other"}"#]);
    assert_eq!(decided.status, 0, "{}", decided.stderr);
    let done = place.run(&["--continue"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Outer.\n"), "{}", done.stderr);
    let other = fs::read_to_string(place.world.path("project/other")).unwrap();
    assert_eq!(other, "other\n");
    let shown = place.sessions(&["show", &id]).stdout;
    assert!(shown.contains("! call 0.0: run it with different arguments"), "{shown}");
}

#[test]
fn changed_arguments_of_an_own_call_are_checked_before_they_are_kept() {
    let slow = streamed_call("", "touch begun; sleep 1000");
    let place = Place::within(without_sandbox(), [slow, streamed("Done.", "stop")]);
    let id = killed_in_command(&place, &["go"]);
    let paused = place.run(&["--continue", "--on-interrupted", "require-decision"]);
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let wrong = place.sessions(&["decide", &id, "approve", r#"{"command":7}"#]);
    assert_eq!(wrong.status, 2, "{}", wrong.stderr);
    let decided = place.sessions(&["decide", &id, "approve", r#"{"command":"echo x > x"}"#]);
    assert_eq!(decided.status, 0, "{}", decided.stderr);
    let done = place.run(&["--continue"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Done.\n"), "{}", done.stderr);
    assert!(place.world.path("project/x").exists());
}
