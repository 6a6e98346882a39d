//! The same agent runs as the programs that other frameworks are measured with, through the public
//! interface as a user would write it.
//!
//! The work is described by the environment:
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `BASE_URL` | address of a provider that speaks chat completions | `http://127.0.0.1:18080/v1` |
//! | `STEPS` | steps of a run in which the model calls a tool | 10 |
//! | `PAR` | calls in each of them | 1 |
//! | `PAD` | bytes that each tool result is longer | 0 |
//! | `RUNS`, `CONC` | runs, and how many of them at once | 1 |
//! | `STREAM` | `1`: answers are streamed | 0 |
//! | `LAT` | milliseconds that the model takes, told to it in the prompt | 0 |
//! | `MODE` | `fake`: the model is in process and no network is used | `http` |
//! | `DB` | where the run is kept as a session: the file of a SQLite database, or `files:` and a directory | nowhere |
//! | `RESUME` | `1`: `DB` is opened again and the session is loaded, which takes `resume_ms` | 0 |
//! | `AGENT` | `standard`: with the guards that `AgentBuilder::standard` adds, their limits out of the way | `base` |
//! | `RT` | `current`: one thread | as many as the machine has cores |
//!
//! The last line printed is `{"final": text, "tool_calls": number}`, with `"resume_ms": number` for `RESUME`.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::{
    error::Error,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use loopwright::agent::{UseContextConfig, UseLlmConfig};
use loopwright::messages::{Part, Role, ToolCall};
use loopwright::runtime::{LlmConfig, tool_fn};
use loopwright::{
    agent::{AgentDefinition, DefinitionLoopFactory},
    messages::{Content, InferenceOptions, InferenceRequest, InferenceResponse, Usage},
    models::{RemoteModel, Secret, WireApi},
    prelude::*,
    runtime::{ChatModel, InferCx, ModelError, RunEnv},
    sessions::{
        FileStore, SendMessage, SessionFactory, SessionRepository, SessionRuntime, SessionStore,
    },
    store_sql::SqliteStore,
};

const SYSTEM: &str = "You are a calculator agent. Use the tools you are given.";
const LINE: &str = "The quick brown fox jumps over the lazy dog, line 0042.\n";

type Failure = Box<dyn Error + Send + Sync>;

/// What is to be done.
struct Work {
    base_url: String,
    steps: u64,
    par: u64,
    pad: usize,
    runs: u64,
    conc: u64,
    lat: u64,
    streams: bool,
    is_fake: bool,
    db: Option<String>,
}

impl Work {
    fn from_env() -> Result<Self, Failure> {
        Ok(Self {
            base_url: read("BASE_URL", "http://127.0.0.1:18080/v1".to_owned())?,
            steps: read("STEPS", 10)?,
            par: read("PAR", 1)?,
            pad: read("PAD", 0)?,
            runs: read("RUNS", 1)?,
            conc: read("CONC", 1)?,
            lat: read("LAT", 0)?,
            streams: read("STREAM", 0)? == 1,
            is_fake: read("MODE", "http".to_owned())? == "fake",
            db: std::env::var("DB").ok(),
        })
    }

    fn prompt(&self) -> String {
        let Self { steps, par, pad, lat, .. } = self;
        format!(
            "STEPS={steps} PAR={par} PAD={pad} LAT={lat} \
             Call the add tool until you are told to stop."
        )
    }

    fn agent(&self, calls: Arc<AtomicU64>) -> Result<AgentBuilder, Failure> {
        let padding: Arc<str> = LINE.chars().cycle().take(self.pad).collect::<String>().into();
        let add = tool_fn("add", "Add two numbers", move |args: Add| {
            let (calls, padding) = (Arc::clone(&calls), Arc::clone(&padding));
            async move {
                calls.fetch_add(1, Relaxed);
                let mut sum = (args.a + args.b).to_string();
                sum.push_str(&padding);
                Ok::<_, BoxError>(sum)
            }
        });
        let options = InferenceOptions::default().with_stream(self.streams);
        let llm = LlmConfig { options, ..LlmConfig::default() };
        let model = if self.is_fake {
            UseLlmConfig::model(Scripted { steps: self.steps, par: self.par })
        } else {
            let model = RemoteModel::new(WireApi::OpenAiChat, "mock", &self.base_url, "mock")?;
            UseLlmConfig::model(model.with_key(Secret::new("sk-mock"))?)
        };
        let builder = match read("AGENT", String::new())?.as_str() {
            "standard" => {
                let guards =
                    UseGuards::new(Budget::standard().with_steps(u32::MAX).with_tokens(u64::MAX));
                AgentBuilder::base().with_capability(guards)
            }
            _ => AgentBuilder::base(),
        };
        let agent = builder
            .with_capability(UseContextConfig::new(SYSTEM))
            .with_capability(model.with_llm(llm))
            .with_capability(UseTools::new().with_tool(add));
        Ok(agent)
    }
}

