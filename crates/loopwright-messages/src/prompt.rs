//! The part of a conversation that a model sees.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{
    ids::ExecutionId,
    message::Message,
    sections::SectionName,
    transcript::{Mark, Transcript},
    turn::Turn,
};

/// The conversation of a request.
///
/// The head and the turns are its stable part: the request of the next step begins with them, so
/// that a provider's cache can be used. The tail is for content that changes from step to step (the
/// time, a task list). It is compiled for each request, comes last and is never recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    /// Turns before the conversation in every request.
    pub head: Transcript,
    /// The conversation.
    pub turns: Transcript,
    /// Messages after the conversation, in this request only.
    pub tail: Vec<Message>,
    /// The format of tool exchanges.
    pub dialect: ToolCallFormat,
    /// The cause if the compiler did not continue the previous prompt.
    pub prefix_break: Option<CacheBreak>,
    /// The sources of the selected turns.
    pub selected: Option<Arc<Selected>>,
}

/// The format of tool calls and their results for a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolCallFormat {
    /// As the provider's own calls and results.
    #[default]
    Native,
    /// As text: thought, action and observation.
    Text,
}

/// The cause if a request does not begin with the previous request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheBreak {
    /// Older turns were summarized, moved or cut.
    Compaction,
    /// Tool turns of an earlier execution are no longer included.
    TraceDropped,
    /// The available tools changed.
    ToolsChanged,
    /// Tools were added after the previous ones.
    ToolAdded,
    /// The provider or the model changed.
    ModelChanged,
    /// The system prompt changed.
    PromptEdited,
    /// A hook rewrote the request.
    HookRewrote,
    /// The compiler selects by a different rule.
    CompilerChanged,
}

/// The sources of a prompt's turns, and the rule of their selection. With them, the next prompt
/// needs to examine only new turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    rule: Rule,
    sources: Vec<(SectionName, Mark)>,
}

/// The rule that selects turns, with an execution if the rule depends on one.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    name: Cow<'static, str>,
    about: Option<ExecutionId>,
}

/// Turns to select from, with the selection rule.
#[derive(Clone, Debug)]
pub struct Selection<'a> {
    rule: Rule,
    sources: SmallVec<[(SectionName, &'a Transcript); 2]>,
}

impl<'a> Selection<'a> {
    /// Sets the sources, in reading order. The last one is the one that grows.
    ///
    /// The rule is any text that changes when the selection of the same turns would change.
    pub fn new<N: Into<SectionName>>(
        rule: impl Into<Cow<'static, str>>,
        sources: impl IntoIterator<Item = (N, &'a Transcript)>,
    ) -> Self {
        let sources = sources.into_iter().map(|(name, section)| (name.into(), section)).collect();
        Self { rule: Rule { name: rule.into(), about: None }, sources }
    }

    /// Makes the selection depend on the execution.
    #[must_use]
    pub fn for_execution(mut self, execution: Option<&ExecutionId>) -> Self {
        self.rule.about = execution.cloned();
        self
    }

    /// Selects the turns, and continues the previous prompt if its sources only grew.
    ///
    /// The cost is proportional to the new turns, or to all turns if the prefix broke.
    pub fn select(self, previous: Option<Prompt>, keep: impl Fn(&Turn) -> bool) -> Prompt {
        match (self.grew_from(previous.as_ref()), previous) {
            (Some(seen), Some(previous)) => self.go_on(previous, seen, keep),
            (_, previous) => self.start_over(previous, keep),
        }
    }

    /// Appends the new turns. The previous prompt usually has no other owner, so that it grows in
    /// place.
    fn go_on(self, previous: Prompt, seen: usize, keep: impl Fn(&Turn) -> bool) -> Prompt {
        let (mut turns, mut selected) = (previous.turns, previous.selected);
        let grown = self.sources.last().map(|(_, section)| *section);
        let new = grown.into_iter().flat_map(|section| section.iter_from(seen));
        turns.extend(new.filter(|it| keep(it)).cloned());
        match (selected.as_mut().and_then(Arc::get_mut), grown) {
            (Some(Selected { sources, .. }), Some(grown)) => {
                if let Some((_, mark)) = sources.last_mut() {
                    *mark = grown.mark();
                }
            }
            _ => selected = Some(Arc::new(self.selected())),
        }
        Prompt { turns, selected, ..Prompt::default() }
    }

    fn start_over(self, previous: Option<Prompt>, keep: impl Fn(&Turn) -> bool) -> Prompt {
        let broke = previous.and_then(|it| self.cause(it.selected.as_deref()));
        let mut turns = Transcript::new();
        for (_, section) in &self.sources {
            turns.extend(section.iter().filter(|it| keep(it)).cloned());
        }
        let selected = Some(Arc::new(self.selected()));
        Prompt { turns, prefix_break: broke, selected, ..Prompt::default() }
    }

    fn selected(self) -> Selected {
        let sources = self.sources.into_iter().map(|(name, section)| (name, section.mark()));
        Selected { rule: self.rule, sources: sources.collect() }
    }

    fn grew_from(&self, previous: Option<&Prompt>) -> Option<usize> {
        let before = previous?.selected.as_deref()?;
        if before.rule != self.rule || before.sources.len() != self.sources.len() {
            return None;
        }
        let (last, fixed) = self.sources.split_last()?;
        let (last_before, fixed_before) = before.sources.split_last()?;
        let unchanged = |(now, then): (&(SectionName, &Transcript), &(SectionName, Mark))| {
            now.0 == then.0 && now.1.mark() == then.1
        };
        let is_same = fixed.iter().zip(fixed_before).all(unchanged);
        let grew = last.0 == last_before.0 && last.1.extends(last_before.1);
        (is_same && grew).then(|| last_before.1.turns())
    }

    fn cause(&self, before: Option<&Selected>) -> Option<CacheBreak> {
        let before = before?;
        Some(if before.rule == self.rule {
            CacheBreak::Compaction
        } else if before.rule.name == self.rule.name {
            CacheBreak::TraceDropped
        } else {
            CacheBreak::CompilerChanged
        })
    }
}

impl Prompt {
    /// Creates a prompt from a whole conversation.
    pub fn of(turns: Transcript) -> Self {
        Self { turns, ..Self::default() }
    }

    /// Returns `true` if the prompt is empty.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.turns.is_empty() && self.tail.is_empty()
    }

    /// Returns the turns of the stable part, in order.
    pub fn stable(&self) -> impl Iterator<Item = &Arc<Turn>> {
        self.head.iter().chain(&self.turns)
    }
}
