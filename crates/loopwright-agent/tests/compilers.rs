//! The compilers: what of a conversation a model is shown.

use std::sync::Arc;

use loopwright_agent::{
    AgentBuilder, AllSections, ConversationWithCurrentToolTrace, SelectedSections,
    UseContextCompiler, UseLlmConfig, UseTools,
};
use loopwright_core::{
    AgentState, ContextCompiler, Edit,
    messages::{CacheBreak, Message, Prompt, SectionName, Transcript, Turn},
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep, block_on};
use proptest::prelude::*;

use crate::support::{asked, asking, execute, scripted, with};

const SUMMARY: &str = SectionName::SUMMARY;
const BUFFER: &str = SectionName::BUFFER;
const MESSAGES: &str = SectionName::MESSAGES;

/// Writes to sections, one message each, in this order.
fn written(sections: &[(&str, &str)]) -> AgentState {
    sections.iter().fold(AgentState::new(), |state, (section, text)| append(state, section, text))
}

fn append(state: AgentState, section: &str, text: &str) -> AgentState {
    state.edit(Edit::Append { section: section.into(), message: Message::user(text) })
}

fn replace(state: AgentState, section: &str, text: &str) -> AgentState {
    let turns: Transcript =
        [Turn::from_message(Message::user(text)).unwrap()].into_iter().collect();
    let (section, cause) = (section.into(), CacheBreak::Compaction);
    state.edit(Edit::Replace { section, turns, cause })
}

fn compile(
    compiler: &dyn ContextCompiler,
    state: &AgentState,
    previous: Option<&Prompt>,
) -> Prompt {
    block_on(compiler.compile(state, previous.cloned())).unwrap()
}

fn shown(prompt: &Prompt) -> Vec<String> {
    prompt.turns.iter().map(|turn| turn.message().text()).collect()
}

#[track_caller]
fn check(compiler: &dyn ContextCompiler, state: &AgentState, expect: &[&str]) {
    assert_eq!(shown(&compile(compiler, state, None)), expect);
}

/// Two tool steps and an answer, for each execution that was asked for.
fn worked(executions: usize) -> AgentState {
    let tool = || ScenarioStep::tool("looking");
    let steps = (0..executions).flat_map(|number| {
        [tool(), tool(), ScenarioStep::final_answer(format!("answer {number}"))]
    });
    let agent = scripted(steps.collect::<Vec<_>>()).build().unwrap();
    (0..executions).fold(AgentState::new(), |state, number| {
        execute(&agent, state.with_user_message(format!("question {number}")))
    })
}

#[test]
fn sections_are_read_in_one_order_whatever_order_they_were_written_in() {
    let state = written(&[
        ("notes", "note"),
        (MESSAGES, "said"),
        (BUFFER, "buffered"),
        ("more", "more"),
        (SUMMARY, "summed up"),
    ]);
    let expect = ["summed up", "buffered", "note", "more", "said"];
    check(&ConversationWithCurrentToolTrace, &state, &expect);
    check(&AllSections, &state, &expect);
    check(&SelectedSections::default(), &state, &["summed up", "buffered", "said"]);
}

#[test]
fn selected_sections_are_shown_in_the_order_they_are_named_in() {
    let state = written(&[(MESSAGES, "said"), ("notes", "note"), (SUMMARY, "summed up")]);
    let check = |names: &[&str], expect: &[&str]| {
        check(&SelectedSections::new(names), &state, expect);
    };
    check(&["notes", MESSAGES], &["note", "said"]);
    check(&[MESSAGES, "notes"], &["said", "note"]);
    check(&["notes", SUMMARY, "notes"], &["note", "summed up"]);
    check(&[BUFFER, "notes", "nothing"], &["note"]);
    check(&[BUFFER], &[]);
    check(&[], &["said"]);
}

#[test]
fn old_traces_are_hidden_and_those_of_this_execution_are_shown() {
    let state = worked(2);
    let all = [
        "question 0",
        "looking",
        "looking",
        "answer 0",
        "question 1",
        "looking",
        "looking",
        "answer 1",
    ];
    check(&AllSections, &state, &all);
    check(&SelectedSections::default(), &state, &all);
    let current = ["question 0", "answer 0", "question 1", "looking", "looking", "answer 1"];
    check(&ConversationWithCurrentToolTrace, &state, &current);
    let answers = ["question 0", "answer 0", "question 1", "answer 1"];
    check(&ConversationWithCurrentToolTrace, &state.for_next_execution(), &answers);
}

#[test]
fn a_model_is_shown_the_traces_of_earlier_executions_unless_the_agent_hides_them() {
    let tool = || ScenarioStep::tool("looking");
    let shown_by = |agent: AgentBuilder| {
        let model = FakeModel::script([tool(), "one".into(), tool(), "two".into()]);
        let agent = agent.with_capability(UseLlmConfig::model(model.clone())).build().unwrap();
        let first = execute(&agent, asked());
        drop(execute(&agent, first.with_user_message("and now?")));
        model.requests().iter().map(|it| shown(&it.prompt).join(", ")).collect::<Vec<_>>()
    };
    let agent =
        || AgentBuilder::base().with_capability(UseTools::new().with_tool(MockTool::scripted()));
    let all =
        ["go", "go, looking", "go, looking, one, and now?", "go, looking, one, and now?, looking"];
    assert_eq!(shown_by(agent()), all);
    let hides = UseContextCompiler::new(ConversationWithCurrentToolTrace);
    let current = ["go", "go, looking", "go, one, and now?", "go, one, and now?, looking"];
    assert_eq!(shown_by(agent().with_capability(hides)), current);
}

