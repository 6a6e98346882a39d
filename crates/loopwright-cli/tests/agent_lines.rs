//! `/NAME TASK` for agents.

use serde_json::json;

use crate::prompt_line::{chatting, done, said};
use crate::server::{Server, streamed, streamed_tool};
use crate::terminal::Terminal;
use crate::world::World;

const AGENT: &str = "---\nname: helper-one\ndescription: Helps with one thing.\n---\nYou help.\n";

#[test]
fn tab_completes_agents_behind_skills_and_a_line_delegates_to_one() {
    let spawn = json!({ "subagent": "helper-one", "prompt": "see a.txt" });
    let replies = [
        streamed_tool("", "spawn_subagent", &spawn),
        streamed("Seen.", "stop"),
        streamed("Reported.", "stop"),
    ];
    let server = Server::start(replies);
    let world = chatting(&server)
        .file(".claude/agents/helper-one.md", AGENT)
        .file(".claude/commands/help-me.md", "Help me.\n");
    let terminal = Terminal::new(80)
        .editing("/help for help", "/helper\t")
        .pressing("/helper-one", "see a.txt\r")
        .typing("Reported.", "/helper-one")
        .typing("write its task after the name", "/quit");
    let seen = done(terminal.run(&world, &[]));
    let requests = server.heard();
    assert_eq!(requests.len(), 3, "{}", seen.text());
    let asked = "<user_command>/helper-one see a.txt</user_command>\n\nCall `spawn_subagent` with the sub-agent \
                 `helper-one` and this prompt: see a.txt\n\nThen report its result.";
    assert_eq!(said(&requests[0].1), [asked]);
    assert!(requests[1].1["messages"].to_string().contains("You help."), "{}", requests[1].1);
}

#[test]
fn a_skill_comes_before_an_agent_of_its_name_and_a_denied_agent_is_not_started() {
    let asked = |world: World, options: &[&str]| {
        let server = Server::start([streamed("Done.", "stop")]);
        let line = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
        let done = world.run(&[&line[..], options, &["/helper-one go"]].concat());
        (said(&server.request()).concat(), done.stderr)
    };
    let world = || World::new().file(".claude/agents/helper-one.md", AGENT);
    let skill = world().file(".claude/commands/helper-one.md", "Just help.\n");
    let (text, _) = asked(skill, &[]);
    assert!(text.contains("Just help.") && !text.contains("spawn_subagent"), "{text}");
    let (text, told) = asked(world(), &["--deny", "Agent(helper-one)"]);
    assert_eq!(text, "/helper-one go");
    let reason = "the agent of this run cannot start agent `helper-one`";
    assert!(told.contains(reason), "{told}");
}
