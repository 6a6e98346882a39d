//! Servers as programs meet them. One binary: a module below is one theme.

#[cfg(test)]
mod asking;
#[cfg(test)]
mod bad_http;
#[cfg(test)]
mod bad_logins;
#[cfg(test)]
mod bad_servers;
#[cfg(test)]
mod http_servers;
#[cfg(test)]
mod logins;
#[cfg(test)]
mod resources;
#[cfg(test)]
mod search;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod stateless;
#[cfg(test)]
mod world;
