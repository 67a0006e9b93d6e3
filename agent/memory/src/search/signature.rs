//! A vector in one byte a place.
//!
//! Invariant: cosines of signatures differ from those of their vectors by less than 0.02, which changes the order of near equals and nothing else;
//! 100,000 of 512 places are 49 MiB, and looking at all of them is a matter of milliseconds.

/// A vector of length 1, or of length 0.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Signature {
    places: Vec<i8>,
    scale: f32,
}

/// Many signatures of one length, one after the other in memory.
#[derive(Debug, Default)]
pub(super) struct Signatures {
    places: Vec<i8>,
    scales: Vec<f32>,
}

impl Signature {
    pub(super) fn of(vector: &[f32]) -> Self {
        let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let scale = largest / f32::from(i8::MAX);
        let place = |x: &f32| {
            if scale > 0.0 {
                (x / scale).round() as i8
            } else {
                0
            }
        };
        let places = vector.iter().map(place).collect();
        Self { places, scale }
    }
}

impl Signatures {
    pub(super) fn push(&mut self, signature: &Signature) {
        self.places.extend(&signature.places);
        self.scales.push(signature.scale);
    }

    /// Cosines of `with` and each signature, in their order.
    pub(super) fn cosines<'a>(&'a self, with: &'a Signature) -> impl Iterator<Item = f32> + 'a {
        let length = with.places.len().max(1);
        let each = self.places.chunks_exact(length).zip(&self.scales);
        each.map(|(places, scale)| dot(places, &with.places) as f32 * scale * with.scale)
    }
}

/// Products of two bytes fit 16 bits, which processors multiply and add in pairs; the compiler sees that in this form.
fn dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| i32::from(*a) * i32::from(*b))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_of_signatures_are_near_those_of_the_vectors() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut vector = || {
            let raw: Vec<f32> = (0..512).map(|_| random.f32() - 0.5).collect();
            let length = raw.iter().map(|x| x * x).sum::<f32>().sqrt();
            raw.iter().map(|x| x / length).collect::<Vec<f32>>()
        };
        for _ in 0..50 {
            let (a, b) = (vector(), vector());
            let exact: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            let mut all = Signatures::default();
            all.push(&Signature::of(&a));
            let b = Signature::of(&b);
            let near: Vec<f32> = all.cosines(&b).collect();
            assert!((near[0] - exact).abs() < 0.02, "{near:?} for {exact}");
        }
    }

    #[test]
    fn a_vector_of_length_zero_is_near_nothing() {
        let mut all = Signatures::default();
        all.push(&Signature::of(&[0.0; 8]));
        let cosines: Vec<f32> = all.cosines(&Signature::of(&[1.0; 8])).collect();
        assert_eq!(cosines, [0.0]);
    }
}
