//! The block types of Roboflow's language: canonical names, aliases, and why some are not
//! supported.
//!
//! - The table `types.tsv` describes Roboflow's engine 1.17.
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
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    /// First engine version with the type, below 2.0.
    pub(crate) since: (u64, u64),
    pub(crate) aliases: Vec<&'static str>,
}

struct Table {
    types: Vec<Known>,
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
        table.types.push(Known {
            name,
            class,
            since,
            aliases,
        });
    }
    table
});

/// All block types, in the order of the table.
pub(crate) fn all() -> &'static [Known] {
    &TABLE.types
}

/// Returns the block type with this name or alias, if this engine's version has it.
pub(crate) fn find(name: &str) -> Option<&'static Known> {
    let table = &*TABLE;
    let known = table.types.get(*table.by_name.get(name)?)?;
    (known.since <= ENGINE_VERSION).then_some(known)
}

/// Returns the canonical name of a type; an unknown name stays.
pub(crate) fn canonical(name: &str) -> &str {
    find(name).map_or(name, |known| known.name)
}

/// Returns the aliases of a canonical name.
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
const SEGMENT: &str = "needs SAM 3, which has no ONNX networks";
const PLATFORM: &str = "writes to a Roboflow account";
const MACHINES: &str = "needs a driver for machine controllers";
const EVENTS: Option<&str> = Some("watchkeeper/event_sink");
const STABILITY: &str = "needs Stability AI's service";

/// Reasons by family. Other families of class cloud or large have the reason of their class.
const FAMILIES: &[(&str, &str, Option<&str>)] = &[
    (
        "roboflow_core/visual_search",
        "searches a Roboflow project",
        Some("roboflow_core/clip_comparison"),
    ),
    (
        "roboflow_core/visual_search_classifier",
        "searches a Roboflow project",
        Some("roboflow_core/clip_comparison"),
    ),
    (
        "roboflow_core/google_vision_ocr",
        "needs Google's OCR service",
        Some("roboflow_core/ocr_model"),
    ),
    (
        "roboflow_core/glm_ocr",
        LARGE,
        Some("roboflow_core/ocr_model"),
    ),
    (
        "roboflow_core/lmm_for_classification",
        HOSTED,
        Some("roboflow_core/clip_comparison"),
    ),
    (
        "roboflow_core/florence_2",
        LARGE,
        Some("roboflow_core/yolo_world_model"),
    ),
    (
        "roboflow_core/seg-preview",
        "needs Roboflow's hosted segmentation",
        Some("roboflow_core/roboflow_instance_segmentation_model"),
    ),
    (
        "roboflow_core/segment_anything_2_video",
        "needs the video memory of SAM 2, which has no ONNX networks",
        Some("roboflow_core/byte_tracker"),
    ),
    (
        "roboflow_core/sam3",
        SEGMENT,
        Some("roboflow_core/segment_anything"),
    ),
    (
        "roboflow_core/sam3_interactive",
        SEGMENT,
        Some("roboflow_core/segment_anything"),
    ),
    (
        "roboflow_core/sam3_video",
        SEGMENT,
        Some("roboflow_core/byte_tracker"),
    ),
    (
        "roboflow_core/segment_anything3_3d_objects",
        "needs a 3-D network that has no ONNX export",
        None,
    ),
    ("roboflow_core/stability_ai_image_gen", STABILITY, None),
    (
        "roboflow_core/stability_ai_inpainting",
        STABILITY,
        Some("roboflow_core/blur_visualization"),
    ),
    ("roboflow_core/stability_ai_outpainting", STABILITY, None),
    ("roboflow_core/asset_library_attributes", PLATFORM, None),
    (
        "roboflow_core/roboflow_custom_metadata",
        PLATFORM,
        Some("roboflow_core/webhook_sink"),
    ),
    (
        "roboflow_core/roboflow_dataset_upload",
        PLATFORM,
        Some("roboflow_core/local_file_sink"),
    ),
    (
        "roboflow_core/model_monitoring_inference_aggregator",
        PLATFORM,
        Some("roboflow_core/data_aggregator"),
    ),
    (
        "roboflow_core/roboflow_vision_events",
        PLATFORM,
        Some("roboflow_core/webhook_sink"),
    ),
    (
        "roboflow_core/cog_vlm",
        "was removed from the language",
        None,
    ),
    ("roboflow_core/onvif_sink", "needs an ONVIF client", EVENTS),
    (
        "roboflow_enterprise/event_writer_sink",
        "posts to Roboflow's enterprise event service",
        Some("roboflow_core/vision_event_bundle"),
    ),
    ("roboflow_core/modbus_tcp", MACHINES, EVENTS),
    ("roboflow_core/sinks", MACHINES, EVENTS),
    ("roboflow_core/plc_reader", MACHINES, None),
    ("roboflow_core/plc_writer", MACHINES, EVENTS),
    ("roboflow_enterprise/opc_writer_sink", MACHINES, EVENTS),
    (
        "roboflow_core/microsoft_sql_server_sink",
        "needs a driver for SQL Server",
        Some("roboflow_core/webhook_sink"),
    ),
];

/// Returns a type without its version.
pub(crate) fn family(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

/// Returns why a type is not supported; `None` if it is.
pub(crate) fn elsewhere(known: &Known) -> Option<UnsupportedBlock> {
    let own = family(known.name);
    if let Some((_, reason, nearest)) = FAMILIES.iter().find(|(name, ..)| *name == own) {
        return Some(UnsupportedBlock {
            reason,
            nearest: *nearest,
        });
    }
    let reason = match known.class {
        Class::Cloud => HOSTED,
        Class::Large => LARGE,
        _ => return None,
    };
    Some(UnsupportedBlock {
        reason,
        nearest: None,
    })
}

#[cfg(test)]
mod tests {
    use super::{EVENTS, FAMILIES, all, canonical, elsewhere, family, find};

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
        for (name, _, nearest) in FAMILIES {
            assert!(is_family(name), "{name}");
            assert!(
                nearest.is_none_or(|n| is_family(n) || Some(n) == EVENTS),
                "{nearest:?}"
            );
        }
        let gone = find("roboflow_core/open_ai@v3").and_then(elsewhere);
        assert!(gone.is_some());
        let here = find("roboflow_core/byte_tracker@v3").and_then(elsewhere);
        assert!(here.is_none());
    }
}
