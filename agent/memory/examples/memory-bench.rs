//! Benchmark of the search over many notes, compared with a linear scan.
//!
//!     cargo run --release -p watchkeeper-memory --example memory-bench [NOTES [DIMENSIONS]]
//!
//! - It writes NOTES (default 100,000, 250 a day) into a folder, opens the memory, and asks each of
//!   20 questions ten times. A search checks every file for changes, as in the product.
//! - The scan lower-cases each note and searches it for each word of the question: the least that a
//!   search without an index does.
//! - With DIMENSIONS, such as 384, vectors are dense like a network's instead of hashed. Computing
//!   them takes no time here, so the rest is the search.
#![allow(clippy::print_stdout, reason = "a command's output")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_memory::embed::EmbedError;
use watchkeeper_memory::{Embedder, HashedEmbedder, Memory, Method, Query};

const A_DAY: usize = 250;
const WHO: &[&str] = &[
    "A driver",
    "Somebody",
    "A lorry",
    "A white van",
    "Two visitors",
    "A dog",
    "The guard",
    "A courier",
    "A forklift",
    "A cyclist",
    "A child",
    "The cleaner",
];
const DOES: &[&str] = &[
    "waits at",
    "leaves",
    "crosses",
    "enters",
    "blocks",
    "stands beside",
    "walks along",
    "turns round at",
    "drops a parcel at",
    "climbs over",
    "looks into",
    "stops in front of",
];
const WHERE: &[&str] = &[
    "the loading dock",
    "the main gate",
    "the parking lot",
    "the north fence",
    "hall B",
    "the reception",
    "the side door",
    "bay 2",
    "the weighbridge",
    "the shed",
    "the roof ladder",
    "the bicycle stand",
];
const HOW: &[&str] = &[
    "for four minutes",
    "without a helmet",
    "in heavy rain",
    "after dark",
    "with a pallet",
    "in an orange vest",
    "as on every Thursday",
    "while the barrier is open",
    "with a torch",
    "on the phone",
    "against the direction",
    "with the engine on",
];
const CAMERAS: &[&str] = &["dock", "gate", "yard", "fence", "hall-b", "lobby"];
const QUESTIONS: &[&str] = &[
    "who waits at the loading dock",
    "lorry blocks the gate",
    "stray hound in the yard",
    "person without hard hat",
    "visitor in orange vest",
    "truck at bay 2",
    "burglar with a torch at night",
    "deliveries on thursday",
    "someone climbing the boundary",
    "parcel left at reception",
    "bike in the car park",
    "plate 4471",
    "van with engine running",
    "cleaner in hall b",
    "forklift near the shed",
    "child on the ladder",
    "rain at the weighbridge",
    "guard on the phone",
    "wrong direction at the barrier",
    "pallet blocking the side door",
];

/// Embedder with dense vectors like a network's: the sum of a random vector per word.
#[derive(Debug)]
struct Dense(usize);

impl Embedder for Dense {
    fn name(&self) -> &'static str {
        "dense"
    }
    fn dimension(&self) -> usize {
        self.0
    }
    fn floor(&self) -> f32 {
        0.2
    }
    fn kept_as(&self) -> Option<&str> {
        Some("dense")
    }
    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        let mut vector = vec![0.0; self.0];
        for word in text.split_whitespace() {
            let seed = word.bytes().fold(7_u64, |seed, b| {
                seed.wrapping_mul(131).wrapping_add(b.into())
            });
            let mut random = fastrand::Rng::with_seed(seed);
            vector.iter_mut().for_each(|x| *x += random.f32() - 0.5);
        }
        let length = vector
            .iter()
            .map(|x| x * x)
            .sum::<f32>()
            .sqrt()
            .max(f32::MIN_POSITIVE);
        vector.iter_mut().for_each(|x| *x /= length);
        Ok(vector)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let notes: usize = std::env::args().nth(1).map_or(Ok(100_000), |n| n.parse())?;
    let dir = tempfile::tempdir()?;
    let texts = fill(dir.path(), notes)?;
    let embedder: Arc<dyn Embedder> = match std::env::args().nth(2) {
        Some(dimensions) => Arc::new(Dense(dimensions.parse()?)),
        None => Arc::new(HashedEmbedder::default()),
    };
    let mut memory = open(dir.path(), notes, &embedder)?;
    // A search reads files younger than 2 s again; a box in use has none.
    std::thread::sleep(Duration::from_millis(3_500));
    memory.refresh()?;

    let scan = times(|question| {
        let words: Vec<&str> = question.split_whitespace().collect();
        let hits = texts.iter().map(|text| {
            let text = text.to_lowercase();
            words.iter().filter(|word| text.contains(*word)).count()
        });
        Ok(hits.max().unwrap_or_default())
    })?;
    println!("linear scan  {}", line(&scan));
    let refresh = times(|_| {
        memory.refresh()?;
        Ok(0)
    })?;
    println!("check files  {}", line(&refresh));
    for (name, method) in [
        ("words", Method::Words),
        ("vectors", Method::Vectors),
        ("hybrid", Method::Hybrid),
    ] {
        let search = times(|question| {
            let mut query = Query::new(question);
            query.method = method;
            Ok(memory.search(query)?.len())
        })?;
        let ratio = median(&scan).as_secs_f64() / median(&search).as_secs_f64();
        println!(
            "{name:<12} {}, {ratio:.1} times as fast as the scan",
            line(&search)
        );
    }
    Ok(())
}

