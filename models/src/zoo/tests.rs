#![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]

use crate::download::Trust;
use crate::onnx::Message;

use super::*;

const OWN: &str = include_str!("../../zoo/yolox-nano.toml");

/// Nothing here runs a network.
fn opens(_: &Path, _: &str) -> Result<(), String> {
    Ok(())
}

fn own(name: &str) -> String {
    let head = OWN.replace("yolox-nano\"", &format!("{name}\""));
    let files = head.find("# The checksum").unwrap();
    let input = head.find("# Values").unwrap();
    format!("{}{}", &head[..files], &head[input..])
}

#[test]
fn built_in_manifests_are_good_and_have_licences() {
    let zoo = Zoo::builtin();
    assert_eq!(zoo.entries.len(), BUILTIN.len(), "two share a name");
    for manifest in zoo.manifests() {
        assert!(manifest.licence.is_some(), "{}", manifest.name);
        assert!(manifest.origin.is_some(), "{}", manifest.name);
    }
}

#[test]
fn unknown_name_is_answered_with_the_nearest() {
    let message = Zoo::builtin()
        .resolve("yolox_nano")
        .unwrap_err()
        .to_string();
    assert!(message.contains("`yolox-nano`"), "{message}");
    let message = Zoo::builtin().resolve("qqqq").unwrap_err().to_string();
    assert!(!message.contains("did you mean"), "{message}");
}

#[test]
fn absent_model_error_names_the_pull_command() {
    let dir = tempfile::tempdir().unwrap();
    let zoo = Zoo::with_dir(dir.path());
    let message = zoo.resolve("yolox-nano").unwrap_err().to_string();
    assert!(
        message.contains("watchkeeper models pull yolox-nano"),
        "{message}"
    );
    let message = zoo.resolve("yolov8n").unwrap_err().to_string();
    assert!(
        message.contains("models add FILE --like yolov8n"),
        "{message}"
    );
}

#[test]
fn unrecognised_file_error_has_sum_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.onnx");
    let refusal = |contents: &[u8]| {
        fs::write(&file, contents).unwrap();
        let refused = Zoo::builtin().resolve(file.to_str().unwrap());
        refused.unwrap_err().to_string()
    };
    let network = Message::default().message(7, &Message::default().text(2, "a graph"));
    let network = network.to_bytes();
    let cut = refusal(network.split_last().unwrap().1);
    assert!(cut.contains("no complete ONNX file"), "{cut}");
    let message = refusal(&network);
    let sum = digest::of_file(&file).unwrap().0.to_string();
    assert!(
        message.contains(&sum) && message.contains("mine.toml"),
        "{message}"
    );
}

#[test]
fn file_is_described_by_the_manifest_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.onnx");
    fs::write(&file, "weights").unwrap();
    fs::write(dir.path().join("mine.toml"), own("mine")).unwrap();
    let resolved = Zoo::builtin().resolve(file.to_str().unwrap()).unwrap();
    assert_eq!(
        (resolved.manifest.name.as_str(), resolved.path),
        ("mine", file)
    );
}

#[test]
fn one_bad_manifest_leaves_the_others_usable() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.toml"), "name = 3").unwrap();
    fs::write(dir.path().join("b.toml"), own("mine")).unwrap();
    let zoo = Zoo::with_dir(dir.path());
    assert_eq!(zoo.problems().len(), 1);
    assert!(zoo.manifest("mine").is_some() && zoo.manifest("yolox-nano").is_some());
}

#[test]
fn first_folder_with_a_model_wins() {
    let dir = tempfile::tempdir().unwrap();
    let (mine, box_s) = (dir.path().join("mine"), dir.path().join("box"));
    for folder in [&mine, &box_s] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(box_s.join("a.onnx"), "").unwrap();
    fs::write(box_s.join("a.toml"), own("a")).unwrap();
    fs::write(box_s.join("b.onnx"), "").unwrap();
    fs::write(box_s.join("b.toml"), "name = 3").unwrap();
    fs::write(mine.join("b.onnx"), "").unwrap();
    fs::write(mine.join("b.toml"), own("b")).unwrap();
    let zoo = Zoo::with_dirs([mine.clone(), box_s.clone()]);
    assert_eq!(zoo.resolve("a").unwrap().path, box_s.join("a.onnx"));
    assert_eq!(zoo.resolve("b").unwrap().path, mine.join("b.onnx"));
    let plans = zoo.pull_plan("yolox-nano", Trust::KnownOnly, None).unwrap();
    assert_eq!(plans[0].target, mine.join("yolox-nano.onnx"));
    let listed = zoo.list();
    let a = listed.iter().find(|model| model.name == "a").unwrap();
    assert!(matches!(&a.state, ModelState::Present { path } if path.ends_with("box/a.onnx")));
}

