//! What every program of this comparison that is written in Rust shares: the work it is given, and
//! how it tells what it did. `README.md` of the comparison has the contract.

use std::{
    error::Error,
    future::Future,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use futures::future::join_all;
use serde_json::{Value, json};

/// What every agent is told before the user speaks.
pub const SYSTEM: &str = "You are a calculator agent. Use the tools you are given.";

/// What the tool is called.
pub const TOOL: &str = "add";

/// What the tool says of itself.
pub const DESCRIPTION: &str = "Add two numbers";

/// What padding repeats.
const LINE: &str = "The quick brown fox jumps over the lazy dog, line 0042.\n";

/// Whatever keeps a program from its work.
pub type Failure = Box<dyn Error + Send + Sync>;

/// What the environment asks for.
#[derive(Clone, Debug)]
pub struct Work {
    /// Address of the model, up to and with the version.
    pub base_url: String,
    /// Steps of a run in which the model calls the tool.
    pub steps: u64,
    /// Calls in each of them.
    pub par: u64,
    /// Whether answers are streamed.
    pub streams: bool,
    /// Whether the model is in process.
    pub is_fake: bool,
    runs: u64,
    conc: u64,
    lat: u64,
    pad: usize,
    padding: String,
}

impl Work {
    fn from_env() -> Result<Self, Failure> {
        let pad = read("PAD", 0)?;
        Ok(Self {
            base_url: read("BASE_URL", "http://127.0.0.1:18080/v1".to_owned())?,
            steps: read("STEPS", 10)?,
            par: read("PAR", 1)?,
            streams: read("STREAM", 0)? == 1,
            is_fake: read("MODE", "http".to_owned())? == "fake",
            runs: read("RUNS", 1)?,
            conc: read("CONC", 1)?,
            lat: read("LAT", 0)?,
            pad,
            padding: padding(pad),
        })
    }

    /// What the user says first, which also tells the model what to do.
    pub fn prompt(&self) -> String {
        let Self { steps, par, pad, lat, .. } = self;
        format!(
            "STEPS={steps} PAR={par} PAD={pad} LAT={lat} \
             Call the add tool until you are told to stop."
        )
    }

    /// What the tool answers.
    pub fn sum(&self, a: i64, b: i64) -> String {
        format!("{}{}", a + b, self.padding)
    }

    /// What the model says when all steps are done.
    pub fn farewell(&self) -> String {
        format!("DONE steps={}", self.steps)
    }

    /// How many steps a framework must allow so that its own limit is out of the way.
    pub fn allowed_steps(&self) -> usize {
        usize::try_from(self.steps).map_or(usize::MAX, |steps| steps + 10)
    }
}

/// So many bytes of text.
pub fn padding(bytes: usize) -> String {
    LINE.chars().cycle().take(bytes).collect()
}

/// The schema of the tool's arguments.
pub fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
        "required": ["a", "b"],
    })
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// The last words of the model.
    pub text: String,
    /// Calls of the tool.
    pub calls: u64,
}

/// Does the work with what does one run of it, and prints what it came to.
pub fn drive<F, Fut>(run: F) -> Result<(), Failure>
where
    F: Fn(Arc<Work>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Done, Failure>> + Send + 'static,
{
    let work = Arc::new(Work::from_env()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        // A single run is not sent to another thread first.
        if work.runs == 1 { run(work).await } else { at_once(work, run).await }
    })?;
    println!("{}", json!({ "final": done.text, "tool_calls": done.calls }));
    Ok(())
}

async fn at_once<F, Fut>(work: Arc<Work>, run: F) -> Result<Done, Failure>
where
    F: Fn(Arc<Work>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Done, Failure>> + Send + 'static,
{
    let run = Arc::new(run);
    let left = Arc::new(AtomicU64::new(work.runs));
    let tasks = (0..work.conc.min(work.runs)).map(|_| {
        let (run, left, work) = (Arc::clone(&run), Arc::clone(&left), Arc::clone(&work));
        tokio::spawn(async move {
            let mut all = Done::default();
            while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                let done = run(Arc::clone(&work)).await?;
                all = Done { text: done.text, calls: all.calls + done.calls };
            }
            Ok::<_, Failure>(all)
        })
    });
    let mut all = Done::default();
    for done in join_all(tasks).await {
        let done = done??;
        all.calls += done.calls;
        if !done.text.is_empty() {
            all.text = done.text;
        }
    }
    Ok(all)
}

fn read<T: FromStr<Err: Error + Send + Sync + 'static>>(
    name: &str,
    default: T,
) -> Result<T, Failure> {
    std::env::var(name).map_or(Ok(default), |text| Ok(text.parse()?))
}
