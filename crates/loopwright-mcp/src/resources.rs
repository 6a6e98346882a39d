//! Resources and prompts of a server, within limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use loopwright_core::messages::Part;
use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, InputResponses, ListPromptsRequest,
    ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams, Prompt,
    ReadResourceRequest, ReadResourceRequestParams, Resource, ResourceTemplate, ServerResult,
};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::cache;
use crate::client::McpClient;
use crate::connection::Connection;
use crate::content;
use crate::error::McpError;
use crate::input::InputRound;
use crate::text;

/// Resources, templates or prompts of one server that are listed.
const MAX_LISTED: usize = 2_000;

/// Pages of one list that are read.
const MAX_PAGES: usize = 200;

/// A resource as described by its server. Texts are sanitized and truncated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ListedResource {
    /// The URI in the server. A template contains `{NAME}` placeholders.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The type of its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Whether `uri` is a template.
    pub is_template: bool,
}

/// A prompt as described by its server. Texts are sanitized and truncated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ListedPrompt {
    /// The name in the server.
    pub name: String,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its arguments, in the order of the server.
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PromptArgument {
    /// The name in the server.
    pub name: String,
    /// Whether it is required.
    pub is_required: bool,
}

impl From<Resource> for ListedResource {
    fn from(resource: Resource) -> Self {
        Self {
            uri: resource.uri,
            name: text::line(&resource.name),
            description: resource.description.as_deref().map(text::line),
            mime_type: resource.mime_type.as_deref().map(text::line),
            is_template: false,
        }
    }
}

impl From<ResourceTemplate> for ListedResource {
    fn from(template: ResourceTemplate) -> Self {
        Self {
            uri: template.uri_template,
            name: text::line(&template.name),
            description: template.description.as_deref().map(text::line),
            mime_type: template.mime_type.as_deref().map(text::line),
            is_template: true,
        }
    }
}

impl From<Prompt> for ListedPrompt {
    fn from(prompt: Prompt) -> Self {
        let arguments = prompt
            .arguments
            .unwrap_or_default()
            .into_iter()
            .map(|it| PromptArgument { name: it.name, is_required: it.required.unwrap_or(false) });
        Self {
            name: prompt.name,
            description: prompt.description.as_deref().map(text::line),
            arguments: arguments.collect(),
        }
    }
}

/// Requests on the connection of a client.
pub(crate) struct Asked<'a> {
    client: &'a McpClient,
    pub(crate) connection: Arc<Connection>,
    cancel: &'a CancellationToken,
}

impl McpClient {
    /// Lists the resources and then the resource templates, and starts the server if it is not
    /// running. A server without resources has an empty list.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be started, or does not answer.
    pub async fn resources(&self) -> Result<Vec<ListedResource>, Arc<McpError>> {
        self.resources_unless(&CancellationToken::new()).await
    }

