//! Checks commands recommended in outputs: they exist, and work on the same path.

use crate::tool::{Tool, pairs};
use std::collections::BTreeSet;

/// One recording of each kind, and a folder of several ranks.
const RECORDINGS: [&str; 6] = [
    "conv-2.15.0/kineto_trace_0.json.gz",
    "conv-2.15.0",
    "ddp2-2.15.0",
    "ddp2_gloo-2.3.1",
    "loader-2.15.0",
    "tpdp4-2.15.0",
];

/// Commands whose output is searched for advice.
const COMMANDS: [&str; 4] = ["findings", "analyze", "ranks", "top"];

/// Returns the commands after `etlink `, including the options after the first word.
fn advised(text: &str) -> BTreeSet<String> {
    // Tables are as wide as the terminal, so a line can end inside a command.
    let text = text.replace("\n", " ");
    let mut commands = BTreeSet::new();
    for (_, rest) in text
        .match_indices("etlink ")
        .map(|(at, found)| text.split_at(at + found.len()))
    {
        let mut words = rest.split([' ', '`', ';', ',', ')', ':', '.']);
        let Some(command) = words.next().filter(|word| is_word(word)) else {
            continue;
        };
        let options = words.take_while(|word| word.starts_with("--"));
        let words: Vec<&str> = std::iter::once(command).chain(options).collect();
        commands.insert(words.join(" "));
    }
    commands
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_lowercase())
}

#[test]
fn what_is_advised_works() {
    let tool = Tool::new();
    let mut tried = BTreeSet::new();
    for recording in RECORDINGS {
        let path = pairs().join(recording);
        for command in COMMANDS {
            let ran = tool.run(&format!("{command} {}", path.display()));
            // Some commands reject some paths; then the error may recommend another one.
            let text = format!("{} {}", ran.stdout, ran.stderr);
            for advice in advised(&text) {
                let own = advice.split(' ').next() == Some(command);
                assert!(
                    !own || ran.code > 1,
                    "{command} {recording} advises itself: {text}"
                );
                if tried.insert((advice.clone(), recording)) {
                    let line = format!("{advice} {}", path.display());
                    let again = tool.run(&line);
                    assert!(
                        again.code < 2,
                        "{command} {recording}: {line}: {}",
                        again.stderr
                    );
                }
            }
        }
    }
    assert!(tried.len() > 3, "{tried:?}");
}
