//! Where turns come from: a terminal, or the lines of standard input.

mod ahead;
mod completer;
mod dropped;
mod highlighter;
mod history;
mod key_mode;
mod keys;
mod line_keys;
mod live;
mod pastes;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use crossterm::cursor::{MoveToColumn, MoveUp};
use crossterm::event::{DisableBracketedPaste, Event, KeyCode, KeyEvent, KeyModifiers};
use crossterm::execute;
use crossterm::terminal::{Clear, ClearType, disable_raw_mode};
use futures::future::{Either, select};
use reedline::{
    Color, ColumnarMenu, EditCommand, Emacs, MenuBuilder as _, Prompt, PromptEditMode,
    PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal, ValidationResult,
    Validator, default_emacs_keybindings,
};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::task::AbortOnDropHandle;
use unicode_width::UnicodeWidthStr as _;

use self::ahead::{Ahead, is_key_waiting};
pub(crate) use self::completer::{ChatCompleter, Completion};
use self::highlighter::Unstyled;
use self::history::ChatHistory;
use self::key_mode::KeyMode;
use self::keys::{ChatKey, ChatKeys, NEXT_MODE};
use self::line_keys::{LineEnd, LineKeys};
pub(crate) use self::live::{LiveInput, Typed};
pub(crate) use self::pastes::Pastes;
use crate::clipboard;
use crate::console;
use crate::ending::Interruption;
use crate::render::{UiSender, columns, sanitize_terminal};
use crate::signals::Signals;

/// The name of the menu of completions.
const MENU: &str = "completions";

/// How often a prompt opens again after the terminal failed.
const RETRIES: u32 = 3;

/// How often an open prompt looks whether its time has passed. What is typed is read at once.
const LOOKS: Duration = Duration::from_millis(500);

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskedAbout {
    /// Whether a call runs.
    Call,
    /// Something else.
    Question,
}

/// What came in.
pub(crate) enum InputEvent {
    /// A turn, or a command.
    Text(String),
    /// Shift-Tab. The prompt with what is typed at it stays open, so nothing may be printed before the next call.
    NextMode,
    /// A key had no effect, for this reason. The prompt stays open as after Shift-Tab.
    NoEffect(String),
    /// Ctrl-C instead of words.
    Nothing,
    /// Ctrl-C took the text away that was typed at the prompt. It is no answer to a question, where it is [`Self::Nothing`].
    Discarded,
    /// The time for an answer has passed.
    Expired,
    /// There is no more.
    End,
    /// A user wants the process to end.
    Signal(Interruption),
    /// It cannot be read.
    Broken(io::Error),
}

/// Returns `true` if a person types at a terminal.
pub(crate) fn is_watched() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Where turns come from.
pub(crate) enum Input {
    /// A line editor.
    Terminal(Box<LineEditor>),
    /// Lines of a program, or of a terminal at which nothing moves.
    Lines,
}

/// A line editor at a terminal.
pub(crate) struct LineEditor {
    editor: Reedline,
    ahead: Ahead,
    pastes: Pastes,
    keys: LineKeys,
    prompt: Question,
    /// Ends the question that is open.
    expired: Arc<AtomicBool>,
    /// Whether the terminal marks pasted texts, even while the agent works.
    marks_pastes: bool,
    /// Is there while no key is lost between two prompts. The editor is dropped before it.
    mode: Option<KeyMode>,
}

