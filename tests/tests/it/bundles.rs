//! Evidence bundles of real daemons, checked by the command and by an independent program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_bundle::verify::{ExpectedKey, verify};
use watchkeeper_bundle::{CHAIN, MANIFEST, RECORDS, SIGNATURE, archive};
use watchkeeper_contract::bundle::{BundleFile, BundleManifest};
use watchkeeper_runtime::coverage::SigningKey;
use watchkeeper_store::chain::Hash;
use watchkeeper_tests::daemons::{Bench, Process, soak, wait_up_to};
use watchkeeper_tests::person;
use watchkeeper_tests::scene::{LONG, TRACKED, deploy_rules};

/// Tampered bundles of the suite.
const TAMPERED: usize = 200;

type Files = BTreeMap<String, Vec<u8>>;

fn evidence(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = person::command(bench)?;
    Ok(command.arg("evidence").args(arguments).output()?)
}

fn text(out: &Output) -> String {
    let [out, errors] = [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{errors}")
}

/// Exports to a file of the bench, and returns its path.
fn export(bench: &Bench, what: &str, name: &str, more: &[&str]) -> anyhow::Result<PathBuf> {
    let path = bench.path(name);
    let target = path.display().to_string();
    let out = evidence(
        bench,
        &[&["export", what, "--output", &target], more].concat(),
    )?;
    ensure!(out.status.success(), "{}", text(&out));
    Ok(path)
}

/// Public key of the box and its fingerprint.
fn key(bench: &Bench) -> anyhow::Result<(String, String)> {
    let key = bench.get("/v1/evidence/key")?;
    let member = |name: &str| key[name].as_str().map(str::to_owned).context("no key");
    Ok((member("key")?, member("fingerprint")?))
}

/// Runs the independent verifier. Returns whether it finds each bundle sound.
fn python(bundles: &[PathBuf], fingerprint: &str) -> anyhow::Result<Vec<bool>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/bundle/verify.py");
    let mut command = Command::new("python3");
    let command = command
        .arg("-B")
        .arg(script)
        .args(["--fingerprint", fingerprint]);
    let out = command.args(bundles).output()?;
    ensure!(out.stderr.is_empty(), "{}", text(&out));
    let lines = String::from_utf8(out.stdout)?;
    let verdicts = bundles.iter().map(|bundle| {
        let begin = format!("{}: ", bundle.display());
        let verdict = lines.lines().find_map(|line| line.strip_prefix(&begin));
        let verdict = verdict.with_context(|| format!("no verdict: {lines}"))?;
        Ok(verdict.starts_with("sound: "))
    });
    let verdicts = verdicts.collect::<anyhow::Result<Vec<bool>>>()?;
    ensure!(out.status.success() == verdicts.iter().all(|sound| *sound));
    Ok(verdicts)
}

/// Whether each verifier finds a bundle sound: ours, and the independent one.
fn is_sound(bench: &Bench, bundle: &[u8], fingerprint: &str) -> anyhow::Result<[bool; 2]> {
    let path = bench.path("checked.tar");
    fs::write(&path, bundle)?;
    let others = python(&[path], fingerprint)?;
    Ok([is_sound_for_us(bundle, fingerprint)?, others == [true]])
}

fn is_sound_for_us(bundle: &[u8], fingerprint: &str) -> anyhow::Result<bool> {
    let expected = ExpectedKey::by_fingerprint(fingerprint).context("a fingerprint")?;
    Ok(verify(&mut &*bundle, Some(&expected)).is_ok())
}

fn unpack(bundle: &[u8]) -> anyhow::Result<Files> {
    let mut files = Files::new();
    for entry in tar::Archive::new(bundle).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.display().to_string();
        entry.read_to_end(files.entry(name).or_default())?;
    }
    Ok(files)
}

fn pack<'a>(files: impl IntoIterator<Item = (&'a String, &'a Vec<u8>)>) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    for (name, content) in files {
        archive::write_file(
            &mut out,
            name,
            content.len() as u64,
            &mut content.as_slice(),
        )?;
    }
    archive::write_end(&mut out)?;
    Ok(out)
}

