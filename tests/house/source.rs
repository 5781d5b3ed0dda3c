//! The sources, without comments, strings and tests.

use std::fs;
use std::path::Path;

/// One file of the crate.
pub(crate) struct Source {
    /// Its path from `src/`.
    pub(crate) path: String,
    /// Its modules' names: none for the crate's root.
    pub(crate) module: Vec<String>,
    /// Its text, line for line; comments, strings and tests are blank.
    pub(crate) code: String,
}

/// Reads all files but those that are tests.
pub(crate) fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let mut sources = Vec::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("the sources") {
            let path = entry.expect("a file").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a text");
                let path = path.strip_prefix(&root).expect("it is in there");
                sources.push(Source::new(path.to_string_lossy().replace('\\', "/"), &text));
            }
        }
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    sources.retain(|source| !source.module.iter().any(|module| module == "tests"));
    assert!(sources.len() > 50, "the sources are not found: {}", sources.len());
    sources
}

impl Source {
    fn new(path: String, text: &str) -> Self {
        let mut module: Vec<String> =
            path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if matches!(module.last().map(String::as_str), Some("mod" | "lib")) {
            module.pop();
        }
        Self { path, module, code: without_tests(without_text(text)) }
    }

    /// The room it belongs to.
    pub(crate) fn room(&self) -> &str {
        self.module.first().map_or("lib", String::as_str)
    }

    /// The first line that names something of another crate.
    pub(crate) fn names_crate(&self, name: &str) -> Option<usize> {
        let path = format!("{name}::");
        let (at, _) = self.code.match_indices(&path).find(|(at, _)| {
            // `store::redis` is a room.
            let before = self.code[..*at].trim_end_matches("::");
            !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
        })?;
        Some(self.code[..at].matches('\n').count() + 1)
    }
}

/// How long a block is that begins here, with its braces.
fn block(text: &str) -> usize {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Blanks comments, strings and letters in quotes.
fn without_text(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let after_word =
            code.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '_');
        let len = match letter {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' => quoted(rest, '"'),
            'r' if !after_word => raw(rest),
            // A lifetime has no second quote after its first letter.
            '\'' if rest[1..].starts_with('\\') || rest.chars().nth(2) == Some('\'') => {
                quoted(rest, '\'')
            }
            _ => 0,
        };
        if len == 0 {
            code.push(letter);
            rest = &rest[letter.len_utf8()..];
        } else {
            code.extend(rest[..len].chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
            rest = &rest[len..];
        }
    }
    code
}

/// The length of a text in quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a raw string, if one begins here.
fn raw(text: &str) -> usize {
    let hashes = text[1..].chars().take_while(|letter| *letter == '#').count();
    if !text[1 + hashes..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let begin = hashes + 2;
    text[begin..].find(&end).map_or(text.len(), |at| begin + at + end.len())
}

/// Blanks what is compiled for tests only.
fn without_tests(mut code: String) -> String {
    const MARK: &str = "#[cfg(test)]";
    while let Some(at) = code.find(MARK) {
        let rest = &code[at..];
        let open = rest.find('{').unwrap_or(rest.len());
        let end = match rest.find(';') {
            Some(end) if end < open => end + 1,
            _ => open + block(&rest[open..]),
        };
        let blank =
            rest[..end].chars().map(|l| if l == '\n' { '\n' } else { ' ' }).collect::<String>();
        code.replace_range(at..at + end, &blank);
    }
    code
}
