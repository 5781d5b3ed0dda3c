//! Bugs put in on purpose: what the simulation must find to be worth its answer.
//!
//! Production code has no switches for them. A bug in a script is a text replaced as the model loads
//! it; one in Rust is a text replaced in a copy of the sources, which is compiled once for all of them
//! (`build.rs`); one of the application is in the simulation's own.

pub(crate) mod hunt;
pub(crate) mod list;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use tokio::sync::oneshot;

use self::list::{BUGS, Edit};
use crate::scripts;

type Followers = Vec<oneshot::Sender<Box<dyn Any + Send>>>;

thread_local! {
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
    static ASKED: RefCell<BTreeMap<String, Followers>> = const { RefCell::new(BTreeMap::new()) };
}

/// Puts a bug in, by its place in the list, or takes it out again.
pub(crate) fn put_in(bug: Option<usize>) {
    CURRENT.set(bug);
}

/// The bug that is in.
pub(crate) fn current_index() -> Option<usize> {
    CURRENT.get()
}

/// Whether the bug at this place in the list is in. The changed sources ask.
pub(crate) fn is(index: usize) -> bool {
    CURRENT.get() == Some(index)
}

/// Whether the bug of this name is in.
pub(crate) fn is_in(name: &str) -> bool {
    CURRENT.get().is_some_and(|index| BUGS[index].name == name)
}

/// A script as the bug that is in would have it.
pub(crate) fn in_script(code: &str) -> String {
    let mut changed = code.to_owned();
    let edits = CURRENT.get().map_or(&[] as &[Edit], |index| BUGS[index].edits);
    for edit in edits {
        if let Edit::Script { file, from, to } = edit
            && scripts::is(code, file)
        {
            changed = changed.replacen(from, to, 1);
        }
    }
    changed
}

/// Lets all who ask the same at one time share the first one's answer. Only changed sources ask.
pub(crate) async fn shared<T: Copy + Send + 'static>(
    share: bool,
    question: String,
    answer: impl Future<Output = T>,
) -> T {
    if !share {
        return answer.await;
    }
    let follower = ASKED.with_borrow_mut(|asked| {
        asked.get_mut(&question).map(|followers| {
            let (tell, told) = oneshot::channel();
            followers.push(tell);
            told
        })
    });
    if let Some(told) = follower
        && let Ok(answer) = told.await
        && let Ok(answer) = answer.downcast::<T>()
    {
        return *answer;
    }
    let leader = Leader(question);
    ASKED.with_borrow_mut(|asked| asked.insert(leader.0.clone(), Vec::new()));
    let answer = answer.await;
    let followers = ASKED.with_borrow_mut(|asked| asked.remove(&leader.0)).unwrap_or_default();
    for follower in followers {
        follower.send(Box::new(answer)).ok();
    }
    answer
}

/// Leaves no followers waiting when it gives up.
struct Leader(String);

impl Drop for Leader {
    fn drop(&mut self) {
        ASKED.with_borrow_mut(|asked| asked.remove(&self.0));
    }
}