#[test]
fn added_file_is_present_and_a_change_to_it_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("export.onnx");
    fs::write(&outside, "weights").unwrap();
    let mut zoo = Zoo::with_dir(dir.path().join("models"));
    zoo.add(&outside, None, Some("yolov8n"), Some("yolov8n"), &opens)
        .unwrap();
    let listed = zoo
        .list()
        .into_iter()
        .find(|m| m.name == "yolov8n")
        .unwrap();
    let ModelState::Present { path } = listed.state else {
        panic!("{listed:?} is not present");
    };
    assert_eq!(
        zoo.verify("yolov8n").unwrap().against,
        ChecksumSource::Record
    );
    fs::write(path, "other weights").unwrap();
    assert!(matches!(
        zoo.verify("yolov8n"),
        Err(ZooError::Changed { .. })
    ));
}

#[test]
fn file_with_known_layout_is_a_model_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let models = dir.path().join("models");
    for name in ["Mine.onnx", "theirs.onnx"] {
        let outside = dir.path().join(name);
        fs::write(&outside, name).unwrap();
        let mut zoo = Zoo::with_dir(&models);
        zoo.add(&outside, None, Some("yolox-nano"), None, &opens)
            .unwrap();
    }
    let zoo = Zoo::with_dir(&models);
    assert!(zoo.problems().is_empty(), "{:?}", zoo.problems());
    let known = zoo.manifest("yolox-nano").unwrap();
    for name in ["mine", "theirs"] {
        let Resolved { manifest, path } = zoo.resolve(name).unwrap();
        assert_eq!(path, models.join(format!("{name}.onnx")));
        assert_eq!(
            (&manifest.input, &manifest.decode),
            (&known.input, &known.decode)
        );
        assert_eq!(
            (&manifest.labels, &manifest.nms),
            (&known.labels, &known.nms)
        );
        // Nothing is claimed that is true of the known files only.
        assert!(manifest.files.is_empty() && manifest.licence.is_none());
        assert_eq!(zoo.verify(name).unwrap().against, ChecksumSource::Record);
    }
    assert!(matches!(
        zoo.resolve("yolox-nano"),
        Err(ZooError::Absent { .. })
    ));

    let outside = dir.path().join("yolox-nano.onnx");
    fs::write(&outside, "retrained").unwrap();
    let mut zoo = Zoo::with_dir(&models);
    let refused = zoo
        .add(&outside, None, Some("yolox-nano"), None, &opens)
        .unwrap_err();
    assert!(refused.to_string().contains("--name"), "{refused}");
    zoo.add(&outside, None, Some("mine"), Some("night"), &opens)
        .unwrap();
    assert!(Zoo::with_dir(&models).resolve("night").is_ok());
}

#[test]
fn failed_add_leaves_neither_manifest_nor_network() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("mine.onnx");
    fs::write(&outside, "weights").unwrap();
    let models = dir.path().join("models");
    // A folder has the name of the checksum's file.
    let in_the_way = models.join("mine.onnx.sha256");
    fs::create_dir_all(in_the_way.join("folder")).unwrap();
    let mut zoo = Zoo::with_dir(&models);
    let refused = zoo.add(&outside, None, Some("yolox-nano"), None, &opens);
    assert!(matches!(refused, Err(ZooError::Write { .. })));
    assert!(matches!(zoo.resolve("mine"), Err(ZooError::Unknown { .. })));
    let left: Vec<_> = fs::read_dir(&models)
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    assert_eq!(left, [in_the_way]);
}

#[test]
fn file_that_does_not_fit_its_manifest_is_not_added() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("mine.onnx");
    fs::write(&outside, "weights").unwrap();
    let models = dir.path().join("models");
    let refused = Zoo::with_dir(&models).add(
        &outside,
        None,
        Some("yolox-nano"),
        None,
        &|path, manifest| {
            assert_eq!(path, outside);
            let described = Manifest::parse(Path::new("mine.toml"), manifest).unwrap();
            Err(format!("{} is cut short", described.name))
        },
    );
    let said = refused.unwrap_err().to_string();
    assert!(
        said.ends_with("mine.onnx was not added: mine is cut short"),
        "{said}"
    );
    assert!(!models.exists());
}

