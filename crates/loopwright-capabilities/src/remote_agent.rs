//! Remote agents, to which an agent delegates work by A2A 1.0 or AG-UI.
//!
//! With `ask_remote_agent`, the model gives a task to an agent of another server. The program names these agents with
//! their addresses and credentials; the model selects one by its name.
//!
//! A remote agent is a [sub-agent](crate::child): its questions wait at the agent that the user talks to, cancelling the
//! run cancels its task, and the journal of the call has the ID of the task. A run that continues after a crash follows
//! the same task. If the crash happened before the ID was known, the message is not sent again, and the outcome is
//! reported as unknown. By AG-UI, a run cannot be followed from its middle: its outcome is unknown after any crash.

mod ag_ui;
mod agent;
mod capability;
mod client;
mod steps;
#[cfg(test)]
mod tests;
mod wire;

pub use self::{
    agent::{InvalidRemoteAgent, RemoteAgent, RemoteAgentPolicy, RemoteProtocol},
    capability::UseRemoteAgent,
};
