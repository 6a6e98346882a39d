//! The resources and prompts of the suite.

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream::BoxStream};
use loopwright_core::{
    BoxError,
    messages::{Content, Media, MediaSource, Message, Part, Role},
};
use loopwright_mcp::{
    ClientRequests, Completion, CompletionTarget, PromptCall, PromptReply, ResourceBody,
    ServedArgument, ServedContent, ServedPrompt, ServedResource, ServedTemplate,
};
use serde_json::json;

use crate::tools::IMAGE;

/// The bytes of a picture.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// `Resource content for prompt`
const RESOURCE: &str = "UmVzb3VyY2UgY29udGVudCBmb3IgcHJvbXB0";

pub(crate) struct Fixtures;

fn resource(uri: &str, name: &str, mime_type: &str) -> ServedResource {
    let (uri, name, mime_type) = (uri.to_owned(), name.to_owned(), Some(mime_type.to_owned()));
    ServedResource { uri, name, description: Some("A fixture.".to_owned()), mime_type }
}

fn prompt(name: &str, arguments: &[(&str, bool)]) -> ServedPrompt {
    let argument = |(name, is_required): &(&str, bool)| ServedArgument {
        name: (*name).to_owned(),
        description: "An argument.".to_owned(),
        is_required: *is_required,
    };
    let arguments = arguments.iter().map(argument).collect();
    ServedPrompt { name: name.to_owned(), description: "A fixture.".to_owned(), arguments }
}

fn user(parts: impl IntoIterator<Item = Part>) -> PromptReply {
    PromptReply::Messages(vec![Message::new(Role::User, parts)])
}

#[async_trait]
impl ServedContent for Fixtures {
    async fn resources(
        &self,
        _: Option<String>,
    ) -> Result<(Vec<ServedResource>, Option<String>), BoxError> {
        let listed = vec![
            resource("test://static-text", "Static text", "text/plain"),
            resource("test://static-binary", "Static binary", "image/png"),
            resource("test://watched-resource", "Watched", "text/plain"),
        ];
        Ok((listed, None))
    }

    async fn templates(&self) -> Result<Vec<ServedTemplate>, BoxError> {
        Ok(vec![ServedTemplate {
            uri_template: "test://template/{id}/data".to_owned(),
            name: "Template".to_owned(),
            description: Some("A fixture.".to_owned()),
            mime_type: Some("application/json".to_owned()),
        }])
    }

    async fn read(&self, uri: &str) -> Result<Option<ResourceBody>, BoxError> {
        let template = uri.strip_prefix("test://template/").and_then(|it| it.strip_suffix("/data"));
        Ok(match (uri, template) {
            ("test://static-text", _) => {
                let text = "This is the content of the static text resource.";
                Some(ResourceBody::text("text/plain", text))
            }
            ("test://static-binary", _) => Some(ResourceBody::bytes("image/png", PNG)),
            ("test://watched-resource", _) => Some(ResourceBody::text("text/plain", "unchanged")),
            (_, Some(id)) => {
                let data =
                    json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                Some(ResourceBody::text("application/json", data.to_string()))
            }
            _ => None,
        })
    }

    async fn watch(&self, uri: &str) -> Option<BoxStream<'static, ()>> {
        // They never change.
        uri.starts_with("test://").then(|| futures_util::stream::pending().boxed())
    }

    async fn prompts(&self) -> Result<Vec<ServedPrompt>, BoxError> {
        Ok(vec![
            prompt("test_simple_prompt", &[]),
            prompt("test_prompt_with_arguments", &[("arg1", true), ("arg2", true)]),
            prompt("test_prompt_with_embedded_resource", &[("resourceUri", true)]),
            prompt("test_prompt_with_image", &[]),
            prompt("test_input_required_result_prompt", &[]),
        ])
    }

    async fn prompt(&self, call: &PromptCall) -> Result<Option<PromptReply>, BoxError> {
        Ok(Some(match &*call.name {
            "test_simple_prompt" => user([Part::text("This is a simple prompt for testing.")]),
            "test_prompt_with_arguments" => {
                let (first, second) = (call.argument("arg1"), call.argument("arg2"));
                user([Part::text(format!(
                    "Prompt with arguments: arg1='{first}', arg2='{second}'"
                ))])
            }
            "test_prompt_with_embedded_resource" => {
                let uri = call.argument("resourceUri");
                let uri = if uri.is_empty() { "test://static-text" } else { uri };
                let source = MediaSource::Base64(RESOURCE.into());
                let media = Media { mime: "text/plain".into(), source, name: Some(uri.into()) };
                user([
                    Part::new(Content::Document(media)),
                    Part::text("Please process the embedded resource above."),
                ])
            }
            "test_prompt_with_image" => user([
                Part::image("image/png", IMAGE),
                Part::text("Please analyze the image above."),
            ]),
            "test_input_required_result_prompt" => {
                if let Some(content) = call.replies.accepted("user_context") {
                    let context = content["context"].as_str().unwrap_or_default();
                    user([Part::text(format!("Context: {context}"))])
                } else {
                    let field = json!({ "type": "string" });
                    let schema = json!({ "type": "object", "properties": { "context": field }, "required": ["context"] });
                    let message = "What context should the prompt use?";
                    PromptReply::Ask(ClientRequests::new().with_question(
                        "user_context",
                        message,
                        schema,
                    ))
                }
            }
            _ => return Ok(None),
        }))
    }

    async fn complete(&self, completion: &Completion) -> Result<Vec<String>, BoxError> {
        let values: &[&str] = match &completion.target {
            CompletionTarget::Prompt(_) => &["test-value", "test-other"],
            _ => &["1", "2", "3"],
        };
        let fitting = values.iter().filter(|it| it.starts_with(&completion.value));
        Ok(fitting.map(|it| (*it).to_owned()).collect())
    }
}
