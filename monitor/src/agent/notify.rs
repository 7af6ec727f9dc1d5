//! Tells the service manager how the agent is: ready, alive, reloading, leaving.
//! Source: sd_notify(3). A datagram to the socket that `NOTIFY_SOCKET` names; where there is none,
//! nobody asked.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::clock;

/// The way to the service manager.
#[derive(Debug, Default)]
pub(super) struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    is_ready: bool,
}

impl Notify {
    /// To whoever started this process, if they want to be told.
    pub(super) fn from_environment() -> Self {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Self::default() };
        let to = open(&name).inspect_err(|why| {
            tracing::warn!("the service manager hears nothing: NOTIFY_SOCKET={name:?}: {why}");
        });
        Self { to: to.ok(), is_ready: false }
    }

    /// A tick was completed: it lives and, from the first one on, is ready.
    pub(super) fn ticked(&mut self, status: &str) {
        // A line end would begin another assignment.
        let status = status.replace('\n', " ");
        match self.is_ready {
            true => self.send(&format!("WATCHDOG=1\nSTATUS={status}")),
            false => self.send(&format!("READY=1\nWATCHDOG=1\nSTATUS={status}")),
        }
        self.is_ready = true;
    }

    /// The configuration is being read again. The next tick is ready to go by it.
    pub(super) fn reloading(&mut self) {
        let now = clock::monotonic().0 / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now}"));
        self.is_ready = false;
    }

    /// The end has begun.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// What cannot be told is not waited for: the watchdog draws its own conclusions.
    fn send(&self, text: &str) {
        if let Some((socket, to)) = &self.to
            && let Err(why) = socket.send_to_addr(text.as_bytes(), to)
        {
            tracing::debug!("the service manager was not told: {why}");
        }
    }
}

/// `@` stands for the zero byte that an abstract name begins with.
fn open(name: &OsString) -> io::Result<(UnixDatagram, SocketAddr)> {
    let to = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_names_are_reached_and_one_without_a_listener_is_no_trouble() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let abstract_name = format!("isobar-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        #[rustfmt::skip]
        let table = [
            // name, who listens there
            (path.clone().into_os_string(),     UnixDatagram::bind(&path).unwrap()),
            (format!("@{abstract_name}").into(), UnixDatagram::bind_addr(&address).unwrap()),
        ];
        for (name, listener) in table {
            let mut notify = Notify { to: Some(open(&name).unwrap()), is_ready: false };
            notify.ticked("calm\nMAINPID=1");
            notify.ticked("calm");
            notify.stopping();
            let mut told = Vec::new();
            for _ in 0..3 {
                let mut buffer = [0; 256];
                let n = listener.recv(&mut buffer).unwrap();
                told.push(String::from_utf8_lossy(&buffer[..n]).into_owned());
            }
            let want = [
                "READY=1\nWATCHDOG=1\nSTATUS=calm MAINPID=1",
                "WATCHDOG=1\nSTATUS=calm",
                "STOPPING=1",
            ];
            assert_eq!(told, want, "{name:?}");
            drop(listener);
            notify.stopping();
        }
    }
}
