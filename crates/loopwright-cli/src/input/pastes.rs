//! What is pasted at the prompt: long texts, which are folded to a word, and images and documents, which a word stands for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwright_core::messages::{Content, Part};

use super::dropped;
use crate::media;

/// The most lines of a paste that is shown as it is.
const LINES: usize = 5;

/// The most characters of a paste that is shown as it is.
const CHARACTERS: usize = 1_000;

/// The most files of one paste that are attached.
const FILES: usize = 20;

/// Pasted texts and files, with the words that stand for them. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pastes(Arc<Mutex<Pasted>>);

#[derive(Debug, Default)]
struct Pasted {
    texts: Vec<(String, String)>,
    /// Lines with such words, after the lines with the texts.
    lines: Vec<(String, String)>,
    media: Vec<(String, Part)>,
}

/// The images and documents of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PastedMedia {
    pub(crate) parts: Vec<Part>,
    /// Words that stand for files of another chat.
    pub(crate) unknown: Vec<String>,
}

impl PastedMedia {
    /// Returns what is said about the words for files of another chat.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let words = self.unknown.iter();
        words.map(|word| format!("{word} is not attached: it was pasted in another chat"))
    }
}

impl Pastes {
    /// Returns what a pasted text is at the prompt. Paths of images and documents attach them; a long text is folded.
    pub(super) fn take(&self, text: &str) -> String {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        self.files(&text).or_else(|| self.fold(&text)).unwrap_or(text)
    }

    /// Attaches an image or a document, and returns the word that stands for it.
    pub(super) fn attach(&self, part: Part) -> String {
        let mut pasted = self.lock();
        let kind = match part.content() {
            Content::Document(_) => "document",
            _ => "image",
        };
        let word = format!("[{kind} #{}]", pasted.media.len() + 1);
        pasted.media.push((word.clone(), part));
        word
    }

    /// Returns the images and documents whose words are in a text, in their order.
    pub(crate) fn media(&self, text: &str) -> PastedMedia {
        let pasted = self.lock();
        let (mut found, mut words) = (PastedMedia::default(), Vec::new());
        for word in text.match_indices('[').filter_map(|(start, _)| media_word(&text[start..])) {
            if words.contains(&word) {
                continue;
            }
            words.push(word);
            match pasted.media.iter().find(|(known, _)| known == word) {
                Some((_, part)) => found.parts.push(part.clone()),
                None => found.unknown.push(word.to_owned()),
            }
        }
        found
    }

    /// Puts the texts in the place of what stands for them.
    pub(super) fn open(&self, text: &str) -> String {
        let pasted = self.lock();
        let mut opened = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("[pasted ") {
            let (before, from) = rest.split_at(start);
            opened.push_str(before);
            let found = pasted.texts.iter().find(|(word, _)| from.starts_with(word.as_str()));
            let (shown, length) = match found {
                Some((word, content)) => (content.as_str(), word.len()),
                None => ("[", 1),
            };
            opened.push_str(shown);
            rest = &from[length..];
        }
        opened + rest
    }

    /// Returns the words in a text that stand for texts of another chat, which are lost.
    pub(super) fn unknown_texts(&self, text: &str) -> Vec<String> {
        let pasted = self.lock();
        let words =
            text.match_indices("[pasted ").filter_map(|(start, _)| text_word(&text[start..]));
        let is_known = |word: &str| pasted.texts.iter().any(|(known, _)| known == word);
        words.filter(|it| !is_known(it)).map(str::to_owned).collect()
    }

    /// Remembers a line as it was typed, and with the texts in the place of the words.
    pub(super) fn remember(&self, typed: &str, opened: &str) {
        if typed != opened {
            self.lock().lines.push((opened.to_owned(), typed.to_owned()));
        }
    }

    /// Returns what a line of the history is at the prompt: as it was typed if that was in this chat, or folded if it is
    /// long.
    pub(super) fn recalled(&self, line: String) -> String {
        let typed = self.lock().lines.iter().find(|(it, _)| *it == line).map(|it| it.1.clone());
        typed.or_else(|| self.fold(&line)).unwrap_or(line)
    }

