//! Network buffers that grow: data which a program receives and does not read.

use std::io::{ErrorKind, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use serde_json::{Value, json};

use super::Until;

/// What one connection may hold that was not read.
const EACH: usize = 8 << 20;

/// Send over loopback what is never read. All of it is the kernel's memory, at most as much as
/// net.ipv4.tcp_mem allows.
#[derive(clap::Args)]
pub(super) struct Sockets {
    /// So much data.
    #[arg(long)]
    mib: usize,
    /// By so much a second.
    #[arg(long)]
    step_mib_per_s: usize,
}

impl Sockets {
    pub(super) fn work(&self, until: &Until) -> Result<Value> {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on loopback")?;
        set_socket_recv_buffer_size_force(&listener, EACH).context("cannot have large buffers")?;
        let block = [0x5a; 64 << 10];
        let (mut pairs, mut sent): (Vec<(TcpStream, TcpStream)>, usize) = (Vec::new(), 0);
        while until.goes_on() {
            let due = until.since.elapsed().as_millis() as usize * self.step_mib_per_s / 1_000;
            if sent >= due.min(self.mib) << 20 {
                thread::sleep(Duration::from_millis(10));
                continue;
            }
            let result = pairs.last_mut().map(|(from, _)| from.write(&block));
            match result {
                Some(Ok(n)) => sent += n,
                Some(Err(why)) if why.kind() != ErrorKind::WouldBlock => return Err(why.into()),
                // Full, or the first.
                _ => {
                    let from = TcpStream::connect(listener.local_addr()?)?;
                    from.set_nonblocking(true)?;
                    pairs.push((from, listener.accept()?.0));
                }
            }
        }
        Ok(json!({ "load": "sockets", "mib": sent >> 20, "connections": pairs.len() }))
    }
}
