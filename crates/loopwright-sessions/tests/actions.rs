//! What each action does.

use std::sync::Arc;

use loopwright_agent::tasks::{Task, TaskList};
use loopwright_core::{
    Budget, Change, ChangeRecord, Edit, ExecutionStatus, LlmConfig,
    messages::{Message, Role, SectionName},
};
use loopwright_sessions::{
    AgentSession, ChangeBudget, ChangeModel, ChangeSystemPrompt, ClearSession, ContinueRun,
    ForkSession, MemoryStore, ResumeSession, RewindPoint, SendMessage, SessionAction, SessionError,
    SessionRepository, SessionRuntime, SessionStatus, SessionStore as _, SuspendSession,
    UpdateTask, WriteMetadata, action_fn,
};
use loopwright_testing::{ScenarioStep, block_on};
use serde_json::json;

use crate::support::{answering, id, runtime, session};

/// A runtime with a session `a` in which one thing was said.
fn talked() -> SessionRuntime {
    let (agent, _) = answering(["one", "two", "three"]);
    let (runtime, _) = runtime(&MemoryStore::new(), &agent);
    block_on(runtime.create(session("a"))).unwrap();
    execute(&runtime, &SendMessage::text("1?"));
    runtime
}

fn execute(
    runtime: &SessionRuntime,
    action: &dyn SessionAction,
) -> loopwright_sessions::AgentSession {
    block_on(runtime.execute(&id("a"), action)).unwrap()
}

#[test]
fn a_suspended_session_takes_no_message_until_it_is_resumed() {
    let runtime = talked();
    execute(&runtime, &SuspendSession);
    let refused = block_on(runtime.execute(&id("a"), &SendMessage::text("2?")));
    assert!(
        matches!(refused, Err(SessionError::NotActive { status: SessionStatus::Suspended, .. })),
        "{refused:?}"
    );
    assert_eq!(execute(&runtime, &ResumeSession).status(), SessionStatus::Active);
    assert_eq!(execute(&runtime, &SendMessage::text("2?")).state().text(), "two");
}

#[test]
fn clearing_forgets_the_conversation_and_keeps_everything_else() {
    let runtime = talked();
    execute(&runtime, &WriteMetadata(vec![("a".into(), json!(1)), ("b".into(), json!([2]))]));
    execute(&runtime, &ChangeSystemPrompt(Some("Be brief.".into())));
    let cleared = execute(&runtime, &ClearSession);
    let state = cleared.state();
    assert!(state.transcript().is_empty());
    assert!(state.execution().is_none());
    assert_eq!(state.execution_count(), 1);
    assert_eq!(state.context().system_prompt().map(|it| &**it), Some("Be brief."));
    assert_eq!(state.metadata().get("b"), Some(&json!([2])));
    assert_eq!(block_on(runtime.session(&id("a"))).unwrap(), cleared);
}

#[test]
fn clearing_forgets_what_was_summed_up_too() {
    let runtime = talked();
    let sum_up = action_fn("sum_up", |session: AgentSession| async move {
        let (section, message) = (SectionName::SUMMARY.into(), Message::user("one"));
        let state = session.state().clone().edit(Edit::Append { section, message });
        Ok(session.with_state(state))
    });
    execute(&runtime, &sum_up);
    let cleared = execute(&runtime, &ClearSession);
    assert_eq!(cleared.state().section(SectionName::SUMMARY).count(), 0);
}

#[test]
fn model_budget_and_instructions_change_in_the_state() {
    let runtime = talked();
    let llm = LlmConfig::named("p/m");
    execute(&runtime, &ChangeModel(Some(llm.clone())));
    let budget = Budget { steps: Some(3), ..Budget::default() };
    execute(&runtime, &ChangeBudget(budget));
    let changed = execute(&runtime, &ChangeSystemPrompt(None));
    assert_eq!(changed.state().llm(), Some(&llm));
    assert_eq!(changed.state().budget(), &budget);
    assert_eq!(changed.state().context().system_prompt(), None);
    assert_eq!(changed.definition().system_prompt, "You help.");
    let back = execute(&runtime, &ChangeModel(None));
    assert_eq!(back.state().llm(), None);
}

