//! Where the agent listens: an address and a port, or a socket file for the users of this node.

use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Before the path of a socket file.
const UNIX: &str = "unix:";
/// Owner and group may connect.
const MODE: u32 = 0o660;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// What accepts connections there.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(UNIX).map(Path::new) {
            Some(path) if path.is_absolute() => Ok(Self::Unix(path.into())),
            Some(_) => {
                Err("the path of a socket must be absolute: unix:/run/isobar/api.sock".into())
            }
            None => {
                let port = text.strip_prefix("localhost:");
                let local = port.map(|port| format!("{}:{port}", Ipv4Addr::LOCALHOST));
                Ok(Self::Tcp(local.as_deref().unwrap_or(text).parse().map_err(|_| {
                    "expected an address and a port, as 127.0.0.1:9797, or unix:/run/isobar/api.sock"
                })?))
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl Address {
    /// No other host can connect.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

/// Listens on a socket file. One whose agent is gone is replaced.
///
/// # Errors
/// `AddrInUse` if a process listens there, `AlreadyExists` if another kind of file is there.
pub fn listen_on(path: &Path) -> io::Result<UnixListener> {
    let listener = match UnixListener::bind(path) {
        Err(why) if why.kind() == ErrorKind::AddrInUse => {
            remove_stale(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    // Until here only its owner could write, and so connect, with any sensible umask.
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Removes a socket that no process listens on.
fn remove_stale(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "a file is there that is no socket"));
    }
    match UnixStream::connect(path) {
        Err(why) if why.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(why) => Err(why),
        Ok(_) => Err(ErrorKind::AddrInUse.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_reads_what_it_prints() {
        #[rustfmt::skip]
        let table = [
            // text, local
            ("127.0.0.1:9797",             Some(true)),
            ("[::1]:9797",                 Some(true)),
            ("[::ffff:127.0.0.1]:9797",    Some(true)),
            ("0.0.0.0:9797",               Some(false)),
            ("unix:/run/isobar/api.sock",  Some(true)),
            ("unix:api.sock",              None),
            ("unix:",                      None),
            ("/run/isobar/api.sock",       None),
            ("localhost:",                 None),
            ("example.org:9797",           None),
        ];
        for (text, local) in table {
            let read = text.parse::<Address>();
            assert_eq!(read.as_ref().ok().map(Address::is_local), local, "{text}");
            let printed = read.map(|address| address.to_string());
            assert_eq!(printed.ok().as_deref(), local.map(|_| text), "{text}");
        }
        assert_eq!("localhost:9797".parse::<Address>(), "127.0.0.1:9797".parse());
    }

    #[test]
    fn listen_on_replaces_the_socket_of_a_dead_agent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api.sock");
        let first = listen_on(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        let taken = listen_on(&path).map_err(|why| why.kind());
        assert_eq!(taken.err(), Some(ErrorKind::AddrInUse), "it lives");
        UnixStream::connect(&path).unwrap();
        drop(first);
        let _second = listen_on(&path).unwrap();
        UnixStream::connect(&path).unwrap();

        let file = dir.path().join("file");
        fs::write(&file, "of another program").unwrap();
        let other = listen_on(&file).map_err(|why| why.kind());
        assert_eq!(other.err(), Some(ErrorKind::AlreadyExists));
        assert_eq!(fs::read(&file).unwrap(), b"of another program");
    }
}
