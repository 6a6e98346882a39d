//! The only way out of a network namespace: a socket that is created in it and served by the agent outside.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The port of the proxy in the sandbox's own network.
pub(crate) const PORT: u16 = 3128;

/// Creates the socket in the network of this process, and sends it to the agent.
pub(crate) fn open(channel: &impl AsFd) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))?;
    hand_over(channel, listener.as_fd())
}

/// Sends a descriptor to the other end of a socket.
pub(super) fn hand_over(channel: &impl AsFd, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let borrowed = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::Error::other("the message has no space for the descriptor"));
    }
    sendmsg(channel, &[IoSlice::new(b"p")], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Receives the socket.
pub(crate) fn receive(channel: &impl AsFd) -> io::Result<OwnedFd> {
    let mut mark = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(channel, &mut [IoSliceMut::new(&mut mark)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message
            && let Some(descriptor) = descriptors.into_iter().next()
        {
            return Ok(descriptor);
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}
