//! A task list that the model maintains while it works.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::tasks::{TodoPolicy, UseTaskPlanning};
//! # use loopwright_testing::FakeModel;
//! # let model = FakeModel::default();
//!
//! let planning = UseTaskPlanning::new(TodoPolicy { max_items: 25, ..Default::default() });
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(planning)
//!     .build()?;
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

mod policy;
mod tool;
mod compiler;
mod capability;

pub use self::{
    capability::UseTaskPlanning,
    policy::{TaskParsing, TodoPolicy},
    tool::TodoError,
};
pub use loopwright_agent::tasks::{TASKS, Task, TaskList, TaskStatus};

#[cfg(test)]
mod tests;
