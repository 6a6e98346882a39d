#![allow(unused_variables)]

use std::{fmt::Display, sync::Arc};

use loopwright_macros::tool;

/// Wants the state for itself.
#[tool(crate = "loopwright_core")]
async fn owns(#[state] notes: Arc<String>) {}

/// Changes the state.
#[tool(crate = "loopwright_core")]
async fn changes(#[state] notes: &mut String) {}

/// Has no size.
#[tool(crate = "loopwright_core")]
async fn unsized_state(#[state] notes: &dyn Display) {}

/// Tells the model of the state.
#[tool(crate = "loopwright_core")]
async fn tells(#[state(shared)] #[serde(default)] notes: &String) {}

fn main() {}
