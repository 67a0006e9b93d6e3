//! Tests of pictures, clips and recordings as responses: whole, in ranges, and verified.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use watchkeeper_contract::event::{Event, MediaKind};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::problem::ProblemCode;

use super::{Bench, NOW, event};
use crate::journal::RetentionRank;
use crate::pipeline::manager::tests::watching;
use crate::server::limits::MAX_TRANSFERS;

/// Timeout of a wait for what other threads do.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_picture_of_an_event_is_refused_if_verified() {
    let bench = Bench::start();
    let store = bench.app.api.media();
    let put = |jpeg: &[u8]| {
        store
            .put(MediaKind::Clean, RetentionRank::Normal, NOW.unix_ms, jpeg)
            .unwrap()
    };
    let (of_event, of_nobody) = (put(b"as it came"), put(b"kept by a user"));
    let recorded = Event {
        media: vec![of_event.clone()],
        ..event()
    };
    bench.app.api.journal().append(vec![recorded]).unwrap();
    let verified = format!("/v1/media/{}?verify=true", of_event.id);
    assert_eq!(bench.get(&verified).await.body, b"as it came");

    for media in [&of_event, &of_nobody] {
        std::fs::write(store.path(&media.id).unwrap(), b"as it went").unwrap();
    }
    let refused = bench.get(&verified).await;
    assert_eq!(refused.status, 507);
    let problem = refused.problem();
    assert!(problem.detail.contains("is damaged"), "{problem:?}");
    // No record states its hash.
    let unrecorded = format!("/v1/media/{}?verify=true", of_nobody.id);
    for path in [unrecorded, format!("/v1/media/{}", of_event.id)] {
        assert_eq!(bench.get(&path).await.body, b"as it went");
    }
}

