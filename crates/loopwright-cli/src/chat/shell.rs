//! `!COMMAND`.

use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, select};
use loopwright_capabilities::bash::{Bash, BashArgs};
use loopwright_core::messages::Content;
use loopwright_sessions::SessionFiles;
use tokio_util::sync::CancellationToken;

use crate::console;
use crate::conversation::Conversation;
use crate::render::sanitize_terminal;
use crate::signals::Signals;

/// The most characters of an output that the agent sees.
const SEEN: usize = 20_000;

/// Runs a command as the agent's are run, shows what it printed, and returns the text for the
/// agent. `None` if it did not run.
pub(super) async fn run(
    conversation: &Conversation,
    command: &str,
    signals: Option<&mut Signals>,
) -> Option<String> {
    let setup = &conversation.setup;
    let mut bash = Bash::in_dir(setup.workdir.path())
        .longest(setup.commands.longest())
        .confine(|policy| setup.commands().extend(policy));
    for path in setup.commands.allowed() {
        bash = bash.allow(path);
    }
    if let Some(id) = &conversation.session {
        bash =
            bash.journal(Arc::new(SessionFiles::new(Arc::clone(&conversation.store), id.clone())));
    }
    let args = BashArgs { command: command.to_owned(), ..BashArgs::default() };
    let cancel = CancellationToken::new();
    let mut work = pin!(bash.run(&args, None, &cancel));
    let done = match signals {
        None => work.await,
        Some(signals) => match select(work.as_mut(), pin!(signals.next())).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => {
                cancel.cancel();
                work.await
            }
        },
    };
    let output = match done {
        Ok(output) => output,
        Err(error) => {
            console::warn(&error);
            return None;
        }
    };
    let mut text = String::new();
    for part in output.content.iter() {
        if let Content::Text(words) = part.content() {
            text.push_str(words);
        }
    }
    console::tell(&sanitize_terminal(text.trim_end()));
    let seen: String = text.chars().take(SEEN).collect();
    Some(format!("I ran `{command}`, which printed:\n```\n{}\n```", seen.trim_end()))
}
