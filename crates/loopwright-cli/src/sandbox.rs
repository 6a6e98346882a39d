//! The command `sandbox exec`: one command, run as an agent's would be.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write as _};
use std::path::{Path, absolute};
use std::process::ExitCode as ProcessExitCode;

use loopwright_capabilities::bash::denial_notes;
use loopwright_sandbox::screen::Screen;
use loopwright_sandbox::transaction::{
    Transaction, TransactionError, forget, made_at_once, passing_staging_for,
};
use loopwright_sandbox::{
    Backend, BackendChoice, CapturedOutput, Command, ExitOutcome, Network, NetworkOutcome, Output,
    OutputLimits, OutputStream, SandboxError, SandboxPolicy, TimeoutKind, auto_select,
};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::Cli;
use crate::args::sandbox::{ChangesArg, ExecArgs, ExplainArgs, SandboxCommand};
use crate::commands::Commands;
use crate::config::ConfigError;
use crate::console;
use crate::exit::ExitCode;
use crate::explain::explain;
use crate::load_config::configured;
use crate::permissions::RunPermissions;
use crate::render::sanitize_terminal;

const TIMED_OUT: u8 = 124;
const REFUSED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
const LIMIT: u8 = 137;

/// Does what was asked of the sandbox.
pub fn sandbox(cli: &Cli, command: &SandboxCommand) -> ProcessExitCode {
    let args = match command {
        SandboxCommand::Exec(args) => args,
        SandboxCommand::Explain(args) => return tell_what_is_seen(cli, args).into(),
    };
    let (sources, config) = match configured(cli, &args.workdir, None) {
        Ok(read) => read,
        Err(error) => {
            console::fail(&error, ExitCode::Config);
            return REFUSED.into();
        }
    };
    let written = args.write.iter().map(|it| absolute(it).unwrap_or_else(|_| it.clone()));
    let mut commands =
        Commands::with_driver(&config, &sources, args.backend.into()).with_written(written);
    match RunPermissions::of(&config, &sources) {
        Ok(permissions) => {
            commands = commands.denying(&permissions.policy());
            commands = commands.with_hook_files(permissions.hook_files());
        }
        Err(error) => {
            console::fail(&error, ExitCode::Config);
            return REFUSED.into();
        }
    }
    let runtime = match crate::run::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return console::fail(&error, ExitCode::Internal).into(),
    };
    runtime.block_on(exec(args, &commands))
}

fn tell_what_is_seen(cli: &Cli, args: &ExplainArgs) -> ExitCode {
    match configured(cli, &args.workdir, None) {
        Ok((sources, config)) => {
            console::print(explain(&config, &sources, &args.command).as_bytes())
        }
        Err(error @ ConfigError::Workdir { .. }) => console::fail(&error, ExitCode::Usage),
        Err(error) => console::fail(&error, ExitCode::Config),
    }
}

async fn exec(args: &ExecArgs, commands: &Commands) -> ProcessExitCode {
    let policy = policy(args, commands);
    let report_file = match args.report.as_deref().map(open_report).transpose() {
        Ok(file) => file,
        Err(error) => {
            console::fail(&error, ExitCode::Usage);
            return REFUSED.into();
        }
    };
    let Some((program, rest)) = args.command.split_first() else { return REFUSED.into() };
    let command = Command::new(program).args(rest);
    let cancel = CancellationToken::new();
    let mut shown = Shown { stdout: policy.output.head, stderr: policy.output.head };
    let mut observer = |stream: OutputStream, bytes: &[u8]| shown.show(stream, bytes);
    let sandbox = auto_select();
    let (transaction, direct) = match begin(args) {
        Ok(begun) => begun,
        Err(error) => {
            console::fail(&error, ExitCode::Internal);
            return REFUSED.into();
        }
    };
    let run = async {
        if let Some(transaction) = transaction {
            sandbox.run_staged(transaction, &command, &policy, &mut observer, &cancel).await
        } else {
            let mut output = sandbox.run(&command, &policy, &mut observer, &cancel).await?;
            output.notes.extend(direct.map(|reason| made_at_once(&reason)));
            Ok((output, None))
        }
    };
    tokio::pin!(run);
    let mut asked_to_end = None;
    let result = tokio::select! {
        result = &mut run => result,
        exit_code = interruption() => {
            asked_to_end = Some(exit_code);
            cancel.cancel();
            run.await
        }
    };
    let mut changes = Value::Null;
    let (result, exit_code) = match result {
        Ok((mut output, transaction)) => {
            show_rest(&output);
            output.notes.extend(denial_notes(&output, &policy));
            let kept = match transaction {
                Some(transaction) => finish(transaction, args, (commands, &policy), &mut output),
                None => Ok(Value::Null),
            };
            tell(&output, args);
            let ended = asked_to_end.map_or_else(|| exit_code(output.outcome), ExitCode::code);
            let exit_code = match kept {
                Ok(kept) => {
                    changes = kept;
                    ended
                }
                Err(error) => console::fail(&error, ExitCode::Internal).code(),
            };
            (Ok(output), exit_code)
        }
        Err(error) => {
            let exit_code = refuse(&error);
            (Err(error), exit_code)
        }
    };
    if let Some(mut file) = report_file
        && let Err(error) = writeln!(file, "{:#}", report(&result, &changes))
    {
        return console::fail(&error, ExitCode::Internal).into();
    }
    exit_code.into()
}

