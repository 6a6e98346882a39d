//! What Tab completes with what servers of the Model Context Protocol have: resources behind `@SERVER:`, prompts behind
//! `/SERVER:`, and the arguments of both.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use loopwright_mcp::{CompletionTarget, ListedPrompt, ListedResource, McpClient, clean};
use tokio::runtime::Handle;

use crate::input::Completion;
use crate::mcp_mentions::of_server;
use crate::mcp_servers::McpServers;
use crate::render::single_line;

/// How long Tab waits for a server.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// Completes the last word of a line. Blocks its thread, which must be none of the runtime, for a while at most. A server
/// that is asked in vain goes on to start.
pub(crate) fn complete(servers: &McpServers, runtime: &Handle, line: &str) -> Vec<Completion> {
    let Some(asked) = Asked::of(line, servers) else { return Vec::new() };
    let (sender, receiver) = mpsc::channel();
    let servers = servers.clone();
    runtime.spawn(async move {
        // The thread may not wait any more.
        sender.send(asked.answer(&servers).await).ok();
    });
    receiver.recv_timeout(PATIENCE).unwrap_or_default()
}

/// What a line asks servers for.
#[derive(Debug)]
enum Asked {
    /// The names of servers that begin with a text, behind a character.
    Servers { sign: char, typed: String },
    /// A resource of a server.
    Resource { client: McpClient, server: String, typed: String },
    /// A prompt of a server.
    Prompt { client: McpClient, server: String, typed: String },
    /// An argument of a prompt.
    Argument { client: McpClient, prompt: String, before: Vec<String>, typed: String },
}

impl Asked {
    fn of(line: &str, servers: &McpServers) -> Option<Self> {
        if servers.clients().is_empty() {
            return None;
        }
        let start = line.rfind(char::is_whitespace).map_or(0, |it| it + 1);
        let word = &line[start..];
        let named = |rest: &str| {
            let (client, typed) = of_server(rest, servers)?;
            let server = rest.split(':').next().unwrap_or_default().to_owned();
            Some((client.clone(), server, typed.to_owned()))
        };
        if let Some(rest) = word.strip_prefix('@') {
            return Some(match named(rest) {
                Some((client, server, typed)) => Self::Resource { client, server, typed },
                None => Self::Servers { sign: '@', typed: rest.to_owned() },
            });
        }
        let mut words = line.strip_prefix('/')?.split_whitespace();
        let first = words.next().unwrap_or_default();
        if start == 0 {
            return Some(match named(first) {
                Some((client, server, typed)) => Self::Prompt { client, server, typed },
                None => Self::Servers { sign: '/', typed: first.to_owned() },
            });
        }
        let (client, _, prompt) = named(first)?;
        let mut before: Vec<String> = words.map(ToOwned::to_owned).collect();
        let typed = if word.is_empty() { String::new() } else { before.pop()? };
        Some(Self::Argument { client, prompt, before, typed })
    }

    async fn answer(self, servers: &McpServers) -> Vec<Completion> {
        match self {
            Self::Servers { sign, typed } => {
                let names = servers.clients().iter().map(|it| &it.server().name);
                let plain = names.filter(|it| it.starts_with(&typed) && is_word(it));
                plain.map(|name| partial(format!("{sign}{name}:"))).collect()
            }
            Self::Resource { client, server, typed } => {
                let listed = client.resources().await.unwrap_or_default();
                let mut found = Vec::new();
                for resource in &listed {
                    found.extend(of_resource(&client, &server, resource, &typed).await);
                }
                found
            }
            Self::Prompt { client, server, typed } => {
                let prompts = client.prompts().await.unwrap_or_default();
                let fits = |it: &&ListedPrompt| it.name.starts_with(&typed) && is_word(&it.name);
                let completion = |prompt: &ListedPrompt| Completion {
                    word: format!("/{server}:{}", prompt.name),
                    about: prompt.description.as_deref().map(|it| single_line(it, 60)),
                    is_whole: true,
                };
                prompts.iter().filter(fits).map(completion).collect()
            }
            Self::Argument { client, prompt, before, typed } => {
                of_argument(&client, &prompt, &before, &typed).await
            }
        }
    }
}

/// Completes a resource, and of a template the part that has to be filled in next.
async fn of_resource(
    client: &McpClient,
    server: &str,
    resource: &ListedResource,
    typed: &str,
) -> Vec<Completion> {
    let word = |uri: &str| format!("@{server}:{uri}");
    if !resource.is_template {
        let is_meant = resource.uri.starts_with(typed) && is_word(&resource.uri);
        let about = (resource.name != resource.uri).then(|| single_line(&resource.name, 60));
        let whole = Completion { word: word(&resource.uri), about, is_whole: true };
        return is_meant.then_some(whole).into_iter().collect();
    }
    let Some(part) = TemplatePart::of(&resource.uri, typed) else { return Vec::new() };
    let target = CompletionTarget::Template(resource.uri.clone());
    let values = client.complete(&target, part.name, part.value, &part.others).await;
    let values = values.unwrap_or_default();
    if values.is_empty() {
        let is_new = part.before.len() > typed.len();
        return is_new.then(|| partial(word(part.before))).into_iter().collect();
    }
    let filled = values.into_iter().filter(|it| is_word(it)).map(|value| Completion {
        word: word(&format!("{}{value}{}", part.filled, part.after)),
        about: Some(single_line(&resource.name, 60)),
        is_whole: part.is_last,
    });
    filled.collect()
}

