//! placeholder
pub(crate) fn current_index() -> Option<usize> { None }
pub(crate) fn in_script(code: &str) -> String { code.to_owned() }
pub(crate) fn seeded(_: &str) -> bool { false }
