//! A scripted server at the far end: whatever it does, and whichever caller gives up, each answer is the own one.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::*;

/// Runs, each of its own seed.
const RUNS: u64 = 400;
const CALLERS: u64 = 24;

/// Draws what happens (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// The reply to a command, which names it.
fn reply(seed: u64, name: &str) -> String {
    let kind = name.bytes().fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let bulk = format!("${}\r\n{name}\r\n", name.len());
    match Dice(kind).below(8) {
        0 => format!("+{name}\r\n"),
        1 => format!(":{}\r\n", name.replace('.', "0")),
        2 => format!("*3\r\n{bulk}$-1\r\n:1\r\n"),
        3 => format!("*2\r\n*1\r\n{bulk}*0\r\n"),
        4 => format!("-ERR {name}\r\n"),
        5 => format!("${}\r\n{name}\r\n-ERR\r\n$7\r\n\r\n", name.len() + 12),
        _ => bulk,
    }
}

/// How a server ends a connection, if it does.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Never,
    Closes,
    Endless,
    Garbage,
}

/// Answers the commands that come, in pieces of any size, until it has answered `most`.
async fn serve(mut end: DuplexStream, seed: u64, mut dice: Dice, ends: Ends, most: u64) {
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut answered = 0;
    loop {
        let mut piece = vec![0; 1 + dice.below(200) as usize];
        // It may have read all that there is.
        match timeout(Duration::from_millis(1), end.read(&mut piece)).await {
            Ok(Ok(0) | Err(_)) => return,
            Ok(Ok(read)) => input.extend_from_slice(&piece[..read]),
            Err(_) => {}
        }
        while let Some((name, rest)) = command(&input) {
            output.extend_from_slice(reply(seed, &name).as_bytes());
            input = rest;
            answered += 1;
            if ends != Ends::Never && answered > most {
                match ends {
                    Ends::Endless => output.extend_from_slice(b"$99999999\r\n"),
                    Ends::Garbage => output.extend_from_slice(b"?\r\n"),
                    Ends::Never | Ends::Closes => {
                        output.truncate(dice.below(output.len() as u64 + 1) as usize);
                    }
                }
                end.write_all(&output).await.ok();
                return;
            }
        }
        while !output.is_empty() && !dice.one_in(4) {
            let some = output.len().min(1 + dice.below(60) as usize);
            if end.write_all(&output[..some]).await.is_err() {
                return;
            }
            output.drain(..some);
            yield_now().await;
        }
    }
}

/// Takes the first command apart, if all of it has come; returns its one argument and what follows.
fn command(input: &[u8]) -> Option<(String, Vec<u8>)> {
    let text = std::str::from_utf8(input).expect("text");
    let begins = "*2\r\n$4\r\nECHO\r\n$";
    let rest = text.get(begins.len()..)?;
    assert!(text.starts_with(begins), "{text:?}");
    let (len, rest) = rest.split_once("\r\n")?;
    let len: usize = len.parse().expect("a length");
    let after = rest.get(len + 2..)?;
    Some((rest[..len].to_owned(), after.as_bytes().to_vec()))
}

/// One request, whose caller may give up; returns whether it was answered.
async fn ask(driver: Arc<Driver>, seed: u64, caller: u64, mut dice: Dice, sound: bool) -> bool {
    for _ in 0..dice.below(12) {
        yield_now().await;
    }
    let commands = dice.below(5);
    let names: Vec<String> = (0..commands).map(|at| format!("{caller}.{at}")).collect();
    let mut packed = Packed::default();
    for name in &names {
        packed.begin(2);
        packed.word(&[b"ECHO"]);
        packed.word(&[name.as_bytes()]);
    }
    let patience = [0, 1, 3, 10, 1_000_000][dice.below(5) as usize];
    let answer = tokio::select! {
        biased;
        answer = driver.send(packed) => answer,
        () = tokio::time::sleep(Duration::from_millis(patience)) => return false,
    };
    let expected: Vec<String> = names.iter().map(|name| reply(seed, name)).collect();
    let refused = expected.iter().find_map(|reply| reply.strip_prefix("-ERR "));
    match (answer, refused) {
        (Ok(replies), None) => {
            assert_eq!(
                replies,
                values(expected.concat().as_bytes()),
                "caller {caller}, seed {seed}"
            );
        }
        (Err(error), _) if error.is_io_error() => {
            assert!(!sound, "the server is sound: {error}, caller {caller}, seed {seed}");
        }
        (Err(error), Some(refused)) => {
            assert_eq!(error.detail(), Some(refused.trim_end()), "caller {caller}, seed {seed}");
        }
        (answer, refused) => panic!("{answer:?}, {refused:?}, caller {caller}, seed {seed}"),
    }
    true
}

/// All of one seed; returns how many were answered.
async fn run(seed: u64) -> usize {
    let mut dice = Dice(seed);
    let (near, far) = duplex(1 + dice.below(2_000) as usize);
    let ends = [Ends::Never, Ends::Never, Ends::Closes, Ends::Endless, Ends::Garbage];
    let ends = ends[dice.below(ends.len() as u64) as usize];
    let most = dice.below(40);
    let serving = tokio::spawn(serve(far, seed, Dice(!seed), ends, most));
    let driver = Arc::new(Driver::new(near));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let own = Dice(dice.below(u64::MAX));
        callers.spawn(ask(Arc::clone(&driver), seed, caller, own, ends == Ends::Never));
        if dice.one_in(3) {
            yield_now().await;
        }
    }
    // Time stands still while anything can go on, so that this is over at once where a caller hangs.
    let answered = timeout(Duration::from_secs(3_600), callers.join_all()).await;
    let answered = answered.unwrap_or_else(|_| panic!("a caller hangs, seed {seed}"));
    drop(driver);
    serving.await.unwrap_or_else(|error| panic!("{error}, seed {seed}"));
    answered.into_iter().filter(|answered| *answered).count()
}

#[tokio::test(start_paused = true)]
async fn whatever_the_server_does_and_whoever_gives_up_each_answer_is_the_own_one() {
    let mut answered = 0;
    for seed in 0..RUNS {
        answered += run(seed).await;
    }
    let of = (RUNS * CALLERS) as usize;
    assert!(answered > of / 3 && answered < of, "{answered} of {of}");
}
