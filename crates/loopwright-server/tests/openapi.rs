//! The `OpenAPI` document says what the server does: every operation is called, and each answer fits its schema.

use std::collections::BTreeSet;

use loopwright_server::openapi_document;
use serde_json::{Value, json};

use crate::{
    api::{LOCAL, asking},
    world::{Reply, World, request},
};

/// Calls operations, and checks each answer against the document.
struct Caller {
    world: World,
    document: Value,
    called: BTreeSet<String>,
}

impl Caller {
    /// Calls an operation with values for the parameters of its path.
    async fn call(&mut self, id: &str, path: &[&str], body: Option<Value>) -> Reply {
        let (template, method, operation) = self.operation(id);
        let mut values = path.iter();
        let parts = template
            .split('/')
            .map(|part| if part.starts_with('{') { *values.next().unwrap() } else { part });
        let mut path = parts.collect::<Vec<_>>().join("/");
        if path.ends_with("/file") {
            path.push_str("?path=a/b.txt");
        }
        assert_eq!(body.is_some(), operation.get("requestBody").is_some(), "{id}");
        if let Some(body) = &body {
            let content = &operation["requestBody"]["content"];
            if let Some(json) = content.get("application/json") {
                self.check(&json["schema"], body);
            }
        }
        let reply = match &*method {
            "get" => self.world.get(LOCAL, &path).await,
            "post" => self.world.post(LOCAL, &path, body.unwrap_or(json!({}))).await,
            "delete" => self.world.delete(LOCAL, &path).await,
            "put" => {
                let body = body.unwrap_or_default().to_string();
                self.world.send(request("PUT", LOCAL, &path, body.into())).await
            }
            other => panic!("{other}"),
        };
        let status = reply.status.as_u16().to_string();
        let response = operation["responses"].get(&status);
        let response = response.unwrap_or_else(|| panic!("{id}: {status} {}", reply.text));
        match response["content"].as_object() {
            None => assert_eq!(reply.text, "", "{id}"),
            Some(content) => {
                let media_type = reply.headers["content-type"].to_str().unwrap();
                let media_type = media_type.split(';').next().unwrap();
                let described = &content[media_type];
                if let Some(schema) = described.get("schema") {
                    self.check(schema, &reply.json());
                }
            }
        }
        self.called.insert(id.to_owned());
        reply
    }

    fn operation(&self, id: &str) -> (String, String, Value) {
        for (path, methods) in self.document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                if operation["operationId"] == id {
                    return (path.clone(), method.clone(), operation.clone());
                }
            }
        }
        panic!("no operation `{id}`");
    }

    fn check(&self, schema: &Value, value: &Value) {
        let mut whole = schema.clone();
        whole["components"] = self.document["components"].clone();
        let validator = jsonschema::draft202012::new(&whole).unwrap();
        let errors: Vec<String> = validator.iter_errors(value).map(|it| it.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}: {value}");
    }
}

#[tokio::test]
async fn every_operation_answers_as_the_document_says() {
    let world = asking().await;
    let mut caller = Caller { world, document: openapi_document(), called: BTreeSet::new() };
    for id in ["healthz", "readyz", "metrics", "openapi", "listAgents", "listSessions"] {
        caller.call(id, &[], None).await;
    }
    let body = json!({"agent": "helper", "title": "About"});
    let id = caller.call("createSession", &[], Some(body)).await.id();
    let message = json!({"text": "go", "mode": "queue"});
    let run = caller.call("sendMessage", &[&id], Some(message)).await.id();
    caller.call("getRun", &[&id, &run], None).await;
    caller.world.work().await;
    let pending = caller.call("listPending", &[&id], None).await.json();
    let call = pending["pending"][0]["call"].as_str().unwrap().to_owned();
    let answer = json!({"decision": "answer", "answer": "red"});
    caller.call("decide", &[&id, &call], Some(answer)).await;
    caller.world.work().await;
    // The protocols have tests of their own.
    let protocols = [
        "listModels",
        "createChatCompletion",
        "createResponse",
        "runAgUi",
        "runUiMessages",
        "getA2aCard",
        "getFirstA2aCard",
        "callA2a",
        "sendA2aMessage",
        "streamA2aMessage",
        "listA2aTasks",
        "getA2aTask",
        "actOnA2aTask",
    ];
    caller.called.extend(protocols.map(str::to_owned));
    for read in ["getSession", "listMessages", "listRuns", "getUsage", "exportSession"] {
        caller.call(read, &[&id], None).await;
    }
    caller.call("getPrincipalUsage", &[], None).await;
    caller.call("streamEvents", &[&id], None).await;
    caller.call("uploadFile", &[&id], Some(json!("content"))).await;
    for read in ["listFiles", "downloadFile", "getDiff"] {
        caller.call(read, &[&id], None).await;
    }
    caller.call("deleteFile", &[&id], None).await;
    for end in ["stopSession", "cancelSession", "resumeSession"] {
        caller.call(end, &[&id], None).await;
    }
    caller.call("forkSession", &[&id], Some(json!({}))).await;
    caller.call("rewindSession", &[&id], Some(json!({"step": 1}))).await;
    caller.call("deleteSession", &[&id], None).await;
    let paths = caller.document["paths"].as_object().unwrap();
    let operations = paths.values().flat_map(|it| it.as_object().unwrap().values());
    let all: BTreeSet<_> =
        operations.map(|it| it["operationId"].as_str().unwrap().to_owned()).collect();
    assert_eq!(caller.called, all);
}

#[tokio::test]
async fn problems_fit_their_schema_and_the_document_is_served() {
    let caller =
        Caller { world: asking().await, document: openapi_document(), called: BTreeSet::new() };
    let unknown = caller.world.get(LOCAL, "/v1/sessions/unknown").await;
    caller.check(&json!({"$ref": "#/components/schemas/Problem"}), &unknown.json());
    let served = caller.world.get(LOCAL, "/v1/openapi.json").await.json();
    assert_eq!(served, caller.document);
    assert_eq!(served["openapi"], "3.1.0");
}

#[test]
fn all_references_of_the_document_lead_to_schemas() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                let reference = fields.get("$ref").and_then(Value::as_str);
                found.extend(reference.map(str::to_owned));
                fields.values().for_each(|it| references(it, found));
            }
            Value::Array(items) => items.iter().for_each(|it| references(it, found)),
            _ => {}
        }
    }
    let (document, mut found) = (openapi_document(), Vec::new());
    references(&document, &mut found);
    assert!(found.len() > 20);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}
