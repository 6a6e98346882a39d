//! The core capabilities: each sets or adds one part of an agent.

mod callable;
mod context;
mod driver;
mod guards;
mod identity;
mod hooks;
mod llm;
mod policy;
mod tool_source;
mod tools;

pub use self::{
    callable::UseIfCallable,
    context::{
        UseCachedContext, UseContextCompiler, UseContextCompilerDecorator, UseContextConfig,
    },
    driver::{UseDriver, UseDriverDecorator},
    guards::UseGuards,
    hooks::{UseHook, UseInterceptor, UseStateProcessor},
    identity::UseIdentity,
    llm::{UseLlmConfig, UseReActConfig},
    policy::{UseContinuation, UseErrorPolicy},
    tool_source::UseToolSource,
    tools::{UseToolFactory, UseTools},
};

/// Implements `Capability` for a type whose name in registries is a constant.
macro_rules! capability {
    ($type:ty, $name:literal, |$self:ident, $agent:ident| $configure:block) => {
        impl crate::Capability for $type {
            fn name(&self) -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn configure(&self, agent: &mut crate::Configurator) -> Result<(), crate::BuildError> {
                let ($self, $agent) = (self, agent);
                $configure
                Ok(())
            }
        }
    };
}

pub(crate) use capability;