#[test]
fn added_manifest_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("mine.onnx");
    fs::write(&outside, "weights").unwrap();
    fs::write(dir.path().join("mine.toml"), own("mine")).unwrap();
    let models = dir.path().join("models");
    Zoo::with_dir(&models)
        .add(&outside, None, None, None, &opens)
        .unwrap();
    let resolved = Zoo::with_dir(&models).resolve("mine").unwrap();
    assert_eq!(resolved.path, models.join("mine.onnx"));
}

#[test]
fn failed_add_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("mine.onnx");
    fs::write(dir.path().join("mine.toml"), own("mine")).unwrap();
    let models = dir.path().join("models");
    let add = |weights: &str| {
        fs::write(&outside, weights).unwrap();
        Zoo::with_dir(&models).add(&outside, None, None, None, &opens)
    };
    add("weights").unwrap();
    // A folder has the file's name, so the copy fails.
    let file = models.join("mine.onnx");
    fs::remove_file(&file).unwrap();
    fs::create_dir_all(file.join("full")).unwrap();
    add("other weights").unwrap_err();
    fs::remove_dir_all(&file).unwrap();
    fs::write(&file, "weights").unwrap();
    let verified = Zoo::with_dir(&models).verify("mine").unwrap();
    // The record of the earlier file stays.
    assert_eq!(verified.against, ChecksumSource::Record);

    let part = models.join("mine.onnx.part");
    fs::write(&part, "of a pull").unwrap();
    add("third weights").unwrap();
    assert_eq!(fs::read_to_string(&part).unwrap(), "of a pull");
    let names = fs::read_dir(&models).unwrap();
    let names: Vec<_> = names.map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn failed_replacement_keeps_the_earlier_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("mine.onnx");
    let models = dir.path().join("models");
    let add = |manifest: &str| {
        fs::write(&outside, "weights").unwrap();
        fs::write(dir.path().join("mine.toml"), manifest).unwrap();
        Zoo::with_dir(&models).add(&outside, None, None, None, &opens)
    };
    add(&own("mine")).unwrap();
    // A folder has the name of the checksum's file, so the network can't be replaced.
    let record = models.join("mine.onnx.sha256");
    fs::remove_file(&record).unwrap();
    fs::create_dir_all(record.join("full")).unwrap();
    add(&format!("# other\n{}", own("mine"))).unwrap_err();
    let kept = fs::read_to_string(models.join("mine.toml")).unwrap();
    assert_eq!(kept, own("mine"));
}

/// Makes a model with a vocabulary whose text is `merges`, in its own folder.
fn with_parts(folder: &Path, merges: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let mut hasher = digest::Hasher::default();
    hasher.update(merges.as_bytes());
    let clip = include_str!("../../zoo/clip-vit-b-32.toml");
    let sum = "924691ac288e54409236115652ad4aa250f48203de50a9e4722a6ecd48d6804a";
    let text = clip
        .replace(sum, &hasher.finish().to_string())
        .replace("\"clip-vit-b-32\"", "\"mine\"")
        .replace("clip/ViT-B-32", "clip/RN50");
    fs::write(folder.join("mine.toml"), text).unwrap();
    fs::write(folder.join("mine.onnx"), "pictures").unwrap();
    fs::write(folder.join("clip-vit-b-32-text.onnx"), "texts").unwrap();
    fs::write(folder.join("bpe_simple_vocab_16e6.txt.gz"), merges).unwrap();
    folder.join("mine.onnx")
}

#[test]
fn model_stands_for_names_and_is_present_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    with_parts(dir.path(), "merges");
    let zoo = Zoo::with_dir(dir.path());
    let resolved = zoo.resolve("clip/RN50").unwrap();
    assert_eq!(resolved.manifest.name, "mine");
    let vocabulary = &resolved.manifest.text.as_ref().unwrap().vocabulary;
    assert_eq!(resolved.read_part(vocabulary, 100).unwrap(), b"merges");
    let large = resolved.read_part(vocabulary, 3).unwrap_err().to_string();
    assert!(large.contains("larger than 3 bytes"), "{large}");
    assert!(zoo.verify("mine").is_ok());

    fs::write(dir.path().join("bpe_simple_vocab_16e6.txt.gz"), "others").unwrap();
    let other = resolved.read_part(vocabulary, 100).unwrap_err().to_string();
    assert!(other.contains("manifest `mine` expects"), "{other}");
    assert!(zoo.verify("mine").is_err());

    fs::remove_file(dir.path().join("clip-vit-b-32-text.onnx")).unwrap();
    let missing = zoo.resolve("clip/RN50").unwrap_err().to_string();
    assert!(
        missing.contains("model `mine` needs") && missing.contains("-text.onnx"),
        "{missing}"
    );
    let listed = zoo.list().into_iter().find(|m| m.name == "mine").unwrap();
    assert_eq!(listed.state, ModelState::Absent);
}

