//! Target `bundle`: an evidence bundle from anywhere, its tar file and its lines of records.
//!
//! - A tar file that is read has the one form: writing its files again gives the same bytes.
//! - Lines of records that are read are the same when they are written again.

use watchkeeper_bundle::verify::verify;
use watchkeeper_bundle::{archive, record_line};

pub(super) fn bundle(input: &[u8]) {
    let mut again = Vec::new();
    let read = archive::read(&mut &*input, &mut |name, bytes, content| {
        let mut kept = Vec::new();
        content.read_to_end(&mut kept)?;
        // A content that ends early is the reader's to refuse.
        if kept.len() as u64 == bytes {
            archive::write_file(&mut again, name, bytes, &mut kept.as_slice())?;
        }
        Ok(())
    });
    if read.is_ok() {
        archive::write_end(&mut again).expect("memory takes all");
        assert_eq!(again, input, "two forms of one bundle");
    }
    if let Err(fault) = verify(&mut &*input, None) {
        assert!(!fault.to_string().trim().is_empty());
    }
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Ok(links) = record_line::read("records.jsonl", text) {
        let lines = links.iter();
        let lines = lines.map(|link| record_line::line(link.hash, link.previous, link.record));
        assert_eq!(lines.collect::<String>(), text, "two forms of one line");
    }
}
