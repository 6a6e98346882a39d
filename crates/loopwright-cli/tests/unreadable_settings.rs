//! Settings of a project that cannot be read restrict every run that they are for.

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_call, streamed_tool};
use crate::world::World;

const SETTINGS: &str = "project/.claude/settings.json";
const HELPER: &str = "---\nname: helper\ndescription: D.\ntools: Bash\n---\n\nGo.\n";

/// What stands in place of readable settings.
#[derive(Clone, Copy, Debug)]
enum Place {
    Text(&'static str),
    Folder,
}

/// The settings, and whether they can be read.
const PLACES: [(Place, bool); 4] = [
    (Place::Text("{ \"permissions\": { \"deny\": []"), false),
    (Place::Text(""), false),
    (Place::Folder, false),
    (Place::Text("{}"), true),
];

fn put(world: World, place: Place) -> World {
    match place {
        Place::Text(text) => world.file(SETTINGS, text),
        Place::Folder => {
            std::fs::create_dir_all(world.path(SETTINGS)).unwrap();
            world
        }
    }
}

fn world() -> World {
    World::new().file("project/.claude/agents/helper.md", HELPER)
}

/// Runs, and returns whether the command ran.
fn ran(world: &World, replies: impl IntoIterator<Item = Reply>, line: &[&str]) -> bool {
    let server = Server::start(replies);
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    let done = world.run(&[&model[..], &["--on-ask", "deny"], line].concat());
    // With 8, a run ends whose work was denied.
    assert!([0, 8].contains(&done.status), "{done:?}");
    world.path("project/ran.txt").exists()
}

fn command() -> Reply {
    streamed_call("", "echo ran > ran.txt")
}

fn said(text: &str) -> Reply {
    streamed(text, "stop")
}

/// Lets a sub-agent run the command, and returns whether it ran. If the call that starts the sub-agent asks, it is approved.
fn ran_by_sub_agent(place: Place) -> bool {
    let world = put(world(), place);
    let spawn = json!({ "subagent": "helper", "prompt": "Run it." });
    let delegated = [streamed_tool("", "spawn_subagent", &spawn), command()];
    let server = Server::start(delegated.into_iter().chain(["Ran.", "Done."].map(said)));
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    let run = |line| world.run(&[&model[..], &[line]].concat());
    let started = run("Go.");
    if started.status == 9 {
        let listed: Value = world.run(&["sessions", "list", "--json"]).stdout.parse().unwrap();
        let id = listed["sessions"][0]["id"].as_str().unwrap();
        let decided = world.run(&["sessions", "decide", id, "approve"]);
        assert_eq!(decided.status, 0, "{}", decided.stderr);
        let asked = run("--continue");
        assert_eq!(asked.status, 9, "{}", asked.stderr);
        assert!(asked.stderr.contains("of helper"), "{}", asked.stderr);
    }
    world.path("project/ran.txt").exists()
}

#[test]
fn a_run_a_continued_run_and_a_sub_agent_ask_where_settings_cannot_be_read() {
    for (place, is_readable) in PLACES {
        let begun = put(world(), place);
        let in_run = ran(&begun, [command(), said("Done.")], &["Go."]);
        let continued = world();
        assert!(!ran(&continued, [said("Hello.")], &["Hello."]));
        let continued = put(continued, place);
        let in_continued = ran(&continued, [command(), said("Done.")], &["--continue", "Go."]);
        let in_sub_agent = ran_by_sub_agent(place);
        assert_eq!([in_run, in_continued, in_sub_agent], [is_readable; 3], "{place:?}");
    }
}
