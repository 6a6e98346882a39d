//! Input while the agent works: lines for the agent, Esc to stop it, and the start of the next line.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEvent, KeyEventKind,
    KeyModifiers, poll, read,
};
use crossterm::execute;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::ahead::Ahead;
use super::keys::ChatKey;
use super::pastes::Pastes;
use crate::clipboard;
use crate::render::{UiEvent, UiSender};

/// How long is waited for a key before it is looked whether the agent still works.
const LOOKS: Duration = Duration::from_millis(50);

/// What a user wants while the agent works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// The agent is to hear this.
    Line(String),
    /// The agent is to stop.
    Stop,
    /// The permission mode changes to the next one.
    NextMode,
}

impl Typed {
    /// Returns the line, if it is one.
    pub(crate) fn into_line(self) -> Option<String> {
        match self {
            Self::Line(line) => Some(line),
            Self::Stop | Self::NextMode => None,
        }
    }
}

/// Reads what is typed while the agent works, on a thread of its own. Ctrl-C stays a signal.
#[derive(Debug)]
pub(crate) struct LiveInput {
    is_over: Arc<AtomicBool>,
    reading: JoinHandle<String>,
}

impl LiveInput {
    /// Begins to read, and shows with `feed` what is being typed. `marks_pastes` makes lines that are pasted together one message.
    pub(super) fn start(
        feed: UiSender,
        draft: String,
        pastes: Pastes,
        marks_pastes: bool,
    ) -> (Self, UnboundedReceiver<Typed>) {
        let is_over = Arc::new(AtomicBool::new(false));
        let (sender, typed) = unbounded_channel();
        let ends = Arc::clone(&is_over);
        let reading = thread::spawn(move || {
            let mut line = Line { draft, pastes, feed, sender };
            line.show();
            if marks_pastes {
                execute!(io::stderr(), EnableBracketedPaste).ok();
            }
            while !ends.load(Relaxed) {
                match poll(LOOKS) {
                    Ok(false) => {}
                    Ok(true) => match read() {
                        Ok(event) => line.take(&event),
                        Err(_) => break,
                    },
                    Err(_) => break,
                }
            }
            if marks_pastes {
                execute!(io::stderr(), DisableBracketedPaste).ok();
            }
            line.draft
        });
        (Self { is_over, reading }, typed)
    }

    /// Stops reading. Returns the lines that were not taken, those that came until the end included, and the line that was begun.
    /// Blocks for a moment.
    pub(super) fn finish(self, typed: &mut UnboundedReceiver<Typed>) -> (Vec<String>, String) {
        self.is_over.store(true, Relaxed);
        let draft = self.reading.join().unwrap_or_default();
        let lines = std::iter::from_fn(|| typed.try_recv().ok()).filter_map(Typed::into_line);
        (lines.collect(), draft)
    }
}

/// The line that is being typed.
struct Line {
    draft: String,
    pastes: Pastes,
    feed: UiSender,
    sender: UnboundedSender<Typed>,
}

impl Line {
    fn take(&mut self, event: &Event) {
        if matches!(event, Event::Key(KeyEvent { kind: KeyEventKind::Release, .. })) {
            return;
        }
        if let Event::Key(KeyEvent { code: KeyCode::Esc, .. }) = event {
            self.sender.send(Typed::Stop).ok();
            return;
        }
        if ChatKey::of(event) == Some(ChatKey::NextMode) {
            self.sender.send(Typed::NextMode).ok();
            return;
        }
        self.add(event);
        self.show();
    }

    /// Takes a key or a pasted text as the prompt would, and sends each line that ends with it.
    fn add(&mut self, event: &Event) {
        if let Some(words) = self.attached(event) {
            self.draft.push_str(&words);
            return;
        }
        let mut ahead = Ahead { draft: std::mem::take(&mut self.draft), ..Ahead::default() };
        ahead.take_text(event);
        for line in ahead.lines.into_iter().filter(|it| !it.trim().is_empty()) {
            self.sender.send(Typed::Line(super::joined(&line))).ok();
        }
        self.draft = ahead.draft;
    }

    /// Attaches the files whose paths are pasted, and with Ctrl-V the image in the clipboard, and returns the words that stand for
    /// them.
    fn attached(&self, event: &Event) -> Option<String> {
        match event {
            Event::Paste(text) => self.pastes.files(text.trim()),
            Event::Key(KeyEvent { code: KeyCode::Char('v'), modifiers, .. })
                if modifiers.contains(KeyModifiers::CONTROL) =>
            {
                let image = clipboard::image();
                let image =
                    image.inspect_err(|error| self.feed.tell(UiEvent::Told(error.to_string())));
                Some(image.map(|it| self.pastes.attach(it) + " ").unwrap_or_default())
            }
            _ => None,
        }
    }

    fn show(&self) {
        self.feed.tell(UiEvent::Typing(self.draft.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_comes_as_the_reading_ends_is_kept() {
        let is_over = Arc::new(AtomicBool::new(false));
        let (sender, mut typed) = unbounded_channel();
        let ends = Arc::clone(&is_over);
        let reading = thread::spawn(move || {
            while !ends.load(Relaxed) {
                thread::yield_now();
            }
            sender.send(Typed::Line("late".to_owned())).unwrap();
            "begun".to_owned()
        });
        let rest = LiveInput { is_over, reading }.finish(&mut typed);
        assert_eq!(rest, (vec!["late".to_owned()], "begun".to_owned()));
    }

    #[test]
    fn lines_are_sent_escape_stops_and_the_rest_is_kept() {
        let (feed, _shown) = UiSender::new();
        let (sender, mut typed) = unbounded_channel();
        let mut line = Line { draft: "a".to_owned(), pastes: Pastes::default(), feed, sender };
        let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
        let plain = |code| key(code, KeyModifiers::NONE);
        for letter in "bcd ef".chars() {
            line.take(&plain(KeyCode::Char(letter)));
        }
        line.take(&key(KeyCode::Char('w'), KeyModifiers::CONTROL));
        line.take(&plain(KeyCode::Backspace));
        line.take(&plain(KeyCode::Backspace));
        line.take(&plain(KeyCode::Enter));
        line.take(&plain(KeyCode::Enter));
        line.take(&plain(KeyCode::Esc));
        line.take(&key(KeyCode::BackTab, KeyModifiers::SHIFT));
        line.take(&Event::Paste("two\rlines".to_owned()));
        assert_eq!(line.draft, "two\nlines");
        let mut sent = Vec::new();
        while let Ok(typed) = typed.try_recv() {
            sent.push(typed);
        }
        assert_eq!(sent, [Typed::Line("abc".to_owned()), Typed::Stop, Typed::NextMode]);
    }
}
