//! `acp`, as an editor uses it: messages by hand over pipes.

mod editor;
mod offers;

use std::fs;

use serde_json::{Value, json};

use self::editor::{Editor, text_of};
use crate::server::{Reply, Server, delta, error, nowhere, streamed, streamed_call, streamed_tool};
use crate::world::{World, lonely};

const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

fn write(text: &str) -> Reply {
    streamed_tool("Writing. ", "write_file", &json!({"path": "new.txt", "content": text}))
}

fn prompt(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

#[test]
fn a_session_begun_in_an_editor_goes_on_in_the_terminal() {
    let (world, server) =
        (World::new(), Server::start([streamed("hello", "stop"), streamed("again", "stop")]));
    let mut editor = Editor::start(&world, &server, &[]);
    let session = editor.new_session(&world);
    assert_eq!(world.run(&["sessions", "list"]).stdout, "", "nothing is kept before a prompt");
    let ended = editor.prompt(&session, &prompt("Greet me"));
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert_eq!(text_of(&editor.updates, "agent_message_chunk"), "hello");
    let usage = editor.only("usage_update");
    assert_eq!(usage["used"], 60, "{usage}");
    assert_eq!(editor.only("session_info_update")["title"], "Greet me");
    assert_eq!(editor.leave(), 0);
    let model = ["-m", "openai-compatible/test", "--base-url", &server.url];
    let line = [&["chat", "--resume", session.as_str()][..], &model].concat();
    let done = world.run_with(&line, "Once more\n");
    assert_eq!((done.status, done.stdout.as_str()), (0, "again\n"), "{}", done.stderr);
    drop(server.request());
    assert!(server.request()["messages"].to_string().contains("Greet me"));
}

#[test]
fn a_prompt_without_text_is_refused_in_words_for_an_editor() {
    let (world, server) = (World::new(), Server::start([streamed("hello", "stop")]));
    let mut editor = Editor::start(&world, &server, &[]);
    let session = editor.new_session(&world);
    let refused = |text: &str| json!({"code": -32602, "message": text});
    let first = editor.prompt(&session, &prompt(""));
    assert_eq!(first["error"], refused("the prompt is empty"));
    editor.prompt(&session, &prompt("Greet me"));
    for text in ["", "/continue"] {
        let ended = editor.prompt(&session, &prompt(text));
        let told = "the session has no unfinished work to continue; write a message";
        assert_eq!(ended["error"], refused(told), "{text}");
    }
}

#[test]
fn a_change_waits_for_the_permission_and_is_shown_as_a_diff() {
    let replies =
        [write("1\n"), streamed("Done.", "stop"), write("2\n"), streamed("Kept.", "stop")];
    let (world, server) = (World::new(), Server::start(replies));
    let mut editor = Editor::start(&world, &server, &["--permission-mode", "ask"]);
    let session = editor.new_session(&world);
    let file = world.path("project/new.txt");
    editor.answer("allow");
    let ended = editor.prompt(&session, &prompt("Write it"));
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "1\n");
    let asked = editor.asked.remove(0);
    let diff = json!({"type": "diff", "path": file, "oldText": "", "newText": "1\n"});
    assert_eq!(asked["toolCall"]["content"][1], diff);
    let kinds: Vec<&Value> =
        asked["options"].as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds.first().unwrap().as_str(), Some("allow_once"));
    assert_eq!(kinds.last().unwrap().as_str(), Some("reject_once"));
    let call = editor.only("tool_call");
    assert_eq!(call["toolCallId"], asked["toolCall"]["toolCallId"]);
    assert_eq!((&call["kind"], &call["status"]), (&json!("edit"), &json!("pending")));
    assert_eq!(call["locations"], json!([{"path": file}]));
    let steps: Vec<Value> = editor.all("tool_call_update");
    let states: Vec<&str> = steps.iter().map(|it| it["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["in_progress", "completed"]);
    assert_eq!(steps[1]["content"], json!([diff]));

    // The provider gives the call of the next turn the same ID.
    editor.updates.clear();
    editor.answer("reject");
    let ended = editor.prompt(&session, &prompt("Write it again"));
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "1\n");
    let second = editor.only("tool_call");
    assert!(second["toolCallId"].is_string() && second["toolCallId"] != call["toolCallId"]);
    assert_eq!(editor.asked[0]["toolCall"]["toolCallId"], second["toolCallId"]);
    assert_eq!(editor.only("tool_call_update")["status"], "failed");
    assert_eq!(editor.leave(), 0);
}

