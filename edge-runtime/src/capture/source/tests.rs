//! Sources as their users see them: threads, files, the demo street, unreachable cameras.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::path::PathBuf;

use watchkeeper_contract::source::Pace;
use watchkeeper_vision::frame::Frame;

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{Blindness, DecoderChoice, LossCause};

use super::*;
use crate::capture::check_decoder;
use crate::capture::mailbox::Recv;
use crate::capture::notices::{self, NoticeReceiver, SourceNotice, StampedNotice};
use crate::capture::supervise::Deadlines;

mod recordings;

const LONG: Duration = Duration::from_secs(30);

/// Path of real footage, if the test data is installed.
fn clip(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("WATCHKEEPER_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data")),
        PathBuf::from,
    );
    let path = folder.join("video").join(name);
    if !path.exists() {
        #[allow(clippy::print_stderr, reason = "the convention for skipped tests")]
        {
            eprintln!("SKIPPED: {name} (no test data at {})", folder.display());
        }
        return None;
    }
    Some(path)
}

fn spec(uri: impl Into<String>) -> SourceSpec {
    SourceSpec::new(SourceId::new("cam").unwrap(), uri)
}

fn spawn(uri: impl Into<String>) -> SourceHandle {
    Source::spawn(spec(uri), Deps::default())
}

/// Receives all frames and returns them with the final result.
fn drain(receiver: &FrameReceiver) -> (Vec<Frame>, Recv) {
    let mut frames = Vec::new();
    loop {
        match receiver.recv(LONG) {
            // The picture is dropped at once, as in a pipeline.
            Recv::Frame(frame) => frames.push(Frame {
                picture: crate::capture::feed::testing::grey(frame.picture.width, 1, 0),
                ..frame
            }),
            other => return (frames, other),
        }
    }
}

