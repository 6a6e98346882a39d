//! The `#[tool]` attribute.

mod description;
mod entry;
mod expansion;
mod function;
mod name;
mod options;
mod parameter;
mod problems;
mod types;

use proc_macro::TokenStream;

/// Doc
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    expansion::expand(options.into(), &item.into()).into()
}
