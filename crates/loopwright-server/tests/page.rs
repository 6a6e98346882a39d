//! The page as a browser without scripts sees it.

use std::{io::Write as _, sync::Arc, time::Duration};

use axum::{body::Body, http::Request};
use flate2::{Compression, write::GzEncoder};
use http_body_util::BodyExt as _;
use loopwright_core::{
    ApprovalRequest, Arguments, CallableHook, Interceptor, Timestamp, ToolDecision,
};
use loopwright_server::Role;
use loopwright_sessions::{
    ClaimRequest, Job, JobOutcome, SessionId, SessionLog, SessionStore as _,
};
use loopwright_testing::{FakeModel, MockTool, ModelDriver, ScenarioStep, test_loop};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{
    api::{LOCAL, answering, asking},
    world::{HOST, Reply, World},
};

/// A browser that is signed in.
pub(crate) struct Browser<'a> {
    world: &'a World,
    cookie: String,
    csrf: String,
}

/// The headers and fields of a form.
pub(crate) type Pairs<'a> = &'a [(&'a str, &'a str)];

impl<'a> Browser<'a> {
    /// Signs in with a token.
    pub(crate) async fn of(world: &'a World, token: &str) -> Self {
        let reply = form(world, "/sign-in", &[], &[("token", token)]).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let cookie = reply.headers["set-cookie"].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let browser = Self { world, cookie, csrf: String::new() };
        let page = browser.get("/").await;
        let csrf = between(&page.text, "name=\"csrf\" value=\"", "\"").to_owned();
        Self { csrf, ..browser }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        let request = Request::get(path).header("host", HOST).header("cookie", &self.cookie);
        self.world.send(request.body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn page(&self, path: &str) -> String {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        reply.text
    }

    pub(crate) async fn submit(&self, path: &str, fields: Pairs<'_>) -> Reply {
        let fields = [&[("csrf", &*self.csrf)][..], fields].concat();
        form(self.world, path, &[("cookie", &self.cookie)], &fields).await
    }

    /// Sends a form that has to take effect, and returns where it leads.
    pub(crate) async fn sends(&self, path: &str, fields: Pairs<'_>) -> String {
        let reply = self.submit(path, fields).await;
        assert_eq!(reply.status, 303, "{path}: {}", reply.text);
        reply.headers["location"].to_str().unwrap().to_owned()
    }

    /// Starts a session, lets it run, and returns its path.
    pub(crate) async fn started(&self, text: &str) -> String {
        let path = self.sends("/sessions", &[("text", text)]).await;
        self.world.work().await;
        path
    }
}

async fn form(world: &World, path: &str, headers: Pairs<'_>, fields: Pairs<'_>) -> Reply {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(fields);
    let request = Request::post(path).header("host", HOST);
    let mut request = request.header("content-type", "application/x-www-form-urlencoded");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world.send(request.body(Body::from(body.finish())).unwrap()).await
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("no {start} in {text}"));
    rest.split_once(end).unwrap().0
}

/// Returns the number of times that a text holds another one.
pub(crate) fn times(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// A model that calls a tool which needs an approval.
pub(crate) async fn careful(arguments: Value) -> (World, MockTool) {
    let write = MockTool::new("write_file", "Writes.", |it| Ok::<_, String>(it.to_string()));
    let model =
        FakeModel::script([ScenarioStep::tool_call("write_file", arguments), "done".into()]);
    let hook = CallableHook::new("approval").before_tool(|_, _, _| {
        Ok(ToolDecision::Ask(ApprovalRequest::new("Write the file?", "approval")))
    });
    let agent = test_loop(ModelDriver::new(model)).with_tool(write.clone());
    let agent = agent.with_interceptor(Interceptor::from_hook(Arc::new(hook)));
    (World::with(agent).await, write)
}

#[tokio::test]
async fn a_browser_signs_in_with_a_token_and_out_again() {
    let world = answering(&[]).await;
    let sent_on = world
        .send(Request::get("/sessions/x?a=b").header("host", HOST).body(Body::empty()).unwrap());
    let sent_on = sent_on.await;
    assert_eq!(sent_on.headers["location"], "/sign-in?next=%2Fsessions%2Fx%3Fa%3Db");
    let wrong = form(&world, "/sign-in", &[], &[("token", "lwt_wrong")]).await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.text.contains("This token is not valid."), "{}", wrong.text);
    let browser = Browser::of(&world, LOCAL).await;
    let page = browser.page("/").await;
    assert!(page.contains("<span>local</span>"), "{page}");
    assert_eq!(browser.sends("/sign-out", &[]).await, "/sign-in");
    assert_eq!(browser.get("/").await.status, 303);
}

#[tokio::test]
async fn a_session_is_started_found_and_shown() {
    let world = answering(&["Some **words** of `code`.\n\n- one\n- two"]).await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started("What is <here>?").await;
    let page = browser.page(&path).await;
    assert!(page.contains("<title>What is &lt;here&gt;? · Loopwright</title>"), "{page}");
    assert!(page.contains("<p class=\"plain\">What is &lt;here&gt;?</p>"), "{page}");
    let answer = "<p>Some <strong>words</strong> of <code>code</code>.</p>\n<ul>\n<li>one</li>\n<li>two</li>\n</ul>";
    assert!(page.contains(answer), "{page}");
    assert!(page.contains("<span class=\"done\">Done</span>"), "{page}");
    let link = format!("href=\"{path}\"");
    for (search, found) in [("", 1), ("?q=IS+%3CHE", 1), ("?q=other", 0)] {
        assert_eq!(times(&browser.page(&format!("/{search}")).await, &link), found, "{search}");
    }
}

#[tokio::test]
async fn a_form_that_is_sent_twice_takes_effect_once() {
    let world = answering(&["one", "two"]).await;
    let browser = Browser::of(&world, LOCAL).await;
    let fields = [("text", "go"), ("key", "k")];
    let first = browser.sends("/sessions", &fields).await;
    assert_eq!(browser.sends("/sessions", &fields).await, first);
    assert_eq!(world.work().await.completed, 1);
    let messages = format!("{first}/messages");
    for _ in 0..2 {
        assert_eq!(browser.sends(&messages, &[("text", "on"), ("key", "m")]).await, first);
    }
    assert_eq!(world.work().await.completed, 1);
}

#[tokio::test]
async fn a_call_is_approved_with_arguments_that_were_edited_on_the_page() {
    let arguments = json!({"path": "a.txt", "content": "\none\ntwo\n", "depth": 3});
    let (world, tool) = careful(arguments).await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started("write").await;
    assert_eq!(times(&browser.page("/waiting").await, &format!("{path}#pending")), 1);
    assert!(browser.page("/").await.contains("waiting for you"));
    let page = browser.page(&path).await;
    assert!(page.contains("Write the file?") && page.contains("<ins>+ one\n</ins>"), "{page}");
    let area =
        between(&page, "name=\"arg.content\" rows=\"3\" spellcheck=\"false\">", "</textarea>");
    assert_eq!(area, "\n\none\ntwo\n");
    let edited = [
        ("decision", "approve"),
        ("arg.path", "a.txt"),
        ("arg.content", "\r\none\r\nthree\r\n"),
        ("arg.depth", "4"),
    ];
    let wrong = [("decision", "approve"), ("arg.depth", "four")];
    let refused = browser.submit(&format!("{path}/pending/0"), &wrong).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("`depth` is not valid JSON"), "{}", refused.text);
    assert_eq!(browser.sends(&format!("{path}/pending/0"), &edited).await, path);
    world.work().await;
    let called = json!({"path": "a.txt", "content": "\none\nthree\n", "depth": 4});
    assert_eq!(tool.calls(), [called]);
    let page = browser.page(&path).await;
    assert!(page.contains(">Done</span>"), "{page}");
    let call = between(&page, "<details class=\"call\"", "</details>");
    let (ran, from_model) = call.split_once("Arguments from the model").unwrap();
    assert!(ran.contains("three") && !ran.contains("two"), "{ran}");
    assert!(ran.contains("A user edited these arguments when approving the call."), "{ran}");
    assert!(from_model.contains("two"), "{from_model}");
    let messages = world.get(LOCAL, &format!("/v1{path}/messages")).await.json();
    let call = &messages["messages"][1]["calls"][0];
    let arguments = |it: &Value| it["arguments"].as_str().unwrap().parse::<Value>().unwrap();
    assert_eq!(arguments(call)["depth"], 3);
    assert_eq!(arguments(&call["ran_with"]), tool.calls()[0]);
    assert_eq!(call["ran_with"]["is_edited"], true);
    assert_eq!(times(&browser.page(&format!("{path}/steps/1")).await, ">edited</span>"), 1);
    assert!(browser.page("/waiting").await.contains("Nothing is waiting."));
}

