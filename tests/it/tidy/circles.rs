//! No two files of the library name each other, directly or through others.
//!
//! A file names another by a path that begins with `crate`, `super` or `self`, or with a module that
//! it declares. A path that leads through a re-export counts for the file that has the item. The
//! re-export itself counts only where the file uses the name, too.

use std::collections::{BTreeMap, BTreeSet};

use super::{files, is_test_file, production, top_level};

/// Filters and sketches are looked at where they will be a crate of their own.
const LEFT_OUT: [&str; 5] = ["bin", "lib", "pages", "filter", "sketch"];

/// Circles that are left.
const LEFT: [&str; 2] = ["src/memtable/mod.rs", "src/memtable/walk.rs"];

/// The path of a module, from the root of the crate.
type Module = Vec<String>;

struct Source {
    file: String,
    module: Module,
    /// Without comments and tests.
    code: String,
    /// Paths of what it re-exports, by the last name of each.
    exports: BTreeMap<String, Vec<String>>,
}

fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for (path, text) in files("src", "rs") {
        let parts = path.iter().skip(1).map(|part| part.to_string_lossy());
        let mut module: Module = parts.map(|part| part.replace(".rs", "")).collect();
        if is_test_file(&path) || LEFT_OUT.contains(&module[0].as_str()) {
            continue;
        }
        module.retain(|part| part != "mod");
        let code: Vec<&str> = production(&text)
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        let (exports, code) = split_exports(&code.join("\n"));
        sources.push(Source {
            file: path.to_string_lossy().into_owned(),
            module,
            code,
            exports,
        });
    }
    sources
}

/// The re-exports of a file, and the rest of it.
fn split_exports(code: &str) -> (BTreeMap<String, Vec<String>>, String) {
    let (mut exports, mut rest) = (BTreeMap::new(), String::new());
    for statement in code.split_inclusive(';') {
        let visible = ["pub use ", "pub(crate) use ", "pub(super) use "];
        let found = visible
            .iter()
            .find_map(|start| statement.find(start).map(|at| at + start.len()));
        let Some(at) = found else {
            rest.push_str(statement);
            continue;
        };
        for path in expand(statement[at..].trim_end_matches(';')) {
            if let Some(name) = path.last().cloned() {
                exports.insert(name, path);
            }
        }
    }
    (exports, rest)
}

/// All paths of a use tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let (head, group) = match tree.find('{') {
        Some(at) => (&tree[..at], Some(&tree[at + 1..])),
        None => (tree, None),
    };
    let name = |part: &str| -> String {
        let part = part.trim();
        part.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let head: Vec<String> = head
        .split("::")
        .map(name)
        .filter(|part| !part.is_empty())
        .collect();
    let Some(group) = group else {
        return vec![head];
    };
    let joined = |part: &&str| !part.trim().is_empty();
    let parts = top_level(group).into_iter().filter(joined).flat_map(expand);
    parts
        .map(|part| {
            let part = part.into_iter().filter(|name| name != "self");
            head.iter().cloned().chain(part).collect()
        })
        .collect()
}

/// The trees of paths in the code that begin at one of these names.
fn trees<'a>(code: &'a str, begin: &str) -> Vec<&'a str> {
    let pattern = format!("{begin}::");
    let mut found = Vec::new();
    for (at, _) in code.match_indices(&pattern) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$' || c == ':') {
            continue;
        }
        let mut depth = 0;
        let end = code[at..].find(|c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            let is_part = c.is_alphanumeric() || "_:{}".contains(c);
            depth < 0 || depth == 0 && !(is_part)
        });
        found.push(&code[at..end.map_or(code.len(), |end| at + end)]);
    }
    found
}