fn failure(uri: impl Into<String>) -> (LossCause, String) {
    let handle = spawn(uri);
    match handle.subscribe().recv(LONG) {
        Recv::Failed { cause, message } => (cause, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn decoder_that_is_not_available_is_refused_for_every_source() {
    let Err(refused) = check_decoder(DecoderChoice::Nvidia) else {
        // This machine has it.
        return;
    };
    let pictures = tempfile::tempdir().unwrap();
    let pictures = pictures.path().to_str().unwrap().to_owned();
    for uri in [
        "demo:",
        &pictures,
        "rtsp://127.0.0.1:9/x",
        "csi://0",
        "/dev/video250",
    ] {
        let nvidia = SourceSpec {
            decoder: DecoderChoice::Nvidia,
            ..spec(uri)
        };
        let handle = Source::spawn(nvidia, Deps::default());
        match handle.subscribe().recv(LONG) {
            Recv::Failed { message, .. } => assert_eq!(message, refused, "{uri}"),
            other => panic!("{uri}: {other:?}"),
        }
    }
}

#[test]
fn file_without_video_or_index_names_its_cause() {
    let mut sound = Vec::from(*b"RIFF\x24\x10\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0");
    sound.extend(*b"\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\x10\0\0");
    sound.extend([128; 4096]);
    let mut cut = Vec::from(*b"\0\0\0\x14ftypisom\0\0\x02\0isom\0\0\x20\x08mdat");
    cut.extend([0; 8192]);
    let folder = tempfile::tempdir().unwrap();
    for (name, content, part) in [
        ("sound.wav", sound, "holds sound and no video"),
        ("cut.mp4", cut, "has no index"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let (cause, message) = failure(path.to_str().unwrap());
        assert_eq!(cause, LossCause::Codec, "{message}");
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn source_is_idle_without_subscribers() {
    let handle = spawn("demo:?seconds=60&width=160&height=90");
    assert_eq!(handle.status().state, SourceState::Idle);
    let receiver = handle.subscribe();
    assert!(matches!(receiver.recv(LONG), Recv::Frame(_)));
    assert!(matches!(handle.status().state, SourceState::Live { .. }));
    drop(receiver);
    let until = Instant::now() + LONG;
    while handle.status().state != SourceState::Idle && Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!(handle.status().state, SourceState::Idle);
}

#[test]
fn demo_is_delivered_without_a_gap_and_ends() {
    let handle = spawn("demo:?seconds=4&width=160&height=90");
    let (frames, end) = drain(&handle.subscribe());
    assert!(matches!(end, Recv::Ended), "{end:?}");
    let numbers: Vec<u64> = frames.iter().map(|f| f.id.seq).collect();
    assert_eq!(numbers, (1..=60).collect::<Vec<_>>());
    assert_eq!(frames[0].pts, Duration::ZERO);
    assert!(frames.iter().all(|f| f.recorded && f.fps == Some(15.0)));
    assert_eq!(handle.status().counters.dropped, 0);
}

#[test]
fn recording_restarts_but_frame_numbers_continue() {
    let handle = spawn("demo:?seconds=1&width=160&height=90");
    let (first, _) = drain(&handle.subscribe());
    let (second, end) = drain(&handle.subscribe());
    assert!(matches!(end, Recv::Ended), "{end:?}");
    assert_eq!(second.len(), 15);
    assert_eq!(second[0].id.seq, 16);
    assert!(second[0].pts > first[14].pts);
}

#[test]
fn max_fps_drops_frames_evenly() {
    let mut spec = spec("demo:?seconds=4&width=160&height=90");
    spec.max_fps = Some(5.0);
    let handle = Source::spawn(spec, Deps::default());
    let (frames, _) = drain(&handle.subscribe());
    let numbers: Vec<u64> = frames.iter().map(|f| f.id.seq).collect();
    assert_eq!(numbers, (0..20).map(|n| 1 + n * 3).collect::<Vec<_>>());
    assert_eq!(handle.status().counters.frames, 60);
}

#[test]
fn missing_file_fails_at_once_with_a_remedy() {
    let (cause, message) = failure("/nowhere/at/all.mp4");
    assert_eq!(cause, LossCause::NotFound);
    assert_eq!(
        message,
        "/nowhere/at/all.mp4 does not exist; check the path"
    );
}

#[test]
fn text_file_as_a_video_fails_as_undecodable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.mp4");
    std::fs::write(&path, "these are notes and not a video\n".repeat(100)).unwrap();
    let (cause, message) = failure(path.display().to_string());
    assert_eq!(cause, LossCause::Codec);
    assert!(message.contains("notes.mp4 is not a video"), "{message}");
    std::fs::write(&path, "").unwrap();
    assert_eq!(failure(path.display().to_string()).0, LossCause::Codec);
}

#[test]
fn invalid_address_fails_and_hides_its_password() {
    let handle = spawn("ftp://me:secret@host/x");
    let receiver = handle.subscribe();
    let Recv::Failed { message, .. } = receiver.recv(LONG) else {
        panic!("not failed");
    };
    assert!(
        message.contains("ftp") && !message.contains("secret"),
        "{message}"
    );
    let shown = format!("{:?}", handle.status());
    assert!(
        shown.contains("***") && !shown.contains("secret"),
        "{shown}"
    );
}

#[test]
fn refusing_camera_is_lost_with_one_notice_and_retried() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let (notices, inbox) = notices::channel();
    let deps = Deps {
        notices: Some(notices),
        ..Deps::default()
    };
    let uri = format!("rtsp://me:secret@127.0.0.1:{port}/live");
    let handle = Source::spawn(spec(uri), deps);
    let _receiver = handle.subscribe();
    let StampedNotice {
        source: id, notice, ..
    } = inbox.recv().unwrap();
    assert_eq!(id.as_str(), "cam");
    let SourceNotice::Lost { cause, message, .. } = notice else {
        panic!("{notice:?}");
    };
    assert_eq!(cause, LossCause::Refused);
    assert!(!message.contains("secret"), "{message}");
    let is_lost = |status: &SourceStatus| matches!(status.state, SourceState::Lost { .. });
    let begun = Instant::now();
    while !is_lost(&handle.status()) && begun.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Several attempts give no further notice.
    let first = handle.status();
    for _ in 0..100 {
        let now = handle.status();
        assert!(
            is_lost(&now) && now.since == first.since,
            "{now:?}, at first {first:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn missing_device_is_lost_and_retried() {
    let (notices, inbox) = notices::channel();
    let deps = Deps {
        notices: Some(notices),
        ..Deps::default()
    };
    let handle = Source::spawn(spec("/dev/video987"), deps);
    let _receiver = handle.subscribe();
    let StampedNotice { notice, .. } = inbox.recv().unwrap();
    let lost = matches!(
        notice,
        SourceNotice::Lost {
            cause: LossCause::NotFound,
            ..
        }
    );
    assert!(lost, "{notice:?}");
    assert!(!matches!(handle.status().state, SourceState::Failed { .. }));
}

#[test]
fn real_clips_are_delivered_whole() {
    for (name, frames, size) in [
        ("intel_car-detection.mp4", 377, [768, 432]),
        ("intel_one-by-one.mp4", 1394, [768, 432]),
        ("bgs_highway02.avi", 748, [320, 240]),
    ] {
        let Some(path) = clip(name) else { return };
        let handle = spawn(path.display().to_string());
        let (seen, end) = drain(&handle.subscribe());
        assert!(matches!(end, Recv::Ended), "{name}: {end:?}");
        assert_eq!(handle.status().size, Some(size), "{name}");
        assert_eq!(seen.len(), frames, "{name}");
        assert!(seen.windows(2).all(|w| w[0].pts < w[1].pts), "{name}");
    }
}

#[test]
fn two_subscribers_of_one_file_get_the_same_frames() {
    let Some(path) = clip("intel_car-detection.mp4") else {
        return;
    };
    let handle = spawn(path.display().to_string());
    let receivers = [handle.subscribe(), handle.subscribe()];
    let readers = receivers.map(|r| std::thread::spawn(move || drain(&r).0.len()));
    let counts = readers.map(|r| r.join().unwrap());
    assert_eq!(counts, [377, 377]);
}

#[test]
fn first_picture_of_a_clip_has_the_right_colours() {
    let Some(path) = clip("intel_car-detection.mp4") else {
        return;
    };
    let handle = spawn(path.display().to_string());
    let Recv::Frame(frame) = handle.subscribe().recv(LONG) else {
        panic!("no frame");
    };
    let luma = frame.picture.planes.plane(0);
    assert!(luma.stride >= frame.picture.width as usize);
    let row = luma.data.chunks(luma.stride).nth(200).unwrap();
    let mean = row[..768].iter().map(|v| u32::from(*v)).sum::<u32>() / 768;
    assert!((30..=220).contains(&mean), "{mean}");
}

#[test]
fn clip_at_native_pace_is_live_and_drops_untaken_frames() {
    let Some(path) = clip("intel_car-detection.mp4") else {
        return;
    };
    let mut spec = spec(path.display().to_string());
    spec.pace = Pace::Native;
    let handle = Source::spawn(spec, Deps::default());
    let receiver = handle.subscribe();
    assert!(matches!(receiver.recv(LONG), Recv::Frame(_)));
    let until = Instant::now() + LONG;
    while handle.status().counters.dropped < 5 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(handle.status().counters.dropped >= 5);
}

/// Creates a folder with this many black pictures.
fn black_pictures(count: u32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("0000.png");
    image::RgbImage::new(64, 48).save(&first).unwrap();
    for n in 1..count {
        std::fs::copy(&first, folder.path().join(format!("{n:04}.png"))).unwrap();
    }
    folder
}

fn spawn_pictures(folder: &tempfile::TempDir, pace: Pace) -> (SourceHandle, NoticeReceiver) {
    let (notices, inbox) = notices::channel();
    let deps = Deps {
        notices: Some(notices),
        ..Deps::default()
    };
    let mut spec = spec(folder.path().display().to_string());
    spec.pace = pace;
    (Source::spawn(spec, deps), inbox)
}

#[test]
fn fast_recording_is_never_blind() {
    let folder = black_pictures(400);
    let (handle, inbox) = spawn_pictures(&folder, Pace::Fast);
    let (frames, end) = drain(&handle.subscribe());
    assert!(matches!(end, Recv::Ended), "{end:?}");
    let (first, last) = (&frames[0], &frames[399]);
    assert!(last.pts - first.pts > crate::capture::blind::FROZEN_AFTER);
    assert_eq!(inbox.take(), None);
}

#[test]
fn black_recording_at_native_pace_is_blind() {
    let folder = black_pictures(60);
    let (handle, inbox) = spawn_pictures(&folder, Pace::Native);
    let _receiver = handle.subscribe();
    let StampedNotice { notice, .. } = inbox.recv().unwrap();
    let blind = matches!(
        notice,
        SourceNotice::Blind {
            kind: Blindness::Black,
            ..
        }
    );
    assert!(blind, "{notice:?}");
}

#[test]
fn black_recording_with_objects_is_not_blind() {
    let folder = black_pictures(60);
    let (handle, inbox) = spawn_pictures(&folder, Pace::Native);
    let receiver = handle.subscribe();
    while let Recv::Frame(frame) = receiver.recv(LONG) {
        receiver.report_objects(frame.pts);
    }
    assert_eq!(inbox.take(), None);
}

/// Plays a source at native pace, with a stall time of a tenth of a second.
fn play_natively(path: &std::path::Path) -> (Vec<Frame>, Recv, NoticeReceiver) {
    let (sender, inbox) = notices::channel();
    let deps = Deps {
        notices: Some(sender),
        deadlines: Deadlines {
            stall: Duration::from_millis(100),
            ..Deadlines::default()
        },
        ..Deps::default()
    };
    let mut spec = spec(path.display().to_string());
    spec.pace = Pace::Native;
    let handle = Source::spawn(spec, deps);
    let (frames, end) = drain(&handle.subscribe());
    (frames, end, inbox)
}

#[test]
fn recording_with_a_pause_is_played_once() {
    let folder = tempfile::tempdir().unwrap();
    let video = folder.path().join("v.mp4");
    let mut writer = crate::media::video::VideoWriter::create(&video, [64, 48], 10.0).unwrap();
    for ms in [0, 100, 900] {
        let picture = image::RgbImage::new(64, 48);
        writer.push(picture, Duration::from_millis(ms)).unwrap();
    }
    let video = writer.finish().unwrap();
    let (frames, end, inbox) = play_natively(&video);
    assert!(matches!(end, Recv::Ended), "{end:?}");
    assert_eq!(frames.last().unwrap().id.seq, 3);
    assert_eq!(inbox.take(), None);
}

#[test]
fn panic_is_reported_to_every_subscriber_for_good() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let (sender, inbox) = notices::channel();
    let faulty = Arc::new(AtomicBool::new(false));
    let fault = Arc::clone(&faulty);
    let deps = Deps {
        notices: Some(sender),
        wall: Arc::new(move || {
            assert!(!fault.swap(false, Ordering::SeqCst), "on purpose");
            crate::clock::wall()
        }),
        ..Deps::default()
    };
    let handle = Source::spawn(spec("demo:?seconds=60&width=160&height=90"), deps);
    let receiver = handle.subscribe();
    assert!(matches!(receiver.recv(LONG), Recv::Frame(_)));
    faulty.store(true, Ordering::SeqCst);
    let (_, end) = drain(&receiver);
    assert!(matches!(end, Recv::Failed { .. }), "{end:?}");
    let notice = inbox.recv().map(|n| n.notice);
    assert!(
        matches!(notice, Some(SourceNotice::Lost { .. })),
        "{notice:?}"
    );
    drop(receiver);
    let later = handle.subscribe().recv(LONG);
    assert!(matches!(later, Recv::Failed { .. }), "{later:?}");
    assert!(matches!(handle.status().state, SourceState::Failed { .. }));
}
