//! Attacks on the server. Each has to be answered with its error, and with nothing of another principal.

use axum::{body::Body, http::Request};
use loopwright_server::Role;
use loopwright_worker::JobCounts;
use serde_json::{Value, json};

use crate::{
    api::{LOCAL, answering},
    world::{HOST, World},
};

/// A request that has to be refused.
struct Attack {
    name: &'static str,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
    expect: u16,
}

/// A request of the attacker, who has a token of its own, before it is spoilt.
fn attack(name: &'static str, token: &str, path: impl Into<String>, expect: u16) -> Attack {
    let headers = vec![
        ("host", HOST.to_owned()),
        ("authorization", format!("Bearer {token}")),
        ("content-type", "application/json".to_owned()),
    ];
    Attack { name, method: "GET", path: path.into(), headers, body: String::new(), expect }
}

impl Attack {
    fn post(self, body: impl Into<String>) -> Self {
        Self { method: "POST", body: body.into(), ..self }
    }

    fn method(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|it| it.0 != name);
        self
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn instead(self, name: &'static str, value: impl Into<String>) -> Self {
        self.without(name).with(name, value)
    }

    fn request(&self) -> Request<Body> {
        let mut request = Request::builder().method(self.method).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(*name, value.as_bytes());
        }
        request.body(Body::from(self.body.clone())).unwrap()
    }
}

/// Sends each attack, and returns how many there were.
async fn repelled(world: &World, attacks: Vec<Attack>, secret: &str) -> usize {
    for attack in &attacks {
        let reply = world.send(attack.request()).await;
        assert_eq!(reply.status.as_u16(), attack.expect, "{}: {}", attack.name, reply.text);
        assert!(!reply.text.contains(secret), "{}: {}", attack.name, reply.text);
        if attack.expect >= 400 && attack.method != "HEAD" {
            reply.problem();
        }
        assert_eq!(reply.headers["x-content-type-options"], "nosniff", "{}", attack.name);
    }
    attacks.len()
}