#[test]
fn a_permission_for_the_session_is_not_asked_for_again() {
    let run = || streamed_call("Running. ", "wc a.txt");
    let replies = [run(), run(), streamed("Done.", "stop")];
    let (world, server) = (World::new(), Server::start(replies));
    let mut editor = Editor::start(&world, &server, &["--permission-mode", "accept-edits"]);
    let session = editor.new_session(&world);
    editor.answer("allow-session");
    editor.prompt(&session, &prompt("Count twice"));
    let options = editor.asked[0]["options"].to_string();
    assert!(options.contains("Bash(wc"), "{options}");
    assert_eq!(editor.asked.len(), 1);
    let ends = editor.all("tool_call_update");
    assert_eq!(ends.iter().filter(|it| it["status"] == "completed").count(), 2, "{ends:?}");
}

#[test]
fn a_rejection_for_the_session_is_not_asked_for_again() {
    let run = || streamed_call("Running. ", "wc a.txt");
    let replies = [run(), run(), streamed("Done.", "stop")];
    let (world, server) = (World::new(), Server::start(replies));
    let mut editor = Editor::start(&world, &server, &["--permission-mode", "accept-edits"]);
    let session = editor.new_session(&world);
    editor.answer("reject-session");
    editor.prompt(&session, &prompt("Count twice"));
    let options = editor.asked[0]["options"].as_array().unwrap().iter();
    let options: Vec<_> = options.map(|it| [&it["optionId"], &it["kind"]]).collect();
    let expect = [
        ["allow", "allow_once"],
        ["allow-session", "allow_always"],
        ["allow-project", "allow_always"],
        ["reject", "reject_once"],
        ["reject-session", "reject_always"],
        ["reject-project", "reject_always"],
        ["reject-stop", "reject_once"],
    ];
    assert_eq!(options, expect);
    assert_eq!(editor.asked.len(), 1);
    let ends = editor.all("tool_call_update");
    assert_eq!(ends.iter().filter(|it| it["status"] == "failed").count(), 2, "{ends:?}");
}

#[test]
fn a_rejection_that_stops_ends_the_turn() {
    let replies = [streamed_call("Removing. ", "rm a.txt"), streamed("Not asked.", "stop")];
    let (world, server) = (World::new(), Server::start(replies));
    let mut editor = Editor::start(&world, &server, &["--permission-mode", "ask"]);
    let session = editor.new_session(&world);
    editor.answer("reject-stop");
    let ended = editor.prompt(&session, &prompt("Remove it"));
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert!(world.path("project/a.txt").exists());
    assert_eq!(server.heard().len(), 1);
}

#[test]
fn an_answer_after_that_of_another_process_has_no_effect_and_keeps_no_rule() {
    let replies = [streamed_call("Removing. ", "rm a.txt"), streamed("Done.", "stop")];
    let (world, server) = (World::new(), Server::start(replies));
    let mut editor = Editor::start(&world, &server, &["--permission-mode", "ask"]);
    let session = editor.new_session(&world);
    let turn = editor.send_prompt(&session, &prompt("Remove it"));
    editor.until_asked();
    let decided = world.run(&["sessions", "decide", &session, "deny", "leave it"]);
    assert_eq!(decided.status, 0, "{}", decided.stderr);
    editor.select("allow-project");
    let ended = editor.wait(turn);
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert!(world.path("project/a.txt").exists());
    assert!(!world.path(".config/loopwright/folders.toml").exists());
    let told = server.heard().pop().unwrap().1.to_string();
    assert!(told.contains("Blocked: leave it"), "{told}");
}

#[test]
fn a_permission_request_is_withdrawn_when_another_process_answers() {
    for (decision, told, remains) in
        [(&["deny", "leave it"][..], "Blocked: leave it", true), (&["approve"], "", false)]
    {
        let replies = [
            streamed_call("Removing. ", "rm a.txt"),
            streamed("Done.", "stop"),
            streamed("Still here.", "stop"),
        ];
        let (world, server) = (World::new(), Server::start(replies));
        let mut editor = Editor::start(&world, &server, &["--permission-mode", "ask"]);
        let session = editor.new_session(&world);
        let turn = editor.send_prompt(&session, &prompt("Change it"));
        editor.until_asked();
        let decided = world.run(&[&["sessions", "decide", &session], decision].concat());
        assert_eq!(decided.status, 0, "{}", decided.stderr);
        // The editor answers nothing.
        let ended = editor.wait(turn);
        assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
        assert_eq!(editor.withdrawn, [editor.open.clone()]);
        assert_eq!(world.path("project/a.txt").exists(), remains);
        let heard = server.heard().pop().unwrap().1.to_string();
        assert!(heard.contains(told), "{heard}");
        // A late answer changes nothing.
        editor.select("allow-project");
        let ended = editor.prompt(&session, &prompt("Are you there?"));
        assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
        assert!(!world.path(".config/loopwright/folders.toml").exists());
    }
}

