//! Two sites: a program that starts itself a second time and talks with it over TCP.
//!
//! The first process listens on the loopback address. The second one gets this address as an argument,
//! connects, and writes the address from which it has connected to its standard output. The first
//! process takes only that connection. If the second one fails earlier, its output ends, and the first one
//! does not wait for it.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::wire::Link;
use crate::{Error, Options, Result};

/// A site that is silent for so long is gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// The other process, and the line to it.
#[derive(Debug)]
pub struct OtherSite {
    /// The line to it.
    pub link: Link<TcpStream>,
    process: Child,
}

impl OtherSite {
    /// Starts this program with the same seed and size, the option and its address, and more arguments.
    ///
    /// # Errors
    ///
    /// If it does not start, or ends before it has connected.
    pub fn start(option: &str, options: &Options, more: Vec<OsString>) -> Result<OtherSite> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args([option, &listener.local_addr()?.to_string()]);
        command.args(["--seed", &options.seed.to_string()]);
        command.args(options.small.then_some("--small")).args(more);
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(out) = process.stdout.take() {
            BufReader::new(out.take(100)).read_line(&mut line)?;
        }
        let Ok(expected) = line.trim().parse::<SocketAddr>() else {
            process.wait()?;
            return Err(Error::Other(
                "the other site did not start; its error is above".into(),
            ));
        };
        loop {
            let (stream, from) = listener.accept()?;
            if from == expected {
                let link = link_of(stream)?;
                return Ok(OtherSite { link, process });
            }
        }
    }

    /// Waits for the end of the other process.
    ///
    /// # Errors
    ///
    /// If it failed.
    pub fn wait(mut self) -> Result<()> {
        let status = self.process.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(Error::Other(format!("the other site: {status}").into())),
        }
    }
}

/// Connects the other process to the first one.
///
/// # Errors
///
/// If no process listens there.
pub fn connect(address: SocketAddr) -> Result<Link<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    let mut out = io::stdout();
    writeln!(out, "{}", stream.local_addr()?)?;
    out.flush()?;
    link_of(stream)
}

fn link_of(stream: TcpStream) -> Result<Link<TcpStream>> {
    // Small messages are not held back until they fill a packet.
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(Link::new(stream))
}
