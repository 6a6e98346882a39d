//! A terminal: what the program writes to it, and what is seen there.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::ops::BitOr;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anstyle::{Ansi256Color, Color, Effects, Style};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::world::World;

/// A terminal, by default high enough to hold all that is written to it.
pub(crate) struct Terminal {
    columns: u16,
    rows: u16,
    acts: Vec<Act>,
}

/// What the user does, and when.
struct Act {
    /// Once this stands there.
    after: &'static str,
    deed: Deed,
    /// Whether the program shows a prompt then.
    at_prompt: bool,
    /// What happens elsewhere before it is typed.
    first: Option<Elsewhere>,
}

/// What happens outside of the terminal, given the program's process.
type Elsewhere = Box<dyn Fn(&World, Pid)>;

enum Deed {
    Type(String),
    /// To these columns and rows.
    Resize(u16, u16),
}

/// What a program has left on a terminal.
pub(crate) struct Seen {
    pub(crate) status: i32,
    /// Everything that was written, control bytes included.
    pub(crate) written: String,
    /// What stands there in the end, what was scrolled away included, line by line; the home directory is not repeated.
    pub(crate) lines: Vec<String>,
    /// The same in colours.
    pub(crate) styled: Vec<String>,
}

const ROWS: u16 = 200;

/// The lines that it keeps above the screen.
const SCROLLED: usize = 10_000;

/// How long a program may write nothing before the test gives up.
const SILENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// What asks a terminal where its cursor is.
const WHERE: &str = "\u{1b}[6n";

/// What the program writes when it begins to read what is typed. At a prompt, it asks for the cursor then.
const READS: &str = "\u{1b}[?2004h";

impl Terminal {
    pub(crate) fn new(columns: u16) -> Self {
        Self { columns, rows: ROWS, acts: Vec::new() }
    }

    /// Makes it so high that what is written is scrolled away.
    pub(crate) fn with_rows(self, rows: u16) -> Self {
        Self { rows, ..self }
    }

    /// Types a line once something stands there and the program reads.
    pub(crate) fn typing(mut self, after: &'static str, line: &'static str) -> Self {
        let deed = Deed::Type(format!("{line}\r"));
        self.acts.push(Act { after, deed, at_prompt: true, first: None });
        self
    }

    /// Types keys once something stands there, while the program does something else than to read a line.
    pub(crate) fn pressing(mut self, after: &'static str, keys: &str) -> Self {
        self.acts.push(Act {
            after,
            deed: Deed::Type(keys.to_owned()),
            at_prompt: false,
            first: None,
        });
        self
    }

    /// Presses keys once something stands there and the program reads a line.
    pub(crate) fn editing(mut self, after: &'static str, keys: &str) -> Self {
        self.acts.push(Act {
            after,
            deed: Deed::Type(keys.to_owned()),
            at_prompt: true,
            first: None,
        });
        self
    }

    /// Changes its size once something stands there.
    pub(crate) fn resizing(mut self, after: &'static str, columns: u16, rows: u16) -> Self {
        self.acts.push(Act {
            after,
            deed: Deed::Resize(columns, rows),
            at_prompt: false,
            first: None,
        });
        self
    }

    /// Does something elsewhere before the line is typed that was added last.
    pub(crate) fn first(mut self, what: impl Fn(&World) + 'static) -> Self {
        self.acts.last_mut().unwrap().first = Some(Box::new(move |world, _| what(world)));
        self
    }

    /// Does the same while the program is stopped, so that the program sees only the result.
    pub(crate) fn first_while_stopped(mut self, what: impl Fn(&World) + 'static) -> Self {
        let stopped = move |world: &World, child| {
            kill_process(child, Signal::STOP).unwrap();
            what(world);
            kill_process(child, Signal::CONT).unwrap();
        };
        self.acts.last_mut().unwrap().first = Some(Box::new(stopped));
        self
    }

    /// Runs the program to its end.
    pub(crate) fn run(self, world: &World, line: &[&str]) -> Seen {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap().into_bytes();
        let name = PathBuf::from(std::ffi::OsString::from_vec(name));
        let no_control = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
        let side =
            OpenOptions::new().read(true).write(true).custom_flags(no_control).open(name).unwrap();
        tcsetwinsize(&side, winsize(self.columns, self.rows)).unwrap();
        let mut command = world.command(line);
        command.stdin(side.try_clone().unwrap()).stdout(side.try_clone().unwrap()).stderr(side);
        let mut child = command.spawn().unwrap();
        // Its copies keep the terminal open.
        drop(command);
        let (mut parser, written) = self.attend(world, File::from(controller), child.id());
        let status = child.wait().unwrap().code().unwrap();
        let home = world.path("");
        let home = home.to_str().unwrap().trim_end_matches('/').to_owned();
        let screen = parser.screen_mut();
        let columns = screen.size().1.get();
        let mut lines: Vec<String> = scrolled_away(screen);
        lines.extend(screen.rows(0, columns));
        let mut lines: Vec<String> =
            lines.iter().map(|it| it.trim_end().replace(&home, "")).collect();
        let used = lines.iter().rposition(|it| !it.is_empty()).map_or(0, |last| last + 1);
        lines.truncate(used);
        let rows = 0..u16::try_from(used).unwrap().min(self.rows);
        let styled = rows.map(|row| styled(screen, row, columns).replace(&home, "")).collect();
        Seen { status, written, lines, styled }
    }

