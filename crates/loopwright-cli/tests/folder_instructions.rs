//! `AGENTS.md` and `CLAUDE.md` of folders below the working directory.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_tool};
use crate::world::{Done, World};

const HEAD: &str =
    "[instructions] The project gives agents the following instructions for files in";

fn read(path: &str) -> Reply {
    streamed_tool("", "read_file", &json!({ "path": path }))
}

/// Runs a task, and returns the folders whose instructions each result of a tool in the last request has, with the names of
/// the files.
fn told(world: &World, options: &[&str], replies: Vec<Reply>) -> (Done, Vec<Vec<String>>) {
    let (done, requests) = run(world, options, replies);
    let told = requests.last().map(results).unwrap_or_default();
    (done, told)
}

fn run(world: &World, options: &[&str], replies: Vec<Reply>) -> (Done, Vec<Value>) {
    let server = Server::start(replies);
    let line = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    let done = world.run(&[&line[..], options, &["Go."]].concat());
    (done, server.heard().into_iter().map(|(_, body)| body).collect())
}

fn results(request: &Value) -> Vec<Vec<String>> {
    let messages = request["messages"].as_array().unwrap();
    let results = messages.iter().filter(|it| it["role"] == "tool");
    results.map(|it| files(&it["content"])).collect()
}

/// Returns the names of the files whose instructions stand in a result.
fn files(content: &Value) -> Vec<String> {
    let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
    let Some((_, told)) = text.split_once(HEAD) else { return Vec::new() };
    let named = told.lines().filter_map(|it| it.strip_prefix("From ")?.strip_suffix(':'));
    named.map(|it| it.split("/project/").nth(1).unwrap_or(it).to_owned()).collect()
}

fn done() -> Reply {
    streamed("Done.", "stop")
}

fn world() -> World {
    World::new()
        .file("project/AGENTS.md", "Root.")
        .file("project/web/AGENTS.md", "Web.")
        .file("project/web/a.txt", "a")
        .file("project/web/src/CLAUDE.md", "See @more.md for more.")
        .file("project/web/src/more.md", "More.")
        .file("project/web/src/b.txt", "b")
}

#[test]
fn instructions_of_a_folder_follow_the_first_use_of_a_file_there_once_in_a_session() {
    let world = world();
    let write = json!({ "path": "web/src/new.txt", "content": "new" });
    let replies = vec![
        read("a.txt"),
        read("web/a.txt"),
        read("web/a.txt"),
        streamed_tool("", "write_file", &write),
        read("web/src/b.txt"),
        done(),
    ];
    let (ended, first) = told(&world, &[], replies);
    let of_src = vec!["web/src/more.md".to_owned(), "web/src/CLAUDE.md".to_owned()];
    let expect = vec![vec![], vec!["web/AGENTS.md".to_owned()], vec![], of_src, vec![]];
    assert_eq!((ended.status, &first), (0, &expect), "{}", ended.stderr);
    let (ended, both) = told(&world, &["--continue"], vec![read("web/src/b.txt"), done()]);
    let expect = [expect, vec![vec![]]].concat();
    assert_eq!((ended.status, both), (0, expect), "{}", ended.stderr);
}

#[test]
fn the_beginning_of_the_conversation_stays_as_it_was() {
    let (_, requests) = run(&world(), &[], vec![read("web/a.txt"), read("a.txt"), done()]);
    let messages = |at: usize| requests[at]["messages"].as_array().unwrap().clone();
    for at in 1..requests.len() {
        let before = messages(at - 1);
        assert_eq!(messages(at)[..before.len()], before[..]);
    }
}

#[test]
fn calls_of_one_step_bring_the_instructions_once() {
    let call = |at: u32, path: &str| {
        json!({
            "index": at, "id": format!("call_{at}"), "type": "function",
            "function": { "name": "read_file", "arguments": json!({ "path": path }).to_string() },
        })
    };
    let calls = json!({ "tool_calls": [call(0, "web/a.txt"), call(1, "web/a.txt")] });
    let pieces = vec![crate::server::delta(calls), crate::server::last("tool_calls")];
    let (_, told) = told(&world(), &[], vec![Reply::Stream(pieces), done()]);
    assert_eq!(told.concat(), ["web/AGENTS.md"]);
}

#[test]
fn a_sub_agent_receives_them_as_well() {
    let helper = "---\nname: helper\ndescription: Helps.\n---\nYou help.\n";
    let world = world().file(".claude/agents/helper.md", helper);
    let spawn = json!({ "subagent": "helper", "prompt": "Read it." });
    let replies = vec![
        read("web/a.txt"),
        streamed_tool("", "spawn_subagent", &spawn),
        read("web/a.txt"),
        streamed("Read.", "stop"),
        done(),
    ];
    let (ended, requests) = run(&world, &[], replies);
    assert_eq!((ended.status, requests.len()), (0, 5), "{}", ended.stderr);
    assert_eq!(results(&requests[3]), [["web/AGENTS.md"]]);
}

