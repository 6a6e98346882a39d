//! Bytes to and from a server, encrypted or not.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use bytes::BytesMut;
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;
use tokio_util::io::poll_read_buf;

/// A connection's bytes.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    /// Over TCP, or over the TLS of a proxy.
    Tls(Box<TlsStream<Stream>>),
}

impl Stream {
    /// Reads up to this number of bytes; none at the end of the stream. While nothing comes, there
    /// is no buffer.
    pub(super) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        if let Self::Tcp(tcp) = self {
            ready!(tcp.poll_read_ready(cx))?;
        }
        // After less than it has room for, it waits without asking the system again.
        buffer.reserve(max);
        let read = poll_read_buf(Pin::new(self), cx, buffer);
        if read.is_pending() {
            release(buffer);
        }
        read
    }

    /// Returns `true` if the server neither closed the connection nor sent anything that was not asked for.
    pub(super) fn is_open(&mut self) -> bool {
        if let Self::Tls(_) = self {
            // A server may send what belongs to TLS at any time, such as tickets for the next connection.
            let mut byte = [0; 1];
            let mut cx = Context::from_waker(Waker::noop());
            if Pin::new(&mut *self).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_ready() {
                return false;
            }
        }
        let looked = SockRef::from(self.tcp()).peek(&mut [MaybeUninit::uninit()]);
        looked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Tcp(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0.tcp(),
        }
    }
}

/// Gives back the memory of a buffer that holds nothing.
fn release(buffer: &mut BytesMut) {
    if buffer.is_empty() {
        *buffer = BytesMut::new();
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Self::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
