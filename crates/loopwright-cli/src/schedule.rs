//! `loopwright jobs schedule`.

use loopwright_core::messages::Message;
use loopwright_sessions::{JobTask, Schedule, ScheduleSession, SessionStatus};
use loopwright_worker::CronTimes;
use serde_json::json;

use crate::args::Cli;
use crate::args::jobs::{ScheduleAddArgs, ScheduleCommand, ScheduleListArgs, ScheduleRemoveArgs};
use crate::console;
use crate::exit::ExitCode;
use crate::jobs::{opened, scheduler};
use crate::render::single_line;
use crate::report::SCHEMA_VERSION;
use crate::run::with_runtime;
use crate::session::{SessionsError, now, short};
use crate::startup::{StartError, Startup};
use crate::submit::check_kept;

/// The most characters of a task that are shown.
const TASK: usize = 60;

/// Adds, lists and removes schedules.
pub fn schedule(cli: &Cli, command: &ScheduleCommand) -> ExitCode {
    let done = |done: Result<ExitCode, StartError>| done.unwrap_or_else(|refusal| refusal.fail());
    match command {
        ScheduleCommand::Add(args) => {
            let submit = args.submit_args();
            let opening = Startup::begin(cli, &submit.agent, &submit.session_args());
            let mut opening = match opening {
                Ok(opening) => opening,
                Err(exit_code) => return exit_code,
            };
            with_runtime(async { done(Box::pin(add(cli, args, &mut opening)).await) })
        }
        ScheduleCommand::List(args) => with_runtime(async { done(list(cli, args).await) }),
        ScheduleCommand::Remove(args) => with_runtime(async { done(remove(cli, args).await) }),
    }
}

fn usage(text: String) -> StartError {
    SessionsError::Usage(text).into()
}

async fn add(
    cli: &Cli,
    args: &ScheduleAddArgs,
    opening: &mut Startup,
) -> Result<ExitCode, StartError> {
    let submit = args.submit_args();
    check_kept(&submit)?;
    let times = CronTimes::parse(&args.cron).map_err(|error| usage(error.to_string()))?;
    let never = || usage(format!("cron pattern `{}` never matches in the coming years", args.cron));
    let next_at = times.after(now()).ok_or_else(never)?;
    let mut conversation =
        opening.conversation(cli, &submit.agent, &submit.session_args(), "run").await?;
    let store = std::sync::Arc::clone(&conversation.store);
    let scheduler = scheduler(&*store)?;
    let taken = || {
        usage(format!(
            "schedule `{0}` already exists; remove it with `loopwright jobs schedule remove {0}`",
            args.name
        ))
    };
    let all = scheduler.schedules().await.map_err(SessionsError::from)?;
    if all.iter().any(|it| it.name == args.name) {
        return Err(taken());
    }
    let runs_in = match submit.named() {
        Some(_) => ScheduleSession::Same,
        None => ScheduleSession::Fork,
    };
    let session = conversation.begin().await.map_err(SessionsError::from)?;
    let header = store.header(&session).await.map_err(SessionsError::from)?;
    if let Some(status) = header.map(|it| it.status).filter(|it| *it != SessionStatus::Active) {
        return Err(SessionsError::NotActive { id: session, status }.into());
    }
    let schedule = Schedule {
        name: args.name.clone(),
        cron: args.cron.as_str().into(),
        session: session.clone(),
        runs_in,
        task: JobTask::SendMessage(Message::user(&*args.prompt)),
        needs: args.needs.iter().cloned().collect(),
        priority: args.priority,
        next_at,
    };
    schedule.next_job(session).map_err(|error| usage(error.to_string()))?;
    if !scheduler.add_schedule(&schedule).await.map_err(SessionsError::from)? {
        return Err(taken());
    }
    Ok(console::print(format!("{} {next_at}\n", schedule.name).as_bytes()))
}

async fn list(cli: &Cli, args: &ScheduleListArgs) -> Result<ExitCode, StartError> {
    let store = opened(cli, args.store.as_ref()).await?;
    let schedules = scheduler(&*store)?.schedules().await.map_err(SessionsError::from)?;
    if args.json {
        let told = json!({ "schema_version": SCHEMA_VERSION, "schedules": schedules });
        return Ok(console::print_json(&told));
    }
    let row = |it: &Schedule| {
        let task = match &it.task {
            JobTask::SendMessage(message) => single_line(&message.text(), TASK),
            JobTask::Resume => String::new(),
        };
        let session = match it.runs_in {
            ScheduleSession::Same => short(&it.session).to_string(),
            ScheduleSession::Fork => "new".to_owned(),
        };
        let row = format!("{}  {}  next {}  {session}  {task}", it.name, it.cron, it.next_at);
        row.trim_end().to_owned() + "\n"
    };
    Ok(console::print(schedules.iter().map(row).collect::<String>().as_bytes()))
}

async fn remove(cli: &Cli, args: &ScheduleRemoveArgs) -> Result<ExitCode, StartError> {
    let store = opened(cli, args.store.as_ref()).await?;
    if scheduler(&*store)?.remove_schedule(&args.name).await.map_err(SessionsError::from)? {
        return Ok(ExitCode::Done);
    }
    let name = &args.name;
    Err(usage(format!(
        "unknown schedule `{name}`; list schedules with `loopwright jobs schedule list`"
    )))
}
