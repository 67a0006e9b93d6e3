//! Confidences in words: rounded down, so that none looks as if it passed a gate.

/// A confidence in whole `parts` of 1, rounded down.
pub(crate) fn round_down(confidence: f64, parts: f64) -> f64 {
    // 0.29 is a little less than 29 hundredths.
    (confidence * parts + 1e-6).floor()
}

/// A confidence in words: two decimals, rounded down, so that 0.699 does not look like 0.70.
pub fn confidence_text(confidence: f64) -> String {
    format!("{:.2}", round_down(confidence, 100.0) / 100.0)
}

/// The comparison of a confidence with a gate, such as `0.69 is below the gate of 0.70`. The gate
/// keeps up to four decimals, and the confidence gets as many, so that both compare as they are
/// shown.
pub fn gate_text(confidence: f64, gate: f64) -> String {
    let decimals = gate
        .to_string()
        .split_once('.')
        .map_or(0, |(_, of)| of.len());
    let decimals = decimals.clamp(2, 4);
    let parts = 10_f64.powi(decimals as i32);
    let shown = round_down(confidence, parts) / parts;
    let (shown, side) = match confidence >= gate {
        true => (shown.max(gate), "at or above"),
        // A little less than the gate may be rounded to it.
        false => (shown.min(gate - 1.0 / parts), "below"),
    };
    format!("{shown:.decimals$} is {side} the gate of {gate:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_beside_a_gate_compares_as_shown() {
        for (confidence, gate, text) in [
            (0.6999, 0.7, "0.69 is below the gate of 0.70"),
            (0.1 * 7.0, 0.7, "0.70 is at or above the gate of 0.70"),
            (0.7 - 1e-12, 0.7, "0.69 is below the gate of 0.70"),
            (0.7049, 0.705, "0.704 is below the gate of 0.705"),
            (0.907, 0.9, "0.90 is at or above the gate of 0.90"),
            (1.0, 1.0, "1.00 is at or above the gate of 1.00"),
            (0.3, 0.1 + 0.2, "0.2999 is below the gate of 0.3000"),
        ] {
            assert_eq!(gate_text(confidence, gate), text);
        }
        assert_eq!(confidence_text(0.8999), "0.89");
    }
}
