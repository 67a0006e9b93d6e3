//! MJPEG camera over HTTP that a test controls.
//!
//! - `/live` serves `multipart/x-mixed-replace`: ten generated JPEGs a second, or given pictures at
//!   a given pace.
//! - Other paths answer 404; requests without the configured login 401.
//! - Nothing listens once the camera is dropped.

use std::io::{BufRead as _, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use watchkeeper_vision::frame::Picture;
use watchkeeper_vision::jpeg;

use crate::hooks::Request;
use crate::listener::{Closed, Listener};

/// Time between two pictures.
const INTERVAL: Duration = Duration::from_millis(100);

/// Width and height of the pictures in pixels.
pub const SIZE: [u32; 2] = [160, 96];

/// Camera that runs until it is dropped, which closes every connection.
#[derive(Debug)]
pub struct HttpCamera {
    shared: Arc<Shared>,
    listener: Listener,
}

#[derive(Debug)]
struct Shared {
    /// Expected value of the header `Authorization`.
    login: Option<String>,
    pictures: Vec<Vec<u8>>,
    interval: Duration,
    stalled: AtomicBool,
}

impl HttpCamera {
    /// Starts on a free port of 127.0.0.1. `login` is the value of the `Authorization` header that
    /// clients must send, like `Basic dmlld2VyOnJpZ2h0LW9uZQ==`.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(login: Option<&str>) -> anyhow::Result<Self> {
        let pictures = (0..16).map(picture).collect::<anyhow::Result<_>>()?;
        Self::begin(login, pictures, INTERVAL)
    }

    /// Starts a camera that repeats these JPEGs, each for `interval`.
    ///
    /// # Errors
    /// If no port is free.
    pub fn showing(pictures: Vec<Vec<u8>>, interval: Duration) -> anyhow::Result<Self> {
        Self::begin(None, pictures, interval)
    }

    fn begin(
        login: Option<&str>,
        pictures: Vec<Vec<u8>>,
        interval: Duration,
    ) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            login: login.map(str::to_owned),
            pictures,
            interval,
            stalled: AtomicBool::new(false),
        });
        let for_clients = shared.clone();
        let listener = Listener::start(move |stream, closed| serve(stream, &for_clients, closed))?;
        Ok(Self { shared, listener })
    }

    /// Returns the address of `path` on this camera, with a login of the form `user:password`.
    pub fn uri(&self, login: Option<&str>, path: &str) -> String {
        let login = login.map_or_else(String::new, |login| format!("{login}@"));
        format!("http://{login}{}{path}", self.listener.address())
    }

    /// Stops sending pictures without closing a connection, or resumes.
    pub fn stall(&self, stalled: bool) {
        self.shared.stalled.store(stalled, Ordering::Relaxed);
    }
}

fn serve(mut stream: TcpStream, shared: &Shared, closed: &Closed) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let request = Request::read(&line, &mut reader)?;
    let authorization = request.headers.get("authorization");
    if shared.login.is_some() && authorization != shared.login.as_ref() {
        let text = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"camera\"\r\n\
            Content-Length: 0\r\nConnection: close\r\n\r\n";
        return Ok(stream.write_all(text.as_bytes())?);
    }
    if request.target != "/live" {
        let text = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return Ok(stream.write_all(text.as_bytes())?);
    }
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\
        Content-Type: multipart/x-mixed-replace; boundary=picture\r\n\r\n",
    )?;
    for jpeg in shared.pictures.iter().cycle() {
        while shared.stalled.load(Ordering::Relaxed) && !closed.is_set() {
            std::thread::sleep(shared.interval);
        }
        if closed.is_set() {
            break;
        }
        let length = jpeg.len();
        write!(
            stream,
            "--picture\r\nContent-Type: image/jpeg\r\nContent-Length: {length}\r\n\r\n"
        )?;
        stream.write_all(jpeg)?;
        stream.write_all(b"\r\n")?;
        std::thread::sleep(shared.interval);
    }
    Ok(())
}

/// Draws a bright column that moves over a grey gradient.
fn picture(number: u32) -> anyhow::Result<Vec<u8>> {
    let [width, height] = SIZE;
    let column = number * width / 16;
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let data = pixels
        .flat_map(|(x, y)| {
            let lit = (column..column + 10).contains(&x);
            let slope = u8::try_from(40 + y).unwrap_or(u8::MAX);
            [if lit { 250 } else { slope }; 3]
        })
        .collect();
    let picture = Picture::rgb(width, height, data);
    Ok(jpeg::encode(&jpeg::to_rgb(&picture)?, 80)?)
}
