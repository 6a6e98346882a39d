//! A script of your own, with input, an environment and a memory limit.
//!
//! `cargo run -p loopwright --example sandbox_script`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    prelude::BoxError,
    sandbox::{Command, SandboxPolicy, Stdin, auto_select},
};
use tokio_util::sync::CancellationToken;

const SCRIPT: &str = r#"
total=0
while read -r name price; do
    total=$((total + price))
    echo "$name: $price $CURRENCY"
done
echo "total: $total $CURRENCY"
"#;

fn main() -> Result<(), BoxError> {
    // The first line of `main`, because the program is its own helper.
    loopwright::sandbox::init();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
}

async fn work() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("sum.sh"), SCRIPT)?;
    let policy =
        SandboxPolicy::in_dir(folder.path()).with_env("CURRENCY", "EUR").with_memory(64 << 20);
    let input = Stdin::Bytes("bread 3\napples 4\n".into());
    let command = Command::new("sh").args(["sum.sh"]).stdin(input);
    let output =
        auto_select().run(&command, &policy, &mut |_, _| {}, &CancellationToken::new()).await?;
    println!("{}[{}]", output.stdout.to_text(), output.outcome);
    Ok(())
}
