//! Who a client is: the user on this node, or the address of another one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use procfs::net::{TcpNetEntry, TcpState, tcp, tcp6};

/// Who owns a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// A user id of this node.
    User(u32),
    /// Of another node, or of this one if `/proc/net/tcp` does not say whose.
    Address(IpAddr),
}

/// Both ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Tcp {
        client: SocketAddr,
        server: SocketAddr,
    },
    /// A socket file: the kernel says who connected.
    Unix {
        uid: u32,
    },
}

/// What counts as one client until its owner is looked up: any process has all of 127.0.0.0/8 to itself.
pub(super) fn origin(link: Link) -> Peer {
    let client = match link {
        Link::Unix { uid } => return Peer::User(uid),
        Link::Tcp { client, .. } => client.ip().to_canonical(),
    };
    Peer::Address(if client.is_loopback() { Ipv4Addr::LOCALHOST.into() } else { client })
}

/// Whether its owner can be looked up.
pub(super) fn is_of_this_node(link: Link) -> bool {
    matches!(link, Link::Tcp { client, .. } if client.ip().to_canonical().is_loopback())
}

/// The owners of these connections.
/// Reads `/proc/net/tcp`, which takes milliseconds on a node with thousands of connections.
pub(super) fn of(links: &[Link]) -> Vec<Peer> {
    let all = [tcp(), tcp6()].into_iter().flatten().flatten();
    let open = all.filter(|entry| entry.state == TcpState::Established);
    let ends = |entry: &TcpNetEntry| (plain(entry.local_address), plain(entry.remote_address));
    let users: BTreeMap<_, u32> = open.map(|entry| (ends(&entry), entry.uid)).collect();
    let owner = |link: &Link| match *link {
        Link::Unix { uid } => Peer::User(uid),
        Link::Tcp { client, server } => {
            let uid = users.get(&(plain(client), plain(server)));
            let uid = uid.filter(|_| is_of_this_node(*link));
            uid.map_or_else(|| origin(*link), |uid| Peer::User(*uid))
        }
    };
    links.iter().map(owner).collect()
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
        let server = listener.local_addr().unwrap();
        let (local, remote) = (client.local_addr().unwrap(), "192.0.2.7:40000".parse().unwrap());
        let own = Peer::User(getuid().as_raw());
        let link = |client, server| Link::Tcp { client, server };
        let links = [link(local, server), link(remote, server), link(local, remote)];
        let got = of(&[&links[..], &[Link::Unix { uid: 7 }]].concat());
        let [there, here] = ["192.0.2.7", "127.0.0.1"].map(|ip| Peer::Address(ip.parse().unwrap()));
        assert_eq!(got, [own, there, here, Peer::User(7)]);
    }
}