/// Begins to collect changes, where that is wanted and possible. If it is not possible, returns the reason.
fn begin(args: &ExecArgs) -> Result<(Option<Transaction>, Option<String>), TransactionError> {
    if !is_to_collect(args) {
        return Ok((None, None));
    }
    match passing_staging_for(&args.workdir) {
        Ok(place) => Ok((Some(Transaction::begin(&place, &args.workdir)?), None)),
        Err(reason) => Ok((None, Some(reason.to_string()))),
    }
}

fn is_to_collect(args: &ExecArgs) -> bool {
    args.changes != ChangesArg::Direct && BackendChoice::from(args.backend) != Backend::Host.into()
}

/// Makes changes real, or shows them.
fn finish(
    transaction: Transaction,
    args: &ExecArgs,
    (commands, policy): (&Commands, &SandboxPolicy),
    output: &mut Output,
) -> Result<Value, TransactionError> {
    let screen = args.allow.iter().fold(Screen::standard(), Screen::allow);
    let screen = commands.allowed().iter().fold(screen, Screen::allow);
    let changes = transaction.changes(&policy.screen(screen))?;
    output.notes.extend(changes.notes());
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let told = json!({
        "made": changes.made().iter().map(|it| json!({
            "path": path(&it.path), "kind": it.kind.name(),
        })).collect::<Vec<_>>(),
        "refused": changes.refused().iter().map(|it| json!({
            "path": path(&it.path), "reason": it.reason,
        })).collect::<Vec<_>>(),
        "conflicts": changes.conflicts().iter().map(|it| path(&it.path)).collect::<Vec<_>>(),
    });
    if args.changes == ChangesArg::Show {
        for change in changes.made() {
            let name = sanitize_terminal(&change.path.to_string_lossy());
            console::tell(&format!("sandbox: {} {name}", change.kind.name()));
        }
        return Ok(told);
    }
    let applied = transaction.apply(changes)?;
    output.notes.extend(applied.notes());
    // No process can ask for the way back: there is no session that it would belong to.
    if let Some(record) = &applied.record {
        forget(record);
    }
    Ok(told)
}

/// Opens the report before anything runs, so that no command can lead it elsewhere; nor can a link that
/// an earlier one has left.
fn open_report(path: &Path) -> io::Result<File> {
    let opened = match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => Err(io::Error::other("the path is a symbolic link")),
        _ => File::create(path),
    };
    opened.map_err(|error| {
        let text = format!("cannot write the report to {}: {error}", path.display());
        io::Error::new(error.kind(), text)
    })
}

fn policy(args: &ExecArgs, commands: &Commands) -> SandboxPolicy {
    let mut policy = commands
        .extend(SandboxPolicy::in_dir(&args.workdir))
        .with_network(given_network(args, commands))
        .with_timeout(args.timeout)
        .with_idle_timeout(args.idle_timeout)
        .with_output(OutputLimits::per_stream(
            usize::try_from(args.max_output).unwrap_or(usize::MAX),
        ));
    policy = args.memory.into_iter().fold(policy, SandboxPolicy::with_memory);
    policy = args.max_processes.into_iter().fold(policy, SandboxPolicy::with_processes);
    policy = args.max_file_size.into_iter().fold(policy, SandboxPolicy::with_file_size);
    policy = args.tmp_size.into_iter().fold(policy, SandboxPolicy::with_scratch);
    policy = args.read.iter().fold(policy, SandboxPolicy::read);
    policy = args.hide.iter().fold(policy, SandboxPolicy::hide);
    policy = args.env.iter().fold(policy, |policy, (name, value)| policy.with_env(name, value));
    match &args.image {
        Some(image) => policy.with_image(image),
        None => policy,
    }
}

