//! Identifies the box: its machine id and the model of its hardware.

use std::path::Path;

use serde::Serialize;

use crate::read_text;

/// The identity of a box.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Identity {
    /// `/etc/machine-id`: 32 hexadecimal digits, generated at installation (machine-id(5)).
    pub machine_id: Option<String>,
    /// Model of the hardware, from the device tree or from DMI.
    pub model: Option<String>,
}

/// Reads the identity of the box with root folder `root`.
#[must_use]
pub fn read(root: &Path) -> Identity {
    let is_id = |id: &String| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
    Identity {
        machine_id: read_text(root, "etc/machine-id").filter(is_id),
        model: read_text(root, "proc/device-tree/model").or_else(|| dmi(root)),
    }
}

/// Vendor and product from DMI; placeholders such as "To be filled by O.E.M." are ignored.
fn dmi(root: &Path) -> Option<String> {
    let named = |text: &String| !text.eq_ignore_ascii_case("to be filled by o.e.m.");
    let product = read_text(root, "sys/class/dmi/id/product_name").filter(named)?;
    match read_text(root, "sys/class/dmi/id/sys_vendor").filter(named) {
        Some(vendor) if !product.starts_with(&vendor) => Some(format!("{vendor} {product}")),
        Some(_) | None => Some(product),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::board;

    #[test]
    fn model_comes_from_device_tree_before_dmi() {
        let root = board(&[
            ("proc/device-tree/model", "NVIDIA Jetson Orin Nano\0"),
            ("sys/class/dmi/id/product_name", "other"),
            ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ]);
        let identity = read(root.path());
        assert_eq!(identity.model.as_deref(), Some("NVIDIA Jetson Orin Nano"));
        assert_eq!(
            identity.machine_id.as_deref(),
            Some("0123456789abcdef0123456789abcdef")
        );
    }

    #[test]
    fn uninitialized_machine_id_is_none() {
        let root = board(&[("etc/machine-id", "uninitialized\n")]);
        assert_eq!(read(root.path()).machine_id, None);
    }

    #[test]
    fn vendor_placeholder_is_no_model() {
        let root = board(&[("sys/class/dmi/id/product_name", "To Be Filled By O.E.M.")]);
        assert_eq!(read(root.path()).model, None);
    }
}
