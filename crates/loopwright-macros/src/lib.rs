//! The `#[tool]` attribute.
//!
//! [`macro@tool`] reads the options (`options.rs`) and the function (`function.rs`), collects what is
//! wrong with them (`problems.rs`), and writes down a tool (`expansion.rs`).

mod problems;
mod name;
mod types;
mod description;
mod entry;
mod options;
mod parameter;
mod function;
mod expansion;
#[cfg(test)]
mod messages;

use proc_macro::TokenStream;

#[doc = include_str!("tool.md")]
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    expansion::expand(options.into(), &item.into()).into()
}
