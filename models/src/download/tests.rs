//! Downloads that succeed, resume, or are refused.

#![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]

use proptest::prelude::*;

use super::*;

const BODY: &[u8] = b"a small network with rather few weights";

fn sum(bytes: &[u8]) -> Sha256Sum {
    let mut hasher = Hasher::default();
    hasher.update(bytes);
    hasher.finish()
}

fn plan(dir: &Path) -> PullPlan {
    PullPlan {
        name: "m".to_owned(),
        url: "https://example.org/m.onnx".to_owned(),
        sha256: Some(sum(BODY)),
        bytes: Some(BODY.len() as u64),
        trust: Trust::KnownOnly,
        target: dir.join("models/m.onnx"),
        package: None,
    }
}

fn serve(plan: PullPlan, body: &[u8]) -> Result<Downloaded, DownloadError> {
    let mut download = Download::open(plan)?;
    let length = Some(body.len() as u64);
    download.start(Start::Whole {
        length,
        validator: None,
    })?;
    download.accept(body)?;
    download.finish()
}

/// Names of the files in the folder of models.
fn left_in(dir: &Path) -> Vec<String> {
    let files = fs::read_dir(dir.join("models")).unwrap();
    files
        .map(|file| file.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

/// Makes a download of a file of this name with all bytes.
fn fetched(dir: &Path, file: &str, body: &[u8]) -> Checked {
    let mut download = Download::open(PullPlan {
        sha256: Some(sum(body)),
        bytes: Some(body.len() as u64),
        target: dir.join(file),
        ..plan(dir)
    })
    .unwrap();
    download.accept(body).unwrap();
    download.check().unwrap()
}

#[test]
fn files_of_a_model_are_placed_together_network_last() {
    let dir = tempfile::tempdir().unwrap();
    let network = dir.path().join("m.onnx");
    let words = fetched(dir.path(), "words.onnx", b"words");
    assert!(
        !dir.path().join("words.onnx").exists(),
        "not before all are good"
    );
    let both = vec![words, fetched(dir.path(), "m.onnx", BODY)];
    let placed = place_all(both, &network).unwrap();
    assert_eq!(placed.last().unwrap().path, network);
    assert_eq!(fs::read(&network).unwrap(), BODY);
    // A new vocabulary beside the network that stays.
    let words = fetched(dir.path(), "words.onnx", b"other words");
    place_all(vec![words], &network).unwrap();
    assert_eq!(fs::read(&network).unwrap(), BODY);
    assert_eq!(
        fs::read(dir.path().join("words.onnx")).unwrap(),
        b"other words"
    );
}

#[test]
fn failed_placing_leaves_no_network_beside_other_files() {
    let dir = tempfile::tempdir().unwrap();
    let network = dir.path().join("m.onnx");
    fs::write(&network, "of an earlier version").unwrap();
    let words = fetched(dir.path(), "words.onnx", b"words");
    // A folder that is not empty has the name: no rename succeeds.
    fs::create_dir_all(dir.path().join("words.onnx/in the way")).unwrap();
    let both = vec![words, fetched(dir.path(), "m.onnx", BODY)];
    assert!(place_all(both, &network).is_err());
    assert!(!network.exists());
    // The next try finds the bytes.
    assert_eq!(fs::read(dir.path().join("m.onnx.part")).unwrap(), BODY);
}

#[test]
fn failed_placing_of_another_file_leaves_the_network_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let network = dir.path().join("m.onnx");
    fs::write(&network, BODY).unwrap();
    let words = fetched(dir.path(), "words.onnx", b"words");
    fs::create_dir_all(dir.path().join("words.onnx/in the way")).unwrap();
    assert!(place_all(vec![words], &network).is_err());
    assert_eq!(fs::read(&network).unwrap(), BODY);
}

#[test]
fn part_that_was_placed_while_it_was_opened_is_no_part() {
    let dir = tempfile::tempdir().unwrap();
    let (part, network) = (dir.path().join("m.part"), dir.path().join("m"));
    fs::write(&part, BODY).unwrap();
    let opened = fs::File::open(&part).unwrap();
    assert!(super::is_at(&opened, &part).unwrap());
    fs::rename(&part, &network).unwrap();
    assert!(!super::is_at(&opened, &part).unwrap());
    fs::write(&part, "of the next pull").unwrap();
    assert!(!super::is_at(&opened, &part).unwrap());
}

#[test]
fn file_with_wrong_sum_is_never_placed() {
    let dir = tempfile::tempdir().unwrap();
    let mut other = BODY.to_vec();
    other[0] ^= 1;
    let refused = serve(plan(dir.path()), &other);
    assert!(matches!(refused, Err(DownloadError::WrongSum { .. })));
    assert_eq!(left_in(dir.path()), [""; 0]);
    let got = serve(plan(dir.path()), BODY).unwrap();
    assert_eq!(fs::read(got.path).unwrap(), BODY);
}

#[test]
fn endless_body_is_cut_off_at_the_stated_size() {
    let dir = tempfile::tempdir().unwrap();
    let mut download = Download::open(plan(dir.path())).unwrap();
    download
        .start(Start::Whole {
            length: None,
            validator: None,
        })
        .unwrap();
    download.accept(BODY).unwrap();
    assert!(matches!(
        download.accept(b"!"),
        Err(DownloadError::TooLong { .. })
    ));
    assert_eq!(left_in(dir.path()), [""; 0]);
}

#[test]
fn part_of_a_file_stated_too_large_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut download = Download::open(plan(dir.path())).unwrap();
    download.accept(&BODY[..10]).unwrap();
    let stated = Start::Whole {
        length: Some(BODY.len() as u64 + 1),
        validator: Some("\"v2\"".to_owned()),
    };
    let refused = download.start(stated);
    assert!(matches!(refused, Err(DownloadError::TooLong { .. })));
    assert_eq!(left_in(dir.path()), [""; 0]);
}

