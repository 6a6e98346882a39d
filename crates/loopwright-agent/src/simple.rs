//! A loop without a builder.

use std::sync::Arc;

use loopwright_core::{AgentLoop, AgentParts, ChatModel, Driver};

use crate::{compilers::AllSections, drivers::ToolCallingDriver};

/// Creates a loop from only a model or a driver, without a builder.
///
/// ```
/// use loopwright_agent::AgentLoopExt as _;
/// use loopwright_core::AgentLoop;
/// # fn model() -> impl loopwright_core::ChatModel { Silent }
/// # struct Silent;
/// # #[async_trait::async_trait]
/// # impl loopwright_core::ChatModel for Silent {
/// #     async fn infer(&self, _: &loopwright_core::messages::InferenceRequest, _: loopwright_core::InferCx<'_>)
/// #         -> Result<loopwright_core::messages::InferenceResponse, loopwright_core::ModelError> { unimplemented!() }
/// # }
///
/// let agent = AgentLoop::simple(model());
/// ```
pub trait AgentLoopExt: Sized {
    /// Creates a loop in which a model can call tools, with the default compiler, and without tools
    /// and hooks. It has no limits: a model that never stops calling tools never ends.
    fn simple(model: impl ChatModel + 'static) -> Self {
        Self::from_driver(Arc::new(ToolCallingDriver::new(model)))
    }

    /// Creates the same loop with another driver.
    fn from_driver(driver: Arc<dyn Driver>) -> Self;
}

impl AgentLoopExt for AgentLoop {
    fn from_driver(driver: Arc<dyn Driver>) -> Self {
        Self::new(AgentParts::new(driver, Arc::new(AllSections)))
    }
}
