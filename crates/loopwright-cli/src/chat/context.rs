//! `/context` and `/cost`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::Style;
use loopwright_capabilities::summarization::{ApproximateCounter, TokenCounter as _, part_tokens};
use loopwright_core::{
    AgentLoop, AgentState, Change, ChangeRecord, Spend,
    messages::{Content, Message, Role, TurnBody},
};

use crate::render::{count, duration, number, sanitize_terminal};
use crate::table::table;

const FAINT: Style = Style::new().dimmed();

/// The content of the context window, in tokens estimated at four characters each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Parts {
    instructions: u64,
    tools: u64,
    user: u64,
    answers: u64,
    reasoning: u64,
    calls: u64,
    results: u64,
}

/// Returns the output of `/context`: the use of a context window of this size.
pub(super) fn context(agent: &AgentLoop, state: &AgentState, window: u64) -> String {
    let parts = Parts::of(agent, state);
    let tools = format!("tools ({})", agent.tools().len());
    let rows = [
        ("instructions", parts.instructions),
        (tools.as_str(), parts.tools),
        ("your messages", parts.user),
        ("answers", parts.answers),
        ("reasoning", parts.reasoning),
        ("tool calls", parts.calls),
        ("tool results", parts.results),
    ];
    let all: u64 = rows.iter().map(|(_, tokens)| tokens).sum();
    let percent = |tokens: u64| (tokens * 100).checked_div(window).unwrap_or_default();
    let mut text =
        format!("about {} of {} tokens ({}%)\n", number(all), number(window), percent(all));
    let rows = rows.iter().filter(|(_, tokens)| *tokens > 0);
    let row = |(name, tokens): &(&str, u64)| {
        vec![
            format!("  {name}"),
            format!("{:>9}", number(*tokens)),
            format!("{:>3}%", percent(*tokens)),
        ]
    };
    text += &table(&rows.map(row).collect::<Vec<_>>());
    if let Some(usage) =
        state.last_step().map(loopwright_core::Step::usage).filter(|it| it.input > 0)
    {
        let (input, cached) = (number(usage.input), number(usage.cache_read));
        let _ = writeln!(text, "the last request had {input} tokens, {cached} of them cached");
    }
    text.trim_end().to_owned()
}

/// Returns the output of `/cost`, with the part of each model if there are several.
pub(super) fn cost(state: &AgentState, changes: &[ChangeRecord]) -> String {
    let spent = state.total_spent();
    let usage = spent.usage;
    let mut rows = vec![
        ("steps", number(state.total_steps())),
        ("input", number(usage.input)),
        ("  from the cache", number(usage.cache_read)),
        ("output", number(usage.output)),
        ("  reasoning", number(usage.reasoning)),
        ("time worked", duration(state.cumulative_time())),
    ];
    let dollars = spent.cost.dollars();
    let cost = if dollars > 0.0 { format!("${dollars:.4}") } else { "price unknown".to_owned() };
    rows.push(("cost", cost));
    let mut rows: Vec<_> = rows.into_iter().map(|(name, it)| vec![name.to_owned(), it]).collect();
    let models = by_model(changes);
    if models.len() > 1 {
        rows.extend(models.iter().map(|(name, spend)| vec![format!("  {name}"), part(*spend)]));
    }
    format!("{}\n{}", count(usage.total(), "token"), table(&rows)).trim_end().to_owned()
}

/// Returns what the responses of each model took, in the order of the names. What sub-agents and tools spent is not among it.
fn by_model(changes: &[ChangeRecord]) -> BTreeMap<String, Spend> {
    let mut models: BTreeMap<String, Spend> = BTreeMap::new();
    for record in changes {
        let Change::ModelResponded(response) = &record.change else { continue };
        let Some(origin) = response.message.origin() else { continue };
        let name = sanitize_terminal(&format!("{}/{}", origin.provider, origin.model));
        *models.entry(name).or_default() += response.spend;
    }
    models
}

/// Writes the part of one model.
fn part(spend: Spend) -> String {
    let tokens = format!("{} in, {} out", number(spend.usage.input), number(spend.usage.output));
    match spend.cost.dollars() {
        dollars if dollars > 0.0 => format!("{tokens}, ${dollars:.4}"),
        _ => tokens,
    }
}

/// Returns the output of `/thinking`: the last reasoning of the model.
pub(super) fn reasoning(state: &AgentState) -> String {
    let transcript = state.transcript();
    let turns = (0..transcript.len()).rev().filter_map(|index| transcript.get(index));
    let thought = turns.map(|turn| turn.message().reasoning()).find(|it| !it.trim().is_empty());
    match thought {
        Some(thought) => format!("{FAINT}{}{FAINT:#}", sanitize_terminal(thought.trim())),
        None => "the model returned no reasoning".to_owned(),
    }
}

impl Parts {
    fn of(agent: &AgentLoop, state: &AgentState) -> Self {
        let counter = ApproximateCounter;
        let mut parts = Self::default();
        let texts = agent.instructions().texts(agent);
        parts.instructions = texts.map(|(_, text)| counter.count(&text)).sum();
        if let Some(own) = state.context().system_prompt() {
            parts.instructions += counter.count(own);
        }
        for spec in agent.tools().specs().iter() {
            let texts = [&*spec.name, &*spec.description, &spec.parameters.to_string()];
            parts.tools += texts.iter().map(|it| counter.count(it)).sum::<u64>();
        }
        for turn in agent.preamble().iter().chain(state.transcript().iter()) {
            match turn.body() {
                TurnBody::Input(message) | TurnBody::Reply(message) => parts.message(message),
                TurnBody::ToolExchange(exchange) => {
                    parts.message(exchange.reply());
                    let results = exchange.results().iter().flat_map(|it| it.content.iter());
                    parts.results += results.map(|part| part_tokens(&counter, part)).sum::<u64>();
                }
            }
        }
        parts
    }

    fn message(&mut self, message: &Message) {
        for part in message.parts() {
            let kind = match (part.content(), message.role()) {
                (Content::Reasoning(_), _) => &mut self.reasoning,
                (Content::ToolCall(_), _) => &mut self.calls,
                (_, Role::Assistant) => &mut self.answers,
                (_, Role::User) => &mut self.user,
                _ => &mut self.instructions,
            };
            *kind += part_tokens(&ApproximateCounter, part);
        }
    }
}
