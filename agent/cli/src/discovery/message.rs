//! Messages of WS-Discovery (OASIS 1.1, draft of April 2005 as ONVIF uses it): the probe, and
//! what an answer says.
//!
//! - An answer is outside data: everything taken from it is bounded and free of control characters.
//!   An address is a URL of HTTP without credentials, whose host is safe in a shell.
//! - Only an answer to one of our probes counts.
//! - Pure: no socket, no clock.

use percent_encoding::percent_decode_str;
use roxmltree::{Document, Node, ParsingOptions};
use serde::Serialize;
use url::Url;
use watchkeeper_assistant::wording::{cut, is_unseen};

/// Longest answer that is read, in bytes.
pub(super) const MAX_ANSWER: usize = 16 * 1024;

/// Maximum XML nodes of an answer.
const MAX_NODES: u32 = 1024;

/// Maximum devices that one answer names; a discovery proxy names several.
const MAX_MATCHES: usize = 16;

/// Maximum addresses of a device in the result.
const MAX_ADDRESSES: usize = 4;

/// Maximum addresses, and maximum scopes, of a device that are looked at.
const MAX_LOOKED_AT: usize = 64;

/// Maximum characters of a text in the result.
const MAX_TEXT: usize = 100;

const DISCOVERY: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery";
const ADDRESSING: &str = "http://schemas.xmlsoap.org/ws/2004/08/addressing";

/// Types to ask for: some cameras answer only to one of them.
pub(super) const TYPES: [(&str, &str); 2] = [
    (
        "NetworkVideoTransmitter",
        "http://www.onvif.org/ver10/network/wsdl",
    ),
    ("Device", "http://www.onvif.org/ver10/device/wsdl"),
];

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundCamera {
    /// Identity of the device, the same in all its answers.
    pub endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Model, as its maker writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Addresses of its ONVIF service.
    pub xaddrs: Vec<String>,
}

impl FoundCamera {
    /// Returns the host of its first address.
    pub(crate) fn host(&self) -> Option<String> {
        let url = Url::parse(self.xaddrs.first()?).ok()?;
        url.host_str().map(str::to_owned)
    }
}

/// Returns the probe for devices of one of [`TYPES`]; `id` is a UUID.
pub(super) fn probe(id: &str, (kind, namespace): (&str, &str)) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
         <e:Envelope xmlns:e=\"http://www.w3.org/2003/05/soap-envelope\" xmlns:w=\"{ADDRESSING}\" \
         xmlns:d=\"{DISCOVERY}\" xmlns:t=\"{namespace}\"><e:Header>\
         <w:MessageID>urn:uuid:{id}</w:MessageID>\
         <w:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</w:To>\
         <w:Action>{DISCOVERY}/Probe</w:Action></e:Header>\
         <e:Body><d:Probe><d:Types>t:{kind}</d:Types></d:Probe></e:Body></e:Envelope>"
    )
}

/// Reads the cameras of an answer to a probe with one of `ids`; none of anything else.
pub fn read_answer(bytes: &[u8], ids: &[String]) -> Vec<FoundCamera> {
    let Some(text) = bytes.get(..bytes.len().min(MAX_ANSWER)) else {
        return Vec::new();
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return Vec::new();
    };
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: MAX_NODES,
        ..ParsingOptions::default()
    };
    let Ok(document) = Document::parse_with_options(text.trim(), options) else {
        return Vec::new();
    };
    let root = document.root_element();
    let is_ours = text_of(root, ADDRESSING, "RelatesTo")
        .is_some_and(|to| ids.iter().any(|id| to.trim().ends_with(id.as_str())));
    if !is_ours {
        return Vec::new();
    }
    let is_match = |node: &Node<'_, '_>| node.has_tag_name((DISCOVERY, "ProbeMatch"));
    let matches = root.descendants().filter(is_match).take(MAX_MATCHES);
    matches.filter_map(read_match).collect()
}

fn read_match(node: Node<'_, '_>) -> Option<FoundCamera> {
    let endpoint = clean(text_of(node, ADDRESSING, "Address")?)?;
    let addresses = text_of(node, DISCOVERY, "XAddrs").unwrap_or_default();
    let xaddrs = addresses.split_ascii_whitespace().take(MAX_LOOKED_AT);
    let scopes = text_of(node, DISCOVERY, "Scopes").unwrap_or_default();
    let scope = |kind: &str| {
        let mut all = scopes.split_ascii_whitespace().take(MAX_LOOKED_AT);
        let found = all.find_map(|scope| {
            scope
                .strip_prefix("onvif://www.onvif.org/")?
                .strip_prefix(kind)
        });
        clean(&percent_decode_str(found?).decode_utf8_lossy())
    };
    Some(FoundCamera {
        name: scope("name/"),
        hardware: scope("hardware/"),
        location: scope("location/"),
        xaddrs: xaddrs
            .filter_map(read_address)
            .take(MAX_ADDRESSES)
            .collect(),
        endpoint,
    })
}

/// Returns the text of the first descendant with this name.
fn text_of<'a>(node: Node<'a, '_>, namespace: &str, name: &str) -> Option<&'a str> {
    let mut all = node.descendants();
    all.find(|n| n.has_tag_name((namespace, name)))?.text()
}

