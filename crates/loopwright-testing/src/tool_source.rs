//! A tool source under control of the test, and tests for every tool source.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

use async_trait::async_trait;
use futures::{
    FutureExt as _,
    future::{BoxFuture, join},
};
use loopwright_core::{BoxError, ToolListing, ToolSet, ToolSource};

/// A tool source whose tools change when the test says so. Clones share everything.
#[derive(Clone, Debug)]
pub struct ScriptedToolSource {
    name: Arc<str>,
    script: Arc<Mutex<Script>>,
}

#[derive(Debug)]
struct Script {
    version: u64,
    tools: ToolSet,
    mode: Mode,
    listings: usize,
    wakers: Vec<Waker>,
    closings: usize,
}

/// How a source answers.
#[derive(Clone, Debug)]
enum Mode {
    Answers,
    AnswersAfter(usize),
    Hangs,
    Fails(String),
    Panics,
}

impl ScriptedToolSource {
    /// Creates a source that lists `tools` at once.
    pub fn new(name: &str, tools: ToolSet) -> Self {
        let script = Script {
            version: 1,
            tools,
            mode: Mode::Answers,
            listings: 0,
            wakers: Vec::new(),
            closings: 0,
        };
        Self { name: name.into(), script: Arc::new(Mutex::new(script)) }
    }

    /// Replaces the tools.
    pub fn set_tools(&self, tools: ToolSet) {
        let mut script = self.script();
        script.tools = tools;
        script.version += 1;
    }

    /// Lets listings end only after they were polled this many times without a result.
    pub fn delay(&self, polls: usize) {
        self.set_mode(Mode::AnswersAfter(polls));
    }

    /// Lets listings never end, those in progress included.
    pub fn hang(&self) {
        self.set_mode(Mode::Hangs);
    }

    /// Lets listings fail.
    pub fn fail(&self, error: &str) {
        self.set_mode(Mode::Fails(error.to_owned()));
    }

    /// Lets listings panic.
    pub fn panic(&self) {
        self.set_mode(Mode::Panics);
    }

    /// Lets listings succeed, those in progress included.
    pub fn answer(&self) {
        self.set_mode(Mode::Answers);
    }

    /// Returns how often the tools were listed, listings in progress included.
    pub fn listings(&self) -> usize {
        self.script().listings
    }

    /// Returns how often the source was closed.
    pub fn closings(&self) -> usize {
        self.script().closings
    }

    fn set_mode(&self, mode: Mode) {
        let mut script = self.script();
        script.mode = mode;
        let wakers = std::mem::take(&mut script.wakers);
        drop(script);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ToolSource for ScriptedToolSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u64 {
        self.script().version
    }

    #[expect(clippy::panic, reason = "the test asks for it")]
    async fn tools(&self) -> Result<ToolListing, BoxError> {
        self.script().listings += 1;
        let mut polls = 0;
        poll_fn(|cx| {
            let mut script = self.script();
            polls += 1;
            match script.mode {
                Mode::AnswersAfter(count) if polls <= count => cx.waker().wake_by_ref(),
                Mode::Hangs => script.wakers.push(cx.waker().clone()),
                _ => return Poll::Ready(()),
            }
            Poll::Pending
        })
        .await;
        let (mode, version, tools) = {
            let script = self.script();
            (script.mode.clone(), script.version, script.tools.clone())
        };
        match mode {
            Mode::Fails(error) => Err(error.into()),
            Mode::Panics => panic!("the tool source lost its head"),
            Mode::Answers | Mode::AnswersAfter(_) | Mode::Hangs => {
                Ok(ToolListing::new(version, tools))
            }
        }
    }

    async fn close(&self) -> Result<(), BoxError> {
        self.script().closings += 1;
        Ok(())
    }
}

/// A source under test. Each case takes a new one.
#[derive(Clone)]
#[non_exhaustive]
pub struct SourceUnderTest {
    /// The source. It lists at least one tool.
    pub source: Arc<dyn ToolSource>,
    /// Changes the tools of the source, and returns when the source knows of it.
    pub change: Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
}

impl SourceUnderTest {
    /// Takes a source that lists at least one tool, and what changes its tools.
    pub fn new(
        source: Arc<dyn ToolSource>,
        change: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { source, change: Arc::new(change) }
    }
}

impl std::fmt::Debug for SourceUnderTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceUnderTest")
            .field("source", &self.source.name())
            .finish_non_exhaustive()
    }
}

