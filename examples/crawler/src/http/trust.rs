//! Whom to trust in https.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};
use url::Url;

/// What all encrypted connections share: whom to trust.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Trusts the authorities that browsers trust. Of a PEM file, it trusts the authorities whose
    /// certificates stand there, and servers that show a certificate that stands there.
    ///
    /// # Errors
    ///
    /// What is wrong with that file.
    pub(crate) fn new(ca: Option<&Path>) -> Result<Tls, String> {
        let mut roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let config = match ca {
            None => config.with_root_certificates(roots),
            Some(path) => {
                let named = certificates(path)
                    .and_then(|named| add_authorities(&mut roots, &named).map(|()| named))
                    .map_err(|what| format!("{}: {what}", path.display()))?;
                let verifier = Verifier::new(named, roots, provider)?;
                config
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        Ok(Tls {
            config: Arc::new(config.with_no_client_auth()),
        })
    }

    /// The client of a connection to the server of a URL.
    pub(super) fn client(&self, url: &Url) -> io::Result<ClientConnection> {
        let host = url.host_str().unwrap_or_default();
        let name = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    let found: Result<Vec<_>, _> = found.collect();
    let found = found.map_err(|error| error.to_string())?;
    if found.is_empty() {
        return Err("it holds no certificate; name a file in PEM, as openssl writes it".into());
    }
    Ok(found)
}

fn add_authorities(
    roots: &mut RootCertStore,
    named: &[CertificateDer<'static>],
) -> Result<(), String> {
    for certificate in named {
        let added = roots.add(certificate.clone());
        added.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Trusts a server whose own certificate the user has named, and otherwise what authorities say.
///
/// A certificate that signs itself is no authority for itself: whoever checks chains refuses it.
/// The user who names it has decided already, so neither its issuer nor its dates are asked. The
/// server must still have its key, and the certificate must be for the name of the server.
#[derive(Debug)]
struct Verifier {
    named: Vec<CertificateDer<'static>>,
    authorities: Arc<WebPkiServerVerifier>,
}

impl Verifier {
    fn new(
        named: Vec<CertificateDer<'static>>,
        roots: RootCertStore,
        provider: Arc<CryptoProvider>,
    ) -> Result<Verifier, String> {
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let authorities = authorities.build().map_err(|error| error.to_string())?;
        Ok(Verifier { named, authorities })
    }
}

/// Whether a certificate is for this name, and why not.
fn check_name(
    certificate: &CertificateDer<'_>,
    name: &ServerName<'_>,
) -> Result<(), rustls::Error> {
    match verify_server_name(&ParsedCertificate::try_from(certificate)?, name) {
        Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext {
            expected,
            presented,
        })) if presented.is_empty() => {
            let host = expected.to_str();
            let kind = match expected {
                ServerName::IpAddress(_) => "IP",
                _ => "DNS",
            };
            Err(rustls::Error::General(format!(
                "the certificate of the server stands in the file of --ca, but names no host in a \
                 subjectAltName; make one with `openssl req -x509 -addext \
                 subjectAltName={kind}:{host} ...`"
            )))
        }
        result => result,
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.named.iter().any(|named| named == end_entity) {
            check_name(end_entity, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}
