//! The layers of a configuration: file, environment, flags; the later wins.
//!
//! Each variable and each flag is a layer of its own, so that figment's metadata names exactly the one a value came
//! from. Values of variables are read as the declared kind of their key, so an all-digit password stays text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use crate::error::{ConfigError, Origin};
use crate::keys::{self, Kind};
use crate::lines::{self, Lines};
use crate::{DEFAULT_FILE, FILE_VARIABLE};

/// Variables that begin like this and hold a `__` are keys: `WATCHKEEPER_MQTT__PORT` is `mqtt.port`.
pub const ENV_PREFIX: &str = "WATCHKEEPER_";

/// The section about the broker.
const BROKER: &str = "mqtt";

/// What to read.
#[derive(Debug, Clone, Default)]
pub struct LoadRequest {
    /// File that must exist; absent: `WATCHKEEPER_CONFIG`, else [`DEFAULT_FILE`] if it is there.
    pub file: Option<PathBuf>,
    /// Variables of the environment; others than ours are ignored.
    pub env: BTreeMap<String, String>,
    /// Flags, which win over everything else.
    pub overrides: Vec<Override>,
    /// Host name, from which the box takes its name when it has none.
    pub hostname: String,
    /// Which layers may speak about the broker.
    pub broker: BrokerLayers,
    /// Folder of the user's data, after the XDG Base Directory Specification; absent for root, whose data is the box's.
    pub data_home: Option<PathBuf>,
}

/// Which layers may speak about the broker. Its login is the daemons' business: a command of an ordinary user must work
/// where the file with the password may be read by the daemons alone, and must not show that password to another broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BrokerLayers {
    /// All of them.
    #[default]
    All,
    /// Variables and flags; what the file says is about another broker.
    Asked,
    /// None: whoever asks speaks to no broker.
    Nobody,
}

/// One flag that sets a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// Path of the key, such as `runtime.socket`.
    pub key: String,
    /// Its value as text.
    pub value: String,
    /// The flag as a person typed it, such as `--socket`.
    pub flag: String,
}

impl LoadRequest {
    /// A request with this process's environment and host name.
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
            data_home: data_home(),
            hostname: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
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

    /// The file this request reads, whether it has to exist, and who says so.
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

    /// Folder at which relative paths of the file begin.
    pub(crate) fn base_dir(&self) -> PathBuf {
        let (file, ..) = self.chosen_file();
        let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
        // Else what is relative would be looked for where each daemon runs. Only an empty path has no absolute one.
        std::path::absolute(folder.join(".")).unwrap_or(folder)
    }
}

/// `$XDG_DATA_HOME` where that is absolute, else `~/.local/share`, for users other than root.
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

/// The layers put together.
#[derive(Debug)]
pub(crate) struct Merged {
    figment: Figment,
    /// The file that was read, and the lines of its keys.
    pub(crate) file: Option<(PathBuf, Lines)>,
    /// The tree of values, each tagged with its layer.
    pub(crate) root: Value,
}

impl Merged {
    /// Where a value was written.
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

/// A nested table with one leaf.
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

/// Text of a variable or flag as a value of the kind its key declares.
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
        Some(Kind::Texts | Kind::Words(_) | Kind::Structure | Kind::FileOrStructure) | None => {
            text.to_owned()
        }
    };
    // A TOML value, or else plain text: the check that follows says what was wanted.
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

fn file_layer(request: &LoadRequest) -> Result<Option<(Layer, Lines)>, Box<ConfigError>> {
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
        let problem = format!("line {line} is not TOML: {}", e.message().trim());
        Box::new(ConfigError::new("", problem, Origin::File(path.clone())))
    })?;
    let layer = Layer {
        what: "file",
        name: path.display().to_string(),
        dict,
    };
    Ok(Some((layer, Lines::of(&text))))
}

/// Puts the layers together.
pub(crate) fn merge(request: &LoadRequest) -> Result<Merged, Box<ConfigError>> {
    let mut figment = Figment::new();
    let mut lines = None;
    if let Some((mut file, found)) = file_layer(request)? {
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
    Ok(Merged {
        figment,
        file: lines,
        root,
    })
}
