//! Servers of the Model Context Protocol as tool sources.

mod names;
mod template;
mod text;

pub use crate::{
    names::{MAX_TOOL_NAME, server_part, tool_names},
    template::{Template, TemplateError},
    text::clean,
};
