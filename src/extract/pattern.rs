//! Reading a path pattern, and what can be wrong with one.

/// Returns the names of a pattern's captures, from left to right.
pub(super) fn captures(pattern: &str) -> Result<Vec<Box<str>>, PatternError> {
    let mut router = matchit::Router::new();
    insert(&mut router, pattern, ())?;
    // A pattern matches itself, read as a path: `{id}` is a segment like any other. So the matcher
    // tells the names, and its syntax is parsed in one place only.
    let itself = pattern.replace("{{", "{").replace("}}", "}");
    let found = router.at(&itself);
    Ok(found.iter().flat_map(|found| found.params.iter()).map(|(name, _)| name.into()).collect())
}

/// Returns the capture that is the id: the one of this name, or else the only one.
pub(super) fn chosen<'a>(
    pattern: &str,
    captures: &'a [Box<str>],
    name: Option<&str>,
) -> Result<&'a str, PatternError> {
    let mut fitting = captures.iter().filter(|capture| name.is_none_or(|name| ***capture == *name));
    let problem = match (fitting.next(), fitting.next(), name) {
        (Some(capture), None, _) => return Ok(capture),
        (None, _, None) => "has no capture like `{id}`".to_owned(),
        (None, _, Some(name)) => format!("has no capture `{name}`"),
        (Some(_), Some(_), None) => "has several captures and none is chosen".to_owned(),
        (Some(_), Some(_), Some(name)) => format!("has more than one capture `{name}`"),
    };
    Err(PatternError::new(pattern, problem))
}

pub(super) fn insert<V>(
    router: &mut matchit::Router<V>,
    pattern: &str,
    value: V,
) -> Result<(), PatternError> {
    if !pattern.starts_with('/') {
        return Err(PatternError::new(pattern, "does not begin with `/`"));
    }
    // The matcher panics at its 26th capture.
    if pattern.matches('{').count() > 25 {
        return Err(PatternError::new(pattern, "has more than 25 captures"));
    }
    router.insert(pattern, value).map_err(|refused| {
        PatternError::new(pattern, format!("is not accepted by the path matcher: {refused}"))
    })
}

/// Why a text is not a [`PathPattern`](crate::PathPattern).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path pattern `{pattern}` {problem}")]
pub struct PatternError {
    pattern: Box<str>,
    problem: Box<str>,
}

impl PatternError {
    fn new(pattern: &str, problem: impl Into<Box<str>>) -> Self {
        Self { pattern: pattern.into(), problem: problem.into() }
    }
}
