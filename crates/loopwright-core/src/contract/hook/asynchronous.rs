//! Async closures as parts of a hook, with their types erased.

use futures_util::future::BoxFuture;
use loopwright_messages::{InferenceRequest, InferenceResponse, ToolCall};

use crate::{
    BoxError,
    edit::StateEdit,
    failure::Failure,
    hook::{ErrorDecision, Flow, HookCx, InferenceDecision, StopDecision, ToolDecision},
    outcome::ToolOutcome,
    state::AgentState,
    stop::StopSignal,
};

/// An async closure or `async fn` whose future can move between threads. Every closure that a
/// setter of [`CallableHook`](crate::CallableHook) takes implements it, if the values that it holds
/// across an `.await` are `Send`.
///
/// `Args` are the arguments as a tuple, `R` is the result.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an async closure whose future is `Send`",
    note = "the closure must be `Clone`, and values that live across an `.await` must be `Send`"
)]
pub trait AsyncHookFn<Args, R> {
    /// The future of a call.
    type Future: Future<Output = R> + Send;

    /// Calls the closure.
    fn call(self, args: Args) -> Self::Future;
}

impl<F, Fut, A, B, R> AsyncHookFn<(A, B), R> for F
where
    F: FnOnce(A, B) -> Fut,
    Fut: Future<Output = R> + Send,
{
    type Future = Fut;

    fn call(self, (a, b): (A, B)) -> Fut {
        self(a, b)
    }
}

impl<F, Fut, A, B, C, R> AsyncHookFn<(A, B, C), R> for F
where
    F: FnOnce(A, B, C) -> Fut,
    Fut: Future<Output = R> + Send,
{
    type Future = Fut;

    fn call(self, (a, b, c): (A, B, C)) -> Fut {
        self(a, b, c)
    }
}

impl<F, Fut, A, B, C, D, R> AsyncHookFn<(A, B, C, D), R> for F
where
    F: FnOnce(A, B, C, D) -> Fut,
    Fut: Future<Output = R> + Send,
{
    type Future = Fut;

    fn call(self, (a, b, c, d): (A, B, C, D)) -> Fut {
        self(a, b, c, d)
    }
}

/// A closure that is cloned for each call, so that its future owns the captures.
pub(super) struct Cloned<F>(pub(super) F);

macro_rules! erased {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            pub(super) trait $name: Send + Sync {
                fn call<'a, 's, 'c>(
                    &'a self,
                    $($arg: $type,)*
                    cx: &'a HookCx<'c>,
                ) -> BoxFuture<'a, Result<$result, BoxError>>
                where
                    's: 'a,
                    'c: 'a;
            }

            impl<F> $name for Cloned<F>
            where
                F: Clone + Send + Sync,
                F: for<'a, 's, 'c> AsyncHookFn<
                    ($($type,)* &'a HookCx<'c>),
                    Result<$result, BoxError>,
                >,
            {
                fn call<'a, 's, 'c>(
                    &'a self,
                    $($arg: $type,)*
                    cx: &'a HookCx<'c>,
                ) -> BoxFuture<'a, Result<$result, BoxError>>
                where
                    's: 'a,
                    'c: 'a,
                {
                    Box::pin(self.0.clone().call(($($arg,)* cx)))
                }
            }
        )*
    };
}

erased! {
    AsyncEdit(state: &'a mut StateEdit<'s>) -> Flow;
    AsyncEnd(state: &'a mut StateEdit<'s>) -> ();
    AsyncRequest(request: &'a mut InferenceRequest, state: &'a AgentState) -> InferenceDecision;
    AsyncResponse(response: &'a mut InferenceResponse, state: &'a AgentState) -> Flow;
    AsyncCall(call: &'a ToolCall, state: &'a AgentState) -> ToolDecision;
    AsyncOutcome(call: &'a ToolCall, outcome: &'a mut ToolOutcome, state: &'a AgentState) -> Flow;
    AsyncStop(signal: Option<&'a StopSignal>, state: &'a mut StateEdit<'s>) -> StopDecision;
    AsyncError(failure: &'a Failure, state: &'a mut StateEdit<'s>) -> ErrorDecision;
}
