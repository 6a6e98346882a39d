//! Special keys at the prompt, and keys that are pressed while no prompt is open.

use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use reedline::{EditCommand, EditMode, Emacs, PromptEditMode, ReedlineEvent, ReedlineRawEvent};

use super::ahead::is_key_waiting;
use super::line_keys::{LineKeys, letter};
use super::pastes::Pastes;

/// What Esc twice stands for. It is sent like a typed line: the editor takes what else is printed while a line is open
/// for a part of its prompt, and draws over it. What is at the prompt follows, and is not lost.
const TURNS: &str = "/turns ";

/// What Shift-Tab stands for where the answer decides about a call.
pub(super) const NEXT_MODE: &str = "/mode next";

/// What Ctrl-O stands for at an empty prompt.
const THINKING: &str = "/thinking";

/// How soon after another one Esc is the second one.
const TWICE: Duration = Duration::from_secs(1);

/// A key for the program, and not for the editor. The editor ends its reading at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChatKey {
    /// Shift-Tab.
    NextMode,
    /// Ctrl-O: pasted texts are shown as they are. At an empty prompt, the last reasoning is shown.
    OpenPastes,
    /// Ctrl-V: the image in the clipboard.
    PasteImage,
    /// Ctrl-C.
    Interrupt,
}

impl ChatKey {
    const ALL: [Self; 4] = [Self::NextMode, Self::OpenPastes, Self::PasteImage, Self::Interrupt];

    /// Returns the name under which the editor passes it on.
    fn name(self) -> &'static str {
        match self {
            Self::NextMode => "next mode",
            Self::OpenPastes => "open pastes",
            Self::PasteImage => "paste image",
            Self::Interrupt => "interrupt",
        }
    }

    /// Returns the key that the editor passes on under a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Returns the key of an event.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let Event::Key(KeyEvent { code, modifiers, kind, .. }) = event else { return None };
        match (code, *modifiers) {
            _ if *kind == KeyEventKind::Release => None,
            (KeyCode::BackTab, KeyModifiers::SHIFT) => Some(Self::NextMode),
            (KeyCode::Char('o'), KeyModifiers::CONTROL) => Some(Self::OpenPastes),
            (KeyCode::Char('v'), KeyModifiers::CONTROL) => Some(Self::PasteImage),
            (KeyCode::Char('c'), KeyModifiers::CONTROL) => Some(Self::Interrupt),
            _ => None,
        }
    }

    fn to_event(self) -> ReedlineEvent {
        match self {
            // An empty line is sent, so that nothing is left of the prompt above it. In a search of the history, it ends the search.
            Self::Interrupt => {
                let clear = ReedlineEvent::Edit(vec![EditCommand::Clear]);
                let send = vec![ReedlineEvent::Esc, clear, ReedlineEvent::Submit];
                ReedlineEvent::UntilFound(vec![ReedlineEvent::Multiple(send), ReedlineEvent::Esc])
            }
            key => ReedlineEvent::ExecuteHostCommand(key.name().to_owned()),
        }
    }
}

/// The keys of an editor, with those that mean more.
pub(super) struct ChatKeys {
    inner: Emacs,
    pastes: Pastes,
    line: LineKeys,
    /// When Esc was last pressed.
    escaped: Option<Instant>,
    /// Returns `true` if a key waits at the terminal.
    is_followed: fn() -> bool,
}

impl ChatKeys {
    pub(super) fn new(inner: Emacs, pastes: Pastes, line: LineKeys) -> Self {
        Self { inner, pastes, line, escaped: None, is_followed: is_key_waiting }
    }

    fn parse(&mut self, event: Event) -> ReedlineEvent {
        match ReedlineRawEvent::try_from(event) {
            Ok(event) => self.inner.parse_event(event),
            Err(()) => ReedlineEvent::None,
        }
    }
}

impl EditMode for ChatKeys {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        let event: Event = event.into();
        let first = self.line.before(&event);
        let is_pressed = first.is_some();
        let event = first.unwrap_or(event);
        if let Some(text) = self.line.together(&event) {
            return ReedlineEvent::Edit(vec![EditCommand::InsertString(text)]);
        }
        let is_enter = matches!(event, Event::Key(KeyEvent { code: KeyCode::Enter, .. }));
        let meaning = self.meaning(event);
        if is_pressed && is_enter {
            self.line.leaves(false);
        }
        meaning
    }

    fn edit_mode(&self) -> PromptEditMode {
        // The editor asks for it once it has taken all keys that wait.
        self.line.end_batch();
        self.inner.edit_mode()
    }
}

