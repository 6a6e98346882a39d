//! Where executions go back to, what is left then, and how often they may.

use std::sync::{Arc, Mutex};

use loopwright_agent::{AgentBuilder, UseContextConfig, UseLlmConfig, UseTools};
use loopwright_core::{
    AgentLoop, AgentState, Budget, Change, RunOptions, Step, StopReason, ToolSet,
    events::PromptCacheBroken,
    messages::{CacheBreak, Message, SectionName, Usage},
};
use loopwright_testing::{
    EventRecorder, FakeModel, MemoryJournal, MockTool, ScenarioStep, block_on, test_env, validate,
};
use serde_json::json;

use super::*;

const BACK_TO_0: &str = "[REWOUND to checkpoint 0";
const BACK_TO_1: &str = "[REWOUND to checkpoint 1";

fn policy(max_rewinds: u32) -> RetrospectivePolicy {
    RetrospectivePolicy { max_rewinds, ..RetrospectivePolicy::default() }
}

fn agent(model: &FakeModel, retrospective: UseExecutionRetrospective) -> AgentLoop {
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseTools::new().with_tool(MockTool::scripted()))
        .with_capability(retrospective)
        .build()
        .unwrap()
}

fn back(checkpoint: i64, guidance: &str) -> (&'static str, serde_json::Value) {
    ("execution_retrospective", json!({ "checkpoint_id": checkpoint, "guidance": guidance }))
}

fn rewind(checkpoint: i64) -> ScenarioStep {
    ScenarioStep::tool_calls([back(checkpoint, "Look first.")])
}

fn tool(text: &str) -> ScenarioStep {
    ScenarioStep::tool(text)
}

fn asked() -> AgentState {
    AgentState::new().with_user_message("go")
}

/// Runs a script, and looks at the conversation as a provider would.
fn run(steps: impl IntoIterator<Item = ScenarioStep>) -> (AgentState, FakeModel) {
    run_with(steps, UseExecutionRetrospective::default(), asked())
}

fn run_with(
    steps: impl IntoIterator<Item = ScenarioStep>,
    retrospective: UseExecutionRetrospective,
    state: AgentState,
) -> (AgentState, FakeModel) {
    let model = FakeModel::script(steps);
    let state = block_on(agent(&model, retrospective).execute(state));
    assert_eq!(validate(state.transcript()), Ok(()));
    (state, model)
}

/// What stands in the conversation, a line a turn; guidance by its first word.
fn said(state: &AgentState) -> Vec<String> {
    let texts = state.transcript().iter().map(|turn| turn.message().text());
    texts.map(|text| text.split(']').next().unwrap_or_default().to_owned()).collect()
}

/// What stood at the end of each request.
fn marked(model: &FakeModel) -> Vec<String> {
    let text = |tail: &[Message]| tail.iter().map(Message::text).collect();
    model.requests().iter().map(|it| text(&it.prompt.tail)).collect()
}

fn told(state: &AgentState) -> Vec<String> {
    let executions = state.steps().flat_map(Step::tool_executions);
    let own = executions.filter(|(call, _)| &*call.name == "execution_retrospective");
    own.map(|(_, outcome)| outcome.to_result().to_text()).collect()
}

fn at(taken: u32, rewinds: u32) -> Checkpoints {
    Checkpoints { taken, rewinds }
}

#[test]
fn checkpoints_precede_each_step_and_are_not_recorded() {
    assert_eq!(Checkpoints::of(&asked()), at(0, 0));
    let (state, model) = run(["done".into()]);
    assert_eq!(
        (marked(&model), said(&state)),
        (vec!["[CHECKPOINT 0] now".into()], vec!["go".into(), "done".into()])
    );
    assert_eq!(Checkpoints::of(&state), at(1, 0));
    let (_, model) = run([tool("a"), "done".into()]);
    assert_eq!(marked(&model)[1], "[CHECKPOINT 0] then scripted\n[CHECKPOINT 1] now");
}

