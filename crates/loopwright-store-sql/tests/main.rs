//! Stores in databases, through the public interface.

#[cfg(test)]
#[cfg(all(feature = "sqlite", feature = "postgres"))]
mod altered;
#[cfg(test)]
#[cfg(feature = "sqlite")]
mod damage;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(test)]
#[cfg(feature = "sqlite")]
mod salvage;
#[cfg(test)]
mod samples;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod server;
#[cfg(test)]
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(test)]
mod support;