#[tokio::test]
async fn a_call_that_was_not_edited_runs_with_the_arguments_of_the_model() {
    let arguments = json!({"path": "a.txt", "content": "one\r\ntwo", "list": [1, 2]});
    let (world, tool) = careful(arguments.clone()).await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started("write").await;
    let same = [
        ("decision", "approve"),
        ("arg.path", "a.txt"),
        ("arg.content", "one\r\ntwo"),
        ("arg.list", "[\r\n  1,\r\n  2\r\n]"),
    ];
    browser.sends(&format!("{path}/pending/0"), &same).await;
    world.work().await;
    assert_eq!(tool.calls(), [arguments]);
    let page = browser.page(&path).await;
    assert_eq!(times(&page, ">edited</span>") + times(&page, ">changed</span>"), 0);
    let messages = world.get(LOCAL, &format!("/v1{path}/messages")).await.json();
    assert_eq!(messages["messages"][1]["calls"][0].get("ran_with"), None);
}

#[tokio::test]
async fn a_call_is_shown_with_the_arguments_of_a_hook_and_those_of_the_model() {
    let tool = MockTool::new("write_file", "Writes.", |it| Ok::<_, String>(it.to_string()));
    let calls = ["a.txt", "b.txt", "c.txt"]
        .map(|it| ScenarioStep::tool_call("write_file", json!({ "path": it })));
    let model = FakeModel::script(calls.into_iter().chain(["done".into()]));
    let hook = CallableHook::new("elsewhere").before_tool(|call, _, _| {
        let there = Arguments::new(r#"{"path":"d.txt"}"#);
        let is_meant = call.arguments.contains("b.txt");
        Ok(if is_meant { ToolDecision::Rewrite(there) } else { ToolDecision::Run })
    });
    let agent = test_loop(ModelDriver::new(model)).with_tool(tool.clone());
    let world = World::with(agent.with_interceptor(Interceptor::from_hook(Arc::new(hook)))).await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started("write").await;
    assert_eq!(tool.calls(), ["a.txt", "d.txt", "c.txt"].map(|it| json!({ "path": it })));
    let page = browser.page(&path).await;
    assert_eq!(times(&page, ">changed</span>"), 1);
    let (_, second) = page.split_once("id=\"turn-2-0\"").unwrap();
    let call = second.split_once("</details>").unwrap().0;
    let (ran, from_model) = call.split_once("Arguments from the model").unwrap();
    assert!(ran.contains("d.txt") && !ran.contains("b.txt"), "{ran}");
    assert!(ran.contains("A hook changed these arguments."), "{ran}");
    assert!(from_model.contains("b.txt"), "{from_model}");
}

#[tokio::test]
async fn a_call_is_denied_with_a_reason_for_the_model() {
    let (world, tool) = careful(json!({"content": "x"})).await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started("write").await;
    let fields = [("decision", "deny"), ("reason", "not now")];
    browser.sends(&format!("{path}/pending/0"), &fields).await;
    world.work().await;
    assert_eq!(tool.calls(), Vec::<Value>::new());
    assert!(browser.page(&path).await.contains("not now"));
}

#[tokio::test]
async fn a_question_of_a_tool_is_answered() {
    let world = asking().await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started("paint").await;
    assert!(browser.page(&path).await.contains("Which color?"));
    let empty = browser.submit(&format!("{path}/pending/0"), &[("decision", "answer")]).await;
    assert_eq!(empty.status, 422);
    let fields = [("decision", "answer"), ("answer", "green")];
    browser.sends(&format!("{path}/pending/0"), &fields).await;
    world.work().await;
    let page = browser.page(&path).await;
    assert!(page.contains("finished") && page.contains("green"), "{page}");
}

#[tokio::test]
async fn steps_are_shown_and_sessions_are_forked_rewound_and_compared_there() {
    let step = ScenarioStep::tool_call(loopwright_testing::SCRIPTED_TOOL, json!({"a": 1}));
    let script = [step, "one answer".into(), "another answer".into(), "a third answer".into()];
    let world = World::with(test_loop(ModelDriver::new(FakeModel::script(script)))).await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started("go").await;
    let timeline = browser.page(&format!("{path}/timeline")).await;
    assert_eq!(
        (times(&timeline, "<li id=\"step-"), times(&timeline, "Fork after this step")),
        (2, 2)
    );
    assert!(timeline.contains("<span class=\"state done\">done</span>"), "{timeline}");
    let step = browser.page(&format!("{path}/steps/2")).await;
    let (after, before) = step.split_once("Earlier messages").unwrap();
    assert!(after.contains("one answer") && before.contains("scripted"), "{step}");
    assert_eq!(browser.get(&format!("{path}/steps/3")).await.status, 404);
    let fork = browser.sends(&format!("{path}/fork"), &[("step", "1")]).await;
    assert_ne!(fork, path);
    browser.sends(&format!("{fork}/messages"), &[("text", "other")]).await;
    world.work().await;
    let id = fork.rsplit('/').next().unwrap();
    let compared = browser.page(&format!("{path}/compare/{id}")).await;
    assert!(compared.contains("2 turns are the same."), "{compared}");
    assert!(compared.contains("one answer") && compared.contains("another answer"), "{compared}");
    assert!(browser.page(&path).await.contains(&format!("{path}/compare/{id}")));
    assert_eq!(browser.sends(&format!("{path}/rewind"), &[("step", "1")]).await, path);
    let rewound = browser.page(&path).await;
    assert!(!rewound.contains("one answer") && rewound.contains("Not finished"), "{rewound}");
    assert_eq!(browser.sends(&format!("{fork}/delete"), &[]).await, "/");
    assert_eq!(browser.get(&fork).await.status, 404);
}

#[tokio::test]
async fn forms_of_other_pages_and_of_visitors_without_the_role_do_nothing() {
    let world = answering(&["x"]).await;
    let reader = Browser::of(&world, &world.token("ada", Role::Read)).await;
    let browser = Browser::of(&world, &world.token("ada", Role::Run)).await;
    let path = browser.started("go").await;
    let cookie = [("cookie", &*browser.cookie)];
    let fields = [("text", "forged")];
    let messages = format!("{path}/messages");
    assert_eq!(form(&world, &messages, &cookie, &fields).await.status, 403);
    let forged = [("text", "forged"), ("csrf", &*reader.csrf)];
    assert_eq!(form(&world, &messages, &cookie, &forged).await.status, 403);
    let evil = [("cookie", &*browser.cookie), ("origin", "https://evil.example")];
    let own = [("text", "forged"), ("csrf", &*browser.csrf)];
    assert_eq!(form(&world, &messages, &evil, &own).await.status, 403);
    assert_eq!(form(&world, &messages, &[], &own).await.status, 401);
    let evil = [("sec-fetch-site", "cross-site")];
    assert_eq!(form(&world, "/sign-in", &evil, &[("token", LOCAL)]).await.status, 403);
    assert_eq!(reader.submit(&messages, &fields).await.status, 403);
    assert_eq!(reader.submit("/sessions", &fields).await.status, 403);
    assert_eq!(browser.submit(&format!("{path}/pending/0"), &[]).await.status, 403);
    let page = reader.page(&path).await;
    assert!(!page.contains("id=\"composer\"") && !page.contains("Fork"), "{page}");
    assert!(!page.contains("forged"), "{page}");
}

#[tokio::test]
async fn nobody_sees_sessions_of_others() {
    let world = answering(&["the secret plan"]).await;
    let ada = Browser::of(&world, &world.token("ada", Role::Approve)).await;
    let path = ada.started("secret").await;
    let mallory = Browser::of(&world, &world.token("mallory", Role::Admin)).await;
    let own = mallory.sends("/sessions", &[("text", "x")]).await;
    let id = path.rsplit('/').next().unwrap();
    for page in ["", "/timeline", "/steps/1", "/agent", "/live"] {
        assert_eq!(mallory.get(&format!("{path}{page}")).await.status, 404, "{page}");
    }
    assert_eq!(mallory.get(&format!("{own}/compare/{id}")).await.status, 404);
    for action in ["messages", "stop", "cancel", "resume", "fork", "rewind", "delete", "pending/0"]
    {
        let sent = mallory.submit(&format!("{path}/{action}"), &[("text", "x")]).await;
        assert_eq!(sent.status, 404, "{action}");
    }
    for page in ["/", "/waiting", "/?q=secret"] {
        assert!(!mallory.page(page).await.contains(id), "{page}");
    }
}

#[tokio::test]
async fn nothing_that_a_model_or_a_user_says_becomes_markup() {
    let evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\u{202e}";
    let call = json!({ "path": evil, evil: evil, "content": evil });
    let (world, _) = careful(call).await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started(evil).await;
    let pages = [
        "/".to_owned(),
        "/waiting".to_owned(),
        path.clone(),
        format!("{path}/timeline"),
        format!("{path}/steps/1"),
    ];
    for page in &pages {
        let shown = browser.page(page).await;
        assert_eq!(times(&shown, "<script"), 1, "{page}: {shown}");
        assert_eq!(times(&shown, "<img"), 0, "{page}: {shown}");
    }
    let shown = browser.page(&path).await;
    assert!(shown.contains("The arguments contain invisible characters: U+202E"), "{shown}");
    let sought = browser.page("/?q=%22%3E%3Cscript%3E").await;
    assert_eq!(times(&sought, "<script"), 1, "{sought}");
}

#[tokio::test]
async fn pages_load_only_files_of_the_server_and_are_not_kept() {
    let world = answering(&["x"]).await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started("go").await;
    for page in ["/", "/sign-in", "/nothing", &path] {
        let reply = browser.get(page).await;
        if page == "/nothing" {
            assert_eq!(
                reply.headers["content-security-policy"].to_str().unwrap().split(';').next(),
                Some("default-src 'none'")
            );
            continue;
        }
        let policy = reply.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("script-src 'self';") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.headers["cache-control"], "no-store");
        assert_eq!(reply.headers["referrer-policy"], "same-origin");
        assert!(!reply.text.contains("style=") && !reply.text.contains("onclick="), "{page}");
    }
    let page = browser.page(&path).await;
    for (start, media_type) in [("src=\"", "text/javascript"), ("stylesheet\" href=\"", "text/css")]
    {
        let reply = browser.get(between(&page, start, "\"")).await;
        assert!(reply.headers["content-type"].to_str().unwrap().starts_with(media_type));
        assert!(reply.headers["cache-control"].to_str().unwrap().contains("immutable"));
    }
}

