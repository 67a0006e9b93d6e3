//! The layers of a configuration: file, environment, flags; the later wins.
//!
//! - Each variable and each flag is a separate layer, so figment's metadata names the one that a
//!   value came from.
//! - Values of variables are read as the declared kind of their key, so an all-digit password stays
//!   text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use crate::error::{ConfigError, Origin};
use crate::keys::{self, Kind};
use crate::lines::{self, Lines};
use crate::loaded_file::LoadedFile;

/// The default configuration file.
pub const DEFAULT_FILE: &str = "/etc/watchkeeper/watchkeeper.toml";

/// Variable that names another file than [`DEFAULT_FILE`].
pub const FILE_VARIABLE: &str = "WATCHKEEPER_CONFIG";

/// Variables with this prefix and a `__` are keys: `WATCHKEEPER_MQTT__PORT` is `mqtt.port`.
pub const ENV_PREFIX: &str = "WATCHKEEPER_";

/// The section about the broker.
const BROKER: &str = "mqtt";

/// Layers to read.
#[derive(Debug, Clone, Default)]
pub struct LoadRequest {
    /// File that must exist; absent: `WATCHKEEPER_CONFIG`, else [`DEFAULT_FILE`] if it exists.
    pub file: Option<PathBuf>,
    /// Variables of the environment; foreign ones are ignored.
    pub env: BTreeMap<String, String>,
    /// Flags; they win over everything else.
    pub overrides: Vec<Override>,
    /// Host name: the name of a box whose configuration has none.
    pub hostname: String,
    /// Layers that may set the broker.
    pub broker: BrokerLayers,
    /// Sections whose errors are warnings, because this process does not use them.
    pub unused: &'static [&'static str],
    /// Folder of the user's data, after the XDG Base Directory Specification; absent for root,
    /// whose data is the box's.
    pub data_home: Option<PathBuf>,
}

/// Layers that may set the broker.
///
/// Only the daemons log in at the box's broker. A command of an ordinary user must work where only
/// the daemons can read the file with the password. It must not send that password to another
/// broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BrokerLayers {
    #[default]
    All,
    /// Variables and flags; the file is about another broker.
    Asked,
    /// None: no broker is used.
    Nobody,
}

/// A flag that sets a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// Path of the key, such as `runtime.socket`.
    pub key: String,
    pub value: String,
    /// The flag as typed, such as `--socket`.
    pub flag: String,
}

impl LoadRequest {
    /// Makes a request with this process's environment and host name.
    #[must_use]
    pub fn from_process(file: Option<PathBuf>) -> Self {
        Self {
            file,
            env: std::env::vars_os()
                .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
                .filter(|(k, _)| k.starts_with(ENV_PREFIX))
                .collect(),
            overrides: Vec::new(),
            broker: BrokerLayers::default(),
            unused: &[],
            data_home: data_home(),
            hostname: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
        }
    }

    /// Makes the request of the runtime, which watches also where the agent can't start.
    #[must_use]
    pub fn of_runtime(file: Option<PathBuf>) -> Self {
        Self {
            unused: &["agent", "channels", "llm", "mqtt"],
            ..Self::from_process(file)
        }
    }

    /// Adds a flag that sets `key`; an absent value changes nothing.
    #[must_use]
    pub fn with(mut self, flag: &str, key: &str, value: Option<impl Into<String>>) -> Self {
        if let Some(value) = value {
            self.overrides.push(Override {
                key: key.to_owned(),
                value: value.into(),
                flag: flag.to_owned(),
            });
        }
        self
    }

    /// Returns the file to read, whether it has to exist, and what names it.
    fn chosen_file(&self) -> (PathBuf, bool, Origin) {
        if let Some(file) = &self.file {
            return (file.clone(), true, Origin::Flag("--config".to_owned()));
        }
        match self.env.get(FILE_VARIABLE).filter(|v| !v.is_empty()) {
            Some(file) => (
                file.into(),
                true,
                Origin::Variable(FILE_VARIABLE.to_owned()),
            ),
            None => (DEFAULT_FILE.into(), false, Origin::Default),
        }
    }

    /// Returns the folder at which relative paths of the file begin.
    pub(crate) fn base_dir(&self) -> PathBuf {
        let (file, ..) = self.chosen_file();
        let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
        // A relative folder would mean each daemon's working directory. Only an empty path has no
        // absolute one.
        std::path::absolute(folder.join(".")).unwrap_or(folder)
    }
}

/// Returns `$XDG_DATA_HOME` where that is absolute, else `~/.local/share`, for users other than
/// root.
fn data_home() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return None;
    }
    let folder = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")))
}

/// The merged layers.
#[derive(Debug)]
pub(crate) struct Merged {
    figment: Figment,
    /// The file that was read, and the lines of its keys.
    pub(crate) file: Option<(PathBuf, Lines)>,
    pub(crate) loaded: Option<LoadedFile>,
    /// The tree of values, each tagged with its layer.
    pub(crate) root: Value,
}

