//! Calls of tools: each is a run of its own.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use loopwright_core::{AgentLoop, AgentState, RunOptions, messages::ToolCall};
use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorData};
use rmcp::service::RequestContext;
use serde_json::Value;

use super::ask::{self, Asked};
use super::client_requests::ClientReplies;
use super::driver::CallDriver;
use super::notes::Notes;
use super::{GRACE, result};
use crate::event::McpLogLevel;

/// How many calls may wait for an answer of a client that sends its request again with it.
const MAX_WAITING: usize = 256;

/// The calls that wait for an answer. All connections of a server share them.
pub(super) struct Calls {
    waiting: Mutex<BTreeMap<String, WaitingCall>>,
    keys: AtomicU64,
    /// Makes keys that no client can guess.
    secret: RandomState,
}

struct WaitingCall {
    tool: String,
    state: AgentState,
    replies: ClientReplies,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self { waiting: Mutex::default(), keys: AtomicU64::new(0), secret: RandomState::new() }
    }

    /// Makes a call, or continues one that waited.
    pub(super) async fn call(
        &self,
        agent: &AgentLoop,
        request: CallToolRequestParams,
        level: Option<McpLogLevel>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = &*request.name;
        if agent.tools().get(tool).is_none() {
            return Err(ErrorData::invalid_params(format!("unknown tool `{tool}`"), None));
        }
        let mut replies = ask::brought(request.input_responses.as_ref());
        let mut state = match &request.request_state {
            Some(key) => {
                let waiting = self.take(key, tool)?;
                let brought = replies;
                replies = waiting.replies;
                replies.0.extend(brought.0);
                waiting.state
            }
            None => AgentState::new(),
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default()).to_string();
        let call = ToolCall { id: None, name: tool.into(), arguments: arguments.into() };
        let agent = agent.with_driver(Arc::new(CallDriver(call)));
        let mut notes = Notes::new(context, level);
        loop {
            if state.pending().is_empty() {
                let options = RunOptions {
                    cancel: context.ct.clone(),
                    grace: GRACE,
                    sinks: notes.sinks(),
                    ..RunOptions::default()
                };
                state = notes.during(context, agent.start(state, options).finish()).await;
            }
            let pending = state.pending();
            let Some(asked) = pending.first() else { return Ok(result::result(&state).into()) };
            let (requests, is_own) = ask::requests(asked);
            // A reply answers one question.
            let decision = match ask::ask(requests, std::mem::take(&mut replies), context).await {
                Asked::Answered(replies) => ask::decision(asked, replies),
                Asked::Incapable(needed) if is_own => return Err(ask::incapable(needed)),
                Asked::Incapable(_) => ask::decision(asked, ClientReplies::default()),
                Asked::Later(mut required, replies) => {
                    let waiting =
                        WaitingCall { tool: tool.to_owned(), state: state.clone(), replies };
                    required.request_state = Some(self.keep(waiting));
                    return Ok(required.into());
                }
            };
            state = match agent.decide(&state, &asked.address(), decision) {
                Ok(state) => state,
                Err(error) => return Ok(result::error(error.to_string()).into()),
            };
        }
    }

    /// Keeps a call, and returns its key. If too many wait, the oldest one is forgotten.
    fn keep(&self, call: WaitingCall) -> String {
        let number = self.keys.fetch_add(1, Relaxed);
        let key = format!("{number:08x}{:016x}", self.secret.hash_one(number));
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAX_WAITING {
            waiting.pop_first();
        }
        waiting.insert(key.clone(), call);
        key
    }

    /// Takes a call that waits; it can be continued once.
    fn take(&self, key: &str, tool: &str) -> Result<WaitingCall, ErrorData> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = waiting.get(key).is_some_and(|it| it.tool == tool);
        let call = if is_known { waiting.remove(key) } else { None };
        call.ok_or_else(|| {
            let text = "no call is waiting for this `requestState`; it was already used, has expired, or was altered";
            ErrorData::invalid_params(text, None)
        })
    }
}
