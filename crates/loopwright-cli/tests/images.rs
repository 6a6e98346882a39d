//! Images and documents that the user attaches, and those that the agent reads.

use std::fs;

use serde_json::{Value, json};

use crate::server::{Server, streamed, streamed_tool};
use crate::world::{Done, World};

pub(crate) const PNG: &[u8] = b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00\x3a\x7e\x9b\x55\x00\x00\x00\x0a\x49\x44\x41\x54\x78\x9c\x63\x60\x00\x00\x00\x02\x00\x01\x48\xaf\xa4\x71\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

/// A project with an image, a document and a text.
fn world() -> World {
    let world = World::new();
    fs::write(world.path("project/a.png"), PNG).unwrap();
    fs::write(world.path("project/b.pdf"), b"%PDF-1.7").unwrap();
    world
}

/// A world in which it is known that the model cannot see.
fn blind() -> World {
    let config = "[models.\"openai-compatible/test\"]\ncapabilities = [\"tools\"]\n";
    world().file(".config/loopwright/config.toml", config)
}

fn run(world: &World, server: &Server, options: &[&str]) -> Done {
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    world.run(&[&model, options, &["What is it?"]].concat())
}

pub(crate) fn image() -> Value {
    json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="}})
}

#[test]
fn images_and_documents_are_sent_with_the_prompt() {
    for session in [&[][..], &["--no-session"]] {
        let server = Server::start([streamed("A dot.", "stop")]);
        let options = [&["--image", "a.png", "--image", "b.pdf"], session].concat();
        let done = run(&world(), &server, &options);
        assert_eq!(done.status, 0, "{}", done.stderr);
        let content = server.request()["messages"][1]["content"].clone();
        assert_eq!(content[0], json!({"type": "text", "text": "What is it?"}));
        assert_eq!(content[1], image());
        assert_eq!(content[2]["type"], "file", "{content}");
        assert!(
            content[2].to_string().contains("application/pdf;base64,JVBERi0xLjc="),
            "{content}"
        );
    }
}

#[test]
fn a_model_that_cannot_see_is_told_so_and_so_is_the_user() {
    let server = Server::start([streamed("I cannot see it.", "stop")]);
    let done = run(&blind(), &server, &["--image", "a.png", "--image", "b.pdf"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let content = server.request()["messages"][1]["content"].to_string();
    for what in ["image", "document"] {
        let told = format!("[{what}: omitted, because this model does not accept {what}s]");
        assert!(content.contains(&told), "{content}");
        let told = format!("openai-compatible/test does not accept {what}s");
        assert!(done.stderr.contains(&told), "{}", done.stderr);
    }
    assert!(!content.contains("base64"), "{content}");
}

#[test]
fn an_image_of_an_earlier_turn_that_the_model_cannot_see_is_a_warning() {
    let replies = ["A dot.", "I cannot see it."].map(|it| streamed(it, "stop"));
    let server = Server::start(replies);
    let world = world();
    let seen = run(&world, &server, &["--image", "a.png"]);
    assert_eq!((seen.status, seen.stderr.contains("does not accept")), (0, false), "{seen:?}");
    let config = "[models.\"openai-compatible/test\"]\ncapabilities = [\"tools\"]\n";
    let world = world.file(".config/loopwright/config.toml", config);
    let blind = run(&world, &server, &["--continue"]);
    let told = "openai-compatible/test does not accept images; they are omitted";
    assert_eq!((blind.status, blind.stderr.matches(told).count()), (0, 1), "{}", blind.stderr);
}

#[test]
fn what_the_agent_reads_is_shown_to_models_that_can_see() {
    let read = |world: &World| {
        let call = streamed_tool("", "read_file", &json!({"path": "a.png"}));
        let server = Server::start([call, streamed("A dot.", "stop")]);
        let done = run(world, &server, &[]);
        assert_eq!(done.status, 0, "{}", done.stderr);
        let _first = server.request();
        server.request()["messages"].to_string()
    };
    let (seen, blind) = (read(&world()), read(&blind()));
    assert!(seen.contains("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="), "{seen}");
    assert!(blind.contains("[image: omitted, because this model"), "{blind}");
    assert!(!blind.contains("base64"), "{blind}");
}

#[test]
fn a_file_that_is_neither_image_nor_document_is_refused_before_the_run() {
    for (file, told) in [("a.txt", "neither an image"), ("c.png", "cannot read c.png")] {
        let server = Server::start([]);
        let done = run(&world(), &server, &["--image", file]);
        assert_eq!(done.status, 2, "{}", done.stderr);
        assert!(done.stderr.contains(told), "{}", done.stderr);
        assert!(!server.was_asked());
    }
}

#[test]
fn an_image_that_is_named_in_chat_is_attached() {
    let server = Server::start([streamed("A dot.", "stop")]);
    let line = ["chat", "-m", "openai-compatible/test", "--base-url", &server.url];
    let done = world().run_with(&line, "What is @a.png?\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    let content = server.request()["messages"][1]["content"].clone();
    assert_eq!(content, json!([{"type": "text", "text": "What is @a.png?"}, image()]));
    assert!(done.stderr.contains("attached: a.png"), "{}", done.stderr);
}

#[test]
fn a_truncated_image_is_named_with_the_reason_and_the_run_goes_on() {
    let reason = "the PNG image is truncated: its end is missing";
    let broken = || {
        let world = world();
        fs::write(world.path("project/t.png"), &PNG[..40]).unwrap();
        world
    };
    let server = Server::start([]);
    let done = run(&broken(), &server, &["--image", "t.png"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(done.stderr.contains("cannot attach t.png"), "{}", done.stderr);
    assert!(done.stderr.contains(reason), "{}", done.stderr);
    let call = streamed_tool("", "read_file", &json!({"path": "t.png"}));
    let server = Server::start([call, streamed("I see.", "stop")]);
    let done = run(&broken(), &server, &[]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let told = server.heard().pop().unwrap().1["messages"].to_string();
    assert!(told.contains(&format!("`t.png` cannot be shown as an image: {reason}")), "{told}");
    let server = Server::start([streamed("I see.", "stop")]);
    let line = ["chat", "-m", "openai-compatible/test", "--base-url", &server.url];
    let done = broken().run_with(&line, "What is @t.png?\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stderr.contains("t.png was not attached"), "{}", done.stderr);
    assert!(done.stderr.contains(reason), "{}", done.stderr);
}