#[test]
fn turns_after_the_checkpoint_leave_the_conversation_and_steps_stay() {
    let (state, model) = run([tool("a"), tool("b"), rewind(1), "done".into()]);
    assert_eq!(said(&state), ["go", "a", BACK_TO_1, "done"]);
    assert_eq!((Checkpoints::of(&state), state.step_count()), (at(2, 1), 4));
    let markers = "[CHECKPOINT 0] then scripted\n[CHECKPOINT 1] now";
    assert_eq!(marked(&model)[3], markers);
    let guidance = state.transcript().get(2).unwrap().message().text();
    assert!(guidance.ends_with("Your guidance:\nLook first."), "{guidance}");
}

#[test]
fn the_first_checkpoint_leaves_what_the_user_said_and_guidance() {
    let (state, _) = run([tool("a"), tool("b"), rewind(0), "done".into()]);
    assert_eq!(said(&state), ["go", BACK_TO_0, "done"]);
    assert_eq!(Checkpoints::of(&state), at(1, 1));
}

#[test]
fn going_back_twice_counts_from_where_the_first_time_led_and_leaves_its_guidance_if_it_came_later()
{
    let steps = [tool("a"), tool("b"), rewind(1), tool("c"), tool("d"), rewind(2), "done".into()];
    let (state, model) = run(steps);
    assert_eq!(said(&state), ["go", "a", BACK_TO_1, "c", "[REWOUND to checkpoint 2", "done"]);
    assert_eq!(marked(&model)[5].lines().last(), Some("[CHECKPOINT 3] now"));
    let steps = [tool("a"), tool("b"), rewind(1), tool("c"), rewind(0), "done".into()];
    assert_eq!(said(&run(steps).0), ["go", BACK_TO_0, "done"]);
}

#[test]
fn over_the_limit_it_is_refused_and_the_model_sees_it() {
    let steps = [tool("a"), rewind(1), tool("b"), rewind(1), tool("c"), rewind(1), "done".into()];
    let twice = UseExecutionRetrospective::new(policy(2));
    let (state, model) = run_with(steps, twice, asked());
    assert_eq!((Checkpoints::of(&state).rewinds, state.step_count()), (2, 7));
    let refused = "Error: cannot return again: the limit of 2 returns has been reached; continue from the current state";
    let going = "Returning to checkpoint 1.";
    assert_eq!(told(&state), [going, going, refused]);
    // What the first time taught stands before the checkpoint that the second time led to.
    assert_eq!(said(&state), ["go", "a", BACK_TO_1, BACK_TO_1, "c", "", "done"]);
    assert_eq!(marked(&model)[4..], ["", "", ""]);
}

#[test]
fn an_invalid_retrospection_is_an_error() {
    let calls = ScenarioStep::tool_calls([back(0, " "), back(-1, "x"), back(2, "x")]);
    let (state, _) = run([tool("a"), calls, "done".into()]);
    assert_eq!(
        told(&state),
        [
            "Error: guidance is empty; write what you learned and what to do instead",
            "Error: checkpoint_id is negative; pass a number from 0 to 1",
            "Error: unknown checkpoint 2; available: 0 to 1",
        ]
    );
    assert_eq!(Checkpoints::of(&state), at(3, 0));
}

#[test]
fn the_first_valid_retrospection_of_a_step_counts() {
    let calls = ScenarioStep::tool_calls([back(9, "x"), back(1, "one"), back(0, "zero")]);
    let (state, _) = run([tool("a"), tool("b"), calls, "done".into()]);
    assert_eq!(said(&state), ["go", "a", BACK_TO_1, "done"]);
    let twice = "Error: cannot return: another call in this step already returns to a checkpoint";
    assert_eq!(told(&state)[1..], ["Returning to checkpoint 1.", twice]);
}

