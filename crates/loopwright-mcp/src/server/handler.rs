//! The methods that clients call.

use std::sync::{Arc, Mutex, PoisonError};

use loopwright_core::{AnyTool, BoxError, SideEffects};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CompletionInfo,
    ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, Prompt, PromptArgument, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Reference, Resource, ResourceTemplate,
    ServerCapabilities, ServerConfig, SetLevelRequestMethod, SubscribeRequestParams,
    SubscriptionFilter, Tool, ToolAnnotations, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};

use super::ask::{self, Asked};
use super::calls::Calls;
use super::watches::Watches;
use super::{Completion, PromptCall, PromptReply, ServedContent, ServedPrompt, ToolServer};
use super::{notes, result};
use crate::completion::CompletionTarget;
use crate::event::McpLogLevel;

/// Rounds of questions of a prompt.
const MAX_ROUNDS: usize = 10;

/// Answers one client.
pub(super) struct Handler {
    server: ToolServer,
    calls: Arc<Calls>,
    /// The level from which on the client wants log messages, if it has said so for its connection.
    level: Mutex<McpLogLevel>,
    watches: Watches,
}

impl Handler {
    pub(super) fn new(server: ToolServer, calls: Arc<Calls>) -> Self {
        Self { server, calls, level: Mutex::new(McpLogLevel::Info), watches: Watches::default() }
    }

    fn content(&self) -> Result<&dyn ServedContent, ErrorData> {
        let none = || ErrorData::invalid_params("the server has no resources and no prompts", None);
        self.server.content.as_deref().ok_or_else(none)
    }

    /// Returns the level from which on the client wants log messages of a request.
    fn level(&self, context: &RequestContext<RoleServer>) -> Option<McpLogLevel> {
        if ask::is_stateless(context) {
            return context.meta.log_level().and_then(notes::level);
        }
        Some(*self.level.lock().unwrap_or_else(PoisonError::into_inner))
    }
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

fn listed_prompt(prompt: ServedPrompt) -> Prompt {
    let argument = |it: super::ServedArgument| {
        PromptArgument::new(it.name).with_description(it.description).with_required(it.is_required)
    };
    let arguments: Vec<PromptArgument> = prompt.arguments.into_iter().map(argument).collect();
    let arguments = (!arguments.is_empty()).then_some(arguments);
    Prompt::new(prompt.name, Some(prompt.description), arguments)
}

fn internal(error: &BoxError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

#[expect(deprecated, reason = "earlier protocol revisions still use these methods")]
impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let server = &self.server;
        let mut capabilities =
            ServerCapabilities::builder().enable_tools().enable_logging().build();
        if server.content.is_some() {
            let content = ServerCapabilities::builder()
                .enable_resources()
                .enable_resources_subscribe()
                .enable_prompts()
                .enable_completions()
                .build();
            capabilities.resources = content.resources;
            capabilities.prompts = content.prompts;
            capabilities.completions = content.completions;
        }
        if server.changes.is_some() {
            let lists = [
                capabilities.tools.as_mut().map(|it| &mut it.list_changed),
                capabilities.prompts.as_mut().map(|it| &mut it.list_changed),
                capabilities.resources.as_mut().map(|it| &mut it.list_changed),
            ];
            for list_changed in lists.into_iter().flatten() {
                *list_changed = Some(true);
            }
        }
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new(server.name.clone(), server.version.clone());
        info.instructions.clone_from(&server.instructions);
        info
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if let Some(changes) = &self.server.changes {
            self.watches.tell_changes(changes.subscribe(), context.peer);
        }
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.server.agent.tools().get(name).map(listed)
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
        self.calls.call(&self.server.agent, request, self.level(&context), &context).await
    }

    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if ask::is_stateless(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        let level = notes::level(request.level).unwrap_or(McpLogLevel::Info);
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = level;
        Ok(())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|it| it.cursor);
        let listed = self.content()?.resources(cursor).await;
        let (resources, next) = listed.map_err(|error| internal(&error))?;
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

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = self.content()?.templates().await.map_err(|error| internal(&error))?;
        let template = |it: super::ServedTemplate| {
            let mut template = ResourceTemplate::new(it.uri_template, it.name);
            template.description = it.description;
            template.mime_type = it.mime_type;
            template
        };
        let templates = templates.into_iter().map(template).collect();
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let body = self.content()?.read(&request.uri).await.map_err(|error| internal(&error))?;
        let body = body.ok_or_else(|| unknown_resource(&request.uri))?;
        Ok(ReadResourceResult::new(vec![result::resource(body, request.uri)]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let watched = self.content()?.watch(&request.uri).await;
        let watched = watched.ok_or_else(|| unknown_resource(&request.uri))?;
        self.watches.add(request.uri, watched, context.peer)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watches.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let changes = self.server.changes.as_ref().map(super::ServerChanges::subscribe);
        self.watches.listen(self.server.content.as_deref(), changes, &context).await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.content()?.prompts().await.map_err(|error| internal(&error))?;
        Ok(ListPromptsResult::with_all_items(prompts.into_iter().map(listed_prompt).collect()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let served = self.content()?;
        let replies = ask::brought(request.input_responses.as_ref());
        let arguments = request.arguments.unwrap_or_default();
        let mut call = PromptCall { name: request.name, arguments, replies };
        for _ in 0..MAX_ROUNDS {
            let outcome = served.prompt(&call).await.map_err(|error| internal(&error))?;
            let unknown =
                || ErrorData::invalid_params(format!("unknown prompt `{}`", call.name), None);
            let asked = match outcome.ok_or_else(unknown)? {
                PromptReply::Messages(messages) => {
                    return Ok(GetPromptResult::new(result::prompt_messages(&messages)).into());
                }
                PromptReply::Ask(requests) => requests.to_wire(),
            };
            let asked = asked.map_err(|error| internal(&error.into()))?;
            call.replies = match ask::ask(asked, call.replies, &context).await {
                Asked::Answered(replies) => replies,
                Asked::Incapable(needed) => return Err(ask::incapable(needed)),
                Asked::Later(required, _) => return Ok(required.into()),
            };
        }
        Err(ErrorData::internal_error("the prompt asks too many questions", None))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let target = match request.r#ref {
            Reference::Prompt(prompt) => CompletionTarget::Prompt(prompt.name),
            Reference::Resource(template) => CompletionTarget::Template(template.uri),
            _ => return Err(ErrorData::invalid_params("unknown kind of `ref`", None)),
        };
        let known = request.context.and_then(|it| it.arguments).unwrap_or_default();
        let completion = Completion {
            target,
            argument: request.argument.name,
            value: request.argument.value,
            known: known.into_iter().map(|(name, value)| (name, value.into())).collect(),
        };
        let values =
            self.content()?.complete(&completion).await.map_err(|error| internal(&error))?;
        let total = u32::try_from(values.len()).ok();
        let has_more = values.len() > CompletionInfo::MAX_VALUES;
        let mut info = CompletionInfo::default();
        info.values = values.into_iter().take(CompletionInfo::MAX_VALUES).collect();
        info.total = total;
        info.has_more = Some(has_more);
        Ok(CompleteResult::new(info))
    }
}

fn unknown_resource(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(
        format!("unknown resource `{uri}`"),
        Some(serde_json::json!({ "uri": uri })),
    )
}
