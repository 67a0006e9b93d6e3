//! TLS of the connection to the broker, from the files that the configuration names.
//!
//! - A file error names its key, before any connect.
//! - A disk that hangs holds [`OWN_BUILDS`] and [`STEP_BUILDS`] threads at most, however often a
//!   session is tried.
//! - The broker's certificate is always checked; no switch turns the check off.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rumqttc::tokio_rustls::TlsConnector;
use rumqttc::tokio_rustls::rustls::crypto::ring;
use rumqttc::tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use rumqttc::tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rumqttc::tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use watchkeeper_config::ClientCert;

use super::broker::Broker;

/// A TLS configuration that can't be built; a retry does not help.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read.
    #[error("{key} {} can't be read: {source}", path.display())]
    Unreadable {
        /// Key of the configuration that names the file.
        key: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A file without the expected PEM section.
    #[error("{key} {} holds no {wanted} in PEM form", path.display())]
    Empty {
        /// Key of the configuration that names the file.
        key: &'static str,
        path: PathBuf,
        /// Expected PEM section.
        wanted: &'static str,
    },
    /// Certificate and key do not match, or are of an unsupported kind.
    #[error("mqtt.cert_file and mqtt.key_file can't be used together: {0}")]
    ClientCert(rustls::Error),
    /// The system has no certificate authorities.
    #[error("the system has no certificate authorities; set {key}")]
    SystemRoots {
        /// Key of the configuration that can name a file of authorities.
        key: &'static str,
    },
    /// The name of the broker can't be in a certificate.
    #[error("{key} = {host:?}: TLS needs a host name or an IP address")]
    Host {
        /// Key of the configuration that names the broker.
        key: &'static str,
        host: String,
    },
    /// The cryptography library rejects its own defaults.
    #[error("TLS can't be set up: {0}")]
    Library(rustls::Error),
}

/// Key of the authorities of the box's own broker.
const OWN_CA_FILE: &str = "mqtt.ca_file";

/// Threads that read files for the box's own broker at a time.
static OWN_BUILDS: Semaphore = Semaphore::const_new(1);
/// Threads that read files for the brokers of steps at a time.
static STEP_BUILDS: Semaphore = Semaphore::const_new(4);

/// Builds the configuration. It trusts the authorities in `ca_file`, which `ca_key` names, or else
/// the system's. It presents `client`, if any.
///
/// # Errors
/// Returns a [`TlsError`] for the first file that is unusable.
fn client_config(
    ca_key: &'static str,
    ca_file: Option<&Path>,
    client: Option<&ClientCert>,
) -> Result<ClientConfig, TlsError> {
    let roots = match ca_file {
        Some(path) => roots_of(ca_key, path)?,
        None => system_roots(ca_key)?,
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Library)?
        .with_root_certificates(roots);
    match client {
        Some(files) => {
            let certificates = certificates("mqtt.cert_file", &files.cert_file)?;
            let key = private_key("mqtt.key_file", &files.key_file)?;
            builder
                .with_client_auth_cert(certificates, key)
                .map_err(TlsError::ClientCert)
        }
        None => Ok(builder.with_no_client_auth()),
    }
}

/// A connection to a broker, with TLS or without.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for S {}

/// A handshake that failed below TLS: often the port does not speak it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct HandshakeFailed(io::Error);

/// Opens TLS on sockets to one broker.
#[derive(Clone)]
pub(super) struct Connector {
    tls: TlsConnector,
    host: ServerName<'static>,
}

/// Builds the connector of `broker` on a thread that may block: it reads files.
///
/// # Errors
/// A [`TlsError`] as the source, for the first file that is unusable, or for the host name.
pub(super) async fn connector(broker: Arc<Broker>) -> io::Result<Connector> {
    let builds = match broker.keys.ca_file {
        OWN_CA_FILE => &OWN_BUILDS,
        _ => &STEP_BUILDS,
    };
    // The thread holds the permit: its caller may give up before the disk answers.
    let permit = builds.acquire().await.map_err(io::Error::other)?;
    let build = move || {
        let built = build_connector(&broker);
        drop(permit);
        built
    };
    let built = tokio::task::spawn_blocking(build).await;
    built.map_err(io::Error::other)?.map_err(io::Error::other)
}

fn build_connector(broker: &Broker) -> Result<Connector, TlsError> {
    let config = client_config(
        broker.keys.ca_file,
        broker.settings.ca_file.as_deref(),
        broker.settings.client_cert.as_ref(),
    )?;
    let host = ServerName::try_from(broker.settings.host.clone()).map_err(|_| TlsError::Host {
        key: broker.keys.host,
        host: broker.settings.host.clone(),
    })?;
    Ok(Connector {
        tls: Arc::new(config).into(),
        host,
    })
}

