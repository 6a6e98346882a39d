//! A file as numbered lines.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use loopwright_core::{BoxError, Effects, Tool, ToolCx, ToolOptions};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{PathRefusal, Workdir};

/// Shows the lines of a text file of the working directory.
#[derive(Clone, Debug)]
pub struct ReadFile(Workdir);

/// What the model passes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ReadFileArgs {
    /// The file, relative to the working directory or absolute.
    path: String,
    /// The first line to show, counted from 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    offset: Option<usize>,
    /// How many lines to show; 2000 if not given.
    #[serde(default)]
    #[schemars(range(min = 1))]
    limit: Option<usize>,
}

/// Why a file is not shown; the model is told.
#[derive(Debug, thiserror::Error)]
enum ReadFileError {
    /// Its path is not used.
    #[error(transparent)]
    Path(#[from] PathRefusal),
    /// It is a directory, a device or the like.
    #[error("`{0}` is not a regular file; list directories with `bash`")]
    NotAFile(String),
    /// It is larger than [`MOST_BYTES`].
    #[error("`{0}` is larger than 16 MiB; look at parts of it with `head`, `tail` or `grep`")]
    TooLarge(String),
    /// It is no text.
    #[error("`{0}` is not UTF-8 text")]
    NotText(String),
    /// It has fewer lines.
    #[error("`{path}` has {lines} lines, so line {offset} cannot be shown")]
    PastTheEnd {
        /// The file.
        path: String,
        /// Its lines.
        lines: usize,
        /// The line that was asked for.
        offset: usize,
    },
    /// The operating system does not give it out.
    #[error("`{path}` cannot be read")]
    Unreadable {
        /// The file.
        path: String,
        /// What the operating system says.
        source: io::Error,
    },
}

const MOST_BYTES: u64 = 16 << 20;
const MOST_LINES: usize = 2000;
const LONGEST_LINE: usize = 2000;
const MOST_SHOWN: usize = 64 << 10;

impl ReadFile {
    /// Confines it to a directory.
    pub fn new(workdir: Workdir) -> Self {
        Self(workdir)
    }

    fn show(&self, args: &ReadFileArgs) -> Result<String, ReadFileError> {
        let real = self.0.resolve(&args.path)?;
        let text = read(&real, &args.path)?;
        lines(&text, args)
    }
}

impl Tool for ReadFile {
    type Args = ReadFileArgs;
    type Output = String;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "read_file"
    }

    fn description(&self) -> &'static str {
        "Shows a text file of the working directory with line numbers. For long files pass `offset` \
         and `limit`."
    }

    fn options(&self) -> ToolOptions {
        ToolOptions { effects: Effects::Pure, ..ToolOptions::default() }
    }

    async fn call(&self, args: ReadFileArgs, _cx: &ToolCx<'_>) -> Result<String, BoxError> {
        // What is read is bounded, so that nothing is left over for long if nobody waits for it.
        let tool = self.clone();
        Ok(tokio::task::spawn_blocking(move || tool.show(&args)).await??)
    }
}

fn read(real: &Path, path: &str) -> Result<String, ReadFileError> {
    let unreadable = |source| ReadFileError::Unreadable { path: path.to_owned(), source };
    // Opening a pipe or a device may never come back.
    let metadata = real.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(ReadFileError::NotAFile(path.to_owned()));
    }
    let mut bytes = Vec::new();
    let file = File::open(real).map_err(unreadable)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(ReadFileError::TooLarge(path.to_owned()));
    }
    if bytes.contains(&0) {
        return Err(ReadFileError::NotText(path.to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| ReadFileError::NotText(path.to_owned()))
}

fn lines(text: &str, args: &ReadFileArgs) -> Result<String, ReadFileError> {
    let total = text.lines().count();
    if total == 0 {
        return Ok("(the file is empty)".to_owned());
    }
    let first = args.offset.unwrap_or(1).max(1);
    if first > total {
        let path = args.path.clone();
        return Err(ReadFileError::PastTheEnd { path, lines: total, offset: first });
    }
    let mut shown = String::new();
    let mut next = first;
    for line in text.lines().skip(first - 1).take(args.limit.unwrap_or(MOST_LINES).max(1)) {
        if shown.len() >= MOST_SHOWN {
            break;
        }
        let kept = &line[..line.floor_char_boundary(LONGEST_LINE)];
        let cut = if kept.len() < line.len() { " … [line cut]" } else { "" };
        // Writing to a string cannot fail.
        let _infallible = writeln!(shown, "{next:>4}\t{kept}{cut}");
        next += 1;
    }
    if next <= total {
        let last = next - 1;
        let _infallible =
            writeln!(shown, "[lines {first} to {last} of {total}; go on with offset {next}]");
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn check(content: &[u8], args: &str, expect: &str) {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("f"), content).unwrap();
        let tool = ReadFile::new(Workdir::new(root.path()).unwrap());
        let args: ReadFileArgs = serde_json::from_str(args).unwrap();
        let said = tool.show(&args).unwrap_or_else(|error| format!("error: {error}"));
        assert_eq!(said, expect);
    }

    #[test]
    fn lines_have_their_numbers() {
        check(b"one\ntwo\n", r#"{"path":"f"}"#, "   1\tone\n   2\ttwo\n");
        check(b"", r#"{"path":"f"}"#, "(the file is empty)");
    }

    #[test]
    fn a_part_says_how_to_go_on() {
        check(
            b"a\nb\nc\nd",
            r#"{"path":"f","offset":2,"limit":2}"#,
            "   2\tb\n   3\tc\n[lines 2 to 3 of 4; go on with offset 4]\n",
        );
        check(
            b"a\n",
            r#"{"path":"f","offset":3}"#,
            "error: `f` has 1 lines, so line 3 cannot be shown",
        );
    }

    #[test]
    fn what_is_no_text_is_refused() {
        check(b"a\0b", r#"{"path":"f"}"#, "error: `f` is not UTF-8 text");
        check(b"\xff", r#"{"path":"f"}"#, "error: `f` is not UTF-8 text");
        let refusal = "error: `.` is not a regular file; list directories with `bash`";
        check(b"", r#"{"path":"."}"#, refusal);
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let root = tempfile::tempdir().unwrap();
        let tool = ReadFile::new(Workdir::new(root.path()).unwrap());
        let show = |content: String| {
            fs::write(root.path().join("f"), content).unwrap();
            tool.show(&serde_json::from_str(r#"{"path":"f"}"#).unwrap()).unwrap()
        };
        let cut = show("ä".repeat(5000));
        assert!(cut.ends_with("ä … [line cut]\n") && cut.len() < 2100, "{}", cut.len());
        let bounded = show(vec!["x".repeat(1000); 500].join("\n"));
        assert!(bounded.len() < MOST_SHOWN + 3000 && bounded.contains("of 500; go on with offset"));
        fs::write(root.path().join("f"), vec![b'x'; usize::try_from(MOST_BYTES).unwrap() + 1])
            .unwrap();
        let error = tool.show(&serde_json::from_str(r#"{"path":"f"}"#).unwrap()).unwrap_err();
        assert!(matches!(error, ReadFileError::TooLarge(_)));
    }
}
