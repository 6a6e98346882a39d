//! What the program keeps for its user, and where no agent works.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_call, streamed_tool};
use crate::world::{Done, World};

const MODEL: [&str; 4] = ["run", "-m", "openai-compatible/test", "--base-url"];

fn run(world: &World, replies: Vec<Reply>, options: &[&str]) -> (Done, Vec<String>) {
    let server = Server::start(replies);
    let done = world.run(&[&MODEL[..], &[&server.url], options, &["Go."]].concat());
    let requests = server.heard();
    let messages = requests.last().map_or(Value::Null, |(_, body)| body["messages"].clone());
    let results = messages.as_array().into_iter().flatten().filter(|it| it["role"] == "tool");
    (done, results.map(|it| it["content"].as_str().unwrap().to_owned()).collect())
}

/// The settings of a user, a session, and links to both.
fn world() -> World {
    let world = World::new()
        .file(".config/loopwright/folders.toml", "kept = {}\n")
        .file(".config/loopwright/agents/mine.md", "")
        .file(".local/state/loopwright/mcp/logins/a.json", "secret");
    symlink(world.path(".config/loopwright"), world.path("link")).unwrap();
    world
}

#[test]
fn no_agent_works_in_the_folders_of_the_program() {
    for folder in [
        ".config/loopwright",
        ".config/loopwright/agents",
        ".local/state/loopwright",
        ".local/state/loopwright/mcp",
        "link",
    ] {
        let world = world();
        let folder = world.path(folder);
        for option in ["-C", "--add-dir"] {
            let (done, _) = run(&world, Vec::new(), &[option, folder.to_str().unwrap()]);
            let text = "Loopwright keeps its settings and sessions there";
            assert_eq!((done.status, done.stderr.contains(text)), (2, true), "{}", done.stderr);
        }
    }
}

#[test]
fn tools_and_commands_in_a_folder_around_neither_read_nor_change_them() {
    for folder in [".config", ".local/state"] {
        let world = world();
        let (own, secret) = (world.path(folder).join("loopwright"), world.path("link/new.toml"));
        let file = if folder == ".config" { "folders.toml" } else { "mcp/logins/a.json" };
        let before = fs::read_to_string(own.join(file)).unwrap();
        let (path, place) = (own.join(file), world.path(folder));
        let write = json!({ "path": path, "content": "x", "overwrite": true });
        let create = json!({ "path": own.join("x/new"), "content": "x", "create_dirs": true });
        let commands = format!(
            "cd {}; cat loopwright/{file}; echo x > loopwright/{file}; rm -rf loopwright; \
             mv loopwright other; mkdir -p loopwright/x; touch made",
            place.display()
        );
        let replies = vec![
            streamed_tool("", "read_file", &json!({ "path": path })),
            streamed_tool("", "list_dir", &json!({ "path": own })),
            streamed_tool("", "grep", &json!({ "pattern": "kept|secret", "path": place })),
            streamed_tool("", "write_file", &write),
            streamed_tool("", "write_file", &create),
            streamed_call("", &commands),
            streamed("Done.", "stop"),
        ];
        let allow = ["--permission-mode", "accept-edits", "--allow", "Bash"];
        let options = [&["--add-dir", place.to_str().unwrap()][..], &allow].concat();
        let (done, results) = run(&world, replies, &options);
        assert_eq!(done.status, 0, "{}", done.stderr);
        let refused = "Loopwright keeps its settings and sessions there";
        assert!(results[0].contains(refused) && results[1].contains(refused), "{results:#?}");
        assert!(
            results.iter().all(|it| !it.contains("kept =") && !it.contains("secret")),
            "{results:#?}"
        );
        assert!(
            results[3].contains("protected") && results[4].contains("protected"),
            "{results:#?}"
        );
        assert_eq!(fs::read_to_string(own.join(file)).unwrap(), before);
        assert!(!own.join("x").exists() && !place.join("other").exists() && !secret.exists());
        assert!(place.join("made").exists(), "{results:#?}");
    }
}

#[test]
fn in_a_home_file_tools_do_not_read_them_and_commands_do_not_run() {
    let world = world();
    let replies = vec![
        streamed_tool("", "read_file", &json!({ "path": ".config/loopwright/folders.toml" })),
        streamed_tool("", "read_file", &json!({ "path": "link/folders.toml" })),
        streamed_call("", "echo x > .config/loopwright/folders.toml"),
        streamed("Done.", "stop"),
    ];
    let home = world.path("");
    let (done, results) = run(&world, replies, &["-C", home.to_str().unwrap(), "--allow", "Bash"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let refused = "Loopwright keeps its settings and sessions there";
    assert!(results[..2].iter().all(|it| it.contains(refused)), "{results:#?}");
    assert!(results[2].contains("more than a project"), "{results:#?}");
    assert_eq!(fs::read_to_string(world.path("link/folders.toml")).unwrap(), "kept = {}\n");
}

/// Replies that try to change a file of the project with a tool and a command, and to replace it and its folder.
fn changing(path: &str) -> Vec<Reply> {
    let write = json!({ "path": path, "content": "x", "overwrite": true });
    let (folder, _) = path.split_once('/').unwrap();
    let commands = format!(
        "echo x > {path}; rm -f {path}; touch n; mv -f n {path}; mv {folder} moved; \
         rm -rf {folder}; mkdir -p {folder}; echo x > {path}"
    );
    vec![
        streamed_tool("", "write_file", &write),
        streamed_call("", &commands),
        streamed("Done.", "stop"),
    ]
}

#[test]
fn the_configuration_file_that_was_named_is_read_and_not_changed() {
    for mode in ["auto", "unconfined"] {
        let world = World::new().file("project/set/mine.toml", "[limits]\nsteps = 9\n");
        let options = ["--config", "set/mine.toml", "--permission-mode", mode];
        let (done, results) = run(&world, changing("set/mine.toml"), &options);
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert!(results[0].contains("protected"), "{results:#?}");
        let text = fs::read_to_string(world.path("project/set/mine.toml"));
        assert_eq!(text.ok().as_deref(), Some("[limits]\nsteps = 9\n"), "{results:#?}");
    }
}

#[test]
fn what_links_of_the_settings_lead_to_is_not_changed() {
    for (name, target) in [
        ("hooks.json", "set/hooks.json"),
        ("mcp.json", "set/mcp.json"),
        ("folders.toml", "set/folders.toml"),
        ("agents", "set/agents"),
    ] {
        let world =
            World::new().file("project/set/folders.toml", "").file(".config/loopwright/a", "");
        let json = "{}";
        let world = world.file("project/set/hooks.json", json).file("project/set/mcp.json", json);
        let world = world.file("project/set/agents/a.md", "");
        symlink(world.path("project").join(target), world.path(".config/loopwright").join(name))
            .unwrap();
        let path = if name == "agents" { "set/agents/a.md" } else { target };
        let before = fs::read_to_string(world.path("project").join(path)).unwrap();
        let (done, results) =
            run(&world, changing(path), &["--permission-mode", "accept-edits", "--allow", "Bash"]);
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert!(results[0].contains("protected"), "{results:#?}");
        let after = fs::read_to_string(world.path("project").join(path));
        assert_eq!(after.ok(), Some(before), "{name} {results:#?}");
    }
}