/// Returns what was typed, or what the user has configured.
fn given_network(args: &ExecArgs, commands: &Commands) -> Network {
    let configured = || commands.settings.network.as_ref().map(|it| it.value.0.clone());
    args.network.clone().or_else(configured).unwrap_or_default()
}

/// Waits until a caller wants the command to end. Without signals no process can.
async fn interruption() -> ExitCode {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => ExitCode::Interrupted,
        _ = terminate.recv() => ExitCode::Terminated,
    }
}

/// How much of the beginning of each stream is still to be shown as it comes.
struct Shown {
    stdout: usize,
    stderr: usize,
}

impl Shown {
    fn show(&mut self, stream: OutputStream, bytes: &[u8]) {
        let left = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        let shown = &bytes[..bytes.len().min(*left)];
        *left -= shown.len();
        write(stream, shown);
    }
}

/// A terminal does not get what could steer it. A reader that hangs up has read enough.
fn write(stream: OutputStream, bytes: &[u8]) {
    match stream {
        OutputStream::Stdout => show(&mut io::stdout().lock(), bytes),
        OutputStream::Stderr => show(&mut io::stderr().lock(), bytes),
    }
    .ok();
}

fn show(to: &mut (impl io::Write + IsTerminal), bytes: &[u8]) -> io::Result<()> {
    if to.is_terminal() {
        to.write_all(sanitize_terminal(&String::from_utf8_lossy(bytes)).as_bytes())?;
    } else {
        to.write_all(bytes)?;
    }
    to.flush()
}

/// Shows the end of what was too long, and says how much is missing in between.
fn show_rest(output: &Output) {
    for (stream, captured) in
        [(OutputStream::Stdout, &output.stdout), (OutputStream::Stderr, &output.stderr)]
    {
        if captured.omitted() > 0 {
            write(stream, format!("\n[{} bytes omitted]\n", captured.omitted()).as_bytes());
        }
        write(stream, &captured.tail);
    }
}

fn tell(output: &Output, args: &ExecArgs) {
    for access in output.network.iter().filter(|access| !access.is_reached()) {
        let (host, port) = (sanitize_terminal(&access.host), access.port);
        let reason = match &access.outcome {
            NetworkOutcome::Refused { reason } | NetworkOutcome::Failed { reason } => {
                reason.as_str()
            }
            _ => continue,
        };
        console::tell(&format!(
            "sandbox: no connection to {host}:{port}: {}",
            sanitize_terminal(reason)
        ));
    }
    for note in &output.notes {
        console::tell(&format!("sandbox: {}", sanitize_terminal(note)));
    }
    if !matches!(output.outcome, ExitOutcome::Exited(_) | ExitOutcome::Signalled(_)) {
        let ending = match output.outcome {
            ExitOutcome::TimedOut(kind) => {
                let allowed = match kind {
                    TimeoutKind::Idle => args.idle_timeout.unwrap_or(args.timeout),
                    TimeoutKind::Wall => args.timeout,
                };
                format!("{} ({} s)", output.outcome, allowed.as_secs_f64())
            }
            outcome => outcome.to_string(),
        };
        console::tell(&format!("sandbox: the command {ending}; all its processes exited"));
    }
}

fn exit_code(outcome: ExitOutcome) -> u8 {
    match outcome {
        ExitOutcome::Exited(status) => u8::try_from(status).unwrap_or(u8::MAX),
        ExitOutcome::Signalled(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        ExitOutcome::TimedOut(_) => TIMED_OUT,
        ExitOutcome::LimitReached(_) => LIMIT,
        ExitOutcome::Cancelled => ExitCode::Interrupted.code(),
        _ => ExitCode::Internal.code(),
    }
}

fn refuse(error: &SandboxError) -> u8 {
    console::fail(error, ExitCode::Internal);
    match error {
        SandboxError::Start { errno, .. } => match io::Error::from_raw_os_error(*errno).kind() {
            io::ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        },
        _ => REFUSED,
    }
}

fn report(result: &Result<Output, SandboxError>, changes: &Value) -> Value {
    let stream = |captured: &CapturedOutput| json!({ "total": captured.total, "omitted": captured.omitted() });
    match result {
        Ok(output) => json!({
            "outcome": output.outcome,
            "driver": output.driver,
            "elapsed_seconds": output.elapsed.as_secs_f64(),
            "stdout": stream(&output.stdout),
            "stderr": stream(&output.stderr),
            "enforced": output.enforced,
            "not_enforced": output.enforced.missing(),
            "notes": output.notes,
            "changes": changes,
            "network": output.network,
        }),
        Err(error) => json!({ "outcome": "refused", "error": error.to_string() }),
    }
}
