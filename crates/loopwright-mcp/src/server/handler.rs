//! The methods that clients call.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use loopwright_core::{
    AgentEvent, AgentState, AnyTool, ApprovalDecision, EventSinks, PendingApproval, RunOptions,
    SideEffects, messages::ToolCall,
};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, Implementation, InputRequest, InputRequiredResult, ListPromptsResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    Prompt, PromptArgument, PromptMessage, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, Role, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use super::driver::CallDriver;
use super::{GRACE, ServedContent, ToolServer, approval, result};
use crate::event::McpProgress;

/// How many calls may wait for an answer of a client that asks again with it.
const MAX_WAITING: usize = 64;

/// The key of the only question that is asked at a time.
const QUESTION: &str = "question";

/// Calls that are refused if the client cannot ask its user.
const UNASKED: &str =
    "the call needs approval, and this client cannot ask its user; allow it with a permission rule";

/// Answers one client.
pub(super) struct Handler {
    server: ToolServer,
    /// Calls that wait for an answer, by what the client sends back with it.
    waiting: Mutex<BTreeMap<String, AgentState>>,
    keys: AtomicU64,
    /// Makes keys that no client can guess.
    secret: RandomState,
}

/// What a client says about a question.
enum Asked {
    Decided(ApprovalDecision),
    /// It asks its user and calls again.
    Later(InputRequiredResult),
}

impl Handler {
    pub(super) fn new(server: ToolServer) -> Self {
        Self {
            server,
            waiting: Mutex::default(),
            keys: AtomicU64::new(0),
            secret: RandomState::new(),
        }
    }

    fn content(&self) -> Result<&dyn ServedContent, ErrorData> {
        let none = || ErrorData::invalid_params("the server has no resources and no prompts", None);
        self.server.content.as_deref().ok_or_else(none)
    }

    fn new_key(&self) -> String {
        let number = self.keys.fetch_add(1, Relaxed);
        format!("{number:08x}{:016x}", self.secret.hash_one(number))
    }

    /// Takes a waiting call, if the client continues it.
    fn resumed(&self, request: &CallToolRequestParams) -> Option<AgentState> {
        let state = request.request_state.as_ref()?;
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(state)
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = &*request.name;
        if self.server.agent.tools().get(name).is_none() {
            return Err(ErrorData::invalid_params(format!("unknown tool `{name}`"), None));
        }
        let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
        let call =
            ToolCall { id: None, name: name.into(), arguments: arguments.to_string().into() };
        let mut state = match self.resumed(&request) {
            Some(state) => self.answered(state, &request)?,
            None => AgentState::new(),
        };
        let agent = self.server.agent.with_driver(Arc::new(CallDriver(call)));
        loop {
            let options = RunOptions {
                cancel: context.ct.clone(),
                grace: GRACE,
                sinks: progress(context),
                ..RunOptions::default()
            };
            state = agent.start(state, options).finish().await;
            let pending = state.pending();
            let Some(asked) = pending.first() else {
                return Ok(result::result(&state).into());
            };
            let decision = match ask(asked, context).await {
                Asked::Decided(decision) => decision,
                Asked::Later(mut required) => {
                    let key = self.new_key();
                    required.request_state = Some(key.clone());
                    let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    if waiting.len() >= MAX_WAITING {
                        waiting.pop_first();
                    }
                    waiting.insert(key, state.clone());
                    return Ok(required.into());
                }
            };
            let address = asked.address();
            state = match agent.decide(&state, &address, decision) {
                Ok(state) => state,
                Err(error) => return Ok(result::error(error.to_string()).into()),
            };
        }
    }

    /// Decides about a call that waited by what the client brings.
    fn answered(
        &self,
        state: AgentState,
        request: &CallToolRequestParams,
    ) -> Result<AgentState, ErrorData> {
        let answer = request.input_responses.as_ref().and_then(|it| it.get(QUESTION));
        let missing = || ErrorData::invalid_params("the answer to the question is missing", None);
        let answer = serde_json::from_value(answer.cloned().ok_or_else(missing)?);
        let answer = answer.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let pending = state.pending();
        let Some(asked) = pending.first() else { return Ok(state) };
        let decision = approval::decision(asked, &answer);
        let decided = self.server.agent.decide(&state, &asked.address(), decision);
        decided.map_err(|error| ErrorData::invalid_params(error.to_string(), None))
    }
}