#[test]
fn a_model_is_shown_the_traces_of_its_own_execution_only() {
    let tool = || ScenarioStep::tool("looking");
    let model = FakeModel::script([tool(), tool(), "one".into(), tool(), "two".into()]);
    let agent = with(asking(&model), UseContextCompiler::new(ConversationWithCurrentToolTrace));
    let first = execute(&agent, asked());
    drop(execute(&agent, first.with_user_message("and now?")));
    let requests: Vec<_> = model.requests().iter().map(|it| shown(&it.prompt)).collect();
    let expect: [&[&str]; 5] = [
        &["go"],
        &["go", "looking"],
        &["go", "looking", "looking"],
        &["go", "one", "and now?"],
        &["go", "one", "and now?", "looking"],
    ];
    assert_eq!(requests, expect);
}

#[test]
fn the_compiler_of_an_agent_is_the_one_it_was_given() {
    let model = FakeModel::script([ScenarioStep::tool("looking"), "one".into(), "two".into()]);
    let agent = with(asking(&model), UseContextCompiler::new(SelectedSections::default()));
    let first = execute(&agent, asked());
    drop(execute(&agent, first.with_user_message("and now?")));
    let last = model.requests().pop().unwrap();
    assert_eq!(shown(&last.prompt), ["go", "looking", "one", "and now?"]);
}

#[test]
fn a_continued_prompt_shares_the_turns_it_had() {
    let state = worked(1);
    for compiler in compilers() {
        let before = compile(&*compiler, &state, None);
        let grown = state.clone().with_user_message("more");
        let after = compile(&*compiler, &grown, Some(&before));
        assert!(after.turns.starts_with(&before.turns));
        assert_eq!((after.turns.len(), after.prefix_break), (before.turns.len() + 1, None));
        let shared =
            before.turns.iter().zip(&after.turns).all(|(one, same)| Arc::ptr_eq(one, same));
        assert!(shared);
    }
}

#[test]
fn a_prompt_that_is_not_continued_says_why() {
    let state = append(worked(1), SUMMARY, "before that");
    let compiler = ConversationWithCurrentToolTrace;
    let previous = compile(&compiler, &state, None);
    assert_eq!(previous.prefix_break, None);
    let check = |compiler: &dyn ContextCompiler, state: &AgentState, expect| {
        assert_eq!(compile(compiler, state, Some(&previous)).prefix_break, expect);
    };
    check(&compiler, &state, None);
    check(&compiler, &state.clone().with_user_message("more"), None);
    check(&compiler, &append(state.clone(), SUMMARY, "more"), Some(CacheBreak::Compaction));
    check(&compiler, &append(state.clone(), BUFFER, "new"), Some(CacheBreak::Compaction));
    check(&compiler, &replace(state.clone(), MESSAGES, "new"), Some(CacheBreak::Compaction));
    let next = state.clone().for_next_execution();
    check(&compiler, &next, Some(CacheBreak::TraceDropped));
    check(&AllSections, &state, Some(CacheBreak::CompilerChanged));
    check(&SelectedSections::default(), &state, Some(CacheBreak::CompilerChanged));
}

fn compilers() -> [Box<dyn ContextCompiler>; 4] {
    [
        Box::new(ConversationWithCurrentToolTrace),
        Box::new(AllSections),
        Box::new(SelectedSections::default()),
        Box::new(SelectedSections::new([MESSAGES, "notes"])),
    ]
}

/// Something that happens to a state between two compilations.
#[derive(Clone, Debug)]
enum Happening {
    Said(&'static str),
    Replaced(&'static str),
    Cut(usize),
    Executed,
    Stored,
}

fn happening() -> impl Strategy<Value = Happening> {
    let section = || prop::sample::select(&[MESSAGES, SUMMARY, BUFFER, "notes"][..]);
    prop_oneof![
        4 => section().prop_map(Happening::Said),
        1 => section().prop_map(Happening::Replaced),
        1 => (0..4_usize).prop_map(Happening::Cut),
        2 => Just(Happening::Executed),
        1 => Just(Happening::Stored),
    ]
}

impl Happening {
    fn happen(&self, state: AgentState, number: usize) -> AgentState {
        let text = format!("{number}");
        match self {
            Self::Said(section) => append(state, section, &text),
            Self::Replaced(section) => replace(state, section, &text),
            Self::Cut(kept) => {
                let turns = state.transcript().prefix(*kept);
                state.with_transcript(turns)
            }
            Self::Executed => {
                let script = [ScenarioStep::tool(text.clone()), ScenarioStep::final_answer(text)];
                let agent = asking(&FakeModel::script(script));
                execute(&agent.build().unwrap(), state.with_user_message("go"))
            }
            Self::Stored => {
                let stored = serde_json::to_string(&state).unwrap();
                serde_json::from_str(&stored).unwrap()
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn compiling_incrementally_is_compiling_from_scratch(
        happenings in prop::collection::vec(happening(), 1..12),
    ) {
        for compiler in compilers() {
            let mut state = AgentState::new();
            let mut previous = compile(&*compiler, &state, None);
            for (number, happening) in happenings.iter().enumerate() {
                state = happening.happen(state, number);
                let next = compile(&*compiler, &state, Some(&previous));
                let scratch = compile(&*compiler, &state, None);
                prop_assert_eq!(&next.turns, &scratch.turns);
                prop_assert_eq!(&next.tail, &scratch.tail);
                // Where nothing is said to be broken, the turns before are the beginning.
                if next.prefix_break.is_none() {
                    prop_assert!(next.turns.starts_with(&previous.turns));
                }
                previous = next;
            }
        }
    }
}