/// The part of a template that is filled in next.
#[derive(Debug, PartialEq, Eq)]
struct TemplatePart<'a> {
    /// The text before the first part in braces.
    before: &'a str,
    /// What is typed before this part.
    filled: &'a str,
    name: &'a str,
    /// What is typed of it.
    value: &'a str,
    /// The text of the template that follows it.
    after: &'a str,
    is_last: bool,
    /// The values of the parts before it.
    others: BTreeMap<String, String>,
}

impl<'a> TemplatePart<'a> {
    /// Returns `None` if what is typed does not fit, or is complete. Each part is taken to end where the text behind it
    /// begins.
    fn of(template: &'a str, typed: &'a str) -> Option<Self> {
        let (before, mut rest) = template.split_once('{')?;
        let mut others = BTreeMap::new();
        let mut value = match typed.strip_prefix(before) {
            Some(value) => value,
            None if before.starts_with(typed) => "",
            None => return None,
        };
        loop {
            let (name, tail) = rest.split_once('}')?;
            let name = name.trim_start_matches(['+', '#', '/', '.', ';', '?', '&']);
            let (after, next) = match tail.split_once('{') {
                Some((after, next)) => (after, Some(next)),
                None => (tail, None),
            };
            let end = if after.is_empty() { None } else { value.find(after) };
            let Some(end) = end else {
                let filled = &typed[..typed.len() - value.len()];
                let filled = if filled.len() < before.len() { before } else { filled };
                let is_last = next.is_none();
                return Some(Self { before, filled, name, value, after, is_last, others });
            };
            others.insert(name.to_owned(), value[..end].to_owned());
            value = &value[end + after.len()..];
            rest = next?;
        }
    }
}

/// Completes the argument of a prompt that is typed last.
async fn of_argument(
    client: &McpClient,
    prompt: &str,
    before: &[String],
    typed: &str,
) -> Vec<Completion> {
    let prompts = client.prompts().await.unwrap_or_default();
    let Some(listed) = prompts.into_iter().find(|it| it.name == prompt) else { return Vec::new() };
    let names: Vec<&str> = listed.arguments.iter().map(|it| &*it.name).collect();
    let assigned = |word: &str| {
        let (name, value) = word.split_once('=')?;
        names.contains(&name).then(|| (name.to_owned(), value.to_owned()))
    };
    let mut others = BTreeMap::new();
    for (position, word) in before.iter().enumerate() {
        let given =
            assigned(word).or_else(|| Some(((*names.get(position)?).to_owned(), word.clone())));
        others.extend(given);
    }
    let (sign, name, value) = match assigned(typed) {
        Some((name, value)) => (format!("{name}="), name, value),
        None => match names.get(before.len()) {
            Some(name) => (String::new(), (*name).to_owned(), typed.to_owned()),
            None => return Vec::new(),
        },
    };
    let target = CompletionTarget::Prompt(prompt.to_owned());
    let values = client.complete(&target, &name, &value, &others).await.unwrap_or_default();
    let words = values.into_iter().filter(|it| is_word(it));
    let about = Some(single_line(&name, 60));
    let whole = |value: String| Completion {
        word: format!("{sign}{value}"),
        about: about.clone(),
        is_whole: true,
    };
    words.map(whole).collect()
}

fn partial(word: String) -> Completion {
    Completion { word, about: None, is_whole: false }
}

/// Returns `true` for a text that can be typed as one word, and shown.
fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace) && clean(text) == text
}

#[cfg(test)]
mod tests {
    use super::*;

    type Part = (String, String, String, bool);

    fn part(template: &'static str, typed: &'static str) -> Option<Part> {
        let part = TemplatePart::of(template, typed)?;
        Some((part.filled.into(), part.name.into(), part.value.into(), part.is_last))
    }

    fn part_of(filled: &str, name: &str, value: &str, is_last: bool) -> Part {
        (filled.into(), name.into(), value.into(), is_last)
    }

    #[test]
    fn the_next_part_of_a_template_is_found_from_what_is_typed() {
        let template = "git:///{owner}/{repo}/issues";
        assert_eq!(part(template, "gi"), Some(part_of("git:///", "owner", "", false)));
        assert_eq!(part(template, "git:///a"), Some(part_of("git:///", "owner", "a", false)));
        assert_eq!(part(template, "git:///a/b"), Some(part_of("git:///a/", "repo", "b", true)));
        assert_eq!(part(template, "git:///a/b/issues"), None);
        assert_eq!(part(template, "http"), None);
        assert_eq!(part("no braces", "no"), None);
        let others = TemplatePart::of(template, "git:///a/b").unwrap().others;
        assert_eq!(others, BTreeMap::from([("owner".to_owned(), "a".to_owned())]));
    }
}
