//! `loopwright serve`.

mod agents;
mod audit;
mod browse;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, join, select};
use loopwright_broadcast::BroadcastConfig;
use loopwright_server::{AccessControl, ConnectionLimits, Server, TokenFile, listen, random_token};
use loopwright_sessions::SessionStore;
use loopwright_worker::{JobSignal, NoQueue, Worker, WorkerEvent, WorkerOptions};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::agents::OfferedAgents;
pub(crate) use self::browse::{browse, sign_in_address};
use crate::args::Cli;
use crate::args::serve::ServeArgs;
use crate::config::OutputFormat;
use crate::console;
use crate::definitions::Defined;
use crate::display::RunDisplay;
use crate::exit::ExitCode;
use crate::jobs::no_queue;
use crate::model;
use crate::notify::JobNotices;
use crate::permissions;
use crate::render::sanitize_terminal;
use crate::restate::scheduled;
use crate::run::with_server_runtime;
use crate::session::SessionsError;
use crate::session_agents::SessionAgents;
use crate::signals::{draining, exit_code};
use crate::skill_prompts::SkillPrompts;
use crate::snapshots::SessionSnapshots;
use crate::startup::{StartError, Startup};
use crate::store::{StoreLocation, make_private};
use crate::tokens::token_file;
use crate::worker_roots::WorkerRoots;

/// Serves agents, until it is asked to end.
pub fn serve(cli: &Cli, args: &ServeArgs) -> ExitCode {
    console::set_color(args.agent.surroundings.color);
    with_server_runtime(async {
        Box::pin(perform(cli, args)).await.unwrap_or_else(|refusal| refusal.fail())
    })
}

async fn perform(cli: &Cli, args: &ServeArgs) -> Result<ExitCode, StartError> {
    let typed = args.session_args();
    let Startup { config, sources, .. } = Startup::load(cli, &args.agent, &typed)?;
    let tokens = token_file(args.tokens.as_deref()).map_err(SessionsError::from)?;
    check(args, &tokens)?;
    let folders = args.session_dirs.as_deref().map(session_dirs).transpose()?;
    let snapshots = SessionSnapshots::open(&args.snapshots, folders.as_deref())?;
    let base = folders.clone().unwrap_or_else(|| config.workdir.clone());
    let roots = WorkerRoots::new([base.as_path()], sources.home.as_deref())?;
    let mode = permissions::policy(&config, &sources)?.0.mode();
    if folders.is_some() {
        check_folders(&roots, &base)?;
    }
    let store = StoreLocation::of(&config, &sources)?.open().await?;
    let store = scheduled(store, &config.restate)?;
    let agents = SessionAgents {
        cli: cli.clone(),
        agent: args.agent.clone(),
        typed,
        store: Arc::clone(&store),
        roots,
    };
    let listener = bind(args.listen).await?;
    let address = listener.local_addr().map_err(|source| unbound(args.listen, &source))?;
    let token = (!args.behind_proxy).then(random_token).transpose();
    let token = token.map_err(StartError::internal)?;
    let url = format!("http://{address}");
    let page = token.as_ref().map(|_| sign_in_address(&tokens, &url, "/")).transpose();
    let page = page.map_err(|error| SessionsError::Usage(error.to_string()))?;
    let access = access(args, address, token.as_deref(), tokens)?;
    let (signal, drain) = (JobSignal::new(), CancellationToken::new());
    let wakes = signal.clone();
    let providers = model::providers(&config, &sources)?;
    let aliases = model::aliases(&config, &providers);
    let defined = Defined::in_dir(&base, &sources, &providers, aliases);
    let offered = OfferedAgents::new(agents.clone(), folders, base);
    let server = Server::builder(Arc::clone(&store), offered, access);
    let server = server
        .map_err(|_| no_queue(NoQueue))?
        .with_mcp(Some(Arc::new(SkillPrompts(defined.skills))))
        .with_queued(move || wakes.notify())
        .with_limits(args.limits.limits())
        .with_shutdown(drain.clone());
    let server = match args.audit.as_deref().map(audit::log).transpose()? {
        Some(log) => server.with_audit(log),
        None => server,
    };
    let server = server.build();
    let notices = JobNotices::new(config.notify.clone(), Arc::clone(&store));
    let worker = worker(args, store, agents, (signal, notices.clone()), snapshots)?;
    tell(args, &url, page.as_deref(), token.as_deref());
    let format = args.agent.surroundings.output_format().unwrap_or(OutputFormat::Text);
    RunDisplay::new(format, args.agent.surroundings.quiet).tell_mode(mode);
    if let Some(page) = page.filter(|_| args.open) {
        browse(&page);
    }
    let limits =
        ConnectionLimits { drain_timeout: args.drain_timeout, ..ConnectionLimits::default() };
    let serving = listen(listener, server.router(), limits, drain.clone());
    let works = async {
        match &worker {
            Some(worker) => drop(worker.run(&drain).await),
            None => drain.cancelled().await,
        }
        notices.finish().await;
    };
    let signals = draining(&drain, "stopping: no new runs; waiting for running steps");
    match select(pin!(join(serving, works)), pin!(signals)).await {
        Either::Left(_) => Ok(ExitCode::Done),
        Either::Right((reason, _)) => Ok(exit_code(reason)),
    }
}

