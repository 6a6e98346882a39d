//! The core as facts. One binary: a module below is one theme.

mod property;
