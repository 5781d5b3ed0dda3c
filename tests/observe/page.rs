//! Pages of the guide and their headings.

use std::path::Path;

/// Whether there is such a page, with such a heading: `src/guide/redis.md#keys-and-memory`.
pub(crate) fn has(link: &str) -> bool {
    let (path, anchor) = link.split_once('#').expect("a heading");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let Ok(text) = std::fs::read_to_string(root.join(path)) else { return false };
    text.lines().filter_map(|line| line.strip_prefix("# ")).any(|heading| slug(heading) == anchor)
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
