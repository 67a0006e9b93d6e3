//! Checks the sections `[sources.NAME.privacy]`.
//!
//! - A section with an error, or without a key, masks the whole picture. A source deployed by hand
//!   under this name may run although its section is left out.

use serde_json::Value;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::privacy::{MAX_CLASSES, MAX_REGIONS, PrivacyMask, Region};

use super::values::{Values, is_spoilt};
use super::watching::absolute;
use crate::error::{ConfigError, Origin};
use crate::privacy::{RegionError, check_region};

/// Reads the masks; an error is added to `warnings`.
pub(super) fn masks(values: &Values<'_>, warnings: &mut Vec<ConfigError>) -> Vec<PrivacyMask> {
    let names = values.names("sources");
    names
        .filter_map(|name| mask(values, name, warnings))
        .collect()
}

fn mask(values: &Values<'_>, name: &str, warnings: &mut Vec<ConfigError>) -> Option<PrivacyMask> {
    let source = SourceId::new(name).ok()?;
    let section = format!("sources.{name}");
    let key = |field: &str| format!("{section}.privacy.{field}");
    let is_misspelt = warnings.iter().any(|warning| {
        let is_here = warning.key.starts_with(&format!("{section}."));
        is_here && warning.nearest.as_deref() == Some("privacy")
    });
    let is_written = ["regions", "fill", "classes"]
        .iter()
        .any(|field| values.found(&key(field)).is_some());
    let is_empty = values.read.empty.contains(&format!("{section}.privacy"));
    if !(is_written
        || is_empty
        || is_misspelt
        || is_spoilt(&format!("{section}.privacy"), warnings))
    {
        return None;
    }
    let errors_before = warnings.len();
    let regions = regions(values, &key("regions"), warnings);
    let classes = classes(values, &key("classes"), warnings);
    let is_spoilt = is_misspelt || is_spoilt(&format!("{section}.privacy"), warnings);
    if !is_spoilt && warnings.len() == errors_before && regions.is_empty() && classes.is_empty() {
        let problem = "masks the whole picture, because regions and classes are missing";
        let allowed = "regions, [[[x, y], [x, y], …], …], or classes; or leave the section out";
        warnings.push(values.error(&key("regions"), problem).allowed(allowed));
    }
    let is_good = !is_spoilt && warnings.len() == errors_before;
    let uri = values.text(&format!("{section}.uri")).unwrap_or_default();
    Some(PrivacyMask {
        source,
        uri: match values.origin(&format!("{section}.uri")) {
            Origin::File(_) => absolute(&values.base, uri),
            Origin::Variable(_) | Origin::Flag(_) | Origin::Default => uri,
        },
        regions: if is_good { regions } else { whole_picture() },
        fill: values
            .choice(&key("fill"))
            .filter(|_| is_good)
            .unwrap_or_default(),
        classes,
    })
}

fn whole_picture() -> Vec<Region> {
    vec![vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]]
}

/// Reads the good regions; each error names the region.
fn regions(values: &Values<'_>, key: &str, errors: &mut Vec<ConfigError>) -> Vec<Region> {
    let Some(found) = values.found(key) else {
        return Vec::new();
    };
    let mut refuse = |key: String, value: &Value, problem: &str, allowed: String| {
        let shown: String = value.to_string().chars().take(120).collect();
        let error = ConfigError::new(key, problem, found.origin.clone());
        errors.push(error.found(shown).allowed(allowed));
    };
    let list = found
        .value
        .as_array()
        .filter(|list| list.len() <= MAX_REGIONS);
    let Some(list) = list else {
        let allowed = format!("a list of at most {MAX_REGIONS} regions, [[[x, y], [x, y], …], …]");
        refuse(key.to_owned(), &found.value, "is not allowed", allowed);
        return Vec::new();
    };
    let mut regions = Vec::new();
    for (nth, value) in list.iter().enumerate() {
        match region(value) {
            Ok(region) => regions.push(region),
            Err(RegionError { problem, allowed }) => {
                refuse(format!("{key}[{nth}]"), value, problem, allowed);
            }
        }
    }
    regions
}

/// Reads one region.
fn region(value: &Value) -> Result<Region, RegionError> {
    let corners: Region = serde_json::from_value(value.clone()).unwrap_or_default();
    check_region(&corners)?;
    Ok(corners)
}

fn classes(values: &Values<'_>, key: &str, errors: &mut Vec<ConfigError>) -> Vec<String> {
    let classes = values.texts(key, errors, |text| Ok(text.to_owned()));
    if classes.len() > MAX_CLASSES {
        let found = format!("{} classes", classes.len());
        let error = values.error(key, "is too long").found(found);
        errors.push(error.allowed(format!("at most {MAX_CLASSES} classes")));
    }
    classes
}
