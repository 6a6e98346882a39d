//! What a step costs with every capability at once.
//!
//! `cargo bench -p loopwright-capabilities --bench steps` prints the time of a step in windows of two
//! hundred, of runs of 2,000 steps that call a tool of each capability in turn, with a listener to all
//! events.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a bench prints, and may give up")]

#[path = "../tests/everything.rs"]
#[expect(dead_code, clippy::unwrap_used, reason = "tests share it")]
mod everything;

use std::time::{Duration, Instant};

use everything::{Part, World, all, builder, model};
use loopwright_agent::AgentBuilder;
use loopwright_core::{AgentState, RunOptions};

const WINDOW: u32 = 200;
const WINDOWS: usize = 10;
const RUNS: u32 = 5;

/// Takes the time of each window of a run.
async fn windows() -> [Duration; WINDOWS] {
    let world = World::new();
    let model = model(all().map(Part::step).collect());
    let agent = all()
        .map(|it| it.make(&world))
        .fold(builder(&model), AgentBuilder::with_shared_capability)
        .wiretap(|event| _ = std::hint::black_box(event.event.name()))
        .build()
        .expect("the agent is complete");
    let state = AgentState::new().with_user_message("go");
    let mut run = agent.start(state, RunOptions::default());
    let mut windows = [Duration::ZERO; WINDOWS];
    for window in &mut windows {
        let began = Instant::now();
        for _ in 0..WINDOW {
            run.next().await;
        }
        *window = began.elapsed();
    }
    windows
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let mut best = [Duration::MAX; WINDOWS];
    for _ in 0..RUNS {
        let windows = runtime.block_on(windows());
        for (best, window) in best.iter_mut().zip(windows) {
            *best = window.min(*best);
        }
    }
    println!("steps          time per step, best of {RUNS}");
    for (window, time) in (1..).zip(best) {
        let (first, last) = ((window - 1) * WINDOW + 1, window * WINDOW);
        let micros = time.as_secs_f64() * 1e6 / f64::from(WINDOW);
        println!("{first:>6}–{last:<6}  {micros:>6.2} µs");
    }
}