#[test]
fn a_turn_that_another_process_finished_ends_as_its_run_ended() {
    let replies = [streamed_call("Removing. ", "rm a.txt"), streamed("It is", "length")];
    let (world, server) = (World::new().file("project/a.txt", "x"), Server::start(replies));
    let mut editor = Editor::start(&world, &server, &["--permission-mode", "ask"]);
    let session = editor.new_session(&world);
    let turn = editor.send_prompt(&session, &prompt("Remove it"));
    editor.until_asked();
    editor.while_stopped(|| {
        assert_eq!(world.run(&["sessions", "decide", &session, "approve"]).status, 0);
        let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
        let cut_off = world.run(&[&model[..], &["--resume", &session]].concat());
        assert_eq!(cut_off.status, 6, "{}", cut_off.stderr);
    });
    let ended = editor.wait(turn);
    assert_eq!(ended["result"]["stopReason"], "max_tokens", "{ended}");
    assert!(text_of(&editor.updates, "agent_message_chunk").ends_with("It is"));
}

#[test]
fn an_option_that_was_not_offered_allows_nothing() {
    let (world, server) = (World::new(), Server::start([write("1\n"), streamed("No.", "stop")]));
    let mut editor = Editor::start(&world, &server, &["--permission-mode", "ask"]);
    let session = editor.new_session(&world);
    editor.answer("mark-done");
    editor.prompt(&session, &prompt("Write it"));
    assert!(!world.path("project/new.txt").exists());
}

#[test]
fn a_turn_is_cancelled_and_what_was_done_is_kept() {
    let replies = [write("1\n"), Reply::Nothing, streamed("Going on.", "stop")];
    let (world, server) = (World::new(), Server::start(replies));
    let mut editor = Editor::start(&world, &server, &[]);
    let session = editor.new_session(&world);
    let turn = editor.send_prompt(&session, &prompt("Write it, then think"));
    drop((server.request(), server.request()));
    editor.notify("session/cancel", &json!({"sessionId": session}));
    let ended = editor.wait(turn);
    assert_eq!(ended["result"]["stopReason"], "cancelled", "{ended}");
    assert_eq!(fs::read_to_string(world.path("project/new.txt")).unwrap(), "1\n");
    let ended = editor.prompt(&session, &prompt("Go on"));
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    let request = server.request().to_string();
    assert!(request.contains("new.txt") && request.contains("Go on"), "{request}");
}

#[test]
fn a_permission_whose_deadline_has_passed_is_denied_and_not_asked_for_again() {
    let server = Server::start([write("1\n"), streamed("Kept.", "stop")]);
    let world = World::new();
    let options = ["--permission-mode", "ask", "--answer-within", "0.001"];
    let mut editor = Editor::start(&world, &server, &options);
    let session = editor.new_session(&world);
    // The deadline may pass before the editor is asked, or while it is.
    editor.answer("allow");
    let ended = editor.prompt(&session, &prompt("Write it"));
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert!(editor.asked.len() <= 1, "{:?}", editor.asked);
    assert!(!world.path("project/new.txt").exists());
    assert_eq!(text_of(&editor.updates, "agent_message_chunk"), "Writing. Kept.");
}

#[test]
fn a_turn_is_cancelled_while_it_waits_for_a_permission() {
    let replies = [write("1\n"), streamed("As you like.", "stop")];
    let (world, server) = (World::new(), Server::start(replies));
    let mut editor = Editor::start(&world, &server, &["--permission-mode", "ask"]);
    let session = editor.new_session(&world);
    let turn = editor.send_prompt(&session, &prompt("Write it"));
    editor.until_asked();
    editor.notify("session/cancel", &json!({"sessionId": session}));
    let ended = editor.wait(turn);
    assert_eq!(ended["result"]["stopReason"], "cancelled", "{ended}");
    // The call was let go: what is said next is not held up by it.
    let ended = editor.prompt(&session, &prompt("Never mind"));
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert_eq!(editor.asked.len(), 1);
    assert!(!world.path("project/new.txt").exists());
}

