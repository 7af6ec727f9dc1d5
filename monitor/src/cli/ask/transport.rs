//! One request to an agent, over TCP or its socket file.

use std::io::{self, ErrorKind, Read, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use isobar::serve::address::Address;

/// An answer over loopback takes milliseconds; an agent that needs longer is overloaded.
const PATIENCE: Duration = Duration::from_secs(5);
/// For a moment of the past an agent replays its recording, or has refused after 30 s of waiting for others
/// (docs/api.md).
const OF_THE_PAST: Duration = Duration::from_secs(60);
/// The file of an incident may come through a tunnel.
pub(super) const OF_BODY: Duration = Duration::from_secs(60);
/// A node of 10,000 cgroups makes some 20 MB; more than this is not an answer of an agent.
const LARGEST: u64 = 256 << 20;

/// The status of an answer, and its body.
type Reply = (u16, Vec<u8>);

/// How long an answer to this path is waited for.
pub(super) fn patience(path: &str) -> Duration {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let is_moment =
        |parameter: &str| ["at=", "begin="].iter().any(|name| parameter.starts_with(name));
    let is_recorded =
        ["/api/v1/recording", "/api/v1/incidents"].iter().any(|of| path.starts_with(of));
    if is_recorded || query.split('&').any(is_moment) { OF_THE_PAST } else { PATIENCE }
}

/// What the agent answers; `None` if none listens there.
pub(super) fn get(address: &Address, path: &str) -> Result<Option<Reply>> {
    let within = patience(path);
    // An agent that is held up does not get the time that a moment of the past may take.
    if within > PATIENCE && get(address, "/livez")?.is_none() {
        return Ok(None);
    }
    let reply = match address {
        Address::Tcp(at) => over_tcp(*at, path, within),
        Address::Unix(file) => over_unix(file, path, within),
    };
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(why) => match why.kind() {
            kind if is_absent(address, kind) => Ok(None),
            ErrorKind::TimedOut | ErrorKind::WouldBlock => bail!(
                "the agent on {address} did not answer within {} s; it may still be starting, or be \
                 stopped or overloaded",
                within.as_secs()
            ),
            _ => Err(why).with_context(|| format!("cannot ask the agent on {address}")),
        },
    }
}

/// True if a failure of this kind says that no agent listens there.
fn is_absent(address: &Address, kind: ErrorKind) -> bool {
    use ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, NotFound};
    match (address, kind) {
        (_, ConnectionRefused) | (Address::Unix(_), NotFound) => true,
        // In a network namespace whose `lo` is down. The agent of another machine may well listen.
        (Address::Tcp(at), HostUnreachable | NetworkUnreachable) => at.ip().is_loopback(),
        _ => false,
    }
}

fn over_tcp(at: SocketAddr, path: &str, within: Duration) -> io::Result<Reply> {
    let config = ureq::Agent::config_builder().proxy(None);
    let config = config.timeout_connect(Some(PATIENCE)).timeout_recv_response(Some(within));
    let config = config.timeout_recv_body(Some(OF_BODY));
    let client: ureq::Agent = config.http_status_as_error(false).build().into();
    let answer = client.get(format!("http://{at}{path}")).call();
    let mut answer = answer.map_err(|why| match why {
        ureq::Error::ConnectionFailed => ErrorKind::ConnectionRefused.into(),
        ureq::Error::Timeout(_) => ErrorKind::TimedOut.into(),
        why => why.into_io(),
    })?;
    let mut body = Vec::new();
    answer.body_mut().as_reader().take(LARGEST).read_to_end(&mut body)?;
    Ok((answer.status().as_u16(), body))
}

/// By HTTP/1.0, in which an answer ends with the connection: no length and no chunks to read.
fn over_unix(file: &Path, path: &str, within: Duration) -> io::Result<Reply> {
    let mut socket = UnixStream::connect(file)?;
    socket.set_read_timeout(Some(within))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    write!(socket, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = Vec::new();
    socket.take(LARGEST).read_to_end(&mut answer)?;
    parsed(&answer)?.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "this is not HTTP"))
}

