//! The keys of one line of the editor: those that it adds one by one, those that it adds together, and those for the next prompt.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use reedline::{EditCommand, ReedlineEvent};
use rustix::process::{Signal, getpid, kill_process};

/// How many characters of a batch are added to the line one by one, so that each can be undone. For each, the editor copies the
/// line. The others are added together.
pub(super) const ADDED_SINGLY: usize = 1000;

/// How many characters of a line are drawn one by one although more of them wait. Those behind them are added together as they
/// arrive: a text without the marks of a paste would draw the line anew for each of its characters.
pub(super) const DRAWN_SINGLY: usize = 200;

/// How Ctrl-C ends a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// Nothing was typed.
    Empty,
    /// What was typed is taken away.
    Discarded,
}

/// The keys of one line, shared between the editor and the program that reads with it. The editor takes all keys that wait
/// at once. Those behind a key that ends its reading are kept for the next prompt.
#[derive(Clone, Debug, Default)]
pub(super) struct LineKeys {
    keys: Arc<Mutex<Keys>>,
    /// Whether the line decides about a call.
    is_deciding: Arc<AtomicBool>,
    /// Whether the line chooses from a list, which Esc leaves.
    is_choosing: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact about the keys")]
struct Keys {
    /// Whether keys were waiting when the prompt opened.
    has_waited: bool,
    /// The number of times that the editor has taken keys at this prompt.
    batch: u32,
    is_batch_over: bool,
    /// The number of characters that the editor has added one by one in this batch.
    added: usize,
    /// The number of characters of the line that came while another key waited.
    hurried: usize,
    /// Those that it adds together, before the next key that is none.
    together: String,
    /// Whether the key that follows them waits at the terminal.
    is_followed: bool,
    /// The keys of the last batch behind one that ends the reading, if there is one.
    behind: Option<VecDeque<Event>>,
    /// Whether the line has text: as the editor shows it, and with the keys that it has taken since.
    has_text: bool,
    /// How Ctrl-C ends the reading, if it does.
    interruption: Option<LineEnd>,
    /// Keys for the next prompt.
    kept: VecDeque<Event>,
    /// Keys that the editor takes before those of the terminal.
    pressed: VecDeque<Event>,
}

impl LineKeys {
    /// Begins another prompt; `has_waited` is `true` if keys were pressed before.
    pub(super) fn open(&self, has_waited: bool) {
        let mut keys = self.lock();
        let (kept, pressed) = (std::mem::take(&mut keys.kept), std::mem::take(&mut keys.pressed));
        *keys = Keys { has_waited, is_batch_over: true, kept, pressed, ..Keys::default() };
    }

    /// Sets whether the next lines decide about calls.
    pub(super) fn set_deciding(&self, is_deciding: bool) {
        self.is_deciding.store(is_deciding, Ordering::Relaxed);
    }

    /// Returns `true` if the line decides about a call.
    pub(super) fn is_deciding(&self) -> bool {
        self.is_deciding.load(Ordering::Relaxed)
    }

    /// Sets whether the next lines choose from a list.
    pub(super) fn set_choosing(&self, is_choosing: bool) {
        self.is_choosing.store(is_choosing, Ordering::Relaxed);
    }

    /// Returns `true` if the line chooses from a list.
    pub(super) fn is_choosing(&self) -> bool {
        self.is_choosing.load(Ordering::Relaxed)
    }

    /// Ends the reading with a key for the program. Keys behind it are kept.
    pub(super) fn end(&self) {
        let mut keys = self.lock();
        let behind = keys.behind.take().unwrap_or_default();
        keys.kept.extend(behind);
    }

    /// Ends the reading with a line. Returns how, if Ctrl-C ended it.
    pub(super) fn end_line(&self, line: &str) -> Option<LineEnd> {
        let interruption = self.lock().interruption.filter(|_| line.is_empty());
        self.end();
        interruption
    }

    /// Returns `true` if something stands at the prompt.
    pub(super) fn has_text(&self) -> bool {
        self.lock().has_text
    }

    /// Notes the line that the editor shows.
    pub(super) fn shows(&self, line: &str) {
        self.lock().has_text = !line.is_empty();
    }

    /// Has the editor take these keys at the next prompt, before others.
    pub(super) fn press(&self, keys: impl IntoIterator<Item = Event>) {
        self.lock().pressed.extend(keys);
    }