/// Makes the manifest list the files as they are, without a new signature.
fn hash_again(files: &mut Files) -> anyhow::Result<BundleManifest> {
    let mut manifest: BundleManifest =
        serde_json::from_slice(files.get(MANIFEST).context("a manifest")?)?;
    let known = std::mem::take(&mut manifest.files).into_iter();
    let known: BTreeMap<_, _> = known.map(|file| (file.name, file.original)).collect();
    let listed = files
        .iter()
        .filter(|(name, _)| ![MANIFEST, SIGNATURE].contains(&name.as_str()));
    let listed = listed.map(|(name, content)| BundleFile {
        name: name.clone(),
        bytes: content.len() as u64,
        sha256: Hash::of(content).to_string(),
        original: known.get(name).cloned().flatten(),
    });
    manifest.files = listed.collect();
    let value = serde_json::to_value(&manifest)?;
    let text = watchkeeper_contract::canonical::canonical(&value);
    files.insert(MANIFEST.to_owned(), text.into_bytes());
    Ok(manifest)
}

/// Lists the files as they are and signs that by a key in the folder `state`.
fn sign_again(files: &mut Files, state: &Path) -> anyhow::Result<()> {
    let BundleManifest {
        subject,
        at,
        files: listed,
        missing,
        ..
    } = hash_again(files)?;
    let name = "test/bench".to_owned();
    let signed = SigningKey::of(state).sign_bundle(name, subject, (listed, missing), at)?;
    files.insert(MANIFEST.to_owned(), signed.manifest.into_bytes());
    files.insert(SIGNATURE.to_owned(), signed.signature.into_bytes());
    Ok(())
}

/// Milliseconds that an event begins after the first one, so that its pipeline surely ran before.
const LATER_MS: u64 = 3000;

/// A box with an event of the rule `somebody` that has ended and whose clip is kept, and the number
/// of its first record. Records of the rule `crowd` come in between.
fn watched() -> anyhow::Result<(Bench, Process, u64)> {
    let bench = Bench::new("")?;
    let runtime = bench.runtime()?;
    let rule = |name: &str, clip: Value| {
        let mut rule = json!({"name": name, "when": {"kind": "appears", "detections": TRACKED}});
        rule["clip"] = clip;
        rule
    };
    let rules = [
        rule("somebody", json!({"before_s": 1, "after_s": 2})),
        rule("crowd", Value::Null),
    ];
    deploy_rules(&bench, &rules)?;
    let seq = wait_up_to(LONG, "an event with its clip", || {
        let events = bench.events().ok()?;
        let ended = |phase: &str| -> BTreeSet<String> {
            let events = events.iter().filter(|event| event["phase"] == phase);
            events.map(|event| event["id"].to_string()).collect()
        };
        let (end, clip) = (ended("end"), ended("clip"));
        let began_ms = |event: &Value| event["mono_ms"].as_u64();
        let of_rule = |event: &&Value| event["body"]["rule"] == "somebody";
        let from_ms = began_ms(events.iter().find(of_rule)?)? + LATER_MS;
        let is_whole = |event: &&Value| {
            let id = event["id"].to_string();
            event["phase"] == "new"
                && event["body"]["rule"] == "somebody"
                && began_ms(event) >= Some(from_ms)
                && end.contains(&id)
                && clip.contains(&id)
        };
        events.iter().find(is_whole)?["seq"].as_u64()
    })?;
    Ok((bench, runtime, seq))
}