    /// Reads what is written, and types what there is to type.
    fn attend(&self, world: &World, mut controller: File, child: u32) -> (vt100::Parser, String) {
        let child = Pid::from_raw(i32::try_from(child).unwrap()).unwrap();
        let size = |count: u16| NonZeroU16::new(count).unwrap();
        let mut parser = vt100::Parser::new(size(self.rows), size(self.columns), SCROLLED);
        let mut written = Vec::new();
        let mut acts = self.acts.iter();
        let mut next = acts.next();
        let (mut heard, mut answered) = (0, 0);
        let mut buffer = [0; 4096];
        // When the last program has closed it, reading fails.
        while let Ok(count @ 1..) = {
            let mut ready = [PollFd::new(&controller, PollFlags::IN)];
            let is_silent = poll(&mut ready, Some(&SILENCE)) == Ok(0);
            let awaited = next.map(|it| it.after);
            assert!(!is_silent, "{awaited:?} does not follow:\n{}", parser.screen().contents());
            controller.read(&mut buffer)
        } {
            parser.process(&buffer[..count]);
            written.extend_from_slice(&buffer[..count]);
            let unanswered = String::from_utf8_lossy(&written[answered..]).into_owned();
            if unanswered.contains(WHERE) {
                answered = written.len();
                let (row, column) = parser.screen().cursor_position();
                write!(controller, "\x1b[{};{}R", row + 1, column + 1).unwrap();
            }
            let fresh = String::from_utf8_lossy(&written[heard..]);
            if let Some(Act { after, deed, at_prompt, first }) = next
                && let Some((_, rest)) = fresh.split_once(after)
                && (!at_prompt || rest.split_once(READS).is_some_and(|(_, it)| it.contains(WHERE)))
            {
                heard = written.len();
                if let Some(first) = first {
                    first(world, child);
                }
                match deed {
                    Deed::Type(typed) => write!(controller, "{typed}").unwrap(),
                    Deed::Resize(columns, rows) => {
                        tcsetwinsize(&controller, winsize(*columns, *rows)).unwrap();
                        parser.screen_mut().set_size(size(*rows), size(*columns));
                        // It is not the program's controlling terminal, so the kernel does not tell it.
                        kill_process(child, Signal::WINCH).unwrap();
                    }
                }
                next = acts.next();
            }
        }
        let awaited = next.map(|it| it.after);
        assert_eq!(awaited, None, "the program ended before this:\n{}", parser.screen().contents());
        (parser, String::from_utf8_lossy(&written).into_owned())
    }
}

/// Returns the bytes that a terminal sends for pasted text.
pub(crate) fn pasted(text: &str) -> String {
    format!("\u{1b}[200~{text}\u{1b}[201~")
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Returns the lines above the screen.
fn scrolled_away(screen: &mut vt100::Screen) -> Vec<String> {
    let columns = screen.size().1.get();
    screen.set_scrollback(usize::MAX);
    let above = screen.scrollback();
    let lines = (1..=above).rev().map(|back| {
        screen.set_scrollback(back);
        screen.rows(0, columns).next().unwrap()
    });
    let lines = lines.collect();
    screen.set_scrollback(0);
    lines
}

/// Writes a row as it would be printed, and nothing that moves the cursor.
fn styled(screen: &vt100::Screen, row: u16, columns: u16) -> String {
    let cell = |column: u16| {
        let cell = screen.cell(row, column)?;
        let text = if cell.has_contents() { cell.contents() } else { " " };
        let effects = [
            (cell.bold(), Effects::BOLD),
            (cell.dim(), Effects::DIMMED),
            (cell.italic(), Effects::ITALIC),
            (cell.underline(), Effects::UNDERLINE),
        ];
        let effects = effects.into_iter().filter(|(is_set, _)| *is_set).map(|(_, it)| it);
        let color = match cell.fgcolor() {
            vt100::Color::Idx(index) => Ansi256Color(index).into_ansi().map(Color::Ansi),
            _ => None,
        };
        let style =
            Style::new().fg_color(color).effects(effects.fold(Effects::new(), BitOr::bitor));
        (!cell.is_wide_continuation()).then(|| (style, text.to_owned()))
    };
    let mut runs: Vec<(Style, String)> = Vec::new();
    for (style, text) in (0..columns).filter_map(cell) {
        match runs.last_mut() {
            Some(last) if last.0 == style => last.1 += &text,
            _ => runs.push((style, text)),
        }
    }
    let printed = runs.iter().map(|(style, text)| format!("{style}{text}{style:#}"));
    printed.collect::<Vec<_>>().concat().trim_end().to_owned()
}

impl Seen {
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n")
    }
}