    /// Attaches the files whose paths a text consists of. Returns `None` if one of them cannot be attached.
    pub(super) fn files(&self, text: &str) -> Option<String> {
        let paths = dropped::paths(text);
        if paths.is_empty() || paths.len() > FILES || !paths.iter().all(|it| it.is_file()) {
            return None;
        }
        let parts: Vec<Part> =
            paths.iter().map(|it| media::read(it).ok()).collect::<Option<_>>()?;
        let words: Vec<String> = parts.into_iter().map(|it| self.attach(it)).collect();
        Some(words.join(" ") + " ")
    }

    /// Returns what stands for a text; `None` if it is short enough to be shown.
    pub(super) fn fold(&self, text: &str) -> Option<String> {
        let lines = text.lines().count();
        let size = if lines > LINES {
            format!("{lines} lines")
        } else if text.chars().count() > CHARACTERS {
            format!("{} characters", text.chars().count())
        } else {
            return None;
        };
        let mut pasted = self.lock();
        if let Some((word, _)) = pasted.texts.iter().find(|(_, known)| known == text) {
            return Some(word.clone());
        }
        let word = format!("[pasted {size} #{}]", pasted.texts.len() + 1);
        pasted.texts.push((word.clone(), text.to_owned()));
        Some(word)
    }

    fn lock(&self) -> MutexGuard<'_, Pasted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the word for an image or a document with which a text begins.
fn media_word(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("[image #").or_else(|| text.strip_prefix("[document #"))?;
    let (number, rest) = rest.split_once(']')?;
    let is_number = !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| &text[..text.len() - rest.len()])
}

/// Returns the word for a long text with which a text begins.
fn text_word(text: &str) -> Option<&str> {
    let (word, _) = text.split_once(']')?;
    let (size, number) = word.strip_prefix("[pasted ")?.split_once(" #")?;
    let (count, unit) = size.split_once(' ')?;
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = is_number(count) && is_number(number) && matches!(unit, "lines" | "characters");
    is_word.then(|| &text[..=word.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PNG of one pixel.
    const PNG: &[u8] = b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00\x3a\x7e\x9b\x55\x00\x00\x00\x0a\x49\x44\x41\x54\x78\x9c\x63\x60\x00\x00\x00\x02\x00\x01\x48\xaf\xa4\x71\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

    #[test]
    fn a_long_paste_is_a_word_until_it_is_opened() {
        let pastes = Pastes::default();
        let paste = |text: &str| pastes.take(text);
        let long = "line\r\n".repeat(300);
        assert_eq!(paste(&long), "[pasted 300 lines #1]");
        assert_eq!(paste(&"x".repeat(1_001)), "[pasted 1001 characters #2]");
        assert_eq!(paste("one\rtwo"), "one\ntwo");
        let said =
            "See [pasted 300 lines #1], [pasted 2 lines #9] and [pasted 1001 characters #2].";
        let opened =
            format!("See {}, [pasted 2 lines #9] and {}.", "line\n".repeat(300), "x".repeat(1_001));
        assert_eq!(pastes.open(said), opened);
        // What is pasted is not opened in turn.
        assert_eq!(paste(&"[pasted 300 lines #1]\n".repeat(6)), "[pasted 6 lines #3]");
        assert_eq!(pastes.open("[pasted 6 lines #3]"), "[pasted 300 lines #1]\n".repeat(6));
    }

    #[test]
    fn paths_of_images_and_documents_attach_them_and_other_paths_are_text() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = home.path().join(name);
            std::fs::write(&path, content).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let image = file("a b.png", PNG);
        let document = file("c.pdf", b"%PDF-1.7");
        let text = file("d.txt", b"text");
        let pastes = Pastes::default();
        assert_eq!(pastes.take(&format!("'{image}' {document}\r")), "[image #1] [document #2] ");
        let both = format!("{document} {text}");
        for other in [&text, &both, "/nowhere/a.png"] {
            assert_eq!(pastes.take(other), *other);
        }
        let found = pastes.media("[document #2][image #1] and [image #1], [image #3] [image #x]");
        let kinds = found.parts.iter().map(|it| match it.content() {
            Content::Image(media) | Content::Document(media) => &*media.mime,
            _ => "",
        });
        assert_eq!(kinds.collect::<Vec<_>>(), ["application/pdf", "image/png"]);
        assert_eq!(found.unknown, ["[image #3]"]);
    }
}