/// Asks the client's user.
async fn ask(asked: &PendingApproval<'_>, context: &RequestContext<RoleServer>) -> Asked {
    let refused = || Asked::Decided(ApprovalDecision::Deny { reason: UNASKED.to_owned() });
    let can_ask = context.client_capabilities().is_some_and(|it| it.elicitation.is_some());
    let Some(question) = approval::question(asked).filter(|_| can_ask) else { return refused() };
    let is_stateless = context
        .protocol_version()
        .is_some_and(|it| it.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
    if is_stateless {
        let request = InputRequest::Elicitation(rmcp::model::ElicitRequest::new(question));
        let requests = BTreeMap::from([(QUESTION.to_owned(), request)]);
        return Asked::Later(InputRequiredResult::new(Some(requests), None));
    }
    tokio::select! {
        answer = context.peer.create_elicitation(question) => match answer {
            Ok(answer) => Asked::Decided(approval::decision(asked, &answer)),
            Err(_) => refused(),
        },
        () = context.ct.cancelled() => refused(),
    }
}

/// Passes on the progress that tools report, if the client wants to hear of it.
fn progress(context: &RequestContext<RoleServer>) -> EventSinks {
    let mut sinks = EventSinks::default();
    let Some(token) = context.meta.get_progress_token() else { return sinks };
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<McpProgress>();
    let peer = context.peer.clone();
    tokio::spawn(async move {
        while let Some(progress) = receiver.recv().await {
            let mut told = ProgressNotificationParam::new(token.clone(), progress.progress);
            told.total = progress.total;
            told.message = progress.message;
            if peer.notify_progress(told).await.is_err() {
                return;
            }
        }
    });
    sinks.wiretap(move |envelope: &loopwright_core::EventEnvelope| {
        if let AgentEvent::Custom(event) = &envelope.event
            && let Some(progress) = event.get::<McpProgress>()
        {
            // The client may be gone.
            sender.send(progress.clone()).ok();
        }
    });
    sinks
}

fn listed(tool: &AnyTool) -> Tool {
    let spec = tool.spec();
    let schema = spec.parameters.as_object().cloned().unwrap_or_default();
    let effects = tool.options().side_effects;
    let is_read_only = effects == SideEffects::ReadOnly;
    let is_idempotent = is_read_only || effects == SideEffects::Idempotent;
    let annotations = ToolAnnotations::from_raw(
        None,
        Some(is_read_only),
        Some(!is_read_only),
        Some(is_idempotent),
        None,
    );
    Tool::new(spec.name.to_string(), spec.description.to_string(), Arc::new(schema))
        .with_annotations(annotations)
}

fn internal(error: &loopwright_core::BoxError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let server = &self.server;
        let capabilities = match server.content {
            Some(_) => ServerCapabilities::builder()
                .enable_tools()
                .enable_resources()
                .enable_prompts()
                .build(),
            None => ServerCapabilities::builder().enable_tools().build(),
        };
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new(server.name.clone(), server.version.clone());
        info.instructions.clone_from(&server.instructions);
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.server.agent.tools().iter().map(listed).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, &context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|it| it.cursor);
        let (resources, next) =
            self.content()?.resources(cursor).await.map_err(|error| internal(&error))?;
        let resource = |it: super::ServedResource| {
            let mut resource = Resource::new(it.uri, it.name);
            resource.description = it.description;
            resource.mime_type = it.mime_type;
            resource
        };
        let resources = resources.into_iter().map(resource).collect();
        let mut listed = ListResourcesResult::with_all_items(resources);
        listed.next_cursor = next;
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = self.content()?.read(&request.uri).await.map_err(|error| internal(&error))?;
        let unknown =
            || ErrorData::resource_not_found(format!("no resource `{}`", request.uri), None);
        let contents = ResourceContents::text(text.ok_or_else(unknown)?, &request.uri);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.content()?.prompts().await.map_err(|error| internal(&error))?;
        let prompt = |it: super::ServedPrompt| {
            let argument = || {
                let argument = PromptArgument::new("arguments");
                vec![argument.with_description("What the prompt is about").with_required(false)]
            };
            Prompt::new(it.name, Some(it.description), it.takes_arguments.then(argument))
        };
        Ok(ListPromptsResult::with_all_items(prompts.into_iter().map(prompt).collect()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.as_ref().and_then(|it| it.get("arguments"));
        let arguments = arguments.and_then(Value::as_str).unwrap_or_default();
        let text = self
            .content()?
            .prompt(&request.name, arguments)
            .await
            .map_err(|error| internal(&error))?;
        let unknown =
            || ErrorData::invalid_params(format!("unknown prompt `{}`", request.name), None);
        let message = PromptMessage::new_text(Role::User, text.ok_or_else(unknown)?);
        Ok(GetPromptResult::new(vec![message]).into())
    }
}
