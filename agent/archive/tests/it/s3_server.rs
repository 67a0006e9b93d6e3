//! An S3 server that can be killed.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;

pub(crate) const BUCKET: &str = "archive";
pub(crate) const ACCESS_KEY: &str = "box";
pub(crate) const SECRET_KEY: &str = "secret-of-the-box";

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// An S3 server on a folder, with its own runtime: all its connections break when it is dropped.
pub(crate) struct S3Server {
    runtime: Option<tokio::runtime::Runtime>,
    pub(crate) address: SocketAddr,
}

impl S3Server {
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_at(folder, free_port())
    }

    pub(crate) fn start_at(folder: &Path, port: u16) -> Self {
        std::fs::create_dir_all(folder.join(BUCKET)).unwrap();
        let mut builder = S3ServiceBuilder::new(FileSystem::new(folder).unwrap());
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = builder.build();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let Ok((socket, _)) = listener.accept().await else {
                    return;
                };
                let service = service.clone();
                tokio::spawn(async move {
                    let io = hyper_util::rt::TokioIo::new(socket);
                    let server = hyper::server::conn::http1::Builder::new();
                    server.serve_connection(io, service).await.ok();
                });
            }
        });
        Self {
            runtime: Some(runtime),
            address,
        }
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
