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

pub(super) fn only(pattern: &str, captures: Vec<Box<str>>) -> Result<Box<str>, PatternError> {
    match <[_; 1]>::try_from(captures) {
        Ok([capture]) => Ok(capture),
        Err(none) if none.is_empty() => Err(PatternError::new(pattern, Problem::NoCapture)),
        Err(_) => Err(PatternError::new(pattern, Problem::Undecided)),
    }
}

pub(super) fn named(
    pattern: &str,
    captures: &[Box<str>],
    name: &str,
) -> Result<Box<str>, PatternError> {
    match captures.iter().filter(|capture| ***capture == *name).count() {
        1 => Ok(name.into()),
        0 => Err(PatternError::new(pattern, Problem::Unknown(name.into()))),
        _ => Err(PatternError::new(pattern, Problem::Repeated(name.into()))),
    }
}

pub(super) fn insert<V>(
    router: &mut matchit::Router<V>,
    pattern: &str,
    value: V,
) -> Result<(), PatternError> {
    if !pattern.starts_with('/') {
        return Err(PatternError::new(pattern, Problem::NotAbsolute));
    }
    // The matcher panics at its 26th capture.
    if pattern.matches('{').count() > 25 {
        return Err(PatternError::new(pattern, Problem::TooManyCaptures));
    }
    router
        .insert(pattern, value)
        .map_err(|refused| PatternError::new(pattern, Problem::Refused(refused)))
}

/// Why a text is not a [`PathPattern`](crate::PathPattern).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path pattern `{pattern}` {problem}")]
pub struct PatternError {
    pattern: Box<str>,
    pub(super) problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("does not begin with `/`")]
    NotAbsolute,
    #[error("has no capture like `{{id}}`")]
    NoCapture,
    #[error("has several captures and none is chosen")]
    Undecided,
    #[error("has more than 25 captures")]
    TooManyCaptures,
    #[error("has no capture `{0}`")]
    Unknown(Box<str>),
    #[error("has more than one capture `{0}`")]
    Repeated(Box<str>),
    #[error("is not accepted by the path matcher: {0}")]
    Refused(matchit::InsertError),
}

impl PatternError {
    fn new(pattern: &str, problem: Problem) -> Self {
        Self { pattern: pattern.into(), problem }
    }
}