fn has_word(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

struct Graph {
    sources: Vec<Source>,
    by_module: BTreeMap<Module, usize>,
}

impl Graph {
    fn new() -> Graph {
        let sources = sources();
        let modules = sources.iter().enumerate();
        Graph {
            by_module: modules
                .map(|(n, source)| (source.module.clone(), n))
                .collect(),
            sources,
        }
    }

    /// The file that has what a path names, beginning in a module.
    fn resolve(&self, from: &Module, path: &[String]) -> Option<usize> {
        let mut module = from.clone();
        let mut rest = path;
        while let [name, others @ ..] = rest {
            match name.as_str() {
                "crate" => module.clear(),
                "super" => drop(module.pop()),
                "self" => {}
                name => {
                    let mut child = module.clone();
                    child.push(name.to_owned());
                    if self.by_module.contains_key(&child) {
                        module = child;
                    } else {
                        let here = *self.by_module.get(&module)?;
                        return match self.sources[here].exports.get(name) {
                            Some(export) => self.resolve(&module, export),
                            None => Some(here),
                        };
                    }
                }
            }
            rest = others;
        }
        self.by_module.get(&module).copied()
    }

    fn names(&self, source: &Source) -> BTreeSet<usize> {
        let mut named = BTreeSet::new();
        let children: Vec<&str> = source
            .code
            .split_inclusive(';')
            .filter_map(|statement| statement.trim_end_matches(';').rsplit_once("mod "))
            .map(|(_, name)| name.trim())
            .filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
            .collect();
        // What it re-exports and uses itself.
        let uses: Vec<&str> = source
            .code
            .lines()
            .filter(|line| !line.trim_start().contains("mod "))
            .collect();
        let uses = uses.join("\n");
        for (name, path) in &source.exports {
            if has_word(&uses, name) {
                named.extend(self.resolve(&source.module, path));
            }
        }
        for begin in ["crate", "super", "self"].iter().chain(&children) {
            for tree in trees(&source.code, begin) {
                for path in expand(tree) {
                    named.extend(self.resolve(&source.module, &path));
                }
            }
        }
        named
    }

    /// For each file the files that it names, directly or through others.
    fn reach(&self) -> Vec<BTreeSet<usize>> {
        let direct: Vec<BTreeSet<usize>> = self
            .sources
            .iter()
            .map(|source| self.names(source))
            .collect();
        let mut all = Vec::new();
        for (start, first) in direct.iter().enumerate() {
            let mut reached: BTreeSet<usize> =
                first.iter().copied().filter(|n| *n != start).collect();
            let mut waiting: Vec<usize> = reached.iter().copied().collect();
            while let Some(next) = waiting.pop() {
                for &named in &direct[next] {
                    if named != next && reached.insert(named) {
                        waiting.push(named);
                    }
                }
            }
            all.push(reached);
        }
        all
    }
}

#[test]
fn use_trees_are_expanded() {
    let all: Vec<String> = expand("crate::a::{self, b::{C, d}, E as F}")
        .iter()
        .map(|path| path.join("::"))
        .collect();
    assert_eq!(
        all,
        [
            "crate::a",
            "crate::a::b::C",
            "crate::a::b::d",
            "crate::a::E"
        ]
    );
    assert_eq!(
        trees("x(super::y::Z::new(1))", "super"),
        ["super::y::Z::new"]
    );
    assert!(trees("$crate::x my_crate::y", "crate").is_empty());
    let (exports, rest) = split_exports("mod a;\npub use a::{B, c};\nuse d::E;\n");
    assert_eq!(exports.keys().collect::<Vec<_>>(), ["B", "c"]);
    assert!(rest.contains("use d::E") && !rest.contains("pub use"));
}

#[test]
fn no_files_name_each_other() {
    let graph = Graph::new();
    let reach = graph.reach();
    let edges: usize = reach.iter().map(BTreeSet::len).sum();
    assert!(edges > 500, "{edges} edges were found");
    let in_circles: Vec<&str> = (graph.sources.iter().zip(&reach).enumerate())
        .filter(|(n, (_, reached))| reached.contains(n))
        .map(|(_, (source, _))| source.file.as_str())
        .filter(|file| !LEFT.contains(file))
        .collect();
    assert!(
        in_circles.is_empty(),
        "files that name each other: {in_circles:#?}"
    );
}