#[test]
fn given_up_part_is_kept_only_if_it_can_be_continued() {
    let dir = tempfile::tempdir().unwrap();
    let empty = Download::open(plan(dir.path())).unwrap();
    empty.give_up().unwrap();
    assert_eq!(left_in(dir.path()), [""; 0]);

    let mut unproved = Download::open(PullPlan {
        sha256: None,
        trust: Trust::FirstUse,
        ..plan(dir.path())
    })
    .unwrap();
    unproved.accept(&BODY[..10]).unwrap();
    unproved.give_up().unwrap();
    assert_eq!(left_in(dir.path()), [""; 0]);

    let mut begun = Download::open(plan(dir.path())).unwrap();
    begun.accept(&BODY[..10]).unwrap();
    begun.give_up().unwrap();
    assert_eq!(left_in(dir.path()), ["m.onnx.part"]);
}

#[test]
fn unknown_sum_needs_trust_without_second_transfer() {
    let dir = tempfile::tempdir().unwrap();
    let unknown = PullPlan {
        sha256: None,
        bytes: None,
        ..plan(dir.path())
    };
    let message = serve(unknown.clone(), BODY).unwrap_err().to_string();
    assert!(message.contains(&sum(BODY).to_string()), "{message}");
    assert!(!unknown.target.exists());
    let mut again = Download::open(PullPlan {
        trust: Trust::FirstUse,
        ..unknown.clone()
    })
    .unwrap();
    assert_eq!(again.offset(), BODY.len() as u64);
    again.start(Start::Nothing).unwrap();
    assert!(!again.finish().unwrap().known);
    assert_eq!(recorded_sum(&unknown.target).unwrap(), Some(sum(BODY)));
}

#[test]
fn later_pull_of_unknown_sum_must_match_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let trusted = PullPlan {
        sha256: None,
        bytes: None,
        trust: Trust::FirstUse,
        ..plan(dir.path())
    };
    assert!(!serve(trusted.clone(), BODY).unwrap().known);
    for trust in [Trust::FirstUse, Trust::KnownOnly] {
        let later = PullPlan {
            trust,
            ..trusted.clone()
        };
        assert!(Download::already(&later).unwrap().is_some());
        fs::write(&later.target, "damaged").unwrap();
        assert!(Download::already(&later).unwrap().is_none());
        let refused = serve(later.clone(), b"of another author").unwrap_err();
        let said = refused.to_string();
        assert!(
            said.contains("m.onnx.sha256, and run") && said.contains("--trust"),
            "{said}"
        );
        assert_eq!(fs::read(&later.target).unwrap(), b"damaged");
        assert!(serve(later.clone(), BODY).unwrap().known);
        assert_eq!(fs::read(&later.target).unwrap(), BODY);
    }
    let zoo = crate::Zoo::builtin();
    let packaged = zoo.manifest("ssd-mobilenet-v2").unwrap();
    let converted = PullPlan {
        package: packaged.packages.first().cloned(),
        ..trusted.clone()
    };
    serve(converted, b"of a newer converter").unwrap();
    fs::remove_file(trusted.target.with_added_extension("sha256")).unwrap();
    serve(trusted, b"a new version").unwrap();
}

