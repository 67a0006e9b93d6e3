//! What this machine can decode with: the installed elements and the kind of board.
//!
//! - A decoder is chosen from [`DECODERS`] in its order, by what is installed.
//! - Software that decodes where hardware was expected has a reason, never nothing.
//! - Only [`Platform::probe`] asks GStreamer and the board; the rest is pure.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use gstreamer as gst;
use gstreamer::prelude::PluginFeatureExtManual;
use watchkeeper_board::identity;
use watchkeeper_board::model::Family;
use watchkeeper_contract::source::{DecoderChoice, DecoderStatus};

use crate::capture::check::{install_remedy, package_of};

/// A compressed format for which this module chooses the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::capture) enum Codec {
    H264,
    H265,
}

impl Codec {
    pub(super) const ALL: [Self; 2] = [Self::H264, Self::H265];

    /// Returns the GStreamer media type.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::H264 => "video/x-h264",
            Self::H265 => "video/x-h265",
        }
    }

    pub(super) fn parser(self) -> &'static str {
        match self {
            Self::H264 => "h264parse",
            Self::H265 => "h265parse",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::H264 => "H.264",
            Self::H265 => "H.265",
        }
    }
}

/// Memory of decoded frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    System,
    /// NVIDIA's buffers, which only NVIDIA's elements can read.
    Nvmm,
}

/// A decoder element.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decoder {
    pub(super) element: &'static str,
    codec: Codec,
    /// Hardware of this choice, or [`DecoderChoice::Software`].
    kind: DecoderChoice,
    pub(super) memory: Memory,
}

impl Decoder {
    pub(super) fn is_hardware(&self) -> bool {
        self.kind != DecoderChoice::Software
    }
}

const fn decoder(element: &'static str, codec: Codec, kind: DecoderChoice) -> Decoder {
    let memory = Memory::System;
    Decoder {
        element,
        codec,
        kind,
        memory,
    }
}

const fn nvmm(codec: Codec) -> Decoder {
    Decoder {
        element: "nvv4l2decoder",
        codec,
        kind: DecoderChoice::Nvidia,
        memory: Memory::Nvmm,
    }
}

/// Known decoders, the preferred ones first.
pub(super) const DECODERS: [Decoder; 16] = [
    nvmm(Codec::H264),
    nvmm(Codec::H265),
    decoder("nvh264dec", Codec::H264, DecoderChoice::Nvidia),
    decoder("nvh265dec", Codec::H265, DecoderChoice::Nvidia),
    decoder("v4l2slh264dec", Codec::H264, DecoderChoice::V4l2),
    decoder("v4l2slh265dec", Codec::H265, DecoderChoice::V4l2),
    decoder("v4l2h264dec", Codec::H264, DecoderChoice::V4l2),
    decoder("v4l2h265dec", Codec::H265, DecoderChoice::V4l2),
    decoder("vah264dec", Codec::H264, DecoderChoice::Va),
    decoder("vah265dec", Codec::H265, DecoderChoice::Va),
    decoder("vaapih264dec", Codec::H264, DecoderChoice::Va),
    decoder("vaapih265dec", Codec::H265, DecoderChoice::Va),
    decoder("avdec_h264", Codec::H264, DecoderChoice::Software),
    decoder("avdec_h265", Codec::H265, DecoderChoice::Software),
    decoder("openh264dec", Codec::H264, DecoderChoice::Software),
    decoder("libde265dec", Codec::H265, DecoderChoice::Software),
];

/// Elements other than decoders that a pipeline has only if they are installed.
const OTHERS: [&str; 7] = [
    "h264parse",
    "h265parse",
    "libcamerasrc",
    "nvarguscamerasrc",
    "nvvidconv",
    "vapostproc",
    "videoflip",
];

/// Elements of a Jetson's hardware decoder.
const NVIDIA: &[&str] = &["nvv4l2decoder", "nvvidconv"];

/// Systems on chip of Raspberry Pis that decode H.264; the `bcm2712` of a Pi 5 does not.
const H264_SOCS: [&str; 2] = ["bcm2711", "bcm2837"];

/// Boards whose hardware decoder is known in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecoderBoard {
    Jetson,
    /// A Raspberry Pi up to 4, which decodes H.264; later ones do not.
    RaspberryPi4,
    Other,
}

