//! The capability for task planning.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};

use crate::tasks::{compiler::Reminding, policy::TodoPolicy, tool};

/// Adds the tool `todo_write`, which maintains a task list, and reminds the model of the list.
///
/// An unfinished list is shown in each request of a later execution until the model writes it.
///
/// The list is [`TASKS`](loopwright_agent::tasks::TASKS) of the state: it outlives the execution,
/// and programs read and write it with [`TaskList`](super::TaskList). Reminders appear once, at the
/// end of a request, and are never part of the conversation.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct UseTaskPlanning(TodoPolicy);

impl UseTaskPlanning {
    /// Creates the capability with a policy.
    pub fn new(policy: TodoPolicy) -> Self {
        Self(policy)
    }
}

impl Capability for UseTaskPlanning {
    fn name(&self) -> Cow<'static, str> {
        "use_task_planning".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let policy = self.0;
        agent.tools.add(tool::todo_write(policy));
        agent.compiler.wrap(move |inner| Arc::new(Reminding { inner, policy }));
        Ok(())
    }
}