impl Input {
    /// Reads from a terminal, completes with Tab, and remembers in a directory what was typed. Ctrl-G opens a text editor.
    pub(crate) fn terminal(
        directory: Option<&Path>,
        completer: Option<ChatCompleter>,
        program: Option<&OsStr>,
    ) -> Self {
        let (mode, marks_pastes) = (KeyMode::set().ok(), completer.is_some());
        let mut keys = default_emacs_keybindings();
        let menu = ReedlineEvent::UntilFound(vec![
            ReedlineEvent::Menu(MENU.to_owned()),
            ReedlineEvent::MenuNext,
        ]);
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, menu);
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('g'), ReedlineEvent::OpenEditor);
        let new_line = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), new_line);
        let (pastes, line) = (Pastes::default(), LineKeys::default());
        let keys = ChatKeys::new(Emacs::new(keys), pastes.clone(), line.clone());
        let menu = Box::new(ColumnarMenu::default().with_name(MENU));
        let expired = Arc::new(AtomicBool::new(false));
        let mut editor = Reedline::create()
            .with_break_signal(Arc::clone(&expired))
            .with_poll_interval(LOOKS)
            .with_edit_mode(Box::new(keys))
            .with_transient_prompt(Box::new(Question::default()))
            .with_validator(Box::new(Backslash))
            .with_highlighter(Box::new(Unstyled::new(line.clone())))
            .with_ansi_colors(AutoStream::choice(&io::stderr()) != ColorChoice::Never)
            .with_menu(ReedlineMenu::EngineCompleter(menu))
            .with_quick_completions(true)
            .use_bracketed_paste(true);
        if let Some(completer) = completer {
            editor = editor.with_completer(Box::new(completer));
        }
        if let Some(directory) = directory {
            match ChatHistory::open(directory, pastes.clone()) {
                Ok(history) => editor = editor.with_history(Box::new(history)),
                Err(error) => console::warn(&format!("input history is not saved: {error}")),
            }
            // A text of shell, as other programs read it: with arguments, and quoted if a path has spaces.
            let program = program.and_then(OsStr::to_str).filter(|it| !it.trim().is_empty());
            let mut command = std::process::Command::new("/bin/sh");
            command.args(["-c", &format!("{} \"$@\"", program.unwrap_or("vi")), "editor"]);
            editor = editor.with_buffer_editor(command, directory.join("message.md"));
        }
        let (ahead, prompt) = (Ahead::default(), Question::default());
        let line =
            LineEditor { editor, ahead, pastes, keys: line, prompt, expired, marks_pastes, mode };
        Self::Terminal(Box::new(line))
    }

    /// Reads lines.
    pub(crate) fn lines() -> Self {
        Self::Lines
    }

    /// Sets the line that stands above the prompt; none if it is empty.
    pub(crate) fn set_status(&mut self, status: String) {
        if let Self::Terminal(line) = self {
            line.prompt.status = status;
        }
    }

    /// Puts a text at the prompt.
    pub(crate) fn set_draft(&mut self, text: String) {
        if let Self::Terminal(line) = self {
            line.ahead.draft = text;
        }
    }

    /// Adds a text to the one that waits at the prompt.
    pub(crate) fn add_draft(&mut self, text: &str) {
        if let Self::Terminal(line) = self {
            let draft = &mut line.ahead.draft;
            if !draft.is_empty() {
                draft.push('\n');
            }
            draft.push_str(text);
        }
    }

    /// Returns what was pasted, and will be.
    pub(crate) fn pastes(&self) -> Pastes {
        match self {
            Self::Terminal(line) => line.pastes.clone(),
            Self::Lines => Pastes::default(),
        }
    }

    /// Waits for the next turn, or for a signal.
    pub(crate) async fn next(&mut self, signals: Option<&mut Signals>) -> InputEvent {
        self.line(signals, false).await
    }

    /// Waits for the answer to a question. What was typed before the question is no answer, and is kept for the next
    /// turn.
    pub(crate) async fn answer(&mut self, signals: Option<&mut Signals>) -> InputEvent {
        self.line(signals, true).await
    }

    /// Waits for a choice from a list, as for the answer to a question. Esc means none, like Ctrl-C.
    pub(crate) async fn choice(&mut self, signals: Option<&mut Signals>) -> InputEvent {
        self.set_choosing(true);
        let heard = self.line(signals, true).await;
        self.set_choosing(false);
        heard
    }

    fn set_choosing(&self, is_choosing: bool) {
        if let Self::Terminal(line) = self {
            line.keys.set_choosing(is_choosing);
        }
    }

    /// Waits for the answer to a question until a future is ready. At a terminal, the question closes then, and a text
    /// that was begun is discarded. If it is about a call, Shift-Tab answers `/mode next`.
    pub(crate) async fn answer_until(
        &mut self,
        signals: Option<&mut Signals>,
        closed: impl Future<Output = ()> + Send + 'static,
        about: AskedAbout,
    ) -> InputEvent {
        if let Self::Terminal(line) = &*self {
            line.keys.set_deciding(about == AskedAbout::Call);
        }
        let closing = match &*self {
            Self::Terminal(line) => {
                let expired = Arc::clone(&line.expired);
                Some(AbortOnDropHandle::new(tokio::spawn(async move {
                    closed.await;
                    expired.store(true, Ordering::Relaxed);
                })))
            }
            Self::Lines => None,
        };
        let heard = self.line(signals, true).await;
        if let Self::Terminal(line) = &*self {
            line.keys.set_deciding(false);
        }
        drop(closing);
        heard
    }

    /// Begins to read what is typed while the agent works. Returns `None` if it is not read from a
    /// terminal.
    pub(crate) fn live(&mut self, feed: UiSender) -> Option<(LiveInput, UnboundedReceiver<Typed>)> {
        match self {
            Self::Terminal(line) if line.mode.is_some() => {
                let draft = std::mem::take(&mut line.ahead.draft);
                Some(LiveInput::start(feed, draft, line.pastes.clone(), line.marks_pastes))
            }
            _ => None,
        }
    }

    /// Ends that. Lines that were not sent, and those that were not taken, are the next turns, and one that was begun waits at the
    /// prompt.
    pub(crate) fn end_live(
        &mut self,
        live: LiveInput,
        typed: &mut UnboundedReceiver<Typed>,
        unsent: Vec<String>,
    ) {
        let (untaken, draft) = live.finish(typed);
        if let Self::Terminal(line) = self {
            line.ahead.lines.extend(unsent.into_iter().chain(untaken));
            line.ahead.draft.push_str(&draft);
        }
    }

    async fn line(&mut self, mut signals: Option<&mut Signals>, is_answer: bool) -> InputEvent {
        let is_terminal = matches!(self, Self::Terminal(..));
        // Ctrl-C that came between two prompts is a key, and does not end the program.
        if is_terminal && signals.as_deref_mut().is_some_and(Signals::take_interrupt) {
            return InputEvent::Nothing;
        }
        let input = std::mem::replace(self, Self::Lines);
        // A thread that waits for words cannot be stopped, but it ends with the process.
        let reading = tokio::task::spawn_blocking(move || input.read(is_answer));
        let reading = async {
            match reading.await {
                Ok((input, heard)) => {
                    *self = input;
                    heard
                }
                Err(error) => InputEvent::Broken(io::Error::other(error)),
            }
        };
        let Some(signals) = signals else { return reading.await };
        match select(pin!(reading), pin!(signals.next())).await {
            Either::Left((heard, _)) => heard,
            Either::Right((reason, _)) => {
                if is_terminal {
                    restore();
                }
                InputEvent::Signal(reason)
            }
        }
    }

    fn read(self, is_answer: bool) -> (Self, InputEvent) {
        match self {
            Self::Lines => {
                if is_watched() {
                    write!(io::stderr(), "> ").ok();
                }
                (Self::Lines, read_lines().unwrap_or_else(InputEvent::Broken))
            }
            Self::Terminal(mut line) => {
                let heard = line.read(is_answer);
                (Self::Terminal(line), heard)
            }
        }
    }
}

