//! The history of what was typed, in a file that only the user can read.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use reedline::{
    FileBackedHistory, History, HistoryItem, HistoryItemId, HistorySessionId, Result, SearchQuery,
};

use super::pastes::Pastes;
use crate::render::sanitize_terminal;
use crate::store::make_private;

/// How many turns the history remembers.
const REMEMBERED: usize = 1000;

/// The largest text that is remembered with what was pasted, in bytes. Of a larger one, the words remain that stand for it.
const LARGEST: usize = 1 << 16;

/// A history that remembers pasted texts, so that another chat can send them again. At the prompt, long texts are folded.
pub(super) struct ChatHistory {
    file: FileBackedHistory,
    pastes: Pastes,
}

impl ChatHistory {
    /// Opens the history of a directory.
    pub(super) fn open(directory: &Path, pastes: Pastes) -> io::Result<Self> {
        make_private(directory).map_err(io::Error::other)?;
        let path = directory.join("chat_history");
        OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        let file = FileBackedHistory::with_file(REMEMBERED, path).map_err(io::Error::other)?;
        Ok(Self { file, pastes })
    }

    fn folded(&self, mut item: HistoryItem) -> HistoryItem {
        // A search prints it as it is.
        item.command_line = sanitize_terminal(&self.pastes.recalled(item.command_line));
        item
    }
}

impl History for ChatHistory {
    fn save(&mut self, mut item: HistoryItem) -> Result<HistoryItem> {
        let opened = self.pastes.open(&item.command_line);
        if opened.len() <= LARGEST {
            self.pastes.remember(&item.command_line, &opened);
            item.command_line = opened;
        }
        self.file.save(item)
    }

    fn load(&self, id: HistoryItemId) -> Result<HistoryItem> {
        self.file.load(id).map(|it| self.folded(it))
    }

    fn count(&self, query: SearchQuery) -> Result<i64> {
        self.file.count(query)
    }

    fn search(&self, query: SearchQuery) -> Result<Vec<HistoryItem>> {
        let found = self.file.search(query)?;
        Ok(found.into_iter().map(|it| self.folded(it)).collect())
    }

    fn update(
        &mut self,
        id: HistoryItemId,
        updater: &dyn Fn(HistoryItem) -> HistoryItem,
    ) -> Result<()> {
        self.file.update(id, updater)
    }

    fn clear(&mut self) -> Result<()> {
        self.file.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> Result<()> {
        self.file.delete(id)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.file.session()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use reedline::SearchDirection;

    use super::*;

    fn recalled(history: &ChatHistory) -> Vec<String> {
        let all = SearchQuery::everything(SearchDirection::Backward, None);
        history.search(all).unwrap().into_iter().map(|it| it.command_line).collect()
    }

    #[test]
    fn the_history_is_for_the_user_only() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("state");
        let mut history = ChatHistory::open(&directory, Pastes::default()).unwrap();
        history.save(HistoryItem::from_command_line("a")).unwrap();
        history.sync().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = directory.join("chat_history");
        assert_eq!((mode(&directory), mode(&file)), (0o700, 0o600));
        assert_eq!(fs::read_to_string(file).unwrap(), "a\n");
    }

    #[test]
    fn another_chat_recalls_a_pasted_text_folded_and_opens_it() {
        let home = tempfile::tempdir().unwrap();
        let text = "line\n".repeat(300);
        {
            let pastes = Pastes::default();
            let word = pastes.take(&text);
            let mut history = ChatHistory::open(home.path(), pastes).unwrap();
            let typed = format!("See {word} now");
            history.save(HistoryItem::from_command_line(typed.clone())).unwrap();
            history.sync().unwrap();
            // In the same chat, it is as it was typed.
            assert_eq!(recalled(&history), [typed]);
        }
        let pastes = Pastes::default();
        let history = ChatHistory::open(home.path(), pastes.clone()).unwrap();
        let word = "[pasted 301 lines #1]";
        assert_eq!([recalled(&history), recalled(&history)], [[word], [word]]);
        assert_eq!(pastes.open(word), format!("See {text} now"));
        assert_eq!(pastes.unknown_texts(word), Vec::<String>::new());
    }

    #[test]
    fn a_line_is_recalled_without_what_steers_the_terminal() {
        let home = tempfile::tempdir().unwrap();
        let mut history = ChatHistory::open(home.path(), Pastes::default()).unwrap();
        history.save(HistoryItem::from_command_line("a\u{1b}]0;T\u{7}\u{202e}b")).unwrap();
        assert_eq!(recalled(&history), ["a\u{fffd}]0;T\u{fffd}\u{fffd}b"]);
    }

    #[test]
    fn a_very_large_text_is_remembered_as_its_word() {
        let home = tempfile::tempdir().unwrap();
        let pastes = Pastes::default();
        let word = pastes.take(&"x".repeat(LARGEST + 1));
        let mut history = ChatHistory::open(home.path(), pastes).unwrap();
        history.save(HistoryItem::from_command_line(word.clone())).unwrap();
        assert_eq!(recalled(&history), std::slice::from_ref(&word));
        assert_eq!(Pastes::default().unknown_texts(&format!("See {word}.")), [word]);
    }
}