impl ChatKeys {
    /// Returns what the editor does at an event.
    fn meaning(&mut self, event: Event) -> ReedlineEvent {
        if let Event::Resize(width, height) = event {
            return ReedlineEvent::Resize(width, height);
        }
        let has_waited = self.line.take(&event);
        let before = self.escaped.take();
        let is_followed = letter(&event).is_some() && (self.is_followed)();
        if let Some(meaning) = self.line.holds(&event, is_followed) {
            return meaning;
        }
        if let Some(key) = ChatKey::of(&event) {
            self.line.leaves(key == ChatKey::Interrupt);
            if key == ChatKey::NextMode && self.line.is_deciding() {
                let mode = EditCommand::InsertString(NEXT_MODE.to_owned());
                let edits = ReedlineEvent::Edit(vec![EditCommand::Clear, mode]);
                return ReedlineEvent::Multiple(vec![edits, ReedlineEvent::Submit]);
            }
            if key == ChatKey::OpenPastes && !self.line.has_text() {
                let show = EditCommand::InsertString(THINKING.to_owned());
                let edits = ReedlineEvent::Edit(vec![show]);
                return ReedlineEvent::Multiple(vec![edits, ReedlineEvent::Submit]);
            }
            return key.to_event();
        }
        match &event {
            Event::Paste(text) => {
                return ReedlineEvent::Edit(vec![EditCommand::InsertString(
                    self.pastes.take(text),
                )]);
            }
            Event::Key(KeyEvent { code: KeyCode::Esc, modifiers: KeyModifiers::NONE, .. }) => {
                if self.line.is_choosing() {
                    self.line.leaves(true);
                    return ChatKey::Interrupt.to_event();
                }
                if before.is_some_and(|it| it.elapsed() < TWICE) {
                    let start = EditCommand::MoveToStart { select: false };
                    let turns = EditCommand::InsertString(TURNS.to_owned());
                    let edits = ReedlineEvent::Edit(vec![start, turns]);
                    self.line.leaves(false);
                    return ReedlineEvent::Multiple(vec![edits, ReedlineEvent::Submit]);
                }
                self.escaped = Some(Instant::now());
            }
            _ => {}
        }
        if let Some(letter) = behind_escape(&event) {
            // A terminal sends Alt-h and Esc followed by h as the same bytes. Esc was for what happened before the prompt.
            let meant = self.parse(event);
            let is_letter = has_waited || meant == ReedlineEvent::None;
            return if is_letter { self.parse(letter) } else { meant };
        }
        self.parse(event)
    }
}

