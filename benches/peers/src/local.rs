//! The look-up in this process beside fastbloom's, from an id's text to the answer.
//!
//! Ours: a keyed SipHash-2-4-128 of the text, MurmurHash3 of that digest, one cache line. fastbloom: its default hasher,
//! SipHash-1-3, and as many cache lines as bits it looks at. Both filters take inserts meanwhile. With the hash given,
//! ours still makes its positions from the digest, as fastbloom does from its hash.

use std::hint::black_box;
use std::time::Instant;

use fastbloom::AtomicBloomFilter;

use crate::contender::OURS;
use crate::filter::{Filter, Membership, Sizing};
use crate::id::{Digest, Digester, Id, SecretKey};
use crate::ids::{Kind, Random};
use crate::report::{Report, Rounds, grouped, median};
use crate::scale::{RATE, Scale};

const FASTBLOOM: &str = "fastbloom";
const LOOK_UP: &str = "look-up in process";
/// What the name of the share of absent ids that are found ends with.
const FOUND: &str = ", found";
/// Ids that are looked up in a round.
const SAMPLE: u64 = 1 << 18;
/// Look-ups that are timed together.
const CHUNK: usize = 1 << 10;
/// One in so many of the ids is looked up before, too.
const WARM_UP: usize = 4;

pub fn run(scale: &Scale, report: &mut Report) {
    let digester = Digester::new(&SecretKey::new([7; 16]), "users");
    for ids in scale.local_ids {
        let ours = Filter::new(Sizing::new(ids, RATE).expect("within bounds").geometry(1));
        let theirs = AtomicBloomFilter::with_false_pos(RATE).expected_items(ids as usize);
        each_id(ids, |id| ours.insert(&digester.digest(&id)));
        each_id(ids, |id| {
            theirs.insert(id.as_bytes());
        });
        let mut rounds = Rounds::default();
        rounds.note(&size_name(ids), OURS, "MB", ours.byte_len() as f64 / 1e6);
        rounds.note(&size_name(ids), FASTBLOOM, "MB", theirs.num_bits() as f64 / 8e6);
        for round in 0..scale.local_rounds as u64 {
            for kind in Kind::BOTH {
                let sample = Sample::draw(ids, kind, round, &digester, &theirs);
                sample.look_up(&ours, &theirs, &digester, &mut rounds);
            }
        }
        let conditions = format!(
            "{} ids at {RATE}, one thread, {} random ids a round, median of {} rounds",
            grouped(ids as f64),
            grouped(SAMPLE as f64),
            scale.local_rounds
        );
        report.add(rounds.medians(&conditions));
        print(ids, report);
    }
}

/// Calls back with each id, on all cores.
fn each_id(ids: u64, call: impl Fn(Id) + Sync) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for core in 0..cores as u64 {
            let call = &call;
            let own = (core..ids).step_by(cores);
            scope.spawn(move || own.for_each(|id| call(text(id))));
        }
    });
}

fn text(id: u64) -> Id {
    Id::display(&id).expect("short")
}

/// Ids to look up, and their hashes.
struct Sample {
    name: String,
    kind: Kind,
    ids: Vec<Id>,
    digests: Vec<Digest>,
    hashes: Vec<u64>,
}

impl Sample {
    fn draw(
        ids: u64,
        kind: Kind,
        seed: u64,
        digester: &Digester,
        theirs: &AtomicBloomFilter,
    ) -> Self {
        let mut random = Random::new(seed);
        let sample: Vec<Id> = (0..SAMPLE).map(|_| text(kind.draw(ids, &mut random))).collect();
        Self {
            name: name(ids, kind),
            kind,
            digests: sample.iter().map(|id| digester.digest(id)).collect(),
            hashes: sample.iter().map(|id| theirs.source_hash(id.as_bytes())).collect(),
            ids: sample,
        }
    }

    fn look_up(
        &self,
        ours: &Filter,
        theirs: &AtomicBloomFilter,
        digester: &Digester,
        rounds: &mut Rounds,
    ) {
        let possible = |digest: &Digest| ours.lookup(digest) == Membership::Possible;
        let given = format!("{}, hash given", self.name);
        let mut note = |name: &str, contender, (nanoseconds, found): (f64, f64)| {
            rounds.note(name, contender, "ns", nanoseconds);
            match self.kind {
                Kind::Present => assert_eq!(found, 1.0, "{contender}: an id that exists"),
                Kind::Absent => {
                    rounds.note(&format!("{name}{FOUND}"), contender, "share", found);
                }
            }
        };
        note(&self.name, OURS, timed(&self.ids, |id| possible(&digester.digest(id))));
        note(&self.name, FASTBLOOM, timed(&self.ids, |id| theirs.contains(id.as_bytes())));
        note(&given, OURS, timed(&self.digests, possible));
        note(&given, FASTBLOOM, timed(&self.hashes, |hash| theirs.contains_hash(*hash)));
    }
}

/// Returns the nanoseconds of one look-up, and the share that found something. The time is the median of short chunks,
/// most of which nobody interrupts, however busy the machine is.
fn timed<T>(sample: &[T], look_up: impl Fn(&T) -> bool) -> (f64, f64) {
    // What was done before is not to decide what the caches hold.
    for id in &sample[..sample.len() / WARM_UP] {
        black_box(look_up(id));
    }
    let mut found = 0;
    let chunks = sample.chunks_exact(CHUNK).map(|chunk| {
        let begun = Instant::now();
        found += chunk.iter().filter(|id| look_up(black_box(id))).count();
        begun.elapsed().as_nanos() as f64 / CHUNK as f64
    });
    (median(chunks.collect()), found as f64 / sample.len() as f64)
}

/// The figure's name.
fn name(ids: u64, kind: Kind) -> String {
    format!("{LOOK_UP}, {} ids, {}", grouped(ids as f64), kind.as_str())
}

/// Whether the figure of this name is a time.
pub fn is_time(name: &str) -> bool {
    name.starts_with(LOOK_UP) && !name.ends_with(FOUND)
}

fn size_name(ids: u64) -> String {
    format!("size in process, {} ids", grouped(ids as f64))
}

fn print(ids: u64, report: &Report) {
    let column = |name: String, header: &str| (name, header.to_owned());
    let kinds =
        |suffix: &str| Kind::BOTH.map(|kind| column(name(ids, kind) + suffix, kind.as_str()));
    let of = format!("{} ids", grouped(ids as f64));
    report.table(&format!("look-up, {of}"), &kinds(""));
    report.table(&format!("look-up, {of}, hash given"), &kinds(", hash given"));
    report
        .table(&format!("absent ids found, {of}"), &[column(name(ids, Kind::Absent) + FOUND, "")]);
    report.table(&format!("size, {of}"), &[column(size_name(ids), "")]);
}
