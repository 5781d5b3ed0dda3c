//! Patterns as an application may write them, well or not.

use axum::http::{Request, Uri};
use bloom_guard::PathPattern;
use bloom_guard::extract::{Extraction, IdExtractor};
use percent_encoding::percent_decode_str;

/// Reads three patterns and a path, a line each. What is accepted finds what the matcher finds.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.split('\n');
    let [first, second, open, path] = std::array::from_fn(|_| lines.next().unwrap_or_default());
    let Ok(mut pattern) = PathPattern::<String>::new(first) else { return };
    named(first);

    let mut router = matchit::Router::new();
    router.insert(first, true).expect("the pattern was accepted");
    if !second.is_empty() {
        let Ok(more) = pattern.or(second) else { return };
        router.insert(second, true).expect("the pattern was accepted");
        pattern = more;
    }
    if !open.is_empty() {
        let Ok(less) = pattern.except(open) else { return };
        router.insert(open, false).expect("the route was accepted");
        pattern = less;
    }
    let Ok(uri) = path.parse::<Uri>() else { return };
    let path = uri.path().to_owned();
    let (parts, ()) = Request::get(uri).body(()).expect("a request").into_parts();
    let extraction = pattern.extract(&parts);
    match router.at(&path) {
        Ok(found) if *found.value => {
            // With several captures the name decides, which only the pattern knows.
            if let [(_, raw)] = found.params.iter().collect::<Vec<_>>()[..] {
                captured(&pattern, raw, &extraction);
            }
        }
        Ok(_) | Err(_) => assert_eq!(extraction, Extraction::Unguarded),
    }
}

/// One capture may be chosen by its name. Where braces are escaped, only the matcher knows it.
fn named(pattern: &str) {
    if pattern.matches(['{', '}']).count() == 2 {
        let name = pattern.split(['{', '}']).nth(1).unwrap_or_default();
        let name = name.strip_prefix('*').unwrap_or(name);
        assert!(PathPattern::<String>::capture(pattern, name).is_ok());
    }
}

fn captured(pattern: &PathPattern<String>, raw: &str, extraction: &Extraction) {
    match (percent_decode_str(raw).decode_utf8(), extraction) {
        (Ok(text), Extraction::Id(id)) => assert_eq!(text.as_bytes(), id.as_bytes()),
        (Ok(text), Extraction::Invalid(_)) => assert!(pattern.canonical(&text).is_err()),
        (Err(_), Extraction::Invalid(_)) => {}
        (_, Extraction::Unguarded) => panic!("a capture is passed over"),
        (Err(_), Extraction::Id(_)) => panic!("an id that is no text"),
        _ => panic!("something else: {extraction:?}"),
    }
}
