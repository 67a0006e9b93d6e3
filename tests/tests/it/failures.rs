//! Every failure that a user can cause: `ask`, the chat and the agent report one sentence with a
//! remedy, and continue.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use watchkeeper_tests::broker::Mosquitto;
use watchkeeper_tests::daemons::{Bench, wait_for, wait_up_to};
use watchkeeper_tests::hooks::Hooks;
use watchkeeper_tests::person::{ask, chat, types};
use watchkeeper_tests::rows;
use watchkeeper_tests::scene::{LONG, doubtful};
use watchkeeper_tests::scripted_model::{KEY, ScriptedModel};
use watchkeeper_tests::site::{Site, not_reworded};

use crate::full_disk::command;

/// A wrong configuration of the LLM, with the parts of each message about it.
struct WrongConfig {
    section: fn(&ScriptedModel) -> anyhow::Result<String>,
    says: &'static [&'static str],
}

fn section(base_url: &str, more: &str) -> String {
    format!("[llm]\nprovider = \"claude\"\nbase_url = {base_url:?}\n{more}")
}

fn key() -> String {
    format!("key = {KEY:?}\n")
}

fn table() -> Vec<(String, WrongConfig)> {
    let row = |name: &str, says, section| (name.to_owned(), WrongConfig { section, says });
    vec![
        row(
            "no key",
            &[
                "there is no key for the model provider claude",
                "name a file with it in `llm.key_file`",
            ],
            |model| Ok(section(model.base_url(), "")),
        ),
        row(
            "a file of the key that is not there",
            &[
                "can't be read from /nowhere/key",
                "make it a file that this user may read",
            ],
            |model| Ok(section(model.base_url(), "key_file = \"/nowhere/key\"\n")),
        ),
        row(
            "a wrong key",
            &[
                "does not accept the key",
                "put a valid key into the credential or the configuration",
            ],
            |model| {
                Ok(section(
                    model.base_url(),
                    "key = \"sk-wrong-9876543210zyxwvuts\"\n",
                ))
            },
        ),
        row(
            "a wrong address",
            &[
                "the model or the address does not exist",
                "check the model's id and the base URL",
            ],
            |model| Ok(section(&format!("{}/elsewhere", model.base_url()), &key())),
        ),
        row(
            "an address that is none",
            &["the base URL of the model provider", "https://"],
            |_| Ok(section("models.example", &key())),
        ),
        row(
            "an address that would show the key to everybody",
            &["would be sent unencrypted", "use https://"],
            |_| Ok(section("http://models.example", &key())),
        ),
        row("a model that nobody knows", &["gpt-9"], |model| {
            Ok(section(
                model.base_url(),
                &format!("{}model = \"gpt-9\"\nlarge_model = \"gpt-9\"\n", key()),
            ))
        }),
        row(
            "no network",
            &[
                "can't be reached",
                "check the network, the proxy and the base URL",
            ],
            |_| {
                Ok(section(
                    &format!("http://{}", Hooks::closed_address()?),
                    &key(),
                ))
            },
        ),
        row(
            "a budget that is spent",
            &["the day's LLM budget", "raise `day_usd`"],
            |model| {
                Ok(section(
                    model.base_url(),
                    &format!("{}day_usd = 0.000001\n", key()),
                ))
            },
        ),
    ]
}

#[test]
fn wrong_llm_configuration_gives_one_sentence_everywhere() -> anyhow::Result<()> {
    let house = Bench::new("[sources.gate]\nuri = \"demo:\"\n")?;
    let _runtime = house.runtime()?;
    let events = doubtful(&house, &[json!({"name": "somebody"})])?;
    let event = events.first().context("an event")?;
    rows::each(table(), |wrong| said_everywhere(&house, event, &wrong))
}

