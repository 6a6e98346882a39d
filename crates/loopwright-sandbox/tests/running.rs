//! What goes in and what comes out.

use std::time::Duration;

use bytes::Bytes;
use loopwright_sandbox::{
    Command, Environment, ExitOutcome, Inherit, Limit, OutputLimits, OutputStream, Sandbox,
    SandboxError, Stdin,
};
use tokio_util::sync::CancellationToken;

use crate::world::{World, sh, until_said};

#[tokio::test]
async fn output_and_status_are_those_of_the_command() {
    let output = World::new().sh("echo out; echo err >&2; exit 7").await;
    assert_eq!(output.outcome, ExitOutcome::Exited(7));
    assert_eq!(
        (output.stdout.to_text(), output.stderr.to_text()),
        ("out\n".into(), "err\n".into())
    );
    assert_eq!(output.driver, "namespaces");
}

#[tokio::test]
async fn a_signal_is_told_apart_from_a_status() {
    let output = World::new().sh("kill -USR1 $$").await;
    assert_eq!(output.outcome, ExitOutcome::Signalled(10));
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_an_error_that_names_it() {
    let world = World::new();
    let error = world.try_run(&Command::new("no-such-program"), &world.policy()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot start `no-such-program`: No such file or directory (os error 2)"
    );
}

#[tokio::test]
async fn a_megabyte_of_input_flows_while_its_echo_is_read() {
    let world = World::new();
    let input = Bytes::from(vec![b'x'; 1 << 20]);
    let command = Command::new("cat").stdin(Stdin::Bytes(input.clone()));
    let policy = world.policy().with_output(OutputLimits::per_stream(4 << 20));
    let output = world.run(&command, &policy).await;
    assert_eq!((output.outcome, output.stdout.total), (ExitOutcome::Exited(0), 1 << 20));
    assert_eq!(output.stdout.head, input);
}

#[tokio::test]
async fn unread_input_blocks_nothing() {
    let world = World::new();
    let command = sh("exit 3").stdin(Stdin::Bytes(Bytes::from(vec![0; 1 << 20])));
    let output = world.run(&command, &world.policy()).await;
    assert_eq!(output.outcome, ExitOutcome::Exited(3));
}

#[tokio::test]
async fn without_input_its_end_is_reached_at_once() {
    let output = World::new().sh("cat; echo end").await;
    assert_eq!(output.stdout.to_text(), "end\n");
}

#[tokio::test]
async fn a_conversation_goes_back_and_forth() {
    let world = World::new();
    let command = sh("while read line; do echo \"got $line\"; done; echo end").stdin(Stdin::Piped);
    let mut child = world.driver().spawn(&command, &world.policy()).await.unwrap();
    child.write_stdin(b"one\n").await.unwrap();
    until_said(&mut child, "got one\n").await;
    child.write_stdin(b"two\n").await.unwrap();
    until_said(&mut child, "got two\n").await;
    child.close_stdin();
    until_said(&mut child, "end\n").await;
    assert_eq!(child.wait().await.outcome, ExitOutcome::Exited(0));
}

#[tokio::test]
async fn the_observer_sees_every_byte_to_the_last() {
    let world = World::new();
    let command = sh("head -c 60000 /dev/zero | tr '\\0' a; echo last");
    for _ in 0..20 {
        let mut seen = Vec::new();
        let mut observer = |_: OutputStream, bytes: &[u8]| seen.extend_from_slice(bytes);
        let driver = world.driver();
        let sandbox: &dyn Sandbox = &driver;
        let output = sandbox
            .run(&command, &world.policy(), &mut observer, &CancellationToken::new())
            .await
            .unwrap();
        assert_eq!((seen.len(), output.stdout.total), (60_005, 60_005));
        assert!(seen.ends_with(b"last\n"));
    }
}

#[tokio::test]
async fn beginning_and_end_of_long_output_are_kept() {
    let world = World::new();
    let caps = OutputLimits { head: 6, tail: 7, kill: None };
    let output = world.run(&sh("seq 100000"), &world.policy().with_output(caps)).await;
    assert_eq!(output.stdout.to_text(), "1\n2\n3\n\n[588882 bytes omitted]\n100000\n");
}

#[tokio::test]
async fn output_as_long_as_the_window_is_not_cut() {
    let world = World::new();
    let caps = OutputLimits { head: 4, tail: 4, kill: None };
    let output = world.run(&sh("printf 12345678"), &world.policy().with_output(caps)).await;
    assert_eq!((output.stdout.to_text(), output.stdout.omitted()), ("12345678".into(), 0));
}

#[tokio::test]
async fn too_much_output_ends_the_command() {
    let world = World::new();
    let caps = OutputLimits { kill: Some(1 << 20), ..OutputLimits::per_stream(100) };
    let output = world.run(&sh("yes"), &world.policy().with_output(caps)).await;
    assert_eq!(output.outcome, ExitOutcome::LimitReached(Limit::Output));
    assert!(output.stdout.total > 1 << 20);
}

#[tokio::test]
async fn a_command_that_closes_its_output_and_goes_on_uses_no_time_of_the_agent() {
    let world = World::new();
    let before = cpu_of_this_thread();
    let output = world.sh("exec >&- 2>&-; sleep 1").await;
    assert_eq!(output.outcome, ExitOutcome::Exited(0));
    let used = cpu_of_this_thread().saturating_sub(before);
    assert!(used < Duration::from_millis(300), "{used:?}");
}

fn cpu_of_this_thread() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn the_environment_is_a_list_and_not_that_of_the_agent() {
    let world = World::new();
    let policy = world.policy().with_env("GREETING", "hello").with_env("API_TOKEN", "given");
    let output =
        world.run(&sh("echo $GREETING $API_TOKEN ${CARGO_MANIFEST_DIR:-nothing}"), &policy).await;
    assert_eq!(output.stdout.to_text(), "hello given nothing\n");
}

#[tokio::test]
async fn inheriting_everything_leaves_out_what_looks_like_a_secret() {
    let world = World::new();
    let everything = Environment::default().inherit(Inherit::AllButSecrets);
    let output = world.run(&sh("env"), &world.policy().with_environment(everything)).await;
    let text = output.stdout.to_text();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    assert!(names.contains(&"CARGO_MANIFEST_DIR"), "{names:?}");
    let set_by_the_sandbox = ["GIT_CONFIG_NOSYSTEM", "LOOPWRIGHT_SANDBOX"];
    let secret: Vec<&str> = names
        .into_iter()
        .filter(|name| {
            loopwright_sandbox::is_secret_name(name) && !set_by_the_sandbox.contains(name)
        })
        .collect();
    assert_eq!(secret, [""; 0]);
}

#[tokio::test]
async fn arguments_need_not_be_text() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;
    let world = World::new();
    let odd = OsString::from_vec(vec![0xFF, b'a']);
    let command = Command::new("printf").args([OsString::from("%s"), odd]);
    let output = world.run(&command, &world.policy()).await;
    assert_eq!(&output.stdout.head[..], [0xFF, b'a']);
}

