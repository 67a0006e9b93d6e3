//! Cameras over RTSP, against a real server that misbehaves on command.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that panics has failed"
)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use watchkeeper_contract::source::{LossCause, RtspTransport, SourceState};
use watchkeeper_runtime::capture::mailbox::Recv;
use watchkeeper_tests::rtsp::{RtspOptions, RtspServer};
use watchkeeper_tests::watch::Watched;
use watchkeeper_vision::frame::Frame;

/// Time for which cameras are off.
const AWAY: Duration = Duration::from_secs(10);

fn camera(options: &RtspOptions) -> RtspServer {
    RtspServer::start(Path::new(env!("CARGO_BIN_EXE_rtsp-server")), options).unwrap()
}

#[test]
fn a_camera_is_live_over_both_transports() {
    let server = camera(&RtspOptions::default());
    for transport in [RtspTransport::Tcp, RtspTransport::Udp] {
        let watched = Watched::start_over(server.uri(), transport).unwrap();
        let frames: Vec<Frame> = (0..10).map(|_| watched.frame().unwrap()).collect();
        assert!(frames.windows(2).all(|w| w[0].pts < w[1].pts));
        assert!(frames.iter().all(|f| !f.recorded && f.picture.width == 320));
        let state = watched.handle.status().state;
        assert!(matches!(state, SourceState::Live { .. }), "{state:?}");
    }
}

#[test]
fn wrong_password_and_wrong_path_have_their_own_causes() {
    let server = camera(&RtspOptions {
        login: Some(("viewer".to_owned(), "right-one".to_owned())),
        ..RtspOptions::default()
    });
    let watched = Watched::start(&server.uri_with("viewer", "wrong-one")).unwrap();
    let (cause, message) = watched.lost().unwrap();
    assert_eq!(cause, LossCause::Authentication, "{message}");
    assert!(!message.contains("wrong-one"), "{message}");
    let watched = Watched::start(server.uri()).unwrap();
    let (cause, message) = watched.lost().unwrap();
    assert_eq!(cause, LossCause::Authentication, "{message}");
    let uri = server.uri_with("viewer", "right-one");
    let watched = Watched::start(&uri.replace("/live", "/nothing")).unwrap();
    let (cause, message) = watched.lost().unwrap();
    assert_eq!(cause, LossCause::NotFound, "{message}");
    Watched::start(&uri).unwrap().frame().unwrap();
}

#[test]
fn a_camera_that_sends_nothing_is_stalled_and_comes_back() {
    let mut server = camera(&RtspOptions::default());
    let watched = Watched::start(server.uri()).unwrap();
    watched.frame().unwrap();
    server.send("stall").unwrap();
    let (cause, message) = watched.lost().unwrap();
    assert_eq!(cause, LossCause::Stalled, "{message}");
    server.send("resume").unwrap();
    watched.back().unwrap();
    while !matches!(watched.frames.recv(watched.timeout), Recv::Frame(_)) {}
}

#[test]
fn killed_cameras_return_and_spare_a_third_one() {
    let servers = [(); 2].map(|()| camera(&RtspOptions::default()));
    let ports = servers.each_ref().map(RtspServer::port);
    let bystander = camera(&RtspOptions::default());
    let other = Watched::start(bystander.uri()).unwrap();
    let watched = servers.each_ref().map(|s| Watched::start(s.uri()).unwrap());
    let before = watched.each_ref().map(|w| w.frame().unwrap());
    other.frame().unwrap();
    for server in servers {
        server.kill().unwrap();
    }
    for watched in &watched {
        let (cause, message) = watched.lost().unwrap();
        assert_eq!(cause, LossCause::EndOfStream, "{message}");
    }
    std::thread::sleep(AWAY);
    let counted = other.handle.status().counters.frames;
    let _servers = ports.map(|port| {
        camera(&RtspOptions {
            port,
            ..RtspOptions::default()
        })
    });
    let returned = Instant::now();
    for (i, (watched, before)) in watched.iter().zip(&before).enumerate() {
        let lasted = watched.back().unwrap();
        eprintln!(
            "camera {i} was lost for {:.2} s, back {:.2} s after both listened again",
            lasted.as_secs_f64(),
            returned.elapsed().as_secs_f64()
        );
        let mut after = watched.frame().unwrap();
        while after.pts < before.pts + lasted {
            after = watched.frame().unwrap();
        }
        assert!(after.id.seq > before.id.seq);
    }
    // Generous: the promise is two seconds on an idle machine, and tests share theirs.
    assert!(returned.elapsed() < AWAY, "{:?}", returned.elapsed());
    assert!(counted > 10, "the third camera gave {counted} frames");
    let disturbed = other.notices.take();
    assert_eq!(disturbed, None, "the third camera noticed");
}

#[test]
fn refusing_camera_is_lost_until_it_accepts() {
    let mut server = camera(&RtspOptions::default());
    server.send("refuse").unwrap();
    let watched = Watched::start(server.uri()).unwrap();
    let (cause, message) = watched.lost().unwrap();
    assert_eq!(cause, LossCause::Refused, "{message}");
    server.send("accept").unwrap();
    watched.back().unwrap();
    watched.frame().unwrap();
}

#[test]
fn real_footage_is_served_in_real_time() {
    let folder = std::env::var_os("WATCHKEEPER_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data")),
        PathBuf::from,
    );
    let file = folder.join("video/strudl_vid0.mp4");
    if !file.exists() {
        eprintln!(
            "SKIPPED: footage over RTSP (no test data at {})",
            folder.display()
        );
        return;
    }
    let server = camera(&RtspOptions {
        file: Some(file),
        ..RtspOptions::default()
    });
    let watched = Watched::start(server.uri()).unwrap();
    let frames: Vec<Frame> = (0..30).map(|_| watched.frame().unwrap()).collect();
    let (first, last) = (&frames[0], &frames[29]);
    let shown = (last.pts - first.pts).as_secs_f64();
    let took = (last.arrived - first.arrived).as_secs_f64();
    // Nothing arrives long before it is due.
    assert!(took > shown * 0.5, "{shown} s of footage in {took} s");
}
