//! What befalls the world, and what stays true.

use std::{collections::BTreeMap, pin::pin, sync::Arc};

use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, Budget, CallState, Change, ChangeRecord,
    ExecutionStatus, Failure, FailureKind, HookStack, Priority, Run, RunOptions, ToolOutput,
    messages::{Message, TurnBody},
};
use loopwright_testing::{
    FrozenClock, MemoryJournal, poll_times, run_until_stuck, test_loop, validate,
};

use super::{Case, Op, PlannedDriver, PlannedHook, Witness, tools};
use crate::support::{lock, replay};

pub(super) struct World {
    agent: AgentLoop,
    witness: Arc<Witness>,
    clock: FrozenClock,
    run: Option<Run>,
    /// What no run holds.
    state: AgentState,
    /// What was said to a run that took it.
    said: Vec<String>,
}

pub(super) type Checked = Result<(), String>;

impl World {
    pub(super) fn live_through(case: &Case) -> Checked {
        let mut world = Self::new(case);
        for op in &case.ops {
            world.suffer(*op)?;
            world.check().map_err(|problem| format!("after {op:?}: {problem}"))?;
        }
        world.terminates()
    }

    fn new(case: &Case) -> Self {
        let journal = MemoryJournal::new().with_delay(case.append_pauses);
        let witness = Arc::new(Witness { journal, ..Witness::default() });
        let mut agent = test_loop(PlannedDriver(case.plan.clone(), Arc::clone(&witness)));
        for tool in tools(&witness) {
            agent = agent.with_tool(tool);
        }
        if case.has_hooks {
            let mut hooks = HookStack::default();
            hooks.add_at(
                Priority::default(),
                PlannedHook {
                    witness: Arc::clone(&witness),
                    pauses: case.hook_pauses,
                    vetoes: case.vetoes,
                    retries: case.retries,
                },
            );
            agent = agent.with_interceptor(hooks.into_interceptor());
        }
        let budget = Budget { steps: case.steps, ..Budget::default() };
        let state = AgentState::new().with_budget(budget).with_user_message("go");
        Self { agent, witness, clock: FrozenClock::new(), run: None, state, said: Vec::new() }
    }

    fn suffer(&mut self, op: Op) -> Checked {
        match op {
            Op::Next(times) => (0..times).try_for_each(|_| {
                self.next()?;
                self.check()
            })?,
            Op::PollAndDrop(times) => {
                let run = self.run();
                if poll_times(pin!(run.next()), times).is_some_and(|it| it.is_none()) {
                    self.rest();
                }
            }
            Op::Cancel => self.run().handle().cancel(),
            Op::Steer => {
                let text = format!("message {}", self.said.len());
                if self.run().handle().steer(Message::user(text.clone())).is_ok() {
                    self.said.push(text);
                }
            }
            Op::Fail(append, fault) => {
                let journal = &self.witness.journal;
                journal.fail_at(journal.appends() + append as usize, fault);
            }
            Op::FailHook(point) => *lock(&self.witness.failing_hook) = Some(point),
            Op::StartAgain => self.rest(),
            Op::Resolve(how) => {
                self.rest();
                self.resolve(how);
            }
            Op::Say => {
                self.rest();
                self.state = std::mem::take(&mut self.state).with_user_message("more");
            }
        }
        if self.witness.journal.has_crashed() || self.is_fenced() {
            self.restore();
        }
        Ok(())
    }

    /// Returns the run, and begins one if there is none.
    fn run(&mut self) -> &mut Run {
        let options = || RunOptions {
            env: self.clock.env(7),
            journal: Some(Arc::new(self.witness.journal.clone())),
            ..RunOptions::default()
        };
        let (agent, state) = (&self.agent, &mut self.state);
        self.run.get_or_insert_with(|| {
            let mut state = std::mem::take(state);
            let is_journal = |it: &Failure| it.kind == FailureKind::Journal;
            let goes_on =
                matches!(state.status(), ExecutionStatus::Failed(failure) if is_journal(failure));
            if state.status().is_terminal() && !goes_on {
                state = state.with_user_message("again");
            }
            agent.start(state, options())
        })
    }

    fn next(&mut self) -> Checked {
        let next = run_until_stuck(self.run().next()).map(|state| state.is_some());
        match next {
            Some(true) => (),
            Some(false) => self.rest(),
            None if self.witness.journal.has_crashed() => self.restore(),
            None => return Err("the run waits for nothing".into()),
        }
        Ok(())
    }

    /// Ends the run, and keeps its state.
    fn rest(&mut self) {
        if let Some(run) = self.run.take() {
            self.state = run.into_state();
        }
    }

    /// Forgets everything but what the journal kept.
    fn restore(&mut self) {
        self.run = None;
        self.said.clear();
        let journal = &self.witness.journal;
        journal.recover();
        self.state = replay(journal);
        if self.state.transcript().is_empty() {
            self.state = std::mem::take(&mut self.state).with_user_message("go");
        }
    }

