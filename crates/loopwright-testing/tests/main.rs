//! The rules of the repository, kept by tests. One binary: a module below is one rule or a few of a kind.

#[cfg(test)]
mod architecture;
#[cfg(test)]
mod contributing;
mod ladder;
#[cfg(test)]
mod modules;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod portability;
#[cfg(test)]
mod reference;
#[cfg(test)]
#[cfg(feature = "recorded")]
mod conversations;
#[cfg(test)]
#[cfg(feature = "recorded")]
mod recorded;
mod repository;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod seed_map;
#[cfg(test)]
mod setters;
#[cfg(test)]
mod weight;
#[cfg(test)]
mod words;

/// The folder of the workspace.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