fn read<T: FromStr<Err: Error + Send + Sync + 'static>>(
    name: &str,
    default: T,
) -> Result<T, Failure> {
    std::env::var(name).map_or(Ok(default), |text| Ok(text.parse()?))
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

/// Calls the tool so many times and is done then.
struct Scripted {
    steps: u64,
    par: u64,
}

#[async_trait]
impl ChatModel for Scripted {
    async fn infer(
        &self,
        request: &InferenceRequest,
        _cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let step = request.prompt.turns.len() as u64 - 1;
        let parts: Vec<Part> = if step >= self.steps {
            vec![Part::text(format!("DONE steps={}", self.steps))]
        } else {
            let call = |index| {
                let arguments = format!("{{\"a\":{step},\"b\":{index}}}");
                let call = ToolCall::new(format!("call_{step}_{index}"), "add", arguments);
                Part::new(Content::ToolCall(call))
            };
            (0..self.par).map(call).collect()
        };
        Ok(InferenceResponse::new(Message::new(Role::Assistant, parts), Usage::default()))
    }
}

/// What all the work came to.
struct Done {
    text: String,
    calls: u64,
    /// How long it took to resume the session.
    resumed: Option<Duration>,
}

/// Does one run, and keeps each step of it before the next one begins. Gives its last words, and how
/// long it took to resume it.
async fn keep(
    place: &str,
    agent: AgentBuilder,
    prompt: String,
) -> Result<(String, Option<Duration>), Failure> {
    let runtime = SessionRuntime::new(open(place).await?, DefinitionLoopFactory::new(agent));
    let definition = AgentDefinition::new("calculator", "Adds numbers", SYSTEM);
    let session = SessionFactory::new().create(definition, RunEnv::system().clock.now());
    let id = runtime.create(session).await?.id().clone();
    let session = runtime.execute(&id, &SendMessage::text(prompt)).await?;
    if read("RESUME", 0)? == 0 {
        return Ok((session.state().text(), None));
    }
    drop(runtime);
    // Whoever had it open before is to be gone.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    let loaded = SessionRepository::new(open(place).await?).load(&id).await?;
    Ok((loaded.state().text(), Some(began.elapsed())))
}

async fn open(place: &str) -> Result<Arc<dyn SessionStore>, Failure> {
    Ok(match place.strip_prefix("files:") {
        Some(directory) => Arc::new(FileStore::open(directory)?),
        None => Arc::new(SqliteStore::open(place).await?),
    })
}

async fn work(work: Work) -> Result<Done, Failure> {
    let calls = Arc::new(AtomicU64::new(0));
    let agent = work.agent(Arc::clone(&calls))?;
    if let Some(place) = &work.db {
        let (text, resumed) = keep(place, agent, work.prompt()).await?;
        return Ok(Done { text, calls: calls.load(Relaxed), resumed });
    }
    let agent = Arc::new(agent.build()?);
    let left = Arc::new(AtomicU64::new(work.runs));
    let prompt: Arc<str> = work.prompt().into();
    let one_after_another = || {
        let (agent, left, prompt) = (Arc::clone(&agent), Arc::clone(&left), Arc::clone(&prompt));
        async move {
            let mut last = String::new();
            while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                let state = agent.execute(AgentState::new().with_user_message(&*prompt)).await;
                if state.text().is_empty() {
                    return Err(Failure::from(state.explain_stop()));
                }
                last = state.text();
            }
            Ok(last)
        }
    };
    let conc = work.conc.min(work.runs);
    if conc == 1 {
        let text = one_after_another().await?;
        return Ok(Done { text, calls: calls.load(Relaxed), resumed: None });
    }
    let tasks = (0..conc).map(|_| tokio::spawn(one_after_another()));
    let mut text = String::new();
    for last in join_all(tasks).await {
        let last = last??;
        if !last.is_empty() {
            text = last;
        }
    }
    Ok(Done { text, calls: calls.load(Relaxed), resumed: None })
}

fn main() -> Result<(), Failure> {
    let mut runtime = match read("RT", String::new())?.as_str() {
        "current" => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.enable_all().build()?;
    let Done { text, calls, resumed } = runtime.block_on(work(Work::from_env()?))?;
    let resumed = resumed
        .map_or(String::new(), |took| format!(",\"resume_ms\":{}", took.as_secs_f64() * 1e3));
    println!("{{\"final\":{text:?},\"tool_calls\":{calls}{resumed}}}");
    Ok(())
}
