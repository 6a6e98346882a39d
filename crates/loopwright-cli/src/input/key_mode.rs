//! The mode of the terminal during a chat, while no prompt is open.

use std::io;
use std::sync::{Mutex, PoisonError};

use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// The mode before, while a chat is open.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// A terminal that keeps each key for the program that reads next, and shows none. Only Ctrl-C and the like are signals. Its
/// own line editing would take some of the keys, such as Ctrl-R. When this is dropped, the terminal is as it was.
#[derive(Debug)]
pub(super) struct KeyMode(());

impl KeyMode {
    pub(super) fn set() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut keys = before.clone();
        keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
        // Enter stays another key than Ctrl-J.
        keys.input_modes -= InputModes::ICRNL;
        tcsetattr(io::stdin(), OptionalActions::Now, &keys)?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        Ok(Self(()))
    }
}

impl Drop for KeyMode {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the mode from before the chat. Returns `false` if no chat is open.
pub(super) fn restore() -> bool {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    before.is_some_and(|it| tcsetattr(io::stdin(), OptionalActions::Now, &it).is_ok())
}
