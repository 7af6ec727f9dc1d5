//! Who a client is: the user on this node, or the address of another one.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use procfs::net::{TcpNetEntry, tcp, tcp6};

/// Who owns a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// A user id of this node.
    User(u32),
    /// Of another node, or of this one if `/proc/net/tcp` does not say whose.
    Address(IpAddr),
}

/// The owners of the connections from these addresses.
/// Reads `/proc/net/tcp`, which takes milliseconds on a node with thousands of connections.
pub(super) fn of(addresses: &[SocketAddr]) -> Vec<Peer> {
    let all = [tcp(), tcp6()].into_iter().flatten().flatten();
    let users: BTreeMap<SocketAddr, u32> =
        all.map(|TcpNetEntry { local_address, uid, .. }| (plain(local_address), uid)).collect();
    let owner = |address: &SocketAddr| match users.get(&plain(*address)) {
        Some(uid) if address.ip().to_canonical().is_loopback() => Peer::User(*uid),
        _ => Peer::Address(address.ip().to_canonical()),
    };
    addresses.iter().map(owner).collect()
}

/// An IPv4 address in IPv6's clothes is the same address.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getuid;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn peer_is_the_user_of_a_local_client() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (local, remote) = (client.local_addr().unwrap(), "192.0.2.7:40000".parse().unwrap());
        let own = Peer::User(getuid().as_raw());
        assert_eq!(of(&[local, remote]), [own, Peer::Address("192.0.2.7".parse().unwrap())]);
    }
}
