//! Where turns come from: a terminal, or the lines of standard input.

mod ahead;
mod completer;
mod keys;
mod live;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::{event::DisableBracketedPaste, execute, terminal::disable_raw_mode};
use futures::future::{Either, select};
use reedline::{
    Color, ColumnarMenu, EditCommand, Emacs, FileBackedHistory, KeyCode, KeyModifiers,
    MenuBuilder as _, Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent,
    ReedlineMenu, Signal, ValidationResult, Validator, default_emacs_keybindings,
};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::task::AbortOnDropHandle;

use self::ahead::Ahead;
pub(crate) use self::completer::{ChatCompleter, Completion};
use self::keys::{ChatKeys, Pastes};
pub(crate) use self::live::{LiveInput, Typed};
use crate::console;
use crate::ending::Interruption;
use crate::render::{UiSender, sanitize_terminal};
use crate::signals::Signals;
use crate::store::make_private;

/// What Ctrl-O stands for: pasted texts are shown as they are.
const OPEN_PASTES: &str = "open pastes";

/// What Shift-Tab stands for.
const NEXT_MODE: &str = "next mode";

/// The name of the menu of completions.
const MENU: &str = "completions";

/// How often an open prompt looks whether its time has passed. What is typed is read at once.
const LOOKS: Duration = Duration::from_millis(500);

/// How many turns the history remembers.
const REMEMBERED: usize = 1000;

/// What came in.
pub(crate) enum InputEvent {
    /// A turn, or a command.
    TextOrSecret(String),
    /// Shift-Tab. The prompt with what is typed at it stays open, so nothing may be printed before the next call.
    NextMode,
    /// Ctrl-C instead of words.
    Nothing,
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
    Terminal(Box<LineEditor>),
    Lines,
}

/// A line editor at a terminal.
pub(crate) struct LineEditor {
    editor: Reedline,
    ahead: Ahead,
    pastes: Pastes,
    prompt: Question,
    /// Ends the question that is open.
    expired: Arc<AtomicBool>,
}