    pub(crate) async fn resources_unless(
        &self,
        cancel: &CancellationToken,
    ) -> Result<Vec<ListedResource>, Arc<McpError>> {
        let asked = self.asked(cancel).await?;
        if !asked.connection.info.has_resources {
            return Ok(Vec::new());
        }
        let resources = asked.pages(
            cache::LIST,
            |params| {
                let request = ListResourcesRequest { params, ..ListResourcesRequest::default() };
                ClientRequest::ListResourcesRequest(request)
            },
            |result| match result {
                ServerResult::ListResourcesResult(page) => Some((page.resources, page.next_cursor)),
                _ => None,
            },
        );
        let mut listed: Vec<ListedResource> =
            resources.await?.into_iter().map(ListedResource::from).collect();
        let templates = asked.pages(
            cache::TEMPLATES,
            |params| {
                let request = ListResourceTemplatesRequest {
                    params,
                    ..ListResourceTemplatesRequest::default()
                };
                ClientRequest::ListResourceTemplatesRequest(request)
            },
            |result| match result {
                ServerResult::ListResourceTemplatesResult(page) => {
                    Some((page.resource_templates, page.next_cursor))
                }
                _ => None,
            },
        );
        match templates.await {
            Ok(templates) => listed.extend(templates.into_iter().map(ListedResource::from)),
            // Servers without templates need not know the request.
            Err(error) if matches!(*error, McpError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(listed)
    }

    /// Reads a resource as parts of a message: texts and images. Other content is replaced by a
    /// note. Starts the server if it is not running. The handler of the [host](crate::McpHost::with_answers) answers
    /// questions of the server; without one, they are declined. Dropping the future cancels the request.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be started, does not answer, or refuses the URI.
    pub async fn read_resource(&self, uri: &str) -> Result<Vec<Part>, Arc<McpError>> {
        self.read_resource_unless(uri, &CancellationToken::new()).await
    }

    pub(crate) async fn read_resource_unless(
        &self,
        uri: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<Part>, Arc<McpError>> {
        let asked = self.asked(cancel).await?;
        let cache = &asked.connection.changes.cache;
        if let Some(ServerResult::ReadResourceResult(kept)) =
            cache.get(cache::READ, uri, Instant::now())
        {
            return Ok(content::resource_parts(kept.contents));
        }
        let answer = asked.answered(cache::READ, |responses, state| {
            let mut params = ReadResourceRequestParams::new(uri);
            params.input_responses = responses;
            params.request_state = state;
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
        });
        let answer = answer.await?;
        cache.keep(cache::READ, uri, &answer, Instant::now());
        match answer {
            ServerResult::ReadResourceResult(result) => {
                Ok(content::resource_parts(result.contents))
            }
            _ => Err(Arc::new(asked.connection.requests.unexpected(cache::READ))),
        }
    }

    /// Lists the prompts, and starts the server if it is not running. A server without prompts has
    /// an empty list.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be started, or does not answer.
    pub async fn prompts(&self) -> Result<Vec<ListedPrompt>, Arc<McpError>> {
        let cancel = CancellationToken::new();
        let asked = self.asked(&cancel).await?;
        if !asked.connection.info.has_prompts {
            return Ok(Vec::new());
        }
        let prompts = asked.pages(
            cache::PROMPTS,
            |params| {
                let request = ListPromptsRequest { params, ..ListPromptsRequest::default() };
                ClientRequest::ListPromptsRequest(request)
            },
            |result| match result {
                ServerResult::ListPromptsResult(page) => Some((page.prompts, page.next_cursor)),
                _ => None,
            },
        );
        Ok(prompts.await?.into_iter().map(ListedPrompt::from).collect())
    }

    /// Fills in a prompt and returns it as parts of one message. Messages with the role of the
    /// model are marked. Otherwise like [`read_resource`](Self::read_resource).
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be started, does not answer, or refuses the arguments.
    pub async fn prompt(
        &self,
        name: &str,
        arguments: BTreeMap<String, String>,
    ) -> Result<Vec<Part>, Arc<McpError>> {
        let cancel = CancellationToken::new();
        let asked = self.asked(&cancel).await?;
        let arguments: Map<String, Value> =
            arguments.into_iter().map(|(name, value)| (name, value.into())).collect();
        let answer = asked.answered("prompts/get", |responses, state| {
            let mut params = GetPromptRequestParams::new(name);
            params.arguments = (!arguments.is_empty()).then(|| arguments.clone());
            params.input_responses = responses;
            params.request_state = state;
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        });
        match answer.await? {
            ServerResult::GetPromptResult(result) => Ok(content::prompt_parts(result.messages)),
            _ => Err(Arc::new(asked.connection.requests.unexpected("prompts/get"))),
        }
    }

    pub(crate) async fn asked<'a>(
        &'a self,
        cancel: &'a CancellationToken,
    ) -> Result<Asked<'a>, Arc<McpError>> {
        let connection = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                let (server, reason) = (self.server().name.clone(), "the request was cancelled".to_owned());
                return Err(Arc::new(McpError::Connection { server, reason }));
            }
            connection = self.connection() => connection?,
        };
        Ok(Asked { client: self, connection, cancel })
    }
}

impl Asked<'_> {
    pub(crate) async fn request(
        &self,
        method: &'static str,
        request: ClientRequest,
    ) -> Result<ServerResult, Arc<McpError>> {
        let limits = self.client.limits();
        let answer = self.connection.requests.request(method, request, limits, self.cancel);
        answer.await.inspect_err(|error| self.client.note_login(error)).map_err(Arc::new)
    }

    /// Reads the pages of a list. What is beyond the bounds is left out.
    async fn pages<T>(
        &self,
        method: &'static str,
        request: impl Fn(Option<PaginatedRequestParams>) -> ClientRequest,
        page: impl Fn(ServerResult) -> Option<(Vec<T>, Option<String>)>,
    ) -> Result<Vec<T>, Arc<McpError>> {
        let cache = &self.connection.changes.cache;
        let (mut listed, mut cursor): (Vec<T>, Option<String>) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let params = cursor
                .clone()
                .map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let key = cursor.clone().unwrap_or_default();
            let answer = if let Some(kept) = cache.get(method, &key, Instant::now()) {
                kept
            } else {
                let answer = self.request(method, request(params)).await?;
                cache.keep(method, &key, &answer, Instant::now());
                answer
            };
            let (items, next) = page(answer)
                .ok_or_else(|| Arc::new(self.connection.requests.unexpected(method)))?;
            listed.extend(items);
            listed.truncate(MAX_LISTED);
            if next.is_none() || next == cursor || listed.len() == MAX_LISTED {
                break;
            }
            cursor = next;
        }
        Ok(listed)
    }

    /// Asks until the server needs no more input.
    async fn answered(
        &self,
        method: &'static str,
        request: impl Fn(Option<InputResponses>, Option<String>) -> ClientRequest,
    ) -> Result<ServerResult, Arc<McpError>> {
        let (mut round, mut responses, mut state) = (0, None, None);
        loop {
            let answer = self.request(method, request(responses, state)).await?;
            let ServerResult::InputRequiredResult(required) = answer else { return Ok(answer) };
            let (server, host) = (&self.client.server().name, &self.client.0.host);
            let failed = |reason| Arc::new(self.client.0.failed(reason));
            let input = InputRound::new(round, required.input_requests, server, host);
            let mut input = input.map_err(failed)?;
            input.answer_without_agent(host).await.map_err(failed)?;
            round = input.round;
            responses = Some(input.responses);
            state = required.request_state;
        }
    }
}
