//! The parts of the program `loopwright`.
//!
//! | module | content |
//! |---|---|
//! | [`args`], [`config`], [`prompt`] | the command line, the configuration, the prompt |
//! | [`model`], [`tools`], [`agent`] | the model, its tools, and the built-in agent |
//! | [`definitions`], [`selected_agent`] | the defined agents and skills, and the selected agent |
//! | [`store`], [`session`], [`startup`], [`conversation`] | the session store, finding a session, and conversations |
//! | [`permissions`], [`policy`], [`trust`] | permission rules, and the commands about them |
//! | [`display`], [`render`], [`signals`] | a run in progress: its output, and stopping it |
//! | [`report`], [`ending`], [`exit`] | the report at the end, and the exit code |
//! | [`run`], [`chat`], [`sessions`], [`agents`], [`skills`], [`mod@acp`], [`worker`], [`submit`], [`jobs`], [`serve`], [`tokens`], [`demo`], [`models`], [`files`], [`sandbox`], [`doctor`], [`mcp`], [`settings`], [`completions`], [`man`] | the commands |
//! | [`mod@reference`] | the source of the reference pages |

pub mod acp;
pub mod agent;
mod agent_memory;
pub mod agents;
mod added_folders;
pub mod answer_checks;
pub mod selected_agent;
mod approval;
pub mod args;
pub mod chat;
mod chat_commands;
mod capability_settings;
mod check;
mod chosen_rules;
mod command_hooks;
pub mod completions;
mod clipboard;
pub mod commands;
pub mod config;
mod load_config;
pub mod console;
pub mod conversation;
pub mod definitions;
pub mod demo;
pub mod doctor;
pub mod ending;
pub mod exit;
mod explain;
mod file_url;
pub mod files;
mod folders;
mod form;
mod granted;
mod mode_change;
mod model_hint;
mod input;
pub mod jobs;
mod known_warnings;
mod loaded;
mod loops;
pub mod serve;
mod session_agents;
mod session_folder;
pub mod tokens;
pub mod man;
pub mod mcp;
pub mod media;
mod mcp_completions;
mod mcp_mentions;
mod mcp_servers;
mod named_file;
mod notify;
mod cost_consent;
mod project;
pub mod model;
pub mod models;
mod skill_prompts;
pub mod startup;
mod denied_paths;
mod own_paths;
pub mod permissions;
pub mod policy;
mod project_settings;
mod fingerprint;
mod claude_keys;
mod claude_settings;
pub mod trust;
pub mod prompt;
pub mod reference;
pub mod render;
pub mod report;
mod restate;
pub mod run;
pub mod sandbox;
pub mod schedule;
pub mod session;
pub mod session_budget;
pub mod sessions;
pub mod settings;
pub mod signals;
mod skill_folders;
pub mod skills;
mod snapshots;
pub mod display;
mod steering;
pub mod store;
mod table;
mod task_command;
pub mod submit;
pub mod tools;
mod turn;
mod typed_text;
mod untrusted;
mod mentions;
mod user_command;
mod user_skill;
mod remote_agents;
mod web_search;
mod whole_file;
mod verification;
pub mod worker;
mod worker_roots;
mod worktrees;
