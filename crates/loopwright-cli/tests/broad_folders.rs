//! Folders that hold more than a project: file tools and commands change nothing in them, and read no keys.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::server::{Reply, Server, streamed, streamed_call, streamed_tool};
use crate::world::{Done, World};

/// The file that calls try to create in a folder.
const NEW: &str = "loopwright-broad-test";

/// A home with a key, a program's settings, an agent that can be spawned, and a project.
fn world() -> World {
    let helper = "---\nname: helper\ndescription: Helps.\n---\n\nHelp.\n";
    World::new()
        .file(".ssh/id", "HOME KEY 7Q\n")
        .file(".config/app/settings", "old\n")
        .file(".config/loopwright/agents/helper.md", helper)
        .file("note.txt", "old\n")
}

/// Runs a command of the program whose model is a server.
fn run(world: &World, server: &Server, command: &str, options: &[&str]) -> Done {
    let model = [command, "-m", "openai-compatible/test", "--base-url", &server.url];
    world.run(&[&model[..], options].concat())
}

/// Calls that create and change a file of a folder, run a command in it, and read and find keys.
fn calls(folder: &Path, file: &str, key: &Path) -> Vec<Reply> {
    let new = json!({ "path": folder.join(NEW), "content": "x" });
    let deep =
        json!({ "path": folder.join(NEW).join("deep"), "content": "x", "create_dirs": true });
    let edit = json!({ "path": folder.join(file), "old_string": "old", "new_string": "new" });
    vec![
        streamed_tool("", "write_file", &new),
        streamed_tool("", "write_file", &deep),
        streamed_tool("", "edit_file", &edit),
        streamed_call("", &format!("touch {NEW}; cat {}", key.display())),
        streamed_tool("", "read_file", &json!({ "path": key })),
        streamed_tool("", "grep", &json!({ "pattern": "HOME KEY 7Q" })),
        streamed("Done.", "stop"),
    ]
}

/// Runs a line of the program in a folder, and returns the results of the last calls of the agent that makes the calls.
fn results(world: &World, folder: &Path, options: &[&str], in_child: bool) -> (Done, Vec<String>) {
    let file = if folder.ends_with("app") { "settings" } else { "note.txt" };
    let key = if folder.starts_with("/etc") { "/etc/shadow".into() } else { world.path(".ssh/id") };
    let mut replies = calls(folder, file, &key);
    if in_child {
        let spawn = json!({ "subagent": "helper", "prompt": "Change it." });
        replies.insert(0, streamed_tool("", "spawn_subagent", &spawn));
        replies.push(streamed("All done.", "stop"));
    }
    let server = Server::start(replies);
    let place = ["-C", folder.to_str().unwrap(), "Go."];
    let done = run(world, &server, "run", &[&place[..], options].concat());
    (done, told(&server, if in_child { 2 } else { 1 }))
}

