//! Memory that belongs to the namespaces of a command and to none of its processes, measured from inside.

use std::io;
use std::mem::size_of;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use super::sys;
use crate::home::{SCRATCH, SHARED_MEMORY};
use crate::job::Held;
use crate::policy::Network;

/// Returns the memory that is held now. The buffers of the host's network do not count, because all programs share
/// them.
pub(crate) fn now(network: &Network) -> Held {
    let files = [SCRATCH, SHARED_MEMORY].map(|path| {
        rustix::fs::statvfs(path).map_or(0, |status| {
            status.f_blocks.saturating_sub(status.f_bfree).saturating_mul(status.f_frsize)
        })
    });
    let (segments, messages) = sys::ipc_memory();
    let sockets = match network {
        Network::Host => 0,
        Network::Off | Network::Loopback | Network::Domains(_) => sockets().unwrap_or(0),
    };
    Held { shared: files.iter().sum::<u64>() + segments, kernel: messages + sockets }
}

/// A query to the kernel for one family of sockets.
struct Query {
    request: Vec<u8>,
    /// The length of an answer before its attributes.
    fixed: usize,
    /// The attribute with the allocated bytes, and the one with the unread bytes.
    memory: u16,
    waiting: Option<u16>,
}

const BY_FAMILY: u16 = 20;
const DUMP: u16 = 0x301;
const DONE: u16 = 3;
const FAILED: u16 = 2;
const HEADER: usize = 16;

impl Query {
    fn local() -> Self {
        let (all_states, show) = (u32::MAX, 0x10 | 0x20_u32);
        let mut request = vec![1, 0, 0, 0];
        for word in [all_states, 0, show, 0, 0] {
            request.extend(word.to_ne_bytes());
        }
        Self { request, fixed: 16, memory: 5, waiting: Some(4) }
    }

    fn internet(family: u8, protocol: u8) -> Self {
        let mut request = vec![family, protocol, 1 << 6, 0];
        request.extend(u32::MAX.to_ne_bytes());
        request.extend([0; 48]);
        Self { request, fixed: 72, memory: 7, waiting: None }
    }
}

/// Returns the bytes in the buffers of all sockets of this network.
fn sockets() -> io::Result<u64> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    let (inet, inet6, tcp, udp) = (2, 10, 6, 17);
    let mut queries = vec![Query::local()];
    for family in [inet, inet6] {
        queries.extend([tcp, udp].map(|protocol| Query::internet(family, protocol)));
    }
    let mut total = 0;
    for query in queries {
        // A family that this kernel cannot list counts as zero.
        total += ask(&socket, &query).unwrap_or(0);
    }
    Ok(total)
}

fn ask(socket: &std::os::fd::OwnedFd, query: &Query) -> io::Result<u64> {
    let length = u32::try_from(HEADER + query.request.len()).map_err(io::Error::other)?;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(DUMP.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(&query.request);
    rustix::net::send(socket, &message, SendFlags::empty())?;
    let (mut allocated, mut waiting) = (0_u64, 0_u64);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let (_, length) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..length];
        while let Some((kind, body, after)) = message_of(rest) {
            match kind {
                DONE => return Ok(allocated.max(waiting)),
                FAILED => return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
                _ => {
                    let (memory, unread) = memory_of(body, query);
                    (allocated, waiting) = (allocated + memory, waiting + unread);
                }
            }
            rest = after;
        }
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Splits off the first message: its kind, its body, and the rest.
fn message_of(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = word(bytes, 0)? as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(HEADER..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Returns the allocated and the unread bytes of one socket.
fn memory_of(body: &[u8], query: &Query) -> (u64, u64) {
    let (mut memory, mut unread) = (0, 0);
    let mut rest = body.get(query.fixed..).unwrap_or_default();
    while let Some((kind, value, after)) = attribute(rest) {
        let number = |at: usize| word(value, at * size_of::<u32>()).map_or(0, u64::from);
        if kind == query.memory {
            // Received, sent or queued, reserved, options, backlog.
            memory = number(0) + number(2).max(number(5)) + number(4) + number(6) + number(7);
        } else if Some(kind) == query.waiting {
            unread = number(0);
        }
        rest = after;
    }
    (memory, unread)
}

/// Splits off the first attribute: its kind, its value, and the rest.
fn attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
    let value = bytes.get(4..length)?;
    Some((kind, value, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
