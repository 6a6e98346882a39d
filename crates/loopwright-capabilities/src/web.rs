//! Pages of the web, as Markdown.
//!
//! Only machines of the internet are reached: a name is looked up once for each connection, its addresses are checked
//! as the sandbox checks them, and the connection goes to an address that was checked. So neither a redirect nor a name
//! that changes its address leads to this machine, its networks or the metadata of a provider.

mod address;
mod capability;
mod fetch;
mod markdown;
mod page;
mod policy;
mod robots;

pub use self::{
    address::{Network, SystemNetwork},
    capability::UseWeb,
    fetch::{WebFetchArgs, WebFetchTool},
    page::FetchError,
    policy::{Robots, WebPolicy},
};

#[cfg(test)]
mod tests;