/// A test of one part of the contract of [`ToolSource`].
#[derive(Clone, Copy)]
pub struct Case {
    /// The part, as a fact.
    pub name: &'static str,
    run: fn(SourceUnderTest) -> BoxFuture<'static, Result<(), String>>,
}

impl Case {
    /// Tests a source that no other case has used.
    ///
    /// # Errors
    ///
    /// Returns a description of the violation.
    pub async fn run(&self, source: SourceUnderTest) -> Result<(), String> {
        (self.run)(source).await.map_err(|error| format!("{}: {error}", self.name))
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Case").field(&self.name).finish()
    }
}

macro_rules! cases {
    ($($name:ident)*) => {
        /// The tests that every [`ToolSource`] must pass.
        pub const CASES: &[Case] = &[$(Case {
            name: stringify!($name),
            run: |source| Box::pin($name(source)),
        },)*];
    };
}

cases! {
    tools_and_version_stay_the_same_without_a_change
    a_listing_has_the_version_of_its_source
    a_change_raises_another_version
    a_listing_that_is_dropped_leaves_the_source_usable
    two_listings_at_a_time_agree
    a_source_can_be_closed_twice
}

async fn list(source: &dyn ToolSource) -> Result<ToolListing, String> {
    source.tools().await.map_err(|error| format!("the source does not list its tools: {error}"))
}

fn names(listing: &ToolListing) -> Vec<Arc<str>> {
    listing.tools.names().to_vec()
}

fn same(left: &ToolListing, right: &ToolListing) -> Result<(), String> {
    let (left, right) = ((left.version, names(left)), (right.version, names(right)));
    if left == right { Ok(()) } else { Err(format!("{left:?} and then {right:?}")) }
}

async fn tools_and_version_stay_the_same_without_a_change(
    it: SourceUnderTest,
) -> Result<(), String> {
    let first = list(&*it.source).await?;
    if first.tools.is_empty() {
        return Err("the source under test lists no tool".to_owned());
    }
    same(&first, &list(&*it.source).await?)
}

async fn a_listing_has_the_version_of_its_source(it: SourceUnderTest) -> Result<(), String> {
    let listing = list(&*it.source).await?;
    let version = it.source.version();
    let listed = listing.version;
    if listed == version { Ok(()) } else { Err(format!("{listed} is not {version}")) }
}

async fn a_change_raises_another_version(it: SourceUnderTest) -> Result<(), String> {
    let before = list(&*it.source).await?;
    (it.change)().await;
    if it.source.version() == before.version {
        return Err(format!("the version is still {}", before.version));
    }
    let after = list(&*it.source).await?;
    if after.version == it.source.version() {
        return Ok(());
    }
    Err("the listing after the change has the version before it".to_owned())
}

async fn a_listing_that_is_dropped_leaves_the_source_usable(
    it: SourceUnderTest,
) -> Result<(), String> {
    drop(it.source.tools().now_or_never());
    drop(it.source.tools());
    same(&list(&*it.source).await?, &list(&*it.source).await?)
}

async fn two_listings_at_a_time_agree(it: SourceUnderTest) -> Result<(), String> {
    let (left, right) = join(list(&*it.source), list(&*it.source)).await;
    same(&left?, &right?)
}

async fn a_source_can_be_closed_twice(it: SourceUnderTest) -> Result<(), String> {
    drop(list(&*it.source).await?);
    for _ in 0..2 {
        it.source.close().await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MockTool, block_on};

    fn scripted() -> (ScriptedToolSource, SourceUnderTest) {
        let source = ScriptedToolSource::new("server", ToolSet::new().with(MockTool::scripted()));
        let (under_test, changed) = (source.clone(), source.clone());
        let under_test = SourceUnderTest::new(Arc::new(under_test), move || {
            changed.set_tools(ToolSet::new());
            Box::pin(async {})
        });
        (source, under_test)
    }

    #[test]
    fn the_scripted_source_passes_all_cases() {
        for case in CASES {
            block_on(case.run(scripted().1)).unwrap();
        }
    }

    #[test]
    fn a_source_that_does_not_list_its_tools_fails_all_cases() {
        for case in CASES {
            let (source, under_test) = scripted();
            source.fail("offline");
            assert!(block_on(case.run(under_test)).unwrap_err().contains("offline"), "{case:?}");
        }
    }
}
