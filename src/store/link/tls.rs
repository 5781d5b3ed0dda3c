//! TLS as the application wants it: whom it trusts, and what it shows of itself.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::error::SettingError;
use crate::refusal::CERTIFICATES;

/// Whom TLS trusts, and what it shows of itself: for a certificate authority of one's own, and for servers that want to see a
/// certificate. Given to [`Builder::tls`](crate::Builder::tls).
///
/// Certificates and keys are in PEM. Files are read whenever a connection is made, so that what was replaced there is used by the
/// next one. What cannot be read then is told in the [state](crate::observe::GuardState::trouble), and tried again.
///
/// Its `Debug` form shows paths, and nothing of what was given as bytes.
///
/// ```
/// use bloom_guard::access::TlsSettings;
/// use bloom_guard::{BloomGuard, PathPattern};
///
/// let tls = TlsSettings::new()
///     .root_certificates_file("/etc/redis/ca.pem")
///     .client_certificate_files("/etc/redis/client.pem", "/etc/redis/client.key");
/// let guard = BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}")?)
///     .redis("rediss://redis.internal:6379")
///     .tls(tls)
///     .build()?;
/// # Ok::<(), bloom_guard::BoxError>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "it does nothing until it is given to a builder"]
pub struct TlsSettings {
    roots: Option<Pem>,
    /// A chain, and the key to its first certificate.
    client: Option<(Pem, Pem)>,
}

impl TlsSettings {
    /// Returns settings that trust the system's root certificates, and show none.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these root certificates, and not the system's.
    pub fn root_certificates_pem(self, pem: impl AsRef<[u8]>) -> Self {
        Self { roots: Some(Pem::held(pem)), ..self }
    }

    /// Trusts the root certificates in this file, and not the system's.
    pub fn root_certificates_file(self, path: impl Into<PathBuf>) -> Self {
        Self { roots: Some(Pem::File(path.into())), ..self }
    }

    /// Shows this certificate, which the certificates that lead to its authority follow, and proves it by this key: PKCS #8, PKCS #1
    /// or SEC 1, not encrypted.
    pub fn client_certificate_pem(self, chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        Self { client: Some((Pem::held(chain), Pem::held(key))), ..self }
    }

    /// The same from files. Where a connection is made between the replacing of one and of the other, it fails, and is tried again.
    pub fn client_certificate_files(
        self,
        chain: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        Self { client: Some((Pem::File(chain.into()), Pem::File(key.into()))), ..self }
    }

    /// Says what is wrong with what was given as bytes.
    pub(super) fn judge(&self) -> Result<(), SettingError> {
        let wrong =
            |error: io::Error| SettingError::Invalid { setting: "tls", reason: error.to_string() };
        if let Some(Pem::Held(_)) = self.roots {
            self.roots().map_err(wrong)?;
        }
        if let Some((Pem::Held(_), _)) = self.client {
            self.with_roots(RootCertStore::empty()).map_err(wrong)?;
        }
        Ok(())
    }

    /// Returns how a connection is made now. Reads files.
    pub(super) fn config(&self) -> io::Result<ClientConfig> {
        self.with_roots(self.roots()?)
    }

    fn with_roots(&self, roots: RootCertStore) -> io::Result<ClientConfig> {
        // Where several are compiled in, rustls would panic if the application has chosen none.
        let provider = CryptoProvider::get_default().cloned();
        let provider = provider.unwrap_or_else(|| Arc::new(ring::default_provider()));
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let config = config.with_root_certificates(roots);
        let Some((chain, key)) = &self.client else { return Ok(config.with_no_client_auth()) };
        let certificates = chain.certificates()?;
        let key = key.key()?;
        let unfit = |error| chain.unfit(format_args!("it cannot be used with its key: {error}"));
        config.with_client_auth_cert(certificates, key).map_err(unfit)
    }

    fn roots(&self) -> io::Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        if let Some(own) = &self.roots {
            for certificate in own.certificates()? {
                roots.add(certificate).map_err(|error| own.unfit(error))?;
            }
            return Ok(roots);
        }
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        match found.errors.into_iter().next() {
            Some(error) if roots.is_empty() => Err(io::Error::other(error)),
            _ => Ok(roots),
        }
    }
}

/// Where certificates or a key are.
#[derive(Clone)]
enum Pem {
    Held(Arc<[u8]>),
    File(PathBuf),
}

impl Pem {
    fn held(pem: impl AsRef<[u8]>) -> Self {
        Self::Held(pem.as_ref().into())
    }

    fn certificates(&self) -> io::Result<Vec<CertificateDer<'static>>> {
        let pem = self.read()?;
        let found: Result<Vec<_>, Error> = CertificateDer::pem_slice_iter(&pem).collect();
        match found {
            Ok(found) if found.is_empty() => Err(self.unfit("there is no certificate")),
            found => found.map_err(|error| self.unfit(error)),
        }
    }

    fn key(&self) -> io::Result<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(&self.read()?).map_err(|error| match error {
            Error::NoItemsFound => self.unfit("there is no private key"),
            error => self.unfit(error),
        })
    }

    fn read(&self) -> io::Result<Arc<[u8]>> {
        match self {
            Self::Held(pem) => Ok(Arc::clone(pem)),
            Self::File(path) => Ok(std::fs::read(path).map_err(|error| self.unfit(error))?.into()),
        }
    }

    fn unfit(&self, why: impl fmt::Display) -> io::Error {
        io::Error::other(format!("{CERTIFICATES} are not to be had: {self:?}: {why}"))
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(_) => f.write_str("what was given as bytes"),
            Self::File(path) => path.fmt(f),
        }
    }
}
