//! Sessions whose folder was replaced by another one at the same path.

use serde_json::Value;

use crate::server::{Server, streamed, streamed_call};
use crate::world::{Done, World};

const CONFIG: &str = "[remote \"origin\"]\n\turl = https://git.example/a.git\n";

fn run(world: &World, server: &Server, options: &[&str]) -> Done {
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    let ask = ["--permission-mode", "ask", "--output-format", "json"];
    world.run(&[&model[..], &ask, options].concat())
}

fn id(done: &Done) -> String {
    let report: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    report["session_id"].as_str().unwrap().to_owned()
}

/// Moves the project away, and puts another repository in its place.
fn replace(world: World, config: &str) -> World {
    std::fs::rename(world.path("project"), world.path("old")).unwrap();
    world.file("project/a.txt", "of the other one").file("project/.git/config", config)
}

/// A world with a session whose call was approved but has not run.
fn approved(server: &Server) -> (World, String) {
    let world = World::new().file("project/.git/config", CONFIG);
    let paused = run(&world, server, &["Go."]);
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let id = id(&paused);
    let decided = world.run(&["sessions", "decide", &id, "approve"]);
    assert_eq!(decided.status, 0, "{}", decided.stderr);
    (world, id)
}

fn removing() -> Server {
    Server::start([streamed_call("", "rm a.txt"), streamed("Done.", "stop")])
}

#[test]
fn an_approved_call_runs_in_another_repository_at_the_path_only_if_the_folder_is_named() {
    let server = removing();
    let (world, id) = approved(&server);
    let world = replace(world, "");
    let refused = run(&world, &server, &["--resume", &id]);
    assert_eq!((refused.status, world.path("project/a.txt").exists()), (2, true));
    let told = "is not the folder in which session";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
    let remedy = format!("use `loopwright run --resume {} -C /project`", &id[..8]);
    assert!(refused.stderr.contains(&remedy), "{}", refused.stderr);
    assert!(!refused.stderr.contains("resume with"), "{}", refused.stderr);
    let named = run(&world, &server, &["--resume", &id, "-C", "."]);
    assert_eq!((named.status, world.path("project/a.txt").exists()), (0, false));
    assert!(named.stderr.contains(told), "{}", named.stderr);
}

#[test]
fn an_approved_call_runs_in_a_fresh_clone_of_the_same_repository() {
    let server = removing();
    let (world, id) = approved(&server);
    let world = replace(world, CONFIG);
    let resumed = run(&world, &server, &["--resume", &id]);
    assert_eq!((resumed.status, world.path("project/a.txt").exists()), (0, false));
    assert!(!resumed.stderr.contains("is not the folder in which session"), "{}", resumed.stderr);
}

#[test]
fn a_session_without_open_calls_continues_in_another_folder_with_one_warning() {
    let server = Server::start(["One.", "Two.", "Three."].map(|text| streamed(text, "stop")));
    let world = World::new();
    let id = id(&run(&world, &server, &["Go."]));
    let world = replace(world, "");
    let warned =
        |done: &Done| (done.status, done.stderr.contains("is not the folder in which session"));
    assert_eq!(warned(&run(&world, &server, &["--resume", &id, "Go."])), (0, true));
    assert_eq!(warned(&run(&world, &server, &["--resume", &id, "Go."])), (0, false));
}

/// Submits a job for a session, with a message or to continue it, and has a worker process it.
fn work(world: &World, server: &Server, id: &str, message: &[&str]) -> Done {
    let model = ["-m", "openai-compatible/test", "--base-url", &server.url];
    let submit = [&["submit", "--session", id], &model[..], message].concat();
    let submitted = world.run(&submit);
    assert_eq!(submitted.status, 0, "{submitted:?}");
    world.run(&[&["worker", "--exit-when-idle"], &model[..]].concat())
}

#[test]
fn a_worker_runs_no_approved_call_in_another_repository_at_the_path() {
    let server = removing();
    let (world, id) = approved(&server);
    let world = replace(world, "");
    let refused = work(&world, &server, &id, &[]);
    assert!(refused.stdout.starts_with("failed "), "{refused:?}");
    let told = "/project is not the folder in which session";
    assert!(refused.stdout.contains(told), "{refused:?}");
    assert!(world.path("project/a.txt").exists());
    let named = run(&world, &server, &["--resume", &id, "-C", "."]);
    assert_eq!((named.status, world.path("project/a.txt").exists()), (0, false), "{named:?}");
}

#[test]
fn a_worker_runs_an_approved_call_in_a_fresh_clone_of_the_same_repository() {
    let server = removing();
    let (world, id) = approved(&server);
    let world = replace(world, CONFIG);
    let worked = work(&world, &server, &id, &[]);
    assert!(worked.stdout.starts_with("completed "), "{worked:?}");
    assert!(!worked.stderr.contains("is not the folder"), "{worked:?}");
    assert!(!world.path("project/a.txt").exists());
}

#[test]
fn a_worker_continues_a_session_without_open_calls_in_another_folder_with_one_warning() {
    let server = Server::start(["One.", "Two.", "Three."].map(|text| streamed(text, "stop")));
    let world = World::new();
    let id = id(&run(&world, &server, &["Go."]));
    let world = replace(world, "");
    let warned = || {
        let done = work(&world, &server, &id, &["Go."]);
        assert!(done.stdout.starts_with("completed "), "{done:?}");
        done.stderr.contains("/project is not the folder in which session")
    };
    assert_eq!([warned(), warned()], [true, false]);
}
