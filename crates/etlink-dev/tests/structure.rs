//! Checks the structure of the workspace: no cycles between files, and unique names of public
//! types.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a test that reads the sources"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Names that several public types may share: a crate's error, and a command's options.
const SHARED_NAMES: [&str; 2] = ["Error", "Options"];

/// Sources of one crate: module path -> text without its tests. The root is the empty path.
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

/// Code that two commands need belongs next to them, or into the library.
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
        // the table of all reports' schemas
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

/// Nobody would miss the tests of a target that `test = false` leaves out.
#[test]
fn targets_without_a_test_program_have_no_tests() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut untested, mut forgotten) = (0, vec![]);
    for entry in fs::read_dir(all).expect("the crates") {
        let folder = entry.expect("a folder").path();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        for section in manifest.split("\n[") {
            if section.lines().any(|line| line == "test = false") {
                let is_library = section.starts_with("lib]");
                let root = if is_library { "lib.rs" } else { "main.rs" };
                let sources = folder.join("src");
                add_tested(&sources.join(root), &sources, &mut forgotten);
                untested += 1;
            }
        }
    }
    assert!(untested > 3, "{untested}");
    assert!(forgotten.is_empty(), "tests that never run: {forgotten:#?}");
}

/// Adds the files with tests among a file and its modules, which are in `folder`.
fn add_tested(file: &Path, folder: &Path, tested: &mut Vec<PathBuf>) {
    let text = fs::read_to_string(file).expect("a source");
    if text.contains("#[test]") {
        tested.push(file.to_owned());
    }
    for line in text.lines() {
        let name = line
            .split_once("mod ")
            .and_then(|(_, name)| name.strip_suffix(';'));
        let Some(name) = name else { continue };
        let below = folder.join(name);
        for file in [folder.join(format!("{name}.rs")), below.join("mod.rs")] {
            if file.is_file() {
                add_tested(&file, &below, tested);
            }
        }
    }
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

/// Returns the type that a line makes public.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let kinds = ["struct ", "enum ", "trait ", "type "];
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &rest[..end.unwrap_or(rest.len())];
    // names generated by a macro are unknown here
    (!name.is_empty()).then_some(name)
}

/// Returns true if a module reaches itself through its dependencies.
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

/// Returns the modules whose items a module names by path, except its own ancestors and
/// descendants: a parent may use its children, and children may use items the parent keeps for all
/// of them.
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

/// Resolves `super::a::B` in module `c::d` to `c::a::B`; `None` for other crates.
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
        // a child module or another crate
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

/// Returns the module that defines an item, following re-exports on its path.
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

/// Returns all paths in the code: those in `use`, and paths that begin with `crate::`, `super::` or
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

/// Returns the paths of all `use` statements.
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

/// Expands `a::{b, c::d as e}` to `a::b`, `a::c::d`.
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
        // `self` alone is the module; at the head of a path it is kept
        let keeps_self = prefix.is_empty() && name.trim().starts_with("self::");
        prefix.extend(keeps_self.then(|| "self".to_owned()));
        prefix.extend(own);
        paths.push(prefix.clone());
    }
    prefix.truncate(length);
}

/// Returns the crates of the workspace with their modules.
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

/// Returns true for test modules, which are not part of the library.
fn is_test(name: &str) -> bool {
    ["tests", "testing"].contains(&name)
}