fn read_address(text: &str) -> Option<String> {
    if text.len() > 200 {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none();
    (is_plain && url.host_str().is_some_and(is_host)).then(|| url.to_string())
}

/// Whether a host is safe in a command that is pasted into a shell.
fn is_host(host: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-:[]".contains(c);
    !host.is_empty() && !host.starts_with('-') && host.chars().all(is_allowed)
}

/// Returns a visible text of bounded length on one line; `None` when nothing is left.
fn clean(text: &str) -> Option<String> {
    let visible = text
        .chars()
        .filter(|c| !is_unseen(*c) && !matches!(c, '\n' | '\t'));
    let visible: String = visible.take(MAX_TEXT + 1).collect();
    let text = cut(visible.trim().to_owned(), MAX_TEXT);
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "6f0c1c2e-58a1-4b0b-9a53-0d9c0c1f7a11";

    /// Answer of a camera, as its maker's firmware sends it.
    fn answer(id: &str, scopes: &str, xaddrs: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>
<SOAP-ENV:Envelope xmlns:SOAP-ENV=\"http://www.w3.org/2003/05/soap-envelope\"
 xmlns:wsa=\"{ADDRESSING}\" xmlns:d=\"{DISCOVERY}\"
 xmlns:dn=\"http://www.onvif.org/ver10/network/wsdl\">
<SOAP-ENV:Header><wsa:MessageID>urn:uuid:1</wsa:MessageID>
<wsa:RelatesTo>urn:uuid:{id}</wsa:RelatesTo>
<wsa:Action>{DISCOVERY}/ProbeMatches</wsa:Action></SOAP-ENV:Header>
<SOAP-ENV:Body><d:ProbeMatches><d:ProbeMatch>
<wsa:EndpointReference><wsa:Address>urn:uuid:cam-1</wsa:Address></wsa:EndpointReference>
<d:Types>dn:NetworkVideoTransmitter</d:Types><d:Scopes>{scopes}</d:Scopes>
<d:XAddrs>{xaddrs}</d:XAddrs><d:MetadataVersion>1</d:MetadataVersion>
</d:ProbeMatch></d:ProbeMatches></SOAP-ENV:Body></SOAP-ENV:Envelope>"
        )
    }

    fn read(text: &str) -> Vec<FoundCamera> {
        read_answer(text.as_bytes(), &[ID.to_owned()])
    }

    const SCOPES: &str = "onvif://www.onvif.org/type/video_encoder \
        onvif://www.onvif.org/name/HIKVISION%20DS-2CD2143 \
        onvif://www.onvif.org/hardware/DS-2CD2143G0 onvif://www.onvif.org/location/yard";

    #[test]
    fn camera_is_read_from_its_answer() {
        let xaddrs =
            "http://192.168.1.64/onvif/device_service http://[fe80::1]/onvif/device_service";
        let found = read(&answer(ID, SCOPES, xaddrs));
        assert_eq!(
            found,
            [FoundCamera {
                endpoint: "urn:uuid:cam-1".to_owned(),
                name: Some("HIKVISION DS-2CD2143".to_owned()),
                hardware: Some("DS-2CD2143G0".to_owned()),
                location: Some("yard".to_owned()),
                xaddrs: xaddrs.split(' ').map(str::to_owned).collect(),
            }]
        );
        assert_eq!(found[0].host().as_deref(), Some("192.168.1.64"));
    }

    #[test]
    fn answer_to_another_probe_is_ignored() {
        assert_eq!(read(&answer("somebody-else", SCOPES, "http://cam/")), []);
        assert_eq!(read(&probe(ID, TYPES[0])), []);
    }

    #[test]
    fn hostile_text_is_cleaned_and_cut() {
        let scopes = format!(
            "onvif://www.onvif.org/name/%1b%5b31m{}%0aroot",
            "a".repeat(500)
        );
        let bad = "http://user:pw@cam/ javascript:alert(1) http:// rtsp://cam/x http://ok/onvif";
        let found = read(&answer(ID, &scopes, bad));
        let name = found[0].name.clone().unwrap_or_default();
        assert!(
            name.starts_with("[31maaa") && name.chars().count() == MAX_TEXT + 1,
            "{name}"
        );
        assert_eq!(found[0].xaddrs, ["http://ok/onvif"]);
    }

    #[test]
    fn host_that_a_shell_would_run_is_left_out() {
        let bad =
            "http://$(id)/ http://`id`/ http://a;id/ http://a&amp;b/ http://-o/ http://[fe80::1]/";
        let found = read(&answer(ID, SCOPES, bad));
        assert_eq!(found[0].xaddrs, ["http://[fe80::1]/"]);
    }

    #[test]
    fn entities_and_deep_nesting_are_refused() {
        let entities = answer(ID, "&a;", "http://cam/").replace(
            "?>",
            "?><!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]>",
        );
        assert_eq!(read(&entities), []);
        let deep = format!("{}{}", "<a>".repeat(5000), "</a>".repeat(5000));
        assert_eq!(read(&answer(ID, &deep, "http://cam/")), []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(read_answer(&bytes, &[ID.to_owned()]).is_empty());
        }

        #[test]
        fn damaged_answer_gives_bounded_text(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
            cut_at in any::<prop::sample::Index>(),
            is_cut in any::<bool>(),
        ) {
            let mut bytes = answer(ID, SCOPES, "http://192.168.1.64/onvif").into_bytes();
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if is_cut {
                bytes.truncate(cut_at.index(bytes.len()));
            }
            for camera in read_answer(&bytes, &[ID.to_owned()]) {
                let texts = [Some(camera.endpoint), camera.name, camera.hardware, camera.location];
                for text in texts.into_iter().flatten() {
                    prop_assert!(text.chars().count() <= MAX_TEXT + 1);
                    prop_assert!(!text.chars().any(char::is_control));
                }
                prop_assert!(camera.xaddrs.len() <= MAX_ADDRESSES);
            }
        }
    }
}