impl DecoderBoard {
    fn read(root: &Path) -> Self {
        let identity = identity::read(root);
        match identity.board.map(|board| board.soc) {
            _ if identity.family == Family::Jetson => Self::Jetson,
            Some(soc) if H264_SOCS.contains(&soc) => Self::RaspberryPi4,
            _ => Self::Other,
        }
    }

    /// Returns all elements of the board's hardware decoder of `codec`, and the board for users.
    fn expected(self, codec: Codec) -> Option<(&'static [&'static str], &'static str)> {
        match (self, codec) {
            (Self::Jetson, _) => Some((NVIDIA, "this Jetson")),
            (Self::RaspberryPi4, Codec::H264) => Some((&["v4l2h264dec"], "this Raspberry Pi")),
            (Self::RaspberryPi4, Codec::H265) | (Self::Other, _) => None,
        }
    }
}

/// Installed elements and kind of board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::capture) struct Platform {
    pub(super) board: DecoderBoard,
    /// Rank of each installed element; 0 asks GStreamer not to choose it automatically.
    pub(super) ranks: BTreeMap<&'static str, i32>,
}

impl Platform {
    /// Returns this machine; GStreamer must have started. Read once: a new element takes a restart.
    pub(in crate::capture) fn probe() -> &'static Self {
        static THIS: OnceLock<Platform> = OnceLock::new();
        THIS.get_or_init(|| {
            let decoders = DECODERS.iter().map(|decoder| decoder.element);
            let rank_of = |name| {
                let factory = gst::ElementFactory::find(name)?;
                Some((name, i32::from(factory.rank())))
            };
            Self {
                board: DecoderBoard::read(Path::new("/")),
                ranks: decoders.chain(OTHERS).filter_map(rank_of).collect(),
            }
        })
    }

    pub(super) fn has(&self, element: &str) -> bool {
        self.ranks.contains_key(element)
    }

    fn is_usable(&self, decoder: &Decoder) -> bool {
        self.has(decoder.element)
            && self.has(decoder.codec.parser())
            && (decoder.memory == Memory::System || self.has("nvvidconv"))
    }

    /// The first element that an unusable decoder lacks.
    fn lacking(&self, decoder: &Decoder) -> &'static str {
        let needed = [decoder.element, decoder.codec.parser()];
        let absent = needed.into_iter().find(|element| !self.has(element));
        absent.unwrap_or("nvvidconv")
    }

    /// Checks that hardware of this choice is installed.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub(in crate::capture) fn check_choice(&self, choice: DecoderChoice) -> Result<(), String> {
        let of_choice = || DECODERS.iter().filter(|decoder| decoder.kind == choice);
        if choice == DecoderChoice::Auto || of_choice().any(|decoder| self.is_usable(decoder)) {
            return Ok(());
        }
        // Only a Jetson has NVIDIA's own package; elsewhere its elements can't work.
        let is_here =
            |decoder: &&Decoder| (decoder.element == "nvv4l2decoder") == self.prefers_nvmm(choice);
        let decoders = of_choice().filter(is_here);
        let mut named: Vec<&str> = decoders.map(|decoder| self.lacking(decoder)).collect();
        named.dedup();
        let mut packages: Vec<&str> = named.iter().filter_map(|name| package_of(name)).collect();
        packages.sort_unstable();
        packages.dedup();
        Err(format!(
            "decoder = {:?} is not available: GStreamer lacks {}; set decoder = \"auto\", or \
             on a machine with this hardware: sudo apt-get install {}",
            choice.name(),
            named.join(", "),
            packages.join(" ")
        ))
    }

    fn prefers_nvmm(&self, choice: DecoderChoice) -> bool {
        self.board == DecoderBoard::Jetson && choice == DecoderChoice::Nvidia
    }

    /// Chooses the decoder of `codec`, and describes it for the status.
    ///
    /// `failure` says why hardware is not used any more. `None` if no decoder is installed.
    pub(super) fn choose(
        &self,
        codec: Codec,
        choice: DecoderChoice,
        failure: Option<&str>,
    ) -> Option<(&'static Decoder, DecoderStatus)> {
        let fits = |decoder: &&Decoder| {
            let is_wanted = match (decoder.kind, choice) {
                (DecoderChoice::Software, _) => true,
                _ if failure.is_some() => false,
                (_, DecoderChoice::Auto) => self.ranks.get(decoder.element) > Some(&0),
                (kind, choice) => kind == choice,
            };
            decoder.codec == codec && is_wanted && self.is_usable(decoder)
        };
        let decoder = DECODERS.iter().find(fits)?;
        let fallback = match decoder.is_hardware() {
            true => None,
            false => self.fallback_reason(codec, choice, failure),
        };
        let status = DecoderStatus {
            element: decoder.element.to_owned(),
            hardware: decoder.is_hardware(),
            fallback,
        };
        Some((decoder, status))
    }

    fn fallback_reason(
        &self,
        codec: Codec,
        choice: DecoderChoice,
        failure: Option<&str>,
    ) -> Option<String> {
        match choice {
            DecoderChoice::Software => None,
            _ if failure.is_some() => failure.map(str::to_owned),
            DecoderChoice::Auto => {
                let missing = self.missing_hardware(codec)?;
                Some(format!(
                    "{}, which hardware decoding by {} needs, is not installed; {}",
                    missing.element,
                    missing.by,
                    install_remedy(missing.element)
                ))
            }
            named => Some(format!(
                "no decoder of kind {:?} for {} is installed; set decoder = \"auto\"",
                named.name(),
                codec.name()
            )),
        }
    }

    /// Returns the first element that hardware decoding of `codec` lacks. A decoder of NVIDIA
    /// expects its hardware on an unknown board too, as in a container without a device tree.
    fn missing_hardware(&self, codec: Codec) -> Option<MissingHardware> {
        let decoder = "nvv4l2decoder";
        let by_decoder = || self.has(decoder).then_some((NVIDIA, decoder));
        let (elements, by) = self.board.expected(codec).or_else(by_decoder)?;
        let element = elements.iter().find(|element| !self.has(element))?;
        Some(MissingHardware { element, by })
    }

    /// Lists the elements that the board's hardware decoders need and that are not installed.
    pub(in crate::capture) fn all_missing_hardware(&self) -> Vec<MissingHardware> {
        let mut missing: Vec<MissingHardware> = Vec::new();
        for found in Codec::ALL.iter().filter_map(|c| self.missing_hardware(*c)) {
            if !missing.contains(&found) {
                missing.push(found);
            }
        }
        missing
    }
}

