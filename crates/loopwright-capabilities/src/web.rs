//! Web pages as Markdown.
//!
//! Only public hosts can be reached: a name is resolved once for each connection, its addresses are
//! checked as in the sandbox, and the connection goes to a checked address. So neither a redirect
//! nor a name that changes its address leads to this machine, its networks or the metadata service
//! of a cloud provider.

mod address;
mod capability;
mod fetch;
mod markdown;
mod model_search;
mod page;
mod policy;
mod robots;
mod search;

pub use self::{
    address::{SystemNetwork, WebNetwork},
    capability::UseWeb,
    fetch::{WebFetchArgs, WebFetchTool},
    model_search::{ModelSearchTool, ProviderSearch},
    page::FetchError,
    policy::{Robots, WebPolicy},
    search::{SearchError, SearchResult, SearchService, WebSearchArgs, WebSearchTool},
};

#[cfg(test)]
mod tests;
