//! Search of notes by meaning: the real agent with a tiny sentence embedding model that is present,
//! damaged and restored. No camera and no runtime are needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use serde_json::{Value, json};
use watchkeeper_tests::agent_api::Api;
use watchkeeper_tests::daemons::{Bench, Process, program, wait_for};
use watchkeeper_tests::onnx::hostile_sentence_model;

const NOTES: &str =
    "## (person)\n\nA dog barks at the gate.\n\n## (person)\n\nThe lorry stands at the dock.\n";

/// Installs the tiny model as a user would.
fn put_model(folder: &Path) -> anyhow::Result<()> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/sentences");
    fs::create_dir_all(folder.join("1_Pooling"))?;
    for name in ["model.onnx", "tokenizer.json", "1_Pooling/config.json"] {
        fs::copy(from.join(name), folder.join(name))?;
    }
    Ok(())
}

/// Folder of the agent's notes, below that of the test.
const MEMORY: &str = "state/assistant/memory";

struct Site {
    bench: Bench,
    agent: Process,
    api: Api,
}

impl Site {
    /// Makes a box with two notes. `make` prepares it before the agent starts and returns further
    /// configuration.
    fn new(make: impl FnOnce(&Bench) -> anyhow::Result<String>) -> anyhow::Result<Self> {
        let bench = Bench::new("")?;
        let extra = make(&bench)?;
        bench.configure(&extra)?;
        let memory = bench.path(MEMORY);
        fs::create_dir_all(&memory)?;
        fs::write(memory.join("knowledge.md"), NOTES)?;
        Self::of(bench)
    }

    fn of(bench: Bench) -> anyhow::Result<Self> {
        let agent = bench.agent()?;
        let api = Api::on(&bench).wait_until_up()?;
        Ok(Self { bench, agent, api })
    }

    fn restart(self) -> anyhow::Result<Self> {
        self.agent.kill()?;
        Self::of(self.bench)
    }

    fn memory(&self) -> PathBuf {
        self.bench.path(MEMORY)
    }

    fn found(&self, words: &str) -> anyhow::Result<Vec<String>> {
        let path = format!("/v1/memory?q={}", words.replace(' ', "%20"));
        let found = self.api.json("GET", &path, None)?;
        let found = found.as_array().into_iter().flatten();
        let words = found.filter_map(|note| note["note"]["words"].as_str());
        Ok(words.map(str::to_owned).collect())
    }

    fn health(&self) -> anyhow::Result<Value> {
        self.api.json("GET", "/v1/health", None)
    }

    /// Waits until every note has its vector.
    fn all_read(&self) -> anyhow::Result<Value> {
        wait_for("the notes to be read by the model", || {
            let health = self.health().ok()?;
            (health["memory"]["waiting"] == 0).then_some(health)
        })
    }

    fn log(&self) -> String {
        self.agent.log_text()
    }
}

#[test]
fn configured_model_finds_notes_and_embeds_each_once() -> anyhow::Result<()> {
    let site = Site::new(|bench| {
        put_model(&bench.path("sentences"))?;
        // Relative to the configuration file, as other paths are.
        Ok("[agent.memory]\nmodel = \"sentences\"\n".to_owned())
    })?;
    // Found by its words at once, whether the model has processed it or not.
    assert!(
        site.found("the lorry")?
            .contains(&"The lorry stands at the dock.".to_owned())
    );
    let health = site.all_read()?;
    assert_eq!(health["memory"]["vectors"]["by"], "model", "{health}");
    assert_eq!(health["memory"]["vectors"]["dimension"], 16);
    assert_eq!(
        site.found("some canine growls")?,
        ["A dog barks at the gate."]
    );
    let told = site
        .log()
        .matches("sentence embeddings of the model")
        .count();
    ensure!(told == 1, "told {told} times: {}", site.log());
    let vectors = site.memory().join(".vectors");
    let kept = |name: &str| -> anyhow::Result<Vec<u8>> {
        for entry in fs::read_dir(&vectors)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == name) {
                return Ok(fs::read(path)?);
            }
        }
        anyhow::bail!("there is no such file")
    };
    let before = kept("vec")?;
    // After a power cut and a restart nothing is embedded again.
    let site = site.restart()?;
    site.all_read()?;
    assert_eq!(
        site.found("some canine growls")?,
        ["A dog barks at the gate."]
    );
    assert_eq!(kept("vec")?, before);
    // After a user edits a note, the new words are found at once, their meaning soon.
    let edited = NOTES.replace(
        "The lorry stands at the dock.",
        "A parcel waits at the door.",
    );
    fs::write(site.memory().join("knowledge.md"), edited)?;
    assert_eq!(site.found("parcel")?, ["A parcel waits at the door."]);
    site.all_read()?;
    assert_eq!(site.found("the package")?, ["A parcel waits at the door."]);
    Ok(())
}

