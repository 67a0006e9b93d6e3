//! Video files as sources: turned, cut, damaged, slow and refused ones.

use std::path::Path;

use super::*;

/// Encoder and container of an MP4 file that has its index at the start.
const MP4: &str = "x264enc bframes=2 key-int-max=10 ! h264parse ! mp4mux faststart=true";

/// Encoder and container of an AVI file.
const AVI: &str = "avenc_mpeg4 ! avimux";

/// Writes a video of 20 s and returns its bytes.
fn write_video(path: &Path, encode: &str) -> Vec<u8> {
    use gstreamer::prelude::ElementExt;
    gstreamer::init().unwrap();
    let text = format!(
        "videotestsrc pattern=ball num-buffers=200 ! \
         video/x-raw,width=128,height=72,framerate=10/1 ! {encode} ! filesink location={}",
        path.display()
    );
    let pipeline = gstreamer::parse::launch(&text).unwrap();
    pipeline.set_state(gstreamer::State::Playing).unwrap();
    let kinds = [gstreamer::MessageType::Eos, gstreamer::MessageType::Error];
    let bus = pipeline.bus().unwrap();
    let end = bus.timed_pop_filtered(gstreamer::ClockTime::from_seconds(60), &kinds);
    assert_eq!(end.unwrap().type_(), gstreamer::MessageType::Eos);
    pipeline.set_state(gstreamer::State::Null).unwrap();
    std::fs::read(path).unwrap()
}

/// Plays a file of these bytes and returns the number of its frames and the note about it.
fn play(path: &Path, bytes: &[u8]) -> (usize, Option<String>) {
    let (frames, note) = frames(path, bytes);
    (frames.len(), note)
}

/// Plays a file of these bytes and returns its frames and the note about it.
fn frames(path: &Path, bytes: &[u8]) -> (Vec<Frame>, Option<String>) {
    std::fs::write(path, bytes).unwrap();
    let handle = spawn(path.to_str().unwrap());
    let (frames, end) = drain(&handle.subscribe());
    assert!(matches!(end, Recv::Ended), "{end:?}");
    (frames, handle.status().note)
}

#[test]
fn recording_on_its_side_is_turned_upright() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("phone.mp4");
    let mut bytes = write_video(&path, MP4);
    let named = bytes.windows(4).position(|name| name == b"tkhd").unwrap();
    // The matrix of version 0 of the track header (ISO/IEC 14496-12): a quarter turn clockwise.
    let matrix = [0, 1 << 16, 0, -(1 << 16), 0, 0, 72 << 16, 0, 1 << 30];
    let matrix: Vec<u8> = matrix.into_iter().flat_map(i32::to_be_bytes).collect();
    bytes[named + 44..named + 80].copy_from_slice(&matrix);
    std::fs::write(&path, bytes).unwrap();
    let handle = spawn(path.to_str().unwrap());
    let (frames, end) = drain(&handle.subscribe());
    assert!(matches!(end, Recv::Ended), "{end:?}");
    assert_eq!(handle.status().size, Some([72, 128]));
    assert!(frames.iter().all(|frame| frame.picture.width == 72));
}

#[test]
fn recording_that_lacks_its_end_or_middle_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("street.mp4");
    let whole = write_video(&path, MP4);
    assert_eq!(play(&path, &whole), (200, None));

    let (frames, note) = play(&path, &whole[..whole.len() / 2]);
    let note = note.unwrap();
    assert!(frames < 150, "{frames}");
    assert!(
        note.starts_with("incomplete: the pictures end at "),
        "{note}"
    );
    assert!(note.contains(" s of 20.0 s"), "{note}");

    let mut damaged = whole.clone();
    damaged[whole.len() / 3..whole.len() / 2].fill(0);
    let (frames, note) = play(&path, &damaged);
    let note = note.unwrap();
    let said = note.strip_prefix("incomplete: at least ");
    let (missing, rest) = said.and_then(|said| said.split_once(' ')).unwrap();
    assert!(
        rest.starts_with("of 200 pictures could not be decoded; "),
        "{rest}"
    );
    assert!(rest.contains(" decoder errors, between about "), "{rest}");
    // Single pictures are not counted.
    let (missing, lost): (usize, usize) = (missing.parse().unwrap(), 200 - frames);
    assert!((lost - 4..=lost).contains(&missing), "{note}: {lost}");
    // The seconds of the errors are not the same in each run.
    let without_seconds = |note: &str| note.split(" between ").next().map(str::to_owned);
    let (frames_again, again) = play(&path, &damaged);
    assert_eq!(frames_again, frames);
    assert_eq!(without_seconds(&again.unwrap()), without_seconds(&note));
}

