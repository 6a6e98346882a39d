//! Permission rules for the calls of an agent: which calls run, need approval or are denied.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseTools};
//! use loopwright_capabilities::llm::UseLlm;
//! use loopwright_capabilities::permissions::{Permissions, UsePermissions};
//! use loopwright_core::{AgentState, ApprovalDecision, BoxError, NoArgs, tool_fn};
//! use loopwright_permissions::{Mode, Policy, Source, SourceKind};
//! use loopwright_testing::{FakeModel, ScenarioStep, block_on};
//!
//! let refund = tool_fn("refund", "Pays the order back.", |_: NoArgs| async { Ok::<_, BoxError>("paid") });
//! let rules = Source::new(SourceKind::User, "support.toml", "/").ask("refund", 1);
//! let policy = Policy::builder("/").mode(Mode::Unconfined).source(rules).build();
//! let model = FakeModel::script([
//!     ScenarioStep::tool_call("refund", serde_json::json!({})),
//!     ScenarioStep::final_answer("Your money is on its way."),
//! ]);
//! let agent = AgentBuilder::base()
//!     .with(UseLlm::from_model(model))
//!     .with(UseTools::new().with_tool(refund))
//!     .with(UsePermissions::new(Permissions::new(policy)))
//!     .build()?;
//!
//! // The run pauses; the state can be kept, and decided about anywhere.
//! let state = block_on(agent.execute(AgentState::new().with_user_message("I want my money back.")));
//! assert_eq!(state.pending()[0].question.text, "rule `refund` of support.toml:1");
//! let state = block_on(agent.execute(state.decide(0, ApprovalDecision::Approve)));
//! assert_eq!(state.text(), "Your money is on its way.");
//! # Ok::<(), BoxError>(())
//! ```
//!
//! Sub-agents are bound by the rules of their parent: a call that needs approval pauses the parent,
//! with the path of the sub-agent.

mod capability;
mod hook;
#[cfg(all(feature = "tools", target_os = "linux"))]
mod links;
mod restriction;
mod shared;
#[cfg(test)]
mod tests;

pub use self::{capability::UsePermissions, hook::HOOK, shared::Permissions};
pub use loopwright_core::OnAsk;