#[expect(clippy::too_many_lines, reason = "it is a table")]
#[tokio::test]
async fn no_attack_gets_through() {
    let world = answering(&["the secret plan"]).await;
    let ada = world.token("ada", Role::Approve);
    let mallory = &*world.token("mallory", Role::Admin);
    let reader = &*world.token("reader", Role::Read);
    let runner = &*world.token("runner", Role::Run);
    let revoked = world
        .tokens
        .create("ada", Role::Admin, None, loopwright_core::Timestamp::from_millis(0))
        .unwrap();
    world.tokens.revoke(&revoked.record.id).unwrap();
    let expired = loopwright_core::Timestamp::from_millis(1);
    let expired = world.tokens.create("ada", Role::Admin, Some(expired), expired).unwrap().secret;
    let id = world.post(&ada, "/v1/sessions", json!({"title": "secret plan"})).await.id();
    let run =
        world.post(&ada, &format!("/v1/sessions/{id}/messages"), json!({"text": "go"})).await.id();
    world.work().await;
    let own = world.post(mallory, "/v1/sessions", json!({})).await.id();
    let of_local = world.post(LOCAL, "/v1/sessions", json!({})).await.id();
    let (path, mine) = (format!("/v1/sessions/{id}"), format!("/v1/sessions/{own}"));
    let list = "/v1/sessions";
    let mut attacks = vec![
        // Credentials.
        attack("no credentials", "", list, 401).without("authorization"),
        attack("an empty token", "", list, 401),
        attack("another scheme", "", list, 401).instead("authorization", "Basic bG9jYWw6eA=="),
        attack("no scheme", "", list, 401).instead("authorization", mallory),
        attack("a token that begins right", &mallory[..40], list, 401),
        attack("a longer token", &format!("{mallory}0"), list, 401),
        attack("the hash of a token", &revoked.record.hash, list, 401),
        attack("a revoked token", &revoked.secret, list, 401),
        attack("an expired token", &expired, list, 401),
        attack("two tokens", mallory, list, 400).with("authorization", format!("Bearer {ada}")),
        attack("a token in the query", "", format!("{list}?access_token={mallory}"), 401),
        attack("a header for proxies", "", list, 401)
            .without("authorization")
            .with("x-forwarded-user", "ada")
            .with("x-forwarded-for", "127.0.0.1"),
        attack("a token of bytes", "\u{e4}", list, 400),
        attack("no credentials for the metrics", "", "/metrics", 401).without("authorization"),
        attack("a token as a cookie", "", list, 401)
            .without("authorization")
            .with("cookie", format!("loopwright={mallory}; token={mallory}")),
        // Roles.
        attack("a reader creates", reader, list, 403).post("{}"),
        attack("a reader deletes", reader, &*path, 403).method("DELETE"),
        attack("a runner decides", runner, format!("{path}/pending/0"), 403)
            .post(r#"{"decision":"approve"}"#),
        attack("an approver reads metrics", &ada, "/metrics", 403),
        // Sessions of others.
        attack("another's session", mallory, &*path, 404),
        attack("the local user's session", mallory, format!("{list}/{of_local}"), 404),
        attack(
            "another's session, in upper case",
            mallory,
            path.to_uppercase().replace("/V1/SESSIONS", list),
            404,
        ),
        attack(
            "another's name with one's own tag",
            mallory,
            format!("{list}/{}{}", &id[..36], &own[36..]),
            404,
        ),
        attack(
            "one's own name with another's tag",
            mallory,
            format!("{list}/{}{}", &own[..36], &id[36..]),
            404,
        ),
        attack("another's name without its tag", mallory, format!("{list}/{}", &id[..36]), 404),
        attack("another's run, in one's own session", mallory, format!("{mine}/runs/{run}"), 404),
        attack("the head of another's session", mallory, &*path, 404).method("HEAD"),
        attack("another path in a header", mallory, list, 200)
            .with("x-original-url", &*path)
            .with("x-rewrite-url", &*path),
        attack("another's title in a search", mallory, format!("{list}?q=secret"), 200),
        attack("SQL in a search", mallory, format!("{list}?q=%25'%20OR%20'1'='1"), 200),
        attack("another's session as one's own parent", mallory, format!("{mine}/fork"), 422)
            .post(format!(r#"{{"session":"{id}"}}"#)),
        attack("another's file", mallory, format!("{path}/file?path=a"), 404).method("PUT"),
        attack("another's idempotency key", mallory, list, 201)
            .post("{}")
            .with("idempotency-key", "k"),
        // Names and cursors.
        attack("a path out of the sessions", mallory, format!("{list}/../sessions/{id}"), 404),
        attack("an encoded path", mallory, format!("{list}/..%2f{id}"), 404),
        attack("a path that is encoded twice", mallory, format!("{list}/%252e%252e%252f{id}"), 404),
        attack("another path with a backslash", mallory, format!("{list}/..%5c{id}"), 404),
        attack("an encoded NUL", mallory, format!("{list}/{own}%00"), 404),
        attack("a name that is no UTF-8", mallory, format!("{list}/%ff%fe"), 404),
        attack("a long name", mallory, format!("{list}/{}", "a".repeat(5_000)), 404),
        attack("SQL in a name", mallory, format!("{list}/x'%20OR%201=1--"), 404),
        attack("a wildcard", mallory, format!("{list}/%25"), 404),
        attack("a cursor that is none", mallory, format!("{list}?cursor=1"), 400),
        attack("SQL in a cursor", mallory, format!("{list}?cursor=1.a'--"), 400),
        attack(
            "a cursor of another's session",
            mallory,
            format!("{list}?cursor=9999999999999.{id}"),
            200,
        ),
        attack("a page without end", mallory, format!("{list}?limit=100000"), 400),
        attack("an empty page", mallory, format!("{list}?limit=0"), 400),
        attack("the deleted sessions", mallory, format!("{list}?status=deleted"), 400),
        attack("an unknown event", mallory, format!("{mine}/events?last_event_id=-1"), 400),
        attack("an event beyond all numbers", mallory, format!("{mine}/events"), 400)
            .with("last-event-id", "99999999999999999999999"),
        attack("a call that is no address", mallory, format!("{mine}/pending/99999999"), 404)
            .post(r#"{"decision":"deny"}"#),
        // Hosts and origins.
        attack("another host", mallory, list, 421).instead("host", "evil.example"),
        attack("a host that is rebound", mallory, list, 421).instead("host", "evil.example:8080"),
        attack("another port", mallory, list, 421).instead("host", "127.0.0.1:9"),
        attack("no host", mallory, list, 400).without("host"),
        attack("two hosts", mallory, list, 400).with("host", "evil.example"),
        attack("a host in the target", mallory, "http://evil.example/v1/sessions", 400),
        attack("a host with a user", mallory, list, 421).instead("host", format!("x@{HOST}")),
        attack("another host in a header for proxies", mallory, list, 421)
            .instead("host", "evil.example")
            .with("x-forwarded-host", HOST),
        attack("another host for what is public", mallory, "/healthz", 421)
            .instead("host", "evil.example"),
        attack("a page of another origin", mallory, list, 403)
            .post("{}")
            .with("origin", "https://evil.example"),
        attack("a page without an origin", mallory, list, 403).post("{}").with("origin", "null"),
        attack("an origin that begins right", mallory, list, 403)
            .with("origin", format!("http://{HOST}.evil.example")),
        attack("a preflight", mallory, list, 403)
            .method("OPTIONS")
            .with("origin", "https://evil.example")
            .with("access-control-request-method", "POST"),
        // Bodies and methods.
        attack("a form", mallory, list, 415)
            .post("a=b")
            .instead("content-type", "application/x-www-form-urlencoded"),
        attack("a body as text", mallory, list, 415)
            .post("{}")
            .instead("content-type", "text/plain"),
        attack("a body without a type", mallory, list, 415).post("{}").without("content-type"),
        attack("a body that is no JSON", mallory, list, 400).post("{"),
        attack("a compressed body", mallory, list, 400)
            .post("\u{1f}\u{8}\0\0")
            .with("content-encoding", "gzip"),
        attack("two types of a body", mallory, list, 400)
            .post("{}")
            .with("content-type", "text/plain"),
        attack("two idempotency keys", mallory, list, 400)
            .post("{}")
            .with("idempotency-key", "a")
            .with("idempotency-key", "b"),
        attack("a list as a body", mallory, list, 422).post("[".repeat(100_000)),
        attack("JSON without end", mallory, format!("{mine}/pending/0"), 400)
            .post(format!(r#"{{"decision":"answer","answer":{}"#, "[".repeat(100_000))),
        attack("an unknown field", mallory, list, 422).post(r#"{"workdir":"/etc"}"#),
        attack("a principal in the body", mallory, list, 422).post(r#"{"principal":"ada"}"#),
        attack("an ID in the body", mallory, list, 422).post(format!(r#"{{"id":"{id}"}}"#)),
        attack("an agent as a path", mallory, list, 422).post(r#"{"agent":"../../etc/passwd"}"#),
        attack("a long title", mallory, list, 422)
            .post(json!({"title": "x".repeat(201)}).to_string()),
        attack("an empty message", mallory, format!("{mine}/messages"), 422)
            .post(r#"{"text":" "}"#),
        attack("an unknown mode", mallory, format!("{mine}/messages"), 422)
            .post(r#"{"text":"a","mode":"sudo"}"#),
        attack("a large body", mallory, format!("{mine}/messages"), 413)
            .post(format!(r#"{{"text":"{}"}}"#, "x".repeat(2 << 20))),
        attack("a step beyond all", mallory, format!("{mine}/rewind"), 422)
            .post(r#"{"step":18446744073709551615}"#),
        attack("a long idempotency key", mallory, list, 400)
            .post("{}")
            .with("idempotency-key", "k".repeat(300)),
        attack("another method", mallory, list, 405).method("PUT"),
        attack("TRACE", mallory, list, 405).method("TRACE"),
        attack("a method by a header", mallory, &*mine, 405)
            .method("PATCH")
            .with("x-http-method-override", "DELETE"),
        attack("an unknown path", mallory, "/v2/sessions", 404),
        attack("a file", mallory, "/../../etc/passwd", 404),
    ];
    let each = [
        "",
        "/messages",
        "/events",
        "/runs",
        "/pending",
        "/usage",
        "/export",
        "/files",
        "/file?path=a",
        "/diff",
    ];
    attacks.extend(
        each.map(|it| attack("reading another's session", mallory, format!("{path}{it}"), 404)),
    );
    let each = ["/messages", "/fork", "/rewind", "/stop", "/cancel", "/resume", "/pending/0"];
    attacks.extend(each.map(|it| {
        let body = match it {
            "/messages" => r#"{"text":"a"}"#,
            "/pending/0" => r#"{"decision":"deny"}"#,
            _ => "{}",
        };
        attack("changing another's session", mallory, format!("{path}{it}"), 404).post(body)
    }));
    attacks.push(attack("deleting another's session", mallory, &*path, 404).method("DELETE"));
    let count = repelled(&world, attacks, "secret plan").await;
    assert_eq!(count, 106);
    // What was attacked is as it was.
    let shown = world.get(&ada, &path).await.json();
    assert_eq!(
        (&shown["text"], &shown["title"]),
        (&json!("the secret plan"), &json!("secret plan"))
    );
    for (token, expect) in [(&*ada, vec![&id]), (reader, vec![]), (LOCAL, vec![&of_local])] {
        let listed = world.get(token, list).await.json();
        let ids: Vec<_> = listed["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, expect);
    }
}

/// Clients of another principal that speak another protocol know neither the session nor its run.
#[tokio::test]
async fn no_protocol_of_clients_leads_to_sessions_of_others() {
    let world = answering(&["the secret plan", "another"]).await;
    let ada = world.token("ada", Role::Approve);
    let mallory = world.token("mallory", Role::Admin);
    let id = world.post(&ada, "/v1/sessions", json!({})).await.id();
    let messages = format!("/v1/sessions/{id}/messages");
    let run = world.post(&ada, &messages, json!({"text": "go"})).await.id();
    world.work().await;
    let say = json!({
        "messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}], "taskId": run,
    });
    let a2a = "/v1/agents/helper/a2a";
    let post = async |path: String, body: Value| world.post(&mallory, &path, body).await;
    let replies = [
        post(
            "/v1/responses".into(),
            json!({
                "model": "helper", "input": "a", "previous_response_id": format!("resp_{id}.{run}"),
            }),
        )
        .await,
        post(format!("{a2a}/message:send"), json!({"message": say})).await,
        post(format!("{a2a}/tasks/{run}:cancel"), json!({})).await,
        post(format!("{a2a}/tasks/{run}:subscribe"), json!({})).await,
        world.get(&mallory, &format!("{a2a}/tasks/{run}")).await,
    ];
    for reply in replies {
        assert_eq!(reply.status, 404, "{}", reply.text);
        assert!(!reply.text.contains("secret"), "{}", reply.text);
    }
    assert_eq!(world.work().await, JobCounts::default());
    let shown = world.get(&ada, &messages).await.json();
    assert_eq!(shown["messages"].as_array().unwrap().len(), 2);
}