/// Opens the memory and embeds its notes, and prints how long that takes.
fn open(
    folder: &Path,
    notes: usize,
    embedder: &Arc<dyn Embedder>,
) -> Result<Memory, Box<dyn std::error::Error>> {
    let started = Instant::now();
    let mut memory = Memory::open(folder, Arc::clone(embedder))?;
    println!(
        "{} notes in {} files, read and indexed in {:.1?}; {} vectors of {} numbers",
        memory.len(),
        notes.div_ceil(A_DAY),
        started.elapsed(),
        embedder.name(),
        embedder.dimension()
    );
    if memory.waiting() > 0 {
        let started = Instant::now();
        while memory.embed_some(1_000) > 0 {}
        println!("vectors stored in {:.1?}", started.elapsed());
        let started = Instant::now();
        memory = Memory::open(folder, Arc::clone(embedder))?;
        println!(
            "opened with them in {:.1?}, {} still pending",
            started.elapsed(),
            memory.waiting()
        );
    }
    Ok(memory)
}

/// Writes `notes` notes into `folder`, 250 a day, and returns their words.
fn fill(folder: &Path, notes: usize) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut pick = |from: &'static [&'static str]| from[random.usize(..from.len())];
    let observations = folder.join("observations");
    fs::create_dir_all(&observations)?;
    let mut texts = Vec::new();
    let mut day = jiff::civil::date(2025, 10, 1);
    while texts.len() < notes {
        let mut page = format!("# Observations, {day}\n\n");
        for n in 0..A_DAY.min(notes - texts.len()) {
            let plate = texts.len() * 7_919 % 10_000;
            let text = format!(
                "{} {} {} {}, plate {plate}; {} {} {} before.",
                pick(WHO),
                pick(DOES),
                pick(WHERE),
                pick(HOW),
                pick(WHO),
                pick(DOES),
                pick(WHERE)
            );
            let (hour, minute) = (n / 60, n % 60);
            let camera = pick(CAMERAS);
            page +=
                &format!("## {day}T{hour:02}:{minute:02}:00Z @{camera} (model)\n\n> {text}\n\n");
            texts.push(text);
        }
        fs::write(observations.join(format!("{day}.md")), page)?;
        day = day.tomorrow()?;
    }
    Ok(texts)
}

/// Measures `ask` on each question ten times, and returns the sorted times.
fn times(
    mut ask: impl FnMut(&str) -> Result<usize, Box<dyn std::error::Error>>,
) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let mut all = Vec::new();
    for question in QUESTIONS.iter().cycle().take(10 * QUESTIONS.len()) {
        let begun = Instant::now();
        std::hint::black_box(ask(question)?);
        all.push(begun.elapsed());
    }
    all.sort();
    Ok(all)
}

fn median(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn line(sorted: &[Duration]) -> String {
    let late = sorted
        .get(sorted.len() * 99 / 100)
        .copied()
        .unwrap_or_default();
    format!("median {:.2?}, 99 of 100 below {late:.2?}", median(sorted))
}
