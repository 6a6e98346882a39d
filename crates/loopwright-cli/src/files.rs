//! The command `files`, which runs a file tool by hand.

use std::path::Path;

use loopwright_capabilities::files::{
    EditFile, EditFileArgs, FileError, Grep, GrepArgs, ListDir, ListDirArgs, ReadFile,
    ReadFileArgs, SearchFiles, SearchFilesArgs, WorkspaceRoot, WriteFile, WriteFileArgs,
};
use tokio_util::sync::CancellationToken;

use crate::args::files::FilesCommand;
use crate::console;
use crate::exit::ExitCode;
use crate::tools::workdir;

/// Uses a file tool, and prints what a model would be told.
pub fn files(command: &FilesCommand) -> ExitCode {
    let root = match workdir(place(command)) {
        Ok(root) => root,
        Err(error) => return console::fail(&error, ExitCode::Usage),
    };
    match answer(command, root) {
        Ok(text) => console::print_text(&(text.trim_end().to_owned() + "\n")),
        Err(error) => console::fail(&error, exit_code(&error)),
    }
}

fn place(command: &FilesCommand) -> &Path {
    let place = match command {
        FilesCommand::Read(it) => &it.place,
        FilesCommand::Write(it) => &it.place,
        FilesCommand::Edit(it) => &it.place,
        FilesCommand::List(it) => &it.place,
        FilesCommand::Search(it) => &it.place,
        FilesCommand::Grep(it) => &it.place,
    };
    &place.workdir
}

fn answer(command: &FilesCommand, root: WorkspaceRoot) -> Result<String, FileError> {
    // Nothing but the end of the process stops it.
    let stop = CancellationToken::new();
    match command {
        FilesCommand::Read(it) => {
            let args = ReadFileArgs {
                path: it.path.clone(),
                offset: it.offset,
                limit: it.limit,
                max_bytes: it.max_bytes,
                continue_from: it.continue_from.clone(),
            };
            ReadFile::in_dir(root).read(&args, &stop).map(|it| it.to_text())
        }
        FilesCommand::Write(it) => {
            let args = WriteFileArgs {
                path: it.path.clone(),
                content: it.content.clone(),
                overwrite: Some(it.overwrite),
                create_dirs: Some(it.create_dirs),
            };
            WriteFile::in_dir(root).write(&args).map(|it| it.to_text())
        }
        FilesCommand::Edit(it) => {
            let args = EditFileArgs {
                path: it.path.clone(),
                old_string: Some(it.old.clone()),
                new_string: Some(it.new.clone()),
                replace_all: Some(it.replace_all),
                edits: None,
            };
            EditFile::in_dir(root).edit(&args).map(|it| it.to_text())
        }
        FilesCommand::List(it) => {
            let args = ListDirArgs { path: Some(it.path.clone()), offset: it.offset };
            ListDir::in_dir(root).list(&args, &stop)
        }
        FilesCommand::Search(it) => {
            let args = SearchFilesArgs {
                pattern: None,
                patterns: Some(it.patterns.clone()),
                include_ignored: Some(it.include_ignored),
            };
            SearchFiles::in_dir(root).with_max_results(50).search(&args, &stop)
        }
        FilesCommand::Grep(it) => {
            let args = GrepArgs {
                pattern: it.pattern.clone(),
                path: it.path.clone(),
                glob: it.glob.clone(),
                context: it.context,
                include_ignored: Some(it.include_ignored),
                ..GrepArgs::default()
            };
            Grep::in_dir(root).grep(&args, &stop)
        }
    }
}

fn exit_code(error: &FileError) -> ExitCode {
    match error {
        FileError::Outside(_)
        | FileError::Protected(_)
        | FileError::Owner(_)
        | FileError::Denied { .. } => ExitCode::Denied,
        FileError::Io { .. } | FileError::NoSpace { .. } => ExitCode::Internal,
        _ => ExitCode::Usage,
    }
}
