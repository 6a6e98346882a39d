//! Limits of principals.

use std::num::{NonZeroU32, NonZeroU64};

use loopwright_core::{Timestamp, messages::Usage};
use loopwright_server::{PrincipalLimits, Role};
use loopwright_testing::{FakeModel, ModelDriver, ScenarioStep, test_loop};
use serde_json::json;

use crate::{
    api::LOCAL,
    world::{Reply, World},
};

fn runs(max: u32) -> PrincipalLimits {
    PrincipalLimits { open_runs: NonZeroU32::new(max), ..PrincipalLimits::default() }
}

fn tokens(max: u64) -> PrincipalLimits {
    PrincipalLimits { tokens_per_day: NonZeroU64::new(max), ..PrincipalLimits::default() }
}

async fn world(limits: PrincipalLimits) -> World {
    let step = |text: &str| ScenarioStep::from(text).with_usage(Usage::new(5, 1));
    let model = FakeModel::script(["one", "two", "three", "four", "five"].map(step));
    let agent = test_loop(ModelDriver::new(model));
    World::built(agent, |server| server.with_limits(limits)).await
}

async fn said(world: &World, token: &str) -> Reply {
    let session = world.post(token, "/v1/sessions", json!({})).await.id();
    world.post(token, &format!("/v1/sessions/{session}/messages"), json!({"text": "hi"})).await
}

fn retry_after(reply: &Reply) -> u64 {
    assert_eq!((reply.status.as_u16(), reply.problem()), (429, "too_many_requests".to_owned()));
    let seconds = reply.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert_eq!(reply.json()["retry_after"], seconds);
    seconds
}

#[tokio::test]
async fn a_principal_has_as_many_runs_as_it_may_have() {
    let world = world(runs(1)).await;
    let (ada, bob) = (world.token("ada", Role::Run), world.token("bob", Role::Run));
    let session = world.post(&ada, "/v1/sessions", json!({})).await.id();
    let path = format!("/v1/sessions/{session}/messages");
    assert_eq!(world.post(&ada, &path, json!({"text": "hi"})).await.status, 202);
    assert_eq!(retry_after(&said(&world, &ada).await), 5);
    let chat = json!({"model": "helper", "messages": [{"role": "user", "content": "Hi"}]});
    let refused = world.post(&ada, "/v1/chat/completions", chat).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.headers["retry-after"]),
        (429, &"5".parse().unwrap())
    );
    // Others are not kept from theirs, and the local user has no such limit.
    assert_eq!(said(&world, &bob).await.status, 202);
    for _ in 0..2 {
        assert_eq!(said(&world, LOCAL).await.status, 202);
    }
    let usage = world.get(&ada, "/v1/usage").await.json();
    assert_eq!((&usage["open_runs"], &usage["max_open_runs"]), (&json!(1), &json!(1)));
    world.work().await;
    assert_eq!(said(&world, &ada).await.status, 202);
}

#[tokio::test]
async fn of_runs_that_are_started_at_once_no_more_begin_than_may() {
    let world = world(runs(3)).await;
    let ada = world.token("ada", Role::Run);
    let all = futures::future::join_all((0..12).map(|_| said(&world, &ada))).await;
    assert_eq!(all.iter().filter(|it| it.status == 202).count(), 3);
}

#[tokio::test]
async fn tokens_of_a_day_are_counted_for_the_principal_and_survive_its_sessions() {
    let world = world(tokens(1)).await;
    let ada = world.token("ada", Role::Run);
    assert_eq!(said(&world, &ada).await.status, 202);
    assert_eq!(world.get(&ada, "/v1/usage").await.json()["tokens_today"], 0);
    world.work_at_its_time().await;
    let usage = world.get(&ada, "/v1/usage").await.json();
    assert_eq!(usage["tokens_today"], 6);
    assert_eq!(usage["max_tokens_per_day"], 1);
    assert!(retry_after(&said(&world, &ada).await) > 5);
    let sessions = world.get(&ada, "/v1/sessions").await.json();
    let sessions = sessions["sessions"].as_array().unwrap();
    assert!(!sessions.is_empty());
    for session in sessions {
        let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
        assert_eq!(world.delete(&ada, &path).await.status, 204);
    }
    assert!(retry_after(&said(&world, &ada).await) > 5);
    let bob = world.token("bob", Role::Run);
    assert_eq!(said(&world, &bob).await.status, 202);
}

#[tokio::test]
async fn limits_of_a_token_replace_those_of_the_server() {
    let world = world(runs(1)).await;
    let now = Timestamp::from_millis(0);
    let token = world.tokens.create_limited("ada", Role::Run, runs(2), None, now);
    let ada = token.unwrap().secret;
    for expect in [202, 202, 429] {
        assert_eq!(said(&world, &ada).await.status, expect);
    }
    assert_eq!(world.get(&ada, "/v1/usage").await.json()["max_open_runs"], 2);
}

#[tokio::test]
async fn servers_of_one_store_share_the_requests_of_a_minute_and_a_restart_forgets_none() {
    let rate =
        PrincipalLimits { requests_per_minute: NonZeroU32::new(5), ..PrincipalLimits::default() };
    let world = world(rate).await;
    let ada = world.token("ada", Role::Read);
    for _ in 0..3 {
        assert_eq!(world.get(&ada, "/v1/sessions").await.status, 200);
    }
    let other = world.another(|server| server.with_limits(rate));
    for expect in [200, 200, 429] {
        let request = crate::world::request("GET", &ada, "/v1/sessions", axum::body::Body::empty());
        let reply = World::send_to(&other, request).await;
        assert_eq!(reply.status, expect);
    }
    assert!(retry_after(&world.get(&ada, "/v1/sessions").await) <= 60);
}
