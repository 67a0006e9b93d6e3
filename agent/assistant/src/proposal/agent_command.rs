//! Slash commands about operations on the archive and about blueprints.

/// A parsed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentCommand {
    /// State of archive, jobs and cameras.
    Observe,
    /// Steps of this session on the archive; `true`: as JSON lines.
    History(bool),
    /// An operation on the archive, or a tool of jobs, without a model.
    Manual {
        /// Empty if none was named.
        action: String,
        /// JSON, not yet parsed; may be empty.
        parameters: String,
    },
    /// The blueprint of this session.
    Agent,
    /// Chooses a blueprint; `None`: the small model chooses.
    Switch(Option<String>),
    /// Lists the blueprints.
    List,
    /// Prints a blueprint.
    Show(String),
    /// Creates a blueprint from the built-in one of a job.
    Create { name: String, job: Option<String> },
}

/// Parses commands about operations and blueprints.
///
/// # Errors
/// A sentence with the correct form.
pub(super) fn parse(command: &str, rest: &str) -> Result<AgentCommand, String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    Ok(match (command, words.as_slice()) {
        ("/observe", []) => AgentCommand::Observe,
        ("/agent", []) => AgentCommand::Agent,
        ("/list", []) => AgentCommand::List,
        ("/observe" | "/agent" | "/list", _) => {
            return Err(format!("{command} takes nothing"));
        }
        ("/history", []) => AgentCommand::History(false),
        ("/history", ["jsonl"]) => AgentCommand::History(true),
        ("/history", _) => {
            return Err("/history takes jsonl or nothing".to_owned());
        }
        ("/manual", [action, ..]) => AgentCommand::Manual {
            action: (*action).to_owned(),
            parameters: rest
                .strip_prefix(action)
                .unwrap_or_default()
                .trim()
                .to_owned(),
        },
        ("/manual", []) => AgentCommand::Manual {
            action: String::new(),
            parameters: String::new(),
        },
        ("/switch", []) => AgentCommand::Switch(None),
        ("/switch", [name]) => AgentCommand::Switch(Some((*name).to_owned())),
        ("/show", [name]) => AgentCommand::Show((*name).to_owned()),
        ("/create", [name]) => AgentCommand::Create {
            name: (*name).to_owned(),
            job: None,
        },
        ("/create", [name, job]) => AgentCommand::Create {
            name: (*name).to_owned(),
            job: Some((*job).to_owned()),
        },
        _ => {
            return Err(format!(
                "{command} needs the name of a blueprint, such as {command} retriever; /list \
                 shows the names"
            ));
        }
    })
}