#[test]
fn after_a_crash_a_session_is_listed_loaded_and_asks_again() {
    let replies = [streamed("hello", "stop"), write("1\n"), streamed("Done.", "stop")];
    let (world, server) = (World::new(), Server::start(replies));
    let mut editor = Editor::start(&world, &server, &["--permission-mode", "ask"]);
    let session = editor.new_session(&world);
    editor.prompt(&session, &prompt("Greet me"));
    let call = {
        editor.send_prompt(&session, &prompt("Write it"));
        editor.until_asked();
        editor.asked[0]["toolCall"]["toolCallId"].clone()
    };
    editor.kill();

    let mut editor = Editor::start(&world, &server, &["--permission-mode", "ask"]);
    let project = world.path("project");
    let list = editor.ask("session/list", &json!({"cwd": project}));
    let listed = &list["result"]["sessions"][0];
    assert_eq!(listed["sessionId"], session.as_str(), "{list}");
    assert_eq!((&listed["title"], &listed["cwd"]), (&json!("Greet me"), &json!(project)));
    let loaded = editor
        .ask("session/load", &json!({"sessionId": session, "cwd": project, "mcpServers": []}));
    assert_eq!(loaded["result"]["modes"]["currentModeId"], "ask", "{loaded}");
    assert_eq!(text_of(&editor.updates, "user_message_chunk"), "Greet meWrite it");
    assert_eq!(text_of(&editor.updates, "agent_message_chunk"), "helloWriting. ");
    assert_eq!(editor.only("tool_call")["toolCallId"], call);
    editor.answer("allow");
    let ended = editor.prompt(&session, &prompt("/continue"));
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert_eq!(editor.asked[0]["toolCall"]["toolCallId"], call);
    assert_eq!(fs::read_to_string(project.join("new.txt")).unwrap(), "1\n");
    assert_eq!(editor.leave(), 0);

    // To resume tells no history.
    let mut editor = Editor::start(&world, &server, &[]);
    editor.ask("session/resume", &json!({"sessionId": session, "cwd": project}));
    assert_eq!(text_of(&editor.updates, "user_message_chunk"), "");
    let loaded = editor
        .ask("session/load", &json!({"sessionId": session, "cwd": project, "mcpServers": []}));
    assert!(loaded["result"].is_object(), "{loaded}");
    let end = editor.all("tool_call_update");
    assert_eq!(end.last().unwrap()["status"], "completed");
}

#[test]
fn pictures_and_files_reach_the_model() {
    let (world, server) = (World::new(), Server::start([streamed("A dot.", "stop")]));
    let mut editor = Editor::start(&world, &server, &[]);
    let session = editor.new_session(&world);
    let ended = editor.prompt(
        &session,
        &json!([
            {"type": "text", "text": "Compare "},
            {"type": "image", "mimeType": "image/png", "data": PICTURE},
            {"type": "resource", "resource": {"uri": "file:///w/notes.md", "text": "a note"}},
            {"type": "resource_link", "name": "b.rs", "uri": "file:///w/b.rs"},
        ]),
    );
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    let request = server.request().to_string();
    for part in [PICTURE, "a note", "/w/notes.md", "/w/b.rs"] {
        assert!(request.contains(part), "{part}: {request}");
    }
}

#[test]
fn modes_are_selected_and_running_without_confinement_is_not_offered() {
    let (world, server) = (World::new(), Server::start([]));
    let mut editor = Editor::start(&world, &server, &[]);
    let new = editor.ask("session/new", &json!({"cwd": world.path("project"), "mcpServers": []}));
    let session = new["result"]["sessionId"].clone();
    let modes = new["result"]["modes"]["availableModes"].as_array().unwrap();
    let names: Vec<&str> = modes.iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["plan", "ask", "accept-edits", "auto", "deny"]);
    assert_eq!(new["result"]["configOptions"][0]["currentValue"], "auto");
    let set = editor.ask("session/set_mode", &json!({"sessionId": session, "modeId": "plan"}));
    assert_eq!(set["result"], json!({}));
    assert_eq!(editor.only("current_mode_update")["currentModeId"], "plan");
    let option = json!({"sessionId": session, "configId": "mode", "value": "ask"});
    let set = editor.ask("session/set_config_option", &option);
    assert_eq!(set["result"]["configOptions"][0]["currentValue"], "ask", "{set}");
    for mode in ["unconfined", "fast"] {
        let params = json!({"sessionId": session, "modeId": mode});
        let set = editor.ask("session/set_mode", &params);
        assert_eq!(set["error"]["code"], -32602, "{set}");
    }
}

