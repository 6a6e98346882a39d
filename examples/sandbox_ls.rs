//! A command in the sandbox: it sees only its directory and the system's programs.
//!
//! `cargo run -p loopwright --example sandbox_ls`

#![expect(clippy::print_stdout, reason = "an example prints")]

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
    std::fs::write(folder.path().join("hello.txt"), "hello\n")?;
    let policy = SandboxPolicy::in_dir(folder.path());
    for line in [
        "ls",
        "cat hello.txt",
        "ls /root 2>&- || echo hidden",
        "touch /usr/mine 2>&- || echo refused",
        "touch mine && ls",
    ] {
        let command = Command::shell(line);
        let output =
            auto_select().run(&command, &policy, &mut |_, _| {}, &CancellationToken::new()).await?;
        let said = [output.stdout.to_text(), output.stderr.to_text()].concat();
        println!("$ {line}\n{said}[{}]\n", output.outcome);
    }
    Ok(())
}
