use tokio_util::sync::CancellationToken;

use super::*;
use crate::output::{ExitOutcome, OutputStream};

async fn run(sandbox: &FakeSandbox, program: &str) -> Result<Output, SandboxError> {
    let sandbox: &dyn Sandbox = sandbox;
    sandbox
        .run(
            &Command::new(program),
            &SandboxPolicy::in_dir("."),
            &mut |_, _| {},
            &CancellationToken::new(),
        )
        .await
}

#[tokio::test]
async fn outputs_come_in_the_order_in_which_they_were_enqueued() {
    let sandbox = FakeSandbox::new()
        .enqueue("a", Output::exited(0, "1", ""))
        .enqueue("a", Output::exited(1, "2", ""))
        .enqueue_any(Output::exited(2, "3", ""))
        .otherwise(Output::exited(3, "4", ""));
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(run(&sandbox, "a").await.unwrap().outcome);
    }
    assert_eq!(statuses, [0, 1, 2, 3, 3].map(ExitOutcome::Exited));
}

#[tokio::test]
async fn the_fake_sandbox_refuses_and_records_unexpected_commands() {
    let sandbox = FakeSandbox::new().enqueue("a", Output::exited(0, "", ""));
    let error = run(&sandbox, "b").await.unwrap_err();
    assert_eq!(error.to_string(), "no output is queued for `b`");
    assert_eq!(sandbox.commands(), [Command::new("b")]);
    assert_eq!(sandbox.policies(), [SandboxPolicy::in_dir(".")]);
}

#[tokio::test]
async fn the_observer_sees_each_stream_in_one_piece() {
    let sandbox = FakeSandbox::new().otherwise(Output::exited(0, "out", "err"));
    let mut seen = Vec::new();
    let mut observer = |stream, bytes: &[u8]| seen.push((stream, bytes.to_vec()));
    let erased: &dyn Sandbox = &sandbox;
    let (command, policy) = (Command::new("a"), SandboxPolicy::in_dir("."));
    erased.run(&command, &policy, &mut observer, &CancellationToken::new()).await.unwrap();
    assert_eq!(
        seen,
        [(OutputStream::Stdout, b"out".to_vec()), (OutputStream::Stderr, b"err".to_vec())]
    );
}
