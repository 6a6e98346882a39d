//! Sessions, through the public interface.

#[cfg(test)]
mod actions;
#[cfg(test)]
mod chat;
#[cfg(test)]
mod control;
#[cfg(test)]
mod file;
#[cfg(test)]
mod following;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod runtime;
#[cfg(test)]
mod stores;
#[cfg(test)]
mod support;
#[cfg(all(test, feature = "files"))]
mod undo;
