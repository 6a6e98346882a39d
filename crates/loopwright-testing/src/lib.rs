//! The testing kit: scripted models and drivers, mock tools, a frozen clock, recorders and validators.
//!
//! An agent under test is [`test_loop`] a driver: [`FakeDriver`] answers from a script, [`ModelDriver`]
//! asks a [`FakeModel`]. [`MockTool`]s note their calls, [`EventRecorder`] notes events,
//! [`MemoryJournal`] keeps changes and fails on demand, [`FrozenClock`] lets time pass only when told,
//! and [`validate`] looks at what became of the conversation. Nothing of these uses a network, a file
//! or the machine's clock.
//!
//! `recorded`, a feature that is on by default, plays recorded traffic with providers against the
//! wires, over the machine's own network.

mod poll;
mod clock;
mod scenario;
mod driver;
mod model;
mod tool;
pub mod tool_source;
mod timeline;
mod recorder;
mod journal;
mod validate;
mod agent;

#[cfg(feature = "recorded")]
pub mod recorded;

pub use crate::{
    agent::{CurrentTraceOnly, FullTranscript, test_loop},
    clock::{FrozenClock, test_env},
    driver::{FakeDriver, ModelDriver},
    journal::{Fault, MemoryJournal},
    model::FakeModel,
    poll::{YieldTimes, block_on, poll_times, run_until_stuck, yield_times},
    recorder::EventRecorder,
    scenario::ScenarioStep,
    timeline::Timeline,
    tool::{MockTool, SCRIPTED_TOOL},
    tool_source::ScriptedToolSource,
    validate::validate,
};
