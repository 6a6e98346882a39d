//! How commands end, and that nothing of them is left.

use std::time::Duration;

use loopwright_sandbox::{
    Backend, Cgroup, Command, ExitOutcome, Guarantee, Limit, Sandbox, TimeoutKind,
};
use tokio_util::sync::CancellationToken;

use crate::world::{World, left, mark, sh, until_said};

/// A command that ignores every polite request and leaves its group, its session and its parent.
fn stubborn(mark: &str) -> String {
    format!(
        "trap '' TERM INT HUP; \
         setsid sleep {mark} & (setsid setsid sleep {mark} &) ; (sleep {mark} & kill -STOP $! ) ; \
         echo up; while :; do sleep {mark}; done"
    )
}

async fn times_out(backend: Backend) {
    let world = World::in_tier(backend);
    let mark = mark();
    let policy = world.policy().with_timeout(Duration::from_secs(1));
    let output = world.run(&sh(&stubborn(&mark)), &policy).await;
    assert_eq!(output.outcome, ExitOutcome::TimedOut(TimeoutKind::Wall), "{backend}");
    assert_eq!(left(&mark), 0, "{backend}");
}

#[tokio::test]
async fn time_that_runs_out_ends_every_process() {
    for backend in [Backend::Namespaces, Backend::Landlock, Backend::Host] {
        times_out(backend).await;
    }
}

#[tokio::test]
async fn a_time_shorter_than_a_second_is_kept() {
    let world = World::new();
    let wall = Duration::from_millis(250);
    let output = world.run(&sh("sleep 30"), &world.policy().with_timeout(wall)).await;
    assert_eq!(output.outcome, ExitOutcome::TimedOut(TimeoutKind::Wall));
    assert!(output.elapsed >= wall, "{:?}", output.elapsed);
}

#[tokio::test]
async fn a_command_may_end_by_itself_when_it_is_asked() {
    let world = World::new();
    let policy =
        world.policy().with_timeout(Duration::from_secs(1)).with_grace(Duration::from_secs(20));
    let output = world
        .run(&sh("trap 'echo asked; exit 0' TERM; while :; do sleep 0.1; done"), &policy)
        .await;
    assert_eq!(output.outcome, ExitOutcome::TimedOut(TimeoutKind::Wall));
    assert_eq!(output.stdout.to_text(), "asked\n");
}

#[tokio::test]
async fn a_time_without_end_is_a_time() {
    let world = World::new();
    let policy = world
        .policy()
        .with_timeout(Duration::MAX)
        .with_idle_timeout(Duration::MAX)
        .with_cpu(Duration::MAX)
        .with_grace(Duration::MAX);
    let output = world.run(&sh("exit 4"), &policy).await;
    assert_eq!(output.outcome, ExitOutcome::Exited(4));
}

#[tokio::test]
async fn silence_ends_a_command_and_output_starts_its_time_anew() {
    let world = World::new();
    let policy = world.policy().with_idle_timeout(Duration::from_secs(1));
    let output =
        world.run(&sh("for i in 1 2 3; do sleep 0.5; echo $i; done; sleep 60"), &policy).await;
    assert_eq!(output.outcome, ExitOutcome::TimedOut(TimeoutKind::Idle));
    assert_eq!(output.stdout.to_text(), "1\n2\n3\n");
}

#[tokio::test]
async fn background_processes_end_with_their_command() {
    for backend in [Backend::Namespaces, Backend::Landlock, Backend::Host] {
        let world = World::in_tier(backend);
        let mark = mark();
        let line =
            format!("setsid sleep {mark} & (trap '' HUP; sleep {mark} &) ; sleep 0.1; echo done");
        let output = world.sh(&line).await;
        assert_eq!(output.stdout.to_text(), "done\n", "{backend}");
        assert_eq!((output.outcome, left(&mark)), (ExitOutcome::Exited(0), 0), "{backend}");
    }
}

#[tokio::test]
async fn cancelling_ends_every_process_and_keeps_what_was_said() {
    let world = World::new();
    let mark = mark();
    let cancel = CancellationToken::new();
    let trigger = cancel.clone();
    let mut observer = move |_, bytes: &[u8]| {
        if bytes.ends_with(b"up\n") {
            trigger.cancel();
        }
    };
    let driver = world.driver();
    let sandbox: &dyn Sandbox = &driver;
    let output =
        sandbox.run(&sh(&stubborn(&mark)), &world.policy(), &mut observer, &cancel).await.unwrap();
    assert_eq!((output.outcome, output.stdout.to_text()), (ExitOutcome::Cancelled, "up\n".into()));
    assert_eq!(left(&mark), 0);
}

