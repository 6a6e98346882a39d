//! What a step costs in process: time, and memory that stays.
//!
//! `cargo bench -p loopwright-agent --bench steps` prints, for runs of up to 10,000 steps with a
//! model in process and one tool call a step, the time of a step in windows of a thousand, and how
//! much the process grows by each step, beside the size of the step as it would be stored.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use loopwright_agent::{AgentBuilder, UseLlmConfig, UseTools};
use loopwright_core::{
    AgentLoop, AgentState, BoxError, ChatModel, InferCx, ModelError, RunOptions,
    messages::{
        Content, InferenceRequest, InferenceResponse, Message, Part, Role, ToolCall, Usage,
    },
    tool_fn,
};

/// Calls a tool in every answer.
struct Busy;

#[async_trait]
impl ChatModel for Busy {
    async fn infer(
        &self,
        _request: &InferenceRequest,
        _cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let call = ToolCall::new("call_1", "add", r#"{"a":1,"b":2}"#);
        let message = Message::new(Role::Assistant, [Part::new(Content::ToolCall(call))]);
        Ok(InferenceResponse::new(message, Usage::new(100, 10)))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn agent() -> AgentLoop {
    let add = tool_fn("add", "Adds two numbers.", |args: Add| async move {
        Ok::<_, BoxError>(args.a + args.b)
    });
    let builder = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(Busy))
        .with_capability(UseTools::new().and(add));
    builder.build().expect("the agent is complete")
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}

const WINDOW: u32 = 1_000;
const WINDOWS: u32 = 10;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let agent = agent();
    let mut best = vec![Duration::MAX; WINDOWS as usize];
    let mut growth = Vec::new();
    let mut stored = 0;
    for round in 0..7 {
        let mut run = agent.start(AgentState::new().with_user_message("go"), RunOptions::default());
        let before = resident();
        for slot in &mut best {
            let began = Instant::now();
            runtime.block_on(async {
                for _ in 0..WINDOW {
                    run.next().await;
                }
            });
            *slot = (*slot).min(began.elapsed());
        }
        let steps = (WINDOW * WINDOWS) as usize;
        // The first round also pays for what the allocator keeps for itself.
        if round == 0 {
            growth.push(resident().saturating_sub(before) / steps);
            let state = run.state();
            stored = serde_json::to_vec(state).unwrap().len() / steps;
        }
        drop(Arc::new(run));
    }
    println!("steps          time per step (best of 7)");
    for (index, time) in best.iter().enumerate() {
        let last = (index as u32 + 1) * WINDOW;
        println!(
            "{:>6}–{last:<6}  {:>8.2} µs",
            last - WINDOW + 1,
            time.as_secs_f64() * 1e6 / f64::from(WINDOW)
        );
    }
    println!(
        "resident growth per step at {}: {} bytes; stored step: {stored} bytes",
        WINDOW * WINDOWS,
        growth[0]
    );
}
