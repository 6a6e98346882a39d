//! The core as facts. One binary: a module below is one theme.

mod support;
mod async_hooks;
mod bad_input;
mod budget;
mod children;
mod consent;
mod events;
mod files;
mod hooks;
mod journal;
mod on_ask;
mod pauses;
mod property;
mod reading;
mod registry;
mod reply;
mod request;
mod rounds;
mod state;
mod steering;
mod stop;
mod surface;
mod time;
mod tool_sources;
#[cfg(feature = "tracing")]
mod tracing;
mod tools;
