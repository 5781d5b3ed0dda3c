//! The raw targets that are always asked for, from `corpus.txt`.

/// Returns the kept targets.
pub fn targets() -> Vec<Vec<u8>> {
    let lines = include_str!("corpus.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with("# ")).map(raw).collect()
}

/// Reads a line's escapes: `\xNN` and `\\`.
fn raw(line: &str) -> Vec<u8> {
    let mut parts = line.split('\\');
    let mut raw = parts.next().unwrap_or_default().as_bytes().to_vec();
    while let Some(part) = parts.next() {
        if let Some((byte, rest)) = part.strip_prefix('x').and_then(|hex| hex.split_at_checked(2)) {
            raw.push(u8::from_str_radix(byte, 16).expect("two hexadecimal digits"));
            raw.extend(rest.as_bytes());
        } else {
            assert!(part.is_empty(), "{line}: an escape that is none");
            raw.push(b'\\');
            raw.extend(parts.next().unwrap_or_default().as_bytes());
        }
    }
    raw
}
