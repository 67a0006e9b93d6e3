//! Vectors quantised to one byte per dimension.
//!
//! - Cosines differ from those of the exact vectors by less than 0.02, which only reorders near
//!   ties.
//! - 100,000 signatures of 512 dimensions take 49 MiB.
//! - A query has few non-zero dimensions in a hashed vector, and only those are read. So a block
//!   stores the same dimension of all its signatures together. A network's vector has no zero
//!   dimensions.

/// Signatures of a block. One dimension of all of them is a cache line, so unread dimensions are
/// not fetched. A page wastes at most one block, 32 KiB.
const BLOCK: usize = 64;

/// Quantised vector of length 1 or 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Signature {
    places: Vec<i8>,
    scale: f32,
}

#[derive(Debug, Default)]
pub(super) struct Signatures {
    /// Blocks of [`BLOCK`] signatures, one row per dimension; the last block is padded with zeros.
    rows: Vec<Row>,
    scales: Vec<f32>,
}

/// One dimension of each signature of a block.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Row([i8; BLOCK]);

impl Signature {
    /// Quantises a vector to one byte per dimension.
    pub(crate) fn from_vector(vector: &[f32]) -> Self {
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

    /// Restores a stored signature; `None` if its values are invalid.
    pub(crate) fn stored(scale: f32, places: &[u8]) -> Option<Self> {
        let places: Vec<i8> = places.iter().map(|place| place.cast_signed()).collect();
        let is_valid = scale.is_finite() && scale >= 0.0 && !places.contains(&i8::MIN);
        is_valid.then_some(Self { places, scale })
    }

    /// Returns scale and dimensions, as they are stored.
    pub(crate) fn parts(&self) -> (f32, impl Iterator<Item = u8>) {
        let places = self.places.iter().map(|place| place.cast_unsigned());
        (self.scale, places)
    }

    pub(crate) fn dimension(&self) -> usize {
        self.places.len()
    }
}

impl Signatures {
    pub(super) fn push(&mut self, signature: &Signature) {
        let at = self.scales.len();
        if at.is_multiple_of(BLOCK) {
            let rows = self.rows.len() + signature.places.len();
            self.rows.resize(rows, Row([0; BLOCK]));
        }
        self.scales.push(0.0);
        self.set(at, signature);
    }

    /// Replaces the signature at `at` by one of the same dimension.
    pub(super) fn set(&mut self, at: usize, signature: &Signature) {
        let block = at / BLOCK * signature.places.len();
        for (row, place) in self.rows.iter_mut().skip(block).zip(&signature.places) {
            if let Some(to) = row.0.get_mut(at % BLOCK) {
                *to = *place;
            }
        }
        if let Some(scale) = self.scales.get_mut(at) {
            *scale = signature.scale;
        }
    }

    /// Returns the signature at `at`, of `length` dimensions.
    pub(super) fn get(&self, at: usize, length: usize) -> Option<Signature> {
        let scale = *self.scales.get(at)?;
        let rows = self.rows.iter().skip(at / BLOCK * length).take(length);
        let places = rows.filter_map(|row| row.0.get(at % BLOCK).copied());
        Some(Signature {
            places: places.collect(),
            scale,
        })
    }

