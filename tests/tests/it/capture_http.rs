//! MJPEG cameras over HTTP, against a real server that misbehaves on command.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use image::RgbImage;
use watchkeeper_contract::source::{LossCause, SourceSpec, SourceState};
use watchkeeper_runtime::capture::mailbox::Recv;
use watchkeeper_runtime::media::video::VideoWriter;
use watchkeeper_tests::file_server::{Answer, FileServer};
use watchkeeper_tests::http::{HttpCamera, SIZE};
use watchkeeper_tests::watch::{Watched, spec};

/// `viewer:right-one` in base 64.
const LOGIN: &str = "Basic dmlld2VyOnJpZ2h0LW9uZQ==";

#[test]
fn mjpeg_camera_is_live_and_its_times_grow() {
    let camera = HttpCamera::start(None).unwrap();
    let watched = Watched::start(&camera.uri(None, "/live")).unwrap();
    let frames: Vec<_> = (0..10).map(|_| watched.frame().unwrap()).collect();
    assert!(frames.windows(2).all(|w| w[0].pts < w[1].pts));
    for frame in &frames {
        assert!(!frame.recorded);
        assert_eq!([frame.picture.width, frame.picture.height], SIZE);
    }
    let state = watched.handle.status().state;
    assert!(matches!(state, SourceState::Live { .. }), "{state:?}");
}

#[test]
fn login_is_sent_when_the_camera_asks() {
    let camera = HttpCamera::start(Some(LOGIN)).unwrap();
    let right = Watched::start(&camera.uri(Some("viewer:right-one"), "/live")).unwrap();
    right.frame().unwrap();
    for login in [Some("viewer:wrong-one"), None] {
        let wrong = Watched::start(&camera.uri(login, "/live")).unwrap();
        let (cause, message) = wrong.lost().unwrap();
        assert_eq!(cause, LossCause::Authentication, "{message}");
        assert!(!message.contains("wrong-one"), "{message}");
    }
}

#[test]
fn missing_path_and_closed_port_have_their_own_causes() {
    let camera = HttpCamera::start(None).unwrap();
    let watched = Watched::start(&camera.uri(None, "/nothing")).unwrap();
    let (cause, message) = watched.lost().unwrap();
    assert_eq!(cause, LossCause::NotFound, "{message}");
    let uri = camera.uri(None, "/live");
    drop(camera);
    let watched = Watched::start(&uri).unwrap();
    let (cause, message) = watched.lost().unwrap();
    assert_eq!(cause, LossCause::Refused, "{message}");
}

#[test]
fn a_camera_that_sends_nothing_is_stalled_and_comes_back() {
    let camera = HttpCamera::start(None).unwrap();
    let watched = Watched::start(&camera.uri(None, "/live")).unwrap();
    watched.frame().unwrap();
    camera.stall(true);
    let (cause, message) = watched.lost().unwrap();
    assert_eq!(cause, LossCause::Stalled, "{message}");
    camera.stall(false);
    watched.back().unwrap();
    while !matches!(watched.frames.recv(watched.timeout), Recv::Frame(_)) {}
}

#[test]
fn camera_that_disconnects_is_lost_and_not_ended() {
    let camera = HttpCamera::start(None).unwrap();
    let watched = Watched::start(&camera.uri(None, "/live")).unwrap();
    watched.frame().unwrap();
    drop(camera);
    let (cause, message) = watched.lost().unwrap();
    assert_eq!(cause, LossCause::EndOfStream, "{message}");
}

#[test]
fn configured_slow_camera_is_not_stalled() {
    let camera = HttpCamera::start(None).unwrap();
    let watched = Watched::open(SourceSpec {
        stall_s: Some(60.0),
        ..spec(&camera.uri(None, "/live")).unwrap()
    });
    watched.frame().unwrap();
    camera.stall(true);
    // Longer than the timeout of other cameras, and than that of the network.
    std::thread::sleep(Duration::from_secs(10));
    camera.stall(false);
    watched.frame().unwrap();
    assert_eq!(watched.notices.take(), None);
    assert_eq!(watched.handle.status().counters.connects, 1);
}