#[test]
fn a_fork_goes_on_by_itself_and_its_source_stays() {
    let runtime = talked();
    let before = block_on(runtime.session(&id("a"))).unwrap();
    let fork = execute(&runtime, &ForkSession::new().with_session_id(id("b")));
    assert_eq!((fork.id(), fork.version()), (&id("b"), 1));
    assert_eq!(fork.header().parent, Some(id("a")));
    let fork = block_on(runtime.execute(&id("b"), &SendMessage::text("2?"))).unwrap();
    let said: Vec<_> = fork.state().transcript().iter().map(|it| it.message().text()).collect();
    assert_eq!(said, ["1?", "one", "2?", "two"]);
    assert_eq!(block_on(runtime.session(&id("a"))).unwrap(), before);
}

#[test]
fn a_session_is_rewound_to_the_end_of_a_step() {
    let runtime = talked();
    let after_one = block_on(runtime.session(&id("a"))).unwrap();
    execute(&runtime, &SendMessage::text("2?"));
    let rewound = block_on(runtime.rewind(&id("a"), 1)).unwrap();
    assert_eq!(rewound.state().total_steps(), after_one.state().total_steps());
    assert_eq!(rewound.state().text(), "one");
    let again = execute(&runtime, &SendMessage::text("3?"));
    let said: Vec<_> = again.state().transcript().iter().map(|it| it.message().text()).collect();
    assert_eq!(said.last().map(String::as_str), Some("three"));
    assert!(!said.contains(&"2?".to_owned()));
    let beyond = block_on(runtime.rewind(&id("a"), 9));
    assert!(matches!(beyond, Err(SessionError::NoStep { step: 9, steps: 2, .. })), "{beyond:?}");
    let begin = block_on(runtime.rewind(&id("a"), 0)).unwrap();
    assert_eq!((begin.state().transcript().len(), begin.state().total_steps()), (1, 0));
}

#[test]
fn a_session_is_rewound_to_before_any_message() {
    let (store, (agent, _)) = (MemoryStore::new(), answering(["one", "two"]));
    let (runtime, _) = runtime(&store, &agent);
    block_on(runtime.create(session("a"))).unwrap();
    for text in ["1?", "2?"] {
        execute(&runtime, &SendMessage::text(text));
    }
    let changes = block_on(store.load(&id("a"))).unwrap().unwrap().changes;
    let is_said = |it: &ChangeRecord| match &it.change {
        Change::StateEdited { edit: Edit::Append { message, .. }, .. } => {
            message.role() == Role::User
        }
        _ => false,
    };
    let said = (0..).zip(&changes).filter(|it| is_said(it.1)).map(|it| it.0);
    let said: Vec<u64> = said.collect();
    for (change, left) in [(said[1], &["1?", "one"][..]), (said[0], &[])] {
        let state = block_on(runtime.rewind(&id("a"), RewindPoint::TurnOf(change))).unwrap();
        let texts = state.state().transcript().iter().map(|it| it.message().text());
        assert_eq!(texts.collect::<Vec<_>>(), left);
    }
}

#[test]
fn an_execution_that_fails_is_kept_and_is_no_error() {
    let (agent, _) = answering([ScenarioStep::error("the model is down")]);
    let (runtime, _) = runtime(&MemoryStore::new(), &agent);
    block_on(runtime.create(session("a"))).unwrap();
    let failed = execute(&runtime, &SendMessage::text("hi"));
    assert!(
        matches!(failed.state().status(), ExecutionStatus::Failed(_)),
        "{:?}",
        failed.state().status()
    );
    assert_eq!(failed.status(), SessionStatus::Active);
    assert_eq!(block_on(runtime.session(&id("a"))).unwrap(), failed);
}

#[test]
fn a_session_is_opened_if_it_is_there_and_created_if_it_is_not() {
    let (agent, _) = answering(["one"]);
    let (runtime, _) = runtime(&MemoryStore::new(), &agent);
    let shared = runtime.clone();
    let created = block_on(runtime.open_or_create(session("a"))).unwrap();
    assert_eq!((created.version(), created.id()), (1, &id("a")));
    let told = execute(&shared, &SendMessage::text("1?"));
    assert_eq!(block_on(runtime.open_or_create(session("a"))).unwrap(), told);
    block_on(runtime.delete(&id("a"))).unwrap();
    let gone = block_on(runtime.open_or_create(session("a")));
    assert!(matches!(gone, Err(SessionError::Store(_))), "{gone:?}");
}

