//! Validates reports against their JSON Schemas.
//!
//! Knows the keywords that schemars writes, and rejects others. It is stricter than JSON Schema: an
//! object may only have fields named in its schema. A library for this would enable features of
//! crates that the command uses too, which would then be compiled separately for the tests and for
//! users.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Cached schemas, by name.
static SCHEMAS: Mutex<BTreeMap<String, Arc<Value>>> = Mutex::new(BTreeMap::new());

/// Keywords that do not constrain the value.
const NOTES: [&str; 6] = [
    "$schema",
    "$defs",
    "title",
    "description",
    "format",
    "default",
];

/// Returns the folder of the schemas.
pub fn schemas_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/json")
}

/// Checks a report against the schema it names.
pub fn check_report(report: &Value) -> Result<(), String> {
    let name = report["schema"]
        .as_str()
        .ok_or("the report names no schema")?;
    check_value(&format!("{name}.v{}", report["version"]), report)
}

/// Checks a value against a named schema, such as `etlink.replay.v1`.
pub fn check_value(name: &str, value: &Value) -> Result<(), String> {
    let root = read_schema(name)?;
    let root = root.as_object().ok_or("the schema is no object")?;
    let checker = Checker { root };
    let named = checker.check(root, value);
    let named = named.map_err(|error| format!("{name}: {error}"))?;
    expect_named(&named, value).map_err(|error| format!("{name}: {error}"))
}

fn read_schema(name: &str) -> Result<Arc<Value>, String> {
    let mut all = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(name) {
        return Ok(Arc::clone(known));
    }
    let path = schemas_folder().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
    let schema = serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
    let schema = Arc::new(schema);
    all.insert(name.to_owned(), Arc::clone(&schema));
    Ok(schema)
}

/// Fields of an object that its schema names; `None` for any.
type NamedFields<'s> = Option<BTreeSet<&'s str>>;

struct Checker<'s> {
    root: &'s Map<String, Value>,
}

