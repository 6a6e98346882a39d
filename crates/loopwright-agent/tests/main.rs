//! Composition as facts. One binary: a module below is one theme.

mod support;
mod builder;
