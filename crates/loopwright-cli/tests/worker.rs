//! What is left for workers.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_tool};
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
        self.world.run(&self.line("worker", &["--exit-when-idle"]))
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
fn a_submitted_job_is_done_by_a_worker() {
    let place = Place::new(["Hello.", "Again."]);
    let (job, session) = names(&place.submit(&["Who are you?"]));
    let (next, same) = names(&place.submit(&["--session", &session[..8], "And now?"]));
    assert_eq!(same, session);
    let done = place.work();
    let expect = format!("completed  {0}  {job}\ncompleted  {0}  {next}\n", &session[..8]);
    assert_eq!((done.status, done.stdout), (0, expect), "{}", done.stderr);
    assert!(done.stderr.ends_with("2 completed, 0 need input, 0 stopped, 0 failed, 0 released\n"));
    let shown = place.json(&["sessions", "show", &session, "--json"]);
    let texts: Vec<&str> =
        shown["entries"].as_array().unwrap().iter().filter_map(|it| it["text"].as_str()).collect();
    assert_eq!(texts, ["Who are you?", "Hello.", "And now?", "Again."]);
    let listed = place.json(&["jobs", "--json"]);
    let statuses: Vec<&Value> =
        listed["jobs"].as_array().unwrap().iter().map(|it| &it["status"]).collect();
    assert_eq!(statuses, [&json!("completed"), &json!("completed")]);
    assert_eq!(listed["counts"]["completed"], 2);
}

#[test]
fn a_worker_works_only_in_folders_that_were_allowed_and_in_none_that_is_broad() {
    let elsewhere = World::new()
        .file("other/a.txt", "secret\n")
        .file(".ssh/id", "key\n")
        .file(".config/loopwright/config.toml", "[worker]\nroots = ['/nowhere/at/all']\n");
    let place = Place { world: elsewhere, server: Server::start([streamed("Done.", "stop")]) };
    let folder = |name: &str| place.world.path(name).display().to_string();
    let work = |options: &[&str]| {
        place.world.run(&place.line("worker", &[&["--exit-when-idle"], options].concat()))
    };
    let configured = work(&[]);
    assert_eq!(configured.status, 2, "{configured:?}");
    assert!(
        configured.stderr.contains("/nowhere/at/all cannot be used as a worker root"),
        "{}",
        configured.stderr
    );
    let home = folder("");
    let home = home.trim_end_matches('/');
    let cases = [
        ("other", vec!["--root", "."], "is outside the roots of this worker"),
        (".ssh", vec!["--root", home], "is too broad for a worker"),
        ("", vec!["--root", home], "is too broad for a worker"),
    ];
    for (name, options, expect) in cases {
        place.submit(&["-C", &folder(name), "Look."]);
        let done = work(&options);
        assert!(
            done.stdout.starts_with("failed ") && done.stdout.contains(expect),
            "{name}: {done:?}"
        );
        assert!(!place.server.was_asked(), "{name}");
    }
    place.submit(&["-C", &folder("other"), "Look."]);
    let done = work(&["--root", "../other"]);
    assert!(done.stdout.starts_with("completed "), "{done:?}");
    assert!(done.stderr.starts_with("processing sessions from "), "{}", done.stderr);
    assert!(done.stderr.contains(" in /other; press Ctrl-C"), "{}", done.stderr);
}

