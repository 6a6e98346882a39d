//! Every answer to a request that waits, on the page and in the API.

use std::sync::Arc;

use loopwright_core::{ApprovalRequest, CallableHook, ExternalTool, Interceptor, ToolDecision};
use loopwright_server::Role;
use loopwright_sessions::{JobQuery, JobStatus, SessionId, SessionRepository, SessionStore as _};
use loopwright_testing::{FakeModel, MockTool, ModelDriver, ScenarioStep, test_loop};
use serde_json::{Value, json};

use crate::{
    api::{LOCAL, asking},
    page::{Browser, Pairs},
    world::{RULES, World},
};

/// The source of requests about interrupted calls.
const RECOVERY: &str = "recovery";

/// A model that makes a call about which a request of this source waits.
async fn refunding(source: &'static str) -> (World, MockTool) {
    let refund = MockTool::new("refund", "Refunds.", |it| Ok::<_, String>(it.to_string()));
    let call = ScenarioStep::tool_call("refund", json!({ "to": "ann" }));
    let model = FakeModel::script([call, "done".into()]);
    let hook = CallableHook::new("asks")
        .before_tool(move |_, _, _| Ok(ToolDecision::Ask(ApprovalRequest::new("Go on?", source))));
    let agent = test_loop(ModelDriver::new(model)).with_tool(refund.clone());
    let agent = agent.with_interceptor(Interceptor::from_hook(Arc::new(hook)));
    (World::with(agent).await, refund)
}

/// Returns the status of the last run of a session, and its messages.
async fn ended(world: &World, path: &str) -> (String, String) {
    let session = world.get(LOCAL, &format!("/v1{path}")).await.json();
    let messages = world.get(LOCAL, &format!("/v1{path}/messages")).await.text;
    (session["run_status"].as_str().unwrap().to_owned(), messages)
}

/// Answers the request of a session on its page, and returns how the session ends.
async fn answered(world: &World, path: &str, fields: Pairs<'_>) -> (String, String) {
    let browser = Browser::of(world, LOCAL).await;
    browser.sends(&format!("{path}/pending/0"), fields).await;
    world.work().await;
    ended(world, path).await
}

#[tokio::test]
async fn a_call_is_denied_on_the_page_and_the_run_stops() {
    let (world, refund) = refunding("rules").await;
    let path = Browser::of(&world, LOCAL).await.started("refund").await;
    let (status, messages) =
        answered(&world, &path, &[("decision", "stop"), ("reason", "fraud")]).await;
    assert_eq!((status.as_str(), refund.calls()), ("stopped", Vec::<Value>::new()), "{messages}");
    assert!(messages.contains("fraud"), "{messages}");
    // The job that waited has continued, and is the only one.
    let jobs = world.store.jobs().unwrap().records(&JobQuery::last(9)).await.unwrap();
    let statuses: Vec<JobStatus> = jobs.iter().map(|it| it.status).collect();
    assert_eq!(statuses, [JobStatus::Stopped]);
}

#[tokio::test]
async fn an_interrupted_call_is_done_on_the_page_with_or_without_its_result() {
    for (result, told) in [("sent 3", "sent 3"), ("", "the result is unknown")] {
        let (world, refund) = refunding(RECOVERY).await;
        let browser = Browser::of(&world, LOCAL).await;
        let path = browser.started("refund").await;
        let page = browser.page(&path).await;
        for button in [
            "Run the call again",
            "The call is done",
            "Skip the call",
            "Skip the call, and stop the run",
        ] {
            assert!(page.contains(&format!("{button}</button>")), "{button}: {page}");
        }
        let fields = [("decision", "result"), ("result", result)];
        let (status, messages) = answered(&world, &path, &fields).await;
        assert_eq!((status.as_str(), refund.calls()), ("completed", Vec::<Value>::new()));
        assert!(messages.contains(told), "{messages}");
    }
}

#[tokio::test]
async fn a_question_is_declined_or_left_undecided_on_the_page() {
    let cases = [
        ("cancel", "the user dismissed the question without an answer"),
        ("deny", "the user declined to answer"),
    ];
    for (decision, told) in cases {
        let world = asking().await;
        let browser = Browser::of(&world, LOCAL).await;
        let path = browser.started("paint").await;
        let page = browser.page(&path).await;
        assert!(
            page.contains("Leave it unanswered") && page.contains("Decline to answer"),
            "{page}"
        );
        let (status, messages) = answered(&world, &path, &[("decision", decision)]).await;
        assert_eq!(status, "completed");
        assert!(messages.contains(told), "{messages}");
    }
}

