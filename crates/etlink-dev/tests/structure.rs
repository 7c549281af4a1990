//! How the code of the workspace hangs together: no circle of files, and public types with names of
//! their own.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a test that reads the sources"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Names that several public types may have: a crate's error, and what a command takes.
const SHARED_NAMES: [&str; 2] = ["Error", "Options"];

/// The sources of one crate: module path -> text without its tests. The root is the empty path.
type Modules = BTreeMap<Vec<String>, String>;

#[test]
fn public_type_names_are_unique() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, modules) in crates() {
        for (path, text) in &modules {
            for line in text.lines() {
                if let Some(type_name) = public_type(line) {
                    let place = format!("{name}::{}", path.join("::"));
                    places.entry(type_name.to_owned()).or_default().push(place);
                }
            }
        }
    }
    places.retain(|name, places| places.len() > 1 && !SHARED_NAMES.contains(&name.as_str()));
    assert!(places.is_empty(), "public types of one name: {places:#?}");
}

#[test]
fn no_file_uses_itself_by_way_of_others() {
    let mut circular: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, modules) in crates() {
        let uses: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> = modules
            .iter()
            .map(|(path, text)| (path, used_modules(path, text, &modules)))
            .collect();
        let files: Vec<String> = modules
            .keys()
            .filter(|path| reaches(path, &uses))
            .map(|path| path.join("::"))
            .collect();
        if !files.is_empty() {
            circular.insert(name, files);
        }
    }
    assert!(circular.is_empty(), "files in circles: {circular:#?}");
}

/// What two commands need stands beside them, or in the library.
#[test]
fn no_command_uses_another_command() {
    let all = crates();
    let (_, modules) = all
        .iter()
        .find(|(name, _)| name == "etlink")
        .expect("the command");
    let mut borrowed = vec![];
    for (path, text) in modules {
        let ["commands", own, ..] = &path.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
            continue;
        };
        // the table of the schemas of all reports
        if *own == "schemas" {
            continue;
        }
        for used in used_modules(path, text, modules) {
            let is_other = used.len() > 1 && used[0] == "commands" && used[1] != *own;
            if is_other {
                borrowed.push(format!("{} uses {}", path.join("::"), used.join("::")));
            }
        }
    }
    assert!(borrowed.is_empty(), "commands of commands: {borrowed:#?}");
}

#[test]
fn circles_and_types_are_recognised() {
    let files = [
        ("", "mod one;\nmod two;\npub use two::Two;\n"),
        ("one", "use crate::Two;\npub struct One;\n"),
        ("two", "use crate::one::One;\npub(crate) enum Hidden {}\n"),
    ];
    let modules: Modules = files
        .into_iter()
        .map(|(path, text)| (segments(path), text.to_owned()))
        .collect();
    let one = used_modules(&segments("one"), &modules[&segments("one")], &modules);
    assert_eq!(
        one,
        BTreeSet::from([segments("two")]),
        "through the re-export"
    );
    let two = used_modules(&segments("two"), &modules[&segments("two")], &modules);
    assert_eq!(two, BTreeSet::from([segments("one")]));
    assert_eq!(public_type("    pub struct Thing<'a> {"), Some("Thing"));
    assert_eq!(public_type("pub type Alias = u32;"), Some("Alias"));
    assert_eq!(public_type("pub(crate) enum Hidden {"), None);
}

fn segments(path: &str) -> Vec<String> {
    let parts = path.split("::").filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// The type that a line makes public.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let kinds = ["struct ", "enum ", "trait ", "type "];
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &rest[..end.unwrap_or(rest.len())];
    // the name that a macro gives is not known here
    (!name.is_empty()).then_some(name)
}

/// Whether a module comes back to itself over what it uses.
fn reaches(module: &[String], uses: &BTreeMap<&Vec<String>, BTreeSet<Vec<String>>>) -> bool {
    let mut seen: BTreeSet<&Vec<String>> = BTreeSet::new();
    let mut open: Vec<&Vec<String>> = uses[&module.to_vec()].iter().collect();
    while let Some(path) = open.pop() {
        if path == module {
            return true;
        }
        if seen.insert(path) {
            open.extend(&uses[path]);
        }
    }
    false
}

/// The modules whose items a module names by path, its own ancestors and descendants aside: a
/// parent may use its children, and they what it holds for all of them.
fn used_modules(path: &[String], text: &str, modules: &Modules) -> BTreeSet<Vec<String>> {
    let mut used = BTreeSet::new();
    for name in named_paths(text) {
        let Some(absolute) = absolute(path, &name, modules) else {
            continue;
        };
        let target = defining_module(absolute, modules, 0);
        let is_kin = path.starts_with(&target) || target.starts_with(path);
        if !is_kin && modules.contains_key(&target) {
            used.insert(target);
        }
    }
    used
}

