//! A terminal: what the program writes to it, and what is seen there.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::ops::BitOr;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anstyle::{Ansi256Color, Color, Effects, Style};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::world::World;

/// A terminal that is high enough to hold all that is written to it.
pub(crate) struct Terminal {
    columns: u16,
    keys: Vec<Keys>,
}

/// What is typed, and when.
struct Keys {
    /// Once this stands there.
    after: &'static str,
    typed: String,
    /// Whether the program shows a prompt then.
    at_prompt: bool,
}

/// What a program has left on a terminal.
pub(crate) struct Seen {
    pub(crate) status: i32,
    /// Everything that was written, control bytes included.
    pub(crate) written: String,
    /// What stands there in the end, line by line; the home directory is not repeated.
    pub(crate) lines: Vec<String>,
    /// The same in colours.
    pub(crate) styled: Vec<String>,
}

const ROWS: u16 = 200;

/// What asks a terminal where its cursor is.
const WHERE: &[u8] = b"\x1b[6n";

/// What the program writes when it begins to read what is typed.
const READS: &str = "\u{1b}[?2004h";

impl Terminal {
    pub(crate) fn new(columns: u16) -> Self {
        Self { columns, keys: Vec::new() }
    }

    /// Types a line once something stands there and the program reads.
    pub(crate) fn typing(mut self, after: &'static str, line: &'static str) -> Self {
        self.keys.push(Keys { after, typed: format!("{line}\r"), at_prompt: true });
        self
    }

    /// Types keys once something stands there, while the program does something else than to read a line.
    pub(crate) fn pressing(mut self, after: &'static str, keys: &str) -> Self {
        self.keys.push(Keys { after, typed: keys.to_owned(), at_prompt: false });
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
        let winsize = Winsize { ws_row: ROWS, ws_col: self.columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&side, winsize).unwrap();
        let mut command = world.command(line);
        command.stdin(side.try_clone().unwrap()).stdout(side.try_clone().unwrap()).stderr(side);
        let mut child = command.spawn().unwrap();
        // Its copies keep the terminal open.
        drop(command);
        let (parser, written) = self.attend(File::from(controller));
        let status = child.wait().unwrap().code().unwrap();
        let home = world.path("");
        let home = home.to_str().unwrap().trim_end_matches('/').to_owned();
        let screen = parser.screen();
        let mut lines: Vec<String> =
            screen.rows(0, self.columns).map(|it| it.trim_end().replace(&home, "")).collect();
        let used = lines.iter().rposition(|it| !it.is_empty()).map_or(0, |last| last + 1);
        lines.truncate(used);
        let rows = 0..u16::try_from(used).unwrap();
        let styled = rows.map(|row| styled(screen, row, self.columns).replace(&home, "")).collect();
        Seen { status, written, lines, styled }
    }

    /// Reads what is written, and types what there is to type.
    fn attend(&self, mut controller: File) -> (vt100::Parser, String) {
        let size = |count: u16| NonZeroU16::new(count).unwrap();
        let mut parser = vt100::Parser::new(size(ROWS), size(self.columns), 0);
        let mut written = Vec::new();
        let mut to_type = self.keys.iter();
        let mut next = to_type.next();
        let mut heard = 0;
        let mut buffer = [0; 4096];
        // When the last program has closed it, reading fails.
        while let Ok(count @ 1..) = controller.read(&mut buffer) {
            parser.process(&buffer[..count]);
            written.extend_from_slice(&buffer[..count]);
            if buffer[..count].windows(WHERE.len()).any(|it| it == WHERE) {
                let (row, column) = parser.screen().cursor_position();
                write!(controller, "\x1b[{};{}R", row + 1, column + 1).unwrap();
            }
            let fresh = String::from_utf8_lossy(&written[heard..]);
            if let Some(Keys { after, typed, at_prompt }) = next
                && let Some((_, rest)) = fresh.split_once(after)
                && (!at_prompt || rest.contains(READS))
            {
                heard = written.len();
                write!(controller, "{typed}").unwrap();
                next = to_type.next();
            }
        }
        (parser, String::from_utf8_lossy(&written).into_owned())
    }
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
