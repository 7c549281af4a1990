//! Detects scripts that overwrite PYTHONPATH, so that their Python processes do not find the hook
//! there.

use std::ffi::OsString;
use std::path::Path;

/// Size limit in bytes: longer files are not handwritten scripts.
const LONGEST: u64 = 1 << 20;

/// Returns a note on the line that overwrites PYTHONPATH, in a script among the words of the
/// command.
pub fn note(command: &[OsString]) -> Option<String> {
    command.iter().find_map(|word| {
        // the word after `sh -c` is a script, not a file
        let path = Path::new(word);
        let (number, line) = if path.is_file() {
            line_of(path)?
        } else {
            let text = word.to_str()?;
            (None, text.to_owned())
        };
        let place = number.map_or_else(
            || "the command".to_owned(),
            |number| format!("{}:{number}", path.display()),
        );
        sets_anew(&line).then(|| {
            format!(
                "{place} overwrites PYTHONPATH, which etlink needs to load its hook; keep the previous \
                 value, as in PYTHONPATH=mine:$PYTHONPATH"
            )
        })
    })
}

fn line_of(path: &Path) -> Option<(Option<usize>, String)> {
    if path.metadata().ok()?.len() > LONGEST {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.lines().enumerate();
    let (index, line) = lines.find(|(_, line)| sets_anew(line))?;
    Some((Some(index + 1), line.to_owned()))
}

/// Returns true if a line of a shell script drops the variable's value or removes the variable.
fn sets_anew(line: &str) -> bool {
    // a comment after a command may mention the variable
    let line = line.split(" #").next().unwrap_or(line).trim_start();
    if line.starts_with('#') {
        return false;
    }
    // `env -i` starts a program without any variables
    if line.contains("unset PYTHONPATH") || line.contains("env -i") {
        return true;
    }
    line.find("PYTHONPATH=").is_some_and(|start| {
        let value = &line[start + "PYTHONPATH=".len()..];
        !value.contains("$PYTHONPATH") && !value.contains("${PYTHONPATH")
    })
}

#[cfg(test)]
mod tests {
    use super::sets_anew;

    #[test]
    fn what_takes_the_hook_away_is_known() {
        for line in [
            "PYTHONPATH= python train.py",
            "export PYTHONPATH=/opt/mine",
            "  unset PYTHONPATH",
            "env -i python train.py",
        ] {
            assert!(sets_anew(line), "{line}");
        }
        for line in [
            "export PYTHONPATH=/opt/mine:$PYTHONPATH",
            "PYTHONPATH=\"a:${PYTHONPATH:-}\" python train.py",
            "# PYTHONPATH=",
            "python train.py # PYTHONPATH=",
        ] {
            assert!(!sets_anew(line), "{line}");
        }
    }
}