#[test]
fn a_follower_of_a_job_receives_the_answer() {
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
fn jobs_submitted_twice_under_one_id_are_one_job() {
    let place = Place::new(["Hello."]);
    let first = names(&place.submit(&["--id", "nightly", "Who are you?"]));
    let second = names(&place.submit(&["--id", "nightly", "Who are you?"]));
    assert_eq!((first.0.as_str(), &first), ("nightly", &second));
    assert_eq!(place.json(&["jobs", "--json"])["counts"]["queued"], 1);
    assert_eq!(place.work().status, 0);
    let told = place.submit(&["--id", "nightly", "--follow", "--json", "Who are you?"]);
    let report: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!((&report["text"], &report["exit_code"]), (&json!("Hello."), &json!(0)));
}

#[test]
fn a_store_without_a_queue_names_the_remedy() {
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

#[test]
fn a_worker_works_as_the_agent_of_the_session() {
    let Place { world, server } = Place::new(["Reviewed."]);
    let text = "---\nname: reviewer\ndescription: Reviews.\ntools: []\n---\nYou review.\n";
    let place = Place { world: world.file("project/.loopwright/agents/reviewer.md", text), server };
    let (_, session) = names(&place.submit(&["--agent", "reviewer", "Look."]));
    let done = place.work();
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stdout.starts_with(&format!("completed  {}", &session[..8])), "{}", done.stdout);
    let asked = place.server.request();
    assert!(asked["messages"][0]["content"].to_string().contains("You review."), "{asked}");
    assert_eq!(asked.get("tools"), None);
    let shown = place.json(&["sessions", "show", &session, "--json"]);
    assert_eq!(shown["session"]["agent_name"], "reviewer", "{shown}");
}

#[test]
fn whose_agent_it_is_cannot_be_said_again() {
    let place = Place::new([]);
    let done = place.submit(&["--session", "a", "--agent", "reviewer", "Look."]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    let done = place.world.run(&place.line("worker", &["--agent", "reviewer"]));
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(done.stderr.contains("each session keeps its agent"), "{}", done.stderr);
}

#[test]
fn limits_and_instructions_of_a_session_that_began_are_refused() {
    let place = Place::new([]);
    let (_, session) =
        names(&place.submit(&["--max-steps", "5", "--system-prompt", "Be brief.", "Look."]));
    for typed in
        [["--max-steps", "9"], ["--max-session-cost", "1"], ["--system-prompt", "Be long."]]
    {
        let done = place.submit(&[&["--session", &session], &typed[..]].concat());
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{}", done.stderr);
        let remedy = format!("loopwright run --resume {session}");
        assert!(done.stderr.contains(&remedy), "{}", done.stderr);
    }
    assert_eq!(place.json(&["jobs", "--json"])["counts"]["queued"], 1);
}

#[test]
fn other_words_under_a_name_that_is_taken_are_refused() {
    let place = Place::new([]);
    let (_, session) = names(&place.submit(&["--id", "nightly", "Sum up."]));
    for other in [&["--id", "nightly", "Delete."][..], &["--id", "nightly", "--session", &session]]
    {
        let done = place.submit(other);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{}", done.stderr);
        assert!(done.stderr.contains("job ID `nightly` belongs to another job"), "{}", done.stderr);
    }
    assert_eq!(place.submit(&["--id", "nightly", "Sum up."]).status, 0);
}

#[test]
fn nothing_is_left_for_a_session_that_takes_no_message() {
    let place = Place::new([]);
    let (_, session) = names(&place.submit(&["Look."]));
    assert_eq!(place.world.run(&["sessions", "suspend", &session]).status, 0);
    let done = place.submit(&["--session", &session, "More."]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(done.stderr.contains("is suspended and accepts no messages"), "{}", done.stderr);
}

#[test]
fn a_worker_does_not_follow_what_was_put_in_the_place_of_a_directory() {
    let place = Place::new(["Hello."]);
    let (_, session) = names(&place.submit(&["Who are you?"]));
    let (project, other) = (place.world.path("project"), place.world.path("other"));
    fs::rename(&project, &other).unwrap();
    std::os::unix::fs::symlink(&other, &project).unwrap();
    let done = place.work();
    let expect = format!(
        "directory /project of session {} now resolves to /other; workers do not follow moved directories",
        &session[..8]
    );
    assert!(done.stdout.contains(&expect), "{done:?}");
}

#[test]
fn pruning_removes_finished_jobs() {
    let place = Place::new(["Hello."]);
    names(&place.submit(&["Who are you?"]));
    place.work();
    std::thread::sleep(std::time::Duration::from_millis(5));
    let pruned = place.json(&["sessions", "prune", "--older-than", "1ms", "--json"]);
    assert_eq!(pruned["jobs"], 1, "{pruned}");
    assert_eq!(place.json(&["jobs", "--json"])["jobs"], json!([]));
}

#[test]
fn permissions_of_a_job_are_those_of_its_worker() {
    let place = Place::new([]);
    for typed in [&["--permission-mode", "plan"][..], &["--allow", "Bash"], &["--on-ask", "deny"]] {
        let done = place.submit(&[typed, &["Look."]].concat());
        assert_eq!((done.status, &*done.stdout), (2, ""), "{done:?}");
        assert!(done.stderr.contains("jobs have the permissions of the worker"), "{}", done.stderr);
    }
    assert_eq!(place.json(&["jobs", "--json"])["jobs"], json!([]));
}

#[test]
fn every_stored_event_of_a_job_names_the_mode_unconfined_of_its_worker() {
    let helper = "---\nname: helper\ndescription: Helps.\n---\nYou help.\n";
    for (mode, expect) in [("unconfined", json!("unconfined")), ("auto", Value::Null)] {
        let spawn = json!({ "subagent": "helper", "prompt": "Help." });
        let replies = [streamed_tool("", "spawn_subagent", &spawn), streamed("Helped.", "stop")];
        let server = Server::start(replies.into_iter().chain([streamed("Done.", "stop")]));
        let world = World::new().file(".claude/agents/helper.md", helper);
        let place = Place { world, server };
        let (_, session) = names(&place.submit(&["Look."]));
        let options = ["--exit-when-idle", "--permission-mode", mode];
        let done = place.world.run(&place.line("worker", &options));
        assert!(done.stdout.starts_with("completed "), "{done:?}");
        let follow = ["sessions", "follow", &session, "--json", "--after", "0"];
        let followed = place.world.run(&follow).stdout;
        let events: Vec<Value> = followed.lines().map(|it| it.parse().unwrap()).collect();
        assert!(events.iter().any(|it| !it["parent_agent_id"].is_null()), "{followed}");
        let modes: Vec<&Value> = events.iter().map(|it| &it["permission_mode"]).collect();
        assert_eq!(modes, vec![&expect; modes.len()], "{followed}");
    }
}

#[test]
fn a_job_waits_for_a_worker_with_its_labels_and_for_its_start() {
    let place = Place::new(["Hello."]);
    names(&place.submit(&["--needs", "gpu", "--needs", "zone=eu", "--priority", "-3", "Look."]));
    names(&place.submit(&["--at", "2999-01-01T00:00:00Z", "Later."]));
    let work = |labels: &[&str]| {
        let options = [&["--exit-when-idle"], labels].concat();
        place.world.run(&place.line("worker", &options)).stdout.lines().count()
    };
    assert_eq!(work(&["--label", "gpu"]), 0);
    let shown = place.world.run(&["jobs"]).stdout;
    let reasons: Vec<_> = shown.lines().filter_map(|it| it.rsplit("  ").next()).collect();
    assert_eq!(reasons, ["starts at 2999-01-01T00:00:00.000Z", "needs gpu,zone=eu"]);
    assert_eq!(work(&["--label", "gpu", "--label", "zone=eu"]), 1);
    let jobs = place.json(&["jobs", "--json"]);
    assert_eq!((&jobs["counts"]["completed"], &jobs["counts"]["queued"]), (&json!(1), &json!(1)));
    assert_eq!(jobs["jobs"][1]["job"]["needs"], json!(["gpu", "zone=eu"]));
    assert_eq!(jobs["jobs"][1]["job"]["priority"], -3);
}

#[test]
fn a_file_of_jobs_is_submitted_at_once_and_again_without_doubles() {
    let place = Place::new(["One.", "Two."]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.jsonl");
    let lines = [
        "{\"prompt\":\"First.\",\"id\":\"one\"}",
        "{\"prompt\":\"Second.\",\"id\":\"two\",\"needs\":[\"gpu\"]}",
    ];
    fs::write(&file, lines.join("\n")).unwrap();
    let submit = || place.submit(&["--bulk", file.to_str().unwrap(), "--needs", "cpu"]);
    let first = submit();
    let jobs: Vec<_> = first.stdout.lines().filter_map(|it| it.split(' ').next()).collect();
    assert_eq!((jobs, submit().stdout), (vec!["one", "two"], first.stdout.clone()), "{first:?}");
    let needs = |job: &Value| (job["job"]["id"].clone(), job["job"]["needs"].clone());
    let found = place.json(&["jobs", "--json"]);
    let found: Vec<_> = found["jobs"].as_array().unwrap().iter().map(needs).collect();
    assert_eq!(found, [(json!("two"), json!(["gpu"])), (json!("one"), json!(["cpu"]))]);
    fs::write(&file, "{\"prompt\":\"Third.\"}\n{}").unwrap();
    let refused = submit();
    assert_eq!((refused.status, refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.contains("line 2: missing field `prompt`"), "{refused:?}");
    assert_eq!(place.json(&["jobs", "--json"])["counts"]["queued"], 2);
}

#[test]
fn a_schedule_is_added_once_listed_and_removed() {
    let place = Place::new([]);
    let add = |options: &[&str]| {
        let model = ["-m", "openai-compatible/test", "--base-url", &place.server.url];
        place.world.run(&[&["jobs", "schedule", "add"], options, &model].concat())
    };
    let added = add(&["morning", "30 7 1 1 *", "Sum up.", "--needs", "gpu"]);
    assert!(added.stdout.ends_with("-01-01T07:30:00.000Z\n"), "{added:?}");
    let again = add(&["morning", "* * * * *", "Sum up."]);
    assert_eq!((again.status, again.stdout.as_str()), (2, ""));
    assert!(again.stderr.contains("schedule `morning` already exists"), "{again:?}");
    let wrong = add(&["other", "30 7 * * * *", "Sum up."]);
    assert_eq!(wrong.status, 2);
    assert!(wrong.stderr.contains("invalid cron pattern `30 7 * * * *`"), "{wrong:?}");
    let found = place.json(&["jobs", "schedule", "list", "--json"]);
    assert_eq!(found["schedules"].as_array().map(Vec::len), Some(1));
    let schedule = &found["schedules"][0];
    assert_eq!((&schedule["cron"], &schedule["needs"]), (&json!("30 7 1 1 *"), &json!(["gpu"])));
    assert_eq!(schedule["runs_in"], "fork");
    let row = place.world.run(&["jobs", "schedule", "list"]).stdout;
    assert!(
        row.starts_with("morning  30 7 1 1 *  next ") && row.ends_with("  new  Sum up.\n"),
        "{row}"
    );
    assert_eq!(place.world.run(&["jobs", "schedule", "remove", "morning"]).status, 0);
    let gone = place.world.run(&["jobs", "schedule", "remove", "morning"]);
    assert_eq!(gone.status, 2);
    assert!(gone.stderr.contains("unknown schedule `morning`"), "{gone:?}");
}

#[cfg(feature = "restate")]
#[test]
fn a_worker_of_restate_refuses_options_without_a_meaning_also_if_restate_is_configured() {
    let world = World::new().env("LOOPWRIGHT_RESTATE", "http://127.0.0.1:1");
    let place = Place { world, server: Server::start([]) };
    for (options, reason) in [
        (
            ["--label", "gpu"],
            "Restate at http://127.0.0.1:1 delivers jobs, so `--label` has no effect",
        ),
        (["--drain-timeout=1", "--exit-when-idle"], "so `--exit-when-idle` has no effect"),
        (["--restate-identity-key", "secret"], "invalid key `secret`; Restate logs its public key"),
    ] {
        let refused = place.world.run(&["worker", options[0], options[1]]);
        assert!(refused.status != 0 && refused.stderr.contains(reason), "{refused:?}");
    }
}

#[cfg(feature = "restate")]
#[test]
fn a_job_that_restate_does_not_accept_is_reported_and_recorded_for_later() {
    let world = World::new().env("LOOPWRIGHT_RESTATE", "http://127.0.0.1:1");
    let place = Place { world, server: Server::start([]) };
    let refused = place.submit(&["--id", "later", "Who are you?"]);
    let text = "Restate at http://127.0.0.1:1 did not respond; check the address, and that Restate is running";
    assert!(refused.status != 0 && refused.stderr.contains(text), "{refused:?}");
    let listed = place.json(&["jobs", "--json"]);
    let job = &listed["jobs"][0];
    assert_eq!((&job["job"]["id"], &job["status"]), (&json!("later"), &json!("queued")));
    assert_eq!(job["job"]["needs"], Value::Null);
    for (option, value) in [("--needs", "gpu"), ("--priority", "1")] {
        let refused = place.submit(&[option, value, "Who are you?"]);
        assert!(refused.stderr.contains("Restate does not"), "{refused:?}");
    }
    assert_eq!(place.json(&["jobs", "--json"])["counts"]["queued"], 1);
}

#[cfg(feature = "snapshots")]
#[test]
fn a_copy_of_a_folder_follows_its_session_to_every_worker() {
    let world = World::new().file("project/a.txt", "1\n");
    let write = json!({"path": "b.txt", "content": "2\n"});
    let server = Server::start([
        streamed_tool("", "write_file", &write),
        streamed("Written.", "stop"),
        streamed("Again.", "stop"),
    ]);
    let place = Place { world, server };
    let path = |name: &str| place.world.path(name).display().to_string();
    let (dirs, storage) = (path("dirs"), format!("file://{}", path("storage")));
    let copied = ["--session-dirs", &dirs, "--snapshots", &storage];
    let submit = [&["go"], &copied[..]].concat();
    let (_, session) = names(&place.submit(&submit));
    let work = || {
        let options = [&["--exit-when-idle"], &copied[..]].concat();
        let done = place.world.run(&place.line("worker", &options));
        assert_eq!(done.status, 0, "{done:?}");
        assert!(done.stdout.starts_with("completed"), "{done:?}");
    };
    work();
    assert!(place.world.path(&format!("dirs/{session}/b.txt")).exists());
    assert!(!place.world.path("project/b.txt").exists(), "the submitted folder does not change");
    // Another machine has no directory of the session.
    fs::remove_dir_all(place.world.path("dirs")).unwrap();
    names(&place.submit(&["-C", ".", "--session", &session, "And now?"]));
    work();
    assert!(place.world.path(&format!("dirs/{session}/b.txt")).exists());
    let fetch = ["sessions", "fetch", &session[..8], "../out", "--snapshots", &storage];
    let done = place.world.run(&fetch);
    assert_eq!(done.status, 0, "{done:?}");
    let read = |name: &str| fs::read_to_string(place.world.path(name)).unwrap();
    assert_eq!([read("out/a.txt"), read("out/b.txt")], ["1\n", "2\n"]);
    let again = place.world.run(&fetch);
    assert_eq!(again.status, 2, "{again:?}");
    assert!(again.stderr.contains("../out is not an empty folder; name another one"), "{again:?}");
    let kept = place.submit(&[&["--session", &session, "More."], &copied[..]].concat());
    assert_eq!(kept.status, 2, "{kept:?}");
    let up = path("project/../dirs");
    let refused = place.submit(&["go", "--session-dirs", &up, "--snapshots", &storage]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.stderr.contains("contains `..`"), "{refused:?}");
    // Only workers with the storage continue the session.
    let local = place.world.run(&place.line("run", &["-C", ".", "--resume", &session, "More."]));
    assert_eq!(local.status, 2, "{local:?}");
    assert!(local.stderr.contains("use `loopwright submit --session"), "{local:?}");
    let fork = place.world.run(&["sessions", "fork", &session]);
    assert_eq!(fork.status, 2, "{fork:?}");
    assert!(fork.stderr.contains("the session cannot be forked"), "{fork:?}");
}