/// Returns the key without Alt, if it is a letter with Alt.
fn behind_escape(event: &Event) -> Option<Event> {
    match event {
        Event::Key(KeyEvent { code: code @ KeyCode::Char(_), modifiers, .. })
            if (*modifiers - KeyModifiers::SHIFT) == KeyModifiers::ALT =>
        {
            Some(Event::Key(KeyEvent::new(*code, *modifiers - KeyModifiers::ALT)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use reedline::default_emacs_keybindings;

    use super::super::line_keys::{ADDED_SINGLY, DRAWN_SINGLY, LineEnd};
    use super::*;

    fn keys() -> (ChatKeys, LineKeys) {
        let (emacs, line) = (Emacs::new(default_emacs_keybindings()), LineKeys::default());
        let keys = ChatKeys::new(emacs, Pastes::default(), line.clone());
        (ChatKeys { is_followed: || false, ..keys }, line)
    }

    fn press(keys: &mut ChatKeys, event: Event) -> ReedlineEvent {
        keys.parse_event(ReedlineRawEvent::try_from(event).unwrap())
    }

    fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
        Event::Key(KeyEvent::new(code, modifiers))
    }

    fn typed(letter: char) -> Event {
        key(KeyCode::Char(letter), KeyModifiers::NONE)
    }

    fn inserts(letter: char) -> ReedlineEvent {
        ReedlineEvent::Edit(vec![EditCommand::InsertChar(letter)])
    }

    #[test]
    fn escape_twice_lists_the_messages_and_another_key_between_does_not() {
        let (mut keys, _) = keys();
        let (escape, letter) = (key(KeyCode::Esc, KeyModifiers::NONE), typed('a'));
        let is_sent = |event: ReedlineEvent| matches!(event, ReedlineEvent::Multiple(_));
        let mut press = |event: &Event| is_sent(press(&mut keys, event.clone()));
        let pressed = [&escape, &letter, &escape, &escape, &escape].map(&mut press);
        assert_eq!(pressed, [false, false, false, true, false]);
    }

    #[test]
    fn keys_behind_one_that_ends_the_reading_are_kept_for_the_next_prompt() {
        let (mut keys, line) = keys();
        line.open(false);
        let tab = key(KeyCode::BackTab, KeyModifiers::SHIFT);
        let sent = [typed('a'), tab.clone(), typed('b'), tab.clone(), typed('c')];
        for event in sent.clone() {
            press(&mut keys, event);
        }
        line.end();
        let kept: Vec<Event> = std::iter::from_fn(|| line.next_kept()).collect();
        assert_eq!(kept, sent[2..]);
        // The next batch has no such key.
        line.open(false);
        press(&mut keys, typed('d'));
        line.end();
        assert_eq!(line.next_kept(), None);
    }

    #[test]
    fn shift_tab_is_an_answer_where_a_line_decides_about_a_call() {
        let (mut keys, line) = keys();
        let tab = key(KeyCode::BackTab, KeyModifiers::SHIFT);
        let mode = EditCommand::InsertString("/mode next".to_owned());
        let edits = ReedlineEvent::Edit(vec![EditCommand::Clear, mode]);
        let answer = ReedlineEvent::Multiple(vec![edits, ReedlineEvent::Submit]);
        line.set_deciding(true);
        line.open(false);
        assert_eq!(press(&mut keys, tab.clone()), answer);
        line.set_deciding(false);
        line.open(false);
        assert_ne!(press(&mut keys, tab), answer);
    }

    #[test]
    fn escape_ends_a_choice_without_one_and_stays_a_key_of_other_lines() {
        let (mut keys, line) = keys();
        let escape = key(KeyCode::Esc, KeyModifiers::NONE);
        line.set_choosing(true);
        line.open(false);
        assert_eq!(press(&mut keys, escape.clone()), ChatKey::Interrupt.to_event());
        assert_eq!(line.end_line(""), Some(LineEnd::Empty));
        line.set_choosing(false);
        line.open(false);
        assert_ne!(press(&mut keys, escape), ChatKey::Interrupt.to_event());
        assert_eq!(line.end_line(""), None);
    }

    #[test]
    fn keys_that_no_terminal_has_come_first_and_one_with_each_event() {
        let (mut keys, line) = keys();
        let enter = key(KeyCode::Enter, KeyModifiers::NONE);
        let search = key(KeyCode::Char('r'), KeyModifiers::CONTROL);
        line.press([search, typed('a'), enter, typed('b')]);
        line.open(false);
        let resize = Event::Resize(80, 24);
        let events = [&resize, &resize, &typed('q'), &resize, &resize, &resize];
        let taken = events.map(|event| press(&mut keys, event.clone()));
        let resized = ReedlineEvent::Resize(80, 24);
        let expect = [ReedlineEvent::SearchHistory, inserts('a'), ReedlineEvent::Enter];
        assert_eq!(taken[..3], expect);
        assert_eq!(taken[3..], [inserts('b'), inserts('q'), resized]);
    }

    #[test]
    fn very_many_characters_at_once_are_added_together_before_the_next_key() {
        let (mut keys, line) = keys();
        let (enter, resize) = (key(KeyCode::Enter, KeyModifiers::NONE), Event::Resize(80, 24));
        let shifted = key(KeyCode::Char('C'), KeyModifiers::SHIFT);
        let added =
            |text: &str| ReedlineEvent::Edit(vec![EditCommand::InsertString(text.to_owned())]);
        line.open(false);
        for _ in 0..ADDED_SINGLY {
            assert_eq!(press(&mut keys, typed('a')), inserts('a'));
        }
        let events = [&typed('b'), &shifted, &enter, &typed('d'), &resize, &resize];
        let taken = events.map(|event| press(&mut keys, event.clone()));
        let none = ReedlineEvent::None;
        // The line of Enter is complete before Enter is taken, which the next event brings.
        let expect = [none.clone(), none, added("bC"), ReedlineEvent::Enter];
        assert_eq!(taken[..4], expect);
        // Each batch begins anew, and ends with what it has held.
        keys.edit_mode();
        for _ in 0..ADDED_SINGLY {
            assert_eq!(press(&mut keys, typed('a')), inserts('a'));
        }
        press(&mut keys, typed('e'));
        keys.edit_mode();
        let taken = [&resize, &resize].map(|event| press(&mut keys, event.clone()));
        assert_eq!(taken, [added("e"), ReedlineEvent::Resize(80, 24)]);
    }

    #[test]
    fn characters_that_wait_are_drawn_together_once_a_line_has_many() {
        let (mut keys, line) = keys();
        let enter = key(KeyCode::Enter, KeyModifiers::NONE);
        let added =
            |text: &str| ReedlineEvent::Edit(vec![EditCommand::InsertString(text.to_owned())]);
        // As a terminal reads: each key is a batch of its own.
        let press = |keys: &mut ChatKeys, event: &Event, is_followed: bool| {
            keys.is_followed = if is_followed { || true } else { || false };
            let meaning = press(keys, event.clone());
            keys.edit_mode();
            meaning
        };
        line.open(false);
        for _ in 0..DRAWN_SINGLY {
            assert_eq!(press(&mut keys, &typed('a'), true), inserts('a'));
        }
        for (letter, is_followed, meaning) in [
            ('b', true, ReedlineEvent::None),
            ('c', true, ReedlineEvent::None),
            ('d', false, added("bcd")),
            ('e', false, inserts('e')),
            ('f', true, ReedlineEvent::None),
        ] {
            assert_eq!(press(&mut keys, &typed(letter), is_followed), meaning, "{letter}");
        }
        // The line of Enter is complete before Enter is taken, which the next event brings.
        assert_eq!(press(&mut keys, &enter, false), added("f"));
        assert_eq!(press(&mut keys, &Event::Resize(80, 24), false), ReedlineEvent::Enter);
        line.open(false);
        assert_eq!(press(&mut keys, &typed('a'), true), inserts('a'));
    }

    #[test]
    fn an_empty_line_is_an_interruption_only_if_ctrl_c_sent_it() {
        let (mut keys, line) = keys();
        let interrupt = key(KeyCode::Char('c'), KeyModifiers::CONTROL);
        line.open(false);
        press(&mut keys, interrupt.clone());
        assert_eq!(line.end_line("found in the history"), None);
        assert_eq!(line.end_line(""), Some(LineEnd::Empty));
        line.open(false);
        press(&mut keys, interrupt);
        keys.edit_mode();
        press(&mut keys, key(KeyCode::Enter, KeyModifiers::NONE));
        assert_eq!(line.end_line(""), None);
    }

    #[test]
    fn ctrl_c_discards_a_text_that_is_shown_or_comes_with_it() {
        let (mut keys, line) = keys();
        let interrupt = key(KeyCode::Char('c'), KeyModifiers::CONTROL);
        let mut pressed = |shown: &str, before: &[Event]| {
            line.open(false);
            line.shows(shown);
            for event in before.iter().chain([&interrupt]) {
                press(&mut keys, event.clone());
            }
            line.end_line("")
        };
        assert_eq!(pressed("", &[]), Some(LineEnd::Empty));
        assert_eq!(pressed("abc", &[]), Some(LineEnd::Discarded));
        assert_eq!(pressed("", &[typed('a')]), Some(LineEnd::Discarded));
        assert_eq!(pressed("", &[key(KeyCode::Left, KeyModifiers::NONE)]), Some(LineEnd::Empty));
    }

    #[test]
    fn ctrl_o_shows_the_reasoning_at_an_empty_prompt_only() {
        let (mut keys, line) = keys();
        let open = key(KeyCode::Char('o'), KeyModifiers::CONTROL);
        line.open(false);
        let is_sent = |event: ReedlineEvent| matches!(event, ReedlineEvent::Multiple(_));
        assert!(is_sent(press(&mut keys, open.clone())));
        line.open(false);
        line.shows("[pasted 300 lines #1]");
        assert!(!is_sent(press(&mut keys, open)));
    }

    #[test]
    fn a_letter_behind_escape_is_a_letter_unless_alt_means_something() {
        let (mut keys, line) = keys();
        let alt = |letter| key(KeyCode::Char(letter), KeyModifiers::ALT);
        line.open(true);
        assert_eq!(press(&mut keys, alt('b')), inserts('b'));
        assert_eq!(press(&mut keys, alt('h')), inserts('h'));
        keys.edit_mode();
        let left = EditCommand::MoveWordLeft { select: false };
        assert_eq!(press(&mut keys, alt('b')), ReedlineEvent::Edit(vec![left]));
        assert_eq!(press(&mut keys, alt('h')), inserts('h'));
    }
}
