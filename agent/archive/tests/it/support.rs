//! Archives in temporary folders, a memcached that can be killed, and their tiers.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use secrecy::SecretString;
use watchkeeper_archive::memcached::MemcachedTier;
use watchkeeper_archive::s3::{S3Access, S3Settings, S3Tier};
use watchkeeper_archive::{Archive, EntryName, Limits, NewEntry, Settings, Tier};

use crate::s3_server::{ACCESS_KEY, SECRET_KEY, free_port};
pub(crate) use crate::s3_server::{BUCKET, S3Server};

pub(crate) fn name(text: &str) -> EntryName {
    text.parse().unwrap()
}

pub(crate) fn new(text: &str) -> NewEntry {
    NewEntry::named(name(text))
}

pub(crate) fn settings(folder: &Path) -> Settings {
    Settings {
        folder: folder.to_owned(),
        limits: Limits::default(),
        memory_bytes: 1 << 20,
        shared: None,
        objects: None,
    }
}

/// Settings with an object tier and no fast tier.
pub(crate) fn with_objects(folder: &Path, server: &S3Server) -> Settings {
    let mut settings = settings(folder);
    settings.memory_bytes = 0;
    settings.objects = Some(S3Server::tier(&[server.address]));
    settings
}

pub(crate) fn open(settings: Settings) -> Archive {
    Archive::open(settings).unwrap().0
}

pub(crate) async fn ingest(archive: &Archive, text: &str, content: &[u8]) {
    let content = Bytes::copy_from_slice(content);
    archive.ingest_bytes(content, new(text)).await.unwrap();
}

/// Returns the content of an entry and the tier that had it.
pub(crate) async fn read(archive: &Archive, text: &str) -> (&'static str, Vec<u8>) {
    use std::io::Read as _;
    use watchkeeper_archive::Body;
    let found = archive.retrieve(&name(text), false).await.unwrap();
    let content = match found.body {
        Body::Bytes(content) => content.to_vec(),
        Body::File(mut file) => {
            let mut content = Vec::new();
            file.read_to_end(&mut content).unwrap();
            content
        }
        Body::Media(id) => id.into_bytes(),
    };
    (found.tier, content)
}

/// Waits until `is_done` returns true.
pub(crate) async fn wait_for<F: Future<Output = bool>>(what: &str, mut is_done: impl FnMut() -> F) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_done().await {
        assert!(Instant::now() < until, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A memcached of Debian; killed when it is dropped.
pub(crate) struct Memcached {
    child: Child,
    pub(crate) address: String,
}

impl Memcached {
    pub(crate) fn start() -> Self {
        Self::start_at(free_port())
    }

    pub(crate) fn start_at(port: u16) -> Self {
        let child = Command::new("memcached")
            .args([
                "-l",
                "127.0.0.1",
                "-U",
                "0",
                "-u",
                "nobody",
                "-m",
                "64",
                "-p",
            ])
            .arg(port.to_string())
            .stderr(Stdio::null())
            .spawn()
            .expect("memcached is installed by ./test");
        let address = format!("127.0.0.1:{port}");
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(&address).is_err() {
            assert!(Instant::now() < until, "memcached does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, address }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    pub(crate) fn tier(servers: &[&Self]) -> Arc<dyn Tier> {
        let addresses = servers.iter().map(|server| server.address.clone());
        Arc::new(MemcachedTier::new(addresses.collect()))
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl S3Server {
    pub(crate) fn tier(servers: &[SocketAddr]) -> Arc<dyn Tier> {
        Self::tier_with(servers, BUCKET, || Ok(()))
    }

    /// A tier whose requests fail as `access` says.
    pub(crate) fn tier_with(
        servers: &[SocketAddr],
        bucket: &str,
        access: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Arc<dyn Tier> {
        // A second installation in one process fails, and changes nothing.
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let endpoint = |address: &SocketAddr| format!("http://{address}").parse().unwrap();
        let settings = S3Settings {
            endpoints: servers.iter().map(endpoint).collect(),
            bucket: bucket.to_owned(),
            region: "us-east-1".to_owned(),
            prefix: "box/".to_owned(),
            access_key: ACCESS_KEY.into(),
        };
        Arc::new(S3Tier::new(settings, Arc::new(Access(access))))
    }
}

struct Access<F>(F);

impl<F> std::fmt::Debug for Access<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Access")
    }
}

impl<F: Fn() -> Result<(), String> + Send + Sync> S3Access for Access<F> {
    fn client(&self) -> BoxFuture<'_, Result<reqwest::Client, String>> {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        async move { (self.0)().map(|()| client) }.boxed()
    }

    fn secret_key(&self) -> BoxFuture<'_, Result<SecretString, String>> {
        let secret: Result<SecretString, String> = Ok(SECRET_KEY.into());
        async move { secret }.boxed()
    }
}
