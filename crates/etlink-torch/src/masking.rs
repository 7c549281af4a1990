//! Keeps secrets of a command line out of the manifest. `python/etlink_torch/masking.py` has the
//! same rules, for scripts that write the manifest themselves.

use regex::{Captures, Error, Regex};
use std::sync::LazyLock;

/// Replacement for a secret.
const MASK: &str = "***";

/// Names of secrets, after [`Patterns::hump`] has split them into words.
const SECRET: &str = r"(?i)(?:passw|passphrase|credential|secret|authoriz)|(?:key|keys|token)(?:[^a-z]|$)|(?:^|[^a-z])(?:auth|pass|pwd)(?:[^a-z]|$)";

/// Suffixes of names that give only the location of a secret.
const PLACE: &str = r"(?i)(?:file|path|dir)$";

/// Word boundary in a name such as `hfToken`.
const HUMP: &str = r"([a-z0-9])([A-Z])";

/// User and password in a URL.
const USER: &str = r#"(://)[^/\s'"@]+@"#;

/// A variable, field or header: name, separator, value.
const ASSIGNED: &str =
    r#"([\w.+-]+)(["']?\s*[:=]\s*)("[^"]*"|'[^']*'|(?:(?i:bearer|basic|token)\s+)?[^\s&;,"'{}]+)"#;

/// An option inside a longer text: name, separator, value.
const OPTION: &str = r#"(-[\w-]+)(\s+)("[^"]*"|'[^']*'|[^\s&;"'-][^\s;"']*)"#;

static PATTERNS: LazyLock<Result<Patterns, Error>> = LazyLock::new(Patterns::new);

struct Patterns {
    secret: Regex,
    place: Regex,
    hump: Regex,
    user: Regex,
    assigned: Regex,
    option: Regex,
}

/// Returns the words of a command line with `***` for the values of options and variables whose
/// names look secret, and for users and passwords of URLs.
#[must_use]
pub fn masked_command(words: &[String]) -> Vec<String> {
    let Ok(patterns) = &*PATTERNS else {
        return words.iter().map(|_| MASK.to_owned()).collect();
    };
    let mut masked = Vec::with_capacity(words.len());
    let mut is_value = false;
    for word in words {
        let is_option = word.starts_with('-');
        if is_value && !is_option {
            masked.push(MASK.to_owned());
            is_value = false;
            continue;
        }
        is_value = is_option && !word.contains('=') && patterns.is_secret(word);
        masked.push(patterns.masked_text(word));
    }
    masked
}

impl Patterns {
    fn new() -> Result<Patterns, Error> {
        Ok(Patterns {
            secret: Regex::new(SECRET)?,
            place: Regex::new(PLACE)?,
            hump: Regex::new(HUMP)?,
            user: Regex::new(USER)?,
            assigned: Regex::new(ASSIGNED)?,
            option: Regex::new(OPTION)?,
        })
    }

    fn masked_text(&self, text: &str) -> String {
        let mut masked = self
            .user
            .replace_all(text, format!("${{1}}{MASK}@"))
            .into_owned();
        for pattern in [&self.assigned, &self.option] {
            let value = |found: &Captures<'_>| self.masked_value(found);
            masked = pattern.replace_all(&masked, value).into_owned();
        }
        masked
    }

    fn masked_value(&self, found: &Captures<'_>) -> String {
        let (name, between) = (&found[1], &found[2]);
        if self.is_secret(name) {
            format!("{name}{between}{MASK}")
        } else {
            found[0].to_owned()
        }
    }

    /// Returns true if the value of this name must be masked, such as `--api-key` or `hfToken`.
    fn is_secret(&self, name: &str) -> bool {
        let spelled = self.hump.replace_all(name, "${1}_${2}");
        self.secret.is_match(&spelled) && !self.place.is_match(&spelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_command_lines_are_masked() {
        let cases = include_str!("masking/cases.json");
        let cases: Vec<[Vec<String>; 2]> = serde_json::from_str(cases).expect("cases");
        for [words, masked] in cases {
            assert_eq!(masked_command(&words), masked);
        }
    }
}
