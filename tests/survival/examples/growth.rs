//! What a step takes of our own time as a session grows: a model that answers at once, a tool that returns at once.
//!
//! `cargo run --release -p loopwright-survival --example growth` prints a table: for memory, files and SQLite, the
//! median time of the steps before certain steps. What files and SQLite take includes the wait for the disk. The
//! request of each step is encoded as a whole, as for chat completions, and that is shown separately: it grows with
//! the conversation. A program that asks a provider encodes only what is new. With `ENCODES=0` nothing is encoded, which
//! shows what the rest takes with a warm cache; `STORES=memory,files,sqlite` selects stores.

#![expect(clippy::print_stdout, reason = "it reports")]

use std::{
    env,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::{
    AgentLoop, ChatModel, InferCx, ModelError, NoArgs,
    messages::{InferenceRequest, InferenceResponse, ModelOrigin},
    tool_fn_with,
};
use loopwright_models::{Quirks, RequestEncoder, WireApi};
use loopwright_sessions::{SendMessage, SessionId, SessionRuntime};
use loopwright_survival::{Failure, open::open, worker::session};
use loopwright_testing::{ModelDriver, ScenarioStep, test_loop};
use serde_json::json;

/// The steps that are looked at.
const AT: [usize; 3] = [100, 1_000, 5_000];
/// How many steps before each of them are measured.
const WINDOW: usize = 90;

/// A step, from one request to the next.
#[derive(Clone, Copy)]
struct Lap {
    began: Instant,
    encoding: Duration,
    bytes: usize,
}

#[derive(Clone)]
struct Agent {
    laps: Arc<Mutex<Vec<Lap>>>,
    encoder: Option<Arc<RequestEncoder>>,
}

impl LoopFactory for Agent {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        let look = tool_fn_with("look", "Looks at the next thing.", |_: NoArgs, _| {
            Box::pin(async {
                Ok("There is one more thing to look at, and it looks like this one.")
            })
        });
        Ok(test_loop(ModelDriver::new(Model(self.clone()))).with_tool(look))
    }
}

struct Model(Agent);

#[async_trait]
impl ChatModel for Model {
    async fn infer(
        &self,
        request: &InferenceRequest,
        _cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let began = Instant::now();
        let bytes = match &self.0.encoder {
            Some(encoder) => encoder.encode(request).len(),
            None => 0,
        };
        let encoding = began.elapsed();
        let mut laps = self.0.laps.lock().unwrap_or_else(PoisonError::into_inner);
        laps.push(Lap { began, encoding, bytes });
        if laps.len() > AT[AT.len() - 1] {
            return ScenarioStep::final_answer("done").to_response();
        }
        ScenarioStep::tool_call("look", json!({})).to_response()
    }
}

fn main() -> Result<(), Failure> {
    println!("| store | step | request, KiB | encoding, µs | everything else, µs |");
    println!("|---|---|---|---|---|");
    let folder = tempfile::tempdir_in(env::current_dir()?)?;
    let at = folder.path().display();
    let urls = ["memory:".to_owned(), format!("files:{at}/files"), format!("sqlite:{at}/many.db")];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stores = env::var("STORES").unwrap_or_else(|_| "memory,files,sqlite".to_owned());
    let is_selected = |url: &String| stores.split(',').any(|it| url.starts_with(it));
    for url in urls.into_iter().filter(is_selected) {
        runtime.block_on(measure(&url))?;
    }
    Ok(())
}

async fn measure(url: &str) -> Result<(), Failure> {
    let origin =
        ModelOrigin { provider: "p".into(), model: "m".into(), wire: "openai-chat".into() };
    let encoder = RequestEncoder::new(WireApi::OpenAiChat, Arc::new(origin), Quirks::default());
    let is_wanted = env::var("ENCODES").map_or(true, |it| it != "0");
    let agent = Agent { laps: Arc::default(), encoder: is_wanted.then(|| Arc::new(encoder)) };
    let runtime = SessionRuntime::new(open(url).await?, agent.clone());
    let id = SessionId::new("growing")?;
    runtime.create(session(&id)).await?;
    runtime.execute(&id, &SendMessage::text("Look at everything.")).await?;
    let laps = agent.laps.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let name = url.split(':').next().unwrap_or_default();
    for step in AT {
        let window = laps.windows(2).skip(step.saturating_sub(WINDOW)).take(WINDOW);
        let (mut encoding, mut rest): (Vec<_>, Vec<_>) = window
            .map(|pair| {
                let whole = pair[1].began.saturating_duration_since(pair[0].began);
                (pair[0].encoding, whole.saturating_sub(pair[0].encoding))
            })
            .unzip();
        let bytes = laps.get(step - 1).map_or(0, |lap| lap.bytes);
        println!(
            "| {name} | {step} | {} | {:.1} | {:.1} |",
            bytes / 1024,
            median(&mut encoding),
            median(&mut rest)
        );
    }
    Ok(())
}

/// Returns the median in microseconds.
fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}
