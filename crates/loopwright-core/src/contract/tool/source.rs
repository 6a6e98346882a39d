//! Tools that come and go while an agent works.

use std::{
    fmt,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{FutureExt as _, future::join_all};

use crate::{
    BoxError,
    failure::panic_message,
    key::Key,
    tool::{AnyTool, ToolSet},
};

/// Provides tools that can change while an agent works, such as the tools of a server.
///
/// A run compares [`version`](ToolSource::version) at the start of each step. If it has changed, the run calls
/// [`tools`](ToolSource::tools) and starts the step without waiting for the result, unless the program allows it to
/// [wait](ToolSources::add_with_wait). The result takes effect at the start of the next step:
///
/// - New tools follow the tools that the model already sees, so that the request keeps its prefix.
/// - A tool that the source no longer lists stays in requests until the run ends. A call of it fails with an error that
///   names the source.
/// - A tool whose description or schema changed replaces the previous one, in its place.
/// - A tool whose name belongs to the agent or to another source is refused. The event
///   [`ToolSourceUpdated`](crate::events::ToolSourceUpdated) names it. Of two sources, the one
///   whose tool the run already has keeps the name; if both list it at the same step, the one that
///   was added first gets it.
///
/// Calls that are running are not affected. Runs of one agent call [`tools`](ToolSource::tools) independently, so a
/// source keeps its list and returns it quickly. `loopwright_testing::tool_source` contains tests for every
/// implementation.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// Returns the name of the source in events and errors.
    fn name(&self) -> &str;

    /// Returns a number that differs from the one of the last [listing](ToolListing) if the tools have changed since.
    /// Called at each step: it must be cheap and must not block.
    fn version(&self) -> u64;

    /// Returns the current tools. After its future is dropped, the source must still work.
    ///
    /// # Errors
    ///
    /// Returns an error if the tools are unknown. The run keeps the tools that it has, emits
    /// [`ToolSourceFailed`](crate::events::ToolSourceFailed), and calls this method again at the
    /// next step.
    async fn tools(&self) -> Result<ToolListing, BoxError>;

    /// Releases the resources of the source. Called by
    /// [`AgentLoop::close`](crate::AgentLoop::close), and never when an agent is dropped: the
    /// `Drop` of a source decides what a dropped source releases. It must be safe to call again.
    ///
    /// # Errors
    ///
    /// Returns an error if a resource could not be released.
    async fn close(&self) -> Result<(), BoxError> {
        Ok(())
    }
}

/// The tools of a source at one time.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolListing {
    /// The version of the source that these tools belong to.
    pub version: u64,
    /// The tools.
    pub tools: ToolSet,
}

impl ToolListing {
    /// Creates a listing.
    pub fn new(version: u64, tools: ToolSet) -> Self {
        Self { version, tools }
    }
}

/// A source that could not release its resources.
#[derive(Debug, thiserror::Error)]
#[error("tool source `{name}` cannot be closed")]
#[non_exhaustive]
pub struct ToolSourceError {
    /// The name of the source.
    pub name: String,
    /// The cause.
    #[source]
    pub source: BoxError,
}

/// The names of the tools from sources that the model has seen in this session, in their order in requests. A later
/// execution shows them in the same order.
pub const SOURCE_TOOLS: Key<Vec<Arc<str>>> = Key::session("tool_sources", "order");

/// The tool sources of an agent, in the order they were added. Cheap to clone; clones share whether a source is closed.
///
/// ```
/// use std::sync::Arc;
///
/// use loopwright_core::{ToolSet, ToolSources};
/// use loopwright_testing::{MockTool, ScriptedToolSource};
///
/// let tools = ToolSet::new().with(MockTool::returning("ping", "Answers.", "pong"));
/// let mut sources = ToolSources::default();
/// sources.add(Arc::new(ScriptedToolSource::new("server", tools)));
/// assert_eq!(sources.names().collect::<Vec<_>>(), ["server"]);
/// ```
#[derive(Clone, Default)]
pub struct ToolSources(Vec<AttachedSource>);

/// A source of one agent.
#[derive(Clone)]
pub(crate) struct AttachedSource {
    pub(crate) source: Arc<dyn ToolSource>,
    /// How long a step may wait for a listing, counted from the call of [`ToolSource::tools`].
    pub(crate) wait: Duration,
    keep: Option<Arc<KeepTool>>,
    is_closed: Arc<AtomicBool>,
}

type KeepTool = dyn Fn(&AnyTool) -> bool + Send + Sync;

impl ToolSources {
    /// Adds a source that no step waits for.
    pub fn add(&mut self, source: Arc<dyn ToolSource>) {
        self.add_with_wait(source, Duration::ZERO);
    }

    /// Adds a source that steps wait for, at most for `wait` after the run has called [`ToolSource::tools`]. A listing
    /// that is not ready at once needs a timer of the run's clock, which the system clock has only under Tokio.
    pub fn add_with_wait(&mut self, source: Arc<dyn ToolSource>, wait: Duration) {
        self.0.push(AttachedSource { source, wait, keep: None, is_closed: Arc::default() });
    }

    /// Appends the sources of another list.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend(others.0.iter().cloned());
    }

    /// Returns these sources without the tools that `keep` rejects.
    #[must_use]
    pub fn filter(&self, keep: impl Fn(&AnyTool) -> bool + Send + Sync + 'static) -> Self {
        let keep: Arc<KeepTool> = Arc::new(keep);
        let narrow = |attached: &AttachedSource| {
            let (before, keep) = (attached.keep.clone(), Arc::clone(&keep));
            let both = move |tool: &AnyTool| {
                before.as_ref().is_none_or(|before| before(tool)) && keep(tool)
            };
            AttachedSource { keep: Some(Arc::new(both)), ..attached.clone() }
        };
        Self(self.0.iter().map(narrow).collect())
    }

    /// Returns the names of the sources, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|attached| attached.source.name())
    }

    /// Returns the number of sources.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no sources.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Closes all open sources concurrently. From now on runs do not call them, and keep the tools
    /// that they already have. Dropping the future leaves unfinished sources open.
    ///
    /// # Errors
    ///
    /// Returns the error of the first source that fails or panics. The other sources are still
    /// closed.
    pub async fn close(&self) -> Result<(), ToolSourceError> {
        let open = self.0.iter().filter(|attached| !attached.is_closed.swap(true, SeqCst));
        let results = join_all(open.map(AttachedSource::close)).await;
        results.into_iter().collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &AttachedSource> {
        self.0.iter()
    }
}

impl AttachedSource {
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(SeqCst)
    }

    /// Returns the current tools that this agent can have. Panics become errors.
    pub(crate) async fn list(self) -> Result<ToolListing, BoxError> {
        let listing = contained(self.source.tools()).await?;
        Ok(match &self.keep {
            None => listing,
            Some(keep) => ToolListing { tools: listing.tools.filter(|tool| keep(tool)), ..listing },
        })
    }

    async fn close(&self) -> Result<(), ToolSourceError> {
        let closed = contained(self.source.close()).await;
        closed.map_err(|source| ToolSourceError { name: self.source.name().to_owned(), source })
    }
}

async fn contained<T>(answer: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    let answer = AssertUnwindSafe(answer).catch_unwind().await;
    answer.unwrap_or_else(|payload| {
        Err(format!("the tool source panicked: {}", panic_message(&*payload)).into())
    })
}

impl fmt::Debug for ToolSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
