//! One record by its number, from a scripted runtime.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

use watchkeeper_client::{JournalRecord, RuntimeClient};
use watchkeeper_contract::id::EventSeq;

/// Asks for record 5 of a runtime that answers once, with `status` and `body`.
fn ask(status: &str, body: &str) -> Option<JournalRecord> {
    let folder = tempfile::tempdir().expect("folder");
    let socket = folder.path().join("runtime.sock");
    let listener = UnixListener::bind(&socket).expect("bind");
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    let server: JoinHandle<String> = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("accept");
        let mut request = [0; 4096];
        let length = client.read(&mut request).expect("request");
        client.write_all(answer.as_bytes()).expect("answer");
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime");
    let found = runtime.block_on(async {
        let client = RuntimeClient::new(&socket).expect("client");
        client.record(EventSeq(5)).await.expect("answer")
    });
    let request = server.join().expect("server");
    assert!(request.contains("after=4&limit=1"), "{request}");
    found
}

#[test]
fn record_is_found_by_its_own_number_alone() {
    let found = ask("200 OK", r#"[{"seq": 5}]"#).expect("record 5");
    assert_eq!(found.seq(), EventSeq(5));
    // Record 5 was deleted by the retention.
    assert!(ask("200 OK", r#"[{"seq": 7}]"#).is_none());
    assert!(ask("200 OK", "[]").is_none());
}

#[test]
fn journal_that_ends_before_the_record_does_not_have_it() {
    let ahead = r#"{"status": 409, "code": "conflict", "field": "after", "detail": "the end"}"#;
    assert!(ask("409 Conflict", ahead).is_none());
}
