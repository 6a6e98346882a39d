//! The tools of sources in one run.
//!
//! A listing is requested at the start of a step and polled beside whatever the run awaits. It takes effect at the start
//! of the next step. As long as no source reports a change, a step costs one comparison for each source.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::{
    BoxError,
    change::{Change, Edit},
    clock::Clock,
    event::{ToolSourceFailed, ToolSourceUpdated},
    run::Run,
    tool::{AnyTool, AttachedSource, SOURCE_TOOLS, ToolListing, ToolSet, ToolSources},
};

/// The sources of an agent and the tools that the run has from them.
pub(super) struct SourceWatch {
    followed: Vec<Followed>,
    /// Which source a tool is from; tools of the agent itself are not listed.
    owners: HashMap<Arc<str>, usize>,
    /// The names of tools from sources, in their order in requests.
    order: Vec<Arc<str>>,
}

struct Followed {
    source: AttachedSource,
    /// Whether the run has called the source.
    is_asked: bool,
    /// The version whose tools the run has.
    listed: Option<u64>,
    listing: Listing,
}

/// A call of [`ToolSource::tools`](crate::ToolSource::tools).
enum Listing {
    Idle,
    Pending { future: BoxFuture<'static, Result<ToolListing, BoxError>>, limit: StepWait },
    Ready(Result<ToolListing, BoxError>),
}

/// How long a step still waits for a listing.
enum StepWait {
    /// The timer starts only if the listing is not ready at once: the system clock has timers only under Tokio.
    UpTo(Duration),
    Until(BoxFuture<'static, ()>),
    Over,
}

impl StepWait {
    /// Ready when no step waits any longer.
    fn poll(&mut self, cx: &mut Context<'_>, clock: &dyn Clock) -> Poll<()> {
        if let Self::UpTo(wait) = self {
            *self = if wait.is_zero() { Self::Over } else { Self::Until(clock.sleep(*wait)) };
        }
        if let Self::Until(timer) = self {
            ready!(timer.as_mut().poll(cx));
            *self = Self::Over;
        }
        Poll::Ready(())
    }
}

impl SourceWatch {
    /// Follows the sources of an agent. Returns `None` if it has none.
    pub(super) fn new(sources: &ToolSources) -> Option<Box<Self>> {
        let followed: Vec<_> = sources
            .iter()
            .map(|source| Followed {
                source: source.clone(),
                is_asked: false,
                listed: None,
                listing: Listing::Idle,
            })
            .collect();
        let watch = Self { followed, owners: HashMap::new(), order: Vec::new() };
        (!watch.followed.is_empty()).then(|| Box::new(watch))
    }

    /// Advances the listings that are pending.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        for followed in &mut self.followed {
            if let Listing::Pending { future, .. } = &mut followed.listing
                && let Poll::Ready(result) = future.as_mut().poll(cx)
            {
                followed.listing = Listing::Ready(result);
            }
        }
    }

    /// Requests the tools of sources that have changed.
    fn request(&mut self) {
        for followed in &mut self.followed {
            let is_idle = matches!(followed.listing, Listing::Idle);
            let is_known = || followed.listed == Some(followed.source.source.version());
            if is_idle && !followed.source.is_closed() && !is_known() {
                let limit = StepWait::UpTo(followed.source.wait);
                let future = Box::pin(followed.source.clone().list());
                followed.listing = Listing::Pending { future, limit };
                followed.is_asked = true;
            }
        }
    }

    /// Advances the listings; ready when no step waits for any of them.
    fn poll_wait(&mut self, cx: &mut Context<'_>, clock: &dyn Clock) -> Poll<()> {
        self.poll(cx);
        let mut answer = Poll::Ready(());
        for followed in &mut self.followed {
            if let Listing::Pending { limit, .. } = &mut followed.listing
                && limit.poll(cx, clock).is_pending()
            {
                answer = Poll::Pending;
            }
        }
        answer
    }

    /// Takes the listings that have arrived, with the positions of their sources.
    fn take_ready(&mut self) -> Vec<(usize, Result<ToolListing, BoxError>)> {
        let mut ready = Vec::new();
        for (at, followed) in self.followed.iter_mut().enumerate() {
            match std::mem::replace(&mut followed.listing, Listing::Idle) {
                Listing::Ready(result) => ready.push((at, result)),
                other => followed.listing = other,
            }
        }
        ready
    }

