//! RTSP camera that misbehaves on command.
//!
//! Serves on 127.0.0.1: a test pattern without end, a given pipeline, or an H.264 MP4 file. A file
//! is played once for each client in real time, without encoding it again. Then the client sees the
//! end of the stream and may reconnect.
//!
//! Prints `READY rtsp://…` when it listens. Reads commands from standard input, one a line:
//! - `stall`: stay connected, send nothing; `resume` ends that.
//! - `refuse`: close every connection and stop listening; `accept` ends that.
//! - `size WIDTHxHEIGHT`: of the element `size` in a given pipeline.
//! - `quit`; the end of the input quits too, so that the server never outlives its test.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use gstreamer as gst;
use gstreamer::glib;
use gstreamer::prelude::{Cast, ElementExt, GstBinExt, ObjectExt, PadExtManual};
use gstreamer_rtsp_server as rtsp;
use gstreamer_rtsp_server::prelude::{
    RTSPAuthExt, RTSPAuthExtManual, RTSPMediaExt, RTSPMediaFactoryExt, RTSPMediaFactoryExtManual,
    RTSPMountPointsExt, RTSPServerExt, RTSPServerExtManual,
};
use gstreamer_rtsp_server::{gio, gst_rtsp};

/// RTSP camera that misbehaves on command.
#[derive(Debug, Parser)]
struct Args {
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// H.264 MP4 file, served once for each client. Without it: a test pattern.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Pipeline to serve in gst-launch syntax; its payloaders are named pay0, pay1 and so on.
    #[arg(long, conflicts_with = "file")]
    launch: Option<String>,
    /// Lets all clients watch one stream: later ones begin in the middle of it.
    #[arg(long)]
    shared: bool,
    /// User name that clients must send.
    #[arg(long, requires = "password")]
    user: Option<String>,
    /// Password that clients must send.
    #[arg(long, requires = "user")]
    password: Option<String>,
    /// Asks for digest instead of basic authentication.
    #[arg(long, requires = "user")]
    digest: bool,
    /// PEM file with a certificate; turns TLS on.
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the certificate's private key.
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
}

const PATTERN: &str = "videotestsrc is-live=true pattern=smpte ! \
    video/x-raw,format=I420,width=320,height=240,framerate=15/1 ! \
    x264enc tune=zerolatency speed-preset=ultrafast key-int-max=15 ! \
    rtph264pay name=pay0 pt=96 config-interval=1";

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    gst::init().context("gstreamer does not start")?;
    let stalled = Arc::new(AtomicBool::new(false));
    let server = rtsp::RTSPServer::new();
    server.set_address("127.0.0.1");
    server.set_service(&args.port.to_string());
    let sizes: Sizes = Arc::default();
    let factory = factory(&args, &stalled, &sizes)?;
    if args.user.is_some() || args.cert.is_some() {
        protect(&server, &factory, &args)?;
    }
    let mounts = server
        .mount_points()
        .context("server without mount points")?;
    mounts.add_factory("/live", factory);

    let mut listening = Some(server.attach(None).context("port is taken")?);
    // The server has chosen a free port by now; `accept` has to bind the same one again.
    let port = u16::try_from(server.bound_port()).context("server is not bound")?;
    server.set_service(&port.to_string());
    let scheme = if args.cert.is_some() { "rtsps" } else { "rtsp" };
    say(&format!("READY {scheme}://127.0.0.1:{port}/live"))?;

    let commands = read_commands();
    let context = glib::MainContext::default();
    loop {
        // The server works inside `iteration`; commands are read between two iterations.
        while context.iteration(false) {}
        let Ok(command) = commands.recv_timeout(Duration::from_millis(5)) else {
            continue;
        };
        match command.trim() {
            resize if resize.starts_with("size ") => set_size(&sizes, resize)?,
            "stall" => stalled.store(true, Ordering::Relaxed),
            "resume" => stalled.store(false, Ordering::Relaxed),
            "refuse" => {
                if let Some(source) = listening.take() {
                    source.remove();
                }
                server.client_filter(Some(&mut |_, _| rtsp::RTSPFilterResult::Remove));
            }
            "accept" => {
                if listening.is_none() {
                    listening = Some(server.attach(None).context("port is taken")?);
                }
            }
            "quit" => return Ok(()),
            other => bail!("unknown command {other:?}"),
        }
        say(&format!("DONE {}", command.trim()))?;
    }
}

