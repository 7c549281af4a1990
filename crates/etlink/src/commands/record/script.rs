//! Scripts that set PYTHONPATH anew: their Python processes do not find the hook by it.

use std::ffi::OsString;
use std::path::Path;

/// Longer files are no scripts that somebody wrote, bytes.
const LONGEST: u64 = 1 << 20;

/// Names the line of a script among the words of the command that sets PYTHONPATH.
pub fn note(command: &[OsString]) -> Option<String> {
    command.iter().find_map(|word| {
        // the words after `sh -c` are no file but a script themselves
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
                "{place} sets PYTHONPATH anew, which is how the hook comes into Python: keep what \
                 it has, as in PYTHONPATH=mine:$PYTHONPATH"
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

/// Whether a line of a shell script sets the variable without what it had, or removes it.
fn sets_anew(line: &str) -> bool {
    // a comment behind a command may mention the variable
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
