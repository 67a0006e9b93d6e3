//! The Unix socket: bound with the right permission, never taken from a living server, removed at
//! the end.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use axum::Router;
use tokio::net::UnixListener;
use tokio::sync::watch;
use watchkeeper_config::MAX_SOCKET_PATH;

use crate::serving::{Admission, serve};

/// Why the server can't listen.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A living server has it.
    #[error("{path} is served by another process; stop that one or choose another socket")]
    InUse { path: PathBuf },
    /// Something that is not a socket is in the way.
    #[error("{path} exists and is not a socket; remove it or choose another path")]
    NotASocket { path: PathBuf },
    /// The path does not fit into a socket address.
    #[error("the socket path {path} is too long; the system takes at most {MAX_SOCKET_PATH} bytes")]
    TooLong { path: PathBuf },
    /// The system refused.
    #[error("{path}: could not {what}: {source}")]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        source: io::Error,
    },
}

/// A bound socket. Requests wait in the kernel until [`Server::run`]; dropping it removes the file.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    _file: SocketFile,
}

#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "socket file stays");
        }
    }
}

impl Server {
    /// Listens on `path` with the permission bits `mode`, and replaces the socket of a dead server.
    ///
    /// # Errors
    /// When a living server has the socket, the path is not a socket's, or the system refuses.
    /// Needs a tokio runtime.
    pub fn bind(path: &Path, mode: u32) -> Result<Self, SocketError> {
        let io = |what| {
            let path = path.to_owned();
            move |source| SocketError::Io { path, what, source }
        };
        if path.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(SocketError::TooLong {
                path: path.to_owned(),
            });
        }
        // Bound under another name first, so that it never has wider permissions under its own.
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(".new");
        let fresh = PathBuf::from(fresh);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(io("create the folder"))?;
        }
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(SocketError::NotASocket {
                    path: path.to_owned(),
                });
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(SocketError::InUse {
                    path: path.to_owned(),
                });
            }
            Ok(_) => {
                tracing::info!(path = %path.display(), "replacing the socket of a dead server")
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(io("inspect it")(source)),
        }
        match fs::remove_file(&fresh) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io("tidy up")(e)),
            _ => {}
        }
        let listener = UnixListener::bind(&fresh).map_err(io("listen"))?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(mode))
            .and_then(|()| fs::rename(&fresh, path))
            .map_err(io("set its permissions"))?;
        Ok(Self {
            listener,
            _file: SocketFile(path.to_owned()),
        })
    }

    /// Serves `app` until `closing` is true.
    ///
    /// # Errors
    /// When the system closes the socket.
    pub async fn run(self, app: Router, closing: watch::Receiver<bool>) -> io::Result<()> {
        let Self { listener, _file } = self;
        serve(listener, Admission::Socket, app, closing).await
    }
}
