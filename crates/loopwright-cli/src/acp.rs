//! `loopwright acp`: the agent in an editor, by the Agent Client Protocol.
//!
//! The protocol is JSON-RPC, one message per line: standard input and output carry it and nothing else.

mod connection;
mod content;
mod error;
mod files;
mod modes;
mod options;
mod permission;
mod replay;
mod server;
mod servers;
mod session;
mod tool_calls;
mod updates;

use std::rc::Rc;

use tokio::task::LocalSet;

use self::server::Server;
use crate::args::Cli;
use crate::args::acp::AcpArgs;
use crate::console;
use crate::exit::ExitCode;
use crate::run::with_runtime;

/// Serves an editor until it closes standard input.
pub fn acp(cli: &Cli, args: &AcpArgs) -> ExitCode {
    console::set_color(args.agent.surroundings.color);
    let server = Rc::new(Server::new(cli.clone(), args.clone()));
    with_runtime(async { LocalSet::new().run_until(server.serve()).await })
}