/// Returns the results of tools in one of the requests, counted from the last.
fn told(server: &Server, from_the_end: usize) -> Vec<String> {
    let requests = server.heard();
    let (_, request) = &requests[requests.len() - from_the_end];
    let messages = request["messages"].as_array().unwrap().iter();
    let told = messages.filter(|it| it["role"] == "tool");
    told.map(|it| it["content"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn in_a_broad_folder_no_tool_changes_a_file_or_reads_a_key() {
    let reasons = [
        ("", "contains more than a project"),
        (".config/app", "is inside a hidden folder in the home directory"),
        (".ssh", "is inside a hidden folder in the home directory"),
        ("/etc", "contains more than a project"),
        ("/etc/ssl", "is inside a system folder"),
    ];
    let modes = [("auto", false), ("auto", true), ("unconfined", false)];
    for ((name, reason), (mode, in_child)) in
        reasons.iter().flat_map(|it| modes.map(|mode| (*it, mode)))
    {
        let world = world();
        let folder = world.path(name);
        let folder = Path::new(folder.to_str().unwrap().trim_end_matches('/'));
        let allow = ["--permission-mode", mode, "--allow", "Bash"];
        let (done, told) = results(&world, folder, &allow, in_child);
        let case = format!("{name} {mode} {in_child}: {}\n{told:#?}", done.stderr);
        assert_eq!(done.status, 0, "{case}");
        let remedy = "choose one with `-C FOLDER`, or add a folder with `--add-dir FOLDER`";
        assert!(done.stderr.contains(reason) && done.stderr.contains(remedy), "{case}");
        assert!(told[..2].iter().all(|it| it.contains(reason) && it.contains(remedy)), "{case}");
        // A folder of keys is hidden from commands, which is said first.
        let (why, instead) = match name {
            ".ssh" => ("is hidden from them", "choose another folder"),
            _ => (reason, "`-C FOLDER`"),
        };
        assert!(told[3].contains(why) && told[3].contains(instead), "{case}");
        assert!(
            told.iter().all(|it| !it.contains("HOME KEY 7Q") || it.contains("No match")),
            "{case}"
        );
        assert!(!folder.join(NEW).exists(), "{case}");
        for file in ["note.txt", ".config/app/settings"] {
            assert_eq!(fs::read_to_string(world.path(file)).unwrap(), "old\n", "{case}");
        }
    }
}

#[test]
fn in_a_home_a_key_is_named_as_the_reason_and_other_files_are_read() {
    let world = world();
    let read = |path: &str| streamed_tool("", "read_file", &json!({ "path": path }));
    let server =
        Server::start([read(".ssh/id"), read(".config/app/settings"), streamed("Done.", "stop")]);
    let home = world.path("");
    let done = run(&world, &server, "run", &["-C", home.to_str().unwrap(), "Go."]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let told = told(&server, 1);
    assert!(told[0].contains("`.ssh/id` is not permitted (it contains keys"), "{told:#?}");
    assert!(told[1].contains("     1\told"), "{told:#?}");
}

#[test]
fn in_a_folder_that_the_user_adds_file_tools_change_files_also_from_a_broad_folder() {
    // Where the run starts, and the folder that it adds.
    for (start, added) in [("", "project"), ("project", ".config/app")] {
        let world = world();
        let new = world.path(added).join(NEW);
        let write = json!({ "path": new, "content": "x" });
        let replies = vec![streamed_tool("", "write_file", &write), streamed("Done.", "stop")];
        let server = Server::start(replies);
        let (start, added) = (world.path(start), world.path(added));
        let folders = [
            ["-C", start.to_str().unwrap()],
            ["--add-dir", added.to_str().unwrap()],
            ["--permission-mode", "accept-edits"],
        ];
        let folders = [folders.as_flattened(), &["Go."]].concat();
        let done = run(&world, &server, "run", &folders);
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert_eq!(fs::read_to_string(new).ok().as_deref(), Some("x"), "{}", done.stderr);
    }
}

#[test]
fn a_folder_of_keys_cannot_be_added() {
    let world = world().file(".ssh/sub/id", "");
    let server = Server::start(Vec::new());
    for folder in ["../.ssh", "../.ssh/sub", "/proc/self"] {
        let done = run(&world, &server, "run", &["--add-dir", folder, "Go."]);
        let refused = done.stderr.contains("it contains keys or credentials");
        assert_eq!((done.status, refused), (2, true), "{folder}: {}", done.stderr);
    }
    assert!(!server.was_asked());
}

#[test]
fn a_worker_does_not_work_in_a_broad_folder_that_its_roots_include() {
    let world = world();
    let server = Server::start(Vec::new());
    for name in ["", ".config/app", "/etc", "/etc/ssl"] {
        let folder = world.path(name);
        let folder = folder.to_str().unwrap();
        assert_eq!(run(&world, &server, "submit", &["-C", folder, "Go."]).status, 0, "{name}");
        let done = run(&world, &server, "worker", &["--exit-when-idle", "--root", folder]);
        assert!(
            done.stdout.starts_with("failed ") && done.stdout.contains("is too broad for a worker"),
            "{name}: {done:?}"
        );
    }
    assert!(!server.was_asked());
}