impl LineEditor {
    fn read(&mut self, is_answer: bool) -> InputEvent {
        self.expired.store(false, Ordering::Relaxed);
        if is_answer {
            while let Some(event) = self.keys.next_kept() {
                self.ahead.take(&event);
            }
            self.ahead.absorb();
        } else if let Some(text) = self.ahead.lines.pop_front() {
            return sent(&text);
        } else if !self.ahead.draft.is_empty() {
            let draft = std::mem::take(&mut self.ahead.draft);
            self.insert(self.pastes.fold(&draft).unwrap_or(draft));
        }
        if !is_answer {
            self.keys.press(std::mem::take(&mut self.ahead.keys));
        }
        let mut failures = 0;
        loop {
            if let Some(heard) = self.replay(is_answer) {
                return heard;
            }
            self.keys.open(is_key_waiting());
            if !is_answer {
                self.keys.wake();
            }
            let bare = Question::default();
            let prompt = if is_answer { &bare } else { &self.prompt };
            return match self.editor.read_line(prompt) {
                Ok(Signal::Success(text)) => match self.keys.end_line(&text) {
                    Some(LineEnd::Discarded) if !is_answer => InputEvent::Discarded,
                    Some(_) => InputEvent::Nothing,
                    None => {
                        // What is not remembered now is remembered at the end.
                        self.editor.sync_history().ok();
                        InputEvent::Text(self.opened(&joined(&text)))
                    }
                },
                Ok(Signal::HostCommand(name)) => {
                    self.keys.end();
                    match ChatKey::named(&name).and_then(|key| self.press(key, is_answer)) {
                        Some(heard) => heard,
                        None => continue,
                    }
                }
                Ok(Signal::ExternalBreak(_)) => {
                    self.editor.run_edit_commands(&[EditCommand::Clear]);
                    InputEvent::Expired
                }
                Ok(Signal::CtrlD) => {
                    erase(prompt);
                    InputEvent::End
                }
                Ok(_) => InputEvent::Nothing,
                // A terminal behind a slow connection says late where its cursor is.
                Err(_) if failures < RETRIES => {
                    failures += 1;
                    continue;
                }
                Err(error) => InputEvent::Broken(io::Error::other(format!(
                    "the terminal cannot be used: {error}; run `loopwright chat --plain`, which needs no cursor control"
                ))),
            };
        }
    }