#[test]
fn a_finished_execution_is_not_continued() {
    let (agent, model) = answering(["one"]);
    let (runtime, _) = runtime(&MemoryStore::new(), &agent);
    block_on(runtime.create(session("a"))).unwrap();
    let done = execute(&runtime, &SendMessage::text("1?"));
    assert_eq!(execute(&runtime, &ContinueRun).state().text(), done.state().text());
    assert_eq!(model.asked(), 1);
}

#[test]
fn an_execution_that_failed_before_its_answer_resumes_as_the_same_execution() {
    let (agent, _) = answering([ScenarioStep::error("the model is down"), "one".into()]);
    let (runtime, _) = runtime(&MemoryStore::new(), &agent);
    block_on(runtime.create(session("a"))).unwrap();
    assert!(execute(&runtime, &SendMessage::text("1?")).is_unfinished());
    let done = execute(&runtime, &ContinueRun);
    let state = done.state();
    assert_eq!((&*state.text(), state.execution_count()), ("one", 1));
    assert_eq!(state.transcript().len(), 2);
    assert!(!done.is_unfinished());
}

#[test]
fn a_plan_is_where_the_agent_keeps_its_own() {
    let runtime = talked();
    let tasks: TaskList = [Task::new("Look around")].into_iter().collect();
    let planned = execute(&runtime, &UpdateTask(tasks.clone()));
    assert_eq!(TaskList::of(planned.state()), tasks);
    assert_eq!(block_on(runtime.session(&id("a"))).unwrap(), planned);
}

#[test]
fn a_session_is_called_by_the_first_thing_that_was_said() {
    let (agent, _) = answering(["one", "two"]);
    let (runtime, _) = runtime(&MemoryStore::new(), &agent);
    block_on(runtime.create(session("a"))).unwrap();
    let long = format!("What\n is {}", "this ".repeat(40));
    let told = execute(&runtime, &SendMessage::text(long));
    let title = told.header().title.as_deref().unwrap();
    assert!(title.starts_with("What is this this") && title.ends_with('…'), "{title}");
    assert!(title.chars().count() <= 81, "{title}");
    let again = execute(&runtime, &SendMessage::text("And that?"));
    assert_eq!(again.header().title.as_deref(), Some(title));
}

#[test]
fn a_save_keeps_where_a_session_works_and_for_whom() {
    let repository = SessionRepository::new(Arc::new(MemoryStore::new()));
    let created = block_on(repository.create(session("a"))).unwrap();
    let moved = created.with_workdir("/new").with_parent(id("p"));
    let saved = block_on(repository.save(moved)).unwrap();
    let header = saved.header();
    assert_eq!((header.workdir.as_deref(), &header.parent), (Some("/new"), &Some(id("p"))));
    assert_eq!(block_on(repository.load(&id("a"))).unwrap(), saved);
}

#[test]
fn an_action_may_change_where_a_session_works_and_for_whom() {
    let runtime = talked();
    let action = action_fn("move", |session: AgentSession| async move {
        Ok(session.with_workdir("/new").with_parent(id("p")))
    });
    let moved = execute(&runtime, &action);
    let header = block_on(runtime.info(&id("a"))).unwrap();
    assert_eq!((header.workdir.as_deref(), &header.parent), (Some("/new"), &Some(id("p"))));
    assert_eq!(&header, moved.header());
}

#[test]
fn a_fork_by_an_action_is_told() {
    let (agent, _) = answering([""; 0]);
    let (runtime, notes) = runtime(&MemoryStore::new(), &agent);
    block_on(runtime.create(session("a"))).unwrap();
    notes.take();
    execute(&runtime, &ForkSession::new().with_session_id(id("b")));
    assert_eq!(notes.take(), ["loaded 1 active", "fork_session 1 1", "saved 1 active"]);
}