impl Merged {
    /// Returns where a value was written.
    pub(crate) fn origin(&self, value: &Value) -> Origin {
        let Some(meta) = self.figment.get_metadata(value.tag()) else {
            return Origin::Default;
        };
        let name = meta
            .source
            .as_ref()
            .and_then(|s| s.custom())
            .unwrap_or_default();
        match meta.name.as_ref() {
            "file" => Origin::File(name.into()),
            "variable" => Origin::Variable(name.to_owned()),
            "flag" => Origin::Flag(name.to_owned()),
            _ => Origin::Default,
        }
    }
}

struct Layer {
    what: &'static str,
    name: String,
    dict: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::from(self.what, figment::Source::Custom(self.name.clone()))
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.dict.clone())]))
    }
}

/// Makes a nested table with one leaf.
fn nest(path: &[&str], leaf: Value) -> Dict {
    let mut dict = Dict::new();
    if let Some((head, rest)) = path.split_first() {
        let value = if rest.is_empty() {
            leaf
        } else {
            nest(rest, leaf).into()
        };
        dict.insert((*head).to_owned(), value);
    }
    dict
}

/// Converts the text of a variable or flag to the kind that its key declares.
fn typed(path: &[&str], text: &str) -> Value {
    let literal = match keys::find(path).map(|k| k.kind) {
        Some(
            Kind::Text
            | Kind::Name
            | Kind::DisplayName
            | Kind::Path
            | Kind::Secret
            | Kind::Address
            | Kind::Choice(_)
            | Kind::Mode,
        ) => return Value::from(text.to_owned()),
        Some(Kind::Switch | Kind::Integer(..) | Kind::Number(..)) => text.trim().to_owned(),
        Some(Kind::Texts | Kind::Words(_) | Kind::Structure(_) | Kind::FileOrStructure) | None => {
            text.to_owned()
        }
    };
    // Anything that is not a TOML value stays text; the check that follows says what is wanted.
    toml::from_str::<Dict>(&format!("value = {literal}"))
        .ok()
        .and_then(|mut d| {
            if d.len() == 1 {
                d.remove("value")
            } else {
                None
            }
        })
        .unwrap_or_else(|| Value::from(text.to_owned()))
}

/// The file as a layer, the lines of its keys, and its contents as they were read.
type FileLayer = (Layer, Lines, LoadedFile);

fn file_layer(request: &LoadRequest) -> Result<Option<FileLayer>, Box<ConfigError>> {
    let (path, must_exist, asked_by) = request.chosen_file();
    let text = match crate::bounded::read(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !must_exist => return Ok(None),
        Err(e) => {
            let problem = format!("can't read the configuration file {}: {e}", path.display());
            return Err(Box::new(ConfigError::new("", problem, asked_by)));
        }
    };
    let dict = toml::from_str::<Dict>(&text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start).min(text.len());
        let line = lines::line(&text, at);
        let message = e.message().trim();
        // A key or a header, without its value, which may be a secret.
        let twice = match message {
            "duplicate key" => {
                let written = text.lines().nth(line - 1).unwrap_or_default();
                let key = written.split('=').next().unwrap_or_default().trim();
                format!(" {key}; it is written before, give it another name")
            }
            _ => String::new(),
        };
        let problem = format!(
            "line {line} is not TOML: {message}{twice}; the rest is checked once the file can be read"
        );
        Box::new(ConfigError::new("", problem, Origin::File(path.clone())))
    })?;
    let layer = Layer {
        what: "file",
        name: path.display().to_string(),
        dict,
    };
    let loaded = LoadedFile::new(path, &text);
    Ok(Some((layer, Lines::from_toml(&text), loaded)))
}

/// Merges the layers.
pub(crate) fn merge(request: &LoadRequest) -> Result<Merged, Box<ConfigError>> {
    Ok(merge_onto(file_layer(request)?, request))
}

/// Merges variables and flags alone.
pub(crate) fn merge_without_file(request: &LoadRequest) -> Merged {
    merge_onto(None, request)
}

fn merge_onto(file: Option<FileLayer>, request: &LoadRequest) -> Merged {
    let mut figment = Figment::new();
    let (mut lines, mut loaded) = (None, None);
    if let Some((mut file, found, read)) = file {
        loaded = Some(read);
        if request.broker != BrokerLayers::All {
            file.dict.remove(BROKER);
        }
        lines = Some((PathBuf::from(&file.name), found));
        figment = figment.merge(file);
    }
    for (name, text) in &request.env {
        let Some(path) = name.strip_prefix(ENV_PREFIX).filter(|p| p.contains("__")) else {
            continue;
        };
        let lower = path.to_ascii_lowercase();
        let path: Vec<&str> = lower.split("__").collect();
        if request.broker == BrokerLayers::Nobody && path.first() == Some(&BROKER) {
            continue;
        }
        figment = figment.merge(Layer {
            what: "variable",
            name: name.clone(),
            dict: nest(&path, typed(&path, text)),
        });
    }
    for flag in &request.overrides {
        let path: Vec<&str> = flag.key.split('.').collect();
        figment = figment.merge(Layer {
            what: "flag",
            name: flag.flag.clone(),
            dict: nest(&path, typed(&path, &flag.value)),
        });
    }
    // An empty path is the whole tree; without a layer there is none.
    let root = figment
        .find_value("")
        .unwrap_or_else(|_| Dict::new().into());
    Merged {
        figment,
        file: lines,
        loaded,
        root,
    }
}
