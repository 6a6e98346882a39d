//! An agent of everything, in a long run: requests continue where the last one ended.

use loopwright_agent::AgentBuilder;
use loopwright_capabilities::summarization::MessageBufferSummarized;
use loopwright_core::{
    AgentState, RunOptions, Step,
    events::PromptCacheBroken,
    messages::{CacheBreak, InferenceRequest, Message},
};
use loopwright_testing::{EventRecorder, FrozenClock};

use crate::everything::{BACK, Part, World, all, builder, is_of_child, model};

/// 200, or with `LOOPWRIGHT_LONG` 2,000.
fn steps() -> usize {
    if std::env::var_os("LOOPWRIGHT_LONG").is_some() { 2_000 } else { 200 }
}

/// Returns `true` if a request begins with the one before it.
fn goes_on(pair: &[InferenceRequest]) -> bool {
    let [before, next] = pair else { return false };
    before.model == next.model
        && before.system == next.system
        && before.tools.ptr_eq(&next.tools)
        && before.prompt.head.len() == next.prompt.head.len()
        && next.prompt.turns.starts_with(&before.prompt.turns)
}

fn tail(request: &InferenceRequest) -> usize {
    request.prompt.tail.iter().map(|it| it.text().len()).sum()
}

#[tokio::test]
async fn with_everything_requests_go_on_where_the_last_one_ended_but_where_an_event_says_why() {
    let world = World::new();
    let tools = all().position(|it| it.name == "use_tool_registry").unwrap();
    let calls: Vec<_> = all().map(Part::step).collect();
    let model = model(calls);
    let events = EventRecorder::new();
    let agent = all()
        .map(|it| it.make(&world))
        .fold(builder(&model), AgentBuilder::with_shared_capability)
        .with_event_sink(events.sink())
        .build()
        .unwrap();
    let state = AgentState::new().with_user_message("go");
    let options = RunOptions { env: FrozenClock::manual().env(1), ..RunOptions::default() };
    let mut run = agent.start(state, options);
    for _ in 0..steps() {
        run.next().await;
    }
    let requests: Vec<_> =
        model.requests().into_iter().filter(|request| !is_of_child(request)).collect();
    assert_eq!(requests.len(), steps());
    let broken = requests.windows(2).zip(2..).filter(|(pair, _)| !goes_on(pair));
    let broken: Vec<usize> = broken.map(|(_, step)| step).collect();
    let told =
        events.events_of::<PromptCacheBroken>().into_iter().map(|it| (it.step as usize, it.cause));
    let (added, compacted): (Vec<_>, Vec<_>) =
        told.partition(|(_, cause)| *cause == CacheBreak::ToolAdded);
    let mut expect: Vec<usize> = added.iter().chain(&compacted).map(|(step, _)| *step).collect();
    expect.sort_unstable();
    assert_eq!(broken, expect);
    // The agent asks for a tool once, goes back at most three times, and older messages are summed up.
    assert_eq!(added, [(tools + 2, CacheBreak::ToolAdded)]);
    assert!(compacted.iter().all(|(_, cause)| *cause == CacheBreak::Compaction), "{compacted:?}");
    let steps_taken = run.state().steps().flat_map(Step::tool_executions);
    let back =
        steps_taken.filter(|(call, outcome)| &*call.name == BACK && !outcome.is_error()).count();
    let summed_up = events.events_of::<MessageBufferSummarized>().len();
    assert!(back > 0 && summed_up > 0, "{back} {summed_up}");
    assert_eq!(compacted.len(), back + summed_up);
    // What stands at the end of requests does not grow.
    let longest = |of: &[InferenceRequest]| of.iter().map(tail).max();
    assert!(longest(&requests[steps() / 2..]) <= longest(&requests[..steps() / 2]));
    let refused = requests[steps() - 1].prompt.turns.iter().rev();
    assert!(refused.map(|it| it.message()).any(|it| called(it, BACK)));
}

fn called(message: &Message, tool: &str) -> bool {
    message.tool_calls().any(|call| &*call.name == tool)
}
