//! What a long run costs: as much in the end as in the beginning.

use crate::summarization::{MessageBufferSummarized, MessagesMovedToBuffer};
use loopwright_core::{
    AgentState, RunOptions,
    events::PromptCacheBroken,
    messages::{CacheBreak, InferenceRequest},
};
use loopwright_testing::{FakeModel, ScenarioStep, block_on};

use super::support::{Words, agent, limits};

const STEPS: usize = 2000;

fn long_run() -> FakeModel {
    let steps = (1..STEPS).map(|step| ScenarioStep::tool(format!("look at number {step}")));
    FakeModel::script(steps.chain(["done".into()]))
}

#[test]
fn each_turn_is_counted_once_however_long_the_run_is() {
    let counter = Words::default();
    let summarization = limits(50, 100, 10)
        .with_token_counter(counter.clone())
        .with_model(FakeModel::script(["sum"]));
    let (agent, events) = agent(&long_run(), summarization);
    let mut run = agent.start(AgentState::new().with_user_message("go"), RunOptions::default());
    let mut looked_at = Vec::new();
    let (total, most) = block_on(async {
        while run.next().await.is_some() {
            looked_at.push(counter.looked_at());
        }
        (looked_at.iter().sum::<u64>(), looked_at.iter().copied().max().unwrap())
    });
    // A step says `look at number 1234`, calls the tool with `{}` and hears `done`; a summary is `sum`,
    // counted when it comes and when it is told of.
    let said: usize = (1..STEPS).map(|step| format!("look at number {step}").len()).sum();
    let called = (STEPS - 1) * (loopwright_testing::SCRIPTED_TOOL.len() + "{}done".len());
    let summaries = events.events_of::<MessageBufferSummarized>().len() * 2 * "sum".len();
    assert_eq!(total, ("go".len() + "done".len() + said + called + summaries) as u64);
    assert!(most < 60, "{most} bytes in one step");
    assert!(events.events_of::<MessageBufferSummarized>().len() > 50);
    assert!(events.events_of::<MessagesMovedToBuffer>().len() > 1000);
}

/// What a provider would be sent of the conversation, turn by turn.
fn sent(request: &InferenceRequest) -> Vec<String> {
    request.prompt.turns.iter().map(|turn| serde_json::to_string(turn).unwrap()).collect()
}

#[test]
fn requests_begin_with_the_bytes_of_the_one_before_but_where_a_summary_is_told_of() {
    let model = FakeModel::script(
        (1..300).map(|step| ScenarioStep::tool(format!("look at {step}"))).chain(["done".into()]),
    );
    let (agent, events) = agent(&model, limits(50, 100, 10).with_model(FakeModel::script(["sum"])));
    block_on(agent.execute(AgentState::new().with_user_message("go")));
    let requests: Vec<_> = model.requests().iter().map(sent).collect();
    let pairs = requests.iter().zip(requests.iter().skip(1));
    let broken = pairs.filter(|(one, next)| !next.starts_with(one)).count();
    let told = events.events_of::<PromptCacheBroken>();
    assert!(told.iter().all(|it| it.cause == CacheBreak::Compaction), "{told:?}");
    let summaries = events.events_of::<MessageBufferSummarized>().len();
    assert_eq!((broken, told.len()), (summaries, summaries));
    assert!(summaries > 5 && events.events_of::<MessagesMovedToBuffer>().len() > 200);
    // What is sent does not grow beyond the limits.
    assert!(requests.iter().all(|turns| turns.len() < 40));
}
