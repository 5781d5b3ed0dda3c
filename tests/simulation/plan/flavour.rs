//! Kinds of trouble.

/// Which kind of trouble a run has most of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// None but what a network does.
    Calm,
    /// Requests and replies get lost or late.
    Lossy,
    /// Several rebuilders, held up at every step.
    Zombies,
    /// Redis restarts, fails over and forgets.
    Forgetful,
    /// Keys go missing one by one.
    Evicting,
    /// All of that, but what only processes that reach Redis can make good.
    Wild,
}