/// `super::a::B` in module `c::d` -> `c::a::B`. `None` for other crates.
fn absolute(path: &[String], name: &[String], modules: &Modules) -> Option<Vec<String>> {
    let mut base = path.to_vec();
    let mut rest = name;
    match rest.first()?.as_str() {
        "crate" => (base, rest) = (vec![], &rest[1..]),
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        // a child module, or another crate
        child => {
            let mut own = path.to_vec();
            own.push(child.to_owned());
            if !modules.contains_key(&own) {
                return None;
            }
        }
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

/// The module that an item is in, found through re-exports of the modules on its path.
fn defining_module(item: Vec<String>, modules: &Modules, depth: usize) -> Vec<String> {
    let mut module = item.clone();
    while !modules.contains_key(&module) {
        module.pop();
    }
    let rest = &item[module.len()..];
    let Some(first) = rest.first().filter(|_| depth < 8) else {
        return module;
    };
    for name in used_paths(&modules[&module]) {
        if name.last() == Some(first)
            && let Some(mut target) = absolute(&module, &name, modules)
            && target != item
        {
            target.extend(rest[1..].iter().cloned());
            return defining_module(target, modules, depth + 1);
        }
    }
    module
}

/// All paths in the code: those of `use`, and those that begin with `crate::`, `super::` or
/// `self::`.
fn named_paths(text: &str) -> Vec<Vec<String>> {
    let mut paths = used_paths(text);
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let end = text[at..].find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            let path = &text[at..end.map_or(text.len(), |end| at + end)];
            paths.push(segments(path));
        }
    }
    paths
}

/// The paths of all `use` statements.
fn used_paths(text: &str) -> Vec<Vec<String>> {
    let mut paths = vec![];
    let mut rest = text;
    while let Some(at) = rest.find("use ") {
        let is_statement = rest[..at]
            .rsplit('\n')
            .next()
            .is_some_and(|before| before.trim().is_empty() || before.trim().starts_with("pub"));
        let statement = &rest[at + 4..];
        let end = statement.find(';').unwrap_or(statement.len());
        if is_statement {
            expand(&statement[..end], &mut vec![], &mut paths);
        }
        rest = &rest[at + 4..];
    }
    paths
}

/// `a::{b, c::d as e}` -> `a::b`, `a::c::d`.
fn expand(tree: &str, prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let length = prefix.len();
    if let Some((head, list)) = tree.split_once('{') {
        prefix.extend(segments(head.trim()));
        let list = list.trim_end().strip_suffix('}').unwrap_or(list);
        let (mut depth, mut start) = (0, 0);
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(&list[start..at], prefix, paths);
                    start = at + 1;
                }
                _ => {}
            }
        }
        expand(&list[start..], prefix, paths);
    } else if !tree.is_empty() {
        let name = tree.split(" as ").next().unwrap_or(tree);
        let own = segments(name.trim())
            .into_iter()
            .filter(|part| part != "self");
        // `self` alone is the module, at the head of a path it is kept
        let keeps_self = prefix.is_empty() && name.trim().starts_with("self::");
        prefix.extend(keeps_self.then(|| "self".to_owned()));
        prefix.extend(own);
        paths.push(prefix.clone());
    }
    prefix.truncate(length);
}

/// The crates of the workspace and their modules.
fn crates() -> Vec<(String, Modules)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<PathBuf> = fs::read_dir(&root)
        .expect("the crates")
        .map(|entry| entry.expect("a folder").path())
        .filter(|folder| folder.join("src").is_dir())
        .collect();
    folders.sort();
    assert!(folders.len() > 10, "crates of {}", root.display());
    let read = |folder: &PathBuf| {
        let name = folder.file_name().expect("a name").to_string_lossy();
        let mut modules = Modules::new();
        add_modules(&folder.join("src"), &[], &mut modules);
        (name.into_owned(), modules)
    };
    folders.iter().map(read).collect()
}

fn add_modules(folder: &Path, path: &[String], modules: &mut Modules) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let file = entry.expect("a file").path();
        let name = file
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let mut own = path.to_vec();
        if file.is_dir() && is_test(&name) {
            continue;
        }
        if file.is_dir() {
            own.push(name);
            add_modules(&file, &own, modules);
            continue;
        }
        if file.extension().is_none_or(|extension| extension != "rs") || is_test(&name) {
            continue;
        }
        if !["lib", "main", "mod"].contains(&name.as_str()) {
            own.push(name);
        }
        let text = fs::read_to_string(&file).expect("a source");
        let library = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or(&text);
        let code: Vec<&str> = library
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        // `lib.rs` and `main.rs` of one crate are both its root
        let root = modules.entry(own).or_default();
        root.push_str(&code.join("\n"));
        root.push('\n');
    }
}

/// Test modules are no part of the library.
fn is_test(name: &str) -> bool {
    ["tests", "testing"].contains(&name)
}
