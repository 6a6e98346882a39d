//! Commands whose changes are collected, in runs that are killed and in those of sub-agents.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Place;
use crate::killed::{can_kill, traced};
use crate::server::{Reply, streamed, streamed_call, streamed_tool};
use crate::world::{World, mark, until_asleep};

/// A place with an agent that hands work to another one, which works with files.
pub(super) fn delegating(replies: impl IntoIterator<Item = Reply>) -> Place {
    delegating_in(World::new(), replies)
}

pub(super) fn delegating_in(world: World, replies: impl IntoIterator<Item = Reply>) -> Place {
    let lead =
        "name: lead\ndescription: Leads.\ncapabilities: [use_subagents]\nsystemPrompt: Lead.\n";
    let child = "name: child\ndescription: Works.\ntools: [bash, write_file, edit_file]\n\
                 systemPrompt: Work.\n";
    let world = world
        .file("project/.loopwright/agents/lead.yaml", lead)
        .file("project/.loopwright/agents/child.yaml", child);
    Place::within(world, replies)
}

pub(super) fn spawn() -> Reply {
    streamed_tool("", "spawn_subagent", &json!({ "subagent": "child", "prompt": "Work." }))
}

fn kill(process: u32) {
    Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap();
}

/// What the provider was told last.
fn told(place: &Place) -> String {
    std::iter::from_fn(|| place.server.taken()).last().unwrap()["messages"].to_string()
}

#[test]
fn a_command_of_a_sub_agent_that_was_killed_in_its_middle_is_run_again_when_its_parent_goes_on() {
    let mark = mark();
    let command = format!("echo made >> made; [ -e flag ] || sleep {mark}");
    let place = delegating([
        spawn(),
        streamed_call("", &command),
        streamed("Inner answer.", "stop"),
        streamed("Outer answer.", "stop"),
    ]);
    let mut child = place.world.start(&place.line(&["--agent", "lead", "go"]));
    until_asleep(&mark);
    kill(child.id());
    child.wait().unwrap();
    let made = place.world.path("project/made");
    assert!(!made.exists(), "nothing of it is real");
    fs::write(place.world.path("project/flag"), "").unwrap();
    let done = place.run(&["--continue"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Outer answer.\n"), "{}", done.stderr);
    assert_eq!(fs::read_to_string(made).unwrap(), "made\n");
    let told = told(&place);
    assert!(
        told.contains("Inner answer.") && !told.contains("interrupted after it started"),
        "{told}"
    );
}

#[test]
fn rewinding_a_turn_undoes_what_its_sub_agent_did_with_commands_and_file_tools() {
    let edit = json!({ "path": "made.txt", "old_string": "one", "new_string": "two" });
    let write = json!({ "path": "written", "content": "new" });
    let place = delegating([
        spawn(),
        streamed_call("", "echo one > made.txt; mkdir d; rm a.txt"),
        streamed_tool("", "edit_file", &edit),
        streamed_tool("", "write_file", &write),
        streamed_call("", "echo three >> made.txt; mv written d"),
        streamed("Inner answer.", "stop"),
        streamed("Outer answer.", "stop"),
    ]);
    let read = |name: &str| fs::read_to_string(place.world.path("project").join(name)).ok();
    let id = place.ran(&["--agent", "lead", "Go."]);
    let now = ["made.txt", "d/written", "a.txt"].map(read);
    assert_eq!(now, [Some("two\nthree\n".into()), Some("new".into()), None]);
    let done = place.sessions(&["rewind", "--files", &id, "0"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let now = ["made.txt", "d/written", "written", "a.txt"].map(read);
    assert_eq!(now, [None, None, None, Some("one\ntwo\n".into())]);
    assert!(!place.world.path("project/d").exists());
}

/// The process that `strace` has started.
fn traced_process(strace: &Child) -> u32 {
    let id = strace.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

fn until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_mins(1), "it does not come to be so");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process has ended, although its end may not have been noticed by its parent.
fn is_over(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status"));
    status.map_or(true, |status| status.contains("State:\tZ"))
}

/// A run that is killed when the changes of its command are real and no process has heard what came of it.
#[test]
fn a_command_that_was_applied_and_not_recorded_is_not_run_again_and_its_result_is_kept() {
    if !can_kill() {
        return;
    }
    let command = "echo made >> made; cat /proc/sys/kernel/random/uuid";
    let place = Place::new([streamed_call("", command), streamed("done", "stop")]);
    // Changes are made real by this call; after the first of them its thread waits to be killed.
    let options =
        ["-o", "/dev/null", "-e", "trace=renameat2", "-e", "inject=renameat2:delay_exit=60000000"];
    let mut command = traced(&place.world.command(&place.line(&["go"])), &options);
    let mut strace = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let made = place.world.path("project/made");
    until(|| made.exists());
    let process = traced_process(&strace);
    kill(process);
    // It would hold on to what is killed until the time has ended.
    strace.kill().unwrap();
    strace.wait().unwrap();
    until(|| is_over(process));
    assert_eq!(fs::read_to_string(&made).unwrap(), "made\n");
    place.server.request();
    let done = place.run(&["--continue"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "done\n"), "{}", done.stderr);
    assert_eq!(fs::read_to_string(&made).unwrap(), "made\n", "it ran once");
    let kept = kept_result(&place);
    let told: Value = serde_json::from_str(&told(&place)).unwrap();
    let last = told.as_array().unwrap().last().unwrap();
    let said = last["content"].as_str().unwrap();
    assert_eq!(said.len(), 36, "{said}");
    assert!(kept["content"].to_string().contains(said), "{kept}");
}

/// The result that is kept with the only transaction there was.
fn kept_result(place: &Place) -> Value {
    let kept = place.world.path(".local/state/loopwright/changes/kept");
    let records: Vec<_> = fs::read_dir(kept).unwrap().flatten().collect();
    let [record] = &records[..] else { panic!("{records:?}") };
    serde_json::from_slice(&fs::read(record.path().join("result")).unwrap()).unwrap()
}

#[test]
fn a_sub_agent_cannot_change_a_script_that_a_hook_runs() {
    let hook = json!({ "type": "command", "command": "sh ci/guard.sh" });
    let hooks = json!({ "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": [hook] }] } });
    let world = World::new()
        .file(".config/loopwright/hooks.json", &hooks.to_string())
        .file("project/ci/guard.sh", "exit 0\n");
    let write = json!({ "path": "ci/guard.sh", "content": "exit 2\n", "overwrite": true });
    let replies = [
        spawn(),
        streamed_tool("", "write_file", &write),
        streamed_call("", "echo exit 2 > ci/guard.sh"),
        streamed("Inner.", "stop"),
        streamed("Outer.", "stop"),
    ];
    let place = delegating_in(world, replies);
    let done = place.run(&["--agent", "lead", "Go."]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let script = fs::read_to_string(place.world.path("project/ci/guard.sh")).unwrap();
    assert_eq!((script.as_str(), place.server.heard().len()), ("exit 0\n", 5));
}
