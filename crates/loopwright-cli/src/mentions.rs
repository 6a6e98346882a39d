//! `@FILE` in messages.

use std::fs;

use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_core::messages::Part;

use crate::media;
use crate::render::single_line;

/// Punctuation that can follow a path at the end of a sentence.
pub(crate) const ENDS: [char; 7] = ['.', ',', ';', ':', '!', '?', ')'];

/// The maximum size of an attached text file, in bytes.
const LARGEST: u64 = 1 << 18;

/// A message with the files that it names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attached {
    /// The message, followed by the text files.
    pub(crate) text: String,
    /// The paths of the attached files, in the form in which they are shown.
    pub(crate) files: Vec<String>,
    /// The attached images and documents.
    pub(crate) media: Vec<Part>,
    /// The reasons why other files were not attached.
    pub(crate) notes: Vec<String>,
}

/// Appends to a message the text files in the directory that the user names as `@FILE` or `@"FILE"`, and attaches images and PDF
/// documents. `typed` is the part of the message that the user typed; the rest, such as the text of a skill, attaches
/// nothing. Other words that start with `@` stay unchanged.
pub(crate) fn attach(text: &str, typed: &str, workdir: &WorkspaceRoot) -> Attached {
    let mut attached = Attached { text: text.to_owned(), ..Attached::default() };
    let mut seen = Vec::new();
    for (path, is_quoted) in paths(typed) {
        // A sentence can end after a path.
        let end = if is_quoted { path } else { path.trim_end_matches(ENDS) };
        let whole = [path, end];
        let read = |path| Some((path, workdir.read_text(path, LARGEST).ok()?));
        let Some((path, content)) = whole.into_iter().find_map(read) else {
            // A word that names nothing stays a word.
            let exists = fs::symlink_metadata(workdir.path().join(end)).is_ok();
            if let Some(error) = workdir.read_text(end, LARGEST).err().filter(|_| exists) {
                attached.notes.push(format!("{} was not attached: {error}", single_line(end, 200)));
            }
            continue;
        };
        if seen.contains(&path) {
            continue;
        }
        seen.push(path);
        let shown = single_line(path, 200);
        // A document can also be valid text.
        let Some(content) = content.filter(|it| !it.starts_with("%PDF-")) else {
            match media::read_in(workdir, path) {
                Some(Ok(part)) => {
                    attached.media.push(part);
                    attached.files.push(shown);
                }
                Some(Err(error)) => {
                    attached.notes.push(format!("{shown} was not attached: {error}"));
                }
                None => {
                    let size = LARGEST / 1024;
                    let note = format!(
                        "{shown} was not attached: it is not a text file of at most {size} KiB"
                    );
                    attached.notes.push(note);
                }
            }
            continue;
        };
        let end = if content.ends_with('\n') { "" } else { "\n" };
        let file = format!("\n\n<file path=\"{path}\">\n{content}{end}</file>");
        attached.text.push_str(&file);
        attached.files.push(shown);
    }
    attached
}

/// Returns the words of a text that start with `@`, without it, and the quoted ones, which can contain spaces. The second value
/// is `true` for these.
fn paths(typed: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    let mut rest = typed.trim_start();
    while !rest.is_empty() {
        let quoted = rest.strip_prefix("@\"").and_then(|it| it.split_once('"'));
        if let Some((path, behind)) = quoted.filter(|(it, _)| !it.contains('\n')) {
            found.push((path, true));
            rest = behind.trim_start();
            continue;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        found.extend(word.strip_prefix('@').map(|path| (path, false)));
        rest = behind.trim_start();
    }
    found
}

/// Returns a message without the files that [`attach`] appended.
pub(crate) fn without_files(text: &str) -> &str {
    let attached = text.ends_with("</file>").then(|| text.find("\n\n<file path=\"")).flatten();
    &text[..attached.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use loopwright_core::messages::Content;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A PNG of one pixel.
    const PNG: &[u8] = b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00\x3a\x7e\x9b\x55\x00\x00\x00\x0a\x49\x44\x41\x54\x78\x9c\x63\x60\x00\x00\x00\x02\x00\x01\x48\xaf\xa4\x71\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

    #[test]
    fn a_quoted_path_can_have_spaces() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("a b.txt"), "one").unwrap();
        fs::write(home.path().join("c"), "two").unwrap();
        let root = WorkspaceRoot::new(home.path());
        let said = "See @\"a b.txt\", @c and @\"c, and @\"no such\".";
        assert_eq!(attach(said, said, &root).files, ["a b.txt", "c"]);
        let paths = paths(said);
        assert_eq!(paths, [("a b.txt", true), ("c", false), ("c, and @", true)]);
    }

    #[test]
    fn text_files_of_the_directory_are_attached_once_and_nothing_else_is() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("work");
        fs::create_dir_all(root.join("src")).unwrap();
        fs::write(root.join("src/a.rs"), "fn a() {}").unwrap();
        fs::write(root.join("b.bin"), [0, 159, 146, 150]).unwrap();
        fs::write(root.join("c.png"), PNG).unwrap();
        fs::write(root.join("e.png"), &PNG[..40]).unwrap();
        fs::write(root.join("d.pdf"), b"%PDF-1.7").unwrap();
        fs::write(home.path().join("secret"), "secret").unwrap();
        symlink(home.path().join("secret"), root.join("link")).unwrap();
        let root = WorkspaceRoot::new(&root);
        let said = "Look at @src/a.rs, @src/a.rs, @c.png, @d.pdf, @e.png and @b.bin, not @nobody or a@b.c or @../secret or @link.";
        let attached = attach(said, said, &root);
        assert_eq!(attached.files, ["src/a.rs", "c.png", "d.pdf"]);
        let kinds = attached.media.iter().map(|it| match it.content() {
            Content::Image(media) | Content::Document(media) => &*media.mime,
            _ => "",
        });
        assert_eq!(kinds.collect::<Vec<_>>(), ["image/png", "application/pdf"]);
        assert_eq!(
            attached.text,
            format!("{said}\n\n<file path=\"src/a.rs\">\nfn a() {{}}\n</file>")
        );
        assert_eq!(without_files(&attached.text), said);
        let said = "What does </file> mean?\n\n<file path=\"a\"> is not";
        assert_eq!(without_files(said), said);
        let notes: Vec<&str> = attached.notes.iter().map(String::as_str).collect();
        let [truncated, binary, outside, link] = &notes[..] else { panic!("{notes:?}") };
        let reason = "e.png was not attached: `e.png` cannot be shown as an image: the PNG image is truncated: its end is missing";
        assert_eq!(*truncated, reason);
        assert!(binary.starts_with("b.bin was not attached"), "{binary}");
        assert!(outside.starts_with("../secret was not attached"), "{outside}");
        assert!(link.starts_with("link was not attached"), "{link}");
    }
}