#[tokio::test]
async fn a_page_without_content_weighs_at_most_30_kib_compressed() {
    let world = answering(&["x"]).await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started("x").await;
    let page = browser.page(&path).await;
    let style = browser.page(between(&page, "stylesheet\" href=\"", "\"")).await;
    let script = browser.page(between(&page, "src=\"", "\"")).await;
    let weight = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap().len()
    };
    let weights = [&page, &style, &script].map(|it| weight(it));
    assert!(weights.iter().sum::<usize>() <= 30 << 10, "{weights:?}");
}

/// Returns the events of a stream of the page: their name, ID and data.
fn live_events(text: &str) -> Vec<(String, u64, Value)> {
    let field = |block: &str, name: &str| {
        let line = block.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(": "));
        line.map(str::to_owned)
    };
    let event = |block: &str| {
        let id = field(block, "id")?.parse().unwrap();
        let data = serde_json::from_str(&field(block, "data")?).unwrap();
        Some((field(block, "event")?, id, data))
    };
    text.split("\n\n").filter_map(event).collect()
}

/// Changes what a page shows of the text as these events say.
fn apply(blocks: &mut Vec<String>, events: &[(String, u64, Value)]) {
    for (name, _, data) in events {
        if name == "text" {
            blocks.truncate(usize::try_from(data["from"].as_u64().unwrap()).unwrap());
            let new = data["blocks"].as_array().unwrap().iter();
            blocks.extend(new.map(|it| it.as_str().unwrap().to_owned()));
        } else if data["clear"] == true {
            blocks.clear();
        }
    }
}

