//! File tools and commands as facts. One binary: a module below is one theme.

#[cfg(test)]
mod support;
#[cfg(test)]
mod files;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod race;
#[cfg(test)]
mod skills;
#[cfg(test)]
mod structured;
#[cfg(test)]
mod subagents;
#[cfg(test)]
mod everything;
#[cfg(test)]
mod pairs;
#[cfg(test)]
mod flat;
#[cfg(test)]
mod reference;