    /// Does what a key of the program stands for. Returns `None` if the prompt stays open.
    fn press(&mut self, key: ChatKey, is_answer: bool) -> Option<InputEvent> {
        match key {
            ChatKey::OpenPastes => {
                let text = self.pastes.open(self.editor.current_buffer_contents());
                self.editor.run_edit_commands(&[EditCommand::Clear]);
                self.insert(text);
                None
            }
            ChatKey::Interrupt => {
                let discards = !is_answer && !self.editor.current_buffer_contents().is_empty();
                self.editor.run_edit_commands(&[EditCommand::Clear]);
                Some(if discards { InputEvent::Discarded } else { InputEvent::Nothing })
            }
            ChatKey::NextMode if is_answer && self.keys.is_deciding() => Some(sent(NEXT_MODE)),
            // They change nothing about a question.
            _ if is_answer => None,
            ChatKey::NextMode => Some(InputEvent::NextMode),
            ChatKey::PasteImage => match clipboard::image() {
                Ok(image) => {
                    let word = self.pastes.attach(image);
                    self.insert(word + " ");
                    None
                }
                Err(error) => Some(InputEvent::NoEffect(error.to_string())),
            },
        }
    }

    /// Presses the keys that the editor took at the last prompt and had no time for. Returns `None` if the prompt opens.
    fn replay(&mut self, is_answer: bool) -> Option<InputEvent> {
        while let Some(event) = self.keys.next_kept() {
            if let Some(key) = ChatKey::of(&event) {
                let heard = self.press(key, is_answer);
                if heard.is_some() {
                    return heard;
                }
                continue;
            }
            match event {
                Event::Paste(text) => {
                    let text = self.pastes.take(&text);
                    self.insert(text);
                }
                Event::Key(KeyEvent { code: KeyCode::Char('d'), modifiers, .. })
                    if modifiers == KeyModifiers::CONTROL
                        && self.editor.current_buffer_contents().is_empty() =>
                {
                    return Some(InputEvent::End);
                }
                Event::Key(KeyEvent { code: KeyCode::Char(letter), modifiers, .. })
                    if !modifiers.contains(KeyModifiers::CONTROL) =>
                {
                    self.insert(letter.into());
                }
                Event::Key(KeyEvent { code: KeyCode::Enter, .. }) => {
                    let text = self.editor.current_buffer_contents().to_owned();
                    self.editor.run_edit_commands(&[EditCommand::Clear]);
                    return Some(sent(&self.opened(&text)));
                }
                Event::Key(KeyEvent { code: KeyCode::Esc, .. }) if self.keys.is_choosing() => {
                    self.editor.run_edit_commands(&[EditCommand::Clear]);
                    return Some(InputEvent::Nothing);
                }
                _ if is_answer => {}
                // Only the editor knows what it means.
                event => {
                    let behind = std::iter::from_fn(|| self.keys.next_kept());
                    self.keys.press([event].into_iter().chain(behind).collect::<Vec<_>>());
                }
            }
        }
        None
    }