#[test]
fn the_mode_that_is_selected_holds_for_the_next_turn() {
    let (world, server) =
        (World::new(), Server::start([write("1\n"), streamed("I may not.", "stop")]));
    let mut editor = Editor::start(&world, &server, &[]);
    let session = editor.new_session(&world);
    editor.ask("session/set_mode", &json!({"sessionId": session, "modeId": "plan"}));
    editor.prompt(&session, &prompt("Write it"));
    assert!(!world.path("project/new.txt").exists());
    assert_eq!(editor.only("tool_call_update")["status"], "failed");
}

#[test]
fn a_request_that_cannot_be_answered_ends_nothing() {
    let (world, server) = (World::new(), Server::start([streamed("hello", "stop")]));
    let mut editor = Editor::start(&world, &server, &[]);
    editor.write("nonsense");
    assert_eq!(editor.next()["error"]["code"], -32700);
    let code = |editor: &mut Editor, method: &str, params: Value| {
        editor.ask(method, &params)["error"]["code"].clone()
    };
    let project = world.path("project");
    let unknown = json!({"sessionId": "none", "cwd": project, "mcpServers": [], "prompt": []});
    assert_eq!(code(&mut editor, "session/dance", json!({})), -32601);
    assert_eq!(code(&mut editor, "session/prompt", unknown.clone()), -32002);
    assert_eq!(code(&mut editor, "session/load", unknown), -32002);
    assert_eq!(code(&mut editor, "session/new", json!({"cwd": "here"})), -32602);
    assert_eq!(code(&mut editor, "session/new", json!({"cwd": "/none/such"})), -32602);
    assert_eq!(code(&mut editor, "session/list", json!({"cursor": "x"})), -32602);
    let session = editor.new_session(&world);
    let audio = json!({"sessionId": session, "prompt": [{"type": "audio"}]});
    assert_eq!(code(&mut editor, "session/prompt", audio), -32602);
    let ended = editor.prompt(&session, &prompt("Greet me"));
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
}

#[test]
fn one_turn_of_a_session_is_taken_at_a_time() {
    let (world, server) = (World::new(), Server::start([Reply::Nothing]));
    let mut editor = Editor::start(&world, &server, &[]);
    let session = editor.new_session(&world);
    let turn = editor.send_prompt(&session, &prompt("Think"));
    drop(server.request());
    let second = editor.prompt(&session, &prompt("And this"));
    assert_eq!(second["error"]["code"], -32600, "{second}");
    // An editor that goes away cancels the turn, too.
    editor.close_stdin();
    assert_eq!(editor.wait(turn)["result"]["stopReason"], "cancelled");
    assert_eq!(editor.leave(), 0);
}

#[test]
fn a_failure_of_the_provider_is_the_answer_to_the_prompt() {
    let pieces = vec![delta(json!({"content": "Half an"}))];
    let replies = [error(401, "wrong key"), Reply::Stream(pieces)];
    let (world, server) = (World::new(), Server::start(replies));
    let mut editor = Editor::start(&world, &server, &[]);
    let session = editor.new_session(&world);
    let ended = editor.prompt(&session, &prompt("Greet me"));
    assert!(ended["error"]["message"].as_str().unwrap().contains("wrong key"), "{ended}");
}

#[test]
fn without_a_model_a_session_needs_authentication() {
    let world = lonely();
    let mut editor = Editor::start_with(&world, &["acp"]);
    let started = editor.ask("initialize", &json!({"protocolVersion": 1}));
    let method = started["result"]["authMethods"][0]["id"].clone();
    let new = editor.ask("session/new", &json!({"cwd": world.path("project"), "mcpServers": []}));
    assert_eq!(new["error"]["code"], -32000, "{new}");
    let done = editor.ask("authenticate", &json!({"methodId": method}));
    assert_eq!(done["error"]["code"], -32000, "{done}");
    drop(nowhere());
}

#[cfg(feature = "snapshots")]
#[test]
fn an_editor_continues_no_session_with_snapshots() {
    use crate::snapshots::KeptSession;

    for kept in [KeptSession::new(), KeptSession::waiting()] {
        let mut editor = Editor::start(&kept.world, &kept.server, &[]);
        let cwd = kept.world.path("project");
        let params = json!({"sessionId": kept.id, "cwd": cwd, "mcpServers": []});
        let loaded = editor.ask("session/load", &params);
        assert!(loaded["result"].is_object(), "{loaded}");
        let refused = editor.prompt(&kept.id, &prompt("More."));
        let text = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
        assert!(text.contains(&kept.refusal()), "{refused}");
        // A call that waits is not asked about in vain.
        assert_eq!(editor.asked, Vec::<Value>::new());
        kept.assert_no_turn();
    }
}
