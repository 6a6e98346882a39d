//! Many commands that do all they can to stay.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loopwright_sandbox::{ExitOutcome, Sandbox as _, TimeoutKind};
use tokio::sync::Semaphore;

use crate::world::{World, left, mark, sh};

/// Ignores requests, forks twice, holds its pipes, stops itself.
fn stay(mark: &str) -> String {
    format!(
        "trap '' TERM INT HUP QUIT; \
         (setsid sh -c 'trap \"\" TERM HUP; sleep {mark} & kill -STOP $$' &) ; \
         setsid sleep {mark} & (sleep {mark} &) ; while :; do sleep {mark}; done"
    )
}

/// Runs `count` commands, `slots` at a time, each until its time runs out; the times from then to the end.
async fn run(count: usize, slots: usize, mark: &str) -> Vec<Duration> {
    let world = Arc::new(World::new());
    let free = Arc::new(Semaphore::new(slots));
    let wall = Duration::from_millis(1500);
    let mut tasks = Vec::new();
    for _ in 0..count {
        let (world, free, mark) = (Arc::clone(&world), Arc::clone(&free), mark.to_owned());
        tasks.push(tokio::spawn(async move {
            let _slot = free.acquire().await.unwrap();
            let policy = world.policy().with_timeout(wall).with_grace(Duration::ZERO);
            let child = world.driver().spawn(&sh(&stay(&mark)), &policy).await.unwrap();
            let output = child.wait().await;
            assert_eq!(output.outcome, ExitOutcome::TimedOut(TimeoutKind::Wall));
            output.elapsed
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.push(task.await.unwrap().saturating_sub(wall));
    }
    times.sort();
    times
}

/// 500, or with `LOOPWRIGHT_LONG` 10 000 whose times are printed.
#[tokio::test]
async fn no_command_leaves_a_process_behind() {
    let count = if std::env::var_os("LOOPWRIGHT_LONG").is_some() { 10_000 } else { 500 };
    let mark = mark();
    let began = Instant::now();
    let times = run(count, 100, &mark).await;
    let survivors = left(&mark);
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    println!(
        "{count} commands in {:?}, {survivors} survivors; from deadline to end: median {:?}, 99 % {:?}, most {:?}",
        began.elapsed(),
        at(50),
        at(99),
        at(100)
    );
    assert_eq!(survivors, 0);
}