#[test]
fn usage_and_limits_go_on_counting() {
    let paid = |step: ScenarioStep| step.with_usage(Usage::new(10, 0));
    let steps = [tool("a"), rewind(0), tool("b")].map(paid);
    let budget = Budget { steps: Some(4), ..Budget::unlimited() };
    let (state, _) =
        run_with(steps, UseExecutionRetrospective::default(), asked().with_budget(budget));
    assert_eq!((state.step_count(), state.usage()), (4, Usage::new(40, 0)));
    assert_eq!(state.stop_signal().map(|it| it.reason), Some(StopReason::StepsLimitReached));
    assert_eq!(said(&state), ["go", BACK_TO_0, "b", "b"]);
}

#[test]
fn the_next_execution_begins_anew_and_keeps_what_was_said_before() {
    let model = FakeModel::script([rewind(0), "one".into(), tool("a"), rewind(0), "two".into()]);
    let agent = agent(&model, UseExecutionRetrospective::new(policy(1)));
    let state = block_on(agent.execute(asked()));
    assert_eq!(Checkpoints::of(&state), at(1, 1));
    let state = block_on(agent.execute(state.with_user_message("more")));
    assert_eq!(Checkpoints::of(&state), at(1, 1));
    assert_eq!(said(&state), ["go", BACK_TO_0, "one", "more", BACK_TO_0, "two"]);
    assert_eq!(marked(&model)[2], "[CHECKPOINT 0] now");
}

#[test]
fn messages_of_the_user_since_the_checkpoint_stay() {
    let model = FakeModel::script([tool("a"), tool("b"), rewind(0), "done".into()]);
    let mut run =
        agent(&model, UseExecutionRetrospective::default()).start(asked(), RunOptions::default());
    block_on(run.next());
    run.handle().steer(Message::user("mind the gap")).unwrap();
    let state = block_on(run.finish());
    assert_eq!(said(&state), ["go", "mind the gap", BACK_TO_0, "done"]);
}

#[test]
fn only_the_newest_checkpoints_are_listed() {
    let steps: Vec<_> = (0..12).map(|_| tool("a")).chain(["done".into()]).collect();
    let (_, model) = run(steps);
    let last = marked(&model).pop().unwrap();
    assert_eq!(last.lines().count(), 10);
    assert!(last.starts_with("[CHECKPOINT 0] to [CHECKPOINT 3]: earlier\n[CHECKPOINT 4] then"));
}

#[test]
fn the_prefix_breaks_where_the_conversation_goes_back_and_nowhere_else() {
    let events = EventRecorder::new();
    let model = FakeModel::script([tool("a"), tool("b"), rewind(1), tool("c"), "done".into()]);
    let agent = agent(&model, UseExecutionRetrospective::default()).with_event_sink(events.sink());
    drop(block_on(agent.execute(asked())));
    let breaks: Vec<_> =
        events.events_of::<PromptCacheBroken>().into_iter().map(|it| (it.step, it.cause)).collect();
    assert_eq!(breaks, [(4, CacheBreak::Compaction)]);
    let systems: Vec<_> = model.requests().into_iter().filter_map(|it| it.system).collect();
    assert_eq!(systems, vec![Arc::from(RetrospectivePolicy::default().instructions.trim()); 5]);
}

#[test]
fn a_listener_is_told_with_the_state_as_it_is_then() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&heard);
    let retrospective = UseExecutionRetrospective::default().on_rewind(move |rewind, state| {
        notes.lock().unwrap().push((rewind.clone(), Checkpoints::of(state), said(state).len()));
    });
    run_with([tool("a"), rewind(0), "done".into()], retrospective, asked());
    let expect = RewindRequest { checkpoint: 0, guidance: "Look first.".into() };
    assert_eq!(*heard.lock().unwrap(), [(expect, at(0, 1), 2)]);
}

