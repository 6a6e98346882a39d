//! Composition as facts. One binary: a module below is one theme.

mod support;
mod builder;
mod compilers;
mod tool_calling;
mod react;
mod guards;
mod error_policy;
mod continuation;
mod capabilities;
mod definitions;