    /// Puts pasted texts in the place of their words, and warns about those that are lost.
    fn opened(&self, text: &str) -> String {
        for word in self.pastes.unknown_texts(text) {
            console::warn(&format!("{word} is sent unchanged: it was pasted in another chat"));
        }
        self.pastes.open(text)
    }

    fn insert(&mut self, text: String) {
        self.editor.run_edit_commands(&[EditCommand::InsertString(text)]);
    }
}

/// Shows a line that was sent before a prompt opened for it.
fn sent(text: &str) -> InputEvent {
    console::tell(&sanitize_terminal(&format!("> {text}")));
    InputEvent::Text(joined(text))
}

/// Removes a prompt at which nothing is typed from the terminal. The cursor is in the line below.
fn erase(prompt: &Question) {
    let width = columns().max(1);
    let rows: usize = prompt.status.lines().map(|it| it.width().div_ceil(width).max(1)).sum();
    let rows = u16::try_from(rows + 1).unwrap_or(u16::MAX);
    execute!(io::stderr(), MoveToColumn(0), MoveUp(rows), Clear(ClearType::FromCursorDown)).ok();
}

/// Gives the terminal back as it was before the chat. For a process that ends at once.
pub(crate) fn restore_terminal() {
    disable_raw_mode().ok();
    if key_mode::restore() {
        execute!(io::stderr(), DisableBracketedPaste).ok();
    }
}

/// Reads a line, and those that belong to it.
fn read_lines() -> io::Result<InputEvent> {
    let mut text = String::new();
    loop {
        if io::stdin().lock().read_line(&mut text)? == 0 {
            return Ok(if text.is_empty() {
                InputEvent::End
            } else {
                InputEvent::Text(joined(&text))
            });
        }
        let line = text.trim_end_matches(['\r', '\n']).len();
        text.truncate(line);
        if !text.ends_with('\\') {
            return Ok(InputEvent::Text(joined(&text)));
        }
        text.push('\n');
    }
}

/// Takes out the backslashes that joined lines.
fn joined(text: &str) -> String {
    text.replace("\\\n", "\n")
}

/// Restores the terminal while another reader is still active.
fn restore() {
    restore_terminal();
    writeln!(io::stderr()).ok();
}

/// A line that ends with a backslash continues.
struct Backslash;

impl Validator for Backslash {
    fn validate(&self, line: &str) -> ValidationResult {
        if line.ends_with('\\') { ValidationResult::Incomplete } else { ValidationResult::Complete }
    }
}

/// What stands before the words.
#[derive(Clone, Debug, Default)]
struct Question {
    /// The line above them; none if it is empty.
    status: String,
}

impl Prompt for Question {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        if self.status.is_empty() { "".into() } else { format!("{}\n", self.status).into() }
    }

    fn get_prompt_color(&self) -> Color {
        Color::DarkGrey
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        "> ".into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "  ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        format!("({}) ", sanitize_terminal(&search.term)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_ends_with_a_backslash_goes_on() {
        let goes_on = |line| matches!(Backslash.validate(line), ValidationResult::Incomplete);
        assert!(goes_on("a\\") && !goes_on("a") && !goes_on("a\\\nb"));
        assert_eq!(joined("a\\\nb\nc\\d"), "a\nb\nc\\d");
    }
}
