//! Shell commands as data: the text of a command, parsed as by bash, without running any part of
//! it.
//!
//! [`read`] returns every simple command of a text with its words, assignments and redirections,
//! and in which order and under which conditions they run. Parsing takes linear time, and the
//! nesting, the length and the number of commands are limited. An unsupported construct ends the
//! parsing with a [`ReadError`]; the commands before it are kept.

mod evaluation;
mod expansion;
mod grammar;
mod heredoc;
mod reader;
mod script;
mod simple;
mod word;

pub(crate) use reader::read;
pub(crate) use script::{Direction, Event, Function, Redirect, ScopeKind, Script, Simple};
pub(crate) use word::{UNKNOWN_END, UNKNOWN_START, Word, is_identifier};
