//! Servers as programs meet them. One binary: a module below is one theme.

#[cfg(test)]
mod bad_servers;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod world;
#[cfg(test)]
mod resources;
#[cfg(test)]
mod search;
