//! `watchkeeper watch`: a watch by a template, with the proposal that its sentence makes.

use serde_json::json;
use watchkeeper_client::RuntimeClient;
use watchkeeper_config::Config;
use watchkeeper_plain::Plain;
use watchkeeper_plain::templates::{FillError, Template};

use super::args::{AskArgs, PARAMETERS, WatchArgs};
use super::ask;
use super::exit::Failure;
use super::output::Output;

pub(super) async fn run(
    args: &WatchArgs,
    client: RuntimeClient,
    config: &Config,
    out: &Output,
) -> Result<(), Failure> {
    if args.list {
        return list(out);
    }
    let camera = match &args.camera {
        Some(_) => None,
        None => only_camera(&client).await?,
    };
    let request = sentence(args, camera)?;
    let ask = AskArgs {
        text: vec![request],
        yes: args.yes,
        think: false,
        blueprint: None,
        image: Vec::new(),
        confirm: None,
        at: None,
    };
    ask::run(&ask, client, config, out).await
}

/// Prints the templates, their flags and defaults.
fn list(out: &Output) -> Result<(), Failure> {
    let plain = plain()?;
    for template in plain.templates() {
        let (name, title, usage) = (&template.name, &template.title, usage(template));
        let object = json!({"type": "template", "name": name, "title": title, "usage": usage});
        out.both(&object, || format!("{name}: {title}\n  {usage}"));
    }
    Ok(())
}

/// ID of the camera of a box with one.
async fn only_camera(client: &RuntimeClient) -> Result<Option<String>, Failure> {
    let sources = client.sources().await?;
    Ok(match sources.as_slice() {
        [only] => Some(only.spec.id.to_string()),
        _ => None,
    })
}

/// Request in plain words that a template makes of the flags; `camera` stands if none is named.
fn sentence(args: &WatchArgs, camera: Option<String>) -> Result<String, Failure> {
    let plain = plain()?;
    let name = args.template.as_deref().unwrap_or_default();
    let template = plain.templates().iter().find(|t| t.name == name);
    let template = template.ok_or_else(|| Failure::input(format!("no template {name:?}")))?;
    let mut values = args.values();
    values.extend(camera.map(|camera| ("camera".to_owned(), camera)));
    template.fill(&values).map_err(|error| {
        let text = match &error {
            FillError::Missing(name) => format!("--{name} is missing"),
            FillError::NoParameter(name) => {
                format!("the template {} has no --{name}", template.name)
            }
            FillError::Value(..) => format!("--{error}"),
        };
        Failure::input(text).with(Some(usage(template)))
    })
}

/// Reads the words and templates that the program carries.
pub(super) fn plain() -> Result<Plain, Failure> {
    Plain::new().map_err(|error| Failure::failed(error.to_string()))
}

/// Command line of a template, with its defaults.
fn usage(template: &Template) -> String {
    let mut usage = format!("watchkeeper watch {}", template.name);
    for parameter in PARAMETERS {
        if parameter == "camera" {
            usage.push_str(" [--camera CAMERA]");
        } else if let Some(default) = template.defaults.get(parameter) {
            usage.push_str(&format!(" [--{parameter} {default:?}]"));
        } else if template.needs.iter().any(|name| name == parameter) {
            let value = parameter.to_uppercase();
            usage.push_str(&format!(" --{parameter} {value}"));
        }
    }
    usage
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use clap::Parser as _;

    use super::super::args::{Cli, Command, OnlineCommand};
    use super::sentence;

    fn said(line: &str) -> Result<String, String> {
        said_with(line, None)
    }

    fn said_with(line: &str, camera: Option<&str>) -> Result<String, String> {
        let line = ["watchkeeper", "watch"].into_iter().chain(line.split('|'));
        let cli = Cli::try_parse_from(line).map_err(|e| e.to_string())?;
        let Command::Online(OnlineCommand::Watch(args)) = cli.command else {
            panic!("another command");
        };
        let camera = camera.map(str::to_owned);
        sentence(&args, camera).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn only_camera_of_the_box_needs_no_flag() {
        let asked = said_with("zone-entry|--zone|the left half", Some("gate"));
        assert!(asked.unwrap().contains("on camera gate"));
        let asked = said("zone-entry|--zone|the left half").unwrap_err();
        assert!(asked.contains("--camera is missing"), "{asked}");
    }

    #[test]
    fn flags_fill_the_sentence_of_a_template() {
        let car =
            said("loitering|--camera|gate|--class|a car|--zone|the left half|--for|90 seconds");
        assert_eq!(
            car.unwrap(),
            "Alert me when a car stays in the left half for more than 90 seconds on camera gate."
        );
        let bench = "loitering|--camera|gate|--class|a car|--zone|bench|--for|3 seconds";
        assert!(said(bench).unwrap().contains("stays in the bench for"));
    }

    #[test]
    fn missing_and_foreign_flags_are_named_with_the_usage() {
        for (line, part) in [
            ("zone-entry|--camera|gate", "--zone is missing"),
            ("arrival|--camera|gate|--number|3", "has no --number"),
            ("crowd|--camera|gate. Stop|--number|3", "give one value"),
            (
                "crowd|--camera|gate|--number|many",
                "must be a whole number",
            ),
            ("lottery|--camera|gate", "possible values"),
        ] {
            let refused = said(line).unwrap_err();
            assert!(refused.contains(part), "{line:?}: {refused}");
        }
    }
}