#[tokio::test]
async fn an_error_of_a_tool_that_runs_elsewhere_is_reported_on_the_page() {
    let call = ScenarioStep::tool_call("locate", json!({}));
    let model = FakeModel::script([call, "done".into()]);
    let agent = test_loop(ModelDriver::new(model)).with_tool(ExternalTool::new("locate", "Finds."));
    let world = World::with(agent).await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started("locate").await;
    let pending = format!("{path}/pending/0");
    assert_eq!(browser.submit(&pending, &[("decision", "error")]).await.status, 422);
    let fields = [("decision", "error"), ("message", "no signal")];
    let (status, messages) = answered(&world, &path, &fields).await;
    assert_eq!(status, "completed");
    assert!(messages.contains("no signal"), "{messages}");
}

#[tokio::test]
async fn a_decision_keeps_the_rules_that_were_listed_with_its_call_and_no_others() {
    let (world, refund) = refunding("rules").await;
    let path = Browser::of(&world, LOCAL).await.started("refund").await;
    let listed = world.get(LOCAL, &format!("/v1{path}/pending")).await.json();
    let rules = listed["pending"][0]["rules"].clone();
    assert_eq!(rules, json!(["refund(\"ann\")"]));
    let call = format!("/v1{path}/pending/{}", listed["pending"][0]["request"].as_str().unwrap());
    let keep = |scope: &str, rules: &Value| json!({ "scope": scope, "rules": rules });
    let others = keep("session", &json!(["refund"]));
    let other = json!({ "decision": "approve", "keep": others });
    assert_eq!(world.post(LOCAL, &call, other).await.problem(), "conflict");
    let edited = json!({ "decision": "approve", "arguments": {}, "keep": keep("session", &rules) });
    assert_eq!(world.post(LOCAL, &call, edited).await.problem(), "invalid");
    assert_eq!(world.kept(), "");
    let approved = json!({ "decision": "approve", "keep": keep("session", &rules) });
    assert_eq!(world.post(LOCAL, &call, approved.clone()).await.status, 200);
    assert_eq!(world.kept(), "Session true refund(\"ann\")\n");
    assert_eq!(world.post(LOCAL, &call, approved).await.status, 409);
    assert_eq!(world.kept(), "");
    world.work().await;
    assert_eq!(refund.calls(), [json!({ "to": "ann" })]);
}

#[tokio::test]
async fn a_decision_and_its_rules_for_the_session_are_one_write() {
    let (world, _) = refunding("rules").await;
    let path = Browser::of(&world, LOCAL).await.started("refund").await;
    let id = SessionId::new(path.rsplit('/').next().unwrap()).unwrap();
    let sessions = SessionRepository::new(Arc::clone(&world.store) as _);
    let before = sessions.load(&id).await.unwrap();
    let rules = ["refund(\"ann\")"];
    let keep = json!({ "scope": "session", "rules": rules });
    let approved = json!({ "decision": "approve", "keep": keep });
    let call = format!("/v1{path}/pending/0");
    assert_eq!(world.post(LOCAL, &call, approved).await.status, 200);
    let after = sessions.load(&id).await.unwrap();
    assert_eq!(after.header().version, before.header().version + 1);
    assert!(after.state().pending().is_empty());
    assert_eq!(after.state().get(&RULES), Some(rules.map(str::to_owned).to_vec()));
}

#[tokio::test]
async fn the_page_shows_the_rules_of_always_and_keeps_them() {
    let (world, refund) = refunding("rules").await;
    let browser = Browser::of(&world, LOCAL).await;
    let path = browser.started("refund").await;
    let page = browser.page(&path).await;
    assert!(page.contains("<code>refund(&quot;ann&quot;)</code>"), "{page}");
    assert!(page.contains("from now on in this project"), "{page}");
    let rule = ("rule", "refund(\"ann\")");
    let (status, _) =
        answered(&world, &path, &[("decision", "deny"), ("keep", "always"), rule]).await;
    assert_eq!((status.as_str(), refund.calls()), ("completed", Vec::<Value>::new()));
    assert_eq!(world.kept(), "Always false refund(\"ann\")\n");
}

#[tokio::test]
async fn another_principal_keeps_rules_for_a_session_and_not_for_good() {
    let (world, refund) = refunding("rules").await;
    let browser = Browser::of(&world, &world.token("ada", Role::Admin)).await;
    let path = browser.started("refund").await;
    let page = browser.page(&path).await;
    assert!(page.contains("for this session"), "{page}");
    assert!(!page.contains("from now on in this project"), "{page}");
    let pending = format!("{path}/pending/0");
    let rule = ("rule", "refund(\"ann\")");
    let always = [("decision", "approve"), ("keep", "always"), rule];
    assert_eq!(browser.submit(&pending, &always).await.status, 422);
    assert_eq!(world.kept(), "");
    browser.sends(&pending, &[("decision", "approve"), ("keep", "session"), rule]).await;
    assert_eq!(world.kept(), "Session true refund(\"ann\")\n");
    world.work().await;
    assert_eq!(refund.calls(), [json!({ "to": "ann" })]);
}