/// Reads a stream of the page until there is nothing more for now.
async fn live(browser: &Browser<'_>, path: &str) -> Vec<(String, u64, Value)> {
    let request = Request::get(path).header("host", HOST).header("cookie", &browser.cookie);
    let request = request.body(Body::empty()).unwrap();
    let response = browser.world.app.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    let (mut body, mut text) = (response.into_body(), String::new());
    while !text.ends_with(": heartbeat\n\n") {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        text.push_str(std::str::from_utf8(&frame).unwrap());
    }
    live_events(&text)
}

/// Returns an envelope, or those of a fragment that arrived in parts of four characters.
fn in_fragments(body: &Arc<[u8]>) -> Vec<Arc<[u8]>> {
    let mut envelope: Value = serde_json::from_slice(body).unwrap();
    let content = envelope["payload"]["content"].as_str().unwrap_or_default();
    let content: Vec<char> = content.chars().collect();
    if content.is_empty() {
        return vec![Arc::clone(body)];
    }
    let mut of = |part: &[char]| {
        envelope["payload"]["content"] = String::from_iter(part).into();
        envelope.to_string().into_bytes().into()
    };
    content.chunks(4).map(&mut of).collect()
}

#[tokio::test]
async fn text_is_followed_as_it_is_written_also_by_a_page_that_is_cut_off_after_each_event() {
    let answer = "Some **words**.\n\n```\nlet a = 1;\n```\n\nAnd *more*.";
    let world = answering(&[answer]).await;
    let browser = Browser::of(&world, LOCAL).await;
    let whole = browser.started("go").await;
    let shown = "<p>Some <strong>words</strong>.</p>\n<pre><code>let a = 1;\n</code></pre>\n<p>And <em>more</em>.</p>\n";
    assert!(browser.page(&whole).await.contains(shown));
    let recorded = log_of(&world, &whole).await;
    // The same events, one by one, in a session that nothing runs.
    let path = browser.sends("/sessions", &[("text", "go")]).await;
    let (id, mut last) = (session_id(&path), 0);
    let (mut blocks, mut lengths) = (Vec::new(), Vec::new());
    for body in recorded.iter().flat_map(in_fragments) {
        let is_end = body.starts_with(b"{\"type\":\"agent.step.completed\"");
        world.store.append_log(&id, SessionLog::Events, &[body], None).await.unwrap();
        let cut_off = live(&browser, &format!("{path}/live?last_event_id={last}")).await;
        last = cut_off.last().map_or(last, |it| it.1);
        apply(&mut blocks, &cut_off);
        // A page that is opened now shows the same.
        let page = browser.page(&path).await;
        let mut fresh = Vec::new();
        apply(&mut fresh, &live(&browser, between(&page, "data-live=\"", "\"")).await);
        assert_eq!(fresh, blocks);
        if is_end {
            assert_eq!(blocks, Vec::<String>::new());
            break;
        }
        lengths.push(blocks.concat().len());
        if lengths.last() == Some(&shown.len()) {
            assert_eq!(blocks.concat(), shown);
        }
    }
    assert!(lengths.is_sorted() && lengths.len() > 10, "{lengths:?}");
    assert_eq!(lengths.last(), Some(&shown.len()), "{lengths:?}");
}

