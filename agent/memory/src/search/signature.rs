//! A vector in one byte a place.
//!
//! Invariant: cosines of signatures differ from those of their vectors by less than 0.02, which changes the order of near equals and nothing else.
//!
//! 100,000 of 512 places are 49 MiB. What a question says fills few of its places, and only those are looked at: signatures lie in blocks in which the
//! same place of all of them stands together.

/// Signatures of a block: one place of all of them is a cache line, so that what is not looked at is not fetched either. A page wastes at most a block,
/// 32 KiB.
const BLOCK: usize = 64;

/// A vector of length 1, or of length 0.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Signature {
    places: Vec<i8>,
    scale: f32,
}

/// Many signatures of one length.
#[derive(Debug, Default)]
pub(super) struct Signatures {
    /// Blocks of [`BLOCK`] signatures, the last one filled up with nought: a row for the first place of each, one for the second, and so on.
    rows: Vec<Row>,
    scales: Vec<f32>,
}

/// The same place of each signature of a block.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Row([i8; BLOCK]);

impl Signature {
    pub(super) fn of(vector: &[f32]) -> Self {
        let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let scale = largest / f32::from(i8::MAX);
        let place = |x: &f32| {
            if scale > 0.0 {
                (x / scale).round().max(-127.0) as i8
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
        let length = signature.places.len();
        let within = self.scales.len() % BLOCK;
        if within == 0 {
            let rows = self.rows.len() + length;
            self.rows.resize(rows, Row([0; BLOCK]));
        }
        let block = self.rows.len().saturating_sub(length);
        for (row, place) in self.rows.iter_mut().skip(block).zip(&signature.places) {
            if let Some(to) = row.0.get_mut(within) {
                *to = *place;
            }
        }
        self.scales.push(signature.scale);
    }

    /// Cosines of `with` and each signature, in their order.
    pub(super) fn cosines(&self, with: &Signature) -> impl Iterator<Item = f32> {
        let said: Vec<(usize, i16)> = with
            .places
            .iter()
            .enumerate()
            .filter(|(_, place)| **place != 0)
            .map(|(at, place)| (at, i16::from(*place)))
            .collect();
        let length = with.places.len().max(1);
        let blocks = self.rows.chunks_exact(length);
        let dots = blocks.flat_map(move |block| dots(block, &said));
        let scale = with.scale;
        dots.zip(&self.scales)
            .map(move |(dot, each)| dot as f32 * each * scale)
    }
}

/// Products of each signature of a block with those places of another that are not nought.
fn dots(block: &[Row], said: &[(usize, i16)]) -> [i32; BLOCK] {
    let mut sums = [0; BLOCK];
    for (at, place) in said {
        let Some(row) = block.get(*at) else { continue };
        for (sum, of_each) in sums.iter_mut().zip(&row.0) {
            // A product of two bytes fits: 127 · 127, and -128 is never stored.
            *sum += i32::from(place * i16::from(*of_each));
        }
    }
    sums
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
        // Not a whole number of blocks.
        let many: Vec<Vec<f32>> = (0..50).map(|_| vector()).collect();
        let mut all = Signatures::default();
        many.iter().for_each(|each| all.push(&Signature::of(each)));
        let one = vector();
        let near: Vec<f32> = all.cosines(&Signature::of(&one)).collect();
        assert_eq!(near.len(), many.len());
        for (near, each) in near.iter().zip(&many) {
            let exact: f32 = each.iter().zip(&one).map(|(a, b)| a * b).sum();
            assert!((near - exact).abs() < 0.02, "{near} for {exact}");
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
