//! What a step costs in process: time, and memory that stays.
//!
//! `cargo bench -p loopwright-agent --bench steps` prints, for runs of up to 10,000 steps with a
//! model in process and one tool call a step, how much the process grows by each step beside the size
//! of a stored step, the time of a step in windows of a thousand, and what a hundred steps cost after
//! so many others.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a bench prints, and may give up")]

use std::time::{Duration, Instant};

use divan::counter::ItemsCount;
use loopwright_agent::{AgentBuilder, UseLlmConfig, UseTools};
use loopwright_core::{AgentLoop, AgentState, Run, RunOptions};

use self::busy::{Busy, add};

#[path = "support/busy.rs"]
mod busy;

fn agent() -> AgentLoop {
    let builder = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(Busy))
        .with_capability(UseTools::new().with_tool(add()));
    builder.build().expect("the agent is complete")
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}

/// A run that has taken so many steps.
fn run_of(steps: u32) -> Run {
    let mut run = agent().start(AgentState::new().with_user_message("go"), RunOptions::default());
    take(&mut run, steps);
    run
}

fn take(run: &mut Run, steps: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        for _ in 0..steps {
            run.next().await;
        }
    });
}

/// A hundred steps, after so many others.
#[divan::bench(args = [0, 1_000, 5_000, 10_000], sample_count = 30, sample_size = 1)]
fn hundred_steps_after(bencher: divan::Bencher<'_, '_>, steps: u32) {
    let input = || run_of(steps);
    bencher.counter(ItemsCount::new(100usize)).with_inputs(input).bench_local_values(|mut run| {
        take(&mut run, 100);
        run
    });
}

const WINDOW: u32 = 1_000;
const WINDOWS: u32 = 10;

fn main() {
    print_growth();
    print_windows();
    divan::main();
}

/// Prints how much the process grows by a step, beside what the step is when it is stored.
fn print_growth() {
    let steps = WINDOW * WINDOWS;
    let before = resident();
    let run = run_of(steps);
    let grown = resident().saturating_sub(before) / steps as usize;
    let stored = serde_json::to_vec(run.state()).map_or(0, |it| it.len()) / steps as usize;
    println!(
        "resident growth per step at step {steps}: {grown} bytes; a stored step: {stored} bytes"
    );
}

/// Prints the best time of a step in windows of a thousand.
fn print_windows() {
    let mut best = [Duration::MAX; WINDOWS as usize];
    for _ in 0..9 {
        let mut run = run_of(0);
        for slot in &mut best {
            let began = Instant::now();
            take(&mut run, WINDOW);
            *slot = (*slot).min(began.elapsed());
        }
    }
    println!("steps          time per step, best of 9");
    for (window, time) in (1..).zip(best) {
        let (first, last) = ((window - 1) * WINDOW + 1, window * WINDOW);
        let micros = time.as_secs_f64() * 1e6 / f64::from(WINDOW);
        println!("{first:>6}–{last:<6}  {micros:>6.2} µs");
    }
}
