//! The only way out of a network namespace: a socket that is created in it and served by the agent outside.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use crate::job;

/// The port of the proxy in the sandbox's own network.
pub(crate) const PORT: u16 = 3128;

/// Creates the socket in the network of this process, and sends it to the agent.
pub(crate) fn open(channel: &impl AsFd) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))?;
    job::send_descriptors(channel, &[listener.as_fd()])
}

/// Receives the socket.
pub(crate) fn receive(channel: &impl AsFd) -> io::Result<OwnedFd> {
    let received = job::receive_descriptors(channel)?.into_iter().next();
    received.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