#[tokio::test]
async fn a_command_cancelled_before_its_start_is_not_started() {
    let world = World::new();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let driver = world.driver();
    let sandbox: &dyn Sandbox = &driver;
    let output =
        sandbox.run(&sh("echo x > f"), &world.policy(), &mut |_, _| {}, &cancel).await.unwrap();
    assert_eq!((output.outcome, world.path("f").exists()), (ExitOutcome::Cancelled, false));
}

#[tokio::test]
async fn stopping_asks_and_then_ends() {
    let world = World::new();
    let mark = mark();
    let mut child = world.spawn(&stubborn(&mark), &world.policy()).await;
    until_said(&mut child, "up\n").await;
    let output = child.stop(Duration::from_millis(50)).await;
    assert_eq!((output.outcome, left(&mark)), (ExitOutcome::Cancelled, 0));
}

#[tokio::test]
async fn dropping_a_command_ends_every_process() {
    for backend in [Backend::Namespaces, Backend::Landlock, Backend::Host] {
        let world = World::in_tier(backend);
        let mark = mark();
        let mut child = world.spawn(&stubborn(&mark), &world.policy()).await;
        until_said(&mut child, "up\n").await;
        drop(child);
        assert_eq!(left(&mark), 0, "{backend}");
    }
}

#[tokio::test]
async fn a_watcher_that_is_ended_from_outside_takes_its_command_along() {
    let world = World::new();
    let mark = mark();
    let mut child = world.spawn(&stubborn(&mark), &world.policy()).await;
    until_said(&mut child, "up\n").await;
    for helper in helpers() {
        kill(&helper);
    }
    let output = child.wait().await;
    assert_eq!((output.outcome, left(&mark)), (ExitOutcome::Lost, 0));
}

/// The children of this thread that are helpers.
fn helpers() -> Vec<String> {
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap();
    children.split_whitespace().map(str::to_owned).collect()
}

fn kill(pid: &str) {
    std::process::Command::new("kill").args(["-KILL", pid]).status().unwrap();
}

/// Three processes of which each is below the limit, and which hold what they have for longer than the command may take.
const HOGS: &str = "hog() { head -c 60000000 /dev/zero | tail -c 60000000 | (sleep 600; cat) >/dev/null; }; \
                    hog & hog & hog & wait";

#[tokio::test]
async fn more_memory_than_allowed_ends_the_command() {
    let world = World::new();
    let policy = world.policy().with_memory(100 << 20).with_cgroup(Cgroup::Off);
    let output = world.run(&sh(HOGS), &policy).await;
    assert_eq!(output.outcome, ExitOutcome::LimitReached(Limit::Memory));
}

#[tokio::test]
async fn a_control_group_keeps_the_same_limit_where_one_can_be_made() {
    for backend in [Backend::Namespaces, Backend::Landlock, Backend::Host] {
        let world = World::in_tier(backend);
        let policy = world.policy().with_memory(100 << 20).with_cgroup(Cgroup::IfWritable);
        let output = world.run(&sh(HOGS), &policy).await;
        assert_eq!(output.outcome, ExitOutcome::LimitReached(Limit::Memory), "{backend}");
        assert!(output.enforced.strength(Guarantee::MemoryTotal).is_some(), "{backend}");
    }
}

#[tokio::test]
async fn more_processor_time_than_allowed_ends_the_command() {
    let world = World::new();
    let policy = world.policy().with_cpu(Duration::from_millis(500));
    let output = world.run(&sh("while :; do :; done & while :; do :; done"), &policy).await;
    assert_eq!(output.outcome, ExitOutcome::LimitReached(Limit::Cpu));
}

#[tokio::test]
async fn a_file_larger_than_allowed_is_not_written() {
    let world = World::new();
    let command = Command::new("dd").args(["if=/dev/zero", "of=big", "bs=1M", "count=4"]);
    let output = world.run(&command, &world.policy().with_file_size(1 << 20)).await;
    assert_eq!(output.outcome, ExitOutcome::LimitReached(Limit::FileSize));
    assert_eq!(world.path("big").metadata().unwrap().len(), 1 << 20);
}

#[tokio::test]
async fn more_processes_than_allowed_are_not_started() {
    let world = World::new();
    let line = "for i in $(seq 60); do sleep 1 & done 2>/dev/null; ls /proc | grep -c '^[0-9]'";
    let output = world.run(&sh(line), &world.policy().with_processes(20)).await;
    assert_ne!(output.outcome, ExitOutcome::Exited(0), "{}", output.stdout.to_text());
}
