//! Numbers of 16 bits (IEEE 754 binary16).

/// Returns the same number with 32 bits.
pub(super) fn to_f32(bits: u16) -> f32 {
    const SMALLEST: f32 = 1.0 / 16_777_216.0;
    let (exponent, fraction) = (u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    let magnitude = match (exponent, fraction) {
        (0, _) => f32::from(bits & 0x3ff) * SMALLEST,
        (0x1f, 0) => f32::INFINITY,
        (0x1f, _) => f32::NAN,
        // The exponents are biased by 15 and by 127.
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    if bits >> 15 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

#[cfg(test)]
mod tests {
    use super::to_f32;

    #[test]
    fn every_finite_number_has_the_value_of_its_fields() {
        for bits in (0..=u16::MAX).filter(|bits| bits >> 10 & 0x1f != 0x1f) {
            let exponent = i32::from(bits >> 10 & 0x1f);
            let hidden = if exponent == 0 { 0.0 } else { 1.0 };
            let fraction = hidden + f64::from(bits & 0x3ff) / 1024.0;
            let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
            let value = sign * fraction * 2.0_f64.powi(exponent.max(1) - 15);
            assert_eq!(f64::from(to_f32(bits)), value, "{bits:#06x}");
        }
    }

    #[test]
    fn infinity_and_nan_are_kept() {
        assert_eq!(to_f32(0x7c00), f32::INFINITY);
        assert_eq!(to_f32(0xfc00), f32::NEG_INFINITY);
        assert!(to_f32(0x7e00).is_nan());
    }
}
