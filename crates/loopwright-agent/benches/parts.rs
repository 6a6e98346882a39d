//! What the parts of a step cost.
//!
//! `cargo bench -p loopwright-agent --bench parts` prints the time of a hundred steps with 0, 1, 10 and 100
//! hooks, with a listener and a journal in memory, and with what `AgentBuilder::standard` adds; of a snapshot
//! of a state, of an edit, and of compiling what the model sees, after 10, 1,000 and 5,000 steps.

#![expect(clippy::expect_used, reason = "a bench may give up")]

use std::{
    hint::black_box,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use divan::{Bencher, counter::ItemsCount};
use loopwright_agent::{
    AgentBuilder, ConversationWithCurrentToolTrace, UseHook, UseLlmConfig, UseTools,
};
use loopwright_core::{
    AgentLoop, AgentState, BoxError, ChangeRecord, ContextCompiler as _, Flow, Hook, HookCx,
    HookPoint, HookPoints, IdempotencyKey, Journal, JournalError, Run, RunOptions, Seq, StateEdit,
};
use tokio::runtime::Runtime;

use self::busy::{Busy, add};

#[path = "support/busy.rs"]
mod busy;

fn main() {
    divan::main();
}

/// Looks at each step before it begins, as a guard does.
struct Looking;

#[async_trait]
impl Hook for Looking {
    fn points(&self) -> HookPoints {
        HookPoints::from_points([HookPoint::BeforeStep])
    }

    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        black_box(state.step_count());
        Ok(Flow::Continue)
    }
}

/// Keeps changes in memory.
#[derive(Default)]
struct Kept(Mutex<Vec<ChangeRecord>>);

#[async_trait]
impl Journal for Kept {
    async fn append(&self, _first: Seq, changes: &[ChangeRecord]) -> Result<(), JournalError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(changes);
        Ok(())
    }

    fn child(&self, _call: &IdempotencyKey) -> Arc<dyn Journal> {
        Arc::new(Self::default())
    }
}

fn agent(builder: AgentBuilder, hooks: usize) -> AgentLoop {
    let builder = builder
        .with_capability(UseLlmConfig::model(Busy))
        .with_capability(UseTools::new().with_tool(add()));
    let builder = (0..hooks).fold(builder, |builder, number| {
        builder.with_capability(UseHook::new(Looking).with_name(format!("looking {number}")))
    });
    builder.build().expect("the agent is complete")
}

fn state() -> AgentState {
    AgentState::new().with_user_message("go")
}

fn runtime() -> Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime")
}

/// Takes the time of a hundred steps after the first ten.
fn hundred(bencher: Bencher<'_, '_>, start: impl Fn() -> Run) {
    let runtime = runtime();
    let take = |run: &mut Run, steps: usize| {
        runtime.block_on(async {
            for _ in 0..steps {
                run.next().await;
            }
        });
    };
    let input = || {
        let mut run = start();
        take(&mut run, 10);
        run
    };
    bencher.counter(ItemsCount::new(100usize)).with_inputs(input).bench_local_values(|mut run| {
        take(&mut run, 100);
        run
    });
}

#[divan::bench(args = [0, 1, 10, 100])]
fn hundred_steps_with_hooks(bencher: Bencher<'_, '_>, hooks: usize) {
    let agent = agent(AgentBuilder::base(), hooks);
    hundred(bencher, || agent.start(state(), RunOptions::default()));
}

#[divan::bench]
fn hundred_steps_with_ten_hooks_a_listener_and_a_journal(bencher: Bencher<'_, '_>) {
    let agent = agent(AgentBuilder::base(), 10).wiretap(|event| _ = black_box(event.event.name()));
    hundred(bencher, || {
        let journal = Some(Arc::new(Kept::default()) as Arc<dyn Journal>);
        agent.start(state(), RunOptions { journal, ..RunOptions::default() })
    });
}

#[divan::bench]
fn hundred_steps_of_a_standard_agent(bencher: Bencher<'_, '_>) {
    let agent = agent(AgentBuilder::standard(), 0);
    hundred(bencher, || agent.start(state(), RunOptions::default()));
}

/// A state after so many steps.
fn after(steps: u32) -> AgentState {
    let mut run = agent(AgentBuilder::base(), 0).start(state(), RunOptions::default());
    runtime().block_on(async {
        for _ in 0..steps {
            run.next().await;
        }
    });
    run.into_state()
}

const STEPS: [u32; 3] = [10, 1_000, 5_000];

#[divan::bench(args = STEPS)]
fn snapshot(bencher: Bencher<'_, '_>, steps: u32) {
    let state = after(steps);
    bencher.bench_local(|| state.clone());
}

#[divan::bench(args = STEPS)]
fn append_a_message(bencher: Bencher<'_, '_>, steps: u32) {
    let state = after(steps);
    let input = || (state.clone(), "go on");
    bencher.with_inputs(input).bench_local_values(|(state, text)| state.with_user_message(text));
}

#[divan::bench(args = STEPS)]
fn compile(bencher: Bencher<'_, '_>, steps: u32) {
    let (runtime, state) = (runtime(), after(steps));
    let compiler = ConversationWithCurrentToolTrace;
    let prompt = runtime.block_on(compiler.compile(&state, None)).expect("it compiles");
    let input = || Some(prompt.clone());
    bencher.with_inputs(input).bench_local_values(|previous| {
        runtime.block_on(compiler.compile(&state, previous)).expect("it compiles")
    });
}