#[test]
fn default_model_is_used_and_a_damaged_one_is_reported() -> anyhow::Result<()> {
    let site = Site::new(|bench| {
        put_model(&bench.path("models/memory"))?;
        Ok("[models]\ndir = \"models\"\n".to_owned())
    })?;
    assert_eq!(
        site.found("a dog")?.first().map(String::as_str),
        Some("A dog barks at the gate.")
    );
    site.all_read()?;
    assert_eq!(
        site.found("some canine growls")?,
        ["A dog barks at the gate."]
    );
    let doctor = |site: &Site| -> anyhow::Result<String> {
        let out = Command::new(program("watchkeeper")?)
            .args(["doctor", "--config"])
            .arg(site.bench.config())
            .env("HOME", site.bench.path(""))
            .output()?;
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let told = doctor(&site)?;
    ensure!(
        told.contains("ok       note search: sentence embeddings of "),
        "{told}"
    );
    // An incomplete copy.
    let file = site.bench.path("models/memory/model.onnx");
    let whole = fs::read(&file)?;
    fs::write(&file, &whole[..whole.len() / 2])?;
    let site = site.restart()?;
    let sentence = wait_for("the agent to say so", || {
        let health = site.health().ok()?;
        (health["memory"]["vectors"]["by"] == "refused").then_some(health)
    })?;
    assert_eq!(sentence["state"], json!("degraded"));
    let reasons = sentence["reasons"].to_string();
    ensure!(
        reasons.contains("model.onnx: ") && reasons.contains("notes are searched without it"),
        "{reasons}"
    );
    // With the hashed vectors, which know that a lorry is a truck.
    assert_eq!(
        site.found("where is the truck")?,
        ["The lorry stands at the dock."]
    );
    let told = site.log().matches("can't be used").count();
    ensure!(told == 1, "told {told} times: {}", site.log());
    let told = doctor(&site)?;
    ensure!(
        told.contains("advice   note search: built-in synonyms only; the model in "),
        "{told}"
    );
    // After the repair the old vectors are valid, as they are of the same files.
    fs::write(&file, &whole)?;
    let site = site.restart()?;
    site.all_read()?;
    assert_eq!(
        site.found("some canine growls")?,
        ["A dog barks at the gate."]
    );
    Ok(())
}

#[test]
fn model_that_needs_too_much_memory_does_not_end_the_agent() -> anyhow::Result<()> {
    let site = Site::new(|bench| {
        let folder = bench.path("models/memory");
        put_model(&folder)?;
        fs::write(folder.join("model.onnx"), hostile_sentence_model())?;
        Ok(format!("[agent.memory]\nmodel = {folder:?}\n"))
    })?;
    let health = wait_for("the agent to refuse the model", || {
        let health = site.health().ok()?;
        (health["memory"]["vectors"]["by"] == "refused").then_some(health)
    })?;
    let reasons = health["reasons"].to_string();
    ensure!(
        reasons.contains("model.onnx: ")
            && reasons.contains("takes more than half of the memory of this box"),
        "{reasons}"
    );
    // With the hashed vectors, which know that a lorry is a truck.
    assert_eq!(
        site.found("where is the truck")?,
        ["The lorry stands at the dock."]
    );
    Ok(())
}

#[test]
fn config_check_reports_a_missing_model_folder() -> anyhow::Result<()> {
    let bench = Bench::new("[agent.memory]\nmodel = \"/nowhere/sentences\"\n")?;
    let out = Command::new(program("watchkeeper")?)
        .args(["config", "check"])
        .arg(bench.config())
        .env("HOME", bench.path(""))
        .output()?;
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    ensure!(!out.status.success(), "{told}");
    ensure!(
        told.contains("agent.memory.model") && told.contains("there is no such folder"),
        "{told}"
    );
    Ok(())
}