/// An element of a board's hardware decoder that is not installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::capture) struct MissingHardware {
    pub(in crate::capture) element: &'static str,
    /// Board or element that would decode.
    pub(in crate::capture) by: &'static str,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A platform with these elements, all of a positive rank.
    pub(in crate::capture::gst) fn with(
        board: DecoderBoard,
        elements: &[&'static str],
    ) -> Platform {
        let parsers = ["h264parse", "h265parse"];
        Platform {
            board,
            ranks: elements
                .iter()
                .chain(&parsers)
                .map(|element| (*element, 256))
                .collect(),
        }
    }

    const SOFTWARE: [&str; 2] = ["avdec_h264", "avdec_h265"];

    fn jetson() -> Platform {
        let nvidia = ["nvv4l2decoder", "nvvidconv"];
        with(DecoderBoard::Jetson, &[&nvidia[..], &SOFTWARE].concat())
    }

    fn chosen(platform: &Platform, choice: DecoderChoice, failure: Option<&str>) -> DecoderStatus {
        let (_, status) = platform
            .choose(Codec::H264, choice, failure)
            .expect("a decoder");
        status
    }

    #[test]
    fn hardware_is_preferred_to_the_processor() {
        let status = chosen(&jetson(), DecoderChoice::Auto, None);
        assert_eq!((&*status.element, status.hardware), ("nvv4l2decoder", true));
        let va = with(
            DecoderBoard::Other,
            &["avdec_h264", "vaapih264dec", "vah264dec"],
        );
        assert_eq!(chosen(&va, DecoderChoice::Auto, None).element, "vah264dec");
    }

    #[test]
    fn element_of_rank_none_is_chosen_only_by_name() {
        let mut va = with(DecoderBoard::Other, &["avdec_h264", "vah264dec"]);
        va.ranks.insert("vah264dec", 0);
        assert_eq!(chosen(&va, DecoderChoice::Auto, None).element, "avdec_h264");
        assert_eq!(chosen(&va, DecoderChoice::Va, None).element, "vah264dec");
    }

    #[test]
    fn processor_in_place_of_hardware_has_a_reason() {
        let failed = chosen(&jetson(), DecoderChoice::Auto, Some("nvv4l2decoder failed"));
        assert_eq!(failed.element, "avdec_h264");
        assert_eq!(failed.fallback.as_deref(), Some("nvv4l2decoder failed"));

        let without = with(DecoderBoard::Jetson, &SOFTWARE);
        let status = chosen(&without, DecoderChoice::Auto, None);
        let reason = status.fallback.expect("a reason");
        assert!(
            reason.contains("apt-get install nvidia-l4t-gstreamer"),
            "{reason}"
        );

        for (board, by) in [
            (DecoderBoard::Jetson, "this Jetson"),
            (DecoderBoard::Other, "nvv4l2decoder"),
        ] {
            let half = with(board, &["nvv4l2decoder", "avdec_h264"]);
            let reason = chosen(&half, DecoderChoice::Auto, None).fallback;
            let reason = reason.expect("a reason");
            assert!(
                reason.starts_with("nvvidconv") && reason.contains(by),
                "{reason}"
            );
        }
    }

    #[test]
    fn processor_where_no_hardware_was_expected_has_no_reason() {
        let bare = with(DecoderBoard::Other, &SOFTWARE);
        assert_eq!(chosen(&bare, DecoderChoice::Auto, None).fallback, None);
        let status = chosen(&jetson(), DecoderChoice::Software, None);
        assert_eq!((&*status.element, status.fallback), ("avdec_h264", None));
        let pi = with(DecoderBoard::RaspberryPi4, &SOFTWARE);
        let (_, h265) = pi
            .choose(Codec::H265, DecoderChoice::Auto, None)
            .expect("it");
        assert_eq!(h265.fallback, None);
    }

    #[test]
    fn choice_that_is_not_installed_is_refused() {
        assert_eq!(jetson().check_choice(DecoderChoice::Nvidia), Ok(()));
        let error = jetson()
            .check_choice(DecoderChoice::V4l2)
            .expect_err("none");
        assert!(
            error.contains("\"v4l2\"") && error.contains("v4l2h264dec"),
            "{error}"
        );
        let refused = |board| {
            let platform = with(board, &SOFTWARE);
            platform
                .check_choice(DecoderChoice::Nvidia)
                .expect_err("none")
        };
        let on_jetson = refused(DecoderBoard::Jetson);
        assert!(
            on_jetson.ends_with("apt-get install nvidia-l4t-gstreamer"),
            "{on_jetson}"
        );
        let elsewhere = refused(DecoderBoard::Other);
        assert!(
            elsewhere.ends_with("apt-get install gstreamer1.0-plugins-bad"),
            "{elsewhere}"
        );
        assert_eq!(jetson().check_choice(DecoderChoice::Auto), Ok(()));
        let mut without_scaler = jetson();
        without_scaler.ranks.remove("nvvidconv");
        let refused = without_scaler.check_choice(DecoderChoice::Nvidia);
        let refused = refused.expect_err("no scaler");
        assert!(refused.contains("lacks nvvidconv"), "{refused}");
    }

    #[test]
    fn board_lists_the_missing_elements_of_its_hardware() {
        let missing = with(DecoderBoard::Jetson, &["avdec_h264"]).all_missing_hardware();
        let elements: Vec<&str> = missing.iter().map(|m| m.element).collect();
        assert_eq!(elements, ["nvv4l2decoder"]);
        assert_eq!(jetson().all_missing_hardware(), []);
        assert_eq!(with(DecoderBoard::Other, &[]).all_missing_hardware(), []);
    }

    #[test]
    fn raspberry_pi_is_read_from_the_device_tree() {
        let board = |compatible: &str| {
            let root = tempfile::tempdir().expect("a folder");
            let tree = root.path().join("proc/device-tree");
            std::fs::create_dir_all(&tree).expect("a folder");
            std::fs::write(tree.join("compatible"), compatible).expect("a file");
            DecoderBoard::read(root.path())
        };
        for with_decoder in [
            "raspberrypi,4-model-b\0brcm,bcm2711\0",
            "raspberrypi,4-compute-module-s\0brcm,bcm2711\0",
            "raspberrypi,model-zero-2-w\0brcm,bcm2837\0",
            "raspberrypi,3-model-a-plus\0brcm,bcm2837\0",
        ] {
            let found = board(with_decoder);
            assert_eq!(found, DecoderBoard::RaspberryPi4, "{with_decoder}");
        }
        for without in [
            "raspberrypi,5-model-b\0brcm,bcm2712\0",
            "raspberrypi,5-compute-module\0brcm,bcm2712\0",
            "raspberrypi,500\0brcm,bcm2712\0",
            "radxa,rock-5b\0rockchip,rk3588\0",
        ] {
            assert_eq!(board(without), DecoderBoard::Other, "{without}");
        }
    }
}
