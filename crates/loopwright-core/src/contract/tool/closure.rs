//! Closures as tools.

use std::{fmt, marker::PhantomData, sync::Arc};

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{
    BoxError,
    file_changes::Writes,
    tool::{IntoToolOutput, Tool, ToolCx, ToolOptions},
};

/// A closure as a tool; see [`tool_fn`] and [`tool_fn_with`].
pub struct FnTool<A, O> {
    name: Arc<str>,
    description: Arc<str>,
    options: ToolOptions,
    run: Box<Run<A, O>>,
    writes: Option<Box<DeclareWrites<A>>>,
    args: PhantomData<fn(A)>,
}

type DeclareWrites<A> = dyn Fn(&A) -> Writes + Send + Sync;

type Run<A, O> =
    dyn for<'a> Fn(A, &'a ToolCx<'a>) -> BoxFuture<'a, Result<O, BoxError>> + Send + Sync;

/// Creates a tool from an async closure with typed arguments.
///
/// ```
/// use loopwright_core::{BoxError, tool_fn};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add {
///     a: i64,
///     b: i64,
/// }
///
/// let add = tool_fn("add", "Adds two numbers.", |args: Add| async move {
///     Ok::<_, BoxError>(args.a + args.b)
/// });
/// ```
pub fn tool_fn<F, A, Fut, O, E>(name: &str, description: &str, run: F) -> FnTool<A, O>
where
    F: Fn(A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema + Send + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
    O: IntoToolOutput + 'static,
    E: Into<BoxError> + 'static,
{
    tool_fn_with(name, description, move |args, _| {
        let answer = run(args);
        Box::pin(async move { answer.await.map_err(Into::into) })
    })
}

/// Creates a tool from a closure that also receives the call's context and returns a boxed future.
///
/// ```
/// use loopwright_core::{NoArgs, tool_fn_with};
///
/// let count = tool_fn_with("steps", "Returns the number of steps so far.", |_: NoArgs, cx| {
///     Box::pin(async move { Ok(cx.state.step_count()) })
/// });
/// ```
pub fn tool_fn_with<A, O>(
    name: &str,
    description: &str,
    run: impl for<'a> Fn(A, &'a ToolCx<'a>) -> BoxFuture<'a, Result<O, BoxError>>
    + Send
    + Sync
    + 'static,
) -> FnTool<A, O> {
    FnTool {
        name: name.into(),
        description: description.into(),
        options: ToolOptions::default(),
        run: Box::new(run),
        writes: None,
        args: PhantomData,
    }
}

impl<A, O> FnTool<A, O> {
    /// Sets the options for its calls.
    #[must_use]
    pub fn with_options(mut self, options: ToolOptions) -> Self {
        self.options = options;
        self
    }

    /// Declares the files that a call can write; see [`Tool::writes`].
    ///
    /// ```
    /// use loopwright_core::{BoxError, ToolSet, Writes, messages::ToolCall, tool_fn};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Note {
    ///     file: String,
    /// }
    ///
    /// let note = tool_fn("note", "Writes a note.", |_: Note| async { Ok::<_, BoxError>("written") })
    ///     .with_writes(|args| Writes::path(&args.file));
    /// let call = ToolCall::new("1", "note", r#"{ "file": "notes.txt" }"#);
    /// assert_eq!(ToolSet::new().with(note).writes(&call), Writes::path("notes.txt"));
    /// ```
    #[must_use]
    pub fn with_writes(mut self, writes: impl Fn(&A) -> Writes + Send + Sync + 'static) -> Self {
        self.writes = Some(Box::new(writes));
        self
    }
}

impl<A, O> Tool for FnTool<A, O>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    O: IntoToolOutput + 'static,
{
    type Args = A;
    type Output = O;
    type Error = BoxError;

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn options(&self) -> ToolOptions {
        self.options.clone()
    }

    fn writes(&self, args: &A) -> Writes {
        match &self.writes {
            Some(writes) => writes(args),
            None => self.options.side_effects.into(),
        }
    }

    async fn call(&self, args: A, cx: &ToolCx<'_>) -> Result<O, BoxError> {
        (self.run)(args, cx).await
    }
}

impl<A, O> fmt::Debug for FnTool<A, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FnTool").field(&self.name).finish()
    }
}
