//! Validation of conversations.

use loopwright_core::messages::{Role, Transcript, Turn, TurnBody};

/// A conversation as a provider sees it: one item after the other.
enum Item {
    Said { role: Role, calls: usize },
    Result,
}

/// Checks a conversation item by item, as a provider would, and describes all problems: every call
/// must have exactly one result, results must directly follow the message with the calls, only the
/// model calls tools, and the steps of an execution are in order.
///
/// It does not rely on the checks of the types.
///
/// # Errors
///
/// Returns the problems, one sentence each, with the number of the turn.
pub fn validate(transcript: &Transcript) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    let mut owed: usize = 0;
    for (number, turn) in transcript.iter().enumerate() {
        for item in flatten(turn) {
            match (item, owed) {
                (Item::Result, 0) => problems.push(format!("turn {number}: a result of no call")),
                (Item::Result, _) => owed -= 1,
                (Item::Said { role, calls }, _) => {
                    if owed > 0 {
                        problems.push(format!("turn {number}: {owed} calls before have no result"));
                    }
                    if calls > 0 && role != Role::Assistant {
                        problems.push(format!("turn {number}: {role:?} calls tools"));
                    }
                    owed = calls;
                }
            }
        }
        problems.extend(misfit(turn).map(|it| format!("turn {number}: {it}")));
    }
    if owed > 0 {
        problems.push(format!("at the end: {owed} calls have no result"));
    }
    problems.extend(disorder(transcript));
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn flatten(turn: &Turn) -> Vec<Item> {
    let message = turn.message();
    let calls = message.parts().iter().filter(|part| part.as_tool_call().is_some()).count();
    let mut items = vec![Item::Said { role: message.role(), calls }];
    if let TurnBody::ToolExchange(exchange) = turn.body() {
        items.extend(exchange.results().iter().map(|_| Item::Result));
    }
    items
}

/// Says what is wrong with the kind of a turn.
fn misfit(turn: &Turn) -> Option<&'static str> {
    let by_model = turn.message().role() == Role::Assistant;
    match turn.body() {
        TurnBody::Input(_) if by_model => Some("an input of the model"),
        TurnBody::Reply(_) | TurnBody::ToolExchange(_) if !by_model => {
            Some("a reply that is not from the model")
        }
        TurnBody::ToolExchange(exchange) if exchange.results().is_empty() => {
            Some("an exchange without results")
        }
        TurnBody::ToolExchange(_) if !turn.meta().is_trace => {
            Some("an exchange that is not a trace")
        }
        TurnBody::Reply(_) if turn.meta().is_trace => Some("an answer that is a trace"),
        _ => None,
    }
}

/// Describes steps that come after later ones of the same execution, and steps that come twice.
fn disorder(transcript: &Transcript) -> Vec<String> {
    let metas = transcript.iter().map(|turn| turn.meta());
    let tagged: Vec<_> =
        metas.filter_map(|meta| Some((meta.execution.as_ref()?, meta.step?))).collect();
    let pairs = tagged.iter().zip(tagged.iter().skip(1));
    pairs
        .filter(|(one, next)| one.0 == next.0 && one.1 >= next.1)
        .map(|(one, next)| format!("step {} of {} after step {}", next.1, next.0, one.1))
        .collect()
}

#[cfg(test)]
mod tests {
    use loopwright_core::messages::{
        Content, Message, Part, ToolCall, ToolExchange, ToolResult, TurnMeta,
    };

    use super::*;

    fn exchange(step: u32) -> Turn {
        let call = Part::new(Content::ToolCall(ToolCall::new("1", "look", "{}")));
        let reply = Message::new(Role::Assistant, [call]);
        let body = ToolExchange::new(reply, [ToolResult::text("seen")]).unwrap();
        let meta = TurnMeta { execution: Some("e".into()), step: Some(step), is_trace: true };
        Turn::new(TurnBody::ToolExchange(body)).unwrap().with_meta(meta)
    }

    #[test]
    fn a_conversation_with_a_result_for_each_call_is_valid() {
        let said = Turn::from_message(Message::user("look")).unwrap();
        assert_eq!(validate(&[said, exchange(1), exchange(2)].into_iter().collect()), Ok(()));
    }

    #[test]
    fn steps_out_of_order_and_exchanges_that_are_no_traces_are_problems() {
        let transcript = [exchange(2), exchange(1)].into_iter().collect();
        assert_eq!(validate(&transcript), Err(vec!["step 1 of e after step 2".to_owned()]));
        let untagged = exchange(1).with_meta(TurnMeta::default());
        let problems = vec!["turn 0: an exchange that is not a trace".to_owned()];
        assert_eq!(validate(&[untagged].into_iter().collect()), Err(problems));
    }
}
