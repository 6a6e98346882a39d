//! What the model may do: look around in one directory.

mod bash;
mod commands;
mod read_file;
mod words;
mod workdir;

pub use self::{
    bash::Bash,
    read_file::ReadFile,
    workdir::{PathRefusal, Workdir},
};
