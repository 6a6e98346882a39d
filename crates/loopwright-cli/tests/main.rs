//! The program as a shell sees it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "the lints spare tests, but not what they share; how much was tried is told"
)]

mod acp;
mod added_folders;
mod agent_keys;
mod agent_lines;
mod agents;
mod answer_checks;
mod background;
mod bare;
mod broad_folders;
mod chat;
mod claude;
mod claude_keys;
mod completions;
mod consent;
mod demo;
mod denied_paths;
mod decisions;
mod documented;
mod files;
mod folder_instructions;
mod git_folders;
mod granted;
mod hooks;
mod hostile;
mod images;
mod killed;
mod live_lines;
mod mcp;
mod mcp_agents;
mod mcp_asks;
mod mcp_serve;
mod model_names;
mod models;
mod modes;
mod own_agent;
mod own_folders;
mod pages;
mod peer_options;
mod permissions;
mod program;
mod projects;
mod prompt_keys;
mod prompt_line;
mod questions;
mod reference;
mod reloaded_rules;
mod run;
mod sandbox;
mod screenshots;
mod serve;
mod server;
mod session_folder;
mod session_rules;
mod sessions;
mod settings;
mod skill_hooks;
mod skills;
#[cfg(feature = "snapshots")]
mod snapshots;
mod stopping;
mod terminal;
mod trust;
mod unreadable_settings;
mod walk;
mod warnings;
mod watched;
mod web_search;
mod worker;
mod world;