fn said_everywhere(house: &Bench, event: &Value, wrong: &WrongConfig) -> anyhow::Result<()> {
    let site = Site::beside(house, "", &[])?;
    let section = (wrong.section)(&site.model)?;
    site.bench.configure(&section)?;
    let is_said = |sentence: &str| {
        for part in wrong.says {
            ensure!(sentence.contains(part), "no {part:?} in {sentence:?}");
        }
        ensure!(
            !sentence.contains('\n') && !sentence.contains(KEY) && !sentence.contains("panicked"),
            "{sentence:?}"
        );
        Ok(())
    };
    // A request that needs the LLM.
    let out = ask(&site.bench, &["--think", "what is there"])?;
    ensure!(out.status.code() == Some(1), "{out:?}");
    let errors = String::from_utf8(out.stderr)?;
    let told: Vec<&str> = errors
        .lines()
        .filter(|line| line.starts_with("watchkeeper: "))
        .collect();
    ensure!(told.len() == 1, "{errors}");
    told.into_iter().try_for_each(is_said)?;
    // A request that may need it.
    let out = ask(&site.bench, &["Lies mal das Schild vor"])?;
    let errors = String::from_utf8(out.stderr)?;
    ensure!(out.status.code() == Some(2), "{errors}");
    let told: Vec<&str> = errors
        .lines()
        .filter(|line| line.contains("because the LLM does not"))
        .collect();
    ensure!(told.len() == 1, "{errors}");
    told.into_iter().try_for_each(is_said)?;
    let said = chat(&site.bench, "/think what is there\nlist cameras\n")?;
    // The message also mentions completed steps and an earlier interrupted attempt; both are
    // removed before the comparison.
    let mut told = said.clone();
    told.retain(|object| object["type"] != "step" && object["type"] != "note");
    ensure!(types(&told) == ["failure", "cameras"], "{said:#?}");
    is_said(told[0]["message"].as_str().unwrap_or_default())?;

    let broker = Mosquitto::start(&site.bench.path("broker"))?;
    site.bench.configure(&format!(
        "{section}second_opinion = true\n{}",
        broker.section()
    ))?;
    let agent = site.bench.agent()?;
    let words = site.assessments(std::slice::from_ref(event));
    let words = words.with_context(|| agent.log_text())?;
    let word = words.first().context("an assessment")?;
    ensure!(word["assessment"]["answer"] == "none", "{word:#}");
    is_said(word["decision"]["reason"].as_str().unwrap_or_default())?;
    agent.stop()
}

#[test]
fn exhausted_budget_gives_one_sentence_and_no_call() -> anyhow::Result<()> {
    let house = Bench::new("[sources.gate]\nuri = \"demo:\"\n")?;
    let _runtime = house.runtime()?;
    let site = Site::beside(&house, "calls_per_hour = 1\n", &[not_reworded()])?;
    for _ in 0..2 {
        let out = ask(&site.bench, &["Mach mal"])?;
        let errors = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.code() == Some(2), "{errors}");
        // For what, by which limit, and for how long.
        let why = "no LLM call for a request: all 1 calls of the hour are used, 1 went to requests; wait ";
        ensure!(errors.contains(why), "{errors}");
        ensure!(errors.contains("raise `calls_per_hour`"), "{errors}");
    }
    let said = serde_json::to_string(&chat(&site.bench, "Mach mal\n")?)?;
    ensure!(said.contains("all 1 calls of the hour are used"), "{said}");
    ensure!(said.contains(" min or raise `calls_per_hour`"), "{said}");
    ensure!(site.model.requests()?.len() == 1);
    site.model.finish()
}

#[test]
fn missing_runtime_error_says_how_to_start_it() -> anyhow::Result<()> {
    let bench = Bench::new("[sources.gate]\nuri = \"demo:\"\n")?;
    for arguments in [&["list cameras"][..], &["--confirm", "aaaaa"]] {
        let out = ask(&bench, arguments)?;
        let errors = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.code() == Some(3), "{errors}");
        ensure!(errors.contains("start it"), "{errors}");
    }
    let said = chat(&bench, "list cameras\n/status\n")?;
    ensure!(types(&said) == ["failure", "failure"], "{said:#?}");
    ensure!(said[0]["exit"] == 3);

    let mut broker = Mosquitto::start(&bench.path("broker"))?;
    let subscriber = broker.subscribe("#")?;
    bench.configure(&format!(
        "[sources.gate]\nuri = \"demo:\"\n{}",
        broker.section()
    ))?;
    let mut agent = bench.agent()?;
    let told = wait_for("the agent to say it", || {
        let log = agent.log_text();
        let said = log
            .lines()
            .find(|line| line.contains("the runtime is not reachable"));
        said.map(str::to_owned)
    })?;
    ensure!(told.contains("start it"), "{told}");
    ensure!(agent.is_running());
    let _runtime = bench.runtime()?;
    doubtful(&bench, &[json!({"name": "somebody"})])?;
    wait_up_to(LONG, "an event at the broker", || {
        subscriber.bodies("/ev/").pop()
    })?;
    broker.down()?;
    let found = String::from_utf8(command(&bench, &["doctor"])?.stdout)?;
    ensure!(
        found.contains("is not reachable: connection refused"),
        "{found}"
    );
    ensure!(!found.contains("no session with the broker"), "{found}");
    agent.stop()
}
