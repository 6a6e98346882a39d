//! The minimum cost of a request before it is sent.

use loopwright_core::messages::{
    Content, Cost, InferenceRequest, Message, Part, Turn, TurnBody, Usage,
};

use crate::model_info::ModelInfo;

/// Four letters of English text are a token; what is shown to a model besides text is left out.
const BYTES_PER_TOKEN: u64 = 4;

/// Returns the price of reading a request. A conversation that goes on may be in the provider's cache.
pub(crate) fn least_cost(info: &ModelInfo, request: &InferenceRequest) -> Option<Cost> {
    let tokens = bytes(request) / BYTES_PER_TOKEN;
    let goes_on = request.prompt.turns.iter().any(|it| !matches!(it.body(), TurnBody::Input(_)));
    let cached = if goes_on { tokens } else { 0 };
    info.cost(&Usage { input: tokens, cache_read: cached, ..Usage::default() })
}

fn bytes(request: &InferenceRequest) -> u64 {
    let system = request.system.as_ref().map_or(0, |it| it.len());
    let tools = request
        .tools
        .iter()
        .map(|it| it.name.len() + it.description.len() + it.parameters.to_string().len());
    let prompt = &request.prompt;
    let turns = prompt.head.iter().chain(prompt.turns.iter()).map(|it| of_turn(it));
    let tail = prompt.tail.iter().map(of_message);
    (system + tools.chain(turns).chain(tail).sum::<usize>()) as u64
}

fn of_turn(turn: &Turn) -> usize {
    match turn.body() {
        TurnBody::Input(it) | TurnBody::Reply(it) => of_message(it),
        TurnBody::ToolExchange(exchange) => {
            let results = exchange.results().iter().map(|it| of_parts(&it.content));
            of_message(exchange.reply()) + results.sum::<usize>()
        }
    }
}

fn of_message(message: &Message) -> usize {
    of_parts(message.parts())
}

fn of_parts(parts: &[Part]) -> usize {
    let of = |part: &Part| match part.content() {
        Content::Text(text) | Content::Refusal(text) => text.len(),
        Content::ToolCall(call) => call.name.len() + call.arguments.len(),
        // Reasoning is not sent back to most models.
        _ => 0,
    };
    parts.iter().map(of).sum()
}
