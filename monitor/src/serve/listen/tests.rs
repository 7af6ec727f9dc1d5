//! Users told apart, and the bound of what the kernel keeps.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use axum::routing::get;
use rustix::io::ioctl_fionread;

use super::*;

const PIECE: usize = 64 << 10;

#[test]
fn begin_bounds_what_the_kernel_keeps_of_a_response() {
    let n_made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&n_made);
    let piece = move || {
        count.fetch_add(PIECE, Ordering::Relaxed);
        Ok::<_, io::Error>(vec![7; PIECE])
    };
    let endless =
        move || async { Body::from_stream(tokio_stream::iter(std::iter::repeat_with(piece))) };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", get(endless));
    let _server = Server::begin(Listener::Tcp(listener), router).unwrap();

    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    const READ: usize = 64 << 20;
    client.read_exact(&mut vec![0; READ]).unwrap();
    // What the client's own socket has taken is none of the agent's.
    thread::sleep(Duration::from_secs(1));
    let taken = usize::try_from(ioctl_fionread(&client).unwrap()).unwrap();
    let ahead = n_made.load(Ordering::Relaxed).saturating_sub(READ + taken);
    assert!(ahead < 1 << 20, "{ahead} bytes are sent ahead");
}

/// Tells when it is dropped.
struct Ended(mpsc::Sender<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        // The test may have failed already.
        let _ = self.0.send(());
    }
}

#[test]
fn serve_ends_what_stands_still() {
    const SOON: Duration = Duration::from_secs(5);
    const AT_LAST: Duration = Duration::from_secs(25);
    let (to, unread_ended) = mpsc::channel();
    let endless = move || {
        let (to, piece) = (Ended(to.clone()), vec![7; PIECE]);
        let pieces = std::iter::repeat_with(move || {
            let _: &Ended = &to;
            Ok::<_, io::Error>(piece.clone())
        });
        async move { Body::from_stream(tokio_stream::iter(pieces)) }
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", get(endless));
    let _server = Server::begin(Listener::Tcp(listener), router).unwrap();

    let begun = clock::now().boot;
    let waited = || Duration::from_nanos(clock::now().boot.since(begun).0);
    let connect = |request: &str| {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        client
    };
    let mut half_asked = connect("GET / HTTP/1.1\r\nHost: local");
    let _unread = connect("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    half_asked.set_read_timeout(Some(AT_LAST)).unwrap();
    let left = half_asked.read(&mut [0; 1]);
    let is_over = match &left {
        Ok(n) => *n == 0,
        Err(why) => why.kind() == io::ErrorKind::ConnectionReset,
    };
    assert!(is_over && waited() > SOON, "half a request: {left:?}, {:?}", waited());
    let left = unread_ended.recv_timeout(AT_LAST);
    assert!(left.is_ok() && waited() > SOON, "an answer: {left:?}, {:?}", waited());
}

#[tokio::test]
async fn look_up_tells_users_apart_at_most_once_a_second() {
    let all = Connections::default();
    let link = |port| {
        let at = |port| ([127, 0, 0, 1], port).into();
        Link::Tcp { client: at(port), server: at(80) }
    };
    let enter = |port| all.enter(link(port), |_| tokio::spawn(async {}).abort_handle());
    let peers = || [0, 1, 2].map(|id| Client { link: link(1), id, all: all.clone() }.peer());
    let local = Peer::Address(std::net::Ipv4Addr::LOCALHOST.into());
    [1_001, 1_002].into_iter().for_each(enter);
    assert_eq!(peers(), [local; 3]);
    let users = |links: &[Link]| {
        let port = |link: &Link| match link {
            Link::Tcp { client, .. } => client.port(),
            Link::Unix { .. } => 0,
        };
        links.iter().map(|link| Peer::User(port(link).into())).collect()
    };
    lock(&all.0).look_up(users);
    enter(1_003);
    lock(&all.0).look_up(|_| panic!("asked a moment ago"));
    assert_eq!(peers(), [Peer::User(1_001), Peer::User(1_002), local]);
}
