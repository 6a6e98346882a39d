//! A server of revision 2026-07-28.

use serde_json::{Value, json};

use super::asking;
use super::{Server, answer, error, tool, write, writeln_stderr};

impl Server {
    pub(super) fn stateless(&mut self, message: &Value) {
        let Some(id) = message.get("id").cloned() else {
            return writeln_stderr(message["method"].as_str().unwrap_or_default());
        };
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "server/discover" => complete(
                &id,
                json!({
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {
                        "tools": {"listChanged": true},
                        "resources": {"listChanged": true, "subscribe": true},
                        "extensions": {"io.modelcontextprotocol/tasks": {}},
                    },
                    "ttlMs": 0,
                    "cacheScope": "private",
                }),
            ),
            "tools/list" => {
                complete(
                    &id,
                    json!({"tools": [tool("echo")], "ttlMs": 0, "cacheScope": "private"}),
                );
            }
            "resources/list" => {
                self.listings += 1;
                let name = format!("list {}", self.listings);
                complete(
                    &id,
                    json!({
                        "resources": [{"uri": "note:///a", "name": name}],
                        "ttlMs": self.ttl(), "cacheScope": "private",
                    }),
                );
            }
            "resources/templates/list" => {
                complete(
                    &id,
                    json!({"resourceTemplates": [], "ttlMs": self.ttl(), "cacheScope": "private"}),
                );
            }
            "resources/read" => {
                self.listings += 1;
                let text = format!("read {}", self.listings);
                complete(
                    &id,
                    json!({
                        "contents": [{"uri": params["uri"], "text": text}],
                        "ttlMs": self.ttl(), "cacheScope": "private",
                    }),
                );
            }
            "subscriptions/listen" => self.listen(&id, params),
            "tools/call" => self.stateless_call(&id, params),
            "tasks/get" => self.task(&id, params),
            "tasks/update" => {
                self.seen.push(params["inputResponses"].clone());
                answer(&id, &json!({"resultType": "complete"}));
            }
            "tasks/cancel" => {
                writeln_stderr(&format!("cancelled {}", params["taskId"]));
                answer(&id, &json!({"resultType": "complete"}));
            }
            _ => error(&id, -32601, "unknown method"),
        }
    }

    fn ttl(&self) -> u64 {
        if self.is("stateless_cached") { 3_600_000 } else { 0 }
    }

    fn listen(&mut self, id: &Value, params: &Value) {
        let filter = &params["notifications"];
        let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
        let params = json!({"_meta": meta, "notifications": filter});
        write(
            &json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}),
        );
        if let Some(uri) = filter["resourceSubscriptions"].get(0) {
            let params = json!({"_meta": meta, "uri": uri});
            write(
                &json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}),
            );
        } else {
            self.seen.push(meta);
        }
    }

    fn stateless_call(&self, id: &Value, params: &Value) {
        let responses = &params["inputResponses"];
        let asks = |request: Value| {
            answer(id, &json!({"resultType": "input_required", "inputRequests": {"it": request}}));
        };
        match self.mode.as_str() {
            "stateless_cached" => {
                // The lists of resources change.
                for meta in &self.seen {
                    let params = json!({"_meta": meta});
                    write(
                        &json!({"jsonrpc": "2.0", "method": "notifications/resources/list_changed", "params": params}),
                    );
                }
                said(id, "changed");
            }
            "stateless_task"
            | "stateless_endless_task"
            | "stateless_failing_task"
            | "stateless_bad_task" => {
                let task = json!({
                    "resultType": "task", "taskId": "t1", "status": "working", "pollIntervalMs": 1, "ttlMs": null,
                    "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
                });
                answer(id, &task);
            }
            _ if !responses.is_null() => said(id, &responses["it"].to_string()),
            "stateless_asks_model" => {
                asks(json!({"method": "sampling/createMessage", "params": asking::question()}));
            }
            "stateless_asks_model_wrongly" => {
                asks(
                    json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}),
                );
            }
            "stateless_roots" => asks(json!({"method": "roots/list"})),
            "stateless_log" => {
                let level = &params["_meta"]["io.modelcontextprotocol/logLevel"];
                said(id, &level.to_string());
            }
            _ => said(id, &params["arguments"].to_string()),
        }
    }

    /// Works, asks the user, and has a result once there is an answer.
    fn task(&mut self, id: &Value, params: &Value) {
        self.listings += 1;
        let mut task = json!({
            "resultType": "complete", "taskId": params["taskId"], "pollIntervalMs": 1, "ttlMs": null,
            "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
            "status": "working", "statusMessage": "half way",
        });
        if self.is("stateless_bad_task") {
            return answer(id, &json!({"status": "perhaps"}));
        }
        if self.is("stateless_failing_task") {
            task["status"] = json!("failed");
            task["error"] = json!({"code": -32603, "message": "no\u{1b}[2J paper"});
        } else if !self.is("stateless_endless_task") && self.listings > 1 {
            // Subscriptions are noted among the responses, before or after them.
            if let Some(responses) = self.seen.iter().find(|it| it.get("who").is_some()) {
                task["status"] = json!("completed");
                let content = json!([{"type": "text", "text": responses["who"].to_string()}]);
                task["result"] = json!({"content": content});
            } else {
                task["status"] = json!("input_required");
                let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
                let asked = json!({"mode": "form", "message": "Who?", "requestedSchema": schema});
                task["inputRequests"] =
                    json!({"who": {"method": "elicitation/create", "params": asked}});
            }
        }
        answer(id, &task);
    }
}

fn said(id: &Value, text: &str) {
    complete(id, json!({"content": [{"type": "text", "text": text}]}));
}

fn complete(id: &Value, mut result: Value) {
    result["resultType"] = json!("complete");
    answer(id, &result);
}
