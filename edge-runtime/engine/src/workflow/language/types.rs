//! The block types of Roboflow's language: canonical names, aliases, and why some are not
//! supported.
//!
//! - The table `types.tsv` describes Roboflow's engine 1.17, and `unsupported.tsv` what is missing.
//! - A type has at most one canonical name. Misspelt types (`relative_statoic_crop`,
//!   `camera-calibration`) stay as definitions write them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::workflow::language::definition::ENGINE_VERSION;

/// Requirements of a block type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// No model and no service.
    Local,
    Model,
    /// An external receiver of results.
    Sink,
    /// A cloud service.
    Cloud,
    /// A model too large for an ONNX back end.
    Large,
}

/// A block type of the language.
#[derive(Debug)]
pub(crate) struct LanguageType {
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    /// First engine version with the type, below 2.0.
    pub(crate) since: (u64, u64),
    pub(crate) aliases: Vec<&'static str>,
}

struct Table {
    types: Vec<LanguageType>,
    by_name: BTreeMap<&'static str, usize>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table {
        types: Vec::new(),
        by_name: BTreeMap::new(),
    };
    for line in include_str!("types.tsv").lines() {
        let mut fields = line.split('\t');
        let (Some(name), Some(class), Some(since)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let class = match class {
            "local" => Class::Local,
            "model" => Class::Model,
            "sink" => Class::Sink,
            "cloud" => Class::Cloud,
            _ => Class::Large,
        };
        let mut since = since.split('.').map(|n| n.parse().unwrap_or(u64::MAX));
        let since = (
            since.next().unwrap_or(u64::MAX),
            since.next().unwrap_or(u64::MAX),
        );
        let aliases: Vec<&str> = fields
            .next()
            .unwrap_or_default()
            .split(',')
            .filter(|a| !a.is_empty())
            .collect();
        let index = table.types.len();
        for one in std::iter::once(&name).chain(&aliases) {
            table.by_name.insert(one, index);
        }
        table.types.push(LanguageType {
            name,
            class,
            since,
            aliases,
        });
    }
    table
});

/// All block types, in the order of the table.
pub(crate) fn all() -> &'static [LanguageType] {
    &TABLE.types
}

/// Returns the block type with this name or alias, if this engine's version has it.
pub(crate) fn find(name: &str) -> Option<&'static LanguageType> {
    let table = &*TABLE;
    let known = table.types.get(*table.by_name.get(name)?)?;
    (known.since <= ENGINE_VERSION).then_some(known)
}

/// Returns the canonical name of a type; an unknown name stays.
pub(crate) fn canonical(name: &str) -> &str {
    find(name).map_or(name, |known| known.name)
}

pub(crate) fn aliases(canonical: &str) -> &'static [&'static str] {
    find(canonical).map_or(&[], |known| &known.aliases)
}

/// Why a block is not supported, and the nearest supported one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnsupportedBlock {
    /// A clause that follows "because it".
    pub(crate) reason: &'static str,
    /// Family of the nearest supported block.
    pub(crate) nearest: Option<&'static str>,
}

const HOSTED: &str = "needs a hosted vision-language model";
const LARGE: &str = "needs a vision-language model too large for ONNX on this hardware";

/// Reasons of single families, beside those of a class.
static UNSUPPORTED: LazyLock<BTreeMap<&str, UnsupportedBlock>> = LazyLock::new(|| {
    let lines = include_str!("unsupported.tsv").lines();
    let fields = lines.map(|line| line.split('\t').collect::<Vec<_>>());
    let families = fields.filter_map(|fields| match fields.as_slice() {
        &[name, nearest, reason] => {
            let nearest = Some(nearest).filter(|nearest| *nearest != "-");
            Some((name, UnsupportedBlock { reason, nearest }))
        }
        _ => None,
    });
    families.collect()
});

/// Returns a type without its version.
pub(crate) fn family(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

/// Returns why a type is not supported; `None` if it is.
pub(crate) fn elsewhere(known: &LanguageType) -> Option<UnsupportedBlock> {
    let of_class = |reason| UnsupportedBlock {
        reason,
        nearest: None,
    };
    let own = UNSUPPORTED.get(family(known.name)).copied();
    own.or(match known.class {
        Class::Cloud => Some(of_class(HOSTED)),
        Class::Large => Some(of_class(LARGE)),
        Class::Local | Class::Model | Class::Sink => None,
    })
}

#[cfg(test)]
mod tests {
    use super::{UNSUPPORTED, UnsupportedBlock, all, canonical, elsewhere, family, find};

    #[test]
    fn every_alias_has_one_canonical_name() {
        assert_eq!(all().len(), 259);
        assert_eq!(all().iter().map(|k| k.aliases.len()).sum::<usize>(), 70);
        for known in all() {
            for name in std::iter::once(&known.name).chain(&known.aliases) {
                assert_eq!(canonical(name), known.name);
            }
        }
        assert_eq!(canonical("Crop"), "roboflow_core/dynamic_crop@v1");
        assert_eq!(
            canonical("RelativeStaticCrop"),
            "roboflow_core/relative_statoic_crop@v1"
        );
        assert_eq!(canonical("TimeTravel"), "roboflow_core/frame_delay@v1");
    }

    #[test]
    fn unsupported_families_have_reasons_and_valid_alternatives() {
        let is_family = |name: &str| all().iter().any(|k| family(k.name) == name);
        assert_eq!(UNSUPPORTED.len(), 29);
        for (name, UnsupportedBlock { nearest, .. }) in &*UNSUPPORTED {
            assert!(is_family(name), "{name}");
            let is_known = |n: &str| is_family(n) || n == "watchkeeper/event_sink";
            assert!(nearest.is_none_or(is_known), "{nearest:?}");
        }
        let gone = find("roboflow_core/open_ai@v3").and_then(elsewhere);
        assert!(gone.is_some());
        let here = find("roboflow_core/byte_tracker@v3").and_then(elsewhere);
        assert!(here.is_none());
    }
}