#[test]
fn files_that_are_not_the_project_s_and_denied_ones_tell_nothing() {
    let world = world()
        .file("project/.gitignore", "out/\nCLAUDE.local.md\n")
        .file("project/web/src/CLAUDE.local.md", "Mine.")
        .file("project/out/AGENTS.md", "Out.")
        .file("project/out/a.txt", "a")
        .file("project/node_modules/x/AGENTS.md", "X.")
        .file("project/node_modules/x/a.txt", "a")
        .file("elsewhere/AGENTS.md", "Elsewhere.")
        .file("project/linked/a.txt", "a");
    symlink(world.path("elsewhere/AGENTS.md"), world.path("project/linked/AGENTS.md")).unwrap();
    let paths = ["out/a.txt", "node_modules/x/a.txt", "linked/a.txt", "web/src/b.txt"];
    let replies = || paths.into_iter().map(read).chain([done()]).collect::<Vec<_>>();
    let (ended, told_files) = told(&world, &["--deny", "Read(web/AGENTS.md)"], replies());
    let of_src = ["more.md", "CLAUDE.md", "CLAUDE.local.md"];
    let of_src = of_src.map(|name| format!("web/src/{name}")).to_vec();
    assert_eq!(told_files, [vec![], vec![], vec![], of_src], "{}", ended.stderr);
    for option in ["--no-agents-md", "--bare"] {
        let (ended, none) = told(&world, &[option], replies());
        assert_eq!(none.concat(), Vec::<String>::new(), "{option}: {}", ended.stderr);
    }
}

/// A project whose files lead to a secret in each way that a file with instructions has.
fn leading_to_secrets() -> World {
    let world = World::new()
        .file("secret.md", "sesame")
        .file("elsewhere/AGENTS.md", "sesame")
        .file("elsewhere/a.txt", "a")
        .file("project/keys/denied.md", "sesame")
        .file("project/keys/hidden.md", "sesame")
        .file("project/keys/a.txt", "a")
        .file("project/loopwright.toml", "[sandbox]\nhide = [\"keys/hidden.md\"]\n")
        .file(
            "project/web/AGENTS.md",
            "Web. @../docs/more.md @../../secret.md @~/secret.md @/secret.md @out.md",
        )
        .file("project/docs/more.md", "More. @../keys/denied.md and @../keys/hidden.md")
        .file("project/web/a.txt", "a")
        .file("project/denied/a.txt", "a")
        .file("project/hidden/a.txt", "a")
        .file("project/rules/a.txt", "a");
    let link = |target: &str, at: &str| {
        let at = world.path(at);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(target, at).unwrap();
    };
    link("../../secret.md", "project/web/out.md");
    link("../keys/denied.md", "project/denied/AGENTS.md");
    link("../keys/hidden.md", "project/hidden/CLAUDE.md");
    link("../../../elsewhere", "project/rules/.claude/rules");
    link("../elsewhere", "project/far");
    world
}

#[test]
fn instructions_of_an_untrusted_project_tell_its_own_files_alone() {
    let world = leading_to_secrets();
    let paths = ["web/a.txt", "denied/a.txt", "hidden/a.txt", "rules/a.txt", "far/a.txt"];
    let replies = paths.into_iter().map(read).chain([done()]).collect();
    let (ended, requests) = run(&world, &["--deny", "Read(keys/denied.md)"], replies);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let told = requests.last().map(results).unwrap_or_default();
    let own = ["web/../docs/more.md", "web/AGENTS.md"].map(str::to_owned).to_vec();
    assert_eq!(told, [own, vec![], vec![], vec![], vec![]], "{}", ended.stderr);
    let heard: String = requests.iter().map(Value::to_string).collect();
    assert!(!heard.contains("sesame"), "{heard}");
}

#[test]
fn instructions_at_the_root_of_a_project_are_no_way_around_rules_and_hidden_paths() {
    for (name, target) in [("AGENTS.md", "keys/denied.md"), ("CLAUDE.md", "keys/hidden.md")] {
        let heard = |options: &[&str], is_hidden: bool| {
            let world = leading_to_secrets();
            let world = if is_hidden { world } else { world.file("project/loopwright.toml", "") };
            symlink(target, world.path("project").join(name)).unwrap();
            let (ended, requests) = run(&world, options, vec![done()]);
            assert_eq!(ended.status, 0, "{}", ended.stderr);
            requests[0].to_string().contains("sesame")
        };
        assert_eq!(
            (heard(&["--deny", "Read(keys/denied.md)"], true), heard(&[], false)),
            (false, true),
            "{name}"
        );
    }
}
