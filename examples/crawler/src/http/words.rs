//! Trouble with a connection in plain words: nobody should have to look up a number.

use std::fmt;
use std::io::{self, ErrorKind};
use std::time::Duration;

use common::escape::Plain;
use rustls::CertificateError;

/// Most characters of a name from the network that are shown.
const NAME_CHARACTERS_MAX: usize = 40;

/// The error of a server that said nothing for so long.
pub(super) fn silent(silence: Duration) -> io::Error {
    let what = format!("the server was silent for {} s", silence.as_secs_f64());
    io::Error::new(ErrorKind::TimedOut, what)
}

/// Whether the system gave up waiting. Sockets say so in two ways.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// The error as a sentence.
pub(super) fn plain(error: &io::Error) -> String {
    if let Some(inner) = error.get_ref()
        && let Some(error) = inner.downcast_ref::<rustls::Error>()
    {
        return of_tls(error);
    }
    let words = match error.kind() {
        ErrorKind::UnexpectedEof => "the connection ended before the answer did",
        // A sentence of our own.
        _ if error.get_ref().is_some() => return error.to_string(),
        ErrorKind::ConnectionRefused => "the connection was refused",
        ErrorKind::ConnectionReset => "the server reset the connection",
        ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => "the server closed the connection",
        ErrorKind::HostUnreachable => "there is no way to the host",
        ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => "there is no way to its network",
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "the server was silent for too long",
        _ => return without_number(error),
    };
    words.to_owned()
}

/// The words of the system alone.
fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error ").next().unwrap_or_default();
    words.to_owned()
}

fn of_tls(error: &rustls::Error) -> String {
    // What is said of a certificate that signs itself.
    const SELF_SIGNED: &str = "CaUsedAsEndEntity";
    let untrusted = match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => "UnknownIssuer",
        other if other.to_string().contains(SELF_SIGNED) => SELF_SIGNED,
        _ => "",
    };
    if !untrusted.is_empty() {
        return format!(
            "the server's certificate is not from an authority that is trusted ({untrusted}); \
             name it or its authority with --ca"
        );
    }
    match error {
        rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            "the server does not speak https on this port".into()
        }
        rustls::Error::General(what) => what.clone(),
        other => other.to_string(),
    }
}

/// A name from the network, short and safe to show.
pub(super) struct Named<'a>(pub(super) &'a str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.char_indices().nth(NAME_CHARACTERS_MAX);
        let end = end.map_or(self.0.len(), |(end, _)| end);
        write!(f, "\"{}\"", Plain(&self.0[..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: &io::Error, expected: &str) {
        assert_eq!(plain(error), expected);
    }

    #[test]
    fn the_common_kinds() {
        let kind = |kind: ErrorKind| io::Error::from(kind);
        let system = io::Error::from_raw_os_error;
        check(
            &silent(Duration::from_secs(20)),
            "the server was silent for 20 s",
        );
        check(
            &silent(Duration::from_millis(50)),
            "the server was silent for 0.05 s",
        );
        check(
            &kind(ErrorKind::ConnectionRefused),
            "the connection was refused",
        );
        check(
            &kind(ErrorKind::ConnectionReset),
            "the server reset the connection",
        );
        check(
            &kind(ErrorKind::BrokenPipe),
            "the server closed the connection",
        );
        check(
            &kind(ErrorKind::WouldBlock),
            "the server was silent for too long",
        );
        check(&system(104), "the server reset the connection");
        check(&system(113), "there is no way to the host");
        check(&system(24), "Too many open files");
        check(&io::Error::other("a sentence"), "a sentence");
        let end = io::Error::new(ErrorKind::UnexpectedEof, "tls handshake eof");
        check(&end, "the connection ended before the answer did");
    }

    #[test]
    fn errors_of_https() {
        let error = |error: rustls::Error| io::Error::new(ErrorKind::InvalidData, error);
        let issuer = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert!(plain(&error(issuer)).ends_with("with --ca"));
        let expired = rustls::Error::InvalidCertificate(CertificateError::Expired);
        assert!(plain(&error(expired)).contains("Expired"));
        check(
            &error(rustls::Error::General("a sentence".into())),
            "a sentence",
        );
        let plain_http = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        check(
            &error(plain_http),
            "the server does not speak https on this port",
        );
    }

    #[test]
    fn names_from_the_network() {
        assert_eq!(Named("b\u{1b}r").to_string(), "\"b\\u{1b}r\"");
        assert_eq!(Named(&"ä".repeat(99)).to_string().chars().count(), 42);
    }
}