#[tokio::test]
async fn a_page_is_told_when_the_queue_knows_that_a_run_has_ended() {
    let world = answering(&["Done."]).await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started("go").await;
    // As between the last event of a run and the end of its job.
    let (queue, now) = (world.store.jobs().unwrap(), Timestamp::from_millis(0));
    queue.push(&Job::resume(session_id(&path)), now).await.unwrap();
    let claimed = queue
        .claim(ClaimRequest::new("worker", now, Duration::from_hours(1)))
        .await
        .unwrap()
        .unwrap();
    let page = browser.page(&path).await;
    assert!(page.contains("Working on step"), "{page}");
    let following = between(&page, "data-live=\"", "\"");
    assert_eq!(live(&browser, following).await, []);
    assert!(queue.settle(&claimed, &JobOutcome::Done, now).await.unwrap());
    let told: Vec<_> = live(&browser, following).await.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(told, ["changed"]);
    assert!(browser.page(&path).await.contains("Done</"));
}

#[tokio::test]
async fn a_message_is_shown_once_while_it_is_queued_while_its_run_begins_and_afterwards() {
    let world = answering(&["Done.", "Again."]).await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started("go").await;
    let shown = async |expect: usize| {
        let page = browser.page(&path).await;
        let messages = page.matches("<p class=\"plain\">go on</p>").count();
        assert_eq!((messages, page.contains(">Queued</p>")), (1, expect == 1), "{page}");
    };
    browser.sends(&format!("{path}/messages"), &[("text", "go on"), ("mode", "queue")]).await;
    shown(1).await;
    let (queue, now) = (world.store.jobs().unwrap(), Timestamp::from_millis(1 << 50));
    let claimed = queue
        .claim(ClaimRequest::new("worker", now, Duration::from_hours(1)))
        .await
        .unwrap()
        .unwrap();
    shown(1).await;
    assert!(queue.settle(&claimed, &JobOutcome::Failed("lost".into()), now).await.unwrap());
    browser.sends(&format!("{path}/messages"), &[("text", "go on"), ("mode", "queue")]).await;
    world.work().await;
    shown(0).await;
}

fn session_id(path: &str) -> SessionId {
    SessionId::new(path.rsplit('/').next().unwrap()).unwrap()
}

/// Returns the events of a session.
async fn log_of(world: &World, path: &str) -> Vec<Arc<[u8]>> {
    let log = world.store.read_log(&session_id(path), SessionLog::Events, 0, 1000).await.unwrap();
    log.iter().map(|it| it.body.to_vec().into()).collect()
}