#[test]
fn event_bundle_is_sound_for_both_verifiers() -> anyhow::Result<()> {
    let (bench, runtime, seq) = watched()?;
    let path = export(&bench, &seq.to_string(), "event.tar", &[])?;
    let whole = export(&bench, &seq.to_string(), "whole.tar", &["--to-head"])?;
    let (public, fingerprint) = key(&bench)?;
    let file = path.display().to_string();

    let again = evidence(&bench, &["export", &seq.to_string(), "--output", &file])?;
    assert_eq!(again.status.code(), Some(2), "{}", text(&again));
    assert!(text(&again).contains("exists"), "{}", text(&again));

    // No runtime is needed to verify.
    runtime.kill()?;
    let open = text(&evidence(&bench, &["verify", &file])?);
    assert!(open.contains("NOT proven: whose key"), "{open}");
    let pinned = evidence(&bench, &["verify", &file, "--key", &public])?;
    assert_eq!(pinned.status.code(), Some(0), "{}", text(&pinned));
    let pinned = text(&pinned);
    assert!(
        pinned.contains("signed with the key that you named"),
        "{pinned}"
    );
    assert!(!pinned.contains("missing:"), "{pinned}");
    let other = evidence(
        &bench,
        &["verify", &file, "--fingerprint", &"ab".repeat(32)],
    )?;
    assert_eq!(other.status.code(), Some(1), "{}", text(&other));

    let bundle = fs::read(&path)?;
    assert_eq!(is_sound(&bench, &bundle, &fingerprint)?, [true, true]);
    assert_eq!(
        is_sound(&bench, &fs::read(whole)?, &fingerprint)?,
        [true, true]
    );
    let files = unpack(&bundle)?;
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    for wanted in [RECORDS, "coverage.json", "pipeline.json"] {
        assert!(names.contains(&wanted), "{names:?}");
    }
    let media = |ending: &str| names.iter().filter(|name| name.ends_with(ending)).count();
    assert!(
        media(".jpg") >= 1 && media(".mp4") + media(".webm") == 1,
        "{names:?}"
    );
    Ok(())
}

#[test]
fn each_of_200_tampered_bundles_is_found() -> anyhow::Result<()> {
    let (bench, runtime, seq) = watched()?;
    let bundle = fs::read(export(&bench, &seq.to_string(), "event.tar", &[])?)?;
    let (_, fingerprint) = key(&bench)?;
    runtime.kill()?;
    let cases = tampered(&bundle, &bench.path("state"), &bench.path("other"))?;
    assert!(cases.len() >= TAMPERED, "{} cases", cases.len());
    let folder = bench.path("cases");
    fs::create_dir(&folder)?;
    let mut unseen = Vec::new();
    let mut paths = Vec::new();
    for (n, (name, tampered)) in cases.iter().enumerate() {
        ensure!(*tampered != bundle, "{name} changes nothing");
        if is_sound_for_us(tampered, &fingerprint)? {
            unseen.push(format!("{name}: by ours"));
        }
        let path = folder.join(format!("{n}.tar"));
        fs::write(&path, tampered)?;
        paths.push(path);
    }
    let verdicts = python(&paths, &fingerprint)?;
    let believed = verdicts.iter().zip(&cases).filter(|(sound, _)| **sound);
    unseen.extend(believed.map(|(_, (name, _))| format!("{name}: by Python's")));
    assert!(unseen.is_empty(), "found sound: {unseen:#?}");
    Ok(())
}

/// Tampered forms of a bundle, each with its description.
fn tampered(bundle: &[u8], state: &Path, other: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut rng = fastrand::Rng::with_seed(58);
    let files = unpack(bundle)?;
    let mut cases = Vec::new();
    for n in 0..90 {
        let mut flipped = bundle.to_vec();
        let at = rng.usize(..bundle.len());
        flipped[at] ^= 1 << rng.u8(..8);
        cases.push((format!("flip {n} at {at}"), flipped));
    }
    let mut at = 0;
    for (name, content) in &files {
        let end = at + 512 + content.len().next_multiple_of(512);
        for (part, from, to) in [("header", at, at + 512), ("content", at + 512, end)] {
            for _ in 0..4 {
                let mut flipped = bundle.to_vec();
                flipped[rng.usize(from..to)] ^= 1 << rng.u8(..8);
                cases.push((format!("flip in {part} of {name}"), flipped));
            }
        }
        at = end;
        let mut removed = files.clone();
        removed.remove(name);
        cases.push((format!("{name} removed"), pack(&removed)?));
    }
    for n in 0..12 {
        let cut = rng.usize(..bundle.len());
        cases.push((format!("cut {n} at {cut}"), bundle[..cut].to_vec()));
        let longer = [bundle, &vec![0; rng.usize(1..1024)]].concat();
        cases.push((format!("longer {n}"), longer));
    }
    for name in ["a.txt", "media/00000000000000000000000000.jpg", "zz"] {
        let mut added = files.clone();
        added.insert(name.to_owned(), Vec::new());
        cases.push((format!("{name} added"), pack(&added)?));
    }
    let names: Vec<&String> = files.keys().collect();
    for n in 1..names.len() {
        let mut swapped: Vec<_> = files.iter().collect();
        let (a, b) = (swapped[n - 1].1, swapped[n].1);
        (swapped[n - 1].1, swapped[n].1) = (b, a);
        cases.push((format!("{} swapped", names[n]), pack(swapped)?));
        let mut reordered: Vec<_> = files.iter().collect();
        reordered.swap(n - 1, n);
        cases.push((format!("{} reordered", names[n]), pack(reordered)?));
        let twice = files.iter().take(n).chain(files.iter().skip(n - 1));
        cases.push((format!("{} twice", names[n - 1]), pack(twice)?));
    }
    cases.extend(rewritten(&files, state, other)?);
    Ok(cases)
}

