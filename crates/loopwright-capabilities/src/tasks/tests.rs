use std::sync::Arc;

use loopwright_agent::{
    AgentBuilder, UseLlmConfig, UseTools,
    tasks::{Task, TaskList, TaskStatus},
};
use loopwright_core::{AgentLoop, AgentState, Step, messages::Message};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep, block_on};
use serde_json::{Value, json};

use super::*;
use crate::tasks::tool::{parse, todo_write};

fn agent(policy: TodoPolicy, model: &FakeModel) -> AgentLoop {
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseTools::new().with_tool(MockTool::scripted()))
        .with_capability(UseTaskPlanning::new(policy))
        .build()
        .unwrap()
}

fn item(content: &str, status: &str) -> Value {
    json!({ "content": content, "status": status, "activeForm": format!("{content}ing") })
}

fn write(items: &[Value]) -> ScenarioStep {
    ScenarioStep::tool_call("todo_write", json!({ "todos": items }))
}

fn asked() -> AgentState {
    AgentState::new().with_user_message("go")
}

/// What stood at the end of each request, with only the first line of each note.
fn tails(model: &FakeModel) -> Vec<Vec<String>> {
    let heads = |message: &Message| -> Vec<String> {
        let text = message.text();
        let notes = text.split("[tasks] ").filter(|it| !it.is_empty());
        notes.map(|it| it.split(['.', ':']).next().unwrap().to_owned()).collect()
    };
    let requests = model.requests();
    requests.iter().map(|it| it.prompt.tail.iter().flat_map(heads).collect()).collect()
}

#[test]
fn agents_with_the_same_policy_share_the_schema_of_the_tool() {
    let small = TodoPolicy { max_items: 3, ..TodoPolicy::default() };
    let tools = [TodoPolicy::default(), small, small, TodoPolicy::default()].map(todo_write);
    let schemas = tools.each_ref().map(|it| &it.spec().parameters);
    let is_shared = |one: usize, other: usize| Arc::ptr_eq(schemas[one], schemas[other]);
    assert_eq!([is_shared(0, 3), is_shared(1, 2), is_shared(0, 1)], [true, true, false]);
    assert!(schemas[1].to_string().contains("at most 3"));
}

#[test]
fn a_list_is_written_shown_and_kept_over_turns() {
    let todos = [
        item("Read", "completed"),
        item("Test", "in_progress"),
        item("A", "pending"),
        item("B", "pending"),
    ];
    let model = FakeModel::script([write(&todos), "done".into(), "again".into()]);
    let agent = agent(TodoPolicy::default(), &model);
    let state = block_on(agent.execute(asked()));
    let (_, outcome) = state.step_at(0).and_then(|it| it.tool_executions().next()).unwrap();
    let text =
        "1. ● Read\n2. ◐ Testing\n3. ○ A\n4. ○ B\nTasks: 1/4 completed, 1 in progress, 2 pending";
    assert_eq!(outcome.to_result().to_text(), text);
    let value = outcome.output().and_then(|it| it.value.clone()).unwrap();
    assert_eq!(value["summary"], "Tasks: 1/4 completed, 1 in progress, 2 pending");
    assert_eq!(
        (value["success"].clone(), value["tasks"][1].clone()),
        (json!(true), todos[1].clone())
    );
    let written = TaskList::of(&state);
    let next = block_on(agent.execute(state.with_user_message("more")));
    assert_eq!((TaskList::of(&next), written.0.len()), (written, 4));
    let request = model.requests().pop().unwrap();
    let shown: Vec<String> = request.prompt.tail.iter().map(Message::text).collect();
    assert_eq!(shown, [format!("[tasks] Current status:\n{text}")]);
}

#[test]
fn a_list_of_an_earlier_turn_is_shown_until_it_is_written_or_done() {
    let never = TodoPolicy { render_every_steps: 0, reminder_every_steps: 0, ..Default::default() };
    let model = FakeModel::script([
        write(&[item("A", "completed"), item("B", "pending")]),
        "done".into(),
        ScenarioStep::tool("work"),
        ScenarioStep::tool("work"),
        write(&[item("A", "completed"), item("B", "completed")]),
        ScenarioStep::tool("work"),
        "done".into(),
        "again".into(),
    ]);
    let agent = agent(never, &model);
    let state = block_on(agent.execute(asked()));
    let state = block_on(agent.execute(state.with_user_message("more")));
    block_on(agent.execute(state.with_user_message("and more")));
    let list = "Current status";
    let expect: [&[&str]; 8] = [&[], &[], &[list], &[list], &[list], &[], &[], &[]];
    assert_eq!(tails(&model), expect);
}

