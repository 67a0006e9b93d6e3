//! Arguments of `watchkeeper job`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Owner of the jobs that a command works on.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct JobOwner {
    /// Use the jobs of the agent, which runs them in the background, instead of your own.
    #[arg(long)]
    pub agent: bool,
}

impl JobOwner {
    pub(crate) const USER: Self = Self { agent: false };

    /// Formats the command that takes this action on jobs of the owner.
    pub(crate) fn command(self, action: &str) -> String {
        let flag = if self.agent { " --agent" } else { "" };
        format!("watchkeeper job {action}{flag}")
    }
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum JobAction {
    /// Run a plan from a file; repairs what is clear and reports it.
    Run(JobRunArgs),
    /// Plan a request in plain English, and print the plan or run it.
    Plan(JobPlanArgs),
    /// Run a job again with changes in plain English, such as "only the two best, by month".
    Refine(JobRefineArgs),
    /// Keep a job that is done as a template for later requests.
    Keep {
        /// ID of the job, or the first characters of it.
        id: String,
        /// Name of the template [default: the first words of the request].
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
    },
    /// Manage the templates that you keep [default: list].
    Templates {
        #[command(subcommand)]
        action: Option<TemplateAction>,
    },
    /// Check a plan, list all its faults, and what a repair would change.
    Validate {
        /// Plan in YAML or JSON; - for standard input.
        file: PathBuf,
    },
    /// Describe the steps of a plan, or of a job, in the order in which they run.
    Explain {
        /// File of a plan, or ID of a job.
        what: PathBuf,
    },
    /// List jobs, latest last.
    List(JobOwner),
    /// Print how many of the user's jobs were done and failed, and how long planning, runs and
    /// tools took.
    Stats,
    /// Show a job, the result of one of its steps, or one value of that.
    Show {
        /// ID of the job, or the first characters of it.
        id: String,
        /// Step whose result to show.
        step: Option<String>,
        /// Key of that result.
        key: Option<String>,
        #[command(flatten)]
        owner: JobOwner,
    },
    /// Resume a job that was interrupted, failed or cancelled; done steps are not repeated.
    Resume {
        /// ID of the job, or the first characters of it.
        id: String,
        #[command(flatten)]
        owner: JobOwner,
    },
    /// Ask a running job to end.
    Cancel {
        /// ID of the job, or the first characters of it.
        id: String,
        #[command(flatten)]
        owner: JobOwner,
    },
    /// Remove a job with its log, its results and the files in its own folder.
    Delete {
        /// ID of the job, or the first characters of it.
        id: String,
        #[command(flatten)]
        owner: JobOwner,
    },
    /// Remove old jobs beyond the bounds of the configuration (`[agent.job_limits]`).
    Prune,
    /// Print the trajectory of a job: state, action, result and reward of each attempt that ended,
    /// as JSON.
    Export {
        /// ID of the job, or the first characters of it.
        id: String,
    },
    /// List the tools of steps, or describe one.
    Tools {
        /// Tool to describe.
        name: Option<String>,
    },
    /// Print the JSON Schema of plans.
    Schema,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct JobRunArgs {
    /// Plan in YAML or JSON; - for standard input.
    pub file: PathBuf,
    /// Replace an input of the plan: a text by a text, any other value by one in JSON.
    #[arg(long = "input", value_name = "KEY=VALUE", value_parser = input)]
    pub inputs: Vec<(String, String)>,
    #[command(flatten)]
    pub owner: JobOwner,
    #[command(flatten)]
    pub output: JobOutput,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct JobPlanArgs {
    /// Request, such as "organise ./photos by day and keep the 3 best of each".
    #[arg(required = true)]
    pub words: Vec<String>,
    /// Run the plan instead of printing it.
    #[arg(long)]
    pub run: bool,
    /// Have the agent run the plan, in the background.
    #[arg(long, requires = "run")]
    pub agent: bool,
    /// Ask the language model even if it has planned such a request before.
    #[arg(long)]
    pub no_cache: bool,
    #[command(flatten)]
    pub output: JobOutput,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct JobRefineArgs {
    /// What to change; before it perhaps the ID of the job [default: the latest job].
    #[arg(required = true, value_name = "[ID] WORDS")]
    pub words: Vec<String>,
    /// Show what would change, and run nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub output: JobOutput,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TemplateAction {
    /// List the templates.
    List,
    /// Print the plan of a template.
    Show {
        /// Name of the template.
        name: String,
    },
    /// Remove a template.
    Forget {
        /// Name of the template.
        name: String,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct JobOutput {
    /// New or empty folder for the files that steps write [default: in the job's own folder].
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

fn input(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}