    /// Has the editor take the first of them now, if there are any.
    pub(super) fn wake(&self) {
        if !self.lock().pressed.is_empty() {
            send_event();
        }
    }

    /// Returns the key that the editor is to take before an event, which it takes later. `None` means that it takes the event
    /// now.
    pub(super) fn before(&self, event: &Event) -> Option<Event> {
        let mut keys = self.lock();
        let first = keys.pressed.pop_front()?;
        if !matches!(event, Event::Resize(..)) {
            keys.pressed.push_back(event.clone());
        }
        // Also for the size itself, if it was another one.
        send_event();
        Some(first)
    }

    /// Puts a character to those that are added together. `is_followed` is `true` if another key waits at the terminal. Returns
    /// what the editor does: nothing, or adding all of them. `None` means that the character is added by itself.
    pub(super) fn holds(&self, event: &Event, is_followed: bool) -> Option<ReedlineEvent> {
        let mut keys = self.lock();
        let letter = letter(event).filter(|_| keys.behind.is_none())?;
        keys.added += 1;
        keys.hurried += usize::from(is_followed);
        keys.is_followed = is_followed && keys.hurried > DRAWN_SINGLY;
        let is_held = keys.is_followed || keys.added > ADDED_SINGLY;
        if !is_held && keys.together.is_empty() {
            return None;
        }
        keys.together.push(letter);
        if is_held {
            return Some(ReedlineEvent::None);
        }
        let text = std::mem::take(&mut keys.together);
        Some(ReedlineEvent::Edit(vec![EditCommand::InsertString(text)]))
    }

    /// Returns the characters that are added together before an event, if there are any. The editor takes the event later.
    pub(super) fn together(&self, event: &Event) -> Option<String> {
        let mut keys = self.lock();
        if keys.together.is_empty() || letter(event).is_some() {
            return None;
        }
        if !matches!(event, Event::Resize(..)) {
            keys.pressed.push_front(event.clone());
        }
        send_event();
        Some(std::mem::take(&mut keys.together))
    }

    /// Returns the next key that was kept.
    pub(super) fn next_kept(&self) -> Option<Event> {
        self.lock().kept.pop_front()
    }

    /// Takes a key of a batch. Returns `true` if it was pressed before the prompt opened.
    pub(super) fn take(&self, event: &Event) -> bool {
        let mut keys = self.lock();
        if std::mem::take(&mut keys.is_batch_over) {
            keys.batch += 1;
            keys.behind = None;
            keys.interruption = None;
            keys.added = 0;
        }
        if let Some(behind) = &mut keys.behind {
            behind.push_back(event.clone());
        } else {
            keys.has_text |= adds_text(event);
        }
        keys.has_waited && keys.batch == 1
    }

    /// Notes that the editor ends its reading at the key that was taken last.
    pub(super) fn leaves(&self, is_interrupted: bool) {
        let mut keys = self.lock();
        keys.behind.get_or_insert_default();
        if is_interrupted && keys.interruption.is_none() {
            let has_text = keys.has_text;
            keys.interruption = Some(if has_text { LineEnd::Discarded } else { LineEnd::Empty });
        }
    }

    pub(super) fn end_batch(&self) {
        let mut keys = self.lock();
        keys.is_batch_over = true;
        if !keys.together.is_empty() && !keys.is_followed {
            send_event();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes an event at the terminal, with which the editor takes a key: one about its size. A terminal sends it at any time.
fn send_event() {
    kill_process(getpid(), Signal::WINCH).ok();
}

/// Returns the character of a key that stands for itself.
pub(super) fn letter(event: &Event) -> Option<char> {
    match event {
        Event::Key(KeyEvent { kind: KeyEventKind::Release, .. }) => None,
        Event::Key(KeyEvent { code: KeyCode::Char(letter), modifiers, .. }) => match *modifiers {
            KeyModifiers::NONE => Some(*letter),
            KeyModifiers::SHIFT => Some(letter.to_ascii_uppercase()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns `true` if an event adds text to the line.
fn adds_text(event: &Event) -> bool {
    match event {
        Event::Paste(text) => !text.is_empty(),
        Event::Key(KeyEvent { code: KeyCode::Char(_), modifiers, .. }) => {
            !modifiers.contains(KeyModifiers::CONTROL)
        }
        _ => false,
    }
}
