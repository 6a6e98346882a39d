//! Does one task and ends: with 0 if it is done, with 1 if it could not be done, with 2 if it makes no
//! sense. What happens is noted on standard output, a line of JSON each.

use std::{env, process::ExitCode};

use loopwright_survival::{
    Failure,
    bank::{SERVER, serve},
    ledger::Ledger,
    task::Task,
    worker::work,
};

fn main() -> ExitCode {
    loopwright_sandbox::init();
    match start() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(_) => ExitCode::from(2),
    }
}

fn start() -> Result<bool, Failure> {
    if env::args().nth(1).as_deref() == Some(SERVER) {
        serve(&env::args().nth(2).unwrap_or_default())?;
        return Ok(true);
    }
    let task: Task = serde_json::from_str(&env::args().nth(1).unwrap_or_default())?;
    let ledger = Ledger::stdout()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(work(&task, &ledger)))
}
