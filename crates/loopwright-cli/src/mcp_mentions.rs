//! Mentions of server content: `@SERVER:URI` attaches a resource, and
//! `/SERVER:PROMPT` fills in a prompt.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use futures::future::join_all;
use loopwright_core::messages::{Message, Part, Role};
use loopwright_mcp::{ListedPrompt, McpClient, server_part};

use crate::mcp_servers::McpServers;
use crate::render::single_line;

/// The maximum number of resources in one message.
const MAX_ATTACHED: usize = 20;

/// The content that follows the text of a message: text, images and documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attachments {
    text: String,
    pictures: Vec<Part>,
    /// The names of the attached resources, in the form in which they are shown.
    pub(crate) resources: Vec<String>,
    /// The reasons why other resources were not attached.
    pub(crate) notes: Vec<String>,
}

impl Attachments {
    /// Adds an image or a document.
    pub(crate) fn attach(&mut self, media: Part) {
        self.pictures.push(media);
    }

    /// Returns the images and documents.
    pub(crate) fn media(&self) -> &[Part] {
        &self.pictures
    }

    /// Builds a message from a text and the attachments.
    pub(crate) fn to_message(&self, text: &str) -> Message {
        let text = format!("{text}{}", self.text);
        if self.pictures.is_empty() {
            return Message::user(text);
        }
        let parts = std::iter::once(Part::text(text)).chain(self.pictures.iter().cloned());
        Message::new(Role::User, parts)
    }

    /// Adds parts. Texts are joined, because not every model accepts messages with several texts.
    fn add(&mut self, parts: Vec<Part>) {
        for part in parts {
            match part.as_text() {
                Some(text) => {
                    self.text.push_str(text);
                    self.text.push('\n');
                }
                None => self.pictures.push(part),
            }
        }
    }
}

/// Reads the resources that a text names as `@SERVER:URI`, concurrently. Pass only text that the user typed, because
/// each name causes a request to a server. Other words that start with `@` are ignored. Dropping the future cancels the
/// requests.
pub(crate) async fn attach(typed: &str, servers: &McpServers) -> Attachments {
    let mut attached = Attachments::default();
    let mut named: Vec<(&McpClient, &str)> = Vec::new();
    for word in typed.split_whitespace() {
        let Some((client, uri)) = word.strip_prefix('@').and_then(|it| of_server(it, servers))
        else {
            continue;
        };
        // A sentence can end after a URI.
        let uri = uri.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
        let is_new = !named.iter().any(|it| it.1 == uri && it.0.server() == client.server());
        if !uri.is_empty() && is_new {
            named.push((client, uri));
        }
    }
    if named.len() > MAX_ATTACHED {
        attached.notes.push(format!("only the first {MAX_ATTACHED} resources are attached"));
        named.truncate(MAX_ATTACHED);
    }
    let reading = named.iter().map(async |(client, uri)| client.read_resource(uri).await);
    for ((client, uri), read) in named.iter().zip(join_all(reading).await) {
        let name = &client.server().name;
        let shown = single_line(&format!("{name}:{uri}"), 200);
        match read {
            Ok(parts) => {
                // Writing to a text does not fail.
                let _ = writeln!(attached.text, "\n\n<resource server=\"{name}\" uri=\"{uri}\">");
                attached.add(parts);
                attached.text.push_str("</resource>");
                attached.resources.push(shown);
            }
            Err(error) => attached.notes.push(format!("{shown} was not attached: {error}")),
        }
    }
    attached
}

/// Fills in the prompt that a command names as `SERVER:PROMPT`. Returns `None` if the server is unknown, and an error
/// message if the prompt cannot be filled in.
pub(crate) async fn prompt(
    name: &str,
    typed: &str,
    servers: &McpServers,
) -> Option<Result<Attachments, String>> {
    let (client, name) = of_server(name, servers)?;
    Some(filled(client, name, typed).await)
}

async fn filled(client: &McpClient, name: &str, typed: &str) -> Result<Attachments, String> {
    let prompts = client.prompts().await.map_err(|error| error.to_string())?;
    let Some(prompt) = prompts.iter().find(|it| it.name == name) else {
        let names: Vec<String> = prompts.iter().map(|it| single_line(&it.name, 64)).collect();
        let available = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let (server, name) = (&client.server().name, single_line(name, 64));
        return Err(format!(
            "MCP server `{server}` has no prompt `{name}`; available: {available}"
        ));
    };
    let arguments = arguments(prompt, typed)?;
    let parts = client.prompt(&prompt.name, arguments).await.map_err(|error| error.to_string())?;
    let mut attached = Attachments::default();
    attached.add(parts);
    attached.text.truncate(attached.text.trim_end().len());
    if attached.text.is_empty() && attached.pictures.is_empty() {
        return Err(format!("prompt `{}` is empty", single_line(name, 64)));
    }
    Ok(attached)
}

/// Parses the arguments of a prompt: one word each in the order of the prompt, or `NAME=WORDS`. The last one takes all the
/// remaining words.
fn arguments(prompt: &ListedPrompt, typed: &str) -> Result<BTreeMap<String, String>, String> {
    let mut arguments: BTreeMap<String, String> = BTreeMap::new();
    let mut in_order = prompt.arguments.iter();
    let mut last = None;
    for word in typed.split_whitespace() {
        let named = word.split_once('=').and_then(|(name, value)| {
            Some((prompt.arguments.iter().find(|it| it.name == name)?, value))
        });
        if let Some((argument, value)) = named {
            arguments.insert(argument.name.clone(), value.to_owned());
            last = Some(argument.name.clone());
            // Words after a name belong to it.
            in_order = [].iter();
        } else if let Some(argument) = in_order.next() {
            arguments.insert(argument.name.clone(), word.to_owned());
            last = Some(argument.name.clone());
        } else if let Some(value) = last.as_ref().and_then(|it| arguments.get_mut(it)) {
            value.push(' ');
            value.push_str(word);
        } else {
            let name = single_line(&prompt.name, 64);
            return Err(format!("prompt `{name}` takes no arguments"));
        }
    }
    let is_missing = |name: &&str| !arguments.contains_key(*name);
    let required = prompt.arguments.iter().filter(|it| it.is_required).map(|it| &*it.name);
    let missing: Vec<String> =
        required.filter(is_missing).map(|name| single_line(name, 64)).collect();
    if missing.is_empty() {
        return Ok(arguments);
    }
    let name = single_line(&prompt.name, 64);
    Err(format!(
        "prompt `{name}` requires {}; pass each as NAME=VALUE, or pass only the values in order",
        missing.join(", ")
    ))
}

/// Splits `SERVER:REST`. A server matches by its configured name and by the form of it in the names of its tools.
pub(crate) fn of_server<'a>(
    word: &'a str,
    servers: &'a McpServers,
) -> Option<(&'a McpClient, &'a str)> {
    let (server, rest) = word.split_once(':')?;
    let is_named = |client: &&McpClient| {
        let name = &client.server().name;
        name == server || server_part(name) == server
    };
    Some((servers.clients().iter().find(is_named)?, rest))
}
