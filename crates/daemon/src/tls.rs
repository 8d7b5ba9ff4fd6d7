//! Secrecy on the wire: TLS 1.3, and by what a user knows that it is the daemon.
//!
//! Signatures (`auth.rs`) prove both sides to each other already; TLS keeps what travels from those who listen. A daemon makes
//! itself a certificate, and its users are told its fingerprint, as part of its address: no authority is needed, and whoever
//! steals a user's key still cannot answer in the daemon's place. Or it has a certificate for its name by an authority that
//! its users trust. A user told to use TLS never speaks without it.

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    WantsVerifier,
};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use tokio::io::{AsyncRead, BufReader};

/// SHA-256 of a certificate, as `openssl x509 -fingerprint -sha256` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        let digest = digest(&SHA256, certificate);
        Self(std::array::from_fn(|at| digest.as_ref()[at]))
    }
}

impl FromStr for Fingerprint {
    type Err = ();

    /// 64 lower-case hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, ()> {
        let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
        let mut fingerprint = [0; 32];
        let pairs = text.as_bytes().chunks(2);
        if text.len() != 2 * fingerprint.len() {
            return Err(());
        }
        for (byte, pair) in fingerprint.iter_mut().zip(pairs) {
            *byte = (digit(pair[0]).ok_or(())? * 16 + digit(pair[1]).ok_or(())?) as u8;
        }
        Ok(Self(fingerprint))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// How a user knows the daemon's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Trust {
    /// It is this one.
    Certificate(Fingerprint),
    /// It is for the daemon's name, by an authority that this machine trusts.
    System,
    /// It is for the daemon's name, by an authority whose certificate is in this file.
    Authority(PathBuf),
}

/// What is no certificate, no key, or no file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {detail}")]
pub struct TlsError {
    place: String,
    detail: String,
}

fn failed(place: impl fmt::Display, detail: impl fmt::Display) -> TlsError {
    TlsError { place: place.to_string(), detail: detail.to_string() }
}

/// What a daemon proves itself with. Its key is not shown, not by `Debug` and not in an error.
pub struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({})", self.fingerprint())
    }
}

impl Certificate {
    /// A new key and its certificate by itself, as PEM for a file that only its owner reads.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn generate() -> Result<String, TlsError> {
        let refused = |error: rcgen::Error| failed("a new certificate", error);
        let key = rcgen::KeyPair::generate().map_err(refused)?;
        // Users know it by its fingerprint: its name and its dates say nothing.
        let certificate = rcgen::CertificateParams::new(vec!["weft-node".to_owned()]).map_err(refused)?;
        Ok(format!("{}{}", certificate.self_signed(&key).map_err(refused)?.pem(), key.serialize_pem()))
    }

    /// From PEM: a chain, the daemon's own certificate first, and its key, which may be in the same file.
    ///
    /// # Errors
    /// One of them is missing.
    pub fn open(chain: &Path, key: &Path) -> Result<Self, TlsError> {
        let refused = |error| failed(chain.display(), error);
        let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(chain).map_err(refused)?.collect();
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key.display(), error))?;
        Ok(Self { chain: chain.map_err(refused)?, key })
    }

    /// By what users know it.
    pub fn fingerprint(&self) -> Fingerprint {
        self.chain.first().map_or(Fingerprint([0; 32]), Fingerprint::of)
    }

    /// What serves with it.
    pub(super) fn server(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let refused = |error: rustls::Error| failed("the daemon's certificate", error);
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).map_err(refused)?;
        let config = builder.with_no_client_auth().with_single_cert(self.chain.clone(), self.key.clone_key());
        Ok(Arc::new(config.map_err(refused)?))
    }
}

/// Bytes that are received at once: rustls receives 4 KiB at a time, a quarter of a record.
const RECEIVE_BYTES: usize = 64 << 10;

/// A connection that TLS is spoken over.
pub(super) fn carrier<S: AsyncRead>(stream: S) -> BufReader<S> {
    BufReader::with_capacity(RECEIVE_BYTES, stream)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// What asks a daemon that is trusted so.
pub(super) fn client(trust: &Trust) -> Result<ClientConfig, TlsError> {
    let builder = client_builder();
    let mut roots = RootCertStore::empty();
    match trust {
        Trust::Certificate(fingerprint) => {
            let pinned = Pinned { fingerprint: *fingerprint, provider: provider() };
            let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(pinned));
            return Ok(builder.with_no_client_auth());
        }
        Trust::System => {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                return Err(failed("this machine", "it trusts no authority: install ca-certificates"));
            }
            roots.add_parsable_certificates(found.certs);
        }
        Trust::Authority(file) => {
            let refused = |error| failed(file.display(), error);
            for certificate in CertificateDer::pem_file_iter(file).map_err(refused)? {
                let certificate = certificate.map_err(refused)?;
                roots.add(certificate).map_err(|error| failed(file.display(), error))?;
            }
            if roots.is_empty() {
                return Err(failed(file.display(), "it holds no certificate"));
            }
        }
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Believes one certificate, whatever it says of itself; and that the other side has its key.
#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match Fingerprint::of(end_entity) == self.fingerprint {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn client_builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    let builder = ClientConfig::builder_with_provider(provider());
    builder.with_protocol_versions(&[&rustls::version::TLS13]).expect("the provider has TLS 1.3")
}

/// Why TLS is not spoken with the other side, if that is what went wrong.
pub(super) fn refusal(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    Some(match tls_error(error)? {
        rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            "its certificate has another fingerprint".to_owned()
        }
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is by no trusted authority; if it is its own, give the address that the daemon says"
                .to_owned()
        }
        rustls::Error::InvalidMessage(_) => {
            "it does not speak TLS; if its daemon was started without, give the address that it prints, weft://..."
                .to_owned()
        }
        other => other.to_string(),
    })
}

/// What TLS itself says, among the causes and within what they wrap.
fn tls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let wrapped = || error.downcast_ref::<std::io::Error>()?.get_ref().and_then(|inner| tls_error(inner));
    error.downcast_ref().or_else(wrapped).or_else(|| tls_error(error.source()?))
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