#[test]
fn unreadable_record_accepts_no_file_and_its_advice_works() {
    let dir = tempfile::tempdir().unwrap();
    let trusted = PullPlan {
        sha256: None,
        bytes: None,
        trust: Trust::FirstUse,
        ..plan(dir.path())
    };
    serve(trusted.clone(), BODY).unwrap();
    let record = trusted.target.with_added_extension("sha256");
    for damaged in ["", "no sum"] {
        fs::write(&record, damaged).unwrap();
        let refused = Download::already(&trusted).unwrap_err().to_string();
        assert!(refused.contains("no SHA-256"), "{refused}");
        let refused = serve(trusted.clone(), b"of another author").unwrap_err();
        for advice in ["m.onnx and ", "m.onnx.sha256", "--trust"] {
            assert!(refused.to_string().contains(advice), "{refused}");
        }
        assert_eq!(fs::read(&trusted.target).unwrap(), BODY);
    }
    fs::remove_file(&trusted.target).unwrap();
    fs::remove_file(&record).unwrap();
    serve(trusted.clone(), b"of another author").unwrap();
    let recorded = recorded_sum(&trusted.target).unwrap();
    assert_eq!(recorded, Some(sum(b"of another author")));
}

#[test]
fn file_without_name_keeps_checksum_of_earlier_file() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("m.onnx");
    let part = dir.path().join("m.onnx.part");
    fs::write(&part, BODY).unwrap();
    // No file replaces a folder.
    fs::create_dir(&target).unwrap();
    put_in_place(&part, &target, sum(BODY)).unwrap_err();
    assert_eq!(recorded_sum(&target).unwrap(), None);
    fs::write(
        target.with_added_extension("sha256"),
        sum(b"earlier").to_string(),
    )
    .unwrap();
    put_in_place(&part, &target, sum(BODY)).unwrap_err();
    assert_eq!(recorded_sum(&target).unwrap(), Some(sum(b"earlier")));
}

#[test]
fn part_is_continued_only_with_sum_or_validator() {
    let dir = tempfile::tempdir().unwrap();
    let unknown = PullPlan {
        sha256: None,
        bytes: None,
        ..plan(dir.path())
    };
    let begin = |validator: Option<&str>| {
        let mut download = Download::open(unknown.clone()).unwrap();
        download
            .start(Start::Whole {
                length: None,
                validator: validator.map(str::to_owned),
            })
            .unwrap();
        download.accept(&BODY[..3]).unwrap();
    };
    begin(None);
    assert_eq!(
        Download::open(unknown.clone()).unwrap().range_request(),
        None
    );
    let proved = Download::open(plan(dir.path())).unwrap();
    assert_eq!(
        proved.range_request().map(|r| (r.offset, r.validator)),
        Some((3, None))
    );
    drop(proved);
    begin(Some("\"v1\""));
    let rest = Download::open(unknown).unwrap().range_request();
    assert_eq!(
        rest.map(|r| (r.offset, r.validator)),
        Some((3, Some("\"v1\"".to_owned())))
    );
}

#[test]
fn two_downloads_of_one_file_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let first = Download::open(plan(dir.path())).unwrap();
    let second = Download::open(plan(dir.path()));
    assert!(matches!(second, Err(DownloadError::Busy { .. })));
    drop(first);
    Download::open(plan(dir.path())).unwrap();
}

#[test]
fn user_sum_decides_where_manifest_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = PullPlan {
        sha256: None,
        trust: Trust::Sum(sum(b"something else")),
        ..plan(dir.path())
    };
    assert!(matches!(
        serve(wrong, BODY),
        Err(DownloadError::WrongSum { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Wherever the connection breaks, the bytes in place are those that were served.
    #[test]
    fn broken_transfers_are_continued_to_the_same_file(
        breaks in prop::collection::vec((0usize..12, any::<bool>()), 0..6),
    ) {
        let dir = tempfile::tempdir().unwrap();
        for (length, ignores_range) in breaks {
            let mut download = Download::open(plan(dir.path())).unwrap();
            let from = if ignores_range { 0 } else { usize::try_from(download.offset()).unwrap() };
            let length_left = Some((BODY.len() - from) as u64);
            download.start(if ignores_range {
                Start::Whole { length: length_left, validator: None }
            } else {
                Start::Rest { length: length_left }
            }).unwrap();
            let to = (from + length).min(BODY.len());
            download.accept(&BODY[from..to]).unwrap();
            if to < BODY.len() {
                let short = matches!(download.finish(), Err(DownloadError::TooShort { .. }));
                prop_assert!(short);
            }
        }
        let mut download = Download::open(plan(dir.path())).unwrap();
        let from = usize::try_from(download.offset()).unwrap();
        download.start(Start::Rest { length: None }).unwrap();
        download.accept(&BODY[from..]).unwrap();
        let got = download.finish().unwrap();
        prop_assert_eq!(fs::read(got.path).unwrap(), BODY);
    }
}
