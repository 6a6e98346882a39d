//! Folders that are added in a chat.

use std::path::{Path, PathBuf};

use super::ChatSession;
use crate::added_folders::usable;
use crate::config::in_home;
use crate::console;
use crate::own_paths::OwnPaths;
use crate::render::sanitize_terminal;

impl ChatSession<'_> {
    /// Lets the tools use another folder from the next message on.
    pub(super) fn add_dir(&mut self, typed: &str) {
        match self.added(typed) {
            Ok(folder) => {
                let folder = sanitize_terminal(&folder.display().to_string());
                console::tell(&format!("the tools can now use {folder}"));
            }
            Err(error) => console::warn(&*error),
        }
    }

    fn added(&mut self, typed: &str) -> Result<PathBuf, loopwright_core::BoxError> {
        let (config, sources) = (&self.place.config, &self.place.sources);
        let path = in_home(typed, sources.home.as_deref())
            .unwrap_or_else(|| Path::new(&sources.cwd).join(typed));
        let folder = usable(&path, config, sources)?;
        let setup = &mut self.conversation.setup;
        if folder != setup.workdir.path() && !setup.workdir.folders().any(|it| it == folder) {
            let workdir = setup.workdir.clone().with_folder(&folder);
            let own = OwnPaths::of(config, sources).with_settings(setup.permissions.hook_files());
            let workdir = own.keep_from(workdir)?;
            setup.permissions.add_folder(&folder)?;
            setup.workdir = workdir;
            setup.commands.folders.push(folder.clone());
        }
        Ok(folder)
    }
}