#[test]
fn damage_that_a_decoder_conceals_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    for (name, encode) in [("street.mp4", MP4), ("street.avi", AVI)] {
        let path = folder.path().join(name);
        let whole = write_video(&path, encode);
        assert_eq!(play(&path, &whole), (200, None), "{name}");
        let mut damaged = whole.clone();
        // Between the headers and the index of either container.
        for at in (whole.len() / 4..whole.len() / 2).step_by(whole.len() / 40) {
            damaged[at..at + 30].fill(0);
        }
        let (frames, note) = frames(&path, &damaged);
        assert!(frames.len() > 150, "{name}: {}", frames.len());
        let marked = frames.iter().filter(|frame| frame.is_damaged);
        let marked: Vec<u64> = marked.map(|frame| frame.pts.as_secs()).collect();
        // Damage ends before 10 s. The next key frame is a second or so later, and the decoder has
        // taken some pictures more.
        assert!(marked.len() > 20, "{name}: {marked:?}");
        assert!(
            marked.iter().all(|second| (1..14).contains(second)),
            "{name}: {marked:?}"
        );
        let note = note.unwrap_or_default();
        assert!(note.contains(" decoder errors"), "{name}: {note}");
    }
}

#[test]
fn jpeg_pictures_without_their_end_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("street.avi");
    let mut bytes = write_video(&path, "jpegenc ! avimux");
    assert!(
        frames(&path, &bytes)
            .0
            .iter()
            .all(|frame| !frame.is_damaged)
    );
    let is_end = |at: &usize| bytes[*at..].starts_with(&[0xFF, 0xD9]);
    let ends: Vec<usize> = (0..bytes.len()).filter(is_end).collect();
    assert_eq!(ends.len(), 200);
    for end in &ends[50..80] {
        bytes[*end..end + 2].fill(0);
    }
    let (frames, note) = frames(&path, &bytes);
    let marked = (0..).zip(&frames).filter(|(_, frame)| frame.is_damaged);
    let marked: Vec<usize> = marked.map(|(at, _)| at).collect();
    assert_eq!(marked, (50..80).collect::<Vec<usize>>());
    let note = note.unwrap_or_default();
    assert!(note.contains("30 decoder errors"), "{note}");
}

#[test]
fn cut_avi_is_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("street.avi");
    let whole = write_video(&path, AVI);
    let (frames, note) = play(&path, &whole[..whole.len() / 2]);
    assert!(frames < 150, "{frames}");
    let note = note.unwrap_or_default();
    assert!(note.starts_with("incomplete: the file ends at "), "{note}");
}

#[test]
fn slow_file_is_not_described_as_a_camera() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("street.mp4");
    write_video(&path, MP4);
    let deps = Deps {
        deadlines: Deadlines {
            connect: Duration::ZERO,
            ..Deadlines::default()
        },
        ..Deps::default()
    };
    let handle = Source::spawn(spec(path.to_str().unwrap()), deps);
    let _receiver = handle.subscribe();
    let message = loop {
        match handle.status().state {
            SourceState::Lost { message, .. } => break message,
            _ => std::thread::yield_now(),
        }
    };
    assert!(message.contains("gives no picture yet"), "{message}");
    assert!(!message.contains("camera"), "{message}");
}

#[test]
fn gif_is_refused_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("aisle.mp4");
    std::fs::write(&path, b"GIF89a\x01\x00\x01\x00").unwrap();
    let (cause, message) = failure(path.to_str().unwrap());
    assert_eq!(cause, LossCause::Codec);
    assert!(
        message.contains("is a GIF") && message.contains("MP4"),
        "{message}"
    );
}