/// Reads standard input on its own thread; its end is the command `quit`.
fn read_commands() -> std::sync::mpsc::Receiver<String> {
    let (lines, commands) = std::sync::mpsc::sync_channel(8);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
        drop(lines.send("quit".to_owned()));
    });
    commands
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Elements that set the picture size, one for each client.
type Sizes = Arc<Mutex<Vec<glib::WeakRef<gst::Element>>>>;

fn set_size(sizes: &Sizes, command: &str) -> anyhow::Result<()> {
    let size = command
        .strip_prefix("size ")
        .and_then(|s| s.split_once('x'));
    let (width, height) = size.context("size WIDTHxHEIGHT")?;
    let caps = gst::Caps::builder("video/x-raw")
        .field("width", width.parse::<i32>()?)
        .field("height", height.parse::<i32>()?)
        .build();
    let elements = sizes.lock().unwrap_or_else(PoisonError::into_inner);
    for element in elements.iter().filter_map(glib::WeakRef::upgrade) {
        element.set_property("caps", &caps);
    }
    Ok(())
}

fn factory(
    args: &Args,
    stalled: &Arc<AtomicBool>,
    sizes: &Sizes,
) -> anyhow::Result<rtsp::RTSPMediaFactory> {
    let factory = rtsp::RTSPMediaFactory::new();
    match (&args.file, &args.launch) {
        (None, Some(launch)) => factory.set_launch(&format!("( {launch} )")),
        (Some(path), _) => {
            let path = path
                .canonicalize()
                .with_context(|| format!("{}", path.display()))?;
            let path = path.display().to_string().replace('"', "\\\"");
            factory.set_launch(&format!(
                "( filesrc location=\"{path}\" ! qtdemux ! h264parse config-interval=-1 ! rtph264pay name=pay0 pt=96 )"
            ));
        }
        (None, None) => factory.set_launch(&format!("( {PATTERN} )")),
    }
    factory.set_shared(args.shared);
    let (stalled, sizes) = (stalled.clone(), sizes.clone());
    factory.connect_media_configure(move |_, media| {
        let bin = media.element().downcast::<gst::Bin>().ok();
        if let Some(element) = bin.as_ref().and_then(|bin| bin.by_name("size")) {
            let mut sizes = sizes.lock().unwrap_or_else(PoisonError::into_inner);
            sizes.push(element.downgrade());
        }
        let pad = bin
            .and_then(|bin| bin.by_name("pay0"))
            .and_then(|pay| pay.static_pad("src"));
        let Some(pad) = pad else { return };
        let stalled = stalled.clone();
        let kinds = gst::PadProbeType::BUFFER | gst::PadProbeType::BUFFER_LIST;
        pad.add_probe(kinds, move |_, _| {
            if stalled.load(Ordering::Relaxed) {
                gst::PadProbeReturn::Drop
            } else {
                gst::PadProbeReturn::Ok
            }
        });
    });
    Ok(factory)
}

fn protect(
    server: &rtsp::RTSPServer,
    factory: &rtsp::RTSPMediaFactory,
    args: &Args,
) -> anyhow::Result<()> {
    let mut token = rtsp::RTSPToken::builder()
        .field("media.factory.role", "viewer")
        .build();
    let auth = rtsp::RTSPAuth::new();
    match (&args.user, &args.password) {
        (Some(user), Some(password)) if args.digest => {
            auth.set_supported_methods(gst_rtsp::RTSPAuthMethod::Digest);
            auth.add_digest(user, password, &token);
        }
        (Some(user), Some(password)) => {
            auth.add_basic(&rtsp::RTSPAuth::make_basic(user, password), &token);
        }
        _ => auth.set_default_token(Some(&mut token)),
    }
    if let (Some(cert), Some(key)) = (&args.cert, &args.key) {
        let certificate = gio::TlsCertificate::from_files(cert, key)?;
        auth.set_tls_certificate(Some(&certificate));
    }
    server.set_auth(Some(&auth));
    factory.add_role_from_structure(
        &gst::Structure::builder("viewer")
            .field("media.factory.access", true)
            .field("media.factory.construct", true)
            .build(),
    );
    Ok(())
}
