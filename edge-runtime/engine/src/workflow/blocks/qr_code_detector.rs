//! Reads QR codes.

use watchkeeper_vision::imaging::codes;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::barcodes::{BASE, read};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/qr_code_detector@v1",
    summary: "Finds and reads QR codes in pictures.",
    outputs: &[Output::new("predictions", &[Kind::QrCode])],
    build: |_| {
        Ok(Box::new(|call: &mut Call<'_>| {
            read(call, "qr_code", codes::qr_codes)
        }))
    },
    ..BASE
}];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::Value;
    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    #[test]
    fn generated_code_is_read_at_its_position() {
        let step = json!({"type": "QRCodeGenerator", "text": "$inputs.text", "border": 2});
        let mut maker = Bench::new(step, &[("text", Kind::Text)]);
        maker.feed(&[("text", Value::from("gate 7"))]).unwrap();
        let made = maker.value("qr_code").unwrap();

        let step = json!({"type": "QRCodeDetection", "images": "$inputs.image"});
        let mut reader = Bench::new(step, &[("image", Kind::Image)]);
        let out = reader.feed(&[("image", made)]).unwrap();
        let found = &out["predictions"]["predictions"];
        assert_eq!(found.as_array().unwrap().len(), 1, "{out}");
        assert_eq!(found[0]["data"], json!("gate 7"));
        assert_eq!(found[0]["class"], json!("qr_code"));
        // 21 modules of 10 pixels within a border of two modules.
        let near = |key: &str, wanted: f64| (found[0][key].as_f64().unwrap() - wanted).abs() < 5.0;
        assert!(
            near("x", 125.0) && near("y", 125.0) && near("width", 210.0),
            "{out}"
        );

        let nothing = reader.feed(&[("image", picture(2, [60, 60], |_, _| [255; 3]))]);
        assert_eq!(nothing.unwrap()["predictions"]["predictions"], json!([]));
    }
}