/// Stores a clip of this many bytes, no two neighbours equal.
fn kept_clip(bench: &Bench, length: usize) -> (String, Vec<u8>) {
    let media = bench.app.api.media();
    let clip = media.new_clip(NOW.unix_ms);
    media.reserve_clip(&clip).unwrap();
    let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
    std::fs::write(&clip.path, &bytes).unwrap();
    media
        .keep_clip(&clip.id, RetentionRank::Normal, &clip.path)
        .unwrap();
    (format!("/v1/media/{}", clip.id), bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_clip_the_bytes_that_are_asked_for_are_sent() {
    let bench = Bench::start();
    let (path, bytes) = kept_clip(&bench, 200_000);
    let whole = bench.get(&path).await;
    assert_eq!((whole.status, whole.body == bytes), (200, true));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    assert_eq!(whole.header("content-type"), Some("video/mp4"));
    let tag = whole.header("etag").unwrap().to_owned();

    let cases = [
        ("0-0", 0..1),
        ("100-299", 100..300),
        // Longer than a piece, and not at the edge of one.
        ("65000-195000", 65_000..195_001),
        ("150000-", 150_000..200_000),
        ("-500", 199_500..200_000),
        ("-999999", 0..200_000),
        ("199999-999999", 199_999..200_000),
    ];
    for (range, expected) in cases {
        let header = format!("range: bytes={range}\r\nif-range: {tag}\r\n");
        let part = bench.ask_with("GET", &path, &header, "").await;
        assert_eq!(part.status, 206, "{range}: {}", part.head);
        let said = format!("bytes {}-{}/200000", expected.start, expected.end - 1);
        assert_eq!(part.header("content-range"), Some(said.as_str()));
        let length = expected.len().to_string();
        assert_eq!(part.header("content-length"), Some(length.as_str()));
        assert!(part.body == bytes[expected], "{range}");
        assert_eq!(part.header("content-type"), Some("video/mp4"));
    }

    for beyond in ["200000-", "200000-200001", "-0"] {
        let header = format!("range: bytes={beyond}\r\n");
        let refused = bench.ask_with("GET", &path, &header, "").await;
        assert_eq!(refused.status, 416, "{beyond}: {}", refused.head);
        assert_eq!(refused.header("content-range"), Some("bytes */200000"));
        let problem = refused.problem();
        assert_eq!(problem.field.as_deref(), Some("range"));
        assert!(problem.detail.contains("200000"), "{problem:?}");
    }

    // A malformed, too large or foreign range returns the whole.
    for header in [
        "range: bytes=5-2\r\n",
        "range: lines=1-2\r\n",
        "range: bytes=0-1, 5-6\r\n",
        "range: bytes=0-1\r\nif-range: \"another\"\r\n",
    ] {
        let whole = bench.ask_with("GET", &path, header, "").await;
        assert_eq!((whole.status, whole.body == bytes), (200, true), "{header}");
    }
    let head = bench
        .ask_with("HEAD", &path, "range: bytes=0-1\r\n", "")
        .await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some("200000"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn part_of_a_recording_is_sent_whole_or_in_ranges() {
    let bench = Bench::start();
    bench.add_source().await;
    let spec = PipelineSpec {
        record: true,
        ..watching("motion")
    };
    let spec = json!(spec).to_string();
    assert_eq!(bench.ask("POST", "/v1/pipelines", &spec).await.status, 201);
    let path = "/v1/pipelines/watch/recording";
    assert_eq!(bench.get(path).await.problem().code, ProblemCode::NotReady);
    let frames = async || {
        let results = bench.get("/v1/pipelines/watch/results").await;
        results.json()["frames"].as_u64().unwrap()
    };
    timeout(TIMEOUT, async { while frames().await < 2 {} })
        .await
        .expect("the pipeline looks at frames");
    bench.ask("POST", "/v1/pipelines/watch/pause", "").await;

    let finished = async {
        loop {
            let whole = bench.get(path).await;
            if whole.status != 409 {
                break whole;
            }
        }
    };
    let whole = timeout(TIMEOUT, finished)
        .await
        .expect("the part is finished");
    assert_eq!(whole.status, 200, "{}", whole.head);
    let (kind, length) = (whole.header("content-type").unwrap(), whole.body.len());
    assert!(["video/mp4", "video/webm"].contains(&kind), "{kind}");
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    // A deployment reuses the numbers of parts, so no tag would stand for their content.
    assert_eq!(whole.header("etag"), None);

    let range = "range: bytes=4-7\r\n";
    let part = bench.ask_with("GET", path, range, "").await;
    assert_eq!((part.status, &part.body[..]), (206, &whole.body[4..8]));
    assert_eq!(part.header("content-type"), Some(kind));
    let said = format!("bytes 4-7/{length}");
    assert_eq!(part.header("content-range"), Some(said.as_str()));

    let beyond = format!("range: bytes={length}-\r\n");
    let refused = bench.ask_with("GET", path, &beyond, "").await;
    assert_eq!(refused.status, 416, "{}", refused.head);
    assert_eq!(refused.problem().field.as_deref(), Some("range"));
    let unknown = bench.get("/v1/pipelines/watch/recording?part=2").await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.problem().field.as_deref(), Some("part"));
}

/// Waits until `path` is sent.
async fn wait_for_permit(bench: &Bench, path: &str) {
    timeout(TIMEOUT, async {
        while bench.get(path).await.status != 200 {}
    })
    .await
    .expect("a transfer ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfer_holds_a_permit_and_survives_file_deletion() {
    let bench = Bench::start();
    // More than the socket's and the server's buffers hold, so that no transfer ends without a
    // reader.
    let (path, bytes) = kept_clip(&bench, 3_000_000);
    let mut sent: Vec<UnixStream> = (0..MAX_TRANSFERS)
        .map(|_| {
            let mut stream = bench.connect("GET", &path, "", b"");
            let mut head = [0; 12];
            stream.read_exact(&mut head).unwrap();
            assert_eq!(&head, b"HTTP/1.1 200");
            stream
        })
        .collect();
    let refused = bench.get(&path).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.problem().code, ProblemCode::Limit);
    assert_eq!(bench.get("/v1/sources").await.status, 200);

    assert_eq!(bench.app.api.media().free_space(1), 3_000_000);
    let mut last = sent.pop().unwrap();
    let body = tokio::task::spawn_blocking(move || {
        let mut rest = Vec::new();
        last.read_to_end(&mut rest).unwrap();
        let at = rest.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        rest.split_off(at + 4)
    });
    assert!(body.await.unwrap() == bytes, "it is cut off");
    // Its permit is free again, and so are those of clients that hang up.
    let (path, _) = kept_clip(&bench, 10);
    wait_for_permit(&bench, &path).await;
    drop(sent);
    for _ in 0..MAX_TRANSFERS {
        wait_for_permit(&bench, &path).await;
    }
}
