//! MJPEG cameras over HTTP, against a real server that misbehaves on command.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use watchkeeper_contract::source::{LossCause, SourceState};
use watchkeeper_runtime::capture::mailbox::Recv;
use watchkeeper_tests::http::{HttpCamera, SIZE};
use watchkeeper_tests::watch::Watched;

/// `viewer:right-one` in base 64.
const LOGIN: &str = "Basic dmlld2VyOnJpZ2h0LW9uZQ==";

#[test]
fn an_mjpeg_camera_is_live_and_its_times_grow() {
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
fn a_login_is_sent_when_it_is_asked_for() {
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
fn a_path_that_is_not_there_and_a_port_where_nobody_listens_have_their_own_causes() {
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
    while !matches!(watched.frames.recv(watched.patience), Recv::Frame(_)) {}
}

#[test]
fn a_camera_that_hangs_up_is_lost_and_not_ended() {
    let camera = HttpCamera::start(None).unwrap();
    let watched = Watched::start(&camera.uri(None, "/live")).unwrap();
    watched.frame().unwrap();
    drop(camera);
    let (cause, message) = watched.lost().unwrap();
    assert_eq!(cause, LossCause::EndOfStream, "{message}");
}
