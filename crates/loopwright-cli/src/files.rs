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

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use clap::Subcommand as _;
    use loopwright_agent::{AgentBuilder, UseLlmConfig};
    use loopwright_capabilities::files::UseFileTools;
    use loopwright_core::{Reach, SideEffects, ToolSet};
    use loopwright_permissions::ToolKind;
    use loopwright_testing::FakeModel;

    use super::*;

    /// Returns all built-in tools for the files of a directory.
    pub(crate) fn file_tools(directory: &Path) -> ToolSet {
        let agent = AgentBuilder::base()
            .with_capability(UseLlmConfig::model(FakeModel::script(["ok"])))
            .with_capability(UseFileTools::in_dir(directory))
            .build()
            .unwrap();
        agent.tools().clone()
    }

    /// Returns the names of the built-in tools that write files.
    pub(crate) fn writing_tools(directory: &Path) -> Vec<String> {
        let tools = file_tools(directory);
        let writing = tools.iter().filter(|it| it.options().side_effects != SideEffects::ReadOnly);
        writing.map(|it| it.name().to_string()).collect()
    }

    #[test]
    fn each_file_tool_has_a_command_and_a_section_in_the_docs() {
        let tools = file_tools(Path::new("/"));
        let commands = FilesCommand::augment_subcommands(clap::Command::new("files"));
        let commands: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(commands.len(), tools.len(), "{commands:?}: {:?}", tools.names());
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools.md");
        let page = fs::read_to_string(page).unwrap();
        let synopsis = format!("loopwright files {} ", commands.join("|"));
        assert!(page.contains(&synopsis), "docs/tools.md does not contain `{synopsis}`");
        for name in tools.names().iter() {
            assert!(page.contains(&format!("\n## `{name}`\n")), "no section for `{name}`");
        }
    }

    #[test]
    fn permission_rules_know_each_file_tool() {
        for tool in file_tools(Path::new("/")).iter() {
            let options = tool.options();
            let is_read_only = options.side_effects == SideEffects::ReadOnly;
            let kind = if is_read_only { ToolKind::Read } else { ToolKind::Write };
            assert_eq!(ToolKind::of(tool.name()), kind, "{}", tool.name());
            assert_eq!(options.reach, Reach::Workspace, "{}", tool.name());
        }
    }
}