/// Number of pictures in the served file.
const PICTURES: u32 = 120;

/// Makes a video of [`PICTURES`] pictures that differ so much that it is large.
fn video(name: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = VideoWriter::create(&folder.path().join(name), [320, 240], 10.0).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    for n in 0..PICTURES {
        let noise = RgbImage::from_fn(320, 240, |_, _| image::Rgb([random.u8(..); 3]));
        let at = Duration::from_millis(u64::from(n) * 100);
        writer.push(noise, at).unwrap();
    }
    std::fs::read(writer.finish().unwrap()).unwrap()
}

/// Counts the frames until the end; returns the end too.
fn play(watched: &Watched) -> (u32, Recv) {
    let mut frames = 0;
    loop {
        match watched.frames.recv(watched.timeout) {
            Recv::Frame(_) => frames += 1,
            end => return (frames, end),
        }
    }
}

#[test]
fn http_file_is_played_once_despite_a_lost_server() {
    // WebM is read from start to end; of an MP4 the last part would be requested first.
    let video = video("v.webm");
    let server = FileServer::start(video.clone(), None).unwrap();
    let uri = format!("{}/v.webm", server.folder());
    let (frames, end) = play(&Watched::start(&uri).unwrap());
    assert!(matches!(end, Recv::Ended), "{end:?}");
    assert_eq!(frames, PICTURES);

    // After one cut the transfer resumes at the same byte.
    server.script([Answer::CutAfter(video.len() / 2)]);
    let (frames, end) = play(&Watched::start(&uri).unwrap());
    assert!(matches!(end, Recv::Ended), "{end:?}");
    assert_eq!(frames, PICTURES);

    let away = std::iter::repeat_n(Answer::Status(503), 4);
    server.script([Answer::CutAfter(video.len() / 2)].into_iter().chain(away));
    let (frames, end) = play(&Watched::start(&uri).unwrap());
    let Recv::Failed { message, .. } = end else {
        panic!("{end:?} after {frames} frames");
    };
    assert!((1..PICTURES).contains(&frames), "{frames}");
    assert!(message.contains("not retried"), "{message}");
}

#[test]
fn live_video_other_than_mjpeg_is_refused_with_remedy() {
    let video = video("v.mp4");
    let server = FileServer::start(video.clone(), None).unwrap();
    server.script([Answer::UntilClose(video.len())]);
    let (frames, end) = play(&Watched::start(&format!("{}/live", server.folder())).unwrap());
    let Recv::Failed { message, .. } = end else {
        panic!("{end:?} after {frames} frames");
    };
    assert_eq!(frames, 0);
    assert!(message.contains("MJPEG"), "{message}");
}

#[test]
fn html_page_is_refused_as_a_web_page() {
    let page = b"<!DOCTYPE html><html><head><title>camera</title></head><body>log in</body></html>";
    let server = FileServer::start(page.to_vec(), None).unwrap();
    let watched = Watched::start(&format!("{}/", server.folder())).unwrap();
    let (cause, message) = watched.lost().unwrap();
    assert_eq!(cause, LossCause::Codec);
    assert!(message.contains("page of text"), "{message}");
}

/// Gives each connection the same answer, and returns the address.
fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            if stream.read(&mut [0; 1024]).unwrap_or(0) > 0 {
                stream.write_all(answer.as_bytes()).ok();
            }
        }
    });
    format!("http://127.0.0.1:{port}/live")
}

#[test]
fn server_error_and_foreign_port_have_a_cause_and_a_remedy() {
    let failing = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    for (answer, part) in [
        (failing, "error 503"),
        (
            "220 mail.example ESMTP\r\n",
            "check the address and the port",
        ),
    ] {
        let watched = Watched::start(&answering(answer)).unwrap();
        let (cause, message) = watched.lost().unwrap();
        assert_eq!(cause, LossCause::Other, "{message}");
        assert!(message.contains(part), "{message}");
    }
}
