//! Who opened a connection, as far as the system knows.

use std::net::IpAddr;

use axum::serve::Listener;
use tokio::net::{TcpListener, UnixListener};

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A process on this machine, by the credentials of its Unix socket.
    Process {
        uid: u32,
        /// Absent if the system does not report it.
        pid: Option<i32>,
    },
    /// A TCP client.
    Address(IpAddr),
    /// The system does not report it.
    Unknown,
}

/// A listener that names the peer of an accepted connection.
pub trait NamesPeers: Listener {
    fn peer(io: &Self::Io, address: &Self::Addr) -> Peer;
}

impl NamesPeers for UnixListener {
    fn peer(io: &Self::Io, _: &Self::Addr) -> Peer {
        io.peer_cred().map_or(Peer::Unknown, |peer| Peer::Process {
            uid: peer.uid(),
            pid: peer.pid(),
        })
    }
}

impl NamesPeers for TcpListener {
    fn peer(_: &Self::Io, address: &Self::Addr) -> Peer {
        Peer::Address(address.ip())
    }
}