/// Bundles that were changed and listed again, without a key, with another key, and with the key of
/// the box. With the box's key the records contradict each other.
fn rewritten(files: &Files, state: &Path, other: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    fs::create_dir_all(other)?;
    let records = String::from_utf8(files[RECORDS].clone())?;
    let chain = files.get(CHAIN).cloned().unwrap_or_default();
    let lines: Vec<&str> = records.split_inclusive('\n').collect();
    let clip = files
        .keys()
        .find(|name| name.ends_with(".mp4") || name.ends_with(".webm"));
    let clip = clip.context("a clip")?.clone();
    let reversed: String = lines.iter().rev().copied().collect();
    let edits: Vec<(&str, String, Vec<u8>)> = vec![
        (
            "a word",
            RECORDS.to_owned(),
            records.replacen("somebody", "nobody12", 1).into(),
        ),
        ("reordered records", RECORDS.to_owned(), reversed.into()),
        (
            "a record less",
            RECORDS.to_owned(),
            lines[1..].concat().into(),
        ),
        (
            "a record twice",
            RECORDS.to_owned(),
            [lines[0], &records].concat().into(),
        ),
        ("no records", RECORDS.to_owned(), Vec::new()),
        (
            "other links",
            CHAIN.to_owned(),
            [&chain[..], lines[0].as_bytes()].concat(),
        ),
        ("another clip", clip.clone(), b"another clip".to_vec()),
    ];
    let mut cases = Vec::new();
    for (what, name, content) in edits {
        let mut edited = files.clone();
        edited.insert(name, content);
        hash_again(&mut edited)?;
        cases.push((format!("{what}, listed again"), pack(&edited)?));
        sign_again(&mut edited, state)?;
        cases.push((format!("{what}, signed by the box"), pack(&edited)?));
    }
    let mut hidden = files.clone();
    hidden.remove(&clip);
    sign_again(&mut hidden, state)?;
    cases.push((
        "the clip hidden, signed by the box".to_owned(),
        pack(&hidden)?,
    ));
    let mut foreign = files.clone();
    sign_again(&mut foreign, other)?;
    cases.push(("signed by another key".to_owned(), pack(&foreign)?));
    let mut mixed = files.clone();
    mixed.insert(SIGNATURE.to_owned(), foreign[SIGNATURE].clone());
    cases.push(("signature of another key".to_owned(), pack(&mixed)?));
    Ok(cases)
}

#[test]
fn exported_folder_has_a_page_with_pictures_and_clips() -> anyhow::Result<()> {
    let (bench, _runtime, seq) = watched()?;
    let folder = bench.path("for people");
    let target = folder.display().to_string();
    let export = |arguments: &[&str]| -> anyhow::Result<Output> {
        let mut command = person::command(&bench)?;
        command.args(["events", "export"]).args(arguments);
        Ok(command.args(["--output", &target]).output()?)
    };
    let nothing = export(&["--rule", "nobody"])?;
    assert_eq!(nothing.status.code(), Some(2), "{}", text(&nothing));
    let unknown = export(&["999999"])?;
    assert!(
        text(&unknown).contains("there is no event 999999"),
        "{}",
        text(&unknown)
    );
    assert!(!folder.exists());

    let out = export(&["--from", "1h", "--camera", "street", "--rule", "somebody"])?;
    assert!(out.status.success(), "{}", text(&out));
    let again = export(&[&seq.to_string()])?;
    assert!(text(&again).contains("exists"), "{}", text(&again));

    let page = fs::read_to_string(folder.join("index.html"))?;
    assert!(!page.contains("http"), "the page refers to the network");
    let (mut events, mut clips) = (0, 0);
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        events += 1;
        let name = entry.file_name().into_string().ok().context("a name")?;
        assert!(name.contains(" street somebody"), "{name}");
        let records = fs::read(entry.path().join("event.json"))?;
        let records: Value = serde_json::from_slice(&records)?;
        let first = &records["records"][0];
        assert_eq!(first["body"]["rule"], "somebody", "{records:#}");
        let picture = fs::read(entry.path().join("picture.jpg"))?;
        assert_eq!(Hash::of(&picture).to_string(), first["media"][0]["sha256"]);
        clips += usize::from(entry.path().join("clip.mp4").exists());
    }
    assert!(events >= 1 && clips >= 1, "{events} events, {clips} clips");
    assert_eq!(page.matches("<section>").count(), events);
    Ok(())
}