#[tokio::test]
async fn a_folder_that_does_not_exist_is_refused() {
    let world = World::new();
    let mut policy = world.policy();
    policy.workdir = "/no/such/folder".into();
    let error = world.try_run(&sh(":"), &policy).await.unwrap_err();
    let SandboxError::Policy(reason) = error else { panic!("{error}") };
    assert_eq!(
        reason,
        "the working folder /no/such/folder cannot be used: No such file or directory (os error 2)"
    );
}

/// 500 MB, or with `LOOPWRIGHT_LONG` 10 GB.
#[tokio::test]
async fn much_output_streams_through_a_small_window() {
    let gigabytes = if std::env::var_os("LOOPWRIGHT_LONG").is_some() { 10 } else { 0 };
    let bytes: u64 = if gigabytes > 0 { gigabytes << 30 } else { 500 << 20 };
    let world = World::new();
    let caps = OutputLimits { kill: None, ..OutputLimits::per_stream(1000) };
    let policy = world.policy().with_output(caps).with_timeout(Duration::from_mins(10));
    let mut largest = 0;
    let mut seen = 0;
    let mut observer = |_: OutputStream, bytes: &[u8]| {
        seen += bytes.len() as u64;
        largest = largest.max(bytes.len());
    };
    let driver = world.driver();
    let sandbox: &dyn Sandbox = &driver;
    let command = sh(&format!("head -c {bytes} /dev/zero"));
    let output =
        sandbox.run(&command, &policy, &mut observer, &CancellationToken::new()).await.unwrap();
    assert_eq!((output.outcome, output.stdout.total, seen), (ExitOutcome::Exited(0), bytes, bytes));
    assert!(largest <= 256 << 10, "{largest}");
    assert_eq!(output.stdout.head.len() + output.stdout.tail.len(), 1000);
}
