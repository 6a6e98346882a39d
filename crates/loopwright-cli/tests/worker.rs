//! What is left for workers.

use std::process::Command;

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed};
use crate::world::{Done, World};

struct Place {
    world: World,
    server: Server,
}

impl Place {
    fn new<const N: usize>(answers: [&str; N]) -> Self {
        let replies: [Reply; N] = answers.map(|it| streamed(it, "stop"));
        Self { world: World::new(), server: Server::start(replies) }
    }

    fn line<'a>(&'a self, command: &'a str, options: &[&'a str]) -> Vec<&'a str> {
        let model = ["-m", "openai-compatible/test", "--base-url", &self.server.url];
        [&[command], &model[..], options].concat()
    }

    fn submit(&self, options: &[&str]) -> Done {
        self.world.run(&self.line("submit", options))
    }

    fn work(&self) -> Done {
        self.world.run(&self.line("worker", &["--until-idle"]))
    }

    fn json(&self, line: &[&str]) -> Value {
        let done = self.world.run(line);
        serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
    }
}

fn names(done: &Done) -> (String, String) {
    let (job, session) = done.stdout.trim().split_once(' ').unwrap_or_else(|| panic!("{done:?}"));
    (job.to_owned(), session.to_owned())
}

#[test]
fn what_is_submitted_is_done_by_a_worker() {
    let place = Place::new(["Hello.", "Again."]);
    let (job, session) = names(&place.submit(&["Who are you?"]));
    let (next, same) = names(&place.submit(&["--session", &session[..8], "And now?"]));
    assert_eq!(same, session);
    let done = place.work();
    let expect = format!("done     {0}  {job}\ndone     {0}  {next}\n", &session[..8]);
    assert_eq!((done.status, done.stdout), (0, expect), "{}", done.stderr);
    assert!(done.stderr.ends_with("2 done, 0 wait for a decision, 0 stopped, 0 failed, 0 left\n"));
    let shown = place.json(&["sessions", "show", &session, "--json"]);
    let texts: Vec<&str> =
        shown["entries"].as_array().unwrap().iter().filter_map(|it| it["text"].as_str()).collect();
    assert_eq!(texts, ["Who are you?", "Hello.", "And now?", "Again."]);
    let listed = place.json(&["jobs", "--json"]);
    let statuses: Vec<&Value> =
        listed["jobs"].as_array().unwrap().iter().map(|it| &it["status"]).collect();
    assert_eq!(statuses, [&json!("done"), &json!("done")]);
    assert_eq!(listed["counts"]["done"], 2);
}

#[test]
fn whoever_follows_hears_the_answer() {
    let place = Place::new(["Hello."]);
    let mut worker = place.world.start(&place.line("worker", &["--json"]));
    let done = place.submit(&["--follow", "Who are you?"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Hello.\n"), "{}", done.stderr);
    // It ends in good order when it is asked to.
    let killed = Command::new("kill").args(["-TERM", &worker.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(worker.wait().unwrap().code(), Some(0));
}

#[test]
fn what_is_submitted_twice_under_one_name_is_one_job() {
    let place = Place::new(["Hello."]);
    let first = names(&place.submit(&["--id", "nightly", "Who are you?"]));
    let second = names(&place.submit(&["--id", "nightly", "Who are you?"]));
    assert_eq!((first.0.as_str(), &first), ("nightly", &second));
    assert_eq!(place.json(&["jobs", "--json"])["counts"]["waiting"], 1);
    assert_eq!(place.work().status, 0);
    let told = place.submit(&["--id", "nightly", "--follow", "--json", "Who are you?"]);
    let report: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!((&report["text"], &report["exit_code"]), (&json!("Hello."), &json!(0)));
}

#[test]
fn where_there_is_no_queue_the_remedy_is_told() {
    let place = Place::new([]);
    let store = format!("files:{}", place.world.path("sessions").display());
    for line in [
        place.line("submit", &["--store", &store, "x"]),
        place.line("worker", &["--store", &store]),
        vec!["jobs", "--store", &store],
    ] {
        let done = place.world.run(&line);
        assert_eq!(done.status, 3, "{done:?}");
        assert!(done.stderr.contains("--store sqlite:FILE"), "{}", done.stderr);
    }
}