impl<'s> Checker<'s> {
    /// Checks a value, and returns the fields that the schema names.
    fn check(
        &self,
        schema: &'s Map<String, Value>,
        value: &Value,
    ) -> Result<NamedFields<'s>, String> {
        let mut named = Some(BTreeSet::new());
        for (keyword, rule) in schema {
            let more = match keyword.as_str() {
                "$ref" => self.check(self.definition(rule)?, value)?,
                "anyOf" | "oneOf" => self.check_any(rule, value)?,
                "allOf" => self.check_all(rule, value)?,
                "properties" => self.check_properties(rule, value)?,
                "additionalProperties" => self.check_others(schema, rule, value)?,
                "patternProperties" => self.check_numbered(rule, value)?,
                "items" => self.check_items(rule, value)?,
                "prefixItems" => self.check_prefix(rule, value)?,
                note if NOTES.contains(&note) => Some(BTreeSet::new()),
                keyword => check_simple(keyword, rule, value)?,
            };
            named = named.zip(more).map(|(mut all, more)| {
                all.extend(more);
                all
            });
        }
        Ok(named)
    }

    /// Checks a standalone value: no enclosing schema names more fields.
    fn check_whole(&self, schema: &'s Value, value: &Value) -> Result<(), String> {
        match schema {
            Value::Bool(true) => Ok(()),
            Value::Object(schema) => expect_named(&self.check(schema, value)?, value),
            other => Err(format!("{other} is no schema")),
        }
    }

    fn definition(&self, reference: &Value) -> Result<&'s Map<String, Value>, String> {
        let name = reference
            .as_str()
            .and_then(|text| text.strip_prefix("#/$defs/"));
        let found = name.and_then(|name| self.root["$defs"].get(name)?.as_object());
        found.ok_or_else(|| format!("{reference} is not defined"))
    }

    fn check_any(&self, rule: &'s Value, value: &Value) -> Result<NamedFields<'s>, String> {
        let mut errors = vec![];
        for schema in list(rule)?.iter().filter_map(Value::as_object) {
            match self.check(schema, value) {
                // among several that fit, the one that names these fields
                Ok(named) if expect_named(&named, value).is_ok() => return Ok(named),
                Ok(named) => errors.push(Ok(named)),
                Err(error) => errors.push(Err(error)),
            }
        }
        let fitting = errors.iter().position(Result::is_ok);
        match fitting {
            Some(at) => errors.swap_remove(at),
            None => {
                let all: Vec<String> = errors.into_iter().filter_map(Result::err).collect();
                Err(format!("none of: {}", all.join("; ")))
            }
        }
    }

    fn check_all(&self, rule: &'s Value, value: &Value) -> Result<NamedFields<'s>, String> {
        let mut all = BTreeSet::new();
        for schema in list(rule)?.iter().filter_map(Value::as_object) {
            match self.check(schema, value)? {
                Some(named) => all.extend(named),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }

    fn check_properties(&self, rule: &'s Value, value: &Value) -> Result<NamedFields<'s>, String> {
        let mut named = BTreeSet::new();
        for (name, schema) in rule.as_object().into_iter().flatten() {
            named.insert(name.as_str());
            if let Some(field) = value.get(name) {
                let checked = self.check_whole(schema, field);
                checked.map_err(|error| format!("{name}: {error}"))?;
            }
        }
        Ok(Some(named))
    }

    fn check_others(
        &self,
        schema: &'s Map<String, Value>,
        rule: &'s Value,
        value: &Value,
    ) -> Result<NamedFields<'s>, String> {
        if rule == &Value::Bool(false) {
            return Ok(Some(BTreeSet::new()));
        }
        let named = schema.get("properties").and_then(Value::as_object);
        for (name, field) in value.as_object().into_iter().flatten() {
            if !named.is_some_and(|named| named.contains_key(name)) {
                let checked = self.check_whole(rule, field);
                checked.map_err(|error| format!("{name}: {error}"))?;
            }
        }
        Ok(None)
    }

    /// Checks an object whose fields are numbers, the only pattern in our schemas.
    fn check_numbered(&self, rule: &'s Value, value: &Value) -> Result<NamedFields<'s>, String> {
        let mut rules = rule.as_object().into_iter().flatten();
        let (Some((pattern, schema)), None) = (rules.next(), rules.next()) else {
            return Err(format!("{rule} has several patterns"));
        };
        for (name, field) in value.as_object().into_iter().flatten() {
            if !pattern.contains("\\d") || name.parse::<i64>().is_err() {
                return Err(format!("{name} does not fit {pattern}"));
            }
            let checked = self.check_whole(schema, field);
            checked.map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(None)
    }

    fn check_items(&self, rule: &'s Value, value: &Value) -> Result<NamedFields<'s>, String> {
        for (at, item) in value.as_array().into_iter().flatten().enumerate() {
            let checked = self.check_whole(rule, item);
            checked.map_err(|error| format!("{at}: {error}"))?;
        }
        Ok(Some(BTreeSet::new()))
    }

    fn check_prefix(&self, rule: &'s Value, value: &Value) -> Result<NamedFields<'s>, String> {
        let items = value.as_array().into_iter().flatten();
        for (schema, item) in list(rule)?.iter().zip(items) {
            self.check_whole(schema, item)?;
        }
        Ok(Some(BTreeSet::new()))
    }
}

fn list(rule: &Value) -> Result<&Vec<Value>, String> {
    rule.as_array().ok_or_else(|| format!("{rule} is no list"))
}

/// Rejects fields that no schema names: readers would ignore them, but the schema is incomplete.
fn expect_named(named: &NamedFields<'_>, value: &Value) -> Result<(), String> {
    let (Some(named), Some(fields)) = (named, value.as_object()) else {
        return Ok(());
    };
    match fields.keys().find(|name| !named.contains(name.as_str())) {
        Some(name) => Err(format!("no schema names {name:?}")),
        None => Ok(()),
    }
}

/// Checks keywords that need no other schema.
fn check_simple(
    keyword: &str,
    rule: &Value,
    value: &Value,
) -> Result<NamedFields<'static>, String> {
    let fits = match keyword {
        "type" => match rule {
            Value::Array(types) => types.iter().any(|name| has_type(name, value)),
            name => has_type(name, value),
        },
        "const" => rule == value,
        "enum" => list(rule)?.contains(value),
        "required" => list(rule)?.iter().all(|name| {
            let name = name.as_str().unwrap_or_default();
            value
                .as_object()
                .is_none_or(|fields| fields.contains_key(name))
        }),
        "minimum" => value.as_f64() >= rule.as_f64() || !value.is_number(),
        "maximum" => value.as_f64() <= rule.as_f64() || !value.is_number(),
        "minItems" => value
            .as_array()
            .is_none_or(|all| Some(all.len() as u64) >= rule.as_u64()),
        "maxItems" => value
            .as_array()
            .is_none_or(|all| Some(all.len() as u64) <= rule.as_u64()),
        other => return Err(format!("this test does not know the keyword {other}")),
    };
    if fits {
        return Ok(Some(BTreeSet::new()));
    }
    let shown: String = value.to_string().chars().take(200).collect();
    Err(format!("{shown} does not fit {keyword} {rule}"))
}

fn has_type(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_i64() || value.is_u64(),
        _ => false,
    }
}

#[test]
fn a_report_that_does_not_fit_is_refused() {
    let report = serde_json::json!({
        "schema": "etlink.schedule", "version": 1, "actions": ["RECORD"]
    });
    assert_eq!(check_report(&report), Ok(()));
    for (field, value) in [
        ("more", serde_json::json!(1)),
        ("actions", serde_json::json!(["SLEEP"])),
        ("actions", serde_json::json!("RECORD")),
        ("version", serde_json::json!(2)),
        ("schema", serde_json::json!("etlink.top")),
    ] {
        let mut other = report.clone();
        other[field] = value;
        assert!(check_report(&other).is_err(), "{other}");
    }
    let mut short = report;
    short.as_object_mut().expect("an object").remove("actions");
    assert!(check_report(&short).is_err(), "{short}");
}
