//! Every agent calls eight others: what all of them use up is one account.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

use async_trait::async_trait;
use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_capabilities::subagents::UseSubagents;
use loopwright_core::{
    AgentLoop, Budget, ChatModel, ExecutionStatus, InferCx, LlmConfig, ModelError,
    events::{SubagentCompleted, SubagentSpawning},
    messages::{InferenceOptions, InferenceRequest, InferenceResponse, Usage},
};
use loopwright_testing::{EventRecorder, ScenarioStep, block_on, test_env, yield_times};

use super::{agents, ask, first_said, go, helper, options};

/// A model with which every agent calls eight others, and which counts what is under way.
#[derive(Clone)]
struct Spreading(Arc<Spread>);

struct Spread {
    /// What a call takes, by its number.
    takes: fn(u64) -> u64,
    /// What is set aside for a call at least.
    estimate: u64,
    budget: Option<u64>,
    calls: AtomicU64,
    in_flight: AtomicU64,
    most_in_flight: AtomicU64,
    spent: AtomicU64,
    /// How often more was set aside than there was.
    beyond: AtomicUsize,
}

impl Spreading {
    fn new(takes: fn(u64) -> u64, estimate: u64, budget: Option<u64>) -> Self {
        Self(Arc::new(Spread {
            takes,
            estimate,
            budget,
            calls: AtomicU64::default(),
            in_flight: AtomicU64::default(),
            most_in_flight: AtomicU64::default(),
            spent: AtomicU64::default(),
            beyond: AtomicUsize::default(),
        }))
    }
}

#[async_trait]
impl ChatModel for Spreading {
    async fn infer(
        &self,
        request: &InferenceRequest,
        _cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let it = &*self.0;
        let number = it.calls.fetch_add(1, SeqCst);
        let flying = it.in_flight.fetch_add(1, SeqCst) + 1;
        it.most_in_flight.fetch_max(flying, SeqCst);
        let set_aside = it.spent.load(SeqCst) + flying * it.estimate;
        if it.budget.is_some_and(|budget| set_aside > budget) {
            it.beyond.fetch_add(1, SeqCst);
        }
        yield_times(3).await;
        let is_asked_first = request.prompt.turns.len() == 1;
        let step = if is_asked_first && first_said(request).len() < 3 {
            let prompt = format!("{}+", first_said(request).replace("go", ""));
            ScenarioStep::tool_calls((0..8).map(|_| ask("helper", prompt.clone())))
        } else {
            ScenarioStep::final_answer("done")
        };
        let takes = (it.takes)(number);
        it.in_flight.fetch_sub(1, SeqCst);
        it.spent.fetch_add(takes, SeqCst);
        step.with_usage(Usage::new(0, takes)).to_response()
    }
}

fn spreading(model: &Spreading) -> AgentLoop {
    let llm = LlmConfig {
        options: InferenceOptions::default().with_max_output_tokens(model.0.estimate),
        ..LlmConfig::default()
    };
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()).with_llm(llm))
        .with_capability(UseSubagents::new(agents([helper()])))
        .build()
        .unwrap()
}

#[test]
fn three_levels_of_eight_at_a_time_are_all_paid_by_the_one_who_began() {
    let model = Spreading::new(|_| 10, 10, None);
    let events = EventRecorder::new();
    let agent = spreading(&model).with_event_sink(events.sink());
    let state = block_on(agent.start(go(Budget::unlimited()), options(test_env(1))).finish());
    assert_eq!(state.text(), "done");
    // Each of those who ask answers once more: 1, 8 and 64 of them, and 512 who only answer.
    let calls = 2 * (1 + 8 + 64) + 512;
    assert_eq!(model.0.calls.load(SeqCst), calls);
    assert_eq!(state.usage(), Usage::new(0, 10 * calls));
    let spawned = events.events_of::<SubagentSpawning>();
    let by_depth = |depth| spawned.iter().filter(|it| it.depth == depth).count();
    assert_eq!([by_depth(1), by_depth(2), by_depth(3)], [8, 64, 512]);
    let ids: BTreeSet<_> = events
        .events_of::<SubagentCompleted>()
        .iter()
        .map(|it| it.subagent_id.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(ids.len(), 584);
}

#[test]
fn no_reservation_beyond_the_budget_is_ever_granted() {
    for tokens in [10, 100, 1000, 2345] {
        let model = Spreading::new(|_| 10, 10, Some(tokens));
        let budget = Budget { tokens: Some(tokens), ..Budget::unlimited() };
        let agent = spreading(&model);
        let state = block_on(agent.start(go(budget), options(test_env(1))).finish());
        let spent = model.0.spent.load(SeqCst);
        assert_eq!(model.0.beyond.load(SeqCst), 0);
        assert_eq!((state.usage().total(), spent / 10), (spent, tokens / 10), "{tokens}");
        assert!(matches!(state.status(), ExecutionStatus::Stopped(_)), "{:?}", state.status());
    }
}

#[test]
fn overspending_is_at_most_the_error_of_the_estimates_in_flight() {
    for tokens in [100, 1000, 2345] {
        // At least 10 are set aside, and a call takes up to 25.
        let model = Spreading::new(|number| 5 + number * 7 % 21, 10, None);
        let budget = Budget { tokens: Some(tokens), ..Budget::unlimited() };
        let agent = spreading(&model);
        let state = block_on(agent.start(go(budget), options(test_env(1))).finish());
        let (spent, most) = (model.0.spent.load(SeqCst), model.0.most_in_flight.load(SeqCst));
        assert!(most > 1 && spent <= tokens + most * 15, "{spent} of {tokens}, {most} at a time");
        assert_eq!(state.usage().total(), spent);
    }
}
