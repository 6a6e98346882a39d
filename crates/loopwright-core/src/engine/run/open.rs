//! The start of a run: a new execution, or a resumed one.

use std::sync::Arc;

use loopwright_messages::{AgentId, ExecutionId, Message, SectionName, TurnBody};

use crate::{
    change::{Change, Edit},
    clock::Timestamp,
    event::ExecutionStarted,
    event_bus::EventBus,
    execution::ExecutionStatus,
    hook::HookPoint,
    meter::BudgetAccount,
    on_ask::OnAsk,
    run::{Phase, PhaseResult, Run},
    trace,
};

impl Run {
    /// Starts an execution, or resumes one that was interrupted or paused.
    pub(super) fn open(&mut self) -> PhaseResult {
        let now = self.now();
        let waits = self.options.on_ask == OnAsk::Pause && self.state.waits_at(now);
        if *self.state.status() == ExecutionStatus::Paused && waits {
            self.drain_inbox_final();
            self.point = Phase::Over;
            return PhaseResult::Finished;
        }
        let resumed = self.state.is_resumable();
        let had_ended = self.state.execution().is_some_and(|it| it.is_unanswered);
        let change = if resumed { Change::ExecutionResumed } else { self.opened(now) };
        self.record(change);
        self.start_timing();
        self.set_up();
        let (messages, tools) = (self.state.transcript().len(), self.agent.tools().len());
        let name = Arc::clone(&self.agent.profile().name);
        self.span = trace::run(&name, &self.state, resumed);
        self.say(|_| ExecutionStarted { name, messages, tools, resumed });
        if had_ended {
            self.ask_to_continue();
        }
        // An execution that had ended begins its work once more, and is begun like a new one.
        let is_beginning = had_ended || !resumed;
        self.advance_to(if is_beginning { Phase::BeforeExecution } else { self.resume_at() })
    }

    /// Returns the first phase of a resumed run. An interrupted run continues its open step. After
    /// a closed step, it calls the hooks that were not called about it and decides again.
    fn resume_at(&self) -> Phase {
        let Some(execution) = self.state.execution() else { return Phase::Checkpoint };
        match (execution.open_step(), execution.last_step()) {
            (Some(open), _) if open.thought().is_some() => Phase::Act,
            (None, Some(step)) if execution.awaits_hooks => match step.failure() {
                Some(failure) => Phase::Recover(failure.clone()),
                None if self.agent.interceptor().contains(HookPoint::AfterStep) => Phase::AfterStep,
                None => Phase::Decide,
            },
            (None, Some(_)) => Phase::Decide,
            _ => Phase::Checkpoint,
        }
    }

    /// Asks a model that was interrupted in the middle of an answer to continue, because no request
    /// ends with a message of the model.
    fn ask_to_continue(&mut self) {
        let is_cut = self
            .state
            .transcript()
            .last()
            .is_some_and(|turn| matches!(turn.body(), TurnBody::Reply(_)));
        if is_cut {
            let message = Message::user("Continue from where you were interrupted.");
            let section = SectionName::MESSAGES.into();
            let edit = Edit::Append { section, message };
            self.record(Change::StateEdited { by: Arc::from("loop"), edit });
        }
    }

    fn opened(&self, now: Timestamp) -> Change {
        let number = self.state.seq() ^ now.millis().rotate_left(20);
        let id = |kind| self.options.env.id(kind, number);
        let agent = self.state.id().cloned().unwrap_or_else(|| AgentId::new(id("agent")));
        Change::ExecutionStarted { agent, execution: ExecutionId::new(id("execution")) }
    }

    /// Sets up the limits, which need the start and the budget of the execution.
    pub(super) fn set_limits(&mut self) {
        let working = self.working();
        let Some(execution) = self.state.execution() else { return };
        let (budget, used) = (*self.state.budget(), execution.budget_usage(working));
        self.meter = match &self.options.meter {
            Some(meter) => meter.child(&budget.remaining(used)),
            None => BudgetAccount::new(&budget.remaining(used)),
        };
        self.way = self.inference_context();
    }

    /// Sets up the parts that need the IDs and the budget of the execution.
    fn set_up(&mut self) {
        let Some(execution) = self.state.execution() else { return };
        let mut sinks = self.agent.sinks().clone();
        sinks.extend(&self.options.sinks);
        if let Some(agent) = self.state.id().cloned() {
            let parent = self.state.parent().filter(|_| !self.options.is_top_level).cloned();
            let id = execution.id().clone();
            self.events = EventBus::new(&sinks, &self.options.env.clock, agent, parent, id);
        }
        self.set_limits();
    }
}