/// `None` if it is not HTTP.
///
/// # Errors
/// If the agent ended it before its length was reached.
fn parsed(answer: &[u8]) -> io::Result<Option<Reply>> {
    const BLANK: &[u8] = b"\r\n\r\n";
    let whole = || {
        let end = answer.windows(BLANK.len()).position(|bytes| bytes == BLANK)?;
        let head = str::from_utf8(&answer[..end]).ok()?;
        let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
        let fields = head.lines().filter_map(|line| line.split_once(':'));
        let mut length = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length = length.find_map(|(_, n)| n.trim().parse::<usize>().ok());
        Some((status, answer[end + BLANK.len()..].to_vec(), length))
    };
    match whole() {
        Some((_, body, Some(length))) if body.len() < length => {
            Err(io::Error::new(ErrorKind::UnexpectedEof, "the answer ends before its end"))
        }
        whole => Ok(whole.map(|(status, body, _)| (status, body))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_longer_for_the_past() {
        #[rustfmt::skip]
        let table = [
            ("/api/v1/snapshot",                      PATIENCE),
            ("/api/v1/snapshot?at=now&then=next",     OF_THE_PAST),
            ("/api/v1/rank?resource=memory&at=-10m",  OF_THE_PAST),
            ("/api/v1/what-if?begin=-10m",            OF_THE_PAST),
            ("/api/v1/recording",                     OF_THE_PAST),
            ("/api/v1/incidents?limit=1",             OF_THE_PAST),
            ("/api/v1/history?format=json",           PATIENCE),
        ];
        for (path, want) in table {
            assert_eq!(patience(path), want, "{path}");
        }
    }

    #[test]
    fn is_absent_of_each_kind_of_failure() {
        use ErrorKind as Kind;
        #[rustfmt::skip]
        let table = [
            // failure, of loopback, of another machine, of a socket file
            (Kind::ConnectionRefused,  true,  true,  true),
            (Kind::NetworkUnreachable, true,  false, false),
            (Kind::HostUnreachable,    true,  false, false),
            (Kind::AddrNotAvailable,   false, false, false), // no port is free
            (Kind::NotFound,           false, false, true),
            (Kind::PermissionDenied,   false, false, false),
            (Kind::TimedOut,           false, false, false),
            (Kind::ConnectionReset,    false, false, false),
        ];
        for (kind, loopback, machine, file) in table {
            let cases = [
                ("127.0.0.1:1", loopback),
                ("[::1]:1", loopback),
                ("192.0.2.1:1", machine),
                ("unix:/run/a", file),
            ];
            for (address, want) in cases {
                assert_eq!(is_absent(&address.parse().unwrap(), kind), want, "{kind:?} {address}");
            }
        }
    }

    #[test]
    fn parsed_answers() {
        #[rustfmt::skip]
        let table: [(&str, Option<(u16, &str)>); 8] = [
            // answer, status and body
            ("HTTP/1.0 200 OK\r\na: b\r\n\r\n{}\r\n\r\n", Some((200, "{}\r\n\r\n"))),
            ("HTTP/1.1 503 \r\n\r\n",                    Some((503, ""))),
            ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", Some((200, "{}"))),
            ("HTTP/1.0 200 OK\r\ncontent-length:0\r\n\r\n", Some((200, ""))),
            ("HTTP/1.0 200 OK\r\n",                       None),
            ("HTTP/2 200\r\n\r\n",                       None),
            ("hello\r\n\r\n",                            None),
            ("",                                          None),
        ];
        for (answer, want) in table {
            let want = want.map(|(status, body)| (status, body.as_bytes().to_vec()));
            assert_eq!(parsed(answer.as_bytes()).unwrap(), want, "{answer:?}");
        }
        let cut = parsed(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n{}").unwrap_err();
        assert_eq!(cut.kind(), ErrorKind::UnexpectedEof);
    }
}