#[test]
fn a_journal_has_it_and_what_was_interrupted_is_made_up_for() {
    let steps = [tool("a"), rewind(0), "done".into()];
    let journal = MemoryJournal::new();
    let options = |journal: &MemoryJournal| RunOptions {
        env: test_env(1),
        journal: Some(Arc::new(journal.clone())),
        ..RunOptions::default()
    };
    let one = agent(&FakeModel::script(steps.clone()), UseExecutionRetrospective::default());
    let state = block_on(one.start(asked(), options(&journal)).finish());
    assert_eq!(AgentState::new().replay(journal.changes()).unwrap(), state);
    // The machine stops when the step has ended and nothing has come of it.
    let changes = journal.changes();
    let closed =
        |it: &loopwright_core::ChangeRecord| matches!(it.change, Change::StepCompleted { .. });
    let end =
        changes.iter().rposition(|it| matches!(&it.change, Change::StepStarted { .. })).unwrap();
    let end = changes[..end].iter().rposition(closed).unwrap() + 1;
    let half = AgentState::new().replay(changes[..end].iter().cloned()).unwrap();
    assert_eq!(said(&half).len(), 3);
    let two = agent(&FakeModel::script(steps[2..].to_vec()), UseExecutionRetrospective::default());
    let rest = MemoryJournal::starting_at(half.seq());
    let resumed = block_on(two.start(half, options(&rest)).finish());
    assert_eq!(said(&resumed), said(&state));
    assert_eq!(Checkpoints::of(&resumed), Checkpoints::of(&state));
}

#[test]
fn compacted_checkpoints_are_out_of_reach_and_later_ones_are_not() {
    let model = FakeModel::script([
        tool("a"),
        tool("b"),
        tool("c"),
        ScenarioStep::tool_calls([back(1, "x"), back(2, "x")]),
        "done".into(),
    ]);
    let mut run =
        agent(&model, UseExecutionRetrospective::default()).start(asked(), RunOptions::default());
    for _ in 0..3 {
        block_on(run.next());
    }
    let state = run.into_state();
    let kept = state.transcript().iter_from(3).cloned().collect();
    let edit = |section: &str, turns| loopwright_core::Edit::Replace {
        section: section.into(),
        turns,
        cause: CacheBreak::Compaction,
    };
    let summary = [Message::user("They did a and b.")].map(|it| it.try_into().unwrap());
    let summary = summary.into_iter().collect::<Vec<loopwright_core::messages::Turn>>();
    let state = state
        .edit(edit(SectionName::MESSAGES, kept))
        .edit(edit(SectionName::SUMMARY, summary.into_iter().collect()));
    let agent = agent(&model, UseExecutionRetrospective::default());
    let state = block_on(agent.execute(state));
    let refused = "Error: cannot return to checkpoint 1: the conversation was compacted after it; choose a later one";
    assert_eq!(told(&state), [refused, "Returning to checkpoint 2."]);
    assert_eq!(said(&state), ["[REWOUND to checkpoint 2", "done"]);
    assert_eq!(state.section(SectionName::SUMMARY).count(), 1);
}

#[test]
fn an_agent_that_has_the_tool_alone_refuses() {
    let model = FakeModel::script([rewind(0), "done".into()]);
    let whole = agent(&model, UseExecutionRetrospective::default());
    let tools: ToolSet = whole.tools().clone();
    let bare = AgentBuilder::base().with_capability(UseLlmConfig::model(model)).build().unwrap();
    let state = block_on(bare.with_tools(tools).execute(asked()));
    assert_eq!(told(&state), ["Error: there are no checkpoints; continue from the current state"]);
}

#[test]
fn instructions_stand_beside_other_prompts_in_every_request() {
    let model = FakeModel::script([tool("a"), "one".into(), "two".into()]);
    let brief = RetrospectivePolicy { instructions: " Go back if need be. ".into(), ..policy(1) };
    let agent = AgentBuilder::base()
        .with_capability(UseExecutionRetrospective::new(brief))
        .with_capability(UseContextConfig::new("You are Ada."))
        .with_capability(UseLlmConfig::model(model.clone()))
        .build()
        .unwrap();
    let state = block_on(agent.execute(asked().with_system_prompt("Answer in French.")));
    drop(block_on(agent.execute(state.with_user_message("more"))));
    let systems: Vec<_> = model.requests().into_iter().filter_map(|it| it.system).collect();
    let whole = Arc::from("Answer in French.\n\nYou are Ada.\n\nGo back if need be.");
    assert_eq!(systems, vec![whole; 3]);
}
