//! A command that takes too long: all its processes end, and its output so far is kept.
//!
//! `cargo run -p loopwright --example sandbox_timeout`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use loopwright::{
    prelude::BoxError,
    sandbox::{Command, SandboxPolicy, auto_select},
};
use tokio_util::sync::CancellationToken;

fn main() -> Result<(), BoxError> {
    // The first line of `main`, because the program is its own helper.
    loopwright::sandbox::init();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
}

async fn work() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let policy = SandboxPolicy::in_dir(folder.path()).with_timeout(Duration::from_secs(1));
    // The second process would outlive a plain `kill`.
    let command = Command::shell("echo begun; (sleep 100; touch late) & sleep 100");
    let output =
        auto_select().run(&command, &policy, &mut |_, _| {}, &CancellationToken::new()).await?;
    println!("{}[{}]", output.stdout.to_text(), output.outcome);
    println!("it was ended in time: {}", output.elapsed < Duration::from_secs(20));
    println!("something came late: {}", folder.path().join("late").exists());
    Ok(())
}
