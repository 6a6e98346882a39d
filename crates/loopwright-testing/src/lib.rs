//! The testing kit: scripted models and drivers, mock tools, a frozen clock, recorders and validators.
//!
//! An agent under test is [`test_loop`] with a driver: [`FakeDriver`] responds from a script,
//! [`ModelDriver`] calls a [`FakeModel`]. [`MockTool`]s record their calls, and [`EventRecorder`]
//! records events. [`MemoryJournal`] stores changes and fails on demand, [`FrozenClock`] moves only
//! on request, and [`validate`] checks the conversation. These use no network, no files and no
//! system clock.
//!
//! `recorded`, a feature that is on by default, replays recorded traffic of providers against the
//! wires, over the local network of the machine.

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
    agent::{
        CurrentTraceOnly, FullTranscript, execute, test_loop, test_options, tool_results,
        turn_texts,
    },
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