#[test]
fn the_last_list_of_a_step_counts_and_an_empty_one_clears() {
    let call = |items: Value| ("todo_write", json!({ "todos": items }));
    let both = ScenarioStep::tool_calls([
        call(json!([item("One", "pending")])),
        call(json!([item("Two", "pending")])),
        call(json!([item("Bad", "later")])),
    ]);
    let model = FakeModel::script([both, "done".into(), write(&[]), "done".into()]);
    let agent = agent(TodoPolicy::default(), &model);
    let state = block_on(agent.execute(asked()));
    let contents: Vec<_> = TaskList::of(&state).0.into_iter().map(|it| it.content).collect();
    assert_eq!(contents, ["Two".into()]);
    let state = block_on(agent.execute(state.with_user_message("clear")));
    assert_eq!(TaskList::of(&state), TaskList::default());
}

#[test]
fn lists_that_are_wrong_are_refused_with_their_position() {
    let check = |todos: Value, expect: &str| {
        let error = parse(&todos, TodoPolicy::default()).unwrap_err();
        assert_eq!(error.to_string(), expect);
    };
    check(json!("a"), "todos must be a list of tasks");
    check(json!([1]), "task 1 must be an object");
    check(
        json!([item("A", "pending"), { "content": " " }]),
        "the `content` of task 2 cannot be empty",
    );
    check(json!([{ "content": "A", "activeForm": "B" }]), "task 1 must have a string `status`");
    check(
        json!([{ "content": "A", "status": "pending" }]),
        "task 1 must have a string `activeForm`",
    );
    check(json!([{ "status": "pending" }]), "task 1 must have a string `content`");
    check(
        json!([{ "content": "A", "status": "pending", "activeForm": "" }]),
        "the `activeForm` of task 1 cannot be empty",
    );
    check(
        json!([item("A", "later")]),
        "task 1 has the unknown status `later`; use pending, in_progress or completed",
    );
    check(json!(vec![item("A", "pending"); 21]), "too many tasks: 21; pass at most 20");
    check(
        json!([item("A", "in_progress"), item("B", "in_progress")]),
        "2 tasks are in progress; at most 1 can be in progress at the same time",
    );
    assert_eq!(parse(&Value::Null, TodoPolicy::default()), Ok(TaskList::default()));
}

#[test]
fn a_lenient_policy_fills_in_what_a_task_does_not_say() {
    let policy =
        TodoPolicy { parsing: TaskParsing::Lenient, max_in_progress: 2, ..Default::default() };
    let todos =
        json!([{ "content": " Read " }, item("A", "in_progress"), item("B", "in_progress")]);
    let list = parse(&todos, policy).unwrap();
    assert_eq!(list.0[0], Task::new("Read"));
    assert_eq!(list.count(TaskStatus::InProgress), 2);
    let blank = json!([{ "content": "A", "activeForm": " " }]);
    let error = parse(&blank, policy).unwrap_err();
    assert_eq!(error, TodoError::Empty { position: 1, field: "activeForm" });
    let model = FakeModel::script([
        ScenarioStep::tool_call("todo_write", json!({ "todos": [{ "content": "Read" }] })),
        "done".into(),
    ]);
    let state = block_on(agent(policy, &model).execute(asked()));
    assert_eq!(state.steps().map(Step::has_errors).collect::<Vec<_>>(), [false, false]);
}

#[test]
fn reminders_and_the_list_come_at_their_steps_once_and_are_never_recorded() {
    let policy =
        TodoPolicy { render_every_steps: 3, reminder_every_steps: 2, ..Default::default() };
    let busy = |_| ScenarioStep::tool("work");
    let steps = [write(&[item("A", "in_progress")])].into_iter().chain((0..5).map(busy));
    let model = FakeModel::script(steps.chain(["done".into(), "again".into()]));
    let agent = agent(policy, &model);
    let state = block_on(agent.execute(asked()));
    let (hint, old, list) = (
        "If the work takes several steps, first write a task list with todo_write",
        "The task list has not been updated for a while",
        "Current status",
    );
    // Written in step 1: reminded after 2 and 4 steps more, shown after 3 and 6 in all.
    let expect: [&[&str]; 7] = [&[hint], &[], &[], &[old, list], &[], &[old], &[list]];
    assert_eq!(tails(&model), expect);
    let said =
        |it: &AgentState| it.transcript().iter().any(|it| it.message().text().contains("[tasks]"));
    assert!(!said(&state));
    // The next turn counts from its own beginning, and has a list already.
    let state = block_on(agent.execute(state.with_user_message("more")));
    assert_eq!(tails(&model)[7..], [[list]]);
    assert!(!said(&state));
}

#[test]
fn no_reminder_follows_a_finished_list_or_a_policy_that_says_never() {
    let policy =
        TodoPolicy { render_every_steps: 0, reminder_every_steps: 2, ..Default::default() };
    let steps = || {
        let work = (0..4).map(|_| ScenarioStep::tool("work"));
        [write(&[item("A", "completed")])].into_iter().chain(work).chain(["done".into()])
    };
    let model = FakeModel::script(steps());
    drop(block_on(agent(policy, &model).execute(asked())));
    assert_eq!(tails(&model).concat().len(), 1);
    let never = TodoPolicy { reminder_every_steps: 0, ..policy };
    let model = FakeModel::script(steps());
    drop(block_on(agent(never, &model).execute(asked())));
    assert_eq!(tails(&model).concat(), [""; 0]);
}