#[test]
fn unknown_step_name_error_names_stands_for() {
    let zoo = Zoo::builtin();
    let absent = zoo.resolve("clip/ViT-B-32").unwrap_err().to_string();
    assert!(absent.contains("--like clip-vit-b-32"), "{absent}");
    let unknown = zoo.resolve("clip/RN50").unwrap_err().to_string();
    assert!(
        unknown.contains("stands_for = [\"clip/RN50\"]"),
        "{unknown}"
    );
}

#[test]
fn parts_are_added_without_replacing_other_files() {
    let dir = tempfile::tempdir().unwrap();
    let models = dir.path().join("models");
    let network = with_parts(&dir.path().join("one"), "merges");
    let mut zoo = Zoo::with_dir(&models);
    zoo.add(&network, None, None, None, &opens).unwrap();
    assert!(Zoo::with_dir(&models).verify("clip/RN50").is_ok());
    // Adding it again changes nothing; another vocabulary of that name is refused, and so is a
    // model without one.
    zoo.add(&network, None, None, None, &opens).unwrap();
    let other = with_parts(&dir.path().join("two"), "other merges");
    let taken = zoo.add(&other, None, None, Some("theirs"), &opens);
    assert!(
        matches!(taken, Err(ZooError::PartTaken { .. })),
        "{taken:?}"
    );
    let bare = with_parts(&dir.path().join("three"), "merges");
    fs::remove_file(bare.with_file_name("clip-vit-b-32-text.onnx")).unwrap();
    let fresh = dir.path().join("fresh");
    let missing = Zoo::with_dir(&fresh).add(&bare, None, None, None, &opens);
    assert!(
        matches!(missing, Err(ZooError::PartAbsent { .. })),
        "{missing:?}"
    );
    assert!(!fresh.join("mine.onnx").exists() && !fresh.join("mine.toml").exists());
}

#[test]
fn an_endless_manifest_is_refused_and_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let huge = fs::File::create(dir.path().join("huge.toml")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let zoo = Zoo::with_dir(dir.path());
    let problem = zoo.problems()[0].to_string();
    assert!(problem.contains("larger than 1048576 bytes"), "{problem}");
}

#[test]
fn pull_plan_has_every_file_network_last() {
    let dir = tempfile::tempdir().unwrap();
    let zoo = Zoo::with_dir(dir.path());
    let mirror = Some("http://mirror/models/");
    let other = Trust::Sum("0".repeat(64).parse().unwrap());
    let refused = zoo.pull_plan("pp-ocr-v4", other, mirror).unwrap_err();
    assert!(matches!(refused, ZooError::OtherSum { .. }), "{refused}");
    let published = zoo.manifest("pp-ocr-v4").unwrap().files[0].sha256;
    let sum = Trust::Sum(published.unwrap());
    let plans = zoo.pull_plan("pp-ocr-v4", sum, mirror).unwrap();
    let urls: Vec<_> = plans.iter().map(|plan| plan.url.as_str()).collect();
    assert_eq!(
        urls,
        [
            "http://mirror/models/ch_PP-OCRv4_det_infer.onnx",
            "http://mirror/models/pp-ocr-v4.onnx"
        ]
    );
    assert!(
        plans
            .iter()
            .all(|plan| plan.sha256.is_some() && plan.bytes.is_some())
    );
    assert_eq!(plans[0].trust, Trust::KnownOnly, "the sum is the network's");
    let clip = zoo
        .pull_plan("clip-vit-b-32", Trust::FirstUse, mirror)
        .unwrap();
    assert_eq!(clip.len(), 3);
    assert_eq!(clip[2].target, dir.path().join("clip-vit-b-32.onnx"));
}

