//! What a model is shown of a conversation.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{message::Message, sections::SectionName, transcript::Transcript, turn::Turn};

/// The conversation of a request.
///
/// The head and the turns are its stable part: the request of the next step begins with them, so
/// that a provider's cache can be used. The tail is for what changes from step to step (the time, a
/// task list): it is compiled anew, comes after everything else and is never recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    /// Turns that stand before the conversation in every request.
    pub head: Transcript,
    /// The conversation.
    pub turns: Transcript,
    /// What is said after the conversation, this time only.
    pub tail: Vec<Message>,
    /// How exchanges are written.
    pub dialect: Dialect,
    /// Why the compiler did not continue the previous prompt, if it did not.
    pub broke: Option<PrefixBreak>,
    /// What the turns were selected from.
    pub selection: Option<Arc<Selection>>,
}

/// How tool calls and their results are written for a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Dialect {
    /// As the provider's own calls and results.
    #[default]
    Native,
    /// As text: thought, action and observation.
    Text,
}

/// Why a request does not begin with the request before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PrefixBreak {
    /// Older turns were summarised, moved or cut.
    Compaction,
    /// Tool turns of an earlier execution are no longer shown.
    TraceDropped,
    /// The tools on offer are others.
    ToolsChanged,
    /// Another provider or model is asked.
    ModelChanged,
    /// The system prompt reads differently.
    PromptEdited,
    /// A hook rewrote the request.
    HookRewrote,
    /// The compiler selects by another rule.
    CompilerChanged,
}

/// What a prompt's turns were selected from, and by which rule; lets the next prompt be made by
/// looking at new turns only.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    rule: Arc<str>,
    sources: Vec<(SectionName, Transcript)>,
}

impl Selection {
    /// Names the sources, in reading order; the last one is the one that grows.
    ///
    /// The rule is any text that changes when the same turns would be judged differently.
    pub fn new<'a>(
        rule: impl Into<Arc<str>>,
        sources: impl IntoIterator<Item = (&'a str, &'a Transcript)>,
    ) -> Self {
        let sources = sources.into_iter();
        let sources = sources.map(|(name, section)| (name.into(), section.clone())).collect();
        Self { rule: rule.into(), sources }
    }

    /// Selects the turns to show, continuing the previous prompt where its sources only grew.
    ///
    /// The cost is that of the turns that came since, or of all turns where the prefix broke.
    pub fn select(self, previous: Option<&Prompt>, keep: impl Fn(&Turn) -> bool) -> Prompt {
        let mut prompt = Prompt::default();
        if let Some((previous, seen)) = self.grew_from(previous) {
            prompt.turns = previous.turns.clone();
            let grown = self.sources.last().map(|(_, section)| section.iter_from(seen));
            prompt.turns.extend(grown.into_iter().flatten().filter(|it| keep(it)).cloned());
        } else {
            prompt.broke = previous.and_then(|it| self.cause(it.selection.as_deref()));
            for (_, section) in &self.sources {
                prompt.turns.extend(section.iter().filter(|it| keep(it)).cloned());
            }
        }
        prompt.selection = Some(Arc::new(self));
        prompt
    }

    fn grew_from<'p>(&self, previous: Option<&'p Prompt>) -> Option<(&'p Prompt, usize)> {
        let previous = previous?;
        let before = previous.selection.as_deref()?;
        if before.rule != self.rule || before.sources.len() != self.sources.len() {
            return None;
        }
        let (last, fixed) = self.sources.split_last()?;
        let (last_before, fixed_before) = before.sources.split_last()?;
        let unchanged = fixed.iter().zip(fixed_before).all(|(now, then)| {
            now.0 == then.0 && now.1.len() == then.1.len() && now.1.starts_with(&then.1)
        });
        let grew = last.0 == last_before.0 && last.1.starts_with(&last_before.1);
        (unchanged && grew).then(|| (previous, last_before.1.len()))
    }

    fn cause(&self, before: Option<&Self>) -> Option<PrefixBreak> {
        let before = before?;
        let rule_name = |it: &Self| it.rule.split(' ').next().map(str::to_owned);
        Some(if before.rule == self.rule {
            PrefixBreak::Compaction
        } else if rule_name(before) == rule_name(self) {
            PrefixBreak::TraceDropped
        } else {
            PrefixBreak::CompilerChanged
        })
    }
}

impl Prompt {
    /// Shows a whole conversation.
    pub fn of(turns: Transcript) -> Self {
        Self { turns, ..Self::default() }
    }

    /// Tells whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.turns.is_empty() && self.tail.is_empty()
    }

    /// Returns the turns of the stable part, in order.
    pub fn stable(&self) -> impl Iterator<Item = &Arc<Turn>> {
        self.head.iter().chain(&self.turns)
    }
}
