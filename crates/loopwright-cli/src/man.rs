//! `loopwright man`.

use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::args::{Cli, ManArgs};
use crate::console;
use crate::exit::ExitCode;

/// Writes the pages of all commands to a directory, or prints the program's own.
pub fn man(args: &ManArgs) -> ExitCode {
    let Some(directory) = &args.directory else { return console::print(&page()) };
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
    match written {
        Ok(()) => ExitCode::Done,
        Err(error) => console::fail(&error, ExitCode::Internal),
    }
}

fn page() -> Vec<u8> {
    let mut page = Vec::new();
    // Writing into memory does not fail.
    Man::new(Cli::command()).render(&mut page).ok();
    page
}
