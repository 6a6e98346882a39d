//! The output of a command as it arrives, each fragment with its stream.
//!
//! `cargo run -p loopwright --example sandbox_streaming`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    prelude::BoxError,
    sandbox::{Command, OutputStream, SandboxPolicy, Stdin, auto_select},
};

fn main() -> Result<(), BoxError> {
    // The first line of `main`, because the program is its own helper.
    loopwright::sandbox::init();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
}

async fn work() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    // It prints a line for each input line, so each fragment arrives before the next input.
    let line = "while read -r word; do echo \"you said $word\"; done; echo bye >&2";
    let command = Command::shell(line).stdin(Stdin::Piped);
    let mut child = auto_select().spawn(&command, &SandboxPolicy::in_dir(folder.path())).await?;
    for word in ["one\n", "two\n", "three\n"] {
        child.write_stdin(word.as_bytes()).await?;
        if let Some((stream, bytes)) = child.read().await {
            print!("{stream:?}: {}", String::from_utf8_lossy(&bytes));
        }
    }
    child.close_stdin();
    while let Some((stream, bytes)) = child.read().await {
        let name = if stream == OutputStream::Stderr { "on standard error" } else { "and then" };
        print!("{name}: {}", String::from_utf8_lossy(&bytes));
    }
    println!("[{}]", child.wait().await.outcome);
    Ok(())
}