    /// Returns `true` if another process may write to the journal.
    fn is_fenced(&self) -> bool {
        let fenced = |it: &Failure| {
            it.kind == FailureKind::Journal && !it.message().contains("not available")
        };
        matches!(self.live().status(), ExecutionStatus::Failed(failure) if fenced(failure))
    }

    fn resolve(&mut self, how: u8) {
        let calls: Vec<u16> = self.state.pending().iter().map(|it| it.index).collect();
        for call in calls {
            let resolution = match how {
                0 => ApprovalDecision::Approve,
                1 => ApprovalDecision::Deny { reason: "no".into() },
                _ => ApprovalDecision::Answer(ToolOutput::text("as the user says")),
            };
            self.state = std::mem::take(&mut self.state).decide(call, resolution);
        }
    }

    fn live(&self) -> &AgentState {
        self.run.as_ref().map_or(&self.state, Run::state)
    }

    fn check(&self) -> Checked {
        let state = self.live();
        validate(state.transcript()).map_err(|problems| problems.join("; "))?;
        self.is_the_fold_of_its_changes()?;
        self.nothing_happened_twice()?;
        no_outcome_is_lost(&self.witness.journal.changes(), state)?;
        match lock(&self.witness.problems).first() {
            Some(problem) => Err(problem.clone()),
            None => Ok(()),
        }
    }

    fn is_the_fold_of_its_changes(&self) -> Checked {
        let (state, journal) = (self.live(), &self.witness.journal);
        let is_away = matches!(state.status(), ExecutionStatus::Failed(it) if it.kind == FailureKind::Journal);
        if state.unsaved_changes().next().is_some() || is_away {
            return Ok(());
        }
        let replayed =
            AgentState::new().replay(journal.changes()).map_err(|error| error.to_string())?;
        if replayed == *state {
            return Ok(());
        }
        let (replayed, live) = (format!("{replayed:#?}"), format!("{state:#?}"));
        let differ = |(one, other): &(&str, &str)| one != other;
        let first = replayed.lines().zip(live.lines()).find(differ);
        Err(format!("replayed is not live, first in {first:?}: {:?}", journal.names()))
    }

    fn nothing_happened_twice(&self) -> Checked {
        const ONCE: &[&str] = &["once", "alone", "effects", "failing", "stopping"];
        let ran = lock(&self.witness.ran);
        let mut once: Vec<_> = ran.iter().filter(|(tool, _)| ONCE.contains(tool)).collect();
        once.sort();
        match once.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("{} ran twice: {}", pair[0].0, pair[0].1)),
            None => Ok(()),
        }
    }

    fn nothing_said_is_lost(&self) -> Checked {
        let heard = |text: &String| {
            self.state.transcript().iter().any(|turn| turn.message().text() == *text)
        };
        match self.said.iter().find(|text| !heard(text)) {
            Some(text) => Err(format!("{text} is lost")),
            None => Ok(()),
        }
    }

    /// The run ends, once nothing more befalls it.
    fn terminates(&mut self) -> Checked {
        self.witness.journal.recover();
        *lock(&self.witness.failing_hook) = None;
        for _ in 0..60 {
            self.next()?;
            self.check()?;
            if self.run.is_some() {
                continue;
            }
            if !self.state.pending().is_empty() {
                self.resolve(0);
                continue;
            }
            let is_away = matches!(self.state.status(), ExecutionStatus::Failed(it) if it.kind == FailureKind::Journal);
            if self.state.status().is_terminal() && !is_away {
                return self.nothing_said_is_lost();
            }
        }
        Err(format!("the run does not end: {}", self.live().explain_stop()))
    }
}

/// What the journal says of each call is in the conversation, or in the open step.
fn no_outcome_is_lost(changes: &[ChangeRecord], state: &AgentState) -> Checked {
    let (mut execution, mut step) = (None, 0);
    let mut settled = BTreeMap::new();
    for stamped in changes {
        match &stamped.change {
            Change::ExecutionStarted { execution: id, .. } => {
                (execution, step) = (Some(id.clone()), 1);
            }
            Change::StepCompleted { .. } | Change::StepFailed { .. } => step += 1,
            Change::ToolCallCompleted { call, outcome, .. } => {
                settled.insert((execution.clone(), step, *call), Arc::clone(outcome));
            }
            _ => (),
        }
    }
    for ((execution, step, call), outcome) in settled {
        let index = usize::from(call);
        let of_step = state
            .transcript()
            .iter()
            .find(|turn| turn.meta().execution == execution && turn.meta().step == Some(step));
        let told = of_step.and_then(|turn| match turn.body() {
            TurnBody::ToolExchange(exchange) => exchange.results().get(index).cloned(),
            _ => None,
        });
        let open = state.execution().and_then(|it| it.open_step());
        let open = open.filter(|it| it.number() == step).and_then(|it| it.calls().get(index));
        let is_open = matches!(open, Some(CallState::Completed(it)) if *it == outcome);
        if told != Some(outcome.to_result()) && !is_open {
            return Err(format!("the outcome of call {call} of step {step} is lost: {outcome:?}"));
        }
    }
    Ok(())
}