/// Refuses a place for the directories of sessions that no session may work in.
fn check_folders(roots: &WorkerRoots, base: &Path) -> Result<(), SessionsError> {
    if !roots.is_broad(&base.join("session")) {
        return Ok(());
    }
    Err(SessionsError::Usage(format!(
        "{} cannot hold session directories: it belongs to the system or is hidden; choose another directory with `--session-dirs`",
        base.display()
    )))
}

/// Refuses what would let others in that are not meant.
fn check(args: &ServeArgs, tokens: &TokenFile) -> Result<(), SessionsError> {
    let refused = |text: String| Err(SessionsError::Usage(text));
    if !args.listen.ip().is_loopback() && !args.behind_proxy {
        return refused(format!(
            "{} can be reached from other machines, and the server does not encrypt traffic; put \
                a proxy with TLS in front of it and pass `--behind-proxy`",
            args.listen
        ));
    }
    if args.session_dirs.is_some() {
        return Ok(());
    }
    let known = tokens.list().map_err(|error| SessionsError::Usage(error.to_string()))?;
    let has_issuer = args.oidc.oidc_issuer.is_some();
    let is_shared =
        args.behind_proxy || has_issuer || known.iter().any(|it| &*it.principal != "local");
    if is_shared {
        return refused(
            "sessions of several principals must not share a directory; pass `--session-dirs DIR`"
                .to_owned(),
        );
    }
    Ok(())
}

/// Makes the directory of the directories of sessions, for this user only.
pub(crate) fn session_dirs(path: &Path) -> Result<PathBuf, SessionsError> {
    make_private(path)?;
    let real = path.canonicalize();
    real.map_err(|source| SessionsError::WorkerRoot { path: path.to_owned(), source })
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|source| unbound(address, &source))
}

fn unbound(address: SocketAddr, source: &std::io::Error) -> StartError {
    let text =
        format!("cannot listen on {address}: {source}; choose another address with `--listen`");
    SessionsError::Usage(text).into()
}

fn access(
    args: &ServeArgs,
    address: SocketAddr,
    token: Option<&str>,
    tokens: TokenFile,
) -> Result<AccessControl, SessionsError> {
    let own = [address.to_string(), format!("localhost:{}", address.port())];
    let own = own.into_iter().filter(|_| address.ip().is_loopback());
    let hosts = own.chain(args.hosts.iter().cloned());
    let access =
        hosts.fold(AccessControl::new(), AccessControl::with_host).with_tokens(Arc::new(tokens));
    let access = match token {
        Some(token) => access.with_local_token(token),
        // The proxy in front of it encrypts.
        None => access.with_encryption(),
    };
    let issuer = args.oidc.issuer().map_err(|error| SessionsError::Usage(error.to_string()))?;
    let access = match issuer {
        Some(issuer) => access.with_issuer(issuer),
        None => access,
    };
    let Some(name) = &args.principal_header else { return Ok(access) };
    let header = name.parse().map_err(|_| {
        SessionsError::Usage(format!("`{}` is not a valid header name", sanitize_terminal(name)))
    })?;
    Ok(access.with_proxy_header(header, args.principal_role.into()))
}

fn worker(
    args: &ServeArgs,
    store: Arc<dyn SessionStore>,
    agents: SessionAgents,
    (signal, notices): (JobSignal, JobNotices),
    snapshots: Option<SessionSnapshots>,
) -> Result<Option<Worker>, StartError> {
    if args.no_worker {
        return Ok(None);
    }
    let options = WorkerOptions {
        concurrency: args.concurrency,
        drain_timeout: args.drain_timeout,
        on_ask: args.agent.on_ask.into(),
        ..WorkerOptions::default()
    };
    let worker = Worker::with_agents(store, agents).map_err(no_queue)?;
    let worker = worker.with_options(options).with_signal(signal);
    let worker = worker.with_labels(args.labels.iter().cloned().collect());
    let worker = worker.with_listener(move |event: &WorkerEvent| notices.on_event(event));
    let worker = worker.with_event_log(BroadcastConfig::standard());
    Ok(Some(SessionSnapshots::kept_by(snapshots, worker)))
}

/// Says where the server listens, how a browser signs in, and with which token programs do.
fn tell(args: &ServeArgs, url: &str, page: Option<&str>, token: Option<&str>) {
    let is_json =
        args.agent.surroundings.output_format().is_some_and(|it| it != OutputFormat::Text);
    if is_json {
        let told = json!({ "type": "listening", "url": url, "page": page, "token": token });
        console::print_json(&told);
        return;
    }
    let line = |name: &str, value: Option<&str>| {
        value.map_or(String::new(), |value| format!("{name}: {value}\n"))
    };
    let told = [line("url", Some(url)), line("page", page), line("token", token)].concat();
    console::print(told.as_bytes());
    if !args.agent.surroundings.quiet {
        let page = page.map_or("", |_| "the page URL signs you in once; ");
        console::tell(&format!("serving; {page}press Ctrl-C to stop"));
    }
}
