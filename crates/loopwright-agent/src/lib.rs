//! Composition of agents from capabilities.
//!
//! [`AgentBuilder`] takes capabilities and builds an `AgentLoop`. A [`Capability`] receives a
//! [`Configurator`] and adds its parts: tools, hooks, prompt fragments, a compiler, a driver. The
//! order of capabilities matters only if two set the same part.

mod compilers;
mod drivers;
mod guards;
mod error_policy;
mod criteria;
mod processor;
mod capability;
mod configurator;
mod builder;
mod capabilities;
mod names;
mod definition;
mod factories;
mod registry;
mod contract;
mod profile;
mod on_demand;
mod simple;
pub mod tasks;

pub use crate::{
    builder::AgentBuilder,
    capabilities::{
        UseCachedContext, UseContextCompiler, UseContextCompilerDecorator, UseContextConfig,
        UseContinuation, UseDriver, UseDriverDecorator, UseErrorPolicy, UseGuards, UseHook,
        UseIdentity, UseIfCallable, UseInterceptor, UseLlmConfig, UseReActConfig,
        UseStateProcessor, UseToolFactory, UseToolSource, UseTools,
    },
    capability::{BuildError, Capability},
    compilers::{AllSections, ConversationWithCurrentToolTrace, SelectedSections},
    configurator::{
        ComponentSlot, Configurator, DeferredToolCx, DeferredTools, PromptChannel, ToolChannel,
    },
    contract::{
        AgentContract, AgentContractRegistry, AgentDescriptor, AgentFactory, ContractAgent,
        ContractError, ContractLoopFactory, InvalidDescriptor,
    },
    criteria::{ContinuationCriteria, ContinuationCriterion, CriterionResult},
    definition::{
        AgentDefinition, AgentIsolation, AgentMemory, CALL_RULES, CallRules, DefinitionError,
        DefinitionRegistry, Definitions, HOOKS, MEMORY, MEMORY_TOOL,
    },
    drivers::{ReActDriver, ToolCallingDriver},
    error_policy::{ErrorAction, ErrorClass, ErrorPolicy},
    factories::{DefinitionLoopFactory, DefinitionStateFactory, LoopFactory, StateFactory},
    guards::{
        CostLimit, CumulativeTimeLimit, Deadline, FinishReasons, StepsLimit, TimeLimit, TokenLimit,
    },
    names::NameList,
    on_demand::ACTIVATED_TOOLS,
    processor::StateProcessor,
    profile::{AgentProfile, DescribeAgent, HookInfo, LlmInfo, ToolInfo},
    registry::{CapabilityEntry, CapabilityError, CapabilityRegistry},
    simple::AgentLoopExt,
};

/// Ready-made continuation criteria.
pub mod continuation {
    pub use crate::criteria::builtin::*;
}
