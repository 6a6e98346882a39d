//! The content of a response item.

use std::sync::Arc;

use loopwright_core::messages::{Content, Part, ProviderPayload, ToolCall};

use super::wire::{Entry, Item};
use crate::lenient::Few;

/// What an item says, each in its own voice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    Text,
    Refusal,
    /// The summary of a thought.
    Summary,
    /// The thought itself.
    Thought,
    /// The arguments, or the input, of a call that the client is to run.
    Arguments,
}

impl Item<'_> {
    /// Returns `true` if the client is to run it, not the provider.
    pub(super) fn is_call(&self) -> bool {
        match &*self.kind {
            "function_call" | "custom_tool_call" | "local_shell_call" | "computer_call"
            | "apply_patch_call" => true,
            "shell_call" => self.environment.as_ref().is_none_or(|it| it.kind == "local"),
            "tool_search_call" => &*self.execution == "client",
            _ => false,
        }
    }

    /// Returns the name of the tool that is called: its type, for the wire's own tools.
    pub(super) fn tool(&self) -> &str {
        match &*self.kind {
            "function_call" | "custom_tool_call" => &self.name,
            kind => kind,
        }
    }

    /// Returns the id under which a call is answered.
    pub(super) fn call_id(&self) -> &str {
        if self.call_id.is_empty() { &self.id } else { &self.call_id }
    }

    fn arguments(&self) -> &str {
        match &*self.kind {
            "function_call" | "tool_search_call" => &self.arguments.0,
            "custom_tool_call" => &self.input,
            _ => {
                let action = self.action.or(self.operation).or(self.actions);
                action.map_or("", |it| it.get())
            }
        }
    }

    /// Returns what is heard of it: the words, the thought after its summary, or the arguments.
    pub(super) fn words(&self) -> String {
        match &*self.kind {
            "message" => texts(self.content.as_ref()),
            "reasoning" => texts(self.summary.as_ref()) + &texts(self.content.as_ref()),
            _ if self.is_call() => self.arguments().to_owned(),
            _ => String::new(),
        }
    }

    /// Returns the parts that it is: `heard` is what was heard of it, and `raw` its own form.
    ///
    /// The first part keeps that form. A refusal beside words is a part of its own, which is sent back with
    /// the words.
    pub(super) fn parts(&self, heard: String, raw: &str) -> Vec<Part> {
        let part = |content| Part::new(content).with_provider_payload(ProviderPayload::new(raw));
        match &*self.kind {
            "message" => {
                let entries = self.content.iter().flat_map(Few::iter);
                let refusal: String = entries.map(|it| &*it.refusal).collect();
                if refusal.is_empty() {
                    return vec![part(Content::Text(heard.into()))];
                }
                let refusal = Content::Refusal(refusal.into());
                if heard.is_empty() {
                    return vec![part(refusal)];
                }
                vec![part(Content::Text(heard.into())), Part::new(refusal)]
            }
            "reasoning" => vec![part(Content::Reasoning(heard.into()))],
            _ if self.is_call() => {
                let id = Some(self.call_id()).filter(|id| !id.is_empty()).map(Arc::from);
                let (name, arguments) = (self.tool().into(), heard.into());
                let call = Content::ToolCall(ToolCall { id, name, arguments });
                // Without its call id, an item cannot be answered as it is.
                let is_whole = !self.call_id.is_empty();
                vec![if is_whole { part(call) } else { Part::new(call) }]
            }
            kind => vec![part(Content::Provider { kind: kind.into() })],
        }
    }
}

fn texts(entries: Option<&Few<Entry<'_>>>) -> String {
    entries.into_iter().flat_map(Few::iter).map(|it| &*it.text).collect()
}
