//! What happened in a run: always as a hash, and in words when asked for.

use std::cell::RefCell;

thread_local! {
    static TRACE: RefCell<Trace> = const { RefCell::new(Trace { hash: 0, lines: None }) };
}

struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

/// Begins a run's trace.
pub(crate) fn begin(in_words: bool) {
    let lines = in_words.then(Vec::new);
    TRACE.with_borrow_mut(|trace| *trace = Trace { hash: 0xCBF2_9CE4_8422_2325, lines });
}

/// Takes bytes into the hash.
pub(crate) fn mix(bytes: &[u8]) {
    TRACE.with_borrow_mut(|trace| {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let mixed = (trace.hash ^ u64::from_be_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            trace.hash = mixed ^ (mixed >> 29);
        }
    });
}

/// Writes a line, if the trace is in words.
pub(crate) fn line(text: impl FnOnce() -> String) {
    TRACE.with_borrow_mut(|trace| {
        if let Some(lines) = &mut trace.lines {
            lines.push(text());
        }
    });
}

/// Ends the trace: its hash and its lines.
pub(crate) fn end() -> (u64, Vec<String>) {
    TRACE.with_borrow_mut(|trace| (trace.hash, trace.lines.take().unwrap_or_default()))
}