#[test]
fn bundle_states_media_that_are_gone_and_has_a_deleted_pipeline() -> anyhow::Result<()> {
    let (bench, _runtime, seq) = watched()?;
    for day in fs::read_dir(bench.path("state/media"))? {
        for file in fs::read_dir(day?.path())? {
            // The runtime continues, and renames the files that it writes.
            match fs::remove_file(file?.path()) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
    }
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    let path = export(&bench, &seq.to_string(), "event.tar", &[])?;
    let (_, fingerprint) = key(&bench)?;
    assert_eq!(
        is_sound(&bench, &fs::read(&path)?, &fingerprint)?,
        [true, true]
    );
    let shown = text(&evidence(&bench, &["verify", &path.display().to_string()])?);
    assert!(shown.matches("missing: media/").count() >= 2, "{shown}");
    assert!(!shown.contains("missing: pipeline.json"), "{shown}");

    let unknown = evidence(&bench, &["export", "999999", "--output", "/nonexistent/x"])?;
    assert_eq!(unknown.status.code(), Some(1), "{}", text(&unknown));
    let target = bench.path("unknown.tar").display().to_string();
    let unknown = evidence(&bench, &["export", "999999", "--output", &target])?;
    assert!(
        text(&unknown).contains("no record 999999"),
        "{}",
        text(&unknown)
    );
    assert!(!bench.path("unknown.tar").exists());
    Ok(())
}

#[test]
fn older_event_has_the_pipeline_that_made_it() -> anyhow::Result<()> {
    let (bench, runtime, seq) = watched()?;
    // Killed, and replaced after the restart.
    runtime.kill()?;
    let _runtime = bench.runtime()?;
    bench.json("DELETE", "/v1/pipelines/watch", None)?;
    let rule = json!({"name": "other", "when": {"kind": "appears", "detections": TRACKED}});
    deploy_rules(&bench, &[rule])?;
    let later = wait_up_to(LONG, "an event of the new pipeline", || {
        let events = bench.events().ok()?;
        let mut found = events
            .iter()
            .filter(|event| event["body"]["rule"] == "other");
        found.find(|event| event["phase"] == "new")?["seq"].as_u64()
    })?;
    for (seq, expected, hidden) in [(seq, "somebody", "other"), (later, "other", "somebody")] {
        let name = format!("{seq}.tar");
        let files = unpack(&fs::read(export(&bench, &seq.to_string(), &name, &[])?)?)?;
        let pipeline = files.get("pipeline.json").context("no pipeline")?;
        let pipeline: Value = serde_json::from_slice(pipeline)?;
        let rules = pipeline["rules"].to_string();
        assert!(
            rules.contains(expected) && !rules.contains(hidden),
            "{seq}: {rules}"
        );
        assert_eq!(pipeline["spec"]["id"], "watch", "{pipeline:#}");
    }
    Ok(())
}

/// Kills of each kind of export in the suite, and in the long run.
const KILLS: [usize; 2] = [10, 100];

/// Runs the command whole once, then kills it at random moments. `is_whole` checks what is at the
/// target afterwards, if anything.
fn kill_exports(
    bench: &Bench,
    what: &[&str],
    is_whole: impl Fn(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let folder = bench.path("kills");
    fs::create_dir(&folder)?;
    let start = |target: &Path| -> anyhow::Result<Command> {
        let mut command = person::command(bench)?;
        command.args(what).arg("--output").arg(target);
        Ok(command)
    };
    let began = std::time::Instant::now();
    let out = start(&folder.join("whole"))?.output()?;
    ensure!(out.status.success(), "{}", text(&out));
    let took_us = u64::try_from(began.elapsed().as_micros())?;
    let (seed, mut whole) = (fastrand::u64(..), 0);
    let mut random = fastrand::Rng::with_seed(seed);
    let kills = KILLS[usize::from(soak("a hundred kills of exports"))];
    for kill in 0..kills {
        let target = folder.join(format!("out{kill}"));
        let process = Process::start(start(&target)?, &bench.path("log"))?;
        std::thread::sleep(std::time::Duration::from_micros(random.u64(0..took_us)));
        process.kill()?;
        if target.exists() {
            whole += 1;
            is_whole(&target).with_context(|| format!("seed {seed}, kill {kill}"))?;
        }
    }
    for left in fs::read_dir(&folder)? {
        let name = left?.file_name().to_string_lossy().into_owned();
        let is_known = name.starts_with(".export") || name.starts_with("out") || name == "whole";
        ensure!(is_known, "seed {seed}: {name} is left");
    }
    ensure!(whole < kills, "seed {seed}: no kill met an export");
    fs::remove_dir_all(&folder)?;
    Ok(())
}

#[test]
fn killed_exports_leave_the_whole_or_nothing() -> anyhow::Result<()> {
    let (bench, _runtime, seq) = watched()?;
    let (_, fingerprint) = key(&bench)?;
    let event = seq.to_string();
    kill_exports(&bench, &["evidence", "export", &event], |file| {
        ensure!(
            is_sound_for_us(&fs::read(file)?, &fingerprint)?,
            "not sound"
        );
        Ok(())
    })?;
    kill_exports(&bench, &["events", "export", &event], |folder| {
        let page = fs::read_to_string(folder.join("index.html"))?;
        ensure!(page.matches("<section>").count() == 1, "half a page");
        let events = fs::read_dir(folder)?.filter_map(Result::ok);
        for event in events.filter(|entry| entry.path().is_dir()) {
            let records = fs::read(event.path().join("event.json"))?;
            let records: Value = serde_json::from_slice(&records)?;
            let picture = fs::read(event.path().join("picture.jpg"))?;
            let sum = &records["records"][0]["media"][0]["sha256"];
            ensure!(Hash::of(&picture).to_string() == *sum, "half a picture");
        }
        Ok(())
    })
}

const PLAN: &str = r#"
name: best-of-a-folder
steps:
  - {name: list, tool: list_pictures, params: {folder: photos}}
  - {name: sheet, tool: contact_sheet, params: {from: "${list.pictures}", file: "all pictures.jpg"}}
"#;

#[test]
fn job_bundle_holds_plan_log_results_and_files() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    fs::create_dir(bench.path("photos"))?;
    for n in 0..3_u8 {
        let picture = image::RgbImage::from_pixel(64, 48, image::Rgb([n * 80, 20, 90]));
        picture.save(bench.path("photos").join(format!("{n}.jpg")))?;
    }
    fs::write(bench.path("plan.yaml"), PLAN)?;
    let mut command = person::command(&bench)?;
    command
        .args(["job", "run", "plan.yaml", "--output", "made", "--json"])
        .current_dir(bench.path(""));
    let out = command.output()?;
    ensure!(out.status.success(), "{}", text(&out));
    let begun = watchkeeper_tests::daemons::json_lines(&out.stdout)?;
    let job = begun.iter().find_map(|object| object["job"].as_str());
    let job = job.context("a job")?;
    let path = export(&bench, job, "job.tar", &[])?;

    let (_, fingerprint) = key(&bench)?;
    let bundle = fs::read(&path)?;
    assert_eq!(is_sound(&bench, &bundle, &fingerprint)?, [true, true]);
    let shown = text(&evidence(&bench, &["verify", &path.display().to_string()])?);
    assert!(shown.contains("2 results of steps"), "{shown}");
    assert!(
        shown.contains("NOT proven: how the files came about"),
        "{shown}"
    );
    let files = unpack(&bundle)?;
    for name in [
        "job.json",
        "log.jsonl",
        "trajectory.jsonl",
        "results/sheet.json",
    ] {
        assert!(files.contains_key(name), "{:?}", files.keys());
    }
    let manifest: BundleManifest = serde_json::from_slice(&files[MANIFEST])?;
    let sheet = manifest.files.iter().find(|file| file.original.is_some());
    let sheet = sheet.context("a file of the output folder")?;
    assert_eq!(sheet.original.as_deref(), Some("all pictures.jpg"));

    let mut forged = files.clone();
    forged.insert(sheet.name.clone(), b"another picture".to_vec());
    assert_eq!(
        is_sound(&bench, &pack(&forged)?, &fingerprint)?,
        [false, false]
    );
    forged.insert("results/sheet.json".to_owned(), b"{}".to_vec());
    sign_again(&mut forged, &bench.path("state"))?;
    assert_eq!(
        is_sound(&bench, &pack(&forged)?, &fingerprint)?,
        [false, false]
    );

    // A file that is newer than the end of its step is not the one that the step wrote.
    let sheet = fs::File::options()
        .append(true)
        .open(bench.path("made/all pictures.jpg"))?;
    sheet.set_modified(SystemTime::now() + Duration::from_secs(60))?;
    let path = export(&bench, job, "changed.tar", &[])?;
    let shown = text(&evidence(&bench, &["verify", &path.display().to_string()])?);
    let missing = "missing: all pictures.jpg";
    assert!(
        shown.contains(missing) && shown.contains("was changed later"),
        "{shown}"
    );
    Ok(())
}

#[test]
fn job_of_the_agent_is_exported_by_the_agent() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    let _agent = bench.agent()?;
    fs::create_dir(bench.path("photos"))?;
    let picture = image::RgbImage::from_pixel(64, 48, image::Rgb([80, 20, 90]));
    picture.save(bench.path("photos/one.jpg"))?;
    fs::write(bench.path("plan.yaml"), PLAN)?;
    let run = wait_up_to(LONG, "the agent to run a job", || {
        let mut command = person::command(&bench).ok()?;
        command
            .args(["job", "run", "plan.yaml", "--agent", "--json"])
            .current_dir(bench.path(""));
        command.output().ok().filter(|out| out.status.success())
    })?;
    let begun = watchkeeper_tests::daemons::json_lines(&run.stdout)?;
    let job = begun.iter().find_map(|object| object["job"].as_str());
    let job = job.context("a job")?;
    let target = bench.path("other.tar").display().to_string();
    let other = evidence(&bench, &["export", job, "--output", &target])?;
    assert!(!other.status.success(), "it is no job of the user");
    let path = export(&bench, job, "agent.tar", &["--agent"])?;
    let (_, fingerprint) = key(&bench)?;
    let bundle = fs::read(&path)?;
    assert_eq!(is_sound(&bench, &bundle, &fingerprint)?, [true, true]);
    let files = unpack(&bundle)?;
    for name in ["job.json", "log.jsonl", "results/sheet.json"] {
        assert!(files.contains_key(name), "{:?}", files.keys());
    }
    Ok(())
}

#[test]
fn box_signs_descriptions_of_jobs_only() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    let file = |name: &str, sha256: &str| json!({"name": name, "bytes": 1, "sha256": sha256});
    let hash = "ab".repeat(32);
    let bodies = [
        json!({"report": {}}),
        json!({"id": "j", "created_ms": 0, "files": [file("../x", &hash)], "missing": []}),
        json!({"id": "j", "created_ms": 0, "files": [file("x", "zz")], "missing": []}),
        json!({"id": "j", "created_ms": 0, "files": [file(MANIFEST, &hash)], "missing": []}),
        json!({"id": "a/../b", "created_ms": 0, "files": [], "missing": []}),
        json!({"id": "j", "created_ms": 0, "files": [], "missing": [], "subject": {"kind": "event"}}),
    ];
    for body in bodies {
        let (status, answer) = bench.request("POST", "/v1/evidence/jobs", Some(&body))?;
        let answer = String::from_utf8_lossy(&answer);
        assert!((400..500).contains(&status), "{body}: {status} {answer}");
    }
    Ok(())
}