impl Connector {
    /// Opens TLS on `socket`.
    ///
    /// # Errors
    /// Returns the error of TLS, or [`HandshakeFailed`] as its source.
    pub(super) async fn handshake(&self, socket: TcpStream) -> io::Result<impl Stream + use<>> {
        let handshake = self.tls.connect(self.host.clone(), socket);
        handshake.await.map_err(|error| {
            match error
                .get_ref()
                .is_some_and(|inner| inner.is::<rustls::Error>())
            {
                true => error,
                false => io::Error::other(HandshakeFailed(error)),
            }
        })
    }
}

/// Checks all files of the box's own broker without connecting.
pub fn problems(ca_file: Option<&Path>, client: Option<&ClientCert>) -> Vec<TlsError> {
    let of_client = client.map(|files| {
        [
            certificates("mqtt.cert_file", &files.cert_file).err(),
            private_key("mqtt.key_file", &files.key_file).err(),
        ]
    });
    let of_ca = ca_file.and_then(|path| roots_of(OWN_CA_FILE, path).err());
    let of_files = of_client.into_iter().flatten().chain([of_ca]);
    let found: Vec<TlsError> = of_files.flatten().collect();
    if found.is_empty() {
        // Each file is valid; check that they match.
        let own = client_config(OWN_CA_FILE, ca_file, client);
        return own.err().into_iter().collect();
    }
    found
}

fn roots_of(key: &'static str, path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(key, path)?);
    if roots.is_empty() {
        return Err(empty(key, path, "certificate"));
    }
    Ok(roots)
}

/// Authorities of the system. A single unreadable file is ignored; an empty set is an error.
fn system_roots(key: &'static str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TlsError::SystemRoots { key });
    }
    Ok(roots)
}

fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(key, path)?;
    match CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>() {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) | Err(_) => Err(empty(key, path, "certificate")),
    }
}

fn private_key(key: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(key, path)?;
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_: pem::Error| empty(key, path, "unencrypted private key"))
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable {
        key,
        path: path.to_path_buf(),
        source,
    })
}

fn empty(key: &'static str, path: &Path, wanted: &'static str) -> TlsError {
    TlsError::Empty {
        key,
        path: path.to_path_buf(),
        wanted,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::time::Duration;

    use watchkeeper_config::{CommandAccess, MqttConfig};

    use super::super::broker::Keys;
    use super::*;

    fn error_text(ca: Option<&Path>, client: Option<&ClientCert>) -> String {
        client_config(OWN_CA_FILE, ca, client)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn file_error_names_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent.pem");
        let junk = folder.path().join("junk.pem");
        std::fs::write(&junk, "not a certificate\n").unwrap();
        let text = error_text(Some(&absent), None);
        assert!(
            text.starts_with("mqtt.ca_file") && text.contains("can't be read"),
            "{text}"
        );
        let text = error_text(Some(&junk), None);
        assert!(
            text.starts_with("mqtt.ca_file") && text.contains("no certificate"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn file_that_hangs_holds_one_thread_however_often_it_is_tried() {
        let folder = tempfile::tempdir().unwrap();
        // Opening a pipe without a writer hangs.
        let pipe = folder.path().join("ca.pem");
        let modes = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, modes).unwrap();
        let settings = MqttConfig {
            commands: CommandAccess::Off,
            password_file: None,
            host: "b".to_owned(),
            port: 8883,
            client_id: "c".to_owned(),
            username: None,
            password: None,
            tls: true,
            ca_file: Some(pipe.clone()),
            client_cert: None,
            connect_timeout: Duration::from_secs(1),
            keep_alive: Duration::from_secs(30),
        };
        let keys = Keys::OWN;
        let broker = Arc::new(Broker { settings, keys });
        for _ in 0..3 {
            let connecting = connector(Arc::clone(&broker));
            assert!(futures_util::poll!(std::pin::pin!(connecting)).is_pending());
            assert_eq!(OWN_BUILDS.available_permits(), 0, "a thread waits");
        }
        let writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        drop(writer);
        drop(OWN_BUILDS.acquire().await.unwrap());
    }

    #[test]
    fn all_files_are_checked_after_a_first_error() {
        let folder = tempfile::tempdir().unwrap();
        let junk = folder.path().join("junk.pem");
        std::fs::write(&junk, "no PEM\n").unwrap();
        let client = ClientCert {
            cert_file: folder.path().join("absent.crt"),
            key_file: junk.clone(),
        };
        let found = problems(Some(&junk), Some(&client));
        let keys: Vec<String> = found.iter().map(|e| e.to_string()).collect();
        let begins = ["mqtt.cert_file", "mqtt.key_file", "mqtt.ca_file"];
        assert_eq!(keys.len(), begins.len(), "{keys:?}");
        assert!(
            keys.iter()
                .zip(begins)
                .all(|(text, key)| text.starts_with(key)),
            "{keys:?}"
        );
    }
}
