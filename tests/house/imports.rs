//! Which file imports from which: `use` items, and paths in the code.

use std::collections::BTreeMap;

use crate::source::Source;

/// A file, by its place among the sources, that names something of another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Import {
    pub(crate) from: usize,
    pub(crate) line: usize,
    pub(crate) to: usize,
}

type Path = Vec<String>;

/// Finds all imports between files. What a file re-exports is imported from where it is.
pub(crate) fn imports(sources: &[Source]) -> Vec<Import> {
    let files: BTreeMap<&[String], usize> =
        sources.iter().enumerate().map(|(at, source)| (source.module.as_slice(), at)).collect();
    let reexports: BTreeMap<Path, Path> = sources.iter().flat_map(reexports).collect();
    let mut imports = Vec::new();
    for (from, source) in sources.iter().enumerate() {
        for (line, path) in named(source) {
            let path = resolved(path, &reexports);
            let to = (0..=path.len()).rev().find_map(|len| files.get(&path[..len]));
            // The crate's root holds no more than its modules and re-exports.
            if let Some(to) = to.filter(|to| **to != from && !sources[**to].module.is_empty()) {
                imports.push(Import { from, line, to: *to });
            }
        }
    }
    imports
}

/// Follows re-exports, of modules along the way too.
fn resolved(mut path: Path, reexports: &BTreeMap<Path, Path>) -> Path {
    for _ in 0..8 {
        let known = (1..=path.len()).find_map(|len| Some((len, reexports.get(&path[..len])?)));
        let Some((len, real)) = known else { break };
        path = [real.as_slice(), &path[len..]].concat();
    }
    path
}

/// What a file re-exports: the path here, and the path there.
fn reexports(source: &Source) -> Vec<(Path, Path)> {
    let mut found = Vec::new();
    for (_, item) in uses(source).into_iter().filter(|(_, item)| item.starts_with("pub")) {
        for (path, name) in leaves(&tree(&item)) {
            let real = absolute(source, &path, 0);
            let here = [source.module.as_slice(), &[name]].concat();
            if real != here {
                found.push((here, real));
            }
        }
    }
    found
}

/// All that a file names of the crate, with the lines: paths from the crate's root.
fn named(source: &Source) -> Vec<(usize, Path)> {
    let mut named = Vec::new();
    let mut code = source.code.clone();
    for (at, item) in uses(source) {
        let (line, depth) = (line_of(&source.code, at), inline_depth(&source.code, at));
        if !item.starts_with("pub") {
            named.extend(
                leaves(&tree(&item))
                    .into_iter()
                    .map(|(path, _)| (line, absolute(source, &path, depth))),
            );
        }
        code.replace_range(at..at + item.len(), &" ".repeat(item.len()));
    }
    for (at, _) in code.match_indices("::").filter(|(at, _)| begins_path(&code, *at)) {
        let start =
            code[..at].rfind(|l: char| !l.is_alphanumeric() && l != '_').map_or(0, |at| at + 1);
        let path: Path = code[start..]
            .split("::")
            .map_while(|part| {
                let name: String =
                    part.chars().take_while(|l| l.is_alphanumeric() || *l == '_').collect();
                Some(name).filter(|name| !name.is_empty())
            })
            .collect();
        let depth = inline_depth(&code, start);
        named.push((line_of(&code, start), absolute(source, &path, depth)));
    }
    named
}

/// Whether the word before these colons is `crate` or `super`, at a path's beginning.
fn begins_path(code: &str, at: usize) -> bool {
    ["crate", "super"].iter().any(|word| {
        code[..at].strip_suffix(word).is_some_and(|before| {
            !before.ends_with("::") && !before.ends_with(|l: char| l.is_alphanumeric() || l == '_')
        })
    })
}

/// The `use` items of a file, each from its visibility to its semicolon, and where it begins.
fn uses(source: &Source) -> Vec<(usize, String)> {
    let code = &source.code;
    let mut found = Vec::new();
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let item = line.trim_start();
        let visible = item.strip_prefix("pub").map(|rest| {
            let rest =
                rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |r| r.1);
            rest.trim_start()
        });
        if visible.unwrap_or(item).starts_with("use ") {
            let start = at + line.len() - item.len();
            let end = code[start..].find(';').expect("a `use` ends");
            found.push((start, code[start..=start + end].to_owned()));
        }
        at += line.len();
    }
    found
}

/// The tree of a `use` item, without spaces.
fn tree(item: &str) -> String {
    let tree = item.split_once("use ").expect("a `use` item").1.trim_end_matches(';');
    tree.replace(" as ", "@").split_whitespace().collect()
}

/// The paths of a tree, and the name each has here.
fn leaves(tree: &str) -> Vec<(Path, String)> {
    let Some((front, list)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once('@').unwrap_or((tree, ""));
        let mut path: Path = path.split("::").map(str::to_owned).collect();
        if path.len() > 1 && path.last().is_some_and(|last| last == "self" || last == "*") {
            path.pop();
        }
        let name = if alias.is_empty() { path.last().cloned() } else { Some(alias.to_owned()) };
        return vec![(path, name.unwrap_or_default())];
    };
    let list = list.strip_suffix('}').expect("a list ends");
    let mut depth = 0;
    let parts = list.split(|letter| {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.is_empty());
    parts.flat_map(|part| leaves(&format!("{front}{part}"))).collect()
}

/// A path from the crate's root; none of other crates. `depth` counts the modules within the file.
fn absolute(source: &Source, path: &[String], depth: usize) -> Path {
    let mut module = source.module.clone();
    let mut inner = depth;
    for (at, part) in path.iter().enumerate() {
        match part.as_str() {
            "crate" => return path[at + 1..].to_vec(),
            "self" => {}
            "super" if inner > 0 => inner -= 1,
            "super" => drop(module.pop()),
            _ if at > 0 => return [module, path[at..].to_vec()].concat(),
            // A child module, or another crate: no file has its name then.
            _ => return [module, path.to_vec()].concat(),
        }
    }
    module
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// How many modules within the file are around this place.
fn inline_depth(code: &str, at: usize) -> usize {
    let mut open = Vec::new();
    for (place, letter) in code[..at].char_indices() {
        match letter {
            '{' => {
                let head = code[..place].trim_end();
                let line = head.rsplit('\n').next().unwrap_or_default();
                open.push(line.split_whitespace().rev().nth(1) == Some("mod"));
            }
            '}' => drop(open.pop()),
            _ => {}
        }
    }
    open.into_iter().filter(|module| *module).count()
}