    /// Computes the cosines of `with` and each signature, in their order.
    pub(super) fn cosines(&self, with: &Signature) -> impl Iterator<Item = f32> {
        let nonzero: Vec<(usize, i16)> = with
            .places
            .iter()
            .enumerate()
            .filter(|(_, place)| **place != 0)
            .map(|(at, place)| (at, i16::from(*place)))
            .collect();
        let length = with.places.len().max(1);
        let blocks = self.rows.chunks_exact(length);
        let dots = blocks.flat_map(move |block| dots(block, &nonzero));
        let scale = with.scale;
        dots.zip(&self.scales)
            .map(move |(dot, each)| dot as f32 * each * scale)
    }
}

/// Computes the dot products of a block's signatures with the non-zero dimensions of another one.
fn dots(block: &[Row], nonzero: &[(usize, i16)]) -> [i32; BLOCK] {
    let mut sums = [0; BLOCK];
    // In pairs, because the sum of two products of bytes fits in 16 bits (2 · 127 · 127; -128 is
    // never stored): half as many widenings.
    let (pairs, last) = nonzero.as_chunks::<2>();
    for [(one, of_one), (other, of_other)] in pairs {
        let (Some(first), Some(second)) = (block.get(*one), block.get(*other)) else {
            continue;
        };
        for ((sum, x), y) in sums.iter_mut().zip(&first.0).zip(&second.0) {
            *sum += i32::from(of_one * i16::from(*x) + of_other * i16::from(*y));
        }
    }
    for (at, place) in last {
        let Some(row) = block.get(*at) else { continue };
        for (sum, of_each) in sums.iter_mut().zip(&row.0) {
            *sum += i32::from(place * i16::from(*of_each));
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_are_near_those_of_the_exact_vectors() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut vector = || {
            let raw: Vec<f32> = (0..512).map(|_| random.f32() - 0.5).collect();
            let length = raw.iter().map(|x| x * x).sum::<f32>().sqrt();
            raw.iter().map(|x| x / length).collect::<Vec<f32>>()
        };
        // Not a whole number of blocks.
        let many: Vec<Vec<f32>> = (0..50).map(|_| vector()).collect();
        let mut all = Signatures::default();
        many.iter()
            .for_each(|each| all.push(&Signature::from_vector(each)));
        let one = vector();
        let near: Vec<f32> = all.cosines(&Signature::from_vector(&one)).collect();
        assert_eq!(near.len(), many.len());
        for (near, each) in near.iter().zip(&many) {
            let exact: f32 = each.iter().zip(&one).map(|(a, b)| a * b).sum();
            assert!((near - exact).abs() < 0.02, "{near} for {exact}");
        }
    }

    /// Imitates vectors of networks: clustered, with a few dominant dimensions.
    fn dense(random: &mut fastrand::Rng, places: usize, near: Option<&[f32]>) -> Vec<f32> {
        let raw: Vec<f32> = (0..places)
            .map(|at| {
                let own = (0..4).map(|_| random.f32() - 0.5).sum::<f32>();
                let large = if at % 97 == 5 { 4.0 } else { 1.0 };
                own * large + near.map_or(0.0, |near| near[at] * 30.0)
            })
            .collect();
        let length = raw.iter().map(|x| x * x).sum::<f32>().sqrt();
        raw.iter().map(|x| x / length).collect()
    }

    #[test]
    fn nearest_signatures_are_the_nearest_dense_vectors() {
        const NEAREST: usize = 10;
        let mut random = fastrand::Rng::with_seed(11);
        for places in [384, 768] {
            let clusters: Vec<Vec<f32>> =
                (0..20).map(|_| dense(&mut random, places, None)).collect();
            let mut near = |n: usize| dense(&mut random, places, Some(&clusters[n % 20]));
            let many: Vec<Vec<f32>> = (0..2_000).map(&mut near).collect();
            let questions: Vec<Vec<f32>> = (0..40).map(&mut near).collect();
            let mut all = Signatures::default();
            many.iter()
                .for_each(|each| all.push(&Signature::from_vector(each)));
            let mut hits = 0;
            for question in &questions {
                let cosine = |each: &Vec<f32>| each.iter().zip(question).map(|(a, b)| a * b).sum();
                let exact: Vec<f32> = many.iter().map(cosine).collect();
                let signature = Signature::from_vector(question);
                let near: Vec<f32> = all.cosines(&signature).collect();
                let first = |cosines: &[f32]| {
                    let mut order: Vec<usize> = (0..cosines.len()).collect();
                    order.sort_by(|a, b| cosines[*b].total_cmp(&cosines[*a]));
                    order.truncate(NEAREST);
                    order
                };
                let (nearest, found) = (first(&exact), first(&near));
                hits += nearest.iter().filter(|at| found.contains(at)).count();
                // A swapped note is as near to a few thousandths.
                let last = exact[nearest[NEAREST - 1]];
                let worst = found.iter().map(|at| exact[*at]).fold(1.0, f32::min);
                assert!(last - worst < 0.004, "{worst} in place of {last}");
            }
            let part = hits as f64 / (NEAREST * questions.len()) as f64;
            assert!(part >= 0.9, "{part} of the nearest of {places} places");
        }
    }

    #[test]
    fn set_equals_push_and_stored_signatures_are_unchanged() {
        let mut random = fastrand::Rng::with_seed(3);
        let signatures: Vec<Signature> = (0..130)
            .map(|_| Signature::from_vector(&dense(&mut random, 24, None)))
            .collect();
        let (mut pushed, mut set) = (Signatures::default(), Signatures::default());
        for signature in &signatures {
            pushed.push(signature);
            set.push(&Signature::from_vector(&[0.0; 24]));
        }
        for (at, signature) in signatures.iter().enumerate().rev() {
            set.set(at, signature);
            assert_eq!(set.get(at, 24).as_ref(), Some(signature));
            let (scale, places) = signature.parts();
            let stored: Vec<u8> = places.collect();
            assert_eq!(Signature::stored(scale, &stored).as_ref(), Some(signature));
        }
        let cosines = |of: &Signatures| of.cosines(&signatures[7]).collect::<Vec<f32>>();
        assert_eq!(cosines(&pushed), cosines(&set));
        assert_eq!(pushed.get(130, 24), None);
        assert_eq!(Signature::stored(f32::NAN, &[0; 4]), None);
        assert_eq!(Signature::stored(1.0, &[128]), None);
    }

    #[test]
    fn largest_values_do_not_overflow() {
        let edge = Signature::from_vector(&[1.0, -1.0, 1.0, -1.0, 1.0]);
        let mut all = Signatures::default();
        all.push(&edge);
        all.push(&Signature::from_vector(&[-1.0, 1.0, -1.0, 1.0, -1.0]));
        let cosines: Vec<f32> = all.cosines(&edge).collect();
        assert!((cosines[0] - 5.0).abs() < 1e-4 && (cosines[1] + 5.0).abs() < 1e-4);
    }

    #[test]
    fn zero_vector_is_near_nothing() {
        let mut all = Signatures::default();
        all.push(&Signature::from_vector(&[0.0; 8]));
        let cosines: Vec<f32> = all.cosines(&Signature::from_vector(&[1.0; 8])).collect();
        assert_eq!(cosines, [0.0]);
    }
}