    /// Merges the tools of a listing into `tools`. Appends new tools to `added`.
    fn merge(
        &mut self,
        at: usize,
        listing: &ToolListing,
        tools: &mut ToolSet,
        added: &mut Vec<AnyTool>,
    ) -> SourceUpdate {
        let mut update = SourceUpdate::default();
        self.followed[at].listed = Some(listing.version);
        let name = self.followed[at].source.source.name();
        let known = self.order.iter().filter(|tool| self.owners.get(*tool) == Some(&at));
        for gone in known.filter(|tool| listing.tools.get(tool).is_none()) {
            if let Some(tool) = tools.get(gone).filter(|tool| !tool.is_withdrawn()) {
                let withdrawn = tool.withdrawn(name);
                tools.add(withdrawn);
                update.removed.push(Arc::clone(gone));
            }
        }
        for tool in listing.tools.iter() {
            let (name, owner) = (tool.name(), self.owners.get(tool.name()).copied());
            match tools.get(name) {
                None if owner.is_none() => {
                    update.added.push(Arc::clone(name));
                    added.push(tool.clone());
                    self.owners.insert(Arc::clone(name), at);
                }
                Some(known) if owner == Some(at) || (owner.is_some() && known.is_withdrawn()) => {
                    if known.is_withdrawn() {
                        update.added.push(Arc::clone(name));
                    } else if known.spec() != tool.spec() {
                        update.changed.push(Arc::clone(name));
                    }
                    tools.add(tool.clone());
                    self.owners.insert(Arc::clone(name), at);
                }
                _ => update.refused.push(Arc::clone(name)),
            }
        }
        update
    }

    /// Sorts new tools into the session's order, and appends them.
    fn append(&mut self, mut added: Vec<AnyTool>, session: &[Arc<str>], tools: &mut ToolSet) {
        let places: HashMap<&Arc<str>, usize> =
            session.iter().enumerate().map(|(place, name)| (name, place)).collect();
        added.sort_by_key(|tool| places.get(tool.name()).copied().unwrap_or(usize::MAX));
        for tool in added {
            self.order.push(Arc::clone(tool.name()));
            tools.add(tool);
        }
    }
}

/// The changes of a listing.
#[derive(Default)]
struct SourceUpdate {
    added: Vec<Arc<str>>,
    changed: Vec<Arc<str>>,
    removed: Vec<Arc<str>>,
    refused: Vec<Arc<str>>,
}

impl Run {
    /// Updates the tools of sources. Waits only for sources that the program allows to wait for,
    /// and not after the run is cancelled.
    pub(super) async fn update_tools(&mut self) {
        let Some(watch) = &mut self.sources else { return };
        watch.request();
        if watch.followed.iter().all(|it| matches!(it.listing, Listing::Idle)) {
            return;
        }
        let mut cancelled = Box::pin(self.options.cancel.cancelled());
        let clock = &*self.options.env.clock;
        let waited = poll_fn(|cx| match watch.poll_wait(cx, clock) {
            Poll::Pending => cancelled.as_mut().poll(cx),
            Poll::Ready(()) => Poll::Ready(()),
        });
        waited.await;
        drop(cancelled);
        self.time_passed();
        self.take_listings();
    }

    /// Returns `true` if this run has not called a source yet.
    pub(super) fn is_unlisted(&self) -> bool {
        self.sources.as_ref().is_some_and(|watch| watch.followed.iter().any(|it| !it.is_asked))
    }

    fn take_listings(&mut self) {
        let Some(watch) = &mut self.sources else { return };
        let ready = watch.take_ready();
        if ready.is_empty() {
            return;
        }
        let (mut tools, mut added) = (self.agent.tools().clone(), Vec::new());
        let mut updates = Vec::new();
        for (at, result) in ready {
            let name: Arc<str> = watch.followed[at].source.source.name().into();
            let update = result.map(|listing| watch.merge(at, &listing, &mut tools, &mut added));
            updates.push((name, update));
        }
        let session = self.state.get(&SOURCE_TOOLS).unwrap_or_default();
        watch.append(added, &session, &mut tools);
        let order = watch.order.clone();
        if updates.iter().any(|(_, update)| update.is_ok()) {
            self.agent = self.agent.with(|parts| parts.tools = tools);
            self.way = self.inference_context();
        }
        if order != session {
            let names = order.iter().map(|name| Value::from(&**name)).collect();
            let edit = Edit::Set(SOURCE_TOOLS.slot(), Some(Value::Array(names)));
            self.record(Change::StateEdited { by: Arc::from("loop"), edit });
        }
        for (source, update) in updates {
            self.say_listing(source, update);
        }
    }

    fn say_listing(&mut self, source: Arc<str>, update: Result<SourceUpdate, BoxError>) {
        match update {
            Err(error) => self.say(|_| ToolSourceFailed { source, error: error.to_string() }),
            Ok(update) => {
                let SourceUpdate { added, changed, removed, refused } = update;
                let lists = [&added, &changed, &removed, &refused];
                if lists.iter().any(|names| !names.is_empty()) {
                    self.say(|_| ToolSourceUpdated { source, added, changed, removed, refused });
                }
            }
        }
    }
}

/// Awaits a future of the run while listings are pending.
pub(super) async fn alongside<T>(
    watch: Option<&mut SourceWatch>,
    awaited: impl Future<Output = T>,
) -> T {
    let Some(watch) = watch else { return awaited.await };
    let mut awaited = std::pin::pin!(awaited);
    poll_fn(|cx| {
        watch.poll(cx);
        awaited.as_mut().poll(cx)
    })
    .await
}