impl Input {
    /// Reads from a terminal, completes with Tab, and remembers in a directory what was typed.
    pub(crate) fn terminal(
        directory: Option<&Path>,
        completer: Option<ChatCompleter>,
        editor: Option<&OsStr>,
    ) -> Self {
        let mut keys = default_emacs_keybindings();
        let next = ReedlineEvent::ExecuteHostCommand(NEXT_MODE.to_owned());
        keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, next);
        let menu = ReedlineEvent::UntilFound(vec![
            ReedlineEvent::Menu(MENU.to_owned()),
            ReedlineEvent::MenuNext,
        ]);
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, menu);
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('g'), ReedlineEvent::OpenEditor);
        let open = ReedlineEvent::ExecuteHostCommand(OPEN_PASTES.to_owned());
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('o'), open);
        let pastes = Pastes::default();
        let menu = Box::new(ColumnarMenu::default().with_name(MENU));
        let expired = Arc::new(AtomicBool::new(false));
        let mut line = Reedline::create()
            .with_break_signal(Arc::clone(&expired))
            .with_poll_interval(LOOKS)
            .with_edit_mode(Box::new(ChatKeys::new(Emacs::new(keys), pastes.clone())))
            .with_transient_prompt(Box::new(Question::default()))
            .with_validator(Box::new(Backslash))
            .with_menu(ReedlineMenu::EngineCompleter(menu))
            .with_quick_completions(true)
            .use_bracketed_paste(true);
        if let Some(completer) = completer {
            line = line.with_completer(Box::new(completer));
        }
        if let Some(directory) = directory {
            match history(directory) {
                Ok(history) => line = line.with_history(Box::new(history)),
                Err(error) => console::warn(&format!("input history is not saved: {error}")),
            }
            // A text of shell, as other programs read it: with arguments, and quoted if a path has spaces.
            let editor = editor.and_then(OsStr::to_str).filter(|it| !it.trim().is_empty());
            let mut command = std::process::Command::new("/bin/sh");
            command.args(["-c", &format!("{} \"$@\"", editor.unwrap_or("vi")), "editor"]);
            line = line.with_buffer_editor(command, directory.join("message.md"));
        }
        let (ahead, prompt) = (Ahead::default(), Question::default());
        Self::Terminal(Box::new(LineEditor { editor: line, ahead, pastes, prompt, expired }))
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

    /// Waits for the next turn, or for a signal.
    pub(crate) async fn next(&mut self, signals: Option<&mut Signals>) -> InputEvent {
        self.line(signals, false).await
    }

    /// Waits for the answer to a question. What was typed before the question is no answer, and is kept for the next
    /// turn.
    pub(crate) async fn answer(&mut self, signals: Option<&mut Signals>) -> InputEvent {
        self.line(signals, true).await
    }

    /// Waits for the answer to a question until a time limit has passed. At a terminal, the question closes then, and a
    /// text that was begun is discarded. `None` means no limit.
    pub(crate) async fn answer_within(
        &mut self,
        signals: Option<&mut Signals>,
        limit: Option<Duration>,
    ) -> InputEvent {
        let timer = match (&*self, limit) {
            (Self::Terminal(line), Some(limit)) => {
                let expired = Arc::clone(&line.expired);
                Some(AbortOnDropHandle::new(tokio::spawn(async move {
                    tokio::time::sleep(limit).await;
                    expired.store(true, Ordering::Relaxed);
                })))
            }
            _ => None,
        };
        let heard = self.line(signals, true).await;
        drop(timer);
        heard
    }

    /// Begins to read what is typed while the agent works. Returns `None` if it is not read from a
    /// terminal.
    pub(crate) fn live(&mut self, feed: UiSender) -> Option<(LiveInput, UnboundedReceiver<Typed>)> {
        match self {
            Self::Terminal(line) => LiveInput::start(feed, std::mem::take(&mut line.ahead.draft)),
            Self::Lines => None,
        }
    }

    /// Ends that. Lines that were not sent are the next turns, and one that was begun waits at the prompt.
    pub(crate) fn end_live(&mut self, live: LiveInput, unsent: Vec<String>) {
        let draft = live.finish();
        if let Self::Terminal(line) = self {
            line.ahead.lines.extend(unsent);
            line.ahead.draft.push_str(&draft);
        }
    }

    async fn line(&mut self, signals: Option<&mut Signals>, is_answer: bool) -> InputEvent {
        let input = std::mem::replace(self, Self::Lines);
        let is_terminal = matches!(input, Self::Terminal(..));
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
            Self::Lines => (Self::Lines, read_lines().unwrap_or_else(InputEvent::Broken)),
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
        self.ahead.absorb();
        if !is_answer && let Some(text) = self.ahead.lines.pop_front() {
            console::tell(&sanitize_terminal(&format!("> {text}")));
            return InputEvent::TextOrSecret(joined(&text));
        }
        if !is_answer && !self.ahead.draft.is_empty() {
            let draft = std::mem::take(&mut self.ahead.draft);
            self.editor.run_edit_commands(&[EditCommand::InsertString(draft)]);
        }
        let bare = Question::default();
        let prompt = if is_answer { &bare } else { &self.prompt };
        loop {
            return match self.editor.read_line(prompt) {
                Ok(Signal::Success(text)) => {
                    // What is not remembered now is remembered at the end.
                    self.editor.sync_history().ok();
                    InputEvent::TextOrSecret(self.pastes.open(&joined(&text)))
                }
                Ok(Signal::HostCommand(command)) if command == OPEN_PASTES => {
                    let text = self.pastes.open(self.editor.current_buffer_contents());
                    let edits = [EditCommand::Clear, EditCommand::InsertString(text)];
                    self.editor.run_edit_commands(&edits);
                    continue;
                }
                // It changes nothing about a question.
                Ok(Signal::HostCommand(_)) if is_answer => continue,
                Ok(Signal::HostCommand(_)) => InputEvent::NextMode,
                Ok(Signal::ExternalBreak(_)) => {
                    self.editor.run_edit_commands(&[EditCommand::Clear]);
                    InputEvent::Expired
                }
                Ok(Signal::CtrlD) => InputEvent::End,
                Ok(_) => InputEvent::Nothing,
                Err(error) => InputEvent::Broken(io::Error::other(error)),
            };
        }
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
                InputEvent::TextOrSecret(joined(&text))
            });
        }
        let line = text.trim_end_matches(['\r', '\n']).len();
        text.truncate(line);
        if !text.ends_with('\\') {
            return Ok(InputEvent::TextOrSecret(joined(&text)));
        }
        text.push('\n');
    }
}

/// Takes out the backslashes that joined lines.
fn joined(text: &str) -> String {
    text.replace("\\\n", "\n")
}

/// Opens the history, for the user only.
fn history(directory: &Path) -> io::Result<FileBackedHistory> {
    make_private(directory).map_err(io::Error::other)?;
    let path = directory.join("chat_history");
    OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
    FileBackedHistory::with_file(REMEMBERED, path).map_err(io::Error::other)
}

/// Restores the terminal while another reader is still active.
fn restore() {
    disable_raw_mode().ok();
    execute!(io::stdout(), DisableBracketedPaste).ok();
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
        format!("({}) ", search.term).into()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use reedline::History as _;

    use super::*;

    #[test]
    fn a_line_that_ends_with_a_backslash_goes_on() {
        let goes_on = |line| matches!(Backslash.validate(line), ValidationResult::Incomplete);
        assert!(goes_on("a\\") && !goes_on("a") && !goes_on("a\\\nb"));
        assert_eq!(joined("a\\\nb\nc\\d"), "a\nb\nc\\d");
    }

    #[test]
    fn the_history_is_for_the_user_only() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("state");
        let mut history = history(&directory).unwrap();
        history.save(reedline::HistoryItem::from_command_line("a")).unwrap();
        history.sync().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = directory.join("chat_history");
        assert_eq!((mode(&directory), mode(&file)), (0o700, 0o600));
        assert_eq!(fs::read_to_string(file).unwrap(), "a\n");
    }
}