#[test]
fn pull_plan_replaces_no_foreign_file() {
    let dir = tempfile::tempdir().unwrap();
    let mirror = Some("http://mirror/models/");
    let plan = |name: &str| Zoo::with_dir(dir.path()).pull_plan(name, Trust::FirstUse, mirror);
    let vocabulary = dir.path().join("bpe_simple_vocab_16e6.txt.gz");
    fs::write(&vocabulary, "somebody's own").unwrap();
    let taken = plan("clip-vit-b-32").unwrap_err();
    assert!(matches!(taken, ZooError::PartTaken { .. }), "{taken}");
    assert!(taken.to_string().contains("bpe_simple_vocab"), "{taken}");
    // A file that was fetched for it and damaged since is fetched again.
    let record = dir.path().join("bpe_simple_vocab_16e6.txt.gz.sha256");
    fs::write(&record, format!("{}  vocabulary\n", "0".repeat(64))).unwrap();
    assert_eq!(plan("clip-vit-b-32").unwrap().len(), 3);
    // But not where another model means another file by that name.
    with_parts(dir.path(), "merges");
    let text = dir.path().join("clip-vit-b-32-text.onnx");
    fs::remove_file(&text).unwrap();
    let taken = plan("clip-vit-b-32").unwrap_err();
    assert!(matches!(taken, ZooError::PartTaken { .. }), "{taken}");
    // Every model that names this file may use it.
    assert_eq!(plan("mine").unwrap().len(), 3);
    // A file of unknown origin is not overwritten either.
    fs::write(&text, "texts").unwrap();
    let unknown = plan("mine").unwrap_err();
    assert!(matches!(unknown, ZooError::PartUnknown { .. }), "{unknown}");
}

#[test]
fn part_never_has_the_name_of_a_network() {
    let dir = tempfile::tempdir().unwrap();
    let network = with_parts(dir.path(), "merges");
    let own = dir.path().join("mine.toml");
    let text = fs::read_to_string(&own).unwrap();
    for other in ["yolox-nano", "mine"] {
        let renamed = text.replace("clip-vit-b-32-text.onnx", &format!("{other}.onnx"));
        fs::write(&own, renamed).unwrap();
        let plan = Zoo::with_dir(dir.path()).pull_plan("mine", Trust::FirstUse, Some("http://m"));
        let told = plan.unwrap_err().to_string();
        assert!(told.contains(&format!("network of `{other}`")), "{told}");
        let mut zoo = Zoo::with_dir(dir.path().join("models"));
        let added = zoo.add(&network, None, None, None, &opens);
        assert!(
            matches!(added, Err(ZooError::PartIsNetwork { .. })),
            "{added:?}"
        );
    }
    // A network with the name of a model's other file is refused too.
    fs::write(&own, text).unwrap();
    let added = Zoo::with_dir(dir.path().join("models")).add(
        &network,
        None,
        None,
        Some("clip-vit-b-32-text"),
        &opens,
    );
    assert!(
        matches!(added, Err(ZooError::PartIsNetwork { .. })),
        "{added:?}"
    );
}

#[test]
fn pull_prefers_a_file_whose_checksum_is_known() {
    let zoo = Zoo::with_dir("models");
    let plans = zoo.pull_plan("yolox-nano", Trust::KnownOnly, None).unwrap();
    assert!(plans.len() == 1 && plans[0].sha256.is_some());
    let plans = zoo.pull_plan("yolox-s", Trust::KnownOnly, None).unwrap();
    assert!(plans[0].sha256.is_none() && plans[0].url.contains("0.1.1rc0"));
    let none = zoo.pull_plan("yolov8n", Trust::KnownOnly, None);
    assert!(matches!(none, Err(ZooError::NotPublished { .. })));
}

#[test]
fn digest_is_of_the_file_as_it_is_and_of_the_preparation() {
    let dir = tempfile::tempdir().unwrap();
    let (manifest, network) = (dir.path().join("m.toml"), dir.path().join("m.onnx"));
    let text = own("m");
    fs::write(&manifest, &text).unwrap();
    fs::write(&network, "a network").unwrap();
    let resolve = || Zoo::with_dir(dir.path()).resolve("m").unwrap();
    let digest = || resolve().digest().unwrap();
    let first = digest();
    // The recorded checksum stays that of the file that was placed.
    fs::write(&network, "retrained").unwrap();
    let retrained = digest();
    assert_ne!(retrained, first);
    fs::write(&manifest, format!("# no change\n{text}")).unwrap();
    assert_eq!(digest(), retrained);
    let prepared = text.replace("[input]", "[input]\nmean = [1.0, 2.0, 3.0]");
    fs::write(&manifest, prepared).unwrap();
    assert_ne!(digest(), retrained);
    let resolved = resolve();
    fs::remove_file(&network).unwrap();
    assert!(resolved.digest().is_err());
}
